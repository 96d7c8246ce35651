"""What proves a verdict: the objects that it rests on, where the log has them, and only what is there."""

from __future__ import annotations

from typing import Any

from projections.diagnosis.case import Case
from projections.diagnosis.explain import explain
from projections.diagnosis.text import lines, plain
from projections.diagnosis.views import GroupView, QueueView
from tests.unit.diagnosis.build import claim, cluster, node, obj, pod, storage_class, task, uses
from tests.unit.diagnosis.test_explain import GROUPED, case, podgroup, queue_of

POSITIONS = {
    ("PersistentVolumeClaim", "default/c"): 31,
    ("StorageClass", "now"): 32,
    ("PersistentVolume", "v"): 33,
    ("Queue", "default"): 34,
}


def proofs(of: Case) -> list[tuple[int, str]]:
    return [(one.position, one.what) for one in explain(of).evidence]


def held(claims: dict[str, Any], **more: Any) -> Case:
    """A pod that uses claim c."""
    where = cluster([node("n1", position=21)], claims=claims, positions=POSITIONS, **more)
    return case(pod(**uses("c"), **GROUPED), cluster=where)


def test_a_claim_that_is_there_proves_itself_and_its_class() -> None:
    immediate = held(
        {"default/c": claim("c", "now")}, classes={"now": storage_class("now", volumeBindingMode="Immediate")}
    )
    assert explain(immediate).verdict == "pvc-unbound"
    found = proofs(immediate)
    assert found[:2] == [
        (31, "PersistentVolumeClaim default/c as last seen"),
        (32, "StorageClass now as last seen"),
    ]
    assert not [what for _, what in found if what.startswith("no ")]


def test_what_is_missing_is_proven_by_its_absence_up_to_the_position() -> None:
    assert proofs(held({}))[0] == (100, "no PersistentVolumeClaim default/c up to here")
    assert proofs(held({"default/c": claim("c", "gone")}))[:2] == [
        (31, "PersistentVolumeClaim default/c as last seen"),
        (100, "no StorageClass gone up to here"),
    ]
    assert (100, "no PersistentVolume v up to here") in proofs(held({"default/c": claim("c", volume="v")}))
    absent = proofs(case(pod(**GROUPED), pod_group=None))
    assert (100, "no PodGroup default/g up to here") in absent


def test_a_queue_verdict_rests_on_the_queue() -> None:
    where = cluster([node("n1", position=21)], queues=queue_of("Closed"), positions=POSITIONS)
    found = proofs(case(pod(nodeSelector={"no": "such"}, **GROUPED), cluster=where, pod_group=podgroup("Pending")))
    assert found[:2] == [(7, "PodGroup default/g as last seen"), (34, "Queue default as last seen")]
    body = obj("Queue", metadata={"name": "default", "uid": "q"}, spec={"weight": 1}, status={"state": "Open"})
    full = {"cpu": 8000.0, "memory": float(32 << 30), "pods": 8.0}
    shares = {"default": QueueView("default", body, full, {**full, "cpu": 9000.0}, {}, position=35)}
    busy = cluster([node("n1", used={"cpu": 8000.0}, position=21)], queues=shares)
    overused = case(pod(**GROUPED), cluster=busy)
    assert explain(overused).verdict == "queue-overused"
    assert proofs(overused)[:3] == [
        (7, "PodGroup default/g as last seen"),
        (35, "Queue default as last seen"),
        (100, "the cache folded up to here"),
    ]


def test_a_job_whose_queue_is_missing_has_the_job_and_the_absence_as_proof() -> None:
    job = obj("VolcanoJob", metadata={"name": "j", "namespace": "default", "uid": "j"}, spec={"queue": "nope"})
    where = cluster([node("n1")], queues=queue_of())
    asked = Case("default", "j", "j", 9, None, where, kind="Job", job=job, job_position=8)
    assert explain(asked).verdict == "queue-missing"
    assert proofs(asked) == [(8, "Job default/j as last seen"), (9, "no Queue nope up to here")]


def test_of_a_job_the_pod_that_stands_for_it_is_named_as_itself() -> None:
    member = pod("j-w-0", **GROUPED)
    own = task(member, {"cpu": "64"})
    group = GroupView(namespace="default", name="g", pod_group=podgroup(), tasks=[own], position=7)
    asked = Case(
        "default",
        "j",
        "j",
        100,
        None,
        cluster([node("n1")]),
        kind="Job",
        pod=member,
        position=50,
        task=own,
        group=group,
    )
    assert (50, "Pod default/j-w-0 as last seen") in proofs(asked)
    assert not [what for _, what in proofs(asked) if "default/j " in f"{what} " and what.startswith("Pod")]


def test_the_nodes_in_the_proof_are_those_that_come_nearest() -> None:
    nodes = [node(f"n{i}", used={"cpu": 8000.0 - 1000 * i}, position=20 + i) for i in range(5)]
    tainted = node("t", taints=[{"key": "k", "effect": "NoSchedule"}], position=30)
    found = proofs(case(pod(**GROUPED), {"cpu": "6"}, cluster=cluster([*nodes, tainted])))
    assert [what for _, what in found if what.startswith("Node")] == ["Node n4 as last seen", "Node t as last seen"]
    big = task(pod("big", **GROUPED), {"cpu": "6"}, index=5, role="big", position=41)
    broken = case(pod(**GROUPED), mates=[big], pod_group=podgroup(minimum=2), cluster=cluster(nodes))
    assert explain(broken).verdict == "gang-short"
    assert proofs(broken)[:3] == [
        (7, "PodGroup default/g as last seen"),
        (41, "Pod default/big as last seen"),
        (24, "Node n4 as last seen"),
    ]


def test_proofs_that_are_left_out_are_counted() -> None:
    answer = explain(held({"default/c": claim("c", "now"), "x": claim("x")}, classes={"now": storage_class("now")}))
    short = plain(lines(answer)).splitlines()[-1]
    shown = short.count(" (recorded)") + short.count(" (recomputed)")
    assert shown < len(answer.evidence)
    assert short.endswith(f"; and {len(answer.evidence) - shown} more (--full)")
