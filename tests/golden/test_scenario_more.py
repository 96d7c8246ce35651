"""More scenarios of each kind that the field bugs are of: other orders, other answers, other kinds of objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.golden.scenarios import (
    PODS,
    Line,
    action,
    advance,
    api,
    claim,
    control,
    group,
    line,
    meta,
    node,
    pod,
    pod_list,
    status,
    storage_class,
    watch,
    write,
)
from tests.golden.test_scenario_kinds import BINDING, FREE, P1, QUIET, Scenario, alone
from vcledger.scheduler.state import FlowConfig
from vcledger.testing.invariants import check_ledger
from vcledger.testing.scenario import Runner
from vcledger.testing.scenario_format import read_script

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CONFLICT = status(409, "the object has been modified; please apply your changes to the latest version", "Conflict")


def gpus(amount: str, version: int, **labels: str) -> Line:
    found = node("n1", version, "16")
    for part in ("allocatable", "capacity"):
        found["status"][part] = {**found["status"][part], "amd.com/gpu": amount, "memory": "64Gi"}
    found["metadata"]["labels"] |= labels
    return found


def gpu_pod(name: str, amount: str, version: int, on: str = "") -> Line:
    found = pod(name, version, on=on)
    found["spec"]["containers"][0]["resources"]["requests"]["amd.com/gpu"] = amount
    return found


def dynamic(name: str, version: int, uid: str = "", node_name: str = "", bound: str = "") -> Line:
    """A claim of a class with a provisioner, with or without its selected node and volume."""
    found = claim(version)
    found["metadata"] = meta(name, version, uid, namespace="default")
    if node_name:
        found["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": node_name}
    if bound:
        found["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
        found["spec"]["volumeName"], found["status"]["phase"] = bound, "Bound"
    return found


def provisioned(name: str, of: str, version: int) -> Line:
    spec = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "wait",
        "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": of, "uid": f"{of}-u"},
        "csi": {"driver": "csi.example.com", "volumeHandle": name},
    }
    about = meta(name, version)
    return {
        "kind": "PersistentVolume", "apiVersion": "v1", "metadata": about, "spec": spec, "status": {"phase": "Bound"},
    }  # fmt: skip


def two_claims(*more: Line) -> list[Line]:
    """A pod with two claims that are to be provisioned, assumed on n1 and handed over."""
    begin = [watch("ADDED", storage_class("csi.example.com")), watch("ADDED", node())]
    begin += [watch("ADDED", dynamic("a1", 96)), watch("ADDED", dynamic("a2", 97))]
    begin += [watch("ADDED", pod(claims=["a1", "a2"])), *HANDED_OVER]
    return [*begin, *more]


HANDED_OVER = [action("assume", pod="default/p1", node="n1"), action("bind", pod="default/p1", node="n1")]
NOT_HELD = [{"pvc": "default/a1", "assumed": False}, {"pvc": "default/a2", "assumed": False}]


def event(name: str, uid: str, version: int, **more: Any) -> Line:
    about = {"kind": "Pod", "namespace": "default", "name": "p1", "uid": "p1-u"}
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": meta(name, version, uid, namespace="default"),
        "involvedObject": about,
        "reason": "FailedScheduling",
        "message": "0/1 nodes are available: 1 Insufficient cpu.",
        "type": "Warning",
        **more,
    }


CACHE: dict[str, Scenario] = {
    "a pod that has ended before its node is seen": (
        [
            watch("ADDED", pod(on="n1")),
            watch("MODIFIED", pod(version=101, on="n1", phase="Succeeded")),
            watch("ADDED", node()),
        ],
        [FREE],
        {1: [{"node": "n1", "exists": False, "schedulable": False, "tasks": ["default/p1"]}]},
    ),
    "two pods before their node, one gone before it is seen": (
        [
            watch("ADDED", pod(on="n1")),
            watch("ADDED", pod("p2", 101, on="n1", cpu="2")),
            watch("DELETED", pod(version=102, on="n1")),
            watch("ADDED", node()),
            watch("MODIFIED", node(version=103)),
        ],
        [{"node": "n1", "schedulable": True, "idle": {"cpu": "2", "memory": "15Gi"}, "tasks": ["default/p2"]}],
        {},
    ),
    "a node that goes and comes back under its pod": (
        [
            watch("ADDED", node()),
            watch("ADDED", pod(on="n1")),
            watch("DELETED", node(version=101)),
            watch("ADDED", {**node(version=102), "metadata": meta("n1", 102, "n1-second")}),
            watch("DELETED", pod(version=103, on="n1")),
        ],
        [{"node": "n1", "uid": "n1-second", "idle": {"cpu": "4"}, "used": {"cpu": "0"}, "tasks": []}],
        {
            3: [{"node": "n1", "exists": False}],
            4: [{"node": "n1", "uid": "n1-second", "idle": {"cpu": "3"}, "tasks": ["default/p1"]}],
        },
    ),
    "a group made again before its old pods are gone": (
        [
            watch("ADDED", group(uid="U1", minimum=1)),
            watch("ADDED", pod(group="g")),
            watch("DELETED", group(version=101, uid="U1", minimum=1)),
            watch("ADDED", group(version=102, uid="U2", minimum=3)),
            watch("DELETED", pod(version=103, group="g")),
            action("cleanup-fire", key="default/g/U1"),
            advance(30),
            action("cleanup-fire", key="default/g/U1"),
        ],
        [
            {"job": "default/g", "exists": True, "podgroup_uid": "U2", "min_member": 3, "tasks": []},
            {"queue": "deletedJobs", "length": 0, "keys": []},
        ],
        {},
    ),
    "the second group goes too": (
        [
            watch("ADDED", group(uid="U1")),
            watch("DELETED", group(version=101, uid="U1")),
            watch("ADDED", group(version=102, uid="U2")),
            action("cleanup-fire", key="default/g/U1"),
            watch("DELETED", group(version=103, uid="U2")),
            action("cleanup-fire", key="default/g/U2"),
            advance(10),
        ],
        [{"job": "default/g", "exists": False}, {"queue": "deletedJobs", "length": 0}],
        {4: [{"job": "default/g", "podgroup_uid": "U2"}]},
    ),
    "devices that fail, and come back": (
        [
            watch("ADDED", gpus("8", 90)),
            watch("ADDED", gpu_pod("p1", "5", 100, "n1")),
            watch("ADDED", gpu_pod("p2", "3", 101, "n1")),
            watch("MODIFIED", gpus("2", 102)),
            watch("MODIFIED", gpus("2", 103, touched="yes")),
            watch("ADDED", gpu_pod("p3", "1", 104)),
            watch("MODIFIED", gpus("9", 105)),
            action("schedule", pod="default/p3"),
            api("POST", f"{PODS}/p3/binding", 201),
        ],
        [{"node": "n1", "idle": {"amd.com/gpu": "0", "cpu": "13"}}, {"outcome": "default/p3", "bind": "succeeded"}],
        {
            5: [{"node": "n1", "schedulable": True, "idle": {"amd.com/gpu": "-6", "cpu": "14", "memory": "62Gi"}}],
            6: [{"why": "default/p3", "fits_on": [], "per_node": {"n1": "amd.com/gpu"}}],
            7: [{"node": "n1", "idle": {"amd.com/gpu": "1"}}, {"why": "default/p3", "fits_on": ["n1"]}],
        },
    ),
    "memory that shrinks below what runs": (
        [
            watch("ADDED", node()),
            watch("ADDED", pod(on="n1")),
            watch("MODIFIED", smaller := {**node(version=101), "status": {**node()["status"], "allocatable": {
                "cpu": "4", "memory": "512Mi", "pods": "110"}}}),
            watch("MODIFIED", {**smaller, "metadata": meta("n1", 102, labels={"kubernetes.io/hostname": "n1"})}),
        ],
        [{"node": "n1", "schedulable": True, "idle": {"memory": "-512Mi", "cpu": "3"}, "tasks": ["default/p1"]}],
        {},
    ),
}  # fmt: skip

VOLUMES: dict[str, Scenario] = {
    "the first of two updates meets a conflict": (
        two_claims(api("PUT", f"{CLAIMS}/a1", 409, CONFLICT, applied=False), advance(3)),
        [
            *NOT_HELD,
            FREE,
            QUIET,
            {"api": f"PUT {CLAIMS}/a2", "calls": 0},
            {"why": "default/p1", "must_mention": ["a1", "409"]},
            {"pod": "default/p1", "bind": "failed", "assumed": False},
        ],
        {},
    ),
    "the second update is refused for good": (
        two_claims(
            api("PUT", f"{CLAIMS}/a1", 200, dynamic("a1", 110, node_name="n1"), applied=True),
            api("PUT", f"{CLAIMS}/a2", 403, status(403, "quota exceeded", "Forbidden"), applied=False),
            watch("MODIFIED", dynamic("a1", 110, node_name="n1")),
            advance(3),
        ),
        [*NOT_HELD, FREE, QUIET, {"why": "default/p1", "must_mention": ["a2", "quota exceeded"]},
         {"pvc": "default/a1", "selected_node": "n1"}],
        {},
    ),
    "the answer to an update is lost, and it was done": (
        two_claims(
            api("PUT", f"{CLAIMS}/a1", None, applied=True),
            api("GET", f"{CLAIMS}/a1", 200, dynamic("a1", 110, node_name="n1")),
            api("PUT", f"{CLAIMS}/a2", 200, dynamic("a2", 111, node_name="n1"), applied=True, optional=True),
            advance(2),
        ),
        [
            {"api": f"PUT {CLAIMS}/a1", "calls": 1},
            {"api": f"PUT {CLAIMS}/a2", "calls": 1},
            {"api": f"POST {BINDING}", "calls": 0},
            {"pvc": "default/a1", "assumed": True},
        ],
        {},
    ),
    "both are provisioned, in the other order": (
        two_claims(
            api("PUT", f"{CLAIMS}/a1", 200, dynamic("a1", 110, node_name="n1"), applied=True),
            api("PUT", f"{CLAIMS}/a2", 200, dynamic("a2", 111, node_name="n1"), applied=True),
            watch("MODIFIED", dynamic("a2", 111, node_name="n1")),
            watch("MODIFIED", dynamic("a1", 110, node_name="n1")),
            watch("ADDED", provisioned("pv-2", "a2", 112)),
            watch("MODIFIED", dynamic("a2", 113, node_name="n1", bound="pv-2")),
            advance(2),
            watch("ADDED", provisioned("pv-1", "a1", 114)),
            watch("MODIFIED", dynamic("a1", 115, node_name="n1", bound="pv-1")),
            advance(2),
            api("POST", BINDING, 201),
        ),
        [
            {"outcome": "default/p1", "bind": "succeeded", "events": ["Scheduled"]},
            {"pvc": "default/a1", "volume": "pv-1", "assumed": False},
            {"pvc": "default/a2", "volume": "pv-2", "phase": "Bound", "assumed": False},
            {"api": f"POST {BINDING}", "calls": 1},
        ],
        {14: [{"pod": "default/p1", "assumed": True, "bind": "none"}]},
    ),
    "the mark of one of two is taken away": (
        two_claims(
            api("PUT", f"{CLAIMS}/a1", 200, dynamic("a1", 110, node_name="n1"), applied=True),
            api("PUT", f"{CLAIMS}/a2", 200, dynamic("a2", 111, node_name="n1"), applied=True),
            watch("MODIFIED", dynamic("a1", 110, node_name="n1")),
            watch("MODIFIED", dynamic("a2", 111, node_name="n1")),
            advance(4),
            watch("MODIFIED", dynamic("a1", 112)),
            advance(8),
        ),
        [*NOT_HELD, FREE, QUIET, {"bind_attempts": "default/p1", "count": 1, "each_ended_within_seconds": 6},
         {"why": "default/p1", "must_mention": ["a1"], "must_not_mention": ["timed out"]}],
        {},
    ),
    "a gang discarded twice": (
        [
            watch("ADDED", storage_class("csi.example.com")), watch("ADDED", node()), watch("ADDED", group()),
            watch("ADDED", dynamic("a1", 96)), watch("ADDED", pod(claims=["a1"], group="g")),
            action("assume", pod="default/p1", node="n1"), action("discard", job="default/g", reason="short"),
            action("assume", pod="default/p1", node="n1"), action("discard", job="default/g", reason="short again"),
            action("discard", job="default/g", reason="nothing left"),
        ],
        [{"pvc": "default/a1", "assumed": False, "selected_node": None}, FREE, {"pod": "default/p1", "assumed": False},
         {"api": f"PUT {CLAIMS}/a1", "calls": 0}, {"queue": "bindFlow", "length": 0}],
        {6: [{"pvc": "default/a1", "assumed": True}, {"node": "n1", "idle": {"cpu": "3"}}]},
    ),
}  # fmt: skip

BINDS: dict[str, Scenario] = {
    "the answer is lost, the bind was not done, and the second one is": (
        alone(
            api("POST", BINDING, None, applied=False),
            api("GET", P1, 200, pod()),
            api("POST", BINDING, 201, applied=True),
            advance(90),
        ),
        [
            {"outcome": "default/p1", "bind": "succeeded"},
            {"api": f"POST {BINDING}", "calls": 2},
            {"node": "n1", "idle": {"cpu": "3"}},
            QUIET,
        ],
        {5: [{"node": "n1", "idle": {"cpu": "3"}}, {"pod": "default/p1", "assumed": True, "bind": "unknown"}]},
    ),
    "every answer is lost": (
        alone(
            api("POST", BINDING, None, applied=False),
            api("GET", P1, 200, pod()),
            api("POST", BINDING, None, applied=False),
            advance(300),
        ),
        [{"api": f"POST {BINDING}", "calls": 2}, FREE, QUIET, {"pod": "default/p1", "assumed": False, "node": None}],
        {7: [{"node": "n1", "idle": {"cpu": "3"}}]},
    ),
    "one batch, every answer there is": (
        [
            watch("ADDED", node()),
            *(watch("ADDED", pod(f"p{number}", 100 + number, cpu="500m")) for number in range(1, 6)),
            *(action("assume", pod=f"default/p{number}", node="n1") for number in range(1, 6)),
            action("flush", pods=[f"default/p{number}" for number in range(1, 6)], node="n1"),
            api("POST", f"{PODS}/p5/binding", 201),
            api("POST", f"{PODS}/p1/binding", 429, status(429, "too many requests", "TooManyRequests")),
            api("POST", f"{PODS}/p3/binding", 404, status(404, 'pods "p3" not found', "NotFound")),
            api("POST", f"{PODS}/p2/binding", 409, status(409, 'pod p2 is already assigned to node "n9"', "Conflict")),
            api("POST", f"{PODS}/p4/binding", 201),
            api("GET", f"{PODS}/p3", 404, status(404, 'pods "p3" not found', "NotFound")),
            api("GET", f"{PODS}/p2", 200, pod("p2", 120, on="n9")),
            advance(30),
        ],
        [
            *({"outcome": f"default/p{number}", "bind": "succeeded", "events": ["Scheduled"]} for number in (4, 5)),
            {"outcome": "default/p1", "bind": "failed", "events": ["FailedScheduling"]},
            {"outcome": "default/p2", "bind": "lost-to-another"},
            {"outcome": "default/p3", "bind": "pod-gone"},
            {"api": f"STATUS {PODS}/p2", "calls": 0},
            {"api": f"STATUS {PODS}/p3", "calls": 0},
            {"node": "n1", "idle": {"cpu": "3"}, "tasks": ["default/p4", "default/p5"]},
            QUIET,
        ],
        {},
    ),
    "the pod was made again under its name": (
        alone(
            api("POST", BINDING, 409, status(409, "Precondition failed: UID in precondition: p1-u", "Conflict")),
            api("GET", P1, 200, pod(version=130, uid="p1-second")),
            advance(10),
            watch("DELETED", pod(version=128)),
            watch("ADDED", pod(version=130, uid="p1-second")),
            advance(100),
        ),
        [
            {"pod": "default/p1", "uid": "p1-second", "node": None, "assumed": False, "phase": "Pending"},
            FREE,
            QUIET,
            {"api": f"POST {BINDING}", "calls": 1},
            {"history": "default/p1", "incarnations": 2},
        ],
        {},
    ),
    "the pod goes while its bind is out": (
        alone(
            watch("DELETED", pod(version=120)),
            api("POST", BINDING, 404, status(404, 'pods "p1" not found', "NotFound")),
            advance(120),
        ),
        [FREE, QUIET, {"pod": "default/p1", "exists": False, "deletion": "observed"},
         {"api": f"POST {BINDING}", "calls": 1}, {"api": f"STATUS {P1}", "calls": 0}],
        {},
    ),
}  # fmt: skip

WATCHES: dict[str, Scenario] = {
    "nodes, whose watch expires twice": (
        [
            watch("ADDED", node()),
            watch("ERROR", status(410, "too old resource version: 90 (200)", "Expired")),
            line("LIST", kind="NodeList", apiVersion="v1", metadata={"resourceVersion": "300"},
                 items=[node("n2", 250)]),
            control("expect-watch", resource="nodes", resourceVersion="300"),
            watch("ERROR", status(410, "The event in requested index is outdated and cleared", "Gone")),
            line("LIST", kind="NodeList", apiVersion="v1", metadata={"resourceVersion": "500"},
                 items=[node("n3", 450), node("n2", 250)]),
            watch("ADDED", node("n4", 501)),
        ],
        [
            {"nodes": ["n4", "n3", "n2"]},
            {"gap": "nodes", "from_resource_version": "300", "to_resource_version": "500"},
            {"resume": "nodes", "watch_resource_version": "500", "never": ["None", "", "90", "450"]},
            {"history": "n1", "incarnations": 1, "deleted": ["n1-u"]},
        ],
        {},
    ),
    "an error without a reason": (
        [
            watch("ADDED", pod()),
            watch("ERROR", {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 410}),
            pod_list("700"),
            control("expect-watch", resource="pods", resourceVersion="700"),
        ],
        [{"pod": "default/p1", "exists": False, "deletion": "inferred"}, {"pods": []},
         {"gap": "pods", "from_resource_version": "100", "to_resource_version": "700"}],
        {},
    ),
    "bookmarks before any object, and of a kind that is not kept": (
        [
            watch("ADDED", pod(version=50)),
            watch("BOOKMARK", {"kind": "Node", "apiVersion": "v1", "metadata": {"resourceVersion": "900"}}),
            watch("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": None}, "status": {},
                               "metadata": {"resourceVersion": "901", "creationTimestamp": None}}),
            watch("BOOKMARK", {"kind": "ConfigMap", "apiVersion": "v1", "data": None,
                               "metadata": {"resourceVersion": "950"}}),
            control("watch-closed"),
            control("expect-watch", resource="pods", resourceVersion="901"),
            control("expect-watch", resource="nodes", resourceVersion="900"),
        ],
        [{"pods": ["default/p1"]}, {"resume": "pods", "watch_resource_version": "901", "never": ["950", "50"]},
         {"resume": "nodes", "watch_resource_version": "900"}, {"nodes": []}],
        {},
    ),
    "events whose counts and times lie in other places": (
        [
            watch("ADDED", pod()),
            watch("ADDED", event("p1.1", "e1", 101, count=2, firstTimestamp="2026-03-01T10:00:00Z",
                                 lastTimestamp="2026-03-01T10:00:30Z")),
            watch("MODIFIED", event("p1.1", "e1", 150, count=70, firstTimestamp="2026-03-01T10:00:00Z",
                                    lastTimestamp="2026-03-01T10:20:00Z")),
            watch("ADDED", event("p1.2", "e2", 160, eventTime="2026-03-01T10:05:00.000001Z", firstTimestamp=None,
                                 lastTimestamp=None,
                                 series={"count": 9, "lastObservedTime": "2026-03-01T10:30:00.000000Z"})),
            watch("ADDED", event("p1.3", "e3", 161, eventTime=None, firstTimestamp=None, lastTimestamp=None)),
            watch("DELETED", event("p1.3", "e3", 170, eventTime=None, firstTimestamp=None, lastTimestamp=None)),
        ],
        [{"events_of": "default/p1", "distinct": 3, "counts": {"p1.1": 70, "p1.2": 9, "p1.3": 1},
          "first": "2026-03-01T10:00:00Z", "last": "2026-03-01T10:30:00Z"},
         {"why": "default/p1", "must_mention": ["Insufficient cpu"]}],
        {},
    ),
}  # fmt: skip

SCENARIOS = {**CACHE, **VOLUMES, **BINDS, **WATCHES}


@pytest.mark.parametrize("name", SCENARIOS)
def test_it_passes_and_breaks_no_invariant(name: str, tmp_path: Path) -> None:
    lines, facts, after = SCENARIOS[name]
    runner = Runner(read_script(write(tmp_path, "own", lines, facts, after)), tmp_path / "own.db", FlowConfig())
    try:
        result = runner.run()
        assert result.problems == []
        assert [one for one in check_ledger(runner.ledger) if one.broken] == []
        assert runner.loop.flow.digest() == runner.loop.rebuild().digest()
    finally:
        runner.ledger.close()
