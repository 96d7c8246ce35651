"""The resync family: a task whose bind went wrong is read again from the API server until the two agree.

Owns these events. Must not know the work queue. Called through `volcano.events.catalog`.

All stand in the pod's stream. The steps are those of the seed's processResyncTask and syncTask.
"""

from __future__ import annotations

from volcano.events.base import DomainEvent


class ResyncQueued(DomainEvent, frozen=True):
    """The task is to be read again after `delay_seconds`, the `attempt`-th time since it last succeeded. `reason` is
    the name of what went wrong (BindFailed, VolumeBindingFailed, ResyncFailed, …)."""

    job: str
    attempt: int
    delay_seconds: float
    reason: str
    node: str = ""


class ResyncRequested(DomainEvent, frozen=True):
    """Intent: GET of the pod. Until its outcome is known nobody else reads the same task again."""

    job: str
    attempt: int


class ResyncSucceeded(DomainEvent, frozen=True):
    """The API server was read. `found`: the task is now as it said (on `node`, in `phase`); otherwise the pod is gone
    and the task was removed everywhere. `pod_uid` differs from the stream's when another pod has the name now."""

    job: str
    attempt: int
    found: bool
    pod_uid: str = ""
    resource_version: str = ""
    node: str = ""
    phase: str = ""


class ResyncFailed(DomainEvent, frozen=True):
    """The read went wrong in another way than not found (`code` 0: no answer), or its answer could not be applied.
    `requeued`: a ResyncQueued follows; not so when the job is not known any more."""

    job: str
    attempt: int
    code: int = 0
    reason: str = ""
    message: str = ""
    requeued: bool = True


class BindErrorHandlerSet(DomainEvent, frozen=True):
    """The task has a handler of bind errors of its own from now on, whatever is read again; '': none any more."""

    job: str
    handler: str


class BindErrorHandlerCalled(DomainEvent, frozen=True):
    """The task's own handler of bind errors ran. On an error the task is queued again (`requeued`) unless the same
    resync had done so already."""

    job: str
    handler: str
    ok: bool
    error: str = ""
    requeued: bool = False
