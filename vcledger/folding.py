"""From the log to a state: the nearest snapshots, then the events after them.

Owns the loop that reads, decodes and folds, which is the one a whole rebuild spends its time in. Must not know any
projection. Called by `vcledger.ledger`, `vcledger.snapshotter`, `vcledger.drift`, the replays and the loop.

Late events are passed over: when they were observed the record had already got further, and what was known when is not
rewritten.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from eventstore import EventStore
from eventstore.types import Snapshot
from projections.base import Projection
from vcledger import codec
from vcledger.errors import HistoryPruned

S = TypeVar("S")

SEGMENT = 10_000
"""Positions between two calls of a progress function."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """While a state is loaded or folded on, tens of thousands of objects come to stay, and those that go are in no
    cycle: the garbage collector would look at all of them again and again for nothing (a fifth of the time)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Folder:
    """Folds of one store. Holds no state of its own."""

    def __init__(self, store: EventStore) -> None:
        self.store = store

    def chain(self, projection: Projection[S], cluster: str, position: int) -> list[Snapshot]:
        """The newest usable chain of snapshots at or before `position`: a whole one and the changes after it."""
        return self.store.load_snapshots(projection.name, projection.version, cluster, position)

    def nearest(self, projection: Projection[S], cluster: str, position: int) -> tuple[int, S]:
        """The state that the snapshots at or before `position` give, and where it stands; (0, initial) without any.
        HistoryPruned when it would rest on events that are no longer there."""
        chain, state = self.loaded(projection, cluster, position)
        return (chain[-1].position if chain else 0), state

    def loaded(self, projection: Projection[S], cluster: str, position: int) -> tuple[list[Snapshot], S]:
        """The newest chain at or before `position` that can be read, and its state. A snapshot that cannot, such as one
        of another layout, is as good as not there: an earlier one, or the record itself, says the same (`verify` names
        it)."""
        at = position
        while True:
            chain = self.chain(projection, cluster, at)
            self._refuse_pruned(projection, cluster, position, chain)
            if not chain:
                return chain, projection.initial()
            try:
                return chain, self.load(projection, chain)
            except ValueError:
                at = chain[-1].position - 1

    def load(self, projection: Projection[S], chain: Sequence[Snapshot]) -> S:
        """The state that a chain says. ValueError when it cannot be read."""
        with collector_paused():
            return projection.load([snapshot.payload for snapshot in chain])

    def _refuse_pruned(self, projection: Projection[S], cluster: str, position: int, chain: Sequence[Snapshot]) -> None:
        """HistoryPruned when events between the chain (without one: the beginning) and `position` were dropped."""
        reached, first = (chain[-1].position if chain else 0), self.store.first()
        if reached < first - 1 and (chain or self._older(cluster, first)):
            raise HistoryPruned(
                f"no snapshot of {projection.name} stands between {first - 1} and {position}, and the events before "
                f"{first} were pruned: ask for a later position, or for a model that has one"
            )

    def _older(self, cluster: str, first: int) -> bool:
        """Whether the cluster was already there when the events before `first` were pruned."""
        if any(info.position < first for info in self.store.snapshots(cluster=cluster)):
            return True
        return next(self.store.read(cluster=cluster, to=first - 1, limit=1), None) is not None

    def at(self, projection: Projection[S], cluster: str, position: int) -> S:
        """The state after `position`."""
        start, state = self.nearest(projection, cluster, position)
        return self.advance(projection, state, cluster, start, position)

    def rebuild(
        self,
        projection: Projection[S],
        cluster: str,
        position: int,
        progress: Callable[[int], None] | None = None,
    ) -> S:
        """The state after `position` from the beginning of the record, without the help of snapshots; of a pruned
        record, from the snapshot that stands at its cut. `progress` is told the position that has been reached."""
        start, state = self.nearest(projection, cluster, self.store.first() - 1)
        return self.advance(projection, state, cluster, start, position, progress)

    def along(self, projection: Projection[S], cluster: str, positions: Iterable[int]) -> Iterator[tuple[int, S]]:
        """The state at each of some rising positions, in one pass; each is good until the next is asked for. Far ahead
        it goes on from a snapshot, if there is one. ValueError when they do not rise."""
        held: tuple[int, S] | None = None
        for position in positions:
            if held is None:
                held = self.nearest(projection, cluster, position)
            elif position < held[0]:
                raise ValueError(f"positions must rise: {position} after {held[0]}")
            elif position - held[0] > SEGMENT:
                chain = self.chain(projection, cluster, position)
                if chain and chain[-1].position - held[0] > SEGMENT:
                    held = self.nearest(projection, cluster, position)
            held = position, self.advance(projection, held[1], cluster, held[0], position)
            yield held

    def advance(
        self,
        projection: Projection[S],
        state: S,
        cluster: str,
        after: int,
        to: int,
        progress: Callable[[int], None] | None = None,
    ) -> S:
        """`state`, which stands at `after`, folded on to `to`. The old one is given up."""
        evolve, decoders = projection.evolve, decoders_of(projection)
        while after < to:
            end = min(after + SEGMENT, to)
            with collector_paused():
                for recorded in codec.fold_stream(self.store, cluster, after, end, decoders=decoders):
                    state = evolve(state, recorded)
            after = end
            if progress is not None:
                progress(after)
        return state


def decoders_of(projection: Projection[S]) -> codec.Decoders | None:
    """What reads the objects that a projection looks into, when it says so in `decoders`; None: all, whole."""
    found: codec.Decoders | None = getattr(projection, "decoders", None)
    return found
