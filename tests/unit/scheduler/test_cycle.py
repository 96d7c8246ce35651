"""A cycle of the flow under a session's configuration: what is decided, what is written of it, and when nothing is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.scheduler.build import (
    CONFIG,
    Bind,
    Patch,
    Update,
    World,
    claim,
    group,
    node,
    pod,
    said,
    status,
    storage_class,
    volume,
)
from vcledger.scheduler.cycle import mirror_of
from vcledger.scheduler.inputs import Allocate
from vcledger.scheduler.session.conf import default_conf
from vcledger.scheduler.session.feasible import ALL_CHECKS
from vcledger.scheduler.session.refusals import refuses_nowhere, special_reasons
from volcano.events.binding import BindQueued
from volcano.events.scheduling import (
    AllocationDiscarded,
    CycleEnded,
    CycleStarted,
    JobConsidered,
    JobEnqueued,
    TaskAllocated,
    TaskPipelined,
    TaskUnschedulable,
)
from volcano.events.volume import VolumesAssumed


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, msgspec.structs.replace(CONFIG, session=default_conf(), seed=7))
    made.see(queue("default"))
    yield made
    made.store.close()


def queue(name: str, weight: int = 1, **spec: object) -> dict[str, object]:
    meta = {"name": name, "uid": f"{name}-u", "resourceVersion": "3"}
    return {"kind": "Queue", "apiVersion": "x/v1", "metadata": meta, "spec": {"weight": weight, **spec},
            "status": {"state": "Open"}}  # fmt: skip


def pending(name: str, least: int, version: int = 20) -> dict[str, object]:
    """A PodGroup that has not been let in."""
    made = group(name, least, version)
    made["status"] = {"phase": "Pending"}
    return made


def test_a_gang_is_let_in_and_placed_and_each_step_belongs_to_its_cycle(world: World) -> None:
    world.see(node("n1"), node("n2", 11), pending("g", 2))
    world.see(pod("a", 101, group="g", cpu="3"), pod("b", 102, group="g", cpu="3"))
    world.do(Allocate())
    (started,), (ended,) = world.recorded(CycleStarted), world.events(CycleEnded)
    assert (started.event.cycle, started.event.seed, started.event.jobs, started.event.nodes) == (1, 7, 1, 2)
    assert started.event.actions == ("enqueue", "allocate", "backfill")
    assert (ended.enqueued, ended.allocated, ended.unschedulable, ended.started) == (1, 2, 0, started.position)
    assert world.events(JobEnqueued)[0].queue == "default"
    placed = world.events(TaskAllocated)
    assert sorted(one.node for one in placed) == ["n1", "n2"]
    assert [(one.gang_ready, one.gang_needed) for one in placed] == [(1, 2), (2, 2)]
    for kind in (JobEnqueued, TaskAllocated, BindQueued, JobConsidered):
        assert [one.cycle for one in world.recorded(kind)] == [started.position] * len(world.recorded(kind))
    world.tick(0.02)
    assert sorted(world.asked(Bind)) == ["a", "b"]
    world.settled()


def test_a_cycle_without_news_writes_nothing(world: World) -> None:
    world.see(node("n1"), pending("g", 2))
    world.see(pod("a", 101, group="g", cpu="3"), pod("b", 102, group="g", cpu="3"))
    world.do(Allocate())
    assert [one.outcome for one in world.events(JobConsidered)] == ["discarded"]
    assert [one.short_of for one in world.events(AllocationDiscarded)] == [1]
    assert {one.reason for one in world.events(TaskUnschedulable)} <= {"Unschedulable", "Schedulable"}
    head = world.store.head()
    world.do(Allocate(), Allocate())
    assert world.store.head() == head
    world.crash()
    head = world.store.head()
    world.do(Allocate())
    assert [type(one).__name__ for one in world.events()[head:]] in (
        [], ["CycleStarted", "TaskUnschedulable", "TaskUnschedulable", "CycleEnded"])  # fmt: skip
    world.see(node("n2", 11))
    world.do(Allocate())
    assert len(world.events(TaskAllocated)) == 2
    assert [one.cycle for one in world.events(CycleStarted)] == list(range(1, len(world.events(CycleStarted)) + 1))
    world.settled()


def test_what_is_said_of_a_task_goes_into_its_condition_once(world: World) -> None:
    world.see(node("n1"), group("g", 1), pod("a", 101, group="g", selector={"disk": "fast"}))
    world.do(Allocate())
    (told,) = world.events(TaskUnschedulable)
    assert told.message == "0/1 nodes are unavailable: 1 node(s) didn't match Pod's node affinity/selector."
    assert told.fit_errors[0].nodes == ("n1",)
    assert world.asked(Patch) == ["a"]
    world.do(Allocate())
    assert world.asked(Patch) == ["a"]


def test_nothing_waits_and_no_session_is_opened(world: World) -> None:
    world.see(node("n1"), pending("g", 1))
    world.do(Allocate())
    assert world.events(CycleStarted) == []


def test_a_task_is_promised_what_is_being_released_once(world: World) -> None:
    world.see(node("n1"), group("g", 1))
    world.see(pod("old", 90, node="n1", phase="Running", cpu="3", deleting=True), pod("a", 101, group="g", cpu="3"))
    world.do(Allocate(), Allocate())
    assert [one.node for one in world.events(TaskPipelined)] == ["n1"]
    assert world.events(TaskAllocated) == []
    world.see(pod("old", 103, node="n1", phase="Running", cpu="3", deleting=True), change="DELETED")
    world.do(Allocate())
    assert [one.node for one in world.events(TaskAllocated)] == ["n1"]
    world.settled()


def test_queues_take_turns_by_their_shares(world: World) -> None:
    """What the plain configuration knows nothing of: a queue has no more than its weight gives it."""
    world.see(queue("rich", 3), node("n1", cpu="4"))
    for name, of in (("p", "default"), ("r", "rich")):
        made = group(f"{name}g", 1)
        made["spec"]["queue"] = of
        world.see(made, *(pod(f"{name}{i}", 100 + i, group=f"{name}g") for i in range(4)))
    world.do(Allocate())
    placed = [one.job for one in world.events(TaskAllocated)]
    assert sorted(placed) == ["d/pg", "d/rg", "d/rg", "d/rg"]


def test_of_a_job_that_is_gone_nothing_is_remembered(world: World) -> None:
    waits, waiting = pending("g", 1), pod("a", 101, group="g", selector={"disk": "fast"})
    world.see(node("n1"), waits, waiting)
    world.do(Allocate())
    flow = world.flow
    assert flow.considered and flow.admitted and flow.podgroups and flow.said
    world.see(waiting, waits, change="DELETED")
    world.tick(6)
    assert "d/g" not in flow.cache.jobs
    assert not (flow.considered or flow.admitted or flow.podgroups or flow.said or flow.promised)
    world.settled()


# --- volumes ------------------------------------------------------------------------------------------------------


def test_volumes_are_assumed_with_the_place_and_seen_so_by_the_next_cycle(world: World) -> None:
    world.see(storage_class("local", "kubernetes.io/no-provisioner"), node("n1"), node("n2", 11))
    world.see(claim("c1", cls="local"), claim("c2", 51, cls="local"), volume("pv1", 61, node="n2"))
    world.see(group("g", 1), pod("a", 101, group="g", claims=["c1"]))
    world.do(Allocate())
    assert [(one.node, one.bindings[0].volume) for one in world.events(VolumesAssumed)] == [("n2", "pv1")]
    world.see(group("h", 1, 21), pod("b", 102, group="h", claims=["c2"]))
    world.do(Allocate())
    assert len(world.events(TaskAllocated)) == 1
    world.tick(0.02)
    world.answer(Update, status(409, "the object has been modified", "Conflict"))
    assert world.flow.volumes.assumed == {}
    world.do(Allocate())
    assert [one.job for one in world.events(TaskAllocated)] == ["d/g", "d/h"]
    world.settled()


def test_two_gangs_that_would_take_the_same_volume_in_one_cycle(world: World) -> None:
    world.see(storage_class("local", "kubernetes.io/no-provisioner"), node("n1"))
    world.see(claim("c1", cls="local"), claim("c2", 51, cls="local"), volume("pv1", 61, node="n1"))
    for name, held in (("a", "c1"), ("b", "c2")):
        world.see(group(f"{name}g", 1), pod(name, 101, group=f"{name}g", claims=[held]))
    world.do(Allocate())
    assert len(world.events(TaskAllocated)) == len(world.events(VolumesAssumed)) == 1
    (left,) = [one for one in world.events(JobConsidered) if one.outcome != "allocated"]
    assert left.placed == 0
    world.settled()


def test_a_claim_of_two_pods_of_a_gang_is_taken_once(world: World) -> None:
    world.see(storage_class("local", "kubernetes.io/no-provisioner"), node("n1"), node("n2", 11))
    world.see(claim("c1", cls="local"), volume("pv1", 61, node="n2"), group("g", 2))
    world.see(pod("a", 101, group="g", claims=["c1"]), pod("b", 102, group="g", claims=["c1"]))
    world.do(Allocate())
    assert [one.node for one in world.events(TaskAllocated)] == ["n2", "n2"]
    assert sorted(bool(one.bindings) for one in world.events(VolumesAssumed)) == [False, True]
    world.tick(0.02)
    world.answer(Update, said(volume("pv1", 70, ref="c1")))
    world.settled()


@pytest.mark.parametrize(
    ("held", "nowhere"),
    [
        (claim("c1"), True),
        (claim("c1", selected="n2"), False),
        (claim("c1", volume="pv1", completed=True), False),
        (claim("c1", cls="local"), False),
        (claim("c1", cls="zoned"), False),
        (claim("c1", cls="unknown"), True),  # a problem of the claim, told before any node is looked at
    ],
)
def test_nodes_are_asked_about_claims_only_where_one_may_refuse(
    world: World, held: dict[str, object], nowhere: bool
) -> None:
    zones = [{"matchLabelExpressions": [{"key": "zone", "values": ["z"]}]}]
    world.see(storage_class("local", "kubernetes.io/no-provisioner"), storage_class("wait"), node("n1"), node("n2", 11))
    world.see(storage_class("zoned", allowedTopologies=zones), held, volume("pv1", 61, node="n2", ref="c1"))
    world.see(group("g", 1), pod("a", 101, group="g", claims=["c1"]))
    mirror = mirror_of(world.flow)
    mirror.refresh()
    feasible = mirror.feasible
    (task,) = mirror.jobs["d/g"].tasks.values()
    evaluation = feasible.evaluation(task)
    assert evaluation is not None
    assert refuses_nowhere(evaluation) is nowhere
    said = [special_reasons(evaluation, view, ALL_CHECKS) for view in feasible.views()]
    assert not nowhere or said == [[], []]


def test_a_pod_goes_where_the_driver_has_room_for_its_volume(world: World) -> None:
    """Of two nodes the session takes the one with room, whatever their scores; with none it waits, until there is."""
    room: dict[str, Any] = {
        "kind": "CSIStorageCapacity",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": "b", "namespace": "d", "uid": "cap-b", "resourceVersion": "40"},
        "storageClassName": "wait",
        "capacity": "1Gi",
        "nodeTopology": {"matchLabels": {"zone": "b"}},
    }
    world.see(node("n1", cpu="64", labels={"zone": "a"}), node("n2", 11, labels={"zone": "b"}), group("g", 1))
    world.see(storage_class("wait"), room, claim("c1"), pod("pa", 101, group="g", claims=["c1"]))
    world.do(Allocate())
    (told,) = world.events(TaskUnschedulable)
    assert told.message == "0/2 nodes are unavailable: 2 node(s) did not have enough free storage."
    world.see({**room, "metadata": {**room["metadata"], "resourceVersion": "41"}, "capacity": "6Gi"})
    world.do(Allocate())
    assert [one.node for one in world.events(TaskAllocated)] == ["n2"]
    assert [one.claim for one in world.events(VolumesAssumed)[0].provisions] == ["d/c1"]
    world.settled()
