"""The drf plugin: dominant resource fairness between jobs.

Owns the jobs' shares. Must not know the actions. Called by the registry beside it (`plugins`), then at its extension
points.

A job's share is the largest part that it holds of any resource of the cluster. The smaller share comes first; a task
may be preempted while its job, without it, still has at least the share that the preemptor's job would have with it.

Source: Volcano's pkg/scheduler/plugins/drf/drf.go, without hierarchy (which its file has to ask for).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vcledger.scheduler.session.conf import Argument
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import PIPELINED, SessionJob, SessionTask, Vector
from vcledger.scheduler.session.plugins.common import counted, dominant_share, sign

SHARE_DELTA = 0.000001
"""Shares that differ by less are equal."""


class Drf:
    """What each job holds: what its tasks have, and what they have been promised."""

    name = "drf"
    ARGUMENTS: tuple[Argument, ...] = ()

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.shares: dict[str, float] = {}

    def on_open(self, ssn: Session) -> None:
        self.jobs, self.total, self.columns = ssn.jobs, ssn.total, counted(ssn.total)
        ssn.add("job_order", self.name, lambda left, right: sign(self.share(left), self.share(right)), self.share)
        ssn.add("preemptable", self.name, self.preemptable)
        ssn.on_change(self._changed, self._changed)

    def on_close(self, ssn: Session) -> None:
        """Nothing is kept."""

    def share(self, job: SessionJob) -> float:
        """The job's share now, from 0 to 1 or more."""
        found = self.shares.get(job.uid)
        if found is None:
            found = self.shares[job.uid] = self._share_of(held(job))
        return found

    def preemptable(self, preemptor: SessionTask, candidates: Sequence[SessionTask]) -> list[SessionTask]:
        """Candidates in their order, each job with ever fewer tasks."""
        own = self._share_of(held(self.jobs[preemptor.job]) + preemptor.request)
        left: dict[str, Vector] = {}
        victims = []
        for task in candidates:
            before = left[task.job] if task.job in left else held(self.jobs[task.job])
            rest = left[task.job] = before - task.request
            share = self._share_of(rest)
            if own < share or abs(own - share) <= SHARE_DELTA:
                victims.append(task)
        return victims

    def _share_of(self, amount: Vector) -> float:
        return dominant_share(amount, self.total, self.columns)

    def _changed(self, task: SessionTask) -> None:
        self.shares.pop(task.job, None)


def held(job: SessionJob) -> Vector:
    """What the job's tasks have or have been promised."""
    promised = job.by_status.get(PIPELINED)
    if not promised:
        return job.allocated
    total = job.allocated
    for task in promised.values():
        total = total + task.request
    return total


__all__ = ["Drf", "held"]
