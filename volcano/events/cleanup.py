"""The cleanup family: a job that may be over leaves the cache, later, and only if it still may.

Owns these events. Must not know the work queue. Called through `volcano.events.catalog`.

All stand in the PodGroup's stream. `podgroup_uid` is the UID that was queued: a PodGroup made again under the same name
keeps its job (the seed's processCleanupJob; facts 18, vectors 055, 057, 063).
"""

from __future__ import annotations

from volcano.events.base import DomainEvent


class JobCleanupQueued(DomainEvent, frozen=True):
    """The job `namespace/podgroup` lost its PodGroup or its last task and is to be looked at after `delay_seconds`."""

    job: str
    podgroup_uid: str = ""
    delay_seconds: float = 0.0
    reason: str = ""


class JobCleanupRetried(DomainEvent, frozen=True):
    """It could not go yet: it has `tasks` tasks, or a PodGroup. Looked at again after `delay_seconds`."""

    job: str
    podgroup_uid: str = ""
    attempt: int = 1
    delay_seconds: float = 0.0
    tasks: int = 0
    has_podgroup: bool = False


class JobCleanupDropped(DomainEvent, frozen=True):
    """The request is over and the job stays, or was gone already. `current_podgroup_uid` is the PodGroup that has the
    name now, '' when there is none."""

    job: str
    reason: str
    podgroup_uid: str = ""
    current_podgroup_uid: str = ""


class JobDeleted(DomainEvent, frozen=True):
    """The job is out of the cache: it had no PodGroup and no tasks, and its PodGroup's UID was still the queued one."""

    job: str
    podgroup_uid: str = ""
