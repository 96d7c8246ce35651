"""checkBindings: every condition of the seed, its outcome, its words, and which comes first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.scheduler.build import (
    Bind,
    Update,
    World,
    claim,
    node,
    pod,
    said,
    storage_class,
    volume,
)
from vcledger.scheduler.checks import Outcome, check_bindings, older
from volcano.events.volume import BindingChecked, VolumeBindingFailed, VolumesBound, VolumesReverted


def provisioning(world: World) -> None:
    """pa waits for a volume to be made for c1 on n1, its claim written at version 70."""
    world.see(storage_class("wait"), node("n1"), claim("c1"), pod("pa", claims=["c1"]))
    world.bind("pa")
    world.answer(Update, said(claim("c1", 70, selected="n1")))


def binding(world: World) -> None:
    """pa waits for c1 to be bound to pv1, whose claimRef was written at version 70."""
    local = storage_class("local", "kubernetes.io/no-provisioner")
    world.see(local, node("n1"), claim("c1", cls="local"), volume("pv1", node="n1"), pod("pa", claims=["c1"]))
    world.bind("pa")
    world.answer(Update, said(volume("pv1", 70, node="n1", ref="c1")))


def found(world: World) -> Any:
    return check_bindings(world.flow, next(iter(world.flow.tasks.values())))


def test_an_update_that_was_not_seen_yet_is_waited_for(world: World) -> None:
    provisioning(world)
    assert found(world).outcome is Outcome.WAIT
    assert "not been seen" in found(world).message
    world.see(claim("c1", 70, selected="n1"))
    assert (found(world).outcome, found(world).message) == (Outcome.WAIT, "is not bound yet")


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        (None, 'selectedNode annotation reset for PVC "c1"'),
        ({"other": "x"}, 'provisioning failed for PVC "c1"'),
        ({"volume.kubernetes.io/selected-node": "n2"}, 'provisioning failed for PVC "c1"'),
    ],
)
def test_the_mark_taken_away_ends_the_attempt_at_once(
    world: World, annotations: dict[str, str] | None, message: str
) -> None:
    provisioning(world)
    world.see(claim("c1", 71, annotations=annotations))
    [failed] = world.events(VolumeBindingFailed)
    assert (failed.message, failed.timed_out, failed.name) == (message, False, "d/c1")
    [reverted] = world.events(VolumesReverted)
    assert (reverted.claims, reverted.written) == (("d/c1",), ("PersistentVolumeClaim/d/c1",))
    assert not world.flow.claims.assumed


def test_a_claim_that_is_gone_ends_it(world: World) -> None:
    provisioning(world)
    world.see(claim("c1", 71), change="DELETED")
    [failed] = world.events(VolumeBindingFailed)
    assert failed.message == 'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "d/c1"'


def test_a_claim_named_its_volume_but_not_fully_bound_is_waited_for(world: World) -> None:
    provisioning(world)
    world.see(volume("pv9", cls="wait", node="n1"), claim("c1", 71, selected="n1", volume="pv9", phase="Pending"))
    assert (found(world).outcome, found(world).message) == (Outcome.WAIT, "is not bound yet")


def test_a_volume_made_for_another_node_ends_it(world: World) -> None:
    provisioning(world)
    world.see(volume("pv9", cls="wait", node="n2"), claim("c1", 71, selected="n1", volume="pv9", completed=True))
    [failed] = world.events(VolumeBindingFailed)
    assert failed.message == 'pv "pv9" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms'
    assert (failed.kind, failed.name) == ("PersistentVolume", "pv9")


def test_a_volume_that_was_not_seen_yet_is_waited_for_and_then_it_is_done(world: World) -> None:
    provisioning(world)
    world.see(volume("pv0", cls="wait"))
    world.see(claim("c1", 71, selected="n1", volume="pv9", completed=True))
    assert found(world).outcome is Outcome.WAIT
    assert world.asked(Bind) == []
    world.see(volume("pv9", cls="wait", node="n1"))
    world.tick(1)
    [bound] = world.events(VolumesBound)
    assert bound.provisions[0].claim == "d/c1"
    assert world.asked(Bind) == ["pa"]
    assert not world.flow.claims.assumed


def test_a_static_volume_whose_claim_is_bound_is_done(world: World) -> None:
    binding(world)
    world.see(volume("pv1", 70, node="n1", ref="c1"), claim("c1", 71, cls="local", volume="pv1", completed=True))
    assert world.names("pa")[-2:] == ["VolumesBound", "BindRequested"]


@pytest.mark.parametrize("changed", [{}, {"ref": "c1", "ref_uid": ""}])
def test_a_claim_ref_that_was_dropped_ends_it(world: World, changed: dict[str, Any]) -> None:
    binding(world)
    world.see(volume("pv1", 71, node="n1", **changed))
    [failed] = world.events(VolumeBindingFailed)
    assert failed.message == 'ClaimRef got reset for pv "pv1"'


def test_affinity_is_looked_at_before_the_claim_ref(world: World) -> None:
    binding(world)
    world.see(volume("pv1", 71, node="n2"))
    [failed] = world.events(VolumeBindingFailed)
    assert failed.message.startswith('pv "pv1" node affinity doesn\'t match node "n1"')


def test_an_older_volume_is_not_judged(world: World) -> None:
    binding(world)
    assert found(world).outcome is Outcome.WAIT
    assert world.events(VolumeBindingFailed) == []


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        (volume("pv1", 72), 'failed to check binding: could not find v1.PersistentVolume "pv1"'),
        (claim("c1", 72, cls="local"), 'failed to check binding: could not find v1.PersistentVolumeClaim "d/c1"'),
    ],
)
def test_a_volume_or_claim_that_is_gone_ends_it(world: World, gone: dict[str, Any], message: str) -> None:
    binding(world)
    world.see(gone, change="DELETED")
    [failed] = world.events(VolumeBindingFailed)
    assert failed.message == message


def test_a_node_that_is_gone_ends_it_at_the_next_look(world: World) -> None:
    provisioning(world)
    world.see(node("n1", 12), change="DELETED")
    world.tick(1)
    [failed] = world.events(VolumeBindingFailed)
    assert failed.message == 'failed to get node "n1": node "n1" not found'


def test_a_pod_that_is_gone_is_told_first_by_a_check(world: World) -> None:
    provisioning(world)
    task = next(iter(world.flow.tasks.values()))
    world.see(pod("pa", 101, claims=["c1"]), change="DELETED")
    gone = check_bindings(world.flow, task)
    assert gone.message == 'pod does not exist any more: pod "pa" not found'
    assert world.events(VolumesReverted)[0].reason == "PodOver"
    assert not world.flow.tasks


def test_time_runs_out_at_a_look_of_a_second_and_not_before(world: World) -> None:
    provisioning(world)
    world.see(claim("c1", 70, selected="n1"))
    world.tick(9.5)
    assert world.events(VolumeBindingFailed) == []
    world.tick(1)
    [failed] = world.events(VolumeBindingFailed)
    assert failed.timed_out
    assert failed.waited_seconds == 10
    assert "is not bound yet" in failed.message


def test_a_look_is_written_only_when_what_is_waited_for_has_changed(world: World) -> None:
    provisioning(world)
    world.tick(3)
    assert [one.waits[0].why for one in world.events(BindingChecked)] == ["its update has not been seen yet"]
    world.see(claim("c1", 70, selected="n1"))
    world.tick(3)
    checks = world.events(BindingChecked)
    assert [one.waits[0].why for one in checks][1:] == ["is not bound yet"]
    assert (checks[1].check, checks[1].timeout_seconds) == (2, 10)


@pytest.mark.parametrize(
    ("seen", "written", "expected"),
    [("9", "10", True), ("10", "10", False), ("11", "10", False), ("x", "10", False), ("9", "", False)],
)
def test_versions_are_compared_as_numbers(seen: str, written: str, expected: bool) -> None:
    assert older(seen, written) is expected


def test_nothing_is_asked_of_the_pod_before_its_volumes(world: World) -> None:
    provisioning(world)
    assert world.asked(Bind) == []
    world.see(claim("c1", 71, selected="n1", volume="pv9", completed=True))
    assert world.asked(Bind) == ["pa"]


# --- volumes of in-tree plugins -------------------------------------------------------------------------------------

EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def csi_node(name: str, migrated: str = "kubernetes.io/aws-ebs") -> dict[str, Any]:
    meta = {"name": name, "uid": f"{name}-csi", "resourceVersion": "12"}
    if migrated:
        meta["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}  # type: ignore[assignment]
    return {"kind": "CSINode", "apiVersion": "storage.k8s.io/v1", "metadata": meta, "spec": {"drivers": []}}


@pytest.mark.parametrize(
    ("migrated", "label", "outcome"),
    [
        ("kubernetes.io/aws-ebs", {EBS_ZONE: "a"}, Outcome.DONE),
        ("kubernetes.io/aws-ebs", {EBS_ZONE: "b"}, Outcome.FAILED),
        ("kubernetes.io/aws-ebs", {"topology.kubernetes.io/zone": "a"}, Outcome.FAILED),
        ("", {"topology.kubernetes.io/zone": "a"}, Outcome.DONE),
        ("kubernetes.io/gce-pd", {"topology.kubernetes.io/zone": "b"}, Outcome.FAILED),
    ],
)
def test_a_volume_that_an_old_plugin_made_is_checked_as_its_driver_sees_it(
    world: World, migrated: str, label: dict[str, str], outcome: Outcome
) -> None:
    world.see(
        storage_class("ebs", "kubernetes.io/aws-ebs"),
        csi_node("n1", migrated),
        node("n1", labels=label),
        claim("c1", cls="ebs"),
        pod("pa", claims=["c1"]),
    )
    world.bind("pa")
    world.answer(Update, said(claim("c1", 70, cls="ebs", selected="n1")))
    terms = [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]
    made = {
        "awsElasticBlockStore": {"volumeID": "aws://a/vol-1"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    world.see(volume("pv1", 71, cls="ebs", ref="c1", spec=made))
    bound = claim("c1", 72, cls="ebs", selected="n1", volume="pv1", completed=True)
    world.see(bound)
    assert bool(world.events(VolumesBound)) is (outcome is Outcome.DONE)
    assert world.asked(Bind) == (["pa"] if outcome is Outcome.DONE else [])
    if outcome is Outcome.FAILED:
        [failed] = world.events(VolumeBindingFailed)
        assert "node affinity doesn't match node" in failed.message


def test_a_volume_that_cannot_be_translated_ends_the_attempt(world: World) -> None:
    binding(world)
    world.see(csi_node("n1"))
    bad = {"awsElasticBlockStore": {"volumeID": "aws://a/snap-1"}}
    world.see(volume("pv1", 71, node="n1", ref="c1", spec=bad))
    [failed] = world.events(VolumeBindingFailed)
    assert failed.message.startswith("failed to translate pv to csi: ")
