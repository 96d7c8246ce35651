"""The sentences of a session: why a gang isn't ready, and what a pod's PodScheduled condition says.

Owns the wording. Must not know predicates. Called by `run` when the actions are done.

Source: Volcano's JobInfo.FitError and TaskSchedulingReason, the gang plugin's OnSessionClose, and
SchedulerCache.RecordJobStatusEvent.
"""

from __future__ import annotations

from typing import NamedTuple

from projections.diagnosis.words import histogram
from vcledger.scheduler.session.model import PENDING, PIPELINED, SessionJob, SessionTask
from volcano.objects.status import ALLOCATED_STATUSES, STATUS_WORDS, TaskStatus

UNSCHEDULABLE, SCHEDULABLE = "Unschedulable", "Schedulable"
ALLOCATED = int(TaskStatus.ALLOCATED)
_HELD = frozenset(int(status) for status in ALLOCATED_STATUSES)


class Why(NamedTuple):
    """Reason, message and nominated node of a PodScheduled condition."""

    reason: str
    message: str
    node: str = ""


def is_ready(job: SessionJob) -> bool:
    """Its minimum has a place, or waits and asks for nothing (JobInfo.IsReady)."""
    return job.ready_count + job.pending_best_effort >= job.min_available


def fit_error(job: SessionJob) -> str:
    """The job's sentence: its tasks by status, what became of the pending ones, where it began."""
    counts = {STATUS_WORDS.get(status, "Unknown"): len(index) for status, index in job.by_status.items() if index}
    counts["minAvailable"] = job.min_available
    message = f"pod group is {'ready' if is_ready(job) else 'not ready'}, {histogram(counts)}"
    words: dict[str, int] = {}
    for task in job.by_status.get(PENDING, {}).values():
        reason = task_why(job, task).reason
        words[reason] = words.get(reason, 0) + 1
    if words:
        message += f"; Pending: {histogram(words)}"
    for uid, error in job.fit_errors.items():
        task = job.tasks[uid]
        return f"{message}. Origin reason is {task.name}: {error.message}"
    return message


def gang_error(job: SessionJob, sentence: str) -> str:
    """What the gang plugin writes of a job that isn't ready, '' of one that is; `sentence` is its `fit_error`."""
    if is_ready(job):
        return ""
    schedulable = sum(
        1 for task in job.by_status.get(PENDING, {}).values() if job.tried.get(task.uid, (PENDING, ""))[0] in _HELD
    )
    unready = job.min_available - schedulable - job.ready_count
    return f"{unready}/{len(job.tasks)} tasks in gang unschedulable: {sentence}"


def task_why(job: SessionJob, task: SessionTask) -> Why:
    """What a task's condition says, after what was last tried with it; without a try it is its job's sentence."""
    status, node = job.tried.get(task.uid, (task.status, task.node))
    if status == ALLOCATED:
        message = f"Pod {task.key} can possibly be assigned to {node}, once minAvailable is satisfied"
        return Why(SCHEDULABLE, message)
    if status == PIPELINED:
        message = f"Pod {task.key} can possibly be assigned to {node}, once resource is released and minAvailable is "
        return Why(UNSCHEDULABLE, f"{message}satisfied", node)
    error = job.fit_errors.get(task.uid)
    return Why(UNSCHEDULABLE, error.message if error is not None else job.job_error)


__all__ = ["SCHEDULABLE", "UNSCHEDULABLE", "Why", "fit_error", "gang_error", "is_ready", "task_why"]
