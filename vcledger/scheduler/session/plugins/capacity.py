"""The capacity plugin: what a queue deserves is stated, not divided by weight.

A queue may grow up to its capability as long as others leave room; what it holds above what it deserves may be taken
back. Queues are side by side: queues of queues (enableHierarchy) are not supported.

Source: Volcano's pkg/scheduler/plugins/capacity/capacity.go without hierarchy, resource claims and the admission by
scheduling gates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vcledger.scheduler.session.conf import Argument
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionQueue, SessionTask, Vector, fits
from vcledger.scheduler.session.plugins.common import counted, dominant_share, exceeding, is_empty, is_open, sign
from vcledger.scheduler.session.plugins.proportion import Attributes, admit, attributes
from vcledger.scheduler.session.victims import in_order
from volcano.objects.resource import EPSILON, PODS

_HIERARCHY = "queues of queues are not supported"
_CLAIMS = "resource claims are not recorded"


class Capacity:
    """Queues that have jobs. Arguments: none that changes anything here."""

    name = "capacity"
    ARGUMENTS = (
        Argument("ancestorReclaimLevel", int, only=(0,), why=_HIERARCHY),
        Argument("capacity.DynamicResourceAllocationEnable", bool, only=(False,), why=_CLAIMS),
        Argument("capacity.DRAConsumableCapacityEnable", bool, only=(False,), why=_CLAIMS),
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.of: dict[str, Attributes] = {}

    def on_open(self, ssn: Session) -> None:
        self.ssn = ssn
        self.of = {one.queue.name: one for one in attributes(ssn.queues.values(), ssn.total)}
        for one in self.of.values():
            one.deserved = np.maximum(np.minimum(one.queue.deserved, one.limit), one.queue.guarantee)
            self._update(one)
        ssn.add("queue_order", self.name, self.order)
        ssn.add("allocatable", self.name, self.allocatable)
        ssn.add("preemptive", self.name, self.preemptive)
        ssn.add("reclaimable", self.name, self.reclaimable)
        ssn.add("job_enqueueable", self.name, lambda job: admit(ssn, self.of[job.queue], job))
        ssn.on_change(lambda task: self._change(task, task.request), lambda task: self._change(task, -task.request))

    def on_close(self, ssn: Session) -> None:
        """Nothing is kept."""

    def order(self, left: SessionQueue, right: SessionQueue) -> int:
        """The higher priority, then the smaller share; of equals the one that deserves anything first."""
        mine, other = self.of.get(left.name), self.of.get(right.name)
        found = sign(right.priority, left.priority)
        if found or mine is None or other is None:
            return found
        return sign(mine.share, other.share) or self._is_best_effort(mine) - self._is_best_effort(other)

    def allocatable(self, queue: SessionQueue, task: SessionTask) -> bool:
        """With the task it would still be within what it may reach, in what the task asks."""
        one = self.of.get(queue.name)
        if one is None or not is_open(queue):
            return False
        return not exceeding(one.allocated + task.request, one.limit, task.request)

    def preemptive(self, queue: SessionQueue, task: SessionTask) -> bool:
        """With the task it would still be within what it deserves of at least one resource that the task asks."""
        one = self.of.get(queue.name)
        if one is None or not self.allocatable(queue, task):
            return False
        future = one.allocated + task.request
        return bool(((task.request > 0) & (one.deserved > 0) & (future < one.deserved + EPSILON)).any())

    def reclaimable(self, reclaimer: SessionTask, candidates: Sequence[SessionTask]) -> list[SessionTask]:
        """Tasks that share a resource with the reclaimer, and whose queue keeps its guarantee without them and has more
        than it deserves of something that they have, or deserves nothing of it at all; the first to go first."""
        left: dict[str, Vector] = {}
        victims = []
        for task in in_order(self.ssn, candidates, reclaimer):
            one = self.of[self.ssn.jobs[task.job].queue]
            held = left.get(one.queue.name, one.allocated)
            if not self._shares_any(task.request, reclaimer.request) or not fits(
                one.queue.guarantee, held - task.request
            ):
                continue
            relevant = (task.request > 0) & (one.deserved > 0)
            if not relevant.any() or bool((relevant & (held >= one.deserved + EPSILON)).any()):
                left[one.queue.name] = held - task.request
                victims.append(task)
        return victims

    def _shares_any(self, left: Vector, right: Vector) -> bool:
        both = (left > 0) & (right > 0)
        pods = self.ssn.resources.column.get(PODS)
        if pods is not None and pods < len(both):
            both[pods] = False
        return bool(both.any())

    def _is_best_effort(self, one: Attributes) -> bool:
        return is_empty(one.deserved, self.ssn.resources)

    def _update(self, one: Attributes) -> None:
        """A queue that deserves nothing comes after all that have not got what they deserve."""
        one.share = (
            1.0 if self._is_best_effort(one) else dominant_share(one.allocated, one.deserved, counted(one.deserved))
        )

    def _change(self, task: SessionTask, amount: Vector) -> None:
        job = self.ssn.jobs.get(task.job)
        one = self.of.get(job.queue) if job is not None else None
        if one is not None:
            one.allocated = one.allocated + amount
            self._update(one)


__all__ = ["Capacity"]
