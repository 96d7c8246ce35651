"""The status family: what the scheduler writes of its own accord into PodGroups and queues, and the queues it makes.

Owns these events. Must not know when a status is due nor how it is sent. Called through `volcano.events.catalog`.

They stand in the stream of the object whose status it is; those of a queue that is to be made in a stream of the
scheduler, as it has no uid yet. A request is an intent: in the log before it goes out; its outcome names it by position
(`intent`).
"""

from __future__ import annotations

import msgspec

from volcano.events.base import Amounts, DomainEvent


class PodGroupUpdateRequested(DomainEvent, frozen=True):
    """PATCH of a PodGroup's status, made when a session closed: the phase (Pending, Inqueue, Running, Unknown or
    Completed), how many of its pods run, have succeeded and failed, and the condition that it sets, Unschedulable or
    Scheduled ('' for none) with its reason and message. `transition_id` names the session in the condition."""

    job: str
    phase: str
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    condition: str = ""
    reason: str = ""
    message: str = ""
    transition_id: str = ""
    sent_resource_version: str = ""


class PodGroupUpdateSucceeded(DomainEvent, frozen=True):
    """The API server has taken it."""

    new_resource_version: str = ""
    intent: int | None = None


class PodGroupUpdateFailed(DomainEvent, frozen=True):
    """The API server refused (`code`, with the Status's `reason` and `message`), or gave no answer (`code` 0,
    `answer_lost`: it may have happened). It was made for one version of the object, so it can happen once at most.
    `attempt` counts the refusals in a row; for `delay_seconds` nothing more is sent, unless a newer version of the
    object is seen after a conflict, or the contents were refused and others are to be said. `retry_after_seconds`: the
    server's wish, when throttled."""

    code: int
    reason: str = ""
    message: str = ""
    answer_lost: bool = False
    intent: int | None = None
    attempt: int = 0
    delay_seconds: float = 0.0
    retry_after_seconds: float | None = None


class QueueUpdateRequested(DomainEvent, frozen=True):
    """PATCH of what a queue's status says to be allocated, made when a session closed."""

    allocated: Amounts = msgspec.field(default_factory=dict)
    sent_resource_version: str = ""


class QueueUpdateSucceeded(DomainEvent, frozen=True):
    """The API server has taken it."""

    new_resource_version: str = ""
    intent: int | None = None


class QueueUpdateFailed(DomainEvent, frozen=True):
    """As PodGroupUpdateFailed."""

    code: int
    reason: str = ""
    message: str = ""
    answer_lost: bool = False
    intent: int | None = None
    attempt: int = 0
    delay_seconds: float = 0.0
    retry_after_seconds: float | None = None


class QueueCreateRequested(DomainEvent, frozen=True):
    """POST of a queue that the scheduler needs and that is not there: `root` or the default one."""

    queue: str
    weight: int = 1
    reclaimable: bool = True


class QueueCreateSucceeded(DomainEvent, frozen=True):
    """The queue is there: the API server has made it, or it `existed` by then."""

    queue: str
    queue_uid: str = ""
    new_resource_version: str = ""
    existed: bool = False
    intent: int | None = None


class QueueCreateFailed(DomainEvent, frozen=True):
    """The API server refused (`code`, with the Status's `reason` and `message`), or gave no answer (`code` 0,
    `answer_lost`: it may be there). `attempt` counts the refusals in a row; for `delay_seconds` it is not tried again.
    `retry_after_seconds`: the server's wish, when throttled."""

    queue: str
    code: int
    reason: str = ""
    message: str = ""
    answer_lost: bool = False
    intent: int | None = None
    attempt: int = 0
    delay_seconds: float = 0.0
    retry_after_seconds: float | None = None
