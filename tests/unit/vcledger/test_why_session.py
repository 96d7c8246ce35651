"""The second proof: what of a change can be observed, and what a session makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from projections.cache.fold import Delivery, observe
from projections.cache.state import Cache
from projections.diagnosis.case import Case
from projections.diagnosis.edits import AddNodes, Edit, Evict, Room
from projections.diagnosis.edits_group import IgnoreProvisioner, LowerMinMember, OpenQueue, RaiseQuota
from projections.diagnosis.edits_pods import AskLess, DropSelector, Tolerate, UseScheduler
from projections.diagnosis.explain import explain
from projections.diagnosis.views import ClusterView, GroupView, NodeView, QueueView, TaskView
from projections.diagnosis.world import World
from tests.unit.diagnosis.build import claim, node, obj, pod, uses, volume
from vcledger.ledger import Ledger
from vcledger.scheduler.session.conf import DEFAULT_CONF
from vcledger.why_planned import holders, occupants
from vcledger.why_queues import queue_views
from vcledger.why_session import SessionProof, node_object
from vcledger.why_views import node_view, task_view
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


class Drawn(Made):
    """A small cluster of any shape: nodes of (cpu, tainted, cordoned, labelled), running pods of (node, cpu), and a
    group of which each member asks for `cpu`."""

    def __init__(
        self,
        nodes: list[tuple[int, bool, bool, bool]],
        running: list[tuple[int, int]],
        minimum: int,
        members: int,
        cpu: int,
        selector: bool,
    ) -> None:
        self.cache, self.pods = Cache("volcano-1.11"), dict[int, Pod]()
        self.see("Queue", obj("Queue", metadata={"name": "default", "uid": "q"}, spec={"weight": 1}))
        self.see("PodGroup", self.group("other", 1, "Running", "default"))
        gpu = [{"key": "gpu", "effect": "NoSchedule"}]
        for number, (size, tainted, cordoned, labelled) in enumerate(nodes):
            labels = {"accel": "h100"} if labelled else {}
            taints = gpu if tainted else None
            made = node(f"n{number}", cpu=str(size), taints=taints, unschedulable=cordoned, labels=labels)
            self.see("Node", made.node)
        for number, (on, size) in enumerate(running):
            if on < len(nodes):
                self.see("Pod", self.member(f"run-{number}", "other", size, f"n{on}", False))
        self.see("PodGroup", self.group("g", minimum, "Inqueue", "default"))
        for number in range(members):
            self.see("Pod", self.member(f"p-{number}", "g", cpu, "", selector))

    def member(self, name: str, group: str, cpu: int, on: str, selector: bool) -> Any:
        spec: dict[str, Any] = {
            "annotations": {"scheduling.k8s.io/group-name": group},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}],
            "nodeSelector": {"accel": "h100"} if selector else None,
            "nodeName": on,
            "status": {"phase": "Running" if on else "Pending"},
        }
        return pod(name, **spec)

    def case(self, subject: str, again: SessionProof | None = None) -> Case | None:
        world = self.world(subject)
        if world.task is None:
            return None
        return Case(
            namespace="default",
            name=subject,
            uid=world.task.uid,
            at=self.cache.position,
            now=None,
            cluster=world.cluster,
            pod=world.task.pod,
            task=world.task,
            group=world.group,
            group_name="g",
            again=again,
        )


NODES = st.lists(st.tuples(st.integers(1, 8), st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=4)
RUNNING = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=4)
SHAPE = st.tuples(
    NODES, RUNNING, st.integers(1, 4), st.integers(0, 2), st.integers(1, 6), st.booleans(), st.integers(0, 3)
)


def agree(
    nodes: list[tuple[int, bool, bool, bool]],
    running: list[tuple[int, int]],
    minimum: int,
    more: int,
    cpu: int,
    selector: bool,
    which: int,
) -> None:
    """Whatever the rules prove, a session proves too."""
    made = Drawn(nodes, running, minimum, minimum + more, cpu, selector)
    by_rules, by_both = made.case(f"p-{which}"), made.case(f"p-{which}", made.proof())
    if by_rules is None or by_both is None:
        return
    answer = explain(by_rules)
    assert [one.text for one in explain(by_both).changes] == [one.text for one in answer.changes], answer.verdict


@settings(max_examples=6, deadline=None)
@given(SHAPE)
def test_the_two_proofs_agree(drawn: tuple[Any, ...]) -> None:
    agree(*drawn)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(SHAPE)
def test_the_two_proofs_agree_often(drawn: tuple[Any, ...]) -> None:
    agree(*drawn)


def test_new_nodes_of_two_kinds_do_not_share_a_name() -> None:
    world = Made().world()
    small, large = world.cluster.nodes[0], node("large", cpu="32")
    both = AddNodes(1, large, "large", {}).apply(AddNodes(2, small, "n1", {}).apply(world))
    assert sorted(one.name for one in both.cluster.nodes) == ["n1", "new-node-1", "new-node-2", "new-node-3"]


def test_nobody_is_evicted_twice() -> None:
    """A queue at its share, on a node in debt: who has gone for the share does not go for the room once more."""
    made = Drawn([(1, False, False, False)], [(0, 2)], 1, 2, 1, False)
    of = made.case("p-1")
    assert of is not None
    for one in explain(of).changes:
        pods = [key for step in one.steps for key in step.pods]
        assert len(pods) == len(set(pods))


@pytest.mark.parametrize("asks", [{"nvidia.com/gpu": "1"}, {}])
def test_a_job_that_asks_for_no_cpu_and_no_memory_holds_something(asks: dict[str, str]) -> None:
    made = Made()
    made.see("PodGroup", made.group("other-kind", 1, "Running", "default"))
    mine: Any = {"annotations": {"scheduling.k8s.io/group-name": "other-kind"}, "status": {"phase": "Running"}}
    made.see(
        "Pod", pod("there-too", nodeName="n1", containers=[{"name": "c", "resources": {"requests": asks}}], **mine)
    )
    assert [one.key for one in holders(made.cache, "default")] == ["default/there", "default/there-too"]


def test_two_edits_of_a_pod_both_reach_its_likes() -> None:
    """What is made from the same template stays alike while it is edited."""
    made = Drawn([(3, False, False, False), (1, True, False, False)], [], 2, 2, 2, True)
    world = made.world("p-0")
    assert world.task is not None and world.group is not None
    own = world.task
    changed = Tolerate(own, Taint(key="gpu", effect="NoSchedule")).apply(DropSelector(own, ("accel",)).apply(world))
    assert changed.group is not None
    specs = [
        (one.pod.spec.node_selector, len(one.pod.spec.tolerations or ())) for one in changed.group.tasks if one.pod
    ]
    assert specs == [({}, 1), ({}, 1)]


def test_pods_whose_anti_affinity_or_volumes_are_in_the_way_are_evicted() -> None:
    made = Made()
    made.see("Node", node("n1", cpu="16").node)
    terms = [{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}]
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
    mine: Any = {"annotations": {"scheduling.k8s.io/group-name": "other"}, "status": {"phase": "Running"}}
    made.see("Pod", pod("there", nodeName="n1", **{**ASKS, **apart, **mine}))
    made.see("Pod", pod("p-0", labels={"app": "web"}, **cast(Any, {**ASKS, **GROUPED})))
    assert asked(made) is False
    assert asked(made, Evict("n1", tuple(occupants(made.cache, "n1")))) is True

    made = Made()
    made.see("Node", node("n1", cpu="16").node)
    drivers = [{"name": "csi.example.com", "nodeID": "n1", "allocatable": {"count": 1}}]
    made.see("CSINode", obj("CSINode", metadata={"name": "n1", "uid": "c"}, spec={"drivers": drivers}))
    for name in ("x", "y"):
        source = {"csi": {"driver": "csi.example.com", "volumeHandle": name}}
        made.see("PersistentVolume", volume(f"v-{name}", spec=source, phase="Bound"))
        made.see("PersistentVolumeClaim", claim(name, volume=f"v-{name}"))
    made.see("Pod", pod("there", nodeName="n1", **{**ASKS, **mine, **uses("x")}))
    made.see("Pod", pod("p-0", **cast(Any, {**ASKS, **GROUPED, **uses("y")})))
    assert asked(made) is False
    assert asked(made, Evict("n1", tuple(occupants(made.cache, "n1")))) is True


def test_a_quota_is_raised_under_a_configuration_that_asks_for_it() -> None:
    made = Made()
    made.see("Node", node("n1", cpu="16").node)
    waiting = made.group("g", 1, "Pending", "default")
    waiting = changed(
        waiting,
        metadata=changed(waiting.metadata, resource_version="4"),
        spec=changed(waiting.spec, min_resources={"cpu": "4"}),
    )
    made.see("PodGroup", waiting)
    meta = {"name": "q", "namespace": "default", "uid": "quota"}
    quota = obj("ResourceQuota", metadata=meta, status={"hard": {"cpu": "6"}, "used": {"cpu": "4"}})
    made.see("ResourceQuota", quota)
    conf = DEFAULT_CONF.replace("overcommit", "resourcequota")
    before = made.world()
    before = replace(before, cluster=replace(before.cluster, quotas=made.cache.quotas))
    for amount, stands in ((8000, True), (7999, False)):
        then = RaiseQuota("default/q", (("cpu", amount),), (("cpu", 6000),)).apply(before)
        proof = SessionProof(cast(Ledger, Log(made.pods)), made.cache, conf)
        assert proof(then, before) is stands


def test_only_small_states_are_put_to_sessions_where_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made()
    before = made.world()
    then = Room("n1", {"cpu": 2000.0}, {}).apply(before)
    ledger = cast(Ledger, Log(made.pods))
    assert SessionProof(ledger, made.cache, small=True)(then, before) is True
    monkeypatch.setattr("vcledger.why_session.SMALL", 2)
    assert SessionProof(ledger, made.cache, small=True)(then, before) is None, "one node and two pods are too many"
    assert SessionProof(ledger, made.cache)(then, before) is True
