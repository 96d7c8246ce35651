"""The one writer of a run: what was seen into the ledger, in order, in batches.

Owns the appends, what of them has to be looked up in the ledger first, and what happens when the ledger refuses. Must
not know where things come from. Called by `vcledger.record.recorder`, on one thread.

An event counts as seen once it is durable: only then is it told, and only from what is durable does a later run go on.
A ledger that is busy, full or unreachable is tried again until it works; meanwhile the backlog fills and the watches
wait. Two laws are kept whatever else is written to the ledger meanwhile, such as an import: what is recorded now is not
late (a mark that is ahead of our clock lifts it), but for an object's state that is older than one that another writer
has stored: that one is.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from eventstore import EventStore
from eventstore.types import (
    INFERRED,
    AppendResult,
    EventStoreError,
    InvalidEvent,
    Lease,
    LedgerBusy,
    LedgerUnreachable,
    LedgerUnwritable,
    NewEvent,
    StreamId,
)
from vcledger.codec import OBJECT_TYPES, OPAQUE
from vcledger.record.backlog import Backlog
from vcledger.record.feed import Gone, Item
from vcledger.record.meters import Meters

BATCH = 4_000
LINGER_SECONDS = 0.1
"""How long a batch is waited for to fill: fewer and larger appends, for a tenth of a second."""

RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Waits between tries of a ledger that refuses; the last one repeats."""

FOREIGN_MAX = 200_000
"""Objects of which is remembered that another writer stored a newer state."""

PASSING = (LedgerBusy, LedgerUnreachable, LedgerUnwritable)
"""Refusals that may go by."""


class Stop(Protocol):
    """What ends a wait early."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class Writer:
    """Appends what the backlog holds. `told` hears of each event that has become durable, with its position; `trouble`
    of the ledger's refusals, and of '' when it works again."""

    def __init__(
        self,
        store: EventStore,
        cluster: str,
        backlog: Backlog[Item],
        meters: Meters,
        stop: Stop,
        *,
        lease: Lease | None = None,
        told: Callable[[NewEvent, int], None] = lambda event, position: None,
        trouble: Callable[[str], None] = lambda problem: None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000,
    ) -> None:
        self.store, self.cluster, self.backlog, self.meters, self.stop = store, cluster, backlog, meters, stop
        self.lease, self.told, self.trouble, self.clock = lease, told, trouble, clock
        self.problem = ""
        self.lost = 0
        self.refused: list[str] = []
        self._head = store.head()
        self._foreign: dict[StreamId, int] = {}
        self._order: deque[StreamId] = deque()

    def run(self) -> None:
        """Until the backlog is closed and empty. EventStoreError when the ledger is beyond hope, or, once a stop is
        asked for, still refuses; `lost` then counts what was seen and is not stored."""
        while (items := self.backlog.take(BATCH, 1.0)) is not None:
            if not items:
                continue
            try:
                self.append(items)
            except EventStoreError:
                self.lost = self.backlog.items
                self.backlog.close()
                raise
            self.backlog.done(len(items))
            if not self.stop.is_set():
                self.stop.wait(LINGER_SECONDS)

    def append(self, items: Sequence[Item]) -> None:
        """Stores items in order, tried until the ledger takes them all, whether it refuses to be read or to be written.
        What was stored by a try whose answer was lost is not stored again: each event has a key or a version."""
        tries = 0
        while True:
            try:
                self._append(items)
            except PASSING as error:
                self._refused(str(error))
                if self.stop.is_set() and tries:
                    raise
                self.stop.wait(RETRY_SECONDS[min(tries, len(RETRY_SECONDS) - 1)])
                tries += 1
                continue
            if self.problem:
                self.problem = ""
                self.trouble("")
            return

    def _append(self, items: Sequence[Item]) -> None:
        """One try. Those that a list proves to be gone need what stands before them to be there."""
        ready: list[NewEvent] = []
        missing: list[Gone] = []
        for item in items:
            if isinstance(item, Gone):
                if ready:
                    self._store(ready)
                    ready = []
                missing.append(item)
                continue
            if missing:
                ready += self._deletions(missing)
                missing = []
            ready.append(item)
        if missing:
            ready += self._deletions(missing)
        if ready:
            self._store(ready)

    # --- one batch ------------------------------------------------------------------------------------------------

    def _store(self, events: list[NewEvent]) -> None:
        self._look_at_others()
        events = [self._placed(event) for event in events] if self._foreign else events
        try:
            result = self._appended(events)
        except InvalidEvent as error:
            self._store_around(events, error)
            return
        self._durable(events, result)

    def _store_around(self, events: list[NewEvent], error: InvalidEvent) -> None:
        """One of the events is such that the log cannot keep it: all others are stored."""
        if len(events) == 1:
            self.meters.add("refused", events[0].stream.kind)
            self.refused.append(f"{'/'.join(filter(None, events[0].stream))}: {error}")
            return
        half = len(events) // 2
        self._store(events[:half])
        self._store(events[half:])

    def _appended(self, events: list[NewEvent]) -> AppendResult:
        """One append."""
        began = time.perf_counter()
        result = self.store.append(events, lift=True, lease=self.lease)
        self.meters.appended(time.perf_counter() - began, result.stored, self.clock())
        return result

    def _refused(self, problem: str) -> None:
        self.meters.add("append_failures")
        if problem != self.problem:
            self.problem = problem
            self.trouble(problem)

    def _durable(self, events: list[NewEvent], result: AppendResult) -> None:
        meters = self.meters
        ours = {position for position in result.positions if position > self._head}
        if ours and max(ours) - self._head > len(ours):
            self._learn(max(ours), ours)  # others came in between
        self._head = max(self._head, *result.positions)
        meters.add("stored", by=result.stored)
        meters.add("already", by=result.already)
        meters.add("late", by=result.late)
        meters.set("position", self._head)
        meters.set("durable_at", self.clock() / 1_000_000)
        for event, position in zip(events, result.positions, strict=True):
            self.told(event, position)

    def _deletions(self, missing: list[Gone]) -> list[NewEvent]:
        """The deletions of objects that nobody saw, with the last state that the log has of each."""
        heads = [(gone, self.store.stream_head(gone.stream)) for gone in missing]
        there = [(gone, head) for gone, head in heads if head is not None and head.position and not head.gone]
        stored = {event.position: event for event in self.store.get([head.position for _, head in there])}
        return [
            NewEvent(
                gone.stream,
                "ObjectDeleted",
                "observation",
                gone.observed_at,
                stored[head.position].payload,
                1,
                INFERRED,
                head.resource_version,
                True,
            )
            for gone, head in there
            if head.position in stored
        ]

    # --- other writers --------------------------------------------------------------------------------------------

    def _look_at_others(self) -> None:
        """What others have stored since our last append, as far as it shows objects."""
        head = self.store.head()
        if head > self._head:
            self._learn(head, frozenset())
            self._head = head

    def _learn(self, to: int, ours: Collection[int]) -> None:
        """The versions of objects that others have stored since `_head`, up to a position."""
        for event in self.store.read(after=self._head, to=to, cluster=self.cluster, types=OBJECT_TYPES, late=False):
            version = event.resource_version
            if version is not None and version < OPAQUE and event.position not in ours:
                if event.stream not in self._foreign:
                    self._order.append(event.stream)
                self._foreign[event.stream] = version
        while len(self._order) > FOREIGN_MAX:
            self._foreign.pop(self._order.popleft(), None)

    def _placed(self, event: NewEvent) -> NewEvent:
        """The event, late when another writer has stored a newer state of its object."""
        newest = self._foreign.get(event.stream)
        version = event.resource_version
        if newest is None or version is None or version >= OPAQUE or event.type not in OBJECT_TYPES:
            return event
        if version < newest:
            return event._replace(late=True)
        if version > newest:
            self._foreign.pop(event.stream, None)
        return event
