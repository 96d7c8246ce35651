"""The volume binder: which volume a claim gets, what is assumed, the updates in order, and the partial revert."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.scheduler.build import (
    LOST,
    Bind,
    Get,
    Update,
    World,
    claim,
    group,
    node,
    pod,
    said,
    status,
    storage_class,
    volume,
)
from vcledger.scheduler.inputs import Allocate, AssumeTask, BindTask, DiscardJob
from vcledger.scheduler.place import plan_for
from volcano.events.recovery import InDoubtResolved
from volcano.events.resync import ResyncQueued
from volcano.events.scheduling import TaskAllocated, TaskUnschedulable
from volcano.events.volume import (
    PVCUpdateRequested,
    PVUpdateRequested,
    VolumeBindingFailed,
    VolumesAssumed,
    VolumesReverted,
)

LOCAL = storage_class("local", "kubernetes.io/no-provisioner")


def given(world: World, *objects: dict[str, Any], claims: tuple[str, ...] = ("c1",), kind: str = "local") -> None:
    world.see(LOCAL, storage_class("wait"), node("n1"), node("n2"))
    world.see(*[claim(name, 50 + index, cls=kind) for index, name in enumerate(claims)])
    world.see(*objects, pod("pa", claims=list(claims)))


def taken(world: World, on: str = "n1") -> list[str] | None:
    """The volumes that pa's claims would take on a node; None: it may not go there."""
    plan = plan_for(world.flow, "d/pa", on)
    assert plan is not None
    return None if plan.refused else [one.volume for one in plan.bindings]


def test_the_smallest_volume_that_does_is_taken(world: World) -> None:
    given(world, volume("big", 61, size="50Gi"), volume("fit", 62, size="6Gi"), volume("small", 63, size="4Gi"))
    assert taken(world) == ["fit"]


@pytest.mark.parametrize(
    "unfit",
    [
        {"cls": "other"},
        {"size": "4Gi"},
        {"node": "n2"},
        {"phase": "Released"},
        {"ref": "other"},
        {"spec": {"volumeMode": "Block"}},
        {"spec": {"accessModes": ["ReadOnlyMany"]}},
    ],
)
def test_a_volume_that_does_not_do_is_not_taken(world: World, unfit: dict[str, Any]) -> None:
    given(world, volume("pv1", 61, **unfit))
    assert taken(world) is None


def test_a_selector_and_the_volume_mode_are_obeyed(world: World) -> None:
    asked = {"selector": {"matchLabels": {"disk": "ssd"}}, "volumeMode": "Block"}
    world.see(LOCAL, node("n1"), claim("c1", cls="local", spec=asked), pod("pa", claims=["c1"]))
    world.see(volume("a", 61, labels={"disk": "hdd"}, spec={"volumeMode": "Block"}))
    world.see(volume("b", 62, labels={"disk": "ssd"}))
    assert taken(world) is None
    world.see(volume("c", 63, labels={"disk": "ssd"}, spec={"volumeMode": "Block"}))
    assert taken(world) == ["c"]


def test_two_claims_never_take_one_volume(world: World) -> None:
    given(world, volume("pv1", 61), claims=("c1", "c2"))
    assert taken(world) is None
    world.see(volume("pv2", 62))
    assert taken(world) == ["pv1", "pv2"]


def test_a_volume_that_names_the_claim_is_its_only_one(world: World) -> None:
    given(world, volume("mine", 61, size="50Gi", node="n2", ref="c1"), volume("fit", 62))
    assert taken(world, "n1") is None
    assert taken(world, "n2") == ["mine"]


def test_what_is_assumed_is_taken_for_others(world: World) -> None:
    given(world, volume("pv1", 61))
    world.see(claim("c9", 59, cls="local"), pod("pb", claims=["c9"]))
    world.do(AssumeTask("d/pa", "n1"))
    assert list(world.flow.volumes.assumed) == ["pv1"]
    assert world.flow.volumes.api["pv1"].spec.claim_ref is None
    assert world.flow.volumes.latest["pv1"].spec.claim_ref.name == "c1"
    world.do(AssumeTask("d/pb", "n1"))
    assert "d/pb" not in [task.key for task in world.flow.tasks.values()]
    assert "volumes to bind" in world.events(TaskUnschedulable, "pb")[0].message


def test_provisioning_obeys_the_topologies_of_the_class(world: World) -> None:
    terms = [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]
    world.see(storage_class("zoned", allowedTopologies=terms), claim("c1", cls="zoned"), pod("pa", claims=["c1"]))
    world.see(node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"}))
    assert taken(world, "n1") == []
    assert taken(world, "n2") is None


def test_provisioning_needs_capacity_where_the_driver_speaks_of_it(world: World) -> None:
    world.see(storage_class("wait"), claim("c1"), pod("pa", claims=["c1"]))
    world.see(node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"}))
    assert taken(world, "n2") == []
    capacity = {
        "kind": "CSIStorageCapacity",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": "a", "namespace": "d", "uid": "cap-a", "resourceVersion": "40"},
        "storageClassName": "wait",
        "capacity": "6Gi",
        "nodeTopology": {"matchLabels": {"zone": "a"}},
    }
    world.see(capacity)
    assert taken(world, "n1") == []
    assert taken(world, "n2") is None
    world.see({**capacity, "metadata": {**capacity["metadata"], "resourceVersion": "41"}, "capacity": "4Gi"})
    assert taken(world, "n1") is None


def test_volumes_are_written_first_then_claims_each_whole_and_at_its_version(world: World) -> None:
    given(world, claims=("c1",))
    world.see(claim("c2", 55, annotations={"note": "x"}), volume("pv1", 61), pod("pa", 101, claims=["c2", "c1"]))
    world.bind("pa")
    effect = world.take(Update)
    sent = json.loads(effect.request.body)
    assert (sent["metadata"]["name"], sent["metadata"]["resourceVersion"]) == ("pv1", "61")
    assert sent["spec"]["claimRef"]["uid"] == "c1-u"
    assert sent["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert world.asked(Update) == []
    world.out.append(effect)
    world.answer(Update, said(volume("pv1", 70, ref="c1")))
    sent = json.loads(world.take(Update).request.body)
    assert sent["metadata"]["annotations"] == {"note": "x", "volume.kubernetes.io/selected-node": "n1"}
    assert sent["metadata"]["resourceVersion"] == "55"


def test_a_conflict_reverts_what_was_not_written_then_the_rest(world: World) -> None:
    given(world, volume("pv1", 61), volume("pv2", 62), volume("pv3", 63), claims=("c1", "c2", "c3"))
    world.bind("pa")
    world.answer(Update, said(volume("pv1", 70, ref="c1")))
    world.answer(Update, status(409, "the object has been modified", "Conflict"))
    first, rest = world.events(VolumesReverted)
    assert (first.volumes, first.claims, first.written) == (("pv2", "pv3"), ("d/c2", "d/c3"), ())
    assert (rest.volumes, rest.claims, rest.written) == (("pv1",), ("d/c1",), ("PersistentVolume/pv1",))
    [failed] = world.events(VolumeBindingFailed)
    assert (failed.kind, failed.name, failed.code) == ("PersistentVolume", "pv2", 409)
    assert len(world.events(PVUpdateRequested)) == 2
    assert not world.flow.volumes.assumed
    assert world.names("pa")[-3:] == ["VolumeBindingFailed", "VolumesReverted", "ResyncQueued"]
    assert world.reasons() == []
    assert world.idle_cpu() == 3
    world.tick(0.01)
    world.answer(Get, said(pod("pa", claims=["c1", "c2", "c3"])))
    assert world.idle_cpu() == 4
    world.settled()


def test_the_first_update_refused_leaves_nothing_written(world: World) -> None:
    given(world, claims=("c1", "c2"), kind="wait")
    world.bind("pa")
    world.answer(Update, status(500, "boom"))
    [reverted] = world.events(VolumesReverted)
    assert (reverted.reason, reverted.claims) == ("NotWritten", ("d/c1", "d/c2"))
    assert len(world.events(ResyncQueued)) == 1


@pytest.mark.parametrize("happened", [True, False])
def test_an_update_whose_answer_was_lost_is_asked_about(world: World, happened: bool) -> None:
    given(world, kind="wait")
    world.bind("pa")
    world.answer(Update, LOST)
    assert list(world.flow.claims.assumed) == ["d/c1"]
    world.tick(0.01)
    world.answer(Get, status(500, "not now"))
    world.tick(0.01)
    world.answer(Get, said(claim("c1", 70, selected="n1") if happened else claim("c1")))
    [resolved] = world.events(InDoubtResolved)
    assert resolved.verdict == ("happened" if happened else "not-happened")
    assert bool(world.flow.claims.assumed) is happened
    assert bool(world.flow.waiting) is happened
    assert len(world.events(PVCUpdateRequested)) == 1
    assert bool(world.events(VolumeBindingFailed)) is not happened
    world.settled()


def test_the_mark_of_an_earlier_attempt_ties_the_next_one_to_its_node(world: World) -> None:
    given(world, kind="wait")
    world.see(claim("c1", 70, selected="n1"))
    assert taken(world, "n1") == []
    assert taken(world, "n2") is None


def test_all_bound_claims_ask_for_nothing(world: World) -> None:
    given(world, volume("pv1", 61, ref="c1", phase="Bound"))
    world.see(claim("c1", 70, cls="local", volume="pv1", completed=True))
    world.bind("pa")
    assert world.events(VolumesAssumed)[0].all_bound
    assert world.asked(Bind) == ["pa"]


def test_a_discarded_gang_gives_its_volumes_and_nodes_back(world: World) -> None:
    world.see(storage_class("wait"), node("n1"), group("g", 2), claim("c1"))
    world.see(pod("g-0", group="g", claims=["c1"]))
    world.do(AssumeTask("d/g-0", "n1"))
    assert world.idle_cpu() == 3
    world.do(DiscardJob("d/g", "gang: 1 of 2 fit"))
    assert world.idle_cpu() == 4
    assert not world.flow.claims.assumed
    assert world.names("g-0") == ["TaskAllocated", "VolumesAssumed", "VolumesReverted"]
    assert world.asked(Update) == []
    world.do(BindTask("d/g-0", "n1"))
    assert world.flow.bind_queue == {}
    world.settled()


def test_a_gang_gets_all_its_volumes_or_nothing(world: World) -> None:
    world.see(LOCAL, node("n1"), group("g", 2), claim("c1", cls="local"), claim("c2", 51, cls="local"))
    world.see(volume("pv1", 61), pod("g-0", group="g", claims=["c1"]), pod("g-1", group="g", claims=["c2"]))
    world.do(Allocate())
    assert world.events(TaskAllocated) == []
    assert not world.flow.volumes.assumed
    world.see(volume("pv2", 62))
    world.do(Allocate())
    assert sorted(world.flow.volumes.assumed) == ["pv1", "pv2"]
    assert {one.uid for one in world.flow.volumes.assumed.values()} == {"g-0-u", "g-1-u"}


@pytest.mark.parametrize("how", ["gone", "failed", "deleting", "elsewhere"])
def test_an_assumption_never_outlives_its_pod(world: World, how: str) -> None:
    given(world, kind="wait")
    world.bind("pa")
    world.answer(Update, said(claim("c1", 70, selected="n1")))
    assert world.flow.claims.assumed
    if how == "gone":
        world.see(pod("pa", 102, claims=["c1"]), change="DELETED")
    elif how == "failed":
        world.see(pod("pa", 102, phase="Failed", claims=["c1"]))
    elif how == "deleting":
        world.see(pod("pa", 102, deleting=True, claims=["c1"]))
    else:
        world.see(pod("pa", 102, node="n2", claims=["c1"]))
    assert not world.flow.claims.assumed
    assert world.events(VolumesReverted)[0].reason == "PodOver"
    assert not world.flow.tasks
    assert world.idle_cpu("n1") == 4
    assert world.idle_cpu("n2") == (3 if how == "elsewhere" else 4)
    world.settled()
