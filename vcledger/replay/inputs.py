"""What a replay takes from the record: the observations of a cluster, decisions of the recorded scheduler apart, and
the changes that a what-if makes to them.

Owns the shapes `Input` and `Change`, and how a ledger's events become inputs. Must not know the simulation nor how a
change is written on a command line. Called by `vcledger.replay.engine`; a what-if's changes come from `whatif`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from eventstore.types import StoredEvent
from projections.cache import Cache
from vcledger.ledger import Ledger
from volcano.events.base import MARKERS
from volcano.objects import kinds


class Input(NamedTuple):
    """One observation of the record. `time` in microseconds, never earlier than the input's before it; `change` is
    ADDED, MODIFIED or DELETED; `object` the JSON as it is replayed, decoded, `raw` as it was recorded; `listed` of what
    a list showed, so that its beginning was not seen."""

    position: int
    time: int
    kind: str
    change: str
    object: dict[str, Any]
    raw: dict[str, Any]
    listed: bool = False


class Change(Protocol):
    """A difference between the record and what is replayed. Pure and picklable; must not keep state."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds whose objects `rewrite` wants to see; no other object is read for it."""
        ...

    def added(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """Objects (kind, JSON object) that are there from the replay's first moment on."""
        ...

    def rewrite(self, kind: str, obj: dict[str, Any]) -> dict[str, Any] | None:
        """The object as it is to be replayed, or None: it is left out, and its later observations too. Called for every
        observation of `kinds`, those of the state at the start as well. May change `obj` itself."""
        ...


CHANGES: Mapping[str, str] = {"ObjectAdded": "ADDED", "ObjectModified": "MODIFIED", "ObjectDeleted": "DELETED"}
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Reading:
    """The inputs of a part of a record. `late` and `unread` count what was passed over: observations that the record
    had got past, and objects that are none of their kind."""

    def __init__(self, ledger: Ledger, cluster: str, after: int, to: int, changes: Sequence[Change] = ()) -> None:
        self.ledger, self.cluster, self.after, self.to = ledger, cluster, after, to
        self.changes = tuple(changes)
        self.late = self.unread = 0

    def __iter__(self) -> Iterator[Input]:
        """What there is at the beginning, what the changes add, then the record."""
        first = self._beginning()
        start = first[0].time if first else self._first_time()
        yield from first
        for change in self.changes:
            for kind, obj in change.added():
                yield Input(self.after, start, kind, "ADDED", obj, obj, listed=True)
        yield from self._record()

    def _beginning(self) -> list[Input]:
        """The objects that the record holds at `after`."""
        if not self.after:
            return []
        cache = self.ledger.cache(self.after, cluster=self.cluster)
        when = self.ledger.observed_at(self.after, self.cluster) or 0
        return [
            one
            for stored in self.ledger.store.get(sorted(positions_of(cache)))
            if (one := self._input(stored, when, listed=True)) is not None
        ]

    def _first_time(self) -> int:
        found = self.ledger.store.read(after=self.after, to=self.to, cluster=self.cluster, late=False, limit=1)
        return next((stored.observed_at for stored in found), 0)

    def _record(self) -> Iterator[Input]:
        listing = self._lists_end()
        for stored in self.ledger.store.read(after=self.after, to=self.to, cluster=self.cluster):
            if stored.late:
                self.late += stored.type in CHANGES
            elif stored.kind == MARKERS.kind and stored.type == "Marker":
                obj = {"metadata": {"name": stored.name}, "marker": _decode(stored.payload)}
                yield Input(stored.position, stored.observed_at, stored.kind, "ADDED", obj, obj)
            elif stored.type in CHANGES:
                one = self._input(stored, stored.observed_at, listed=stored.position < listing.get(stored.kind, 0))
                if one is not None:
                    yield one

    def _lists_end(self) -> dict[str, int]:
        """By kind the position at which its first list was whole."""
        found: dict[str, int] = {}
        if not self.after:
            done = self.ledger.store.read(to=self.to, cluster=self.cluster, types="ListCompleted")
            for stored in done:
                found.setdefault(stored.kind, stored.position)
        return found

    def _input(self, stored: StoredEvent, when: int, *, listed: bool) -> Input | None:
        try:
            kinds.decode(stored.kind, stored.payload)
            raw = _decode(stored.payload)
        except (KeyError, ValueError, RecursionError):
            self.unread += 1
            return None
        obj: dict[str, Any] | None = raw
        for change in self.changes:
            if obj is not None and stored.kind in change.kinds:
                obj = change.rewrite(stored.kind, obj)
        if obj is None:
            return None
        return Input(stored.position, when, stored.kind, CHANGES[stored.type], obj, raw, listed)


def positions_of(cache: Cache) -> Iterator[int]:
    """Where the objects that a cache holds were last observed."""
    yield from (ref.position for ref in cache.pods.values())
    yield from cache.positions.values()
