"""The guarantees as laws: whatever the server, the network and the process do, and wherever the process dies.

A feed and the writer are driven by hand against the simulated server, without threads, by a plan that hypothesis draws:
changes, faults, deaths between any two steps, commits of any part of what was seen, and another writer beside them.

ordered      the versions of an object rise along the log (late ones apart)
unique       no version of an object stands in it twice
reliable     every change is in the log, or inside a gap that the log names; at the end it has what the server has
resumable    a run after another lists only where it has to
bookmarkable a bookmark that is stored is where the next run goes on from
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventstore import EventStore, open_store
from eventstore.types import RECORDED, NewEvent, StreamId
from tests.unit.record.simulated import Server, Stream, failed
from vcledger.codec import OBJECT_TYPES, observation_of
from vcledger.record import resume
from vcledger.record.backlog import Backlog
from vcledger.record.feed import Feed, Item, Origin, Turn, size_of
from vcledger.record.meters import Meters
from vcledger.record.scope import Scope
from vcledger.record.worker import answered
from vcledger.record.writer import Writer
from vcledger.runtime.port import Answer
from vcledger.sim.mvcc import Revision
from vcledger.sources.listwatch import Answered, AskList, Closed, Due, Input
from vcledger.sources.observe import Observer
from vcledger.sources.redact import StorageOptions
from vcledger.sources.shape import json_text, keyed
from volcano.events.observation import Marker

CLUSTER = "test"
SCOPE = Scope("Node")
NAMES = ("a", "b", "c", "d", "e")


class Driven:
    """A recorder of nodes by hand. `seen` is what it has seen and not stored."""

    def __init__(self, store: EventStore, server: Server) -> None:
        self.store, self.server = store, server
        self.now = 1_000_000
        self.runs = 0
        self.seen: list[Item] = []
        self.feed: Feed | None = None
        self.turn: Turn | None = None
        self.stream: Stream | None = None
        self.lists: list[int] = []
        """The run of each list asked for."""

    def start(self) -> None:
        if self.feed is not None:
            return
        self.runs += 1
        begin = resume.begins(self.store, CLUSTER, [SCOPE])[SCOPE]
        about = resume.Run(str(self.runs), 0, scopes=[resume.Scoped(*SCOPE)])
        marker = Marker(name=resume.STARTED, detail=json_text(about))
        event = keyed(StreamId(CLUSTER, *resume.RUNS), marker, self.now, 1 << 61 | self.runs, RECORDED)
        started = self.store.append([event], lift=True).positions[0]
        observer = Observer(CLUSTER, StorageOptions())
        self.feed = Feed(
            SCOPE,
            Origin(CLUSTER, str(self.runs), started),
            observer,
            known=begin.known,
            since=begin.since,
            resume=begin.resume,
            page=2,
        )
        stop = threading.Event()
        stop.set()
        self.writer = Writer(self.store, CLUSTER, Backlog(size_of), Meters(), stop, clock=lambda: self.now)
        self._took(self.feed.begin(self.now))

    def die(self) -> None:
        """The process is killed: what was seen and not stored is gone."""
        self.feed = self.turn = self.stream = None
        self.seen = []

    def commit(self, some: int = 1 << 30) -> None:
        """The writer stores the first of what was seen."""
        ready, self.seen = self.seen[:some], self.seen[some:]
        if ready:
            self.writer.append(ready)

    def step(self) -> bool:
        """The next thing that the feed waits for; whether there was anything."""
        self.now += 1_000
        if self.feed is None or self.turn is None:
            return False
        if self.turn.ask is not None:
            self._took(self.feed.take(self._asked(self.turn.ask), self.now))
        elif self.turn.due is not None:
            self.now = max(self.now, self.turn.due)
            self._took(self.feed.take(Due(), self.now))
        else:
            return self._listened()
        return True

    def _took(self, turn: Turn) -> None:
        self.seen += turn.items
        self.turn = turn

    def _asked(self, ask: Any) -> Input:
        if isinstance(ask, AskList):
            if not ask.continue_:
                self.lists.append(self.runs)
            return answered(self.server.list("Node", limit=ask.limit, continue_=ask.continue_))
        opened = self.server.watch("Node", resource_version=ask.resource_version)
        if isinstance(opened, Answer):
            return answered(opened)
        self.stream = opened
        return Answered(200)

    def _listened(self) -> bool:
        assert self.feed is not None and self.stream is not None
        lines = self.stream.take()
        if lines:
            self._took(self.feed.lines([(line.type, line.object) for line in lines], self.now))
        elif self.stream.closed:
            problem = self.stream.problem
            self._took(self.feed.take(Answered(None, problem.encode()) if problem else Closed(), self.now))
        else:
            return False
        return True

    def settle(self) -> None:
        """All is well, and it runs until there is nothing more to hear."""
        self.server.refusals.clear()
        self.start()
        for _ in range(500):
            if not self.step() and self.feed is not None and self.feed.watching:
                break
        self.commit()


class Beside:
    """Another writer: an import of what somebody saw of an object."""

    def __init__(self, driven: Driven) -> None:
        self.driven = driven

    def import_(self, name: str) -> None:
        item = self.driven.server.api.object("Node", "", name)
        if item is None or CLUSTER not in self.driven.store.clusters():
            return
        data = msgspec.json.encode(item)
        event: NewEvent = observation_of(
            cluster=CLUSTER, kind="Node", change="MODIFIED", payload=data, observed_at=self.driven.now
        )
        head = self.driven.store.stream_head(event.stream)
        if head is not None and not head.gone:
            self.driven.store.append([event])


OPS = st.one_of(
    st.tuples(st.sampled_from(["create", "touch", "touch", "touch", "delete", "import"]), st.sampled_from(NAMES)),
    st.tuples(st.just("step"), st.integers(1, 6)),
    st.tuples(st.just("commit"), st.integers(1, 4)),
    st.tuples(
        st.sampled_from(
            ["start", "commit-all", "die", "break", "drop", "compact", "bookmark", "list-fails", "watch-fails", "gone"]
        ),
        st.none(),
    ),
)


def carry_out(driven: Driven, op: str, with_: Any) -> None:
    server = driven.server
    there = isinstance(with_, str) and server.api.object("Node", "", with_) is not None
    match op:
        case "create" if not there:
            server.node(with_)
        case "touch" if there:
            server.touch(with_, str(server.api.version))
        case "delete" if there:
            server.delete(with_)
        case "import":
            Beside(driven).import_(with_)
        case "step":
            for _ in range(with_):
                driven.step()
        case "commit":
            driven.commit(with_)
        case "commit-all":
            driven.commit()
        case "start":
            driven.start()
        case "die":
            driven.die()
        case "break" if driven.stream is not None:
            driven.stream.break_off("reset")
        case "drop":
            server.drop("Node")
        case "compact":
            server.compact()
        case "bookmark":
            server.bookmark()
        case "list-fails":
            server.refuse("list", "Node", failed(500))
        case "watch-fails":
            server.refuse("watch", "Node", failed(503))
        case "gone":
            server.refuse("watch", "Node", failed(410))


def broken_laws(store: EventStore, revisions: list[Revision], server: Server) -> list[str]:
    """What of ordered, unique and reliable does not hold."""
    found: list[str] = []
    events = list(store.read(cluster=CLUSTER, kinds="Node"))
    newest: dict[str, int] = {}
    seen: set[tuple[int | None, bool]] = set()
    gone: set[str] = set()
    for event in events:
        if event.type not in OBJECT_TYPES:
            continue
        seen.add((event.resource_version, event.gone))
        if event.late:
            continue
        version = event.resource_version or 0
        if version < newest.get(event.uid, 0) or event.uid in gone:
            found.append(f"{event.name} at {version} stands after {newest[event.uid]}, at position {event.position}")
        newest[event.uid] = version
        if event.gone:
            gone.add(event.uid)
    versions = [(e.uid, e.resource_version, e.gone) for e in events if e.type in OBJECT_TYPES]
    if len(versions) != len(set(versions)):
        found.append("an observation stands twice")
    gaps = [msgspec.json.decode(event.payload) for event in events if event.type == "GapRecorded"]
    spans = [(int(one["from_resource_version"] or 0), int(one["to_resource_version"] or 0)) for one in gaps]
    lists = [msgspec.json.decode(event.payload) for event in events if event.type == "ListCompleted"]
    first = int(lists[0]["resource_version"])
    for revision in revisions:
        at = revision.version
        stored = at <= first or (at, revision.change == "DELETED") in seen
        if not stored and not any(since < at <= until for since, until in spans):
            found.append(f"{revision.change} of {revision.key} at {at} is in no gap: {spans}")
    live = {head.stream.uid: str(head.resource_version) for head in store.live(CLUSTER, "Node") if head.stream.name}
    if live != server.objects("Node"):
        found.append(f"the ledger has {live}, the server {server.objects('Node')}")
    return found


def run(ops: list[tuple[str, Any]]) -> tuple[list[str], Driven]:
    with tempfile.TemporaryDirectory() as folder, open_store(str(Path(folder) / "l.db"), create=True) as store:
        server = Server()
        revisions: list[Revision] = []
        server.api.store.listeners.append(lambda one: revisions.append(one) if one.kind == "Node" else None)
        for name in NAMES[:3]:
            server.node(name)
        driven = Driven(store, server)
        driven.start()
        for op, with_ in ops:
            carry_out(driven, op, with_)
        driven.settle()
        # What the last fault took away shows only once something happens again.
        server.node("last")
        driven.settle()
        broken = broken_laws(store, revisions, server)
        if not (verified := store.verify()).ok:
            broken.append(str(verified.findings))
        return broken, driven


OVERTAKEN: list[tuple[str, Any]] = [("step", 6), ("touch", "a"), ("step", 1), ("commit-all", None)]
OVERTAKEN += [("touch", "a"), ("touch", "a")]


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.lists(OPS, max_size=40))
@example([("step", 6), ("touch", "a"), ("step", 1), ("commit", 1), ("die", None), ("compact", None)])
@example([("step", 2), ("commit-all", None), ("die", None), ("touch", "a"), ("delete", "b")])
@example([*OVERTAKEN, ("import", "a"), ("step", 1), ("commit-all", None)])
def test_ordered_unique_and_reliable_whatever_happens(ops: list[tuple[str, Any]]) -> None:
    assert run(ops)[0] == []


@pytest.mark.slow
@settings(deadline=None, max_examples=8)
@given(st.lists(st.sampled_from(["touch", "bookmark", "commit-all", "die", "start", "drop"]), max_size=25))
def test_resumable_as_long_as_no_version_expires_it_lists_once(words: list[str]) -> None:
    ops: list[tuple[str, Any]] = [("step", 9), ("commit-all", None)]
    for word in words:
        ops += [(word, "a" if word == "touch" else None), ("step", 3)]
    broken, driven = run(ops)
    assert broken == []
    # Two watches that end at once, without a line, are a reason to list, as a stale one looks like that.
    assert "drop" in words or driven.lists == [1]


def test_bookmarkable_a_stored_bookmark_is_where_the_next_run_goes_on() -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(str(Path(folder) / "l.db"), create=True) as store:
        server = Server()
        server.node("a")
        driven = Driven(store, server)
        driven.settle()
        with server.lock:  # what moves the version is of another kind: only a bookmark says so
            server.api.create("Queue", {"metadata": {"name": "q"}, "spec": {"weight": 1}})
        server.bookmark()
        driven.settle()
        bookmark = str(server.api.version)
        driven.die()
        server.api.compact(int(bookmark))
        server.touch("a", "later")
        begin = resume.begins(store, CLUSTER, [SCOPE])[SCOPE]
        assert begin.resume and begin.since is not None and begin.since.version == bookmark
        driven.settle()
        assert driven.lists == [1]
