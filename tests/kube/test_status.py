"""Statuses on a real API server: a PodGroup whose pods are made only once it is Inqueue, as a Volcano Job's are, gets
them bound and runs; one whose gang does not fit says so; faults on the way make no difference."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.kube import things
from tests.kube.control_plane import ControlPlane
from tests.kube.proxy import Proxy
from tests.kube.schedulers import agrees, is_sound, nodes_of, running, settle, through, until

pytestmark = pytest.mark.slow

GANG = "/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; Pending: "
WHY_NOT = (f"1{GANG}", f"2{GANG}")


def job(plane: ControlPlane, namespace: str, name: str, size: int, scheduler: str = "vcledger") -> None:
    """A Volcano Job and its PodGroup, which is Pending; pods are made when it is not."""
    spec = {"schedulerName": scheduler, "minAvailable": size, "queue": "default"}
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"
    made = plane.request("POST", path, body, code=201)["metadata"]
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "uid": made["uid"]}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"minMember": size, "queue": "default"},
        "status": {"phase": "Pending"},
    }
    plane.request("POST", f"{things.VOLCANO}/namespaces/{namespace}/podgroups", group, code=201)


def groups(plane: ControlPlane, namespace: str) -> dict[str, dict[str, Any]]:
    """The status of each PodGroup."""
    found = plane.request("GET", f"{things.VOLCANO}/namespaces/{namespace}/podgroups")["items"]
    return {item["metadata"]["name"]: item.get("status") or {} for item in found}


@contextmanager
def controller(plane: ControlPlane, namespace: str, sizes: dict[str, int], cpu: dict[str, str]) -> Iterator[None]:
    """Makes the pods of groups that are let in, as Volcano's job controller does."""
    over, made = threading.Event(), set[str]()

    def work() -> None:
        while not over.wait(0.3):
            for name, state in groups(plane, namespace).items():
                if name in sizes and name not in made and state.get("phase") not in (None, "", "Pending"):
                    made.add(name)
                    for at in range(sizes[name]):
                        things.make_pod(plane, namespace, f"{name}-{at}", group=name, cpu=cpu.get(name, "1"))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(120)


def set_phase(plane: ControlPlane, namespace: str, name: str, phase: str) -> None:
    """What a kubelet would report of a pod."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    whole = plane.request("GET", path)
    whole["status"]["phase"] = phase
    plane.request("PUT", f"{path}/status", whole)


def condition(state: dict[str, Any], name: str) -> dict[str, Any]:
    return next((one for one in state.get("conditions") or () if one["type"] == name), {})


def why_not(plane: ControlPlane, namespace: str, name: str) -> str:
    """What a group says that it waits for, '' where it says nothing."""
    return str(condition(groups(plane, namespace)[name], "Unschedulable").get("message", ""))


def held(plane: ControlPlane) -> Any:
    """What the queue says that its pods hold."""
    return (plane.request("GET", f"{things.VOLCANO}/queues/default").get("status") or {}).get("allocated")


def test_pods_that_are_made_when_their_group_is_let_in_get_bound_and_run(
    plane: ControlPlane, proxy: Proxy, namespace: str, tmp_path: Path
) -> None:
    db = str(tmp_path / "ledger.db")
    things.at_once(*(partial(things.node, plane, f"node-{at}", cpu="4") for at in range(2)))
    job(plane, namespace, "fits", 3)
    job(plane, namespace, "huge", 2)
    job(plane, namespace, "theirs", 1, scheduler="volcano")
    for fault, count in (("409", 1), ("500", 1), ("drop-after", 1), ("drop-before", 1)):
        proxy.fault("PATCH", r"/podgroups/", fault, count)
        proxy.fault("PATCH", r"/queues/.*/status$", fault, count)
    # No node is large enough for "huge": whoever is let in first, "fits" has its room.
    sizes, cpu = {"fits": 3, "huge": 2, "theirs": 1}, {"huge": "5"}
    with controller(plane, namespace, sizes, cpu), running(db, through(proxy)) as one:
        until(lambda: sum(map(bool, nodes_of(plane, namespace).values())) == 3, "the three are bound")
        for at in range(3):
            set_phase(plane, namespace, f"fits-{at}", "Running")
        until(lambda: groups(plane, namespace)["fits"].get("running") == 3, "the group runs")
        until(lambda: held(plane) == {"cpu": "3", "memory": "0", "pods": "3"}, "the queue says what it holds")
        until(lambda: why_not(plane, namespace, "huge").startswith(WHY_NOT), "the other says why not")
        until(lambda: one.state.out == 0, "nothing is out")
        settle(one, plane)
        assert one.end().problem == ""
    state = groups(plane, namespace)
    assert state["fits"]["phase"] == "Running"
    assert condition(state["fits"], "Scheduled")["reason"] == "tasks in gang are ready to be scheduled"
    said = condition(state["huge"], "Unschedulable")
    assert (said["status"], said["reason"], state["huge"]["phase"]) == ("True", "NotEnoughResources", "Inqueue")
    assert said["message"].startswith(WHY_NOT), said["message"]
    assert "Insufficient cpu" in said["message"]
    assert state["theirs"] == {"phase": "Pending"}, "another scheduler's"
    assert held(plane) == {"cpu": "3", "memory": "0", "pods": "3"}
    told = plane.request("GET", f"/api/v1/namespaces/{namespace}/events")["items"]
    assert {one["involvedObject"]["kind"] for one in told if one["reason"] == "Unschedulable"} == {"PodGroup"}
    assert sum(json.dumps(one).count("PodGroup") for one in told) < 20, "said when it is news"
    agrees(db, plane, namespace)
    is_sound(db)
