"""The loop: group commit, effects after it, a log that refuses, duplicates, and the state that the log gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from eventstore.types import EventStoreError, LedgerUnreachable, LedgerUnwritable, LogMoved
from tests.unit.scheduler.build import Answer, Bind, Get, World, group, node, pod, said
from vcledger import codec
from vcledger.runtime.loop import AnotherWriter, Loop
from vcledger.scheduler.housekeeping import LOOP
from vcledger.scheduler.inputs import Allocate, Answered, AssumeTask, BindTask, Effect, Listed, Observed
from vcledger.scheduler.state import FlowConfig
from volcano.events.binding import BindRequested
from volcano.events.observation import ListCompleted
from volcano.events.recovery import InDoubtResolved, RecoveryCompleted
from volcano.events.scheduling import TaskAllocated


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


class Refusing:
    """A store whose appends fail while it is told so; `stores` first: the answer is lost after the commit."""

    def __init__(self, store: Any) -> None:
        self.store, self.error, self.stores, self.unreadable, self.appends = store, None, False, False, 0
        self.unreadable_streams = False
        self.batches: list[int] = []
        self.before: Callable[[], None] | None = None

    def append(self, events: Sequence[Any], **more: Any) -> Any:
        self.appends += 1
        self.batches.append(len(events))
        if self.error is not None:
            if self.stores:
                self.store.append(events, **more)
            raise self.error
        if self.before is not None:
            self.before()
        return self.store.append(events, **more)

    def __getattr__(self, name: str) -> Any:
        if self.unreadable or (self.unreadable_streams and name == "stream_head"):
            raise LedgerUnreachable("the database is gone")
        return getattr(self.store, name)


@pytest.fixture
def refusing(world: World) -> Refusing:
    """p1 is assumed on n1; the store can be told to refuse."""
    world.see(node("n1"), pod("p1"))
    world.do(AssumeTask("d/p1", "n1"))
    store = Refusing(world.store)
    world.loop.store = store  # type: ignore[assignment]
    return store


def put(loop: Loop, obj: dict[str, Any], change: str = "ADDED") -> None:
    loop.put(Observed(obj["kind"], change, json.dumps(obj).encode()))


def test_all_that_waits_is_one_append(world: World) -> None:
    store = Refusing(world.store)
    world.loop.store = store  # type: ignore[assignment]
    put(world.loop, node("n1"))
    put(world.loop, group("g", 2))
    for index in range(2):
        put(world.loop, pod(f"g-{index}", 100 + index, group="g"))
    world.loop.put(Allocate())
    assert world.loop.waiting
    appended = world.loop.step(world.now)
    assert store.batches == [appended]
    assert appended == 5 + 2 * 2 + 3, "and the cycle: its beginning, what became of the job, its end"
    assert not world.loop.waiting
    world.settled()


def test_effects_leave_after_the_commit_and_never_before(world: World) -> None:
    seen: list[int] = []
    world.see(node("n1"), pod("p1"))
    world.loop.carry_out = lambda effect: seen.append(world.store.head() - effect.intent)
    world.bind("p1")
    assert seen == [0]
    assert [key[1] for key in world.loop.outstanding] == ["POST"]


def test_an_answer_may_be_put_while_effects_are_handed_out(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.loop.carry_out = lambda effect: world.loop.put(Answered(effect, Answer(201)))
    world.bind("p1")
    assert world.loop.waiting
    world.tick(0)
    world.see(pod("p1", 101, node="n1"))
    world.tick(0)
    assert world.loop.idle
    assert not world.loop.outstanding


def test_nothing_to_decide_appends_nothing(world: World) -> None:
    head = world.store.head()
    assert world.loop.step(world.now) == 0
    assert world.store.head() == head


def test_a_log_that_refuses_stops_the_deciding(world: World, refusing: Refusing) -> None:
    refusing.error = LedgerUnwritable("disk full")
    world.loop.put(BindTask("d/p1", "n1"))
    assert world.loop.step(world.now) == 0
    assert isinstance(world.loop.down, LedgerUnwritable)
    refusing.unreadable = True
    assert world.flow.tasks == {}
    assert world.flow.position == 0
    assert world.loop.next_due() is None
    tried = refusing.appends
    for _ in range(3):
        assert world.loop.step(world.now) == 0
    assert refusing.appends == tried
    assert world.asked(Bind) == []


def test_when_the_log_is_back_it_goes_on_from_what_that_has(world: World, refusing: Refusing) -> None:
    refusing.error = LedgerUnwritable("disk full")
    world.loop.put(BindTask("d/p1", "n1"))
    put(world.loop, pod("p2", 120))
    world.loop.step(world.now)
    refusing.error = None
    world.tick(0.01)
    assert world.loop.down is None
    assert world.flow.queue("bindFlow") == ["d/p1"]
    world.tick(0.02)
    assert world.asked(Bind) == ["p1"]
    assert "d/p2" in world.flow.cache.pods
    assert len(world.events(BindRequested)) == 1
    world.settled()


def test_an_append_that_happened_without_an_answer_is_in_doubt_not_done_twice(world: World, refusing: Refusing) -> None:
    world.do(BindTask("d/p1", "n1"))
    refusing.error, refusing.stores = LedgerUnreachable("connection lost"), True
    world.tick(0.02)
    assert world.asked(Bind) == []
    refusing.error = None
    world.tick(0.02)
    assert world.asked(Bind) == []
    world.answer(Get, said(pod("p1")))
    assert world.events(InDoubtResolved)[0].verdict == "not-happened"
    assert world.asked(Bind) == ["p1"]
    assert len(world.events(BindRequested)) == 2


def test_a_second_writer_is_found_out(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.store.append([codec.domain("c", LOOP, RecoveryCompleted(started=1), world.now)])
    world.loop.put(AssumeTask("d/p1", "n1"))
    assert world.loop.step(world.now) == 0
    assert isinstance(world.loop.down, AnotherWriter)
    assert isinstance(world.loop.down, EventStoreError)
    world.tick(0)
    assert world.loop.down is None
    world.settled()


def test_a_log_that_cannot_be_asked_about_an_object_stops_the_deciding_too(world: World) -> None:
    """A version that is not above all that an earlier process saw may be known already: the log is asked."""
    world.see(node("n1"), pod("p1", 200))
    world.crash()
    store = Refusing(world.store)
    world.loop.store = store  # type: ignore[assignment]
    store.unreadable_streams = True
    world.loop.standings.store = store  # type: ignore[assignment]
    put(world.loop, pod("p2", 150))
    assert world.loop.step(world.now) == 0
    assert isinstance(world.loop.down, LedgerUnreachable)
    store.unreadable_streams = False
    world.tick(0)
    assert world.loop.down is None
    assert "d/p2" in world.flow.cache.pods
    world.settled()


def of_another_cluster(world: World) -> None:
    world.store.append([codec.domain("other", LOOP, RecoveryCompleted(started=1), world.now)])


def test_writers_of_other_clusters_are_no_trouble(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    of_another_cluster(world)
    world.do(AssumeTask("d/p1", "n1"))
    of_another_cluster(world)
    world.do(BindTask("d/p1", "n1"))
    of_another_cluster(world)
    world.tick(0.02)
    assert world.loop.down is None
    assert world.asked(Bind) == ["p1"]
    world.settled()


def test_one_who_appends_in_the_very_moment_makes_it_decide_anew(world: World) -> None:
    """Positions are named before they are there, so a batch that would stand elsewhere is not stored at all."""
    world.see(node("n1"), pod("p1"))
    store = Refusing(world.store)
    world.loop.store = store  # type: ignore[assignment]
    store.before = lambda: of_another_cluster(world)
    world.loop.put(AssumeTask("d/p1", "n1"))
    assert world.loop.step(world.now) == 0
    assert isinstance(world.loop.down, LogMoved)
    assert world.recorded(TaskAllocated) == []
    store.before = None
    world.do(BindTask("d/p1", "n1"))
    world.tick(0.02)
    assert world.asked(Bind) == ["p1"]
    assert len(world.recorded(TaskAllocated)) == 1
    world.settled()


def test_the_state_is_what_the_log_gives_at_every_step(world: World) -> None:
    world.see(node("n1"), group("g", 1))
    for index in range(4):
        name = f"g-{index}"
        world.see(pod(name, 100 + index, group="g"))
        world.do(Allocate())
        world.tick(0.02)
        world.settled()
        world.answer(Bind, Answer(201) if index % 2 else Answer(500, b"{}"))
        world.settled()
    world.crash()
    world.settled()


def test_what_the_log_has_is_not_stored_again(world: World) -> None:
    world.see(pod("p1", 100))
    head = world.store.head()
    world.see(pod("p1", 100))
    put(world.loop, pod("p1", 100))
    put(world.loop, pod("p1", 100))
    world.tick(0)
    assert world.store.head() == head
    world.crash()
    head = world.store.head()
    world.see(pod("p1", 100))
    assert world.store.head() == head


def test_a_stale_observation_is_kept_but_changes_nothing(world: World) -> None:
    world.see(pod("p1", 105, node="n1"))
    world.see(pod("p1", 103), change="ADDED")
    assert world.flow.cache.pods["d/p1"].node_name == "n1"
    [late] = list(world.store.read(cluster="c", late=True))
    assert late.resource_version == 103
    world.see(pod("p1", 110, node="n1"), change="DELETED")
    world.see(pod("p1", 105, node="n1"), change="MODIFIED")
    assert "d/p1" not in world.flow.cache.pods
    world.settled()


def test_an_object_that_a_relist_missed_comes_back(world: World) -> None:
    world.see(pod("p1", 105))
    world.loop.put(Observed("Pod", "DELETED", json.dumps(pod("p1", 105)).encode(), inferred=True))
    world.tick(0)
    assert "d/p1" not in world.flow.cache.pods
    world.see(pod("p1", 105), change="ADDED")
    assert "d/p1" in world.flow.cache.pods
    world.settled()


def test_the_end_of_an_object_whose_name_another_has_already_takes_nothing_from_that(world: World) -> None:
    world.see(pod("p1", 105))
    world.see(pod("p1", 110, uid="second"))
    world.see(pod("p1", 108), change="DELETED")
    world.crash()
    world.see(pod("p1", 108), change="DELETED")
    assert world.flow.cache.pods["d/p1"].uid == "second"
    world.see(pod("p1", 111, uid="second"), change="DELETED")
    assert "d/p1" not in world.flow.cache.pods
    world.settled()


def test_until_the_lists_are_complete_it_only_observes(tmp_path: Path) -> None:
    world = World(tmp_path, FlowConfig(lists=("Node", "Pod")))
    world.see(node("n1"), group("g", 1), pod("p1", group="g"))
    world.do(Allocate(), AssumeTask("d/p1", "n1"), Listed("Node", "200", 1))
    assert world.flow.tasks == {}
    world.do(Listed("Pod", "200", 1), Allocate())
    assert [one.items for one in world.events(ListCompleted)] == [1, 1]
    assert list(world.flow.tasks) == ["p1-u"]
    world.store.close()


def test_what_is_no_object_is_counted_and_passed_over(world: World) -> None:
    for kind, body in (("Pod", b"{"), ("Pod", b'{"metadata":{"name":"a"}}'), ("Nothing", b"{}")):
        world.loop.put(Observed(kind, "ADDED", body))
    put(world.loop, node("n1"))
    world.tick(0)
    assert world.loop.refused == 3
    assert "n1" in world.flow.cache.nodes


def test_effects_of_one_intent_are_told_apart(world: World) -> None:
    first = Effect(5, said_request("a"))
    second = Effect(5, said_request("b"))
    assert Loop.key_of(first) != Loop.key_of(second)


def said_request(name: str) -> Get:
    return Get("Pod", "d", name)


def test_an_error_in_the_deciding_leaves_nothing_half_done(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.see(node("n1"), pod("p1"))
    world.do(AssumeTask("d/p1", "n1"))

    def broken(*given: Any) -> None:
        raise RuntimeError("a mistake of ours")

    with monkeypatch.context() as patched:
        patched.setattr("vcledger.scheduler.decide._DECIDERS", {BindTask: broken})
        put(world.loop, pod("p2", 120))
        world.loop.put(BindTask("d/p1", "n1"))
        with pytest.raises(RuntimeError, match="mistake"):
            world.loop.step(world.now)
    assert world.flow.position == 0
    world.tick(0)
    assert world.loop.down is None
    assert list(world.flow.tasks) == ["p1-u"]
    world.settled()
