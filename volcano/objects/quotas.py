"""ResourceQuota: what one has left, and what a pod takes of it.

Owns that arithmetic, in whole thousandths of a unit. Must not know who asks. Called by the resourcequota plugin of the
session and by the diagnosis.
Source: Kubernetes' quota for pods (PodUsageFunc: requests under their own name and with `requests.`, limits with
`limits.`, `pods` and `count/pods`), and its comparison by the names that a quota limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from volcano.objects.core import Container, Pod, ResourceQuota
from volcano.objects.meta import ResourceMap
from volcano.objects.quantity import QuantityInvalid, exact_value

COMPUTE = ("cpu", "memory", "ephemeral-storage")
"""Resources that a quota may name without `requests.` before them."""

Amounts = Mapping[str, int]


class Exceeded(NamedTuple):
    """A resource of which a quota has too little: what is asked, what is used with all that is let in already, and what
    the quota allows, in thousandths."""

    name: str
    asked: int
    used: int
    hard: int


def thousandths(amounts: ResourceMap | None) -> dict[str, int]:
    """Quantities in thousandths of a unit; what is no quantity counts as nothing."""
    found = {}
    for name, written in (amounts or {}).items():
        try:
            found[name] = exact_value(written, -3)
        except QuantityInvalid:
            found[name] = 0
    return found


def exceeded(asked: Amounts, quota: ResourceQuota, admitted: Amounts | None = None) -> list[Exceeded]:
    """The resources, by name, of which the quota has not what is asked; `admitted` counts as used besides."""
    hard, used = thousandths(quota.status.hard), thousandths(quota.status.used)
    before = admitted or {}
    lines = [
        Exceeded(name, asked[name], used.get(name, 0) + before.get(name, 0), hard[name])
        for name in sorted(hard)
        if name in asked
    ]
    return [one for one in lines if one.used + one.asked > one.hard]


def scoped(quota: ResourceQuota) -> bool:
    """Whether it is only for some pods, by their class or how they end."""
    return bool(quota.spec.scopes or quota.spec.scope_selector)


def usage_of(pod: Pod, count: int = 1) -> dict[str, int]:
    """What so many pods of a kind take of quotas."""
    found = {"pods": 1000, "count/pods": 1000}
    for name, amount in _most(pod, limits=False).items():
        if name in COMPUTE:
            found[name] = amount
        found[f"requests.{name}"] = amount
    for name, amount in _most(pod, limits=True).items():
        if name in COMPUTE:
            found[f"limits.{name}"] = amount
    return {name: amount * count for name, amount in found.items()}


def _most(pod: Pod, *, limits: bool) -> dict[str, int]:
    """The sum over the containers and sidecars, or the largest init container with the sidecars before it, and the
    overhead."""
    running, peak = dict[str, int](), dict[str, int]()
    for container in pod.spec.init_containers or ():
        amounts = _amounts(container, limits)
        if container.restart_policy == "Always":
            running = _add(running, amounts)
        else:
            peak = _larger(peak, _add(running, amounts))
    for container in pod.spec.containers or ():
        running = _add(running, _amounts(container, limits))
    return _add(_larger(running, peak), thousandths(pod.spec.overhead))


def _amounts(container: Container, limits: bool) -> dict[str, int]:
    stated = container.resources
    return thousandths((stated.limits if limits else stated.requests) if stated is not None else None)


def _add(left: Amounts, right: Amounts) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


def _larger(left: Amounts, right: Amounts) -> dict[str, int]:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


__all__ = ["Exceeded", "exceeded", "scoped", "thousandths", "usage_of"]
