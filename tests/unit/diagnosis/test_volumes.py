"""Claims: what no node can mend, matching volumes, provisioning, zones and attach limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.diagnosis.claims import pod_claims
from projections.diagnosis.nodes import Evaluation, refuses
from projections.diagnosis.reasons import (
    VOLUME_AFFINITY,
    VOLUME_BIND,
    VOLUME_GONE,
    VOLUME_LIMIT,
    VOLUME_SPACE,
    VOLUME_ZONE,
    scheduler_reasons,
)
from projections.diagnosis.views import ClusterView
from projections.diagnosis.volumes import VolumeBinding, search, unfit
from tests.unit.diagnosis.build import claim, cluster, node, obj, placed, pod, storage_class, task, uses, volume


def world(claims: list[Any], volumes: list[Any] = [], classes: list[Any] | None = None, **more: Any) -> ClusterView:  # noqa: B006
    nodes = more.pop("nodes", [node("n1"), node("n2")])
    return cluster(
        nodes,
        claims={f"default/{one.metadata.name}": one for one in claims},
        volumes={one.metadata.name: one for one in volumes},
        classes={one.metadata.name: one for one in ([storage_class()] if classes is None else classes)},
        **more,
    )


def said(where: ClusterView, *names: str, **more: Any) -> dict[str, list[str]]:
    """What the scheduler would name for each node, for a pod that uses these claims."""
    subject = pod(**uses(*names), **more)
    evaluation = Evaluation(task(subject, {"cpu": "1"}), subject, where)
    return {name: scheduler_reasons(found) for name, found in evaluation.table().items()}


@pytest.mark.parametrize(
    ("claims", "classes", "verdict", "text"),
    [
        ([], None, "pvc-missing", 'plugin VolumeZone pre-predicates failed persistentvolumeclaim "c" not found'),
        (
            [claim("c", phase="Lost", spec={"volumeName": "gone"})],
            None,
            "pvc-lost",
            'plugin VolumeZone pre-predicates failed persistentvolume "gone" not found',
        ),
        (
            [claim("c", volume="gone")],
            None,
            "pvc-lost",
            'plugin VolumeZone pre-predicates failed persistentvolume "gone" not found',
        ),
        (
            [claim("c", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            None,
            "pvc-deleting",
            'plugin VolumeBinding pre-predicates failed persistentvolumeclaim "c" is being deleted',
        ),
        (
            [claim("c", "nosuch")],
            None,
            "storageclass-missing",
            'plugin VolumeZone pre-predicates failed storageclass.storage.k8s.io "nosuch" not found',
        ),
        (
            [claim("c", "")],
            None,
            "pvc-unbound",
            "plugin VolumeZone pre-predicates failed PersistentVolumeClaim had no pv name and storageClass name",
        ),
        (
            [claim("c", "now")],
            [storage_class("now", volumeBindingMode="Immediate")],
            "pvc-unbound",
            "plugin VolumeZone pre-predicates failed PersistentVolume had no name",
        ),
    ],
)
def test_claims_that_no_node_can_mend(claims: list[Any], classes: list[Any] | None, verdict: str, text: str) -> None:
    where = world(claims, classes=classes)
    [problem] = pod_claims(pod(**uses("c")), where).problems
    assert (problem.verdict, problem.text) == (verdict, text)
    assert said(where, "c") == {"n1": [text], "n2": [text]}


def test_a_prebound_claim_waits_for_the_controller() -> None:
    where = world([claim("c", spec={"volumeName": "v"})], [volume("v")])
    assert [problem.verdict for problem in pod_claims(pod(**uses("c")), where).problems] == ["pvc-unbound"]


def test_an_ephemeral_claim_belongs_to_its_pod() -> None:
    subject = pod("p", volumes=[{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
    assert [one.verdict for one in pod_claims(subject, world([])).problems] == ["pvc-missing"]
    foreign = claim("p-data", meta={"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "another"}]})
    assert [one.verdict for one in pod_claims(subject, world([foreign])).problems] == ["pvc-not-owned"]
    own = claim("p-data", meta={"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "uid-p"}]})
    assert pod_claims(subject, world([own])).problems == []


def test_a_waiting_claim_takes_a_volume_where_there_is_one() -> None:
    where = world([claim("c")], [volume("v", host="n2")])
    assert said(where, "c") == {"n1": [VOLUME_BIND], "n2": []}


def test_two_claims_need_two_volumes() -> None:
    where = world([claim("c"), claim("d")], [volume("v", host="n1"), volume("w", host="n1"), volume("x", host="n2")])
    assert said(where, "c", "d") == {"n1": [], "n2": [VOLUME_BIND]}


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (volume("v", size="1Gi"), "1Gi is less than the 5Gi asked"),
        (volume("v", spec={"volumeMode": "Block"}), "volume mode Block, asked Filesystem"),
        (volume("v", modes=["ReadOnlyMany"]), "lacks access mode ReadWriteOnce"),
        (volume("v", phase="Released"), "is Released"),
        (volume("v", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), "is being deleted"),
        (
            volume(
                "v",
                meta={"deletionTimestamp": "2026-01-01T00:00:00Z"},
                spec={"claimRef": {"namespace": "default", "name": "c"}},
            ),
            "is being deleted",
        ),
        (volume("v", phase=""), "was not looked at by the volume controller yet"),
        (volume("v", spec={"volumeAttributesClassName": "fast"}), "volume attributes class fast, asked none"),
        (volume("v", spec={"claimRef": {"namespace": "default", "name": "other"}}, phase="Bound"), "default/other"),
        (volume("v", spec={"claimRef": {"namespace": "default", "name": "c", "uid": "older"}}), "default/c"),
    ],
)
def test_why_a_volume_does_not_serve(candidate: Any, why: str) -> None:
    assert why in unfit(candidate, claim("c"))
    assert said(world([claim("c")], [candidate]), "c")["n1"] == [VOLUME_BIND]


def test_a_volume_that_names_the_claim_serves_it() -> None:
    mine = volume("v", phase="Released", spec={"claimRef": {"namespace": "default", "name": "c"}})
    assert unfit(mine, claim("c")) == ""


def test_a_selector_narrows_the_choice() -> None:
    picky = claim("c", spec={"selector": {"matchLabels": {"disk": "ssd"}}})
    assert "labels do not match" in unfit(volume("v"), picky)
    assert unfit(volume("v", labels={"disk": "ssd"}), picky) == ""


def test_another_class_is_not_looked_at_and_the_smallest_goes_first() -> None:
    found = search(claim("c"), [volume("big", size="90Gi"), volume("small", size="6Gi"), volume("odd", "other")])
    assert [one.volume.metadata.name for one in found.candidates] == ["small", "big"]
    assert found.rejected == []


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(1, 20))
def test_a_claim_is_served_exactly_when_some_volume_is_large_enough(sizes: list[int], asked: int) -> None:
    volumes = [volume(f"v{index}", size=f"{size}Gi", host="n1") for index, size in enumerate(sizes)]
    where = world([claim("c", size=f"{asked}Gi")], volumes)
    assert (said(where, "c")["n1"] == []) is (max(sizes) >= asked)


def test_a_provisioner_makes_up_for_missing_volumes() -> None:
    dynamic = storage_class("wait", "csi.example.com")
    assert said(world([claim("c")], classes=[dynamic]), "c") == {"n1": [], "n2": []}
    zoned = storage_class(
        "wait",
        "csi.example.com",
        allowedTopologies=[{"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["n2"]}]}],
    )
    assert said(world([claim("c")], classes=[zoned]), "c") == {"n1": [VOLUME_BIND], "n2": []}


def test_an_attributes_class_is_asked_of_a_volume() -> None:
    asked = claim("c", spec={"volumeAttributesClassName": "fast"})
    assert unfit(volume("v", spec={"volumeAttributesClassName": "fast"}), asked) == ""
    assert unfit(volume("v"), asked) == "volume attributes class none, asked fast"


def room(name: str, size: str, **labels: str) -> Any:
    """What a driver says of its room for volumes of the class `wait` on nodes of these labels."""
    return obj("CSIStorageCapacity", storageClassName="wait", capacity=size, nodeTopology={"matchLabels": labels})


def test_a_volume_is_made_where_its_driver_has_room() -> None:
    """As FindPodVolumes says it: a class that may not provision there, and no room, are two things."""
    made = storage_class("wait", "csi.example.com")
    names = ("n1", "n2", "n3")
    nodes = [node(name, labels={"zone": zone}) for name, zone in zip(names, ("a", "b", "c"), strict=True)]
    capacities = {"a": room("a", "6Gi", zone="a"), "b": room("b", "4Gi", zone="b")}
    where = world([claim("c")], classes=[made], nodes=nodes, capacities=capacities)
    assert said(where, "c") == {"n1": [], "n2": [VOLUME_SPACE], "n3": [VOLUME_SPACE]}
    where.capacities = {}
    assert said(where, "c") == {"n1": [], "n2": [], "n3": []}
    bound = world(
        [claim("c"), claim("d", volume="v")],
        [volume("v", host="n1", phase="Bound")],
        [made],
        nodes=nodes,
        capacities=capacities,
    )
    assert said(bound, "c", "d")["n2"] == [f"{VOLUME_AFFINITY}, {VOLUME_SPACE}"]


def test_the_largest_volume_counts_where_a_driver_names_it() -> None:
    """And a claim for which a volume is there asks nobody for room."""
    limited = obj(
        "CSIStorageCapacity", storageClassName="wait", capacity="90Gi", maximumVolumeSize="4Gi", nodeTopology={}
    )
    made = storage_class("wait", "csi.example.com")
    where = world([claim("c")], [volume("v", host="n1")], [made], capacities={"all": limited})
    assert said(where, "c") == {"n1": [], "n2": [VOLUME_SPACE]}


def test_what_is_said_of_one_class_concerns_no_other_and_no_in_tree_plugin() -> None:
    other = storage_class("other", "csi.example.com")
    intree = storage_class("wait", "kubernetes.io/aws-ebs")
    full = {"all": room("all", "1Gi")}
    assert said(world([claim("c", "other")], classes=[other], capacities=full), "c") == {"n1": [], "n2": []}
    assert said(world([claim("c")], classes=[intree], capacities=full), "c") == {"n1": [], "n2": []}


def test_a_claim_that_is_being_provisioned_ties_the_pod_to_its_node() -> None:
    chosen = claim("c", annotations={"volume.kubernetes.io/selected-node": "n2"})
    where = world([chosen], classes=[storage_class("wait", "csi.example.com")])
    assert said(where, "c") == {"n1": [VOLUME_BIND], "n2": []}


def test_a_bound_volume_is_usable_where_its_affinity_says() -> None:
    where = world([claim("c", volume="v")], [volume("v", host="n2", phase="Bound")])
    assert said(where, "c") == {"n1": [VOLUME_AFFINITY], "n2": []}


def test_zones_of_bound_volumes() -> None:
    zone = "topology.kubernetes.io/zone"
    nodes = [node("a", labels={zone: "a"}), node("b", labels={zone: "b"}), node("bare")]
    where = world([claim("c", volume="v")], [volume("v", labels={zone: "a__c"}, phase="Bound")], nodes=nodes)
    assert said(where, "c") == {"a": [], "b": [VOLUME_ZONE], "bare": []}
    old = volume("v", labels={"failure-domain.beta.kubernetes.io/zone": "a"}, phase="Bound")
    assert said(world([claim("c", volume="v")], [old], nodes=nodes), "c")["b"] == [VOLUME_ZONE]


@pytest.mark.parametrize(
    ("label", "refused"), [("a__b", []), ("a__ b ", []), ("a__", []), ("", []), ("a__c", [VOLUME_ZONE])]
)
def test_a_zone_label_with_an_empty_part_is_passed_over(label: str, refused: list[str]) -> None:
    zone = "topology.kubernetes.io/zone"
    bound = volume("v", labels={zone: label}, phase="Bound")
    where = world([claim("c", volume="v")], [bound], nodes=[node("b", labels={zone: "b"})])
    assert said(where, "c") == {"b": refused}


def test_a_node_with_a_region_but_no_zone_refuses_a_volume_of_a_zone() -> None:
    """A node with a region but no zone does have topology labels, so the volume's zone is missing there."""
    zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
    bound = volume("v", labels={zone: "a"}, phase="Bound")
    where = world([claim("c", volume="v")], [bound], nodes=[node("b", labels={region: "r"})])
    assert said(where, "c") == {"b": [VOLUME_ZONE]}


def csi_volume(name: str, handle: str) -> Any:
    return volume(name, phase="Bound", spec={"csi": {"driver": "csi.example.com", "volumeHandle": handle}})


def test_attach_limits_count_handles_once() -> None:
    csi_node = obj(
        "CSINode",
        metadata={"name": "n1", "uid": "u"},
        spec={"drivers": [{"name": "csi.example.com", "nodeID": "n1", "allocatable": {"count": 1}}]},
    )
    claims = [claim("c", volume="v"), claim("d", volume="w"), claim("e", volume="x")]
    volumes = [csi_volume("v", "h1"), csi_volume("w", "h2"), csi_volume("x", "h1")]
    there = placed(pod("there", **uses("d")), "n1")
    where = world(claims, volumes, pods=[there], csi_nodes={"n1": csi_node})
    assert said(where, "c") == {"n1": [VOLUME_LIMIT], "n2": []}
    same = placed(pod("same", **uses("e")), "n1")
    where = world(claims, volumes, pods=[same], csi_nodes={"n1": csi_node})
    assert said(where, "c") == {"n1": [], "n2": []}


def test_the_story_of_a_claim_names_every_volume_of_its_class() -> None:
    where = world([claim("c")], [volume("small", size="1Gi"), volume("far", host="gone-node")])
    subject = pod(**uses("c"))
    binding = VolumeBinding(pod_claims(subject, where), where)
    [state] = binding.waiting
    story = binding.story(state, where.nodes)
    assert "small 1Gi is less than the 5Gi asked" in story
    assert "far is only for kubernetes.io/hostname In [gone-node], and there is no such node" in story


def test_a_pod_without_claims_has_no_volume_reasons() -> None:
    subject = pod()
    evaluation = Evaluation(task(subject, {"cpu": "1"}), subject, world([]))
    assert not any(refuses(found) for found in evaluation.table().values())


# --- volumes of in-tree plugins -------------------------------------------------------------------------------------

EBS = "kubernetes.io/aws-ebs"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def csi_node(name: str, migrated: str = EBS, limit: int | None = None) -> Any:
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else None
    drivers = [{"name": "ebs.csi.aws.com", "nodeID": name, "allocatable": {"count": limit}}]
    return obj("CSINode", metadata={"name": name, "annotations": annotations}, spec={"drivers": drivers})


def ebs(name: str, zone: str = "", **more: Any) -> Any:
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    return volume(name, spec={"awsElasticBlockStore": {"volumeID": f"aws://z/vol-{name}"}}, labels=labels, **more)


def test_a_bound_in_tree_volume_is_where_its_driver_says() -> None:
    """The driver's label counts on a node that has given the plugin over, Kubernetes' own on one that has not."""
    nodes = [
        node("new", labels={EBS_ZONE: "a"}),
        node("far", labels={EBS_ZONE: "b"}),
        node("bare", labels={"topology.kubernetes.io/zone": "a"}),
        node("old", labels={"topology.kubernetes.io/zone": "a"}),
    ]
    where = world(
        [claim("c", volume="v")],
        [ebs("v", zone="a")],
        nodes=nodes,
        csi_nodes={name: csi_node(name) for name in ("new", "far", "bare")} | {"old": csi_node("old", migrated="")},
    )
    assert said(where, "c") == {"new": [], "far": [VOLUME_AFFINITY], "bare": [VOLUME_AFFINITY], "old": []}


def test_a_volume_that_cannot_be_translated_is_for_no_node_that_needs_it_so() -> None:
    bad = volume("v", spec={"awsElasticBlockStore": {"volumeID": "aws://z/snap-1"}})
    where = world([claim("c", volume="v")], [bad], csi_nodes={"n1": csi_node("n1")})
    found = said(where, "c")
    assert "could not translate pv to csi" in found["n1"][0]
    assert found["n2"] == []


@pytest.mark.parametrize(("migrated", "limit", "fits"), [(EBS, 2, False), (EBS, 3, True), ("", 2, True)])
def test_in_tree_volumes_count_at_their_driver(migrated: str, limit: int, fits: bool) -> None:
    """Bound, still to be made, and a pod's own: all take a place, each volume once however it is named."""
    claims = [claim("c", "ebs"), claim("d", volume="v"), claim("e", volume="w")]
    same = volume("w", spec={"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-v"}})
    own = pod("q", volumes=[{"name": "own", "awsElasticBlockStore": {"volumeID": "vol-x"}}])
    where = world(
        claims,
        [ebs("v"), same],
        [storage_class(), storage_class("ebs", EBS)],
        nodes=[node("n1")],
        csi_nodes={"n1": csi_node("n1", migrated, limit)},
        pods=[placed(pod("r", **uses("d", "e")), "n1"), placed(own, "n1")],
    )
    assert (said(where, "c") == {"n1": []}) is fits
    asking = pod("s", volumes=[{"name": "own", "awsElasticBlockStore": {"volumeID": "vol-y"}}])
    evaluation = Evaluation(task(asking, {"cpu": "1"}), asking, where)
    assert (scheduler_reasons(evaluation.table()["n1"]) == []) is fits


def test_a_node_that_refuses_for_a_bound_and_for_a_waiting_claim_says_both_at_once() -> None:
    """FindPodVolumes gathers its reasons, and the plugin joins them to one."""
    where = world([claim("c", volume="v"), claim("w", size="50Gi")], [volume("v", host="n2", phase="Bound")])
    assert said(where, "c", "w") == {"n1": [f"{VOLUME_AFFINITY}, {VOLUME_BIND}"], "n2": [VOLUME_BIND]}


def test_a_volume_that_is_gone_is_named_after_a_claim_that_none_serves() -> None:
    own = {"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "uid-p"}]}
    where = world([claim("p-data", volume="gone", meta=own), claim("w", size="50Gi")], [])
    volumes = [{"name": "data", "ephemeral": {}}, *uses("w")["volumes"]]
    subject = pod("p", volumes=volumes)
    found = Evaluation(task(subject), subject, where).on(where.nodes[0])
    assert [reason.text for reason in found] == [f"{VOLUME_BIND}, {VOLUME_GONE}"]
