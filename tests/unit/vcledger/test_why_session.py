"""The second proof: what of a change can be observed, and what a session makes of it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from projections.cache.fold import Delivery, observe
from projections.cache.state import Cache
from projections.diagnosis.edits import AddNodes, AskLess, Edit, Evict, Room, Tolerate, UseScheduler
from projections.diagnosis.edits_group import IgnoreProvisioner, LowerMinMember, OpenQueue
from projections.diagnosis.views import ClusterView, GroupView, NodeView, QueueView, TaskView
from projections.diagnosis.world import World
from tests.unit.diagnosis.build import node, obj, pod
from vcledger.ledger import Ledger
from vcledger.why_planned import occupants
from vcledger.why_session import SessionProof, node_object
from vcledger.why_views import node_view, queue_views, task_view
from volcano.objects.core import Pod, Taint

ASKS = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}]}
GROUPED = {"annotations": {"scheduling.k8s.io/group-name": "g"}}


class Log:
    """The part of a ledger that the proof asks: the pods by position."""

    def __init__(self, pods: dict[int, Pod]) -> None:
        self.pods = pods

    def objects(self, positions: Any) -> dict[int, Pod]:
        return {position: self.pods[position] for position in positions if position in self.pods}


class Made:
    """One node of 6 cpu with a taint on demand, a pod of 4 on it, and a gang of `minimum` of which each asks 4."""

    def __init__(self, minimum: int = 1, taint: bool = False, queue: str = "default") -> None:
        self.cache, self.pods = Cache("volcano-1.11"), dict[int, Pod]()
        taints = [{"key": "gpu", "effect": "NoSchedule"}] if taint else None
        self.see("Node", node("n1", cpu="6", taints=taints).node)
        self.see("Queue", obj("Queue", metadata={"name": "default", "uid": "q"}, spec={"weight": 1}))
        self.see("PodGroup", self.group("other", 1, "Running", "default"))
        mine = {"annotations": {"scheduling.k8s.io/group-name": "other"}}
        self.see("Pod", pod("there", nodeName="n1", status={"phase": "Running"}, **cast(Any, {**ASKS, **mine})))
        self.see("PodGroup", self.group("g", minimum, "Inqueue", queue))
        for number in range(minimum):
            self.see("Pod", pod(f"p-{number}", **cast(Any, {**ASKS, **GROUPED})))

    def group(self, name: str, minimum: int, phase: str, queue: str) -> Any:
        meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "3"}
        return obj("PodGroup", metadata=meta, spec={"minMember": minimum, "queue": queue}, status={"phase": phase})

    def see(self, kind: str, thing: Any) -> None:
        self.cache.position += 1
        observe(self.cache, Delivery(kind, thing), self.cache.position)
        if kind == "Pod":
            self.pods[self.cache.position] = thing

    def world(self, subject: str = "p-0") -> World:
        job = self.cache.jobs["default/g"]
        refs = {task.uid: self.cache.pods[task.key] for task in job.tasks.values()}
        tasks: list[TaskView] = [
            task_view(task, self.pods[refs[uid].position], refs[uid].position, frozenset())
            for uid, task in job.tasks.items()
        ]
        nodes: list[NodeView] = [node_view(info) for info in self.cache.nodes.values()]
        queues: dict[str, QueueView] = queue_views(self.cache)
        there = ClusterView(nodes, queues=queues, occupants=lambda name: occupants(self.cache, name))
        group = GroupView("default", "g", job.pod_group, tasks)
        return World(there, group, next((one for one in tasks if one.name == subject), None), {})

    def proof(self) -> SessionProof:
        return SessionProof(cast(Ledger, Log(self.pods)), self.cache)


def asked(made: Made, *edits: Edit, subject: str = "p-0") -> bool | None:
    world = before = made.world(subject)
    for edit in edits:
        world = edit.apply(world)
    return made.proof()(world, before)


def test_room_evictions_and_nodes() -> None:
    made = Made()
    assert asked(made) is False
    assert asked(made, Room("n1", {"cpu": 2000.0}, {})) is True
    assert asked(made, Room("n1", {"cpu": 1000.0}, {})) is False
    assert asked(made, Evict("n1", tuple(occupants(made.cache, "n1")))) is True
    assert asked(made, AddNodes(1, made.world().cluster.nodes[0], "n1", {})) is True
    assert made.cache.nodes.keys() == {"n1"} and "default/there" in made.cache.pods, "the cache itself is as it was"


def test_a_pod_that_is_edited() -> None:
    made = Made(taint=True)
    own = made.world().task
    assert own is not None
    room = Room("n1", {"cpu": 2000.0}, {})
    assert asked(made, room) is False
    assert asked(made, room, Tolerate(own, Taint(key="gpu", effect="NoSchedule"))) is True
    assert asked(made, room, UseScheduler(own, "other")) is False


def test_a_gang_and_its_minimum() -> None:
    made = Made(minimum=2)
    assert asked(made, Room("n1", {"cpu": 2000.0}, {}), subject="") is False
    assert asked(made, Room("n1", {"cpu": 6000.0}, {}), subject="") is True
    assert asked(made, Room("n1", {"cpu": 2000.0}, {}), LowerMinMember("default/g", 2, 1), subject="") is True


def test_a_queue_that_is_made() -> None:
    made = Made(queue="new")
    room = Room("n1", {"cpu": 2000.0}, {})
    assert asked(made, room) is False
    assert asked(made, room, OpenQueue("new", True)) is True


def test_what_no_object_says_is_left_to_the_first_proof() -> None:
    made = Made()
    own = made.world().task
    assert own is not None
    assert asked(made, AskLess(own, {"cpu": 1000.0})) is None
    alone = World(made.world().cluster, None, own, {})
    assert made.proof()(alone, alone) is None


def test_an_ignored_driver_is_left_out_of_what_is_asked_and_held() -> None:
    made = Made()
    changed = IgnoreProvisioner("attachable-volumes-csi-x", "x").apply(made.world())
    assert changed.ignored == ("attachable-volumes-csi-x",)
    assert made.proof()(Room("n1", {"cpu": 2000.0}, {}).apply(changed), made.world()) is True


@pytest.mark.parametrize("pods_max", [None, 7])
def test_a_nodes_object_says_what_its_view_says(pods_max: int | None) -> None:
    view = NodeView(
        "n", None, {"cpu": 1500.0, "memory": 1024.0, "attachable-volumes-csi-x": 3.0}, {}, pods_max=pods_max
    )
    found = node_object(view)
    wanted: dict[str, Any] = {"cpu": "1500m", "memory": 1024}
    assert found.status.allocatable == (wanted if pods_max is None else {**wanted, "pods": 7})
    assert [one.status for one in found.status.conditions or ()] == ["True"]
