"""Reclaim on a real API server: a queue takes back what it deserves, also while the wire fails.

There is no kubelet: the test says that pods run, and takes those away whose deletion was asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.kube import things
from tests.kube.control_plane import ControlPlane
from tests.kube.proxy import Proxy, running_proxy
from tests.kube.schedulers import CLUSTER, QUICK, is_sound, nodes_of, running, through, until
from vcledger.ledger import Ledger
from vcledger.scheduler.session.conf import read_conf

CONF = """\
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
"""


def run_all(plane: ControlPlane, namespace: str) -> None:
    """What the kubelet would say of the pods that have a node."""
    for name, pod in things.pods(plane, namespace).items():
        if pod["spec"].get("nodeName"):
            path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
            body = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
            plane.request("PATCH", path, body, type_="application/strategic-merge-patch+json")


def going(plane: ControlPlane, namespace: str) -> list[str]:
    """The pods whose deletion was asked for."""
    return [name for name, pod in things.pods(plane, namespace).items() if pod["metadata"].get("deletionTimestamp")]


@pytest.mark.slow
def test_a_queue_takes_back_what_it_deserves(clean_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    plane, db = clean_plane, str(tmp_path / "ledger.db")
    things.queue(plane)
    things.queue(plane, "poor")
    things.node(plane, "node-1", cpu="4")
    options = msgspec.structs.replace(QUICK, session=read_conf(CONF), seed=5)
    with running_proxy(plane, tmp_path / "kubeconfig") as proxy, running(db, through(proxy), options) as one:
        until(lambda: one.state.synced, "all listed")
        things.gang(plane, namespace, "rich", 4, least=1)
        until(lambda: all(nodes_of(plane, namespace).values()), "the rich gang is bound")
        run_all(plane, namespace)
        strike(proxy)
        things.gang(plane, namespace, "poor", 2, least=2, of="poor")
        until(lambda: len(going(plane, namespace)) == 2, "two are told to go")
        for name in going(plane, namespace):
            marked(things.pods(plane, namespace)[name])
            plane.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0")
        until(lambda: sum(map(bool, nodes_of(plane, namespace).values())) == 4, "the poor gang is bound")
        proxy.heal()
        until(lambda: one.state.out == 0 and one.state.evictions == 0, "nothing is out")
        assert one.end().problem == ""
    told(plane, namespace)
    settled(db)
    is_sound(db)


def strike(proxy: Proxy) -> None:
    """The first deletions are refused, and one is carried out without an answer."""
    proxy.fault("DELETE", r"/pods/", "500", 1)
    proxy.fault("DELETE", r"/pods/", "drop-after", 1)


def marked(pod: dict[str, Any]) -> None:
    """The pod says that it is to go, and has the grace that its spec gives it."""
    conditions = {one["type"]: one for one in pod["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ("False", "Evict")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30


def told(plane: ControlPlane, namespace: str) -> None:
    """People are told, at the pods and at their PodGroup."""
    events = plane.request("GET", f"/api/v1/namespaces/{namespace}/events")["items"]
    found = {one["involvedObject"]["kind"] for one in events if one["reason"] == "Evict"}
    assert found == {"Pod", "PodGroup"}


def settled(db: str) -> None:
    """In the ledger each decision has its outcome, and each request its decision."""
    with Ledger.open(db) as ledger:
        found: dict[str, list[Any]] = {
            name: list(ledger.recorded(cluster=CLUSTER, types=name))
            for name in ("TaskEvicted", "EvictRequested", "EvictSucceeded", "EvictFailed")
        }
    told = found["TaskEvicted"]
    asked, done, failed = (
        [one.event for one in found[f"Evict{name}"]] for name in ("Requested", "Succeeded", "Failed")
    )
    assert [one.event.action for one in told] == ["reclaim"] * 3
    # The first two are decided in one cycle, and asked for as their conditions are answered: in either order.
    assert sorted(one.decided for one in asked) == [one.position for one in told]
    assert [one.code for one in failed if not one.answer_lost] == [500]
    # A watch may have shown the pod going before the connection broke.
    assert len(done) == 2 and [one.answer_lost for one in done].count(True) == 1
