"""What a session says of its jobs when it closes: the phase of each PodGroup, how its pods stand, and its condition.

Owns that rule. Must not know what is written, nor to whom a PodGroup belongs. Called by `run`, while what the session
has done still stands.

Source: Volcano's framework.closeSession (jobStatus, getPodGroupPhase, api.ScheduledStatus), gang.OnSessionClose and
framework.updateQueueStatus as of August 2026; the recordings' PodGroups pin it: one whose pods are being bound stays
Inqueue, and one without pods gets no condition.
"""

from __future__ import annotations

from typing import NamedTuple

from vcledger.scheduler.session.model import SessionJob
from vcledger.scheduler.session.words import fit_error, gang_error, is_ready
from volcano.objects.status import TaskStatus

PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = "Pending", "Inqueue", "Running", "Unknown", "Completed"
UNSCHEDULABLE, SCHEDULED = "Unschedulable", "Scheduled"
NOT_ENOUGH_RESOURCES, READY = "NotEnoughResources", "tasks in gang are ready to be scheduled"

_RUNNING, _BOUND = int(TaskStatus.RUNNING), int(TaskStatus.BOUND)
_SUCCEEDED, _FAILED = int(TaskStatus.SUCCEEDED), int(TaskStatus.FAILED)


class Closing(NamedTuple):
    """What the PodGroup of a job should say. `condition` is the type of the one that the session sets, Unschedulable or
    Scheduled, '' when it sets none, with its `reason` and `message`."""

    job: str
    phase: str
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    condition: str = ""
    reason: str = ""
    message: str = ""


def closing_of(job: SessionJob, *, gang: bool) -> Closing:
    """The job at the session's close; `gang`: the plugin is configured, which is who sets conditions."""
    condition = reason = message = ""
    if gang and job.tasks:
        if is_ready(job):
            condition, reason = SCHEDULED, READY
        else:
            condition, reason = UNSCHEDULABLE, NOT_ENOUGH_RESOURCES
            message = gang_error(job, job.job_error or fit_error(job))
    return Closing(
        job.uid,
        phase_of(job, unschedulable=condition == UNSCHEDULABLE),
        job.count(_RUNNING),
        job.count(_SUCCEEDED),
        job.count(_FAILED),
        condition,
        reason,
        message,
    )


def phase_of(job: SessionJob, *, unschedulable: bool) -> str:
    """The phase by what has become of the pods. Those that are still being bound don't count."""
    if unschedulable and job.count(_RUNNING):
        return UNKNOWN
    completed = job.count(_SUCCEEDED, _FAILED)
    scheduled = completed + job.count(_RUNNING, _BOUND)
    if scheduled >= job.pod_group.spec.min_member:
        return COMPLETED if scheduled == completed else RUNNING
    return INQUEUE if job.phase == INQUEUE else PENDING


__all__ = [
    "COMPLETED",
    "INQUEUE",
    "NOT_ENOUGH_RESOURCES",
    "PENDING",
    "READY",
    "RUNNING",
    "SCHEDULED",
    "UNKNOWN",
    "UNSCHEDULABLE",
    "Closing",
    "closing_of",
    "phase_of",
]
