"""`vcledger schedule` on a real API server: gangs, volumes under the real controller, faults on the wire, the lock."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from eventstore import open_store
from tests.kube import things
from tests.kube.control_plane import ControlPlane
from tests.kube.proxy import Proxy
from tests.kube.schedulers import (
    LOCK,
    PATIENCE_SECONDS,
    Running,
    agrees,
    is_sound,
    nodes_of,
    running,
    settle,
    through,
    until,
)
from vcledger.ledger import Ledger
from vcledger.schedule.scheduler import WATCHED, Options


@pytest.mark.slow
def test_two_hundred_pods_with_faults_on_the_wire(
    plane: ControlPlane, proxy: Proxy, namespace: str, tmp_path: Path
) -> None:
    """Gangs on twenty nodes, local volumes bound under the real controller, a claim that nobody provisions, a node
    deleted meanwhile, and a proxy that answers 409, 500, 503, drops answers after the effect, and hangs."""
    db = str(tmp_path / "ledger.db")
    things.storage_class(plane, "local", "kubernetes.io/no-provisioner")
    things.storage_class(plane, "nobody", "example.com/never")
    # The gangs without volumes fit on nine of the first ten nodes. The others are for the pods whose volumes are there:
    # in whatever order all come, nobody takes their room.
    things.at_once(*(partial(things.node, plane, f"node-{at:02}", cpu="24") for at in range(10)))
    things.at_once(*(partial(things.node, plane, f"node-{at}", cpu="4", only="data") for at in range(10, 20)))
    things.at_once(
        *(
            partial(things.local_volume, plane, f"volume-{at}-of-node-{10 + at // 2}", f"node-{10 + at // 2}", "local")
            for at in range(18)
        )
    )
    things.at_once(*(partial(things.claim, plane, namespace, f"data-{at}", "local") for at in range(12)))
    things.claim(plane, namespace, "never", "nobody")
    things.storage_class(plane, "made", "example.com/made")
    things.at_once(*(partial(things.claim, plane, namespace, f"made-{at}", "made") for at in range(4)))
    strike(proxy)
    with plane.controllers(), provisioning(plane, namespace), running(db, through(proxy, 5.0)) as one:
        until(lambda: one.state.synced, "all listed")
        things.at_once(*(partial(things.gang, plane, namespace, f"gang-{at:02}", 8) for at in range(23)))
        things.gang(plane, namespace, "data", 12, claims=lambda index: (f"data-{index}",), to="data")
        things.gang(plane, namespace, "waits", 1, claims=lambda index: ("never",))
        things.gang(plane, namespace, "last", 3)
        until(lambda: one.state.bound >= 40, "the first forty are bound")
        plane.request("DELETE", "/api/v1/nodes/node-03")
        wanted = 23 * 8 + 12 + 3
        until(lambda: sum(map(bool, nodes_of(plane, namespace).values())) >= wanted, f"{wanted} are bound")
        # Only now: a volume that was made for a node keeps its pod there, also when others have filled the node.
        things.gang(plane, namespace, "dynamic", 4, claims=lambda index: (f"made-{index}",))
        wanted += 4
        until(lambda: sum(map(bool, nodes_of(plane, namespace).values())) >= wanted, f"{wanted} are bound")
        until(lambda: reverted(db) >= 2, "the claim that nobody provisions timed out twice")
        assert set(proxy.hits) >= {"409", "500", "503", "drop-after", "drop-before", "hang-after", "hang-before"}
        proxy.heal()
        where = nodes_of(plane, namespace)
        assert where["waits-0"] == ""
        until(lambda: one.state.out == 0 and one.state.queued == 0, "nothing is out")
        settle(one, plane)
        assert one.end().problem == ""
    claims = plane.request("GET", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")["items"]
    bound = {item["metadata"]["name"]: item["spec"].get("volumeName", "") for item in claims}
    for index in range(12):
        assert bound[f"data-{index}"].partition("-of-")[2] == where[f"data-{index}"]
        if index < 4:
            made = plane.request("GET", f"/api/v1/persistentvolumes/{bound[f'made-{index}']}")
            terms = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
            assert terms[0]["matchExpressions"][0]["values"] == [where[f"dynamic-{index}"]]
    assert bound["never"] == ""
    until(lambda: len(proxy.bound) >= wanted, "the proxy has counted the last")
    assert len(proxy.bound) == wanted
    assert set(proxy.bound.values()) == {1}
    told = events_of(plane, namespace)
    assert "Scheduled" in told["gang-00-0"]
    assert "waits-0" not in told  # as in Volcano: volumes that time out are reverted and tried again, without a word
    agrees(db, plane, namespace)
    is_sound(db)


@contextmanager
def provisioning(plane: ControlPlane, namespace: str) -> Iterator[None]:
    """Somebody makes volumes of the class `made`."""
    one = things.Provisioner(plane, namespace, "made")
    one.start()
    try:
        yield
    finally:
        one.stop()


def events_of(plane: ControlPlane, namespace: str) -> dict[str, set[str]]:
    """The reasons of the Events about each pod."""
    found: dict[str, set[str]] = {}
    for item in plane.request("GET", f"/api/v1/namespaces/{namespace}/events")["items"]:
        found.setdefault(item["involvedObject"]["name"], set()).add(item["reason"])
    return found


def strike(proxy: Proxy) -> None:
    """The faults of the test: on bindings, on volumes and claims, on conditions, on lists and watches."""
    binding, claims, volumes = r"/binding$", r"/persistentvolumeclaims/", r"/persistentvolumes/"
    for fault, count in (
        ("409", 2), ("500", 3), ("503", 3), ("drop-after", 4), ("drop-before", 2), ("hang-after", 1), ("hang-before", 1)
    ):  # fmt: skip
        proxy.fault("POST", binding, fault, count)
    for path in (claims, volumes):
        for fault in ("409", "500", "503", "drop-after", "hang-after"):
            proxy.fault("PUT", path, fault)
    proxy.fault("PATCH", r"/pods/.*/status$", "500", 2)
    proxy.fault("PATCH", r"/pods/.*/status$", "drop-after", 1)
    proxy.fault("GET", r"/nodes\?.*limit", "503", 1)
    proxy.fault("GET", r"/pods\?.*watch=", "drop-before", 1)


def reverted(db: str) -> int:
    """How often the claim's assumption was reverted after its time was over."""
    with open_store(db, read_only=True) as store:
        failed = store.read(types="VolumeBindingFailed", name="waits-0")
        return sum(b'timed_out":true' in event.payload.replace(b" ", b"") for event in failed)


def test_of_two_with_one_lock_one_schedules(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """The second waits; it takes over when the first ends, at once, and goes on from the first's ledger."""
    db = str(tmp_path / "ledger.db")
    options = Options(lock=f"{namespace}/lock", period_seconds=0.3, timing=LOCK, absent_seconds=5.0, settle_seconds=5.0)
    things.node(plane, "node-a")
    first = Running(db, plane.connect(), options, plane.connect())
    until(lambda: first.state.synced, "the first leads")
    second = Running(db, plane.connect(), options, plane.connect(), "two")
    things.gang(plane, namespace, "one", 2)
    until(lambda: first.state.bound == 2, "the first binds")
    assert not second.state.synced
    assert second.state.bound == 0
    first.end()
    until(lambda: second.state.synced, "the second leads")
    things.gang(plane, namespace, "two", 2)
    until(lambda: second.state.bound == 2, "the second binds")
    second.end()
    lease = plane.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/lock")
    assert lease["spec"].get("holderIdentity", "") == ""
    agrees(db, plane, namespace)
    is_sound(db)


def test_who_loses_the_lock_ends(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    db = str(tmp_path / "ledger.db")
    options = Options(lock=f"{namespace}/lock", period_seconds=0.3, timing=LOCK, absent_seconds=5.0)
    one = Running(db, plane.connect(), options, plane.connect())
    until(lambda: one.state.synced, "it leads")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/lock"
    plane.request("PATCH", path, {"spec": {"holderIdentity": "somebody-else"}}, type_="application/merge-patch+json")
    until(lambda: one.over, "it has ended")
    assert one.outcome is not None and "somebody-else has the lock now" in one.outcome.problem


def scheduled_of(plane: ControlPlane, namespace: str, name: str) -> tuple[str, str]:
    """Status and reason of a pod's condition PodScheduled, '' where it has none."""
    conditions = things.pods(plane, namespace)[name]["status"].get("conditions") or []
    found = [one for one in conditions if one["type"] == "PodScheduled"]
    return (found[0]["status"], found[0].get("reason", "")) if found else ("", "")


def test_beside_another_scheduler(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """Pods of another scheduler are left alone, and what they take is not given away."""
    db = str(tmp_path / "ledger.db")
    things.node(plane, "node-a", cpu="4")
    with running(db, plane.connect()) as one:
        until(lambda: one.state.synced, "all listed")
        things.gang(plane, namespace, "other", 3, scheduler="somebody")
        for index in range(3):
            body = {"metadata": {"name": f"other-{index}"}, "target": {"kind": "Node", "name": "node-a"}}
            plane.request("POST", f"/api/v1/namespaces/{namespace}/pods/other-{index}/binding", body, code=201)
        things.gang(plane, namespace, "big", 2)
        things.gang(plane, namespace, "small", 1)
        until(lambda: nodes_of(plane, namespace)["small-0"] == "node-a", "the one that fits")
        until(lambda: scheduled_of(plane, namespace, "big-0") == ("False", "Unschedulable"), "the one that does not")
        time.sleep(1.5)  # some passes more
        where = nodes_of(plane, namespace)
        assert (where["big-0"], where["big-1"]) == ("", "")
        settle(one, plane)
        assert one.end().problem == ""
    done = CliRunner().invoke(app, ["why", f"{namespace}/big-0", "--db", db, "-o", "json"])
    assert json.loads(done.stdout)["fits_on"] == []
    is_sound(db)


def page(port: str, name: str) -> str:
    """What the command's page says."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=60) as answer:
        return str(answer.read().decode())


def test_the_command_from_start_to_sigterm(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """The command itself: lines, page, answers of `why` while it runs, and its end."""
    things.node(plane, "node-a")
    things.node(plane, "node-b")
    db = str(tmp_path / "ledger.db")
    command = [sys.executable, "-m", "cli.main", "schedule", "--db", db, "--kubeconfig", str(plane.kubeconfig)]
    command += ["--lock", f"{namespace}/lock", "--listen", "127.0.0.1:0", "--period", "0.3s", "--seed", "7"]
    command += ["--node-selector", "kubernetes.io/hostname:node-a"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        port = ""
        for line in process.stdout:
            if found := re.search(r"listening on port (\d+)", line):
                port = found[1]
            if "passes begin" in line:
                break
        things.gang(plane, namespace, "one", 3)
        until(lambda: all(nodes_of(plane, namespace).values()), "all are bound")
        assert set(nodes_of(plane, namespace).values()) == {"node-a"}
        ready = partial(page, port, "readyz")
        kinds = len(WATCHED)
        until(lambda: ready().startswith(f"leading, listed, {kinds} of {kinds} watched"), "all kinds are watched")
        # The server has bound a pod before its answer is here.
        counted = 'vcledger_schedule_answers_total{code="201",request="bind"} 3.0'
        until(lambda: counted in page(port, "metrics"), "the answers are counted")
        os.kill(process.pid, signal.SIGTERM)
        rest = process.communicate(timeout=PATIENCE_SECONDS)[0]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert process.returncode == 0, rest
    assert re.search(r"ended: 3 pods bound, log up to position \d+", rest)
    with Ledger.open(db) as ledger:
        config = ledger.ways(ledger.cluster(None))[1]
        assert list(ledger.cache(config=config).nodes) == ["node-a"]
    is_sound(db)
