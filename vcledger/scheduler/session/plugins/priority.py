"""The priority plugin: the higher priority first, and only the lower gives way.

Owns these orders. Must not know the actions. Called by the registry beside it (`plugins`), then at its extension
points.

Source: Volcano's pkg/scheduler/plugins/priority/priority.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vcledger.scheduler.session.conf import Argument
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionJob, SessionTask
from vcledger.scheduler.session.plugins.common import sign


class Priority:
    """Orders jobs and tasks. Between jobs the jobs' priorities say who may be preempted, within one the tasks'. A job
    starves while any of its tasks has no place."""

    name = "priority"
    ARGUMENTS: tuple[Argument, ...] = ()

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.jobs: Mapping[str, SessionJob] = {}

    def on_open(self, ssn: Session) -> None:
        self.jobs = ssn.jobs
        for point in ("task_order", "job_order"):
            ssn.add(
                point, self.name, lambda left, right: sign(right.priority, left.priority), lambda one: -one.priority
            )
        ssn.add("preemptable", self.name, self.preemptable)
        ssn.add("job_starving", self.name, _starving)

    def on_close(self, ssn: Session) -> None:
        """Nothing is kept."""

    def preemptable(self, preemptor: SessionTask, candidates: Sequence[SessionTask]) -> list[SessionTask]:
        """The candidates of jobs of a lower priority, and of its own job the tasks of a lower one."""
        own = self.jobs[preemptor.job]
        return [
            task
            for task in candidates
            if (
                task.priority < preemptor.priority
                if task.job == own.uid
                else self.jobs[task.job].priority < own.priority
            )
        ]


def _starving(job: SessionJob) -> bool:
    return job.ready_count + job.waiting_count < len(job.tasks)


__all__ = ["Priority"]
