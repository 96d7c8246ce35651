"""The figures of a replay: waits, utilization, and how the record's decisions and ours compare.

Owns the arithmetic. Must not know how a replay runs. Called by `vcledger.replay.world` (the meter), `free` and
`shadow`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from vcledger.replay.report import Usage, Wait

STRETCHES = 60
"""Values in a series of utilization."""


class Meter:
    """What is in use and what there is, over time: every change as (time, resource, amount added)."""

    def __init__(self) -> None:
        self.used: list[tuple[int, str, float]] = []
        self.room: list[tuple[int, str, float]] = []
        self.nodes: dict[str, Mapping[str, float]] = {}

    def take(self, now: int, amounts: Mapping[str, float]) -> None:
        """Somebody begins to hold the amounts."""
        self.used += [(now, name, amount) for name, amount in amounts.items() if amount]

    def give_back(self, now: int, amounts: Mapping[str, float]) -> None:
        """Somebody holds them no more."""
        self.used += [(now, name, -amount) for name, amount in amounts.items() if amount]

    def node(self, now: int, name: str, amounts: Mapping[str, float]) -> None:
        """What a node has from now on; nothing: it is gone."""
        before = self.nodes.get(name, {})
        if amounts == before:
            return
        for resource in {**before, **amounts}:
            change = amounts.get(resource, 0.0) - before.get(resource, 0.0)
            if change:
                self.room.append((now, resource, change))
        self.nodes[name] = amounts


def usage(
    used: Sequence[tuple[int, str, float]], room: Sequence[tuple[int, str, float]], start: int, end: int
) -> dict[str, Usage]:
    """The share in use by resource, of each that the nodes have; changes in the order of time."""
    held, there = _by_resource(used), _by_resource(room)
    return {name: _share(held.get(name, []), changes, start, end) for name, changes in there.items()}


def _by_resource(changes: Sequence[tuple[int, str, float]]) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for time, name, amount in changes:
        found.setdefault(name, []).append((time, amount))
    return found


def _share(used: list[tuple[int, float]], room: list[tuple[int, float]], start: int, end: int) -> Usage:
    if end <= start:
        return Usage()
    width = (end - start) / STRETCHES
    held, had, peak = [0.0] * STRETCHES, [0.0] * STRETCHES, 0.0
    changes = sorted([(time, 0, amount) for time, amount in room] + [(time, 1, amount) for time, amount in used])
    in_use = there = 0.0
    last = start
    for number, (time, which, amount) in enumerate(changes):
        time = min(max(time, start), end)
        _spread(held, in_use, last, time, start, width)
        _spread(had, there, last, time, start, width)
        last = time
        if which:
            in_use += amount
        else:
            there += amount
        settled = number + 1 == len(changes) or changes[number + 1][0] > time
        if there > 0 and settled:
            peak = max(peak, in_use / there)
    _spread(held, in_use, last, end, start, width)
    _spread(had, there, last, end, start, width)
    series = [round(a / b, 4) if b > 0 else 0.0 for a, b in zip(held, had, strict=True)]
    whole = sum(had)
    return Usage(round(sum(held) / whole, 4) if whole > 0 else 0.0, round(peak, 4), series)


def _spread(into: list[float], amount: float, since: int, until: int, start: int, width: float) -> None:
    """Adds amount x time to the stretches between two moments."""
    if not amount or until <= since:
        return
    first, last = int((since - start) / width), int((until - start) / width)
    if first == last < STRETCHES:
        into[first] += amount * (until - since)
        return
    for stretch in range(first, min(last, STRETCHES - 1) + 1):
        left, right = start + stretch * width, start + (stretch + 1) * width
        into[stretch] += amount * max(0.0, min(until, right) - max(since, left))


def waits(found: Iterable[tuple[str, int]]) -> dict[str, Wait]:
    """(queue, microseconds) of each pod that got a place, as figures by queue, '' for all of them."""
    by_queue: dict[str, list[int]] = {}
    for queue, micros in found:
        by_queue.setdefault("", []).append(max(0, micros))
        if queue:
            by_queue.setdefault(queue, []).append(max(0, micros))
    return {queue: wait_of(by_queue[queue]) for queue in sorted(by_queue)}


def wait_of(micros: Sequence[int]) -> Wait:
    """The quantiles (nearest rank) of some waits, in seconds."""
    ordered = sorted(micros)
    return Wait(len(ordered), _rank(ordered, 0.5), _rank(ordered, 0.95), round(ordered[-1] / 1e6, 3))


def _rank(ordered: Sequence[int], share: float) -> float:
    return round(ordered[max(0, math.ceil(len(ordered) * share) - 1)] / 1e6, 3)


__all__ = ["STRETCHES", "Meter", "usage", "wait_of", "waits"]
