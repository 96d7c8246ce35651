"""Volcano's Resource: cpu, memory and named scalars as numbers, with its add, subtract and compare.

Owns the arithmetic and the reading of a resource map. Must not know pods nor nodes. Called by `projections`.

Source: Volcano's api.Resource (NewResource, Add, Sub, SetMaxResource, LessEqual, IsEmpty) and Kubernetes'
IsScalarResourceName. CPU is in milli, memory in bytes, scalars in milli-units, `pods` and `attachable-volumes-*` from
CSINodes in units (vectors 008 to 013). Numbers are Python floats under Volcano's models, as Go's float64, and ints
where `exact` is asked for, so that nothing is rounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from volcano.objects import quantity as quantities
from volcano.objects.meta import ResourceMap

EPSILON = 0.1
"""Volcano's minResource: what differs by less is equal."""

PODS = "pods"
ATTACH_PREFIX = "attachable-volumes-"
CSI_ATTACH_PREFIX = "attachable-volumes-csi-"

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*\Z")


class ResourceInsufficient(ArithmeticError):
    """Volcano's assertion in Sub: more was to be subtracted than there is. The real scheduler panics here (015)."""


class Resource(msgspec.Struct, gc=False, array_like=True):
    """An amount of each resource. `scalars` None is Go's nil map: subtracting from it does nothing (013).
    `max_task_num` comes from `pods` of a node and takes no part in arithmetic."""

    milli_cpu: float = 0.0
    memory: float = 0.0
    scalars: dict[str, float] | None = None
    max_task_num: int = 0

    def clone(self) -> Resource:
        scalars = self.scalars
        return Resource(self.milli_cpu, self.memory, None if scalars is None else scalars.copy(), self.max_task_num)

    def add(self, other: Resource) -> None:
        self.milli_cpu += other.milli_cpu
        self.memory += other.memory
        theirs = other.scalars
        if theirs:
            mine = self.scalars
            if mine is None:
                mine = self.scalars = {}
            for name, amount in theirs.items():
                mine[name] = mine[name] + amount if name in mine else amount

    def add_scalar(self, name: str, amount: float) -> None:
        if self.scalars is None:
            self.scalars = {}
        self.scalars[name] = self.scalars.get(name, 0) + amount

    def subtract_unchecked(self, other: Resource) -> None:
        """Go's unexported `sub`: may go below zero; leaves a nil map of scalars nil."""
        self.milli_cpu -= other.milli_cpu
        self.memory -= other.memory
        mine, theirs = self.scalars, other.scalars
        if mine is not None and theirs:
            for name, amount in theirs.items():
                mine[name] = mine.get(name, 0) - amount

    def subtract(self, other: Resource) -> None:
        """Go's Sub. Raises ResourceInsufficient, and then changes nothing."""
        if not other.less_equal(self):
            raise ResourceInsufficient(f"resource is not sufficient to do operation: <{self}> sub <{other}>")
        self.subtract_unchecked(other)

    def set_max(self, other: Resource) -> None:
        """The larger of each resource."""
        self.milli_cpu = max(self.milli_cpu, other.milli_cpu)
        self.memory = max(self.memory, other.memory)
        theirs = other.scalars
        if theirs:
            mine = self.scalars
            if mine is None:
                self.scalars = theirs.copy()
                return
            for name, amount in theirs.items():
                if name not in mine or amount > mine[name]:
                    mine[name] = amount

    def less_equal(self, other: Resource) -> bool:
        """Each of mine fits into the other's, one that it lacks counting as zero (fact 4)."""
        if not (self.milli_cpu < other.milli_cpu or abs(self.milli_cpu - other.milli_cpu) < EPSILON):
            return False
        if not (self.memory < other.memory or abs(self.memory - other.memory) < EPSILON):
            return False
        if self.scalars:
            theirs = other.scalars or {}
            for name, amount in self.scalars.items():
                limit = theirs.get(name, 0)
                if not (amount < limit or abs(amount - limit) < EPSILON):
                    return False
        return True

    def exceeding(self, other: Resource) -> list[str]:
        """The names of the resources that don't fit into the other's, sorted."""
        theirs = other.scalars or {}
        names = []
        if not (self.milli_cpu < other.milli_cpu or abs(self.milli_cpu - other.milli_cpu) < EPSILON):
            names.append("cpu")
        if not (self.memory < other.memory or abs(self.memory - other.memory) < EPSILON):
            names.append("memory")
        for name, amount in (self.scalars or {}).items():
            limit = theirs.get(name, 0)
            if not (amount < limit or abs(amount - limit) < EPSILON):
                names.append(name)
        return sorted(names)

    def is_empty(self) -> bool:
        """Nothing but `pods` (fact 3)."""
        if self.milli_cpu >= EPSILON or self.memory >= EPSILON:
            return False
        return all(name == PODS or amount < EPSILON for name, amount in (self.scalars or {}).items())

    def get(self, name: str) -> float:
        """The amount of one resource by its Kubernetes name, in this struct's units."""
        if name == "cpu":
            return self.milli_cpu
        if name == "memory":
            return self.memory
        return (self.scalars or {}).get(name, 0)

    def amounts(self) -> dict[str, float]:
        """Kubernetes name to amount: cpu, memory, then the scalars by name."""
        return {"cpu": self.milli_cpu, "memory": self.memory, **dict(sorted((self.scalars or {}).items()))}

    def __str__(self) -> str:
        parts = [f"cpu {self.milli_cpu:.2f}", f"memory {self.memory:.2f}"]
        parts += [f"{name} {amount:.2f}" for name, amount in sorted((self.scalars or {}).items())]
        return ", ".join(parts)


@lru_cache(maxsize=4096)
def is_scalar_name(name: str) -> bool:
    """Kubernetes' IsScalarResourceName: extended, hugepages-*, kubernetes.io/* or attachable-volumes-*."""
    if name.startswith(("hugepages-", ATTACH_PREFIX)) or "kubernetes.io/" in name:
        return True
    if "/" not in name or name.startswith("requests."):
        return False
    return _is_qualified(f"requests.{name}")


@lru_cache(maxsize=4096)
def is_counted(name: str) -> bool:
    """A name that a Resource keeps among its scalars, `pods` apart."""
    return name == "ephemeral-storage" or (is_scalar_name(name) and not name.startswith("count/"))


def _is_qualified(name: str) -> bool:
    prefix, _, rest = name.partition("/")
    return (
        "/" not in rest
        and len(prefix) <= 253
        and _SUBDOMAIN.match(prefix) is not None
        and len(rest) <= 63
        and _NAME.match(rest) is not None
    )


def new_resource(amounts: ResourceMap | None, *, exact: bool = False) -> Resource:
    """A Resource from a resource map; names that the scheduler does not count are left out (vector 011).
    `exact`: ints without int64's overflow. Raises QuantityInvalid.

    >>> new_resource({"cpu": "1500m", "memory": "1Ki", "pods": "3"}).amounts()
    {'cpu': 1500.0, 'memory': 1024.0, 'pods': 3.0}
    """
    if exact:
        return _new_exact(amounts or {})
    resource = Resource()
    for name, amount in (amounts or {}).items():
        if name == "cpu":
            resource.milli_cpu += float(quantities.milli_value(amount))
        elif name == "memory":
            resource.memory += float(quantities.value(amount))
        elif name == PODS:
            number = quantities.value(amount)
            resource.max_task_num += number
            resource.add_scalar(name, float(number))
        elif is_counted(name):
            resource.add_scalar(name, float(quantities.milli_value(amount)))
    return resource


def _new_exact(amounts: Mapping[str, str | int | float]) -> Resource:
    resource = Resource(0, 0)
    for name, amount in amounts.items():
        if name == "cpu":
            resource.milli_cpu += quantities.exact_value(amount, -3)
        elif name == "memory":
            resource.memory += quantities.exact_value(amount)
        elif name == PODS:
            number = quantities.exact_value(amount)
            resource.max_task_num += number
            resource.add_scalar(name, number)
        elif is_counted(name):
            resource.add_scalar(name, quantities.exact_value(amount, -3))
    return resource


__all__ = [
    "ATTACH_PREFIX",
    "CSI_ATTACH_PREFIX",
    "EPSILON",
    "PODS",
    "Resource",
    "ResourceInsufficient",
    "is_counted",
    "is_scalar_name",
    "new_resource",
]
