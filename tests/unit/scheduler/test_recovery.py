"""After a crash: each intent in doubt is settled by asking, in each case once, and nothing else is done again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.scheduler.build import (
    LOST,
    Answer,
    Bind,
    Get,
    Patch,
    Update,
    World,
    claim,
    node,
    pod,
    said,
    status,
    storage_class,
    volume,
)
from vcledger import codec
from vcledger.ledger import Ledger
from vcledger.record.resume import RUNS
from vcledger.record.resume import STARTED as RECORDER_STARTED
from vcledger.scheduler.decision import RECORDED
from vcledger.scheduler.inputs import Answered, AssumeTask, BindTask
from vcledger.testing.invariants import check_ledger
from volcano.events.binding import BindFailed, BindRequested, BindSucceeded, PodConditionPatchFailed
from volcano.events.observation import Marker
from volcano.events.recovery import InDoubtResolved, RecoveryCompleted, RecoveryStarted
from volcano.events.volume import PVCUpdateRequested, VolumesBound, VolumesReverted


def out(world: World) -> None:
    """p1's binding is out when the process dies."""
    world.see(node("n1"), node("n2"), pod("p1"))
    world.bind("p1")
    world.crash()
    world.tick(0.01)


@pytest.mark.parametrize(
    ("answer", "verdict", "idle", "posts"),
    [
        (said(pod("p1", 105, node="n1")), "happened", 3, 1),
        (said(pod("p1", 105, node="n2")), "lost-to-another", 4, 1),
        (status(404, "not found"), "object-gone", 4, 1),
        (said(pod("p1")), "not-happened", 3, 2),
    ],
)
def test_a_binding_in_doubt(world: World, answer: Answer, verdict: str, idle: float, posts: int) -> None:
    out(world)
    [started] = [one for one in world.events(RecoveryStarted) if one.in_doubt]
    [requested] = [stored.position for stored in world.store.read(cluster="c") if stored.type == "BindRequested"]
    assert started.in_doubt == (requested,)
    assert world.idle_cpu() == 3
    assert world.asked(Bind) == []
    world.answer(Get, answer)
    [resolved] = world.events(InDoubtResolved)
    assert (resolved.intent, resolved.verdict) == (requested, verdict)
    assert world.idle_cpu() == idle
    assert len(world.events(BindRequested)) == posts
    completed = world.events(RecoveryCompleted)[-1]
    assert completed.happened + completed.not_happened + completed.object_gone + completed.lost_to_another == 1
    assert len(world.events(BindSucceeded)) == (verdict == "happened")
    assert bool(world.events(BindFailed)) is (verdict in ("lost-to-another", "object-gone"))
    world.settled()


def test_a_read_that_fails_settles_nothing(world: World) -> None:
    out(world)
    world.answer(Get, status(500, "not now"))
    assert world.events(InDoubtResolved) == []
    assert world.idle_cpu() == 3
    world.crash()
    world.tick(0.1)
    world.answer(Get, said(pod("p1", 105, node="n1")))
    assert len(world.events(BindSucceeded)) == 1
    assert world.flow.recovery is None
    world.settled()


def test_an_answer_from_before_the_crash_is_not_taken(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.bind("p1")
    effect = world.take(Bind)
    world.crash()
    world.do(Answered(effect, Answer(201)))
    assert world.events(BindSucceeded) == []


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("kind", ["pv", "pvc"])
def test_an_update_in_doubt(world: World, kind: str, happened: bool) -> None:
    if kind == "pv":
        world.see(storage_class("local", "kubernetes.io/no-provisioner"), claim("c1", cls="local"), volume("pv1"))
        answer = said(volume("pv1", 70, ref="c1") if happened else volume("pv1"))
    else:
        world.see(storage_class("wait"), claim("c1"))
        answer = said(claim("c1", 70, selected="n1") if happened else claim("c1"))
    world.see(node("n1"), pod("p1", claims=["c1"]))
    world.bind("p1")
    world.crash()
    assert world.asked(Update) == []
    world.answer(Get, answer)
    assert world.events(InDoubtResolved)[0].verdict == ("happened" if happened else "not-happened")
    assert world.events(RecoveryCompleted)[-1].happened == happened
    assert bool(world.flow.waiting) is happened
    assert bool(world.events(VolumesReverted)) is not happened
    assert bool(world.flow.claims.assumed or world.flow.volumes.assumed) is happened
    world.settled()


def test_a_wait_goes_on_where_it_was(world: World) -> None:
    world.see(storage_class("wait"), claim("c1"), node("n1"), pod("p1", claims=["c1"]))
    world.bind("p1")
    world.answer(Update, said(claim("c1", 70, selected="n1")))
    world.tick(3)
    world.crash()
    assert world.flow.waiting
    world.see(claim("c1", 71, selected="n1", volume="pv9", completed=True))
    assert world.events(VolumesBound)[0].waited_seconds == 3
    assert world.asked(Bind) == ["p1"]
    assert len(world.events(PVCUpdateRequested)) == 1


def test_what_was_queued_goes_out_and_what_was_assumed_stays(world: World) -> None:
    world.see(node("n1"), pod("p1"), pod("p2", 101))
    world.do(AssumeTask("d/p1", "n1"), AssumeTask("d/p2", "n1"), BindTask("d/p1", "n1"))
    world.crash()
    assert world.idle_cpu() == 2
    world.tick(0.02)
    assert world.asked(Bind) == ["p1"]
    assert world.flow.queue("bindFlow") == []


def test_a_read_that_was_out_is_done_again_and_a_condition_is_not(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.bind("p1")
    world.answer(Bind, status(500, "boom"))
    world.tick(0.005)
    assert (world.asked(Get), world.asked(Patch)) == (["p1"], ["p1"])
    world.crash()
    assert (world.asked(Get), world.asked(Patch)) == (["p1"], [])
    assert world.events(PodConditionPatchFailed)[0].code == 0
    world.answer(Get, said(pod("p1")))
    assert world.idle_cpu() == 4
    assert world.flow.idle


def test_seen_bound_before_the_crash_is_settled_without_asking(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.bind("p1")
    world.see(pod("p1", 105, node="n1"))
    world.crash()
    assert world.events(BindSucceeded)[0].answer_lost
    assert world.asked(Get) == []
    assert world.flow.idle
    world.settled()


def test_gone_before_the_crash_the_outcome_is_written(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.bind("p1")
    world.see(pod("p1", 105), change="DELETED")
    world.crash()
    assert len(world.events(BindFailed)) == 1
    assert not world.flow.intents
    world.settled()


def test_nothing_in_doubt_is_recovered_at_once(world: World) -> None:
    world.see(node("n1"))
    world.crash()
    assert world.events(RecoveryStarted)[-1].in_doubt == ()
    assert len(world.events(RecoveryCompleted)) == len(world.events(RecoveryStarted))


# --- between two posts, and volumes in every case -----------------------------------------------------------------


def second_post_out(world: World) -> None:
    """The first binding's answer was lost, the pod had no node, the second is out; then the process dies."""
    world.see(node("n1"), node("n2"), pod("p1"))
    world.bind("p1")
    world.answer(Bind, LOST)
    world.tick(0.01)
    world.answer(Get, said(pod("p1")))
    assert world.asked(Bind) == ["p1"]
    world.crash()
    world.tick(0.01)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (said(pod("p1", 105, node="n1")), "happened"),
        (said(pod("p1", 105, node="n2")), "lost-to-another"),
        (status(404, "not found"), "object-gone"),
    ],
)
def test_a_crash_after_the_second_post(world: World, answer: Answer, verdict: str) -> None:
    second_post_out(world)
    assert world.asked(Bind) == []
    world.answer(Get, answer)
    assert [one.verdict for one in world.events(InDoubtResolved)] == ["not-happened", verdict]
    assert world.asked(Bind) == []
    assert len(world.events(BindRequested)) == 2
    world.settled()


def test_after_the_second_post_it_is_read_until_nothing_can_be_on_its_way_and_never_sent_a_third_time(
    world: World,
) -> None:
    second_post_out(world)
    reads = 0
    for _ in range(3):
        while world.asked(Get):
            world.answer(Get, said(pod("p1")))
            reads += 1
            world.tick(5)
        world.crash()
        world.tick(0.01)
    assert world.asked(Bind) == []
    assert world.idle_cpu() == 3
    for _ in range(30):
        world.tick(10)
        if world.asked(Get):
            world.answer(Get, said(pod("p1")))
    assert world.asked(Bind) == []
    assert reads > 3
    assert len(world.events(BindRequested)) == 2
    assert len([one for one in world.events(BindFailed) if not one.answer_lost]) == 1
    assert world.idle_cpu() == 4
    assert world.flow.recovery is None
    world.settled()


def test_a_crash_between_the_two_posts(world: World) -> None:
    """It dies while the read is out that would have brought the second one."""
    world.see(node("n1"), pod("p1"))
    world.bind("p1")
    world.answer(Bind, LOST)
    world.tick(0.01)
    assert world.asked(Get) == ["p1"]
    world.crash()
    world.tick(0.01)
    assert (world.asked(Get), world.asked(Bind)) == (["p1"], [])
    world.answer(Get, said(pod("p1")))
    assert world.asked(Bind) == ["p1"]
    world.answer(Bind, Answer(201))
    assert len(world.events(BindRequested)) == 2
    assert world.flow.recovery is None
    world.settled()


def updating(world: World, kind: str) -> None:
    """p1's update of its volume, or of its claim, is out when the process dies."""
    if kind == "pv":
        world.see(storage_class("local", "kubernetes.io/no-provisioner"), claim("c1", cls="local"), volume("pv1"))
    else:
        world.see(storage_class("wait"), claim("c1"))
    world.see(node("n1"), node("n2"), pod("p1", claims=["c1"]))
    world.bind("p1")
    world.crash()


@pytest.mark.parametrize(
    ("kind", "answer", "verdict"),
    [
        ("pv", status(404, "gone"), "object-gone"),
        ("pvc", status(404, "gone"), "object-gone"),
        ("pv", said(volume("pv1", 70, ref="other")), "not-happened"),
        ("pvc", said(claim("c1", 70, selected="n2")), "not-happened"),
    ],
)
def test_an_update_in_doubt_that_came_to_nothing(world: World, kind: str, answer: Answer, verdict: str) -> None:
    updating(world, kind)
    world.answer(Get, answer)
    [resolved] = world.events(InDoubtResolved)
    assert resolved.verdict == verdict
    assert not world.flow.claims.assumed and not world.flow.volumes.assumed
    assert world.asked(Update) == []
    assert world.flow.queue("errTasks") == ["d/p1"]
    assert world.flow.recovery is None
    world.settled()


@pytest.mark.parametrize("kind", ["pv", "pvc"])
def test_a_read_of_an_update_in_doubt_that_fails_is_tried_again_also_by_the_next_process(
    world: World, kind: str
) -> None:
    updating(world, kind)
    for answer in (status(500, "not now"), LOST):
        world.answer(Get, answer)
        assert world.events(InDoubtResolved) == []
        world.tick(1)
    world.crash()
    world.tick(1)
    done = volume("pv1", 70, ref="c1") if kind == "pv" else claim("c1", 70, selected="n1")
    world.answer(Get, said(done))
    assert [one.verdict for one in world.events(InDoubtResolved)] == ["happened"]
    assert world.flow.waiting
    assert world.flow.recovery is None
    world.settled()


@pytest.mark.parametrize("kind", ["pv", "pvc"])
@pytest.mark.parametrize("happened", [True, False])
def test_an_update_in_doubt_of_a_pod_that_is_gone_by_then(world: World, kind: str, happened: bool) -> None:
    updating(world, kind)
    world.see(pod("p1", 130), change="DELETED")
    assert not world.flow.claims.assumed and not world.flow.volumes.assumed
    if kind == "pv":
        shown = volume("pv1", 70, ref="c1") if happened else volume("pv1")
    else:
        shown = claim("c1", 70, selected="n1") if happened else claim("c1")
    world.answer(Get, said(shown))
    assert len(world.events(InDoubtResolved)) == 1
    assert world.asked(Update) == world.asked(Bind) == []
    assert world.flow.idle
    assert world.flow.recovery is None
    world.settled()


def test_two_updates_one_known_one_in_doubt(world: World) -> None:
    """The first claim's update was answered, the second's is out: what was written stays written, and only the second
    is asked about."""
    world.see(storage_class("wait"), claim("c1"), claim("c2", 51), node("n1"), pod("p1", claims=["c1", "c2"]))
    world.bind("p1")
    first = world.asked(Update)[0]
    world.answer(Update, said(claim(first, 70, selected="n1")))
    [second] = world.asked(Update)
    world.crash()
    assert world.asked(Get) == [second]
    world.answer(Get, said(claim(second, 71, selected="n1")))
    assert world.asked(Update) == []
    assert world.flow.waiting
    world.see(
        claim("c1", 80, selected="n1", volume="pva", completed=True),
        claim("c2", 81, selected="n1", volume="pvb", completed=True),
    )
    assert world.asked(Bind) == ["p1"]
    assert len(world.events(PVCUpdateRequested)) == 2
    world.settled()


def by_a_recorder(world: World, *objects: dict[str, Any]) -> None:
    """What a recorder writes into the ledger two minutes after the process was killed."""
    later = world.now + 120_000_000
    marker = codec.domain("c", RUNS, Marker(name=RECORDER_STARTED, detail="{}"), later, known=RECORDED)
    seen = [
        codec.observation(
            cluster="c",
            kind=one["kind"],
            change="MODIFIED",
            payload=json.dumps(one).encode(),
            namespace=one["metadata"].get("namespace", ""),
            name=one["metadata"]["name"],
            uid=one["metadata"]["uid"],
            resource_version=one["metadata"]["resourceVersion"],
            observed_at=later + 1_000_000,
            known=RECORDED,
        )
        for one in objects
    ]
    world.store.append([marker])
    world.store.append(seen)


def test_a_ledger_that_a_recorder_goes_on_with_after_a_kill_is_sound(world: World) -> None:
    """A binding, a condition and a volume's update are out."""
    world.see(node("n1"), storage_class("wait"), claim("c1", "wait"))
    world.see(pod("p1"), pod("p2"), pod("p3", claims=("c1",)))
    for name in ("p1", "p2", "p3"):
        world.bind(name)
    world.answer(Bind, status(500, "no"), "p2")
    assert world.asked(Bind) == ["p1"] and world.asked(Patch) == ["p2"] and world.asked(Update) == ["c1"]
    by_a_recorder(world, node("n2", 300), pod("p1", 301, node="n1"), pod("p2", 302))
    assert [one for one in check_ledger(Ledger(world.store)) if one.broken] == []
    world.now += 130_000_000
    world.crash()
    world.tick(300)
    broken = [one.invariant.number for one in check_ledger(Ledger(world.store)) if one.broken]
    assert broken == [], "it asks, and asks again, for as long as nobody answers"
