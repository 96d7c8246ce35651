"""Queues with the sums of their jobs, from the cache to the values that the diagnosis looks at.

Owns those sums, as the proportion plugin adds them up, and how a Resource becomes amounts. Must not know verdicts nor
wording. Called by `vcledger.why_views` and who asks for a job's minimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any

from projections.cache.state import Cache, JobInfo
from projections.diagnosis.views import Amounts, QueueView
from volcano.objects.resource import Resource, new_resource
from volcano.objects.status import ALLOCATED_STATUSES, TaskStatus

_PENDING = int(TaskStatus.PENDING)


def quick(resource: Resource) -> Amounts:
    """A Resource as amounts by name, in no order."""
    return {"cpu": resource.milli_cpu, "memory": resource.memory, **(resource.scalars or {})}


def present(resource: Resource) -> Amounts:
    """The amounts that are not zero, so that an idle node costs nothing."""
    if not resource.milli_cpu and not resource.memory and not resource.scalars:
        return {}
    return {name: amount for name, amount in quick(resource).items() if amount}


class Queues(Mapping[str, QueueView]):
    """The queues of a cache; the sums of their jobs, as the proportion plugin adds them up, are made when first asked
    for."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._views: dict[str, QueueView] | None = None

    def __getitem__(self, name: str) -> QueueView:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.cache.queues)

    def __len__(self) -> int:
        return len(self.cache.queues)

    def _all(self) -> dict[str, QueueView]:
        if self._views is None:
            self._views = queue_views(self.cache)
        return self._views


class _Sums:
    """What the jobs of one queue hold and ask."""

    __slots__ = ("allocated", "elastic", "inqueue", "requested")

    def __init__(self) -> None:
        self.allocated, self.requested = Resource(), Resource()
        self.inqueue: Amounts = {}
        self.elastic: Amounts = {}

    def add(self, job: JobInfo) -> None:
        held = job.allocated
        self.allocated.add(held)
        self.requested.add(held)
        for request in job.requests_of(_PENDING):
            self.requested.add(request)
        least = _least(job)
        if least is None:
            _grow(self.elastic, quick(held))
            return
        admitted = _admitted(job)
        if admitted is Admitted.WHOLLY:
            _grow(self.inqueue, quick(least))
        elif admitted is Admitted.FOR_THE_REST:
            _grow_above(self.inqueue, least, held)
        _grow_above(self.elastic, held, least)


class Admitted(Enum):
    """What a job in a queue has reserved there: nothing, its whole minimum (Inqueue), or what it lacks of it
    (Running)."""

    NOT = 0
    WHOLLY = 1
    FOR_THE_REST = 2


def _admitted(job: JobInfo) -> Admitted:
    phase = job.pod_group.status.phase if job.pod_group is not None else ""
    if phase == "Inqueue":
        return Admitted.WHOLLY
    if phase != "Running":
        return Admitted.NOT
    return Admitted.FOR_THE_REST if job.count_of(ALLOCATED_STATUSES) >= job.min_available else Admitted.NOT


def _grow(sums: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        if amount:
            sums[name] = sums.get(name, 0.0) + amount


def _grow_above(sums: Amounts, left: Resource, right: Resource) -> None:
    """Adds what of `left` is above `right`, resource by resource."""
    if left.milli_cpu > right.milli_cpu:
        sums["cpu"] = sums.get("cpu", 0.0) + left.milli_cpu - right.milli_cpu
    if left.memory > right.memory:
        sums["memory"] = sums.get("memory", 0.0) + left.memory - right.memory
    if left.scalars:
        others = right.scalars or {}
        for name, amount in left.scalars.items():
            above = amount - others.get(name, 0.0)
            if above > 0:
                sums[name] = sums.get(name, 0.0) + above


def queue_views(cache: Cache) -> dict[str, QueueView]:
    """Every queue with the sums of its jobs: those with a PodGroup and a queue that there is."""
    sums: dict[str, _Sums] = {}
    for job in cache.jobs.values():
        if job.held is not None and job.queue in cache.queues:
            sums.setdefault(job.queue, _Sums()).add(job)
    views = {}
    for name, queue in cache.queues.items():
        found = sums.get(name, _Sums())
        views[name] = QueueView(
            name=name,
            queue=queue,
            allocated=found.allocated.amounts(),
            requested=found.requested.amounts(),
            inqueue=found.inqueue,
            elastic=found.elastic,
            has_jobs=name in sums,
            position=cache.position_of("Queue", name),
        )
    return views


def _least(job: JobInfo) -> Resource | None:
    """The PodGroup's minResources; None when it states none."""
    stated = job.pod_group.spec.min_resources if job.pod_group is not None else None
    return _amount_of(tuple(stated.items())) if stated else None


@lru_cache(maxsize=4096)
def _amount_of(stated: tuple[tuple[str, Any], ...]) -> Resource:
    """The same Resource for the same amounts: nobody changes it."""
    return new_resource(dict(stated))


def min_resources(job: JobInfo) -> Amounts:
    """The PodGroup's minResources as amounts."""
    least = _least(job)
    return present(least) if least is not None else {}
