"""The states with which a cycle can have begun, and the search for the one with which it did.

Owns both. Must not know what is asked of a state. Called by `proof_words` and `proof_choices`.

A cycle's snapshot lies between its earliest begin and its first write (`proof_log.Cycle`). Where neither of these
states will do, some between them are tried, and then some more on both sides of the best: where pods come and go fast,
one state is right among many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from vcledger import codec
from vcledger.proof_log import Cycle

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

ROUNDS = (6, 4, 4)
"""States that are tried in each round."""

READ = (
    "CSINode",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodGroup",
    "PriorityClass",
    "Queue",
    "StorageClass",
)
"""Kinds that a snapshot is made of."""


def moments(ledger: Ledger, cluster: str, part: Cycle) -> list[int]:
    """The positions between a cycle's earliest begin and its first write at which something changed."""
    if part.start - part.began < 2:
        return []
    changes = ledger.store.read(
        after=part.began, to=part.start - 1, cluster=cluster, kinds=READ, types=codec.OBJECT_TYPES, late=False
    )
    return [stored.position for stored in changes]


def search(positions: Sequence[int], ask: Callable[[Sequence[int]], Sequence[int]], done: Callable[[], bool]) -> None:
    """Asks about some positions, as many numbers as positions coming back, then about some beside the one with the
    highest, until `done` or the rounds are over. None is asked about twice."""
    low, high = -1, len(positions)
    for number in ROUNDS:
        inner = range(low + 1, high)
        if not inner or done():
            return
        step = max(len(inner) // (number + 1), 1)
        chosen = list(inner[step - 1 :: step])[: number + 1]
        numbers = ask([positions[at] for at in chosen])
        best = max(range(len(chosen)), key=lambda at: numbers[at])
        low = chosen[best - 1] if best else low
        high = chosen[best + 1] if best + 1 < len(chosen) else high
        positions = [one for at, one in enumerate(positions) if low < at < high and at not in chosen]
        low, high = -1, len(positions)


__all__ = ["moments", "search"]
