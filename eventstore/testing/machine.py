"""The log against a model of it: appends of all sorts by two writers, reopening, snapshots, retention, reads.

Owns the machine and its model, which is told what was asked for and never reads the system. Must not know a database.
Needs hypothesis and pytest, which `eventstore` itself does not. Called by this project's own tests, for SQLite and for
PostgreSQL, and by whoever brings a store of their own:

    class MyLog(LogMachine):
        def open_ledger(self):
            return my_open(...)

    TestMyLog = MyLog.TestCase
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventstore.store import EventStore
from eventstore.testing.build import START
from eventstore.types import (
    KEYED,
    AppendResult,
    InvalidEvent,
    NewEvent,
    Snapshot,
    SnapshotMissing,
    StreamId,
    WrongExpectedVersion,
    is_observation,
)

STREAMS = [
    StreamId(cluster, kind, "ns", name, f"{name}-uid")
    for cluster in ("one", "two")
    for kind in ("Pod", "Node")
    for name in ("a", "b")
]

new_events = st.builds(
    NewEvent,
    stream=st.sampled_from(STREAMS),
    type=st.sampled_from(["ObjectAdded", "ObjectModified", "BindFailed"]),
    family=st.sampled_from(["observation", "binding"]),
    observed_at=st.integers(START, START + 12),
    payload=st.one_of(st.binary(max_size=40), st.integers(0, 9).map(lambda n: b'{"some":"text"}' * n)),
    schema=st.integers(1, 2),
    known=st.integers(0, 2),
    resource_version=st.one_of(st.none(), st.integers(0, 6), st.integers(KEYED, KEYED + 2)),
    gone=st.booleans(),
    late=st.sampled_from([False, False, False, True]),
    about=st.sampled_from(["", "", "x", "y"]),
    causation=st.none(),
    cycle=st.one_of(st.none(), st.integers(0, 3)),
)
batches = st.lists(new_events, max_size=6)


class Row(NamedTuple):
    """An event as the model has it. `version` and `late` as the log must give them."""

    position: int
    version: int
    late: bool
    event: NewEvent


class LogModel:
    """What a log must hold, as simply as it can be said."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.all_rows: list[Row] = []
        """Dropped ones too, but for streams that were forgotten."""
        self.begun: dict[str, int] = {}
        """Of each cluster, the last position of the first batch with events of it that are not late."""
        self.times: list[tuple[int, str, int]] = []
        """Position, cluster and observed time of every event that was not late."""
        self.ends: list[int] = []
        self.head = 0
        self.cut = 0
        self.versions: dict[StreamId, int] = {}
        self.high_water: dict[str, int] = {}
        self.observations: dict[tuple[StreamId, int, bool], int] = {}
        self.results: dict[str, AppendResult] = {}
        self.snapshots: dict[str, list[int]] = {"one": [], "two": []}

    def append(self, batch: list[NewEvent], token: str | None) -> AppendResult:
        if token is not None and token in self.results:
            return self.results[token]
        positions, stored, late = [], 0, 0
        last: dict[str, int] = {}
        for event in batch:
            key = self._key(event)
            if key is not None and key in self.observations:
                positions.append(self.observations[key])
                continue
            self.head += 1
            stored += 1
            positions.append(self.head)
            cluster = event.stream.cluster
            is_late = event.late or event.observed_at < self.high_water.get(cluster, 0)
            late += is_late
            self.versions[event.stream] = self.versions.get(event.stream, 0) + 1
            self.rows[self.head] = Row(self.head, self.versions[event.stream], is_late, event)
            self.all_rows.append(self.rows[self.head])
            if key is not None:
                self.observations[key] = self.head
            if not is_late:
                self.high_water[cluster] = event.observed_at
                self.times.append((self.head, cluster, event.observed_at))
                last[cluster] = self.head
        for cluster, position in last.items():
            self.begun.setdefault(cluster, position)
        if stored:
            self.ends.append(self.head)
        result = AppendResult(positions, stored, len(positions) - stored, late)
        if token is not None:
            self.results[token] = result
        return result

    @staticmethod
    def _key(event: NewEvent) -> tuple[StreamId, int, bool] | None:
        """What is stored once; None for what always is."""
        return None if event.resource_version is None else (event.stream, event.resource_version, event.gone)

    def of(self, stream: StreamId, to: int) -> list[Row]:
        return [row for row in self.all_rows if row.event.stream == stream and row.position <= to and not row.late]

    def is_gone(self, stream: StreamId, to: int) -> bool:
        told = self.observed(stream, to)
        return bool(told) and told[-1].event.gone

    def is_gone_below(self, stream: StreamId, cut: int) -> bool:
        """The same as retention can tell it: by what is left below the cut, else by the stream's head."""
        left = [row for row in self.observed(stream, cut) if row.position in self.rows]
        told = left or self.observed(stream, self.head)
        return bool(told) and told[-1].event.gone and told[-1].position <= cut

    def observed(self, stream: StreamId, to: int) -> list[Row]:
        rows = self.of(stream, to)
        return [row for row in rows if is_observation(row.event.resource_version, row.event.gone)]

    def forget_streams(self) -> None:
        """Drops the streams of which nothing is left and whose object is gone, but for the one that came last."""
        for stream in list(self.versions)[:-1]:
            rows = [row for row in self.all_rows if row.event.stream == stream]
            left = any(row.event.stream == stream for row in self.rows.values())
            if not left and (self.is_gone(stream, self.head) or all(row.late for row in rows)):
                del self.versions[stream]
                self.all_rows = [row for row in self.all_rows if row.event.stream != stream]

    def cut_for(self, before: int) -> int | None:
        """Where a prune must cut; None when no snapshot covers a cluster."""
        wanted = min(before - 1, self.head)
        cut = wanted
        for cluster in ("one", "two"):
            begun = self.begun.get(cluster)
            if begun is not None and begun <= wanted:
                covering = [position for position in self.snapshots[cluster] if position <= wanted]
                if not covering:
                    return None
                cut = min(cut, covering[-1])
        return max((end for end in self.ends if end <= cut), default=0)


class LogMachine(RuleBasedStateMachine):
    """Two writers and a reader on one ledger. Subclasses say how it is opened."""

    def open_ledger(self) -> EventStore:
        """The same ledger each time, new and empty in each run, whose clock always says START."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.model = LogModel()
        self.stores = [self.open_ledger(), self.open_ledger()]

    @initialize(some=st.lists(batches, min_size=2, max_size=6))
    def begin(self, some: list[list[NewEvent]]) -> None:
        """A ledger with something in it, so that the rest has something to work on."""
        for batch in some:
            self.append(batch, 0, None)

    @rule(batch=batches, writer=st.integers(0, 1), token=st.sampled_from([None, None, None, "t1", "t2", "t3"]))
    def append(self, batch: list[NewEvent], writer: int, token: str | None) -> None:
        if token in self.model.results and self.model.cut:
            token = None  # retention forgets the tokens of what it drops
        wanted = self.model.append(batch, token)
        assert self.stores[writer].append(batch, token=token) == wanted

    @rule(batch=batches, writer=st.integers(0, 1), stream=st.sampled_from(STREAMS), off=st.integers(-1, 1))
    def append_expecting(self, batch: list[NewEvent], writer: int, stream: StreamId, off: int) -> None:
        version = self.model.versions.get(stream, 0)
        store = self.stores[writer]
        if off:
            with pytest.raises(WrongExpectedVersion):
                store.append(batch, expected={stream: version + off})
            return
        wanted = self.model.append(batch, None)
        assert store.append(batch, expected={stream: version}) == wanted

    @rule(batch=batches, writer=st.integers(0, 1), bad=new_events, at=st.integers(0, 6))
    def append_what_cannot_be_kept(self, batch: list[NewEvent], writer: int, bad: NewEvent, at: int) -> None:
        bad = bad._replace(resource_version=None, stream=bad.stream._replace(name="a\0b"))
        with pytest.raises(InvalidEvent):
            self.stores[writer].append([*batch[:at], bad, *batch[at:]])

    @rule(writer=st.integers(0, 1))
    def reopen(self, writer: int) -> None:
        self.stores[writer].close()
        self.stores[writer] = self.open_ledger()

    @precondition(lambda self: self.model.head > 0)
    @rule(writer=st.integers(0, 1), cluster=st.sampled_from(["one", "two"]), data=st.data())
    def save_snapshot(self, writer: int, cluster: str, data: st.DataObject) -> None:
        position = data.draw(st.integers(max(self.model.cut, 1), self.model.head))
        self.stores[writer].save_snapshot(Snapshot("p", 1, cluster, position, None, b"at %d" % position))
        self.model.snapshots[cluster] = sorted({*self.model.snapshots[cluster], position})

    @precondition(lambda self: self.model.head > 0)
    @rule(writer=st.integers(0, 1), back=st.integers(0, 3))
    def cover_all(self, writer: int, back: int) -> None:
        """Snapshots of both clusters near the head, so that a prune after it finds something to do."""
        position = max(self.model.head - back, self.model.cut, 1)
        for cluster in ("one", "two"):
            self.stores[writer].save_snapshot(Snapshot("p", 1, cluster, position, None, b"at %d" % position))
            self.model.snapshots[cluster] = sorted({*self.model.snapshots[cluster], position})

    @precondition(lambda self: self.model.head > 3)
    @rule(writer=st.integers(0, 1), back=st.integers(0, 5), covered=st.sampled_from([True, True, True, False]))
    def prune(self, writer: int, back: int, covered: bool) -> None:
        model = self.model
        if covered:
            self.cover_all(writer, back)
        before = max(model.head + 1 - back, 1)
        cut = model.cut_for(before)
        store = self.stores[writer]
        if cut is None:
            with pytest.raises(SnapshotMissing):
                store.prune(before_position=before, projections=[("p", 1)], reclaim=False)
            return
        report = store.prune(before_position=before, projections=[("p", 1)], reclaim=False)
        if cut <= model.cut:
            assert report.cut == 0
            return
        assert report.cut == cut
        keep: set[int] = set()
        for stream in STREAMS:
            rows = model.of(stream, cut)
            if rows and not model.is_gone_below(stream, cut):
                keep.add(rows[-1].position)
                keep.update([row.position for row in model.observed(stream, cut)][-1:])
        for position in [position for position in model.rows if position <= cut and position not in keep]:
            del model.rows[position]
        model.cut = cut
        model.snapshots = {name: [p for p in found if p >= cut] for name, found in model.snapshots.items()}
        # What was dropped is unknown again, and may be observed once more.
        model.observations = {key: p for key, p in model.observations.items() if p in model.rows}
        model.forget_streams()

    @invariant()
    def reads_say_what_the_model_says(self) -> None:
        model, store = self.model, self.stores[0]
        assert store.head() == model.head
        assert store.first() == model.cut + 1
        found = [(e.position, e.version, e.late, e.stream, e.payload, e.resource_version, e.gone, e.type, e.observed_at,
                  e.about, e.cycle) for e in store.read(batch=3)]  # fmt: skip
        wanted = [(r.position, r.version, r.late, r.event.stream, r.event.payload, r.event.resource_version,
                   r.event.gone, r.event.type, r.event.observed_at, r.event.about, r.event.cycle)
                  for r in sorted(model.rows.values())]  # fmt: skip
        assert found == wanted
        for name, mark in model.high_water.items():
            assert self.stores[1].high_water(name) == mark

    @invariant()
    def heads_say_what_the_model_says(self) -> None:
        for stream, version in self.model.versions.items():
            head = self.stores[1].stream_head(stream)
            assert head is not None
            assert head.version == version
            told = self.model.observed(stream, self.model.head)
            assert head.position == (told[-1].position if told else 0)
            assert head.gone == self.model.is_gone(stream, self.model.head)

    @rule(time=st.integers(START - 1, START + 13), cluster=st.sampled_from([None, "one", "two"]))
    def position_at(self, time: int, cluster: str | None) -> None:
        wanted = max(
            (position for position, name, at in self.model.times if at <= time and cluster in (None, name)), default=0
        )
        found = self.stores[0].position_at(time, cluster)
        assert found == wanted or (wanted <= self.model.cut and found <= self.model.cut)

    @rule()
    def verify(self) -> None:
        assert self.stores[1].verify().findings == []

    def teardown(self) -> None:
        try:
            assert self.stores[0].verify().findings == []
        finally:
            for store in self.stores:
                store.close()


__all__ = ["LogMachine", "LogModel"]
