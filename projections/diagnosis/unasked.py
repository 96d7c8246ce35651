"""What a pod counts for to whoever scores nodes, where it doesn't say what it asks for.

Owns that reading of a pod. Must not know nodes nor scores. Called by `views`, and by the session's shapes and scores.
"""

from __future__ import annotations

from volcano.objects.core import Container, Pod, PodSpec
from volcano.objects.meta import ResourceMap
from volcano.objects.resource import new_resource

UNASKED = (100.0, 200.0 * 1024 * 1024)
"""What a container counts for to whoever scores nodes, in milli-cores and bytes, that doesn't say how much it asks of
them (kube-scheduler's DefaultMilliCPURequest and DefaultMemoryRequest)."""

ALL_ASKED = (0.0, 0.0)


def unasked(pod: Pod) -> tuple[float, float]:
    """What a pod counts for beyond what it asks, in milli-cores and bytes: UNASKED for each container without a
    request. One that states 0 asks for nothing (PodRequests with NonMissingContainerRequests)."""
    spec = pod.spec
    stated = [_stated(one) for one in (*(spec.containers or ()), *(spec.init_containers or ()))]
    silent = [sum(name not in one for one in stated) for name in ("cpu", "memory")]
    if not any(silent):
        return ALL_ASKED
    if not spec.init_containers:
        return silent[0] * UNASKED[0], silent[1] * UNASKED[1]
    cpu, memory = (
        _counted(spec, name, amount) - _counted(spec, name, 0.0)
        for name, amount in zip(("cpu", "memory"), UNASKED, strict=True)
    )
    return cpu, memory


def _stated(container: Container) -> ResourceMap:
    return (container.resources.requests if container.resources is not None else None) or {}


def _counted(spec: PodSpec, name: str, unstated: float) -> float:
    """The sum over the containers, or the peak of the init containers where that is more."""

    def amount(container: Container) -> float:
        stated = _stated(container)
        if name not in stated:
            return unstated
        read = new_resource({name: stated[name]})
        return read.milli_cpu if name == "cpu" else read.memory

    total = sum(map(amount, spec.containers or ()))
    sidecars = peak = 0.0
    for one in spec.init_containers or ():
        if one.restart_policy == "Always":
            total, sidecars = total + amount(one), sidecars + amount(one)
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + amount(one))
    return max(total, peak)


__all__ = ["ALL_ASKED", "UNASKED", "unasked"]
