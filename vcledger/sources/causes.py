"""Which event caused which, across the batches of an import.

Owns the way from an event's key to where it stands. Must not know formats nor the log. Called by
`vcledger.sources.sink`.

A reader that knows an event's cause by its key alone, because neither is in the log yet, gives the event the key's
negative as `causation`; keys begin at KEYED, so that means nothing else. The sink turns it into what the log takes: the
place within the same append, or the position of what was appended before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eventstore.types import NewEvent, StreamId

CAUSES = frozenset({"BindRequested"})
"""Types of events that others name as their cause by key."""

KEPT = 50_000
"""How many causes without their effect are remembered: each bind is answered soon after it was asked for."""

Key = tuple[StreamId, int | None]


class Causes:
    """The causes of an import whose effects may be still to come."""

    def __init__(self) -> None:
        self._batch: dict[Key, int] = {}
        self._under_way: dict[Key, int] = {}
        self._positions: dict[Key, int] = {}

    def add(self, event: NewEvent, place: int) -> None:
        """An event that stands at a place, counted from 1, of the batch at hand."""
        self._batch[event.stream, event.resource_version] = place

    def sent(self) -> None:
        """The batch at hand is being appended; the next one begins."""
        self._under_way, self._batch = self._batch, {}

    def stored(self, positions: Sequence[int]) -> None:
        """Where the events of the batch that was sent stand now."""
        self._positions.update((key, positions[place - 1]) for key, place in self._under_way.items())
        self._under_way = {}
        while len(self._positions) > KEPT:
            del self._positions[next(iter(self._positions))]

    def of(self, event: NewEvent, settle: Callable[[], None]) -> int | None:
        """The `causation` that the log takes for an event with the negative of its cause's key; None when the cause was
        never seen. `settle` waits until what was sent is stored."""
        key = (event.stream, -(event.causation or 0))
        if key in self._batch:
            return -self._batch.pop(key)
        if key in self._under_way:
            settle()
        return self._positions.pop(key, None)
