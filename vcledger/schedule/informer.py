"""Lists and watches as inputs of the loop, and how many of them may wait.

Owns the turning of a feed's items into inputs, and the last bodies of objects, which a deletion that nobody saw needs.
Must not know threads' lives nor the loop's inside. Called by `vcledger.schedule.scheduler`, one informer a kind, each
run by a `Worker` of the recorder's: what a connection does, and when it is tried again, is the recorder's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from eventstore import EventStore
from eventstore.types import NewEvent
from vcledger.codec import OBJECT_TYPES, OBSERVATION_TYPES
from vcledger.record import resume
from vcledger.record.feed import Feed, Gone, Item, Origin, Turn
from vcledger.record.scope import Scope
from vcledger.scheduler.inputs import Input, Listed, Noted, Observed
from vcledger.sources import listwatch
from vcledger.sources.observe import Observer
from volcano.events import catalog
from volcano.events.observation import ListCompleted

CHANGES = {type_: change for change, type_ in OBSERVATION_TYPES.items()}
"""What a watch line calls an event of an object."""

WAITING_MAX = 20_000
"""Inputs that may wait for the loop before watches are held up."""

BODIES_AT_ONCE = 500


class Informer:
    """A kind's list and watch, for the loop. `bodies`: what the log has of its objects, by UID."""

    def __init__(self, feed: Feed, bodies: dict[str, bytes]) -> None:
        self.feed, self.bodies = feed, bodies

    @property
    def scope(self) -> Scope:
        return self.feed.scope

    def begin(self, now: int) -> Turn[Input]:
        """The first thing to ask."""
        return self._turn(self.feed.begin(now))

    def take(self, heard: listwatch.Input, now: int, luck: float = 0.0) -> Turn[Input]:
        """One input of the list and watch."""
        return self._turn(self.feed.take(heard, now, luck))

    def lines(self, lines: Iterable[tuple[str, bytes]], now: int, luck: float = 0.0) -> Turn[Input]:
        """Lines of the watch."""
        return self._turn(self.feed.lines(lines, now, luck))

    def _turn(self, turn: Turn[Item]) -> Turn[Input]:
        found = [given for item in turn.items if (given := self._input(item)) is not None]
        return Turn(found, turn.ask, turn.due)

    def _input(self, item: Item) -> Input | None:
        if isinstance(item, Gone):
            body = self.bodies.pop(item.stream.uid, None)
            return None if body is None else Observed(self.scope.kind, "DELETED", body, inferred=True)
        if item.type in OBJECT_TYPES:
            return self._observed(item)
        if item.stream.kind != self.scope.kind:
            return None  # a marker of what could not be used: the feed counts it
        event = catalog.decode(item.type, item.schema, item.stream.kind, item.payload)
        if isinstance(event, ListCompleted):
            return Listed(self.scope.kind, event.resource_version, event.items, event.relist)
        return Noted(self.scope.kind, event)

    def _observed(self, event: NewEvent) -> Observed:
        change = CHANGES[event.type]
        if change == "DELETED":
            self.bodies.pop(event.stream.uid, None)
        else:
            self.bodies[event.stream.uid] = event.payload
        return Observed(self.scope.kind, change, event.payload)


def informer(store: EventStore, origin: Origin, kind: str, observer: Observer, *, page: int, absent: int) -> Informer:
    """The informer of a kind, which begins with what the log has of it, and lists."""
    scope = Scope(kind)
    if origin.cluster not in store.clusters():
        return Informer(Feed(scope, origin, observer, page=page, absent=absent), {})
    begin = resume.begin(store, origin.cluster, scope, None)
    feed = Feed(scope, origin, observer, known=begin.known, since=begin.since, page=page, absent=absent)
    bodies: dict[str, bytes] = {}
    for at in range(0, len(begin.known), BODIES_AT_ONCE):
        some = begin.known[at : at + BODIES_AT_ONCE]
        bodies.update({event.uid: event.payload for event in store.get([one.position for one in some])})
    return Informer(feed, bodies)


class Intake:
    """Inputs on their way to the loop. Who puts waits while too many wait there, so that nothing grows: watches are
    read more slowly then, and the API server holds what comes or ends them."""

    def __init__(self, put: Callable[[Input], None], queued: Callable[[], int], most: int = WAITING_MAX) -> None:
        self._put, self._queued, self._most = put, queued, most
        self._closed = threading.Event()

    def put(self, group: Sequence[Input]) -> bool:
        """All of a group, as soon as there is room. False, and nothing put, once it was closed."""
        while self._queued() >= self._most:
            if self._closed.wait(0.05):
                return False
        if self._closed.is_set():
            return False
        for given in group:
            self._put(given)
        return True

    def close(self) -> None:
        """Nothing more comes in."""
        self._closed.set()


__all__ = ["Informer", "Intake", "informer"]
