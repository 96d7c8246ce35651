"""Recorder and scheduler as the accounts that the manifests make for them: what these may do is enough."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from eventstore import open_store
from tests.kube import things
from tests.kube.control_plane import ControlPlane
from tests.kube.manifests import installed
from tests.kube.schedulers import QUICK, until
from tests.kube.schedulers import Running as Scheduling
from tests.unit.record.runs import Running as Recording
from tests.unit.record.runs import fast, live
from vcledger.record.scope import RECORDED, Scope, scopes
from vcledger.runtime.wire import WirePort, connect
from volcano.objects.kinds import BY_NAME


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    with installed(control_plane):
        yield control_plane


def token_of(plane: ControlPlane, part: str, bound: dict[str, str] | None = None) -> str:
    """A token as the kubelet hands it to a pod; `bound` to an object, it ends with that."""
    spec: dict[str, Any] = {"expirationSeconds": 3600, **({"boundObjectRef": bound} if bound else {})}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/vcledger/serviceaccounts/vcledger-{part}/token"
    return str(plane.request("POST", path, body, code=201)["status"]["token"])


def kubeconfig_of(plane: ControlPlane, part: str, folder: Path, user: dict[str, str] | None = None) -> Path:
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"] = [{"name": part, "user": user or {"token": token_of(plane, part)}}]
    config["contexts"] = [{"name": part, "context": {"cluster": "tests", "user": part}}]
    config["current-context"] = part
    path = folder / f"{part}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def port(plane: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[WirePort]:
    """The server as the account of the part that the test names sees it."""
    port = connect(kubeconfig=kubeconfig_of(plane, request.param, tmp_path))
    yield port
    port.close()


def refusals(db: Path) -> list[bytes]:
    with open_store(str(db), read_only=True) as store:
        return [event.payload for event in store.read(types=["WatchFailed"])]


@pytest.mark.parametrize("port", ["recorder"], indirect=True)
def test_the_recorder_records_every_kind_as_its_account(plane: ControlPlane, port: WirePort, tmp_path: Path) -> None:
    plane.wipe()
    things.node(plane, "n1")
    db = tmp_path / "ledger.db"
    with Recording(db, port, scopes=scopes([], [], [])) as run:
        run.watching()
    assert refusals(db) == []
    with open_store(str(db), read_only=True) as store:
        listed = [json.loads(event.payload)["resource"] for event in store.read(types=["ListCompleted"])]
        assert [event.stream.name for event in store.read(types=["ObjectAdded"], kinds=["Node"])] == ["n1"]
    assert sorted(listed) == sorted({BY_NAME[name].full_resource for name in RECORDED})


@pytest.mark.parametrize("port", ["scheduler"], indirect=True)
def test_the_scheduler_binds_as_its_account(
    plane: ControlPlane, port: WirePort, namespace: str, tmp_path: Path
) -> None:
    plane.wipe()
    things.node(plane, "n1")
    things.queue(plane)
    names = things.gang(plane, namespace, "g", 2)
    things.gang(plane, namespace, "too-big", 1, cpu="100")
    db = tmp_path / "ledger.db"
    options = msgspec.structs.replace(QUICK, lock="vcledger/vcledger-scheduler")
    run = Scheduling(str(db), port, options, lock_port=port)

    def said() -> tuple[list[str], list[str]]:
        found = things.pods(plane, namespace)
        conditions = found["too-big-0"]["status"].get("conditions") or []
        return [found[name]["spec"].get("nodeName", "") for name in names], [one["reason"] for one in conditions]

    until(lambda: run.over or said() == (["n1", "n1"], ["Unschedulable"]), "two pods bound, and one told why not")
    run.end()
    assert said() == (["n1", "n1"], ["Unschedulable"]) and refusals(db) == []
    lease = plane.request("GET", "/apis/coordination.k8s.io/v1/namespaces/vcledger/leases/vcledger-scheduler")
    assert lease["metadata"]["name"] == "vcledger-scheduler"


def test_in_a_pod_the_account_is_found(plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes.config import incluster_config

    token = tmp_path / "token"
    token.write_text(token_of(plane, "recorder"))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(plane.folder / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(plane.api_port))
    port = connect(in_cluster=True)
    assert port.list("Pod").code == 200
    assert port.raw("GET", "/api/v1/secrets").code == 403
    port.close()


def test_a_token_that_is_no_longer_taken_is_read_again(plane: ControlPlane, tmp_path: Path) -> None:
    path = kubeconfig_of(plane, "recorder", tmp_path)
    good = path.read_text()
    path.write_text(good.replace(token_of_file(good), "expired"))
    port: WirePort = connect(kubeconfig=path)
    assert port.list("Pod").code == 401
    path.write_text(good)
    assert port.list("Pod").code == 200
    port.close()


def secret(plane: ControlPlane, name: str) -> dict[str, str]:
    """A secret to bind a token to: the token ends with it. As what a TokenRequest names."""
    made = plane.request("POST", "/api/v1/namespaces/vcledger/secrets", {"metadata": {"name": name}}, code=201)
    return {"kind": "Secret", "apiVersion": "v1", "name": name, "uid": made["metadata"]["uid"]}


@pytest.mark.slow
def test_the_recorder_goes_on_when_its_token_has_ended_and_the_file_holds_another(
    plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast(monkeypatch)
    plane.wipe()
    things.node(plane, "n1")
    file, db = tmp_path / "token", tmp_path / "ledger.db"
    first, second = secret(plane, "first"), secret(plane, "second")
    file.write_text(token_of(plane, "recorder", first))
    path = kubeconfig_of(plane, "recorder", tmp_path, {"tokenFile": str(file)})
    port = connect(kubeconfig=path)
    try:
        with Recording(db, port, scopes=[Scope("Node")]) as run:
            run.watching()
            plane.request("DELETE", "/api/v1/namespaces/vcledger/secrets/first")
            plane.restart_api()  # else tokens that were looked at are taken for some seconds more, and watches for ever
            until(lambda: any(b"401" in one for one in refusals(db)), "the token is refused, and the log says so")
            things.node(plane, "n2")
            file.write_text(token_of(plane, "recorder", second))
            until(lambda: live(db) == nodes_of(plane), "both nodes are in the ledger")
            assert not run.recorder.standing().problems
    finally:
        port.close()
        plane.request("DELETE", "/api/v1/namespaces/vcledger/secrets/second")
    with open_store(str(db), read_only=True) as store:
        assert store.verify().ok


def nodes_of(plane: ControlPlane) -> dict[str, str]:
    """UID to version."""
    items = plane.request("GET", "/api/v1/nodes")["items"]
    return {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in items}


def token_of_file(text: str) -> str:
    return str(yaml.safe_load(text)["users"][0]["user"]["token"])
