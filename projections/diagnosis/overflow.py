"""Requests that are too large for the scheduler's numbers.

Owns telling them. Must not know verdicts. Called by `projections.diagnosis.explain`.
Source: Go's resource.Quantity, whose MilliValue and Value are 64 bits wide and wrap, and the cache that adds them up
(Volcano api.NewResource); the `exact` model counts what was written.
"""

from __future__ import annotations

from projections.diagnosis.amounts import show
from projections.diagnosis.views import TaskView
from volcano.objects.quantity import INT64_MAX, QuantityInvalid, exact_value

WHOLE = ("memory", "pods")
"""Resources that are counted in units; all others in thousandths."""


def overflow_notes(task: TaskView | None) -> list[str]:
    """What a pod asks that the scheduler counts as something else, with what it makes of it."""
    pod = task.pod if task is not None else None
    if task is None or pod is None:
        return []
    notes: dict[str, None] = {}
    for container in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ())):
        requests = container.resources.requests if container.resources is not None else None
        for name, written in (requests or {}).items():
            counted = task.request.get(name, 0.0)
            if _units(name, written) > INT64_MAX and counted < INT64_MAX:
                notes[
                    f"{name} {written} is more than the scheduler's 64 bits hold: it counts as {show(name, counted)}"
                    + (", as if nothing were asked" if counted <= 0 else "")
                ] = None
    return list(notes)


def _units(name: str, written: str | int | float) -> int:
    """A quantity in the units in which the scheduler counts the resource, without any limit."""
    try:
        return exact_value(written) * (1 if name in WHOLE else 1000)
    except QuantityInvalid:
        return 0


__all__ = ["overflow_notes"]
