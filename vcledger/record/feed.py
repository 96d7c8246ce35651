"""One list and watch as events of the log: what the machine says, in the order in which it has to be stored.

Owns what of a kind's list and watch becomes an event, and which. Pure: time comes in, nothing goes out but values. Must
not know threads, transports nor the ledger. Called by `vcledger.record.worker`, and by tests without any thread.

What happens to the connection is told as well: each list's beginning and end, each watch that opens, expires or fails.
A failure that comes again and again is told the 1st, 2nd, 4th, 8th ... time. Events about the kind as a whole stand in
its stream without a name, and name the start of the recorder (`started`) as their cause: by that a later run knows
which versions are its own to go on from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from eventstore.types import RECORDED, NewEvent, StreamId
from vcledger.record.scope import Scope
from vcledger.sources.lists import Known, LastSeen
from vcledger.sources.listwatch import (
    Answered,
    AskList,
    AskWatch,
    Change,
    Closed,
    Inferred,
    Input,
    Line,
    ListWatch,
    Output,
    Refused,
    Resume,
    Start,
    State,
    Tell,
)
from vcledger.sources.observe import Observer, Unusable, Unwanted, hash_key
from vcledger.sources.shape import keyed
from volcano.events.base import MARKERS, DomainEvent
from volcano.events.observation import (
    Bookmark,
    GapRecorded,
    ListCompleted,
    ListStarted,
    Marker,
    WatchExpired,
    WatchFailed,
    WatchStarted,
)
from volcano.objects.kinds import BY_NAME

REFUSED = "recorder-refused"
"""The marker of something that could not be used."""

AWAY_MICROS = 10_000_000
"""A watch that was away for longer, and then went on where it had ended, leaves a gap on record: nothing is missing,
but its changes are dated after it."""


class Gone(NamedTuple):
    """An object that a list proves to be gone. Who appends has its last state from the ledger."""

    stream: StreamId
    observed_at: int


Item: TypeAlias = NewEvent | Gone

T = TypeVar("T")


class Turn(NamedTuple, Generic[T]):
    """What an input led to: `items` to store, in order, and then what is to be asked, or when to come again (`due`,
    microseconds; None: when there is something to hear)."""

    items: list[T]
    ask: AskList | AskWatch | None
    due: int | None


class Counts:
    """What a feed has seen, for whoever shows it: changes by type, and lists, gaps, failures, things refused."""

    def __init__(self) -> None:
        self.changes = {"ADDED": 0, "MODIFIED": 0, "DELETED": 0}
        self.inferred = self.lists = self.gaps = self.bookmarks = self.failures = self.expired = self.refused = 0


class Origin(NamedTuple):
    """The run that a feed belongs to: the cluster's name here, a word that no other run has, and the position of the
    event that says that it began."""

    cluster: str
    run: str
    started: int | None


class Feed:
    """The list and watch of one scope. `known` and `since`: what the log has of it; `resume`: whether to go on from the
    version of `since`, or to list. Call `begin`, then `take`."""

    def __init__(
        self,
        scope: Scope,
        origin: Origin,
        observer: Observer,
        *,
        known: list[Known] | None = None,
        since: LastSeen | None = None,
        resume: bool = False,
        page: int = 500,
        absent: int | None = None,
    ) -> None:
        more = {} if absent is None else {"absent": absent}
        self.scope, self.origin, self.counts = scope, origin, Counts()
        self.machine = ListWatch(scope.kind, limit=page, known=known, **more)
        self._observer, self._kind = observer, BY_NAME[scope.kind]
        self._stream = StreamId(origin.cluster, scope.kind, scope.namespace, "", "")
        self._since, self._resume = since, resume and since is not None
        self._told = 0
        self._listing = False
        self._failure: tuple[int, str] | None = None
        self._times = self._refusals = 0
        self._away_since = since.time if self._resume and since is not None else None
        self._back_at: int | None = None
        self.heard_at: int | None = None
        self.problem = ""

    @property
    def watching(self) -> bool:
        return self.machine.state is State.WATCHING

    @property
    def listed(self) -> bool:
        """Whether the state of its objects is whole: a list is through, and none is in progress."""
        return bool(self.machine.version) and not self._listing

    def begin(self, now: int) -> Turn[Item]:
        """The first thing to ask."""
        first: Input = Resume(self._since) if self._resume and self._since is not None else Start(self._since)
        return self.take(first, now)

    def take(self, heard: Input, now: int, luck: float = 0.0) -> Turn[Item]:
        """One input. `luck` in [0, 1) makes waits longer, so that not all come back at once."""
        if self.watching and isinstance(heard, Closed | Answered) and self._away_since is None:
            self._away_since = now
        step = self.machine.take(heard, now, luck)
        items: list[Item] = []
        if isinstance(heard, Answered) and self.watching:
            self._back_at = now
        for output in step.outputs:
            if isinstance(heard, Line):
                items += self._back(output, now)
            items += self._items(output, now)
        if isinstance(step.ask, AskList):
            self._away_since = self._back_at = None  # what was missed, the list finds
        if isinstance(step.ask, AskList) and not step.ask.continue_ and not self._listing:
            self._listing = True
            items += self._tell(ListStarted(resource=self.scope.resource), now)
        return Turn(items, step.ask, self.machine.due)

    def lines(self, lines: Iterable[tuple[str, bytes]], now: int, luck: float = 0.0) -> Turn[Item]:
        """Several lines of the watch; those after one that ends it are left."""
        items: list[Item] = []
        for type_, body in lines:
            turn = self.take(Line(type_, body), now, luck)
            items += turn.items
            if not self.watching:
                return Turn(items, turn.ask, turn.due)
        return Turn(items, None, None)

    # --- outputs --------------------------------------------------------------------------------------------------

    def _items(self, output: Output, now: int) -> list[Item]:
        if isinstance(output, Change):
            return self._change(output, now)
        if isinstance(output, Inferred):
            self.counts.inferred += 1
            known = output.known
            stream = StreamId(self.origin.cluster, self.scope.kind, known.namespace, known.name, known.uid)
            return [Gone(stream, now)]
        if isinstance(output, Refused):
            return self._refused(output.reason, now)
        return self._event(output.event, now)

    def _change(self, change: Change, now: int) -> list[Item]:
        self.heard_at = now
        data = bytes(change.object)
        try:
            part = self._observer.read(self._kind, data)
            event = self._observer.event(self._kind, change.type, part, data, now)
        except (Unusable, Unwanted) as error:
            return self._refused(f"{change.type} of {self.scope.resource}: {error}", now)
        self.counts.changes[change.type] += 1
        return [event._replace(late=True) if change.overtaken else event]

    def _refused(self, reason: str, now: int) -> list[Item]:
        """A marker says what could not be used: without its bytes, which may hold anything."""
        self.counts.refused += 1
        self._refusals += 1
        if not told_again(self._refusals):
            return []
        detail = f'{{"count":{self._refusals}}}'
        stream = StreamId(self.origin.cluster, MARKERS.kind, MARKERS.namespace, MARKERS.name, MARKERS.uid)
        return [self._keyed(stream, Marker(name=REFUSED, label=reason[:500], detail=detail), now)]

    def _event(self, event: DomainEvent, now: int) -> list[Item]:
        """An event about the kind as a whole."""
        counts = self.counts
        if isinstance(event, WatchFailed):
            counts.failures += 1
            self.problem = event.message or f"code {event.code}"
            return self._failed(event, now)
        if isinstance(event, WatchExpired):
            counts.expired += 1
        elif isinstance(event, Bookmark):
            self.heard_at = now
            counts.bookmarks += 1
        elif isinstance(event, GapRecorded):
            counts.gaps += 1
        elif isinstance(event, ListCompleted):
            self.heard_at, self._listing = now, False
            counts.lists += 1
        if isinstance(event, ListCompleted | WatchStarted):
            self.problem = ""
        if isinstance(event, ListCompleted):
            self._failure, self._times = None, 0
        return self._tell(event, now)

    def _failed(self, event: WatchFailed, now: int) -> list[Item]:
        same = (event.code, event.message)
        self._times = self._times + 1 if same == self._failure else 1
        self._failure = same
        if not told_again(self._times):
            return []
        message = event.message if self._times == 1 else f"{event.message} ({self._times} times in a row)"
        return self._tell(WatchFailed(resource=event.resource, code=event.code, message=message), now)

    def _back(self, output: Output, now: int) -> list[Item]:
        """At the first good line after a time without a watch: the gap, when it was a long one."""
        good = isinstance(output, Change) or (isinstance(output, Tell) and isinstance(output.event, Bookmark))
        if self._back_at is None or not good:
            return []
        since, back, self._away_since, self._back_at = self._away_since, self._back_at, None, None
        self._failure, self._times = None, 0
        if since is None or back - since < AWAY_MICROS:
            return []
        self.counts.gaps += 1
        event = GapRecorded(
            resource=self.scope.resource,
            from_time=since,
            to_time=back,
            from_resource_version=self.machine.version,
            reason="there was no watch; it then went on where it had ended, so its changes are all there, dated later",
        )
        return self._tell(event, now)

    def _tell(self, event: DomainEvent, now: int) -> list[Item]:
        return [self._keyed(self._stream, event, now)]

    def _keyed(self, stream: StreamId, event: DomainEvent, now: int) -> NewEvent:
        """Stored once, however often the batch has to be sent."""
        self._told += 1
        key = hash_key(self.origin.run, self.scope.title, str(self._told))
        return keyed(stream, event, now, key, RECORDED)._replace(causation=self.origin.started)


def told_again(times: int) -> bool:
    """The 1st, 2nd, 4th, 8th ... time."""
    return times & (times - 1) == 0


def size_of(item: Any) -> int:
    """About so many bytes of memory an item takes while it waits."""
    return 400 + (len(item.payload) if isinstance(item, NewEvent) else 0)
