"""The default-queue trap, end to end: a claim whose provisioner is in no CSINode makes its queue overused for the
proportion plugin, and everything in the queue waits with 'pod group is not ready'. `why` names the queue, the resource
and the numbers, and what lets it run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from projections.diagnosis.holders import queue_lines
from projections.diagnosis.text import lines, plain
from vcledger.ledger import Ledger
from vcledger.sources import import_paths
from vcledger.why import why, why_job
from vcledger.why_queue import why_queue

GROUP = "scheduling.k8s.io/group-name"
DRIVER = "kubernetes.io/no-provisioner"
RESOURCE = f"attachable-volumes-csi-{DRIVER}"
NOT_READY = "pod group is not ready, 1 Pending, 1 minAvailable; Pending: 1 Unschedulable"


def meta(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    space = {"namespace": namespace} if namespace else {}
    created = "2026-03-01T08:00:00Z"
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "7", "creationTimestamp": created, **space, **more}


def group(name: str) -> dict[str, Any]:
    told = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "transitionID": "t"}
    condition = {**told, "message": f"1/1 tasks in gang unschedulable: {NOT_READY}"}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": meta(name, "default"),
        "spec": {"minMember": 1, "queue": "default"},
        "status": {"phase": "Inqueue", "conditions": [condition]},
    }


def pod(name: str, *claims: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NOT_READY}
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    requests = {"cpu": "1", "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(name, "default", annotations={GROUP: f"pg-{name}"}),
        "spec": {
            "schedulerName": "volcano",
            "volumes": volumes,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Pending", "conditions": [condition]},
    }


def world() -> list[dict[str, Any]]:
    """One roomy node without a CSINode, a class of local volumes, a claim of it, and two pods of which one uses it."""
    size = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    request = {"requests": {"storage": "5Gi"}}
    capacity = {"storage": "10Gi"}
    mode = ["ReadWriteOnce"]
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": meta("n1", labels={"kubernetes.io/hostname": "n1"}),
         "spec": {}, "status": {"allocatable": size, "capacity": size, "conditions": ready}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta("local"), "provisioner": DRIVER,
         "volumeBindingMode": "WaitForFirstConsumer"},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta("data", "default"),
         "spec": {"accessModes": mode, "storageClassName": "local", "resources": request},
         "status": {"phase": "Pending"}},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta("local-1"),
         "spec": {"accessModes": mode, "storageClassName": "local", "capacity": capacity,
                  "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}}},
         "status": {"phase": "Available"}},
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": meta("default"),
         "spec": {"weight": 1}, "status": {"state": "Open"}},
        group("pg-with-claim"), pod("with-claim", "data"), group("pg-plain"), pod("plain"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    folder: Path = tmp_path_factory.mktemp("trap")
    file = folder / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": world()}))
    with Ledger.open(str(folder / "trap.db"), create=True) as opened:
        import_paths(opened, [file], cluster="trap")
        yield opened


@pytest.mark.parametrize("name", ["with-claim", "plain"])
def test_why_names_the_queue_the_resource_and_the_numbers(ledger: Ledger, name: str) -> None:
    answer = why(ledger, "default", name)
    assert answer.verdict == "queue-overused"
    told = answer.causes[0]
    assert "queue default" in told and RESOURCE in told
    assert "asks 1" in told or "ask 1" in told
    assert "deserves 0" in told or "the cluster has 0" in told
    assert answer.message == NOT_READY
    assert answer.disagreements == []


@pytest.mark.parametrize("name", ["with-claim", "plain"])
def test_the_way_out_is_proven(ledger: Ledger, name: str) -> None:
    answer = why(ledger, "default", name)
    [change] = [one for one in answer.changes if one.steps[0].action == "ignore-provisioner"]
    assert f"--ignored-provisioners={DRIVER}" in change.text
    assert answer.changes[0] == change
    assert len(plain(lines(answer)).splitlines()) <= 10


def test_the_group_and_the_queue_say_so_too(ledger: Ledger) -> None:
    of_group, of_queue = why_job(ledger, "default", "pg-plain"), why_queue(ledger, "default")
    assert of_group.verdict == of_queue.verdict == "queue-overused"
    assert RESOURCE in of_group.causes[0] and RESOURCE in of_queue.summary
    assert [(one.resource, one.requested, one.cluster) for one in of_queue.resources][-1:] != []
    numbers = {one.resource: (one.requested, one.cluster) for one in of_queue.resources}
    assert numbers[RESOURCE] == ("1", "0")
    assert len(plain(queue_lines(of_queue)).splitlines()) <= 10


@pytest.mark.parametrize("name", ["with-claim", "plain"])
def test_a_session_that_counts_no_such_attachment_places_it(ledger: Ledger, name: str) -> None:
    answer = why(ledger, "default", name, sessions=True)
    [change] = [one for one in answer.changes if one.steps[0].action == "ignore-provisioner"]
    assert change.proof.startswith("a scheduling session with it places it")
