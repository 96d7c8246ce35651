"""What a job adds to its queue's sums, and what a queue states of itself.

Owns that arithmetic. Must not know the cache. Called by `vcledger.scheduler.session.mirror`.

Source: the proportion and capacity plugins' OnSessionOpen (allocated, request, inqueue, elastic), as
`vcledger.why_queues.queue_views` has them, which is the same in amounts by name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from vcledger.scheduler.session.model import Resources, SessionJob, SessionQueue, Vector
from volcano.objects.meta import ResourceMap
from volcano.objects.resource import Resource, new_resource
from volcano.objects.scheduling import Queue
from volcano.objects.status import ALLOCATED_STATUSES

_ALLOCATED = tuple(int(status) for status in ALLOCATED_STATUSES)


class Part(NamedTuple):
    """What a job, or all jobs of a queue together, hold and ask; see `SessionQueue`."""

    allocated: Vector
    requested: Vector
    inqueue: Vector
    elastic: Vector

    def plus(self, other: Part) -> Part:
        return Part(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def minus(self, other: Part) -> Part:
        return Part(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


def part_of(job: SessionJob) -> Part:
    """A job's part: admitted jobs reserve their minimum (Inqueue), or what they lack of it (Running)."""
    held, least = job.allocated, job.least
    requested = held + job.asked
    nothing = np.zeros(len(held))
    if least is None:
        return Part(held, requested, nothing, held)
    inqueue = nothing
    if job.phase == "Inqueue":
        inqueue = least
    elif job.phase == "Running" and job.count(*_ALLOCATED) >= job.min_available:
        inqueue = np.maximum(least - held, 0.0)
    return Part(held, requested, inqueue, np.maximum(held - least, 0.0))


class QueueSums:
    """The parts of all jobs, added up queue by queue as they change. `queues` are those that show their sums."""

    def __init__(self, width: int, queues: dict[str, SessionQueue]) -> None:
        self.width, self.queues = width, queues
        self._parts: dict[str, Part] = {}
        self._sums: dict[str, Part] = {}
        self._counts: dict[str, int] = {}

    def count(self, job: SessionJob, part: Part | None) -> None:
        """A job's part of its queue's sums is this from now on; None: it has none."""
        name, old = job.queue, self._parts.pop(job.uid, None)
        if old is None and part is None:
            return
        sums = self._sums.get(name) or self._nothing()
        if old is not None:
            sums = sums.minus(old)
            self._counts[name] -= 1
        if part is not None:
            self._parts[job.uid] = part
            sums = sums.plus(part)
            self._counts[name] = self._counts.get(name, 0) + 1
        self._sums[name] = sums
        queue = self.queues.get(name)
        if queue is not None:
            self.show(queue)

    def show(self, queue: SessionQueue) -> None:
        """Gives a queue its sums."""
        sums = self._sums.get(queue.name) or self._nothing()
        queue.allocated, queue.requested, queue.inqueue, queue.elastic = sums
        queue.has_jobs = self._counts.get(queue.name, 0) > 0

    def _nothing(self) -> Part:
        zero = np.zeros(self.width)
        return Part(zero, zero, zero, zero)


@lru_cache(maxsize=4096)
def resource_of(stated: tuple[tuple[str, Any], ...]) -> Resource:
    """A resource map's items as a Resource: the same one for the same amounts, which nobody changes."""
    return new_resource(dict(stated))


def _amounts(stated: ResourceMap | None) -> dict[str, float]:
    return resource_of(tuple(stated.items())).amounts() if stated else {}


def limits_of(queue: Queue) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Capability, guarantee and deserved as a queue states them. What the capability does not name has no limit, and
    cpu and memory of 0 are none either."""
    spec = queue.spec
    stated = spec.capability or {}
    capability = {
        name: amount
        for name, amount in _amounts(stated).items()
        if name in stated and (amount > 0 or name not in {"cpu", "memory"})
    }
    guarantee = _amounts(spec.guarantee.resource if spec.guarantee is not None else None)
    return capability, guarantee, _amounts(spec.deserved)


def queue_of(queue: Queue, resources: Resources, position: int) -> SessionQueue:
    """A queue as it states itself, with no sums yet."""
    spec, zero = queue.spec, np.zeros(resources.width)
    capability, guarantee, deserved = limits_of(queue)
    return SessionQueue(
        name=queue.metadata.name,
        queue=queue,
        weight=spec.weight,
        capability=resources.vector(capability, float("inf")),
        guarantee=resources.vector(guarantee),
        deserved=resources.vector(deserved),
        allocated=zero,
        requested=zero,
        inqueue=zero,
        elastic=zero,
        priority=spec.priority,
        parent=spec.parent,
        reclaimable=True if spec.reclaimable is None else spec.reclaimable,
        state=queue.status.state or "Open",
        position=position,
    )


__all__ = ["Part", "QueueSums", "limits_of", "part_of", "queue_of", "resource_of"]
