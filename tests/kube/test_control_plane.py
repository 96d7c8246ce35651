"""That the control plane of the tests is what they take it for."""

from __future__ import annotations

import json

import pytest

from tests.kube.control_plane import ControlPlane
from tests.unit.record.simulated import eventually
from vcledger.runtime.port import Answer
from vcledger.runtime.wire import WireWatch
from volcano.objects.kinds import KINDS


def test_it_is_the_release_that_was_built(control_plane: ControlPlane) -> None:
    assert control_plane.request("GET", "/version")["gitVersion"].startswith("v1.36.")


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_it_serves_every_kind_that_the_ledger_knows(control_plane: ControlPlane, kind: str) -> None:
    assert control_plane.port.list(kind).code == 200


@pytest.mark.parametrize(("context", "code"), [("admin", 200), ("certificate", 200), ("nobody", 403)])
def test_it_asks_who_one_is(control_plane: ControlPlane, context: str, code: int) -> None:
    port = control_plane.connect(context)
    assert port.list("Pod").code == code
    port.close()


def test_wiping_takes_everything_away(clean_plane: ControlPlane, namespace: str) -> None:
    claim = {
        "metadata": {"name": "c", "finalizers": ["example.com/held"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    clean_plane.request("POST", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim, code=201)
    clean_plane.request("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}}, code=201)
    clean_plane.wipe()
    for kind in ("PersistentVolumeClaim", "Node"):
        assert json.loads(clean_plane.port.list(kind).body)["items"] == []


def test_the_volume_controller_binds(clean_plane: ControlPlane, namespace: str) -> None:
    volume = {
        "metadata": {"name": "v1"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "there",
            "csi": {"driver": "csi.example.com", "volumeHandle": "v1"},
        },
    }
    claim = {
        "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "there",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    clean_plane.request("POST", "/api/v1/persistentvolumes", volume, code=201)
    clean_plane.request("POST", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim, code=201)
    version = json.loads(clean_plane.port.list("PersistentVolumeClaim").body)["metadata"]["resourceVersion"]
    with clean_plane.controllers():
        watch = clean_plane.port.watch("PersistentVolumeClaim", resource_version=version, timeout_seconds=240)
        assert isinstance(watch, WireWatch), watch
        phases = [""]
        while phases[-1] != "Bound" and not watch.closed:
            phases += [json.loads(line.object)["status"]["phase"] for line in watch.wait(30.0)]
        watch.close()
    assert phases[-1] == "Bound"


def test_a_server_that_hangs_gives_no_answer(control_plane: ControlPlane) -> None:
    port = control_plane.connect(request_seconds=0.5)
    with control_plane.hanging():
        answer = port.list("Pod", limit=1)
    port.close()
    assert isinstance(answer, Answer) and answer.code is None
    eventually(lambda: control_plane.port.list("Pod", limit=1).code == 200, "an answer")


def test_a_server_that_is_killed_ends_its_watches(control_plane: ControlPlane) -> None:
    version = json.loads(control_plane.port.list("Pod", limit=1).body)["metadata"]["resourceVersion"]
    watch = control_plane.port.watch("Pod", resource_version=version)
    assert isinstance(watch, WireWatch), watch
    control_plane.restart_api(kill=True)
    eventually(lambda: watch.closed, "its end")
    assert watch.take() == []
    assert watch.closed and watch.problem
