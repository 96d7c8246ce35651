"""The binding family: a task on its way to its node, and what the API server answered.

Owns these events. Must not know the binder nor audit logs. Called through `volcano.events.catalog`.

All stand in the pod's stream. BindRequested is an intent: in the log before the request goes out; its outcome names it
by position (`intent`). From an audit log both are inferred from one line, which `audit_id` names, with `intent` None.
"""

from __future__ import annotations

import msgspec

from volcano.events.base import Amounts, DomainEvent


class BindQueued(DomainEvent, frozen=True):
    """The session handed the task to the bind flow; `queued` tasks wait there, this one included."""

    job: str
    node: str
    request: Amounts = msgspec.field(default_factory=dict)
    attempt: int = 1
    queued: int = 0


class BindRequested(DomainEvent, frozen=True):
    """POST pods/binding. `batch` numbers the flush that it went out with; `user` and `user_agent` from audits only."""

    node: str
    job: str = ""
    attempt: int = 1
    batch: int | None = None
    audit_id: str = ""
    user: str = ""
    user_agent: str = ""


class BindSucceeded(DomainEvent, frozen=True):
    """The pod has its node. `answer_lost`: no answer came, but a later read showed the pod bound there."""

    node: str
    code: int = 201
    attempt: int = 1
    answer_lost: bool = False
    intent: int | None = None
    audit_id: str = ""


class BindFailed(DomainEvent, frozen=True):
    """The API server refused (`code`, with the Status's `reason` and `message`), or gave no answer (`code` 0,
    `answer_lost`: the bind may have happened). `bound_to`: the node that the pod is on already, when the answer or a
    later read says so. `retry_after_seconds`: the server's wish, when throttled."""

    node: str
    code: int
    reason: str = ""
    message: str = ""
    attempt: int = 1
    answer_lost: bool = False
    bound_to: str = ""
    retry_after_seconds: float | None = None
    intent: int | None = None
    audit_id: str = ""


class PodConditionPatched(DomainEvent, frozen=True):
    """A condition of the pod, or its nominated node, was written; it differed from what the cache held."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    nominated_node: str = ""
    new_resource_version: str = ""


class PodConditionPatchFailed(DomainEvent, frozen=True):
    """The write of that condition was refused: `code` 0 when no answer came, `error` what the server said. `attempt`
    counts the refusals in a row, and for `delay_seconds` it is not sent again, but for the condition of a failed bind,
    which each failure has for itself. `retry_after_seconds`: the server's wish, when throttled."""

    type: str
    status: str
    code: int
    error: str = ""
    reason: str = ""
    message: str = ""
    nominated_node: str = ""
    attempt: int = 0
    delay_seconds: float = 0.0
    retry_after_seconds: float | None = None
