"""What only a bug on purpose showed to be untested: see docs/mutants.md."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.unit.scheduler.build import (
    LOST,
    START,
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
from vcledger.scheduler.bodies import condition_patch
from vcledger.scheduler.checks import Outcome, check_bindings
from vcledger.scheduler.fold import evolve
from vcledger.scheduler.fold_binding import condition_is_news
from vcledger.scheduler.inputs import AssumeTask, BindTask, FlushTasks, Listed, SetBindErrorHandler
from vcledger.scheduler.place import plan_for
from vcledger.scheduler.requests import CallHandler
from vcledger.scheduler.transitions import Phase
from volcano.events.base import TaskRef
from volcano.events.binding import BindFailed, BindSucceeded
from volcano.events.observation import ObjectModified
from volcano.events.recovery import InDoubtResolved
from volcano.events.resync import ResyncQueued
from volcano.events.volume import PVCUpdateSucceeded, PVUpdateFailed, PVUpdateSucceeded, VolumesReverted
from volcano.objects import kinds


def test_a_claim_that_was_refused_after_a_volume_was_written_is_not_written(world: World) -> None:
    world.see(storage_class("local", "kubernetes.io/no-provisioner"), storage_class("wait"), node("n1"))
    world.see(claim("c1", cls="local"), claim("c2", 55), volume("pv1", 61), pod("pa", 101, claims=["c1", "c2"]))
    world.bind("pa")
    world.answer(Update, said(volume("pv1", 70, ref="c1")))
    world.answer(Update, status(409, "the object has been modified", "Conflict"))
    first, rest = world.events(VolumesReverted)
    assert (first.reason, first.volumes, first.claims, first.written) == ("NotWritten", (), ("d/c2",), ())
    assert (rest.volumes, rest.claims, rest.written) == (("pv1",), ("d/c1",), ("PersistentVolume/pv1",))


def test_a_task_that_waits_for_its_read_is_not_queued_for_it_again(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.do(SetBindErrorHandler("d/p1", "h"))
    world.bind("p1")
    world.answer(Bind, status(500, "boom"))
    world.answer(Patch, Answer(200))
    world.tick(0.005)
    world.answer(Get, said(pod("p1")))
    world.answer(CallHandler, Answer(500, b"not today"))
    assert [one.reason for one in world.events(ResyncQueued)] == ["BindFailed", "HandlerFailed"]
    world.do(AssumeTask("d/p1", "n1"), FlushTasks(("d/p1",), "n1"))
    world.answer(Bind, status(500, "boom again"))
    assert [one.reason for one in world.events(ResyncQueued)] == ["BindFailed", "HandlerFailed"]
    assert world.flow.queue("errTasks") == ["d/p1"]


def test_a_process_that_waits_for_more_lists_sends_nothing_of_what_an_earlier_one_queued(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.do(AssumeTask("d/p1", "n1"), BindTask("d/p1", "n1"))
    world.config = msgspec.structs.replace(world.config, lists=("Node",))
    world.crash()
    world.tick(1)
    assert world.asked(Bind) == []
    world.do(Listed("Node", "10", 1))
    world.tick(0.02)
    assert world.asked(Bind) == ["p1"]


def test_the_time_of_a_transition_stays_when_the_status_does() -> None:
    held = {"type": "PodScheduled", "status": "False", "reason": "X", "lastTransitionTime": "2026-01-01T00:00:00Z"}

    def since(condition: dict[str, str], wanted: str) -> str:
        decoded = kinds.decode("Pod", json.dumps(pod("p1", conditions=[condition])).encode())
        patch = json.loads(condition_patch(decoded, wanted, "SchedulerError", "m", START))
        return str(patch["status"]["conditions"][0]["lastTransitionTime"])

    assert since(held, "False") == "2026-01-01T00:00:00Z"
    assert since({**held, "status": "True"}, "False") == "2026-09-21T14:13:20Z"


def test_a_pod_on_its_way_is_one_to_keep_away_from(world: World) -> None:
    """The watch does not show it on a node yet."""
    labels = {"app": "a"}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [pod("p1"), pod("p2", 101)]
    for one in pods:
        one["metadata"]["labels"], one["spec"]["affinity"] = labels, apart
    for name in ("n1", "n2"):
        world.see(node(name, labels={"kubernetes.io/hostname": name}))
    world.see(*pods)
    world.bind("p1")
    here, there = plan_for(world.flow, "d/p2", "n1"), plan_for(world.flow, "d/p2", "n2")
    assert here is not None and there is not None
    assert (bool(here.refused), bool(there.refused)) == (True, False)


def test_a_condition_is_of_the_pod_that_has_the_name_now(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    assert condition_is_news(world.flow, "p1-u", "d/p1", "R", "m", world.flow.now)
    assert not any(condition_is_news(world.flow, uid, "d/p1", "R", "m", world.flow.now) for uid in ("a-u", "z-u"))


def test_a_lost_bind_that_happened_calls_no_handler_of_errors(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.do(SetBindErrorHandler("d/p1", "h"))
    world.bind("p1")
    world.answer(Bind, LOST)
    world.tick(0.01)
    world.answer(Get, said(pod("p1", 102, node="n1")))
    assert len(world.events(BindSucceeded)) == 1
    assert not [one for one in world.out if isinstance(one.request, CallHandler)]


def test_of_a_pod_that_a_read_found_gone_nothing_is_remembered(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.bind("p1")
    world.answer(Bind, status(500, "boom"))
    assert "p1-u" in world.flow.attempts and "p1-u" in world.flow.conditions
    world.tick(0.01)
    world.answer(Get, status(404, "not found", "NotFound"))
    assert "p1-u" not in {**world.flow.attempts, **world.flow.conditions, **world.flow.said}
    world.settled()


def test_the_csi_node_of_a_node_that_is_not_there_is_no_node(world: World) -> None:
    meta = {"name": "n9", "uid": "n9-csi", "resourceVersion": "40"}
    csi_node = {"kind": "CSINode", "apiVersion": "storage.k8s.io/v1", "metadata": meta, "spec": {"drivers": []}}
    world.see(csi_node)
    world.see(csi_node, change="DELETED")
    assert world.names("n9") == []


# --- bindings whose answer was lost -------------------------------------------------------------------------------


def test_after_the_last_post_it_is_not_given_up_while_the_request_may_be_on_its_way(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.bind("p1")
    for _ in range(2):
        world.answer(Bind, LOST)
        world.tick(0.01)
        world.answer(Get, said(pod("p1")))
    assert world.asked(Bind) == []
    assert world.flow.task("d/p1").phase is Phase.DOUBT
    assert world.idle_cpu() == 3
    world.see(pod("p1", 101, node="n1"))
    assert len(world.events(BindSucceeded)) == 1


def test_a_pod_made_again_under_the_name_says_nothing_of_the_bind_of_the_old_one(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.bind("p1")
    world.answer(Bind, LOST)
    world.tick(0.01)
    world.answer(Get, said(pod("p1", 130, uid="other-u", node="n1")))
    assert world.events(BindSucceeded) == []
    assert {one.verdict for one in world.events(InDoubtResolved)} == {"object-gone"}
    assert {one.code for one in world.events(BindFailed)[1:]} == {404}
    assert world.idle_cpu() == 3
    world.settled()


def test_a_read_of_what_the_cache_holds_already_is_no_observation(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.see(pod("p1", 105))
    world.bind("p1")
    world.answer(Bind, status(500, "boom"))
    seen = len(world.events(ObjectModified, "p1"))
    world.tick(0.005)
    world.answer(Get, said(pod("p1", 104)))
    assert len(world.events(ObjectModified, "p1")) == seen
    world.settled()


@pytest.mark.parametrize(("first", "reason"), [(status(500, "boom"), "ResyncFailed"), (LOST, "AnswerLost")])
def test_a_read_that_failed_is_asked_again_for_the_reason_that_it_was_asked_for(
    world: World, first: Answer, reason: str
) -> None:
    world.see(node("n1"), pod("p1"))
    world.bind("p1")
    world.answer(Bind, first)
    world.tick(0.01)
    world.answer(Get, status(500, "not now"))
    assert world.events(ResyncQueued)[-1].reason == reason


# --- volumes ------------------------------------------------------------------------------------------------------


def one_volume(world: World, **more: Any) -> None:
    """pa's c1 can be bound to pv1."""
    world.see(storage_class("local", "kubernetes.io/no-provisioner"), node("n1"), node("n2"), claim("c1", cls="local"))
    world.see(volume("pv1", 61, **more), pod("pa", claims=["c1"]))


@pytest.mark.parametrize(
    ("shown", "verdict"),
    [
        ({"ref": "c1"}, "happened"),
        ({"ref": "other"}, "not-happened"),
        ({"ref": "an-other"}, "not-happened"),
        ({}, "not-happened"),
    ],
)
def test_a_volumes_update_in_doubt_is_what_the_volume_shows(world: World, shown: dict[str, str], verdict: str) -> None:
    one_volume(world)
    world.bind("pa")
    world.answer(Update, LOST)
    world.tick(0.01)
    world.answer(Get, said(volume("pv1", 70, **shown)))
    assert [one.verdict for one in world.events(InDoubtResolved)] == [verdict]


def test_each_update_is_told_as_what_it_is_of_whose_it_is(world: World) -> None:
    world.see(storage_class("local", "kubernetes.io/no-provisioner"), storage_class("wait"), node("n1"))
    world.see(claim("c1", cls="local"), claim("c2", 55), volume("pv1", 61), pod("pa", 101, claims=["c1", "c2"]))
    world.bind("pa")
    world.answer(Update, said(volume("pv1", 70, ref="c1")))
    world.answer(Update, said(claim("c2", 71, selected="n1")))
    ref = TaskRef(namespace="d", name="pa", uid="pa-u", node="n1")
    (first,), (second,) = world.events(PVUpdateSucceeded), world.events(PVCUpdateSucceeded)
    assert (first.pod, first.claim, first.new_resource_version) == (ref, "d/c1", "70")
    assert (second.pod, second.node, second.new_resource_version) == (ref, "n1", "71")


@pytest.mark.parametrize(("answer", "kind"), [(Answer(200), PVUpdateSucceeded), (status(409, "no"), PVUpdateFailed)])
def test_an_update_that_is_answered_when_its_pod_is_gone_is_told_all_the_same(
    world: World, answer: Answer, kind: Any
) -> None:
    one_volume(world)
    world.bind("pa")
    world.see(pod("pa", 105, claims=["c1"], deleting=True), change="DELETED")
    world.answer(Update, said(volume("pv1", 70, ref="c1")) if answer.ok else answer)
    (told,) = world.events(kind)
    assert told.pod.uid == "pa-u"
    assert not world.flow.tasks and not world.flow.volumes.assumed


def test_what_is_sent_back_is_the_volume_that_the_store_holds(world: World) -> None:
    """Also where a log has an older line of it that is not marked as late."""
    one_volume(world)
    world.see(volume("pv1", 60))
    older = world.recorded(ObjectModified)[-1]
    assert older.late
    held = world.flow.volumes.raw["pv1"]
    evolve(world.flow, older._replace(late=False), b"older")
    assert world.flow.volumes.raw["pv1"] == held


def test_what_is_confirmed_is_assumed_no_more(world: World) -> None:
    one_volume(world)
    world.bind("pa")
    assert list(world.flow.volumes.assumed) == ["pv1"]
    world.answer(Update, said(volume("pv1", 70, ref="c1")))
    world.see(volume("pv1", 70, ref="c1", phase="Bound"), claim("c1", 71, cls="local", volume="pv1", completed=True))
    assert world.asked(Bind) == ["pa"]
    assert not world.flow.volumes.assumed
    assert world.flow.volumes.latest["pv1"] is world.flow.volumes.api["pv1"]


def test_after_a_revert_the_api_servers_object_is_the_one_again(world: World) -> None:
    one_volume(world)
    world.bind("pa")
    assert world.flow.volumes.latest["pv1"].spec.claim_ref.name == "c1"
    world.answer(Update, status(409, "the object has been modified", "Conflict"))
    assert not world.flow.volumes.assumed
    assert world.flow.volumes.latest["pv1"] is world.flow.volumes.api["pv1"]
    assert world.flow.volumes.latest["pv1"].spec.claim_ref is None


def test_an_assumption_is_one_pods_and_ends_with_that_pods_word_only(world: World) -> None:
    one_volume(world)
    world.bind("pa")
    store = world.flow.volumes
    held = store.assumed["pv1"]
    assert not store.end("pv1", "another")
    assert store.assumed["pv1"] is held
    with pytest.raises(ValueError, match="assumed for another pod"):
        store.assume("pv1", msgspec.structs.replace(held, uid="another"))
    assert store.assumed["pv1"] is held
    assert store.end("pv1", "pa-u")
    assert not store.end("pv1", "pa-u")


@pytest.mark.parametrize("node_of_volume", ["", "n1"])
def test_pods_that_share_a_claim_go_where_the_firsts_volume_is(world: World, node_of_volume: str) -> None:
    one_volume(world, node=node_of_volume)
    world.see(pod("pb", 102, claims=["c1"]))
    world.do(AssumeTask("d/pa", "n1"))
    here, there = plan_for(world.flow, "d/pb", "n1"), plan_for(world.flow, "d/pb", "n2")
    assert here is not None and there is not None
    assert (here.refused, here.bindings, here.provisions) == ((), (), ())
    assert [one.volume for one in here.shared] == ["pv1"]
    assert bool(there.refused) is bool(node_of_volume)


def test_a_volume_of_a_claim_that_is_gone_is_not_the_new_claims(world: World) -> None:
    one_volume(world, ref="c1", ref_uid="an older one", phase="Released")
    plan = plan_for(world.flow, "d/pa", "n1")
    assert plan is not None and plan.refused


def test_a_check_is_of_the_pod_that_was_asked_for(world: World) -> None:
    one_volume(world)
    world.bind("pa")
    world.answer(Update, said(volume("pv1", 70, ref="c1")))
    task = world.flow.task("d/pa")
    assert check_bindings(world.flow, task).outcome is Outcome.WAIT
    found = check_bindings(world.flow, msgspec.structs.replace(task, uid="an older one"))
    assert (found.outcome, found.kind) == (Outcome.FAILED, "Pod")
