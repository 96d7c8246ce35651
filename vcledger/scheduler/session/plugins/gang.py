"""The gang plugin: a job runs with its minimum, or not at all.

Owns when a job is valid, ready, pipelined and starving. Must not know the actions. Called by the registry beside it
(`plugins`), then at its extension points.

Source: Volcano's pkg/scheduler/plugins/gang/gang.go and api.JobInfo (ValidTaskNum, IsReady, IsPipelined, IsStarving,
CheckTaskValid, CheckTaskReady, CheckTaskPipelined). Networks of nodes (sub-jobs) are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vcledger.scheduler.session.conf import Argument
from vcledger.scheduler.session.framework import PERMIT, REJECT, Session
from vcledger.scheduler.session.model import PENDING, PIPELINED, SessionJob, SessionTask
from volcano.objects.status import READY_STATUSES

NOT_ENOUGH_TASKS, NOT_ENOUGH_OF_A_TASK = "NotEnoughTasks", "NotEnoughPodsOfTask"

READY = tuple(int(status) for status in READY_STATUSES)
VALID = (*READY, PIPELINED, PENDING)


class Gang:
    """Jobs that aren't ready come first. A job that has fewer tasks than its minimum is passed over; one that can't be
    brought to its minimum gets nothing; nobody is evicted from a job that has no more than its minimum."""

    name = "gang"
    ARGUMENTS: tuple[Argument, ...] = ()

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.jobs: Mapping[str, SessionJob] = {}

    def on_open(self, ssn: Session) -> None:
        self.jobs = ssn.jobs
        ssn.add("job_valid", self.name, valid)
        ssn.add("job_order", self.name, lambda left, right: is_ready(left) - is_ready(right), is_ready)
        ssn.add("job_ready", self.name, lambda job: is_ready(job) and _roles_reach(job, READY, best_effort=True))
        ssn.add("job_pipelined", self.name, lambda job: PERMIT if is_pipelined(job) else REJECT)
        ssn.add("job_starving", self.name, is_starving)
        ssn.add("preemptable", self.name, self.evictable)
        ssn.add("reclaimable", self.name, self.evictable)

    def on_close(self, ssn: Session) -> None:
        """Nothing is kept."""

    def evictable(self, preemptor: SessionTask, candidates: Sequence[SessionTask]) -> list[SessionTask]:
        """As many of each job as it has above its minimum, in the order of the candidates."""
        left: dict[str, int] = {}
        victims = []
        for task in candidates:
            job = self.jobs[task.job]
            ready = left.setdefault(job.uid, job.ready_count)
            if ready > job.min_available:
                left[job.uid] = ready - 1
                victims.append(task)
        return victims


def valid(job: SessionJob) -> tuple[str, str] | None:
    """None, or the reason and message why the job can't be a gang."""
    if not _roles_reach(job, VALID, best_effort=False):
        return NOT_ENOUGH_OF_A_TASK, "Not enough valid pods of each task for gang-scheduling"
    number = job.count(*VALID)
    if number < job.min_available:
        message = f"Not enough valid tasks for gang-scheduling, valid: {number}, min: {job.min_available}"
        return NOT_ENOUGH_TASKS, message
    return None


def is_ready(job: SessionJob) -> bool:
    """As many as the minimum have a place; those that ask for nothing count while they wait."""
    ready = job.ready_count
    return ready >= job.min_available or ready + job.pending_best_effort >= job.min_available


def is_pipelined(job: SessionJob) -> bool:
    """The same with those that are promised one, each role to its own minimum."""
    number = job.ready_count + job.waiting_count
    if number < job.min_available and number + job.pending_best_effort < job.min_available:
        return False
    return _roles_reach(job, (*READY, PIPELINED), best_effort=True)


def is_starving(job: SessionJob) -> bool:
    """Fewer have or are promised a place than the minimum. Roles don't count here."""
    return job.ready_count + job.waiting_count < job.min_available


def _roles_reach(job: SessionJob, statuses: Sequence[int], *, best_effort: bool) -> bool:
    """Whether each role of the job reaches its minimum; a minimum of the job below their sum takes them out of play."""
    needed = job.task_min_available
    if not needed or job.min_available < sum(needed.values()):
        return True
    number: dict[str, int] = dict.fromkeys(needed, 0)
    for status in statuses:
        for task in job.by_status.get(status, {}).values():
            if task.role in number:
                number[task.role] += 1
    if best_effort:
        for task in job.by_status.get(PENDING, {}).values():
            if task.best_effort and task.role in number:
                number[task.role] += 1
    return all(number[role] >= least for role, least in needed.items())


__all__ = ["Gang", "is_pipelined", "is_ready", "is_starving", "valid"]
