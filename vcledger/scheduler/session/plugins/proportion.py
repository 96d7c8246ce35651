"""The proportion plugin: the cluster divided among the queues by weight.

Owns what queues deserve and hold under it. Must not know the actions. Called by the registry beside it (`plugins`),
then at its extension points.

What a queue deserves is found round by round: what is left is divided by weight among the queues that are not met yet,
each gets at most what its jobs ask and what it may have, and at least what it is guaranteed. A queue that holds what it
deserves gets nothing more, and what it holds above that may be reclaimed.

Source: Volcano's pkg/scheduler/plugins/proportion/proportion.go (1.11 and later).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vcledger.scheduler.session.conf import Argument
from vcledger.scheduler.session.framework import PERMIT, REJECT, Session
from vcledger.scheduler.session.model import Resources, SessionJob, SessionQueue, SessionTask, Vector, fits
from vcledger.scheduler.session.plugins.common import (
    counted,
    dominant_share,
    exceeding,
    is_empty,
    is_open,
    less_gated,
    shown,
    sign,
)


@dataclass(slots=True)
class Attributes:
    """A queue's numbers. `limit` is the most it may reach: the cluster less what the others are guaranteed, and its own
    capability. `above` are the queues that it is part of, the outermost first, and `is_leaf` that none is part of it;
    only the capacity plugin has queues of queues."""

    queue: SessionQueue
    limit: Vector
    deserved: Vector
    allocated: Vector
    inqueue: Vector
    elastic: Vector
    share: float = 0.0
    above: list[Attributes] = field(default_factory=list)
    is_leaf: bool = True

    @property
    def chain(self) -> list[Attributes]:
        """The queue and those above it, the innermost first."""
        return [self, *reversed(self.above)]


class Proportion:
    """Queues that have jobs."""

    name = "proportion"
    ARGUMENTS: tuple[Argument, ...] = ()

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.of: dict[str, Attributes] = {}

    def on_open(self, ssn: Session) -> None:
        self.ssn = ssn
        self.of = {one.queue.name: one for one in attributes(ssn.queues.values(), ssn.total)}
        divide(list(self.of.values()), ssn.total, ssn.resources)
        self.columns = counted(ssn.total)
        for one in self.of.values():
            self._update(one)
        ssn.add("queue_order", self.name, self.order)
        ssn.add("overused", self.name, self.overused)
        ssn.add("allocatable", self.name, self.allocatable)
        ssn.add("preemptive", self.name, self.allocatable)
        ssn.add("reclaimable", self.name, self.reclaimable)
        ssn.add("job_enqueueable", self.name, lambda job: admit(ssn, self.of[job.queue], job))
        ssn.on_change(lambda task: self._change(task, task.request), lambda task: self._change(task, -task.request))

    def on_close(self, ssn: Session) -> None:
        """Nothing is kept."""

    def order(self, left: SessionQueue, right: SessionQueue) -> int:
        """The higher priority, then the smaller share first."""
        return sign(right.priority, left.priority) or sign(self._share(left), self._share(right))

    def overused(self, queue: SessionQueue) -> bool:
        """It holds all that it deserves, of every resource."""
        one = self.of.get(queue.name)
        return one is not None and fits(one.deserved, one.allocated)

    def allocatable(self, queue: SessionQueue, task: SessionTask) -> bool:
        """With the task it would still be within what it deserves, in what the task asks."""
        one = self.of.get(queue.name)
        if one is None or not is_open(queue):
            return False
        return not exceeding(one.allocated + task.request, one.deserved, task.request)

    def reclaimable(self, reclaimer: SessionTask, candidates: Sequence[SessionTask]) -> list[SessionTask]:
        """As many of each queue, in their order, as it takes to bring it within what it deserves."""
        left: dict[str, Vector] = {}
        victims = []
        for task in candidates:
            one = self.of[self.ssn.jobs[task.job].queue]
            held = left.get(one.queue.name, one.allocated)
            if not fits(held, one.deserved):
                left[one.queue.name] = held - task.request
                victims.append(task)
        return victims

    def _share(self, queue: SessionQueue) -> float:
        one = self.of.get(queue.name)
        return one.share if one is not None else 0.0

    def _update(self, one: Attributes) -> None:
        one.share = dominant_share(one.allocated, one.deserved, self.columns)

    def _change(self, task: SessionTask, amount: Vector) -> None:
        job = self.ssn.jobs.get(task.job)
        one = self.of.get(job.queue) if job is not None else None
        if one is not None:
            one.allocated = one.allocated + amount
            self._update(one)


def attributes(queues: Iterable[SessionQueue], total: Vector) -> list[Attributes]:
    """The queues that have jobs, by name, with their limits; nothing is deserved yet."""
    ordered = sorted(queues, key=lambda queue: queue.name)
    guaranteed = np.zeros(len(total))
    for queue in ordered:
        guaranteed = guaranteed + queue.guarantee
    free = np.maximum(total - guaranteed, 0.0)
    return [
        Attributes(
            queue=queue,
            limit=np.minimum(free + queue.guarantee, queue.capability),
            deserved=np.zeros(len(total)),
            allocated=queue.allocated,
            inqueue=queue.inqueue,
            elastic=queue.elastic,
        )
        for queue in ordered
        if queue.has_jobs
    ]


def divide(queues: list[Attributes], total: Vector, resources: Resources) -> None:
    """Fills in what each queue deserves."""
    remaining, met = total, set[str]()
    while True:
        unmet = [one for one in queues if one.queue.name not in met]
        weights = sum(one.queue.weight for one in unmet)
        if not weights:
            return
        given = np.zeros(len(total))
        for one in unmet:
            old = one.deserved
            new = np.minimum(old + remaining * (one.queue.weight / weights), one.limit)
            new = np.maximum(np.minimum(new, one.queue.requested), one.queue.guarantee)
            if fits(one.queue.requested, new) or bool((new == old).all()):
                met.add(one.queue.name)
            one.deserved = new
            given = given + (new - old)
        before, remaining = remaining, np.maximum(remaining - given, 0.0)
        if is_empty(remaining, resources) or bool((remaining == before).all()):
            return


def admit(ssn: Session, one: Attributes, job: SessionJob) -> int:
    """PERMIT while what the queue holds, has admitted and is asked stays within its limit, and so for each queue above;
    what their jobs hold above their minimum doesn't count. A job that is let in counts as admitted from then on.
    Otherwise REJECT; why stands in the session's `blocked`."""
    if not is_open(one.queue):
        ssn.blocked[job.uid] = f"queue {job.queue} is {one.queue.state}"
        return REJECT
    if job.least is None:
        return PERMIT
    for each in one.chain:
        taken = each.allocated + each.inqueue - each.elastic
        over = exceeding(taken + job.least, each.limit, job.least)
        if over:
            names, least = ssn.resources, job.least
            lines = [
                f"{names.names[column]}: asks {shown(names, column, least)} on top of {shown(names, column, taken)} "
                f"allocated or admitted, may have {shown(names, column, each.limit)}"
                for column in over
            ]
            ssn.blocked[job.uid] = f"queue {each.queue.name} is over its capability: {'; '.join(lines)}"
            return REJECT
    for each in one.chain:
        each.inqueue = each.inqueue + less_gated(job, job.least)
    return PERMIT


__all__ = ["Attributes", "Proportion", "admit", "attributes", "divide"]
