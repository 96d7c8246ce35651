"""allocate and backfill: gangs whole or not at all, what is promised, roles, queues, volumes, ties.

Owns these cases. Called by pytest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.session import measure
from tests.unit.session.world import CONF, Object, World, group, node, pod, queue
from vcledger.scheduler.session.conf import PluginConf, SessionConf
from vcledger.scheduler.session.events import events_of
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.outcome import Outcome, Placed
from vcledger.scheduler.session.plugins import BUILTIN
from vcledger.scheduler.session.run import run
from volcano.events.scheduling import CycleEnded, CycleStarted, TaskAllocated, TaskPipelined, TaskUnschedulable

ROOM = SessionConf(("allocate", "backfill"), ((PluginConf("gang"), PluginConf("predicates"), PluginConf("priority")),))
"""No shares of queues, no scores."""


def places(outcome: Outcome, *, pipelined: bool = False) -> dict[str, str]:
    found = [one for one in outcome.decisions if isinstance(one, Placed) and one.pipelined == pipelined]
    return {one.task.name: one.node for one in found}


def gang(name: str, least: int, count: int, **more: Any) -> list[Object]:
    return [group(name, least), *(pod(f"{name}-{index}", name, **more) for index in range(count))]


def test_a_gang_that_is_short_gets_nothing_and_its_pods_say_so() -> None:
    world = World(queue(), node("n1", cpu="2"), *gang("g", 3, 3))
    outcome = run(world.mirror, ROOM)
    assert not outcome.decisions
    assert outcome.jobs["d/g"].outcome == "discarded"
    assert [(one.ready, one.needed, len(one.tasks)) for one in outcome.discarded] == [(2, 3, 2)]
    unfit = {one.task.name: (one.reason, one.message) for one in outcome.unfit.values()}
    assert unfit == {
        "g-0": ("Schedulable", "Pod d/g-0 can possibly be assigned to n1, once minAvailable is satisfied"),
        "g-1": ("Schedulable", "Pod d/g-1 can possibly be assigned to n1, once minAvailable is satisfied"),
        "g-2": ("Unschedulable", "0/1 nodes are unavailable: 1 Insufficient cpu."),
    }
    assert outcome.jobs["d/g"].message == (
        "1/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable; Pending: 1 Unschedulable, "
        "2 Schedulable. Origin reason is g-2: 0/1 nodes are unavailable: 1 Insufficient cpu."
    )


def test_a_gang_with_enough_goes_on_one_by_one_beyond_its_minimum() -> None:
    world = World(queue(), node("n1", cpu="3"), *gang("g", 2, 4))
    outcome = run(world.mirror, ROOM)
    assert places(outcome) == {"g-0": "n1", "g-1": "n1", "g-2": "n1"}
    assert (outcome.jobs["d/g"].outcome, outcome.jobs["d/g"].placed) == ("allocated", 3)
    assert [one.task.name for one in outcome.unfit.values()] == ["g-3"]


def test_ready_jobs_take_turns_with_others() -> None:
    world = World(queue(), node("n1", cpu="4"), *gang("a", 1, 4), *gang("b", 1, 4))
    assert places(run(world.mirror, ROOM)) == {"a-0": "n1", "b-0": "n1", "a-1": "n1", "a-2": "n1"}


def test_what_is_being_released_is_promised_and_nothing_is_bound() -> None:
    going = pod("old", "o", cpu="2", on="n1", deleting=True)
    world = World(queue(), node("n1", cpu="3"), group("o"), going, *gang("g", 2, 2))
    outcome = run(world.mirror, ROOM)
    assert places(outcome) == {}
    assert places(outcome, pipelined=True) == {"g-1": "n1"}
    assert outcome.jobs["d/g"].outcome == "pipelined"
    said = {one.task.name: (one.reason, one.message, one.node) for one in outcome.unfit.values()}
    assert said["g-1"] == (
        "Unschedulable",
        "Pod d/g-1 can possibly be assigned to n1, once resource is released and minAvailable is satisfied",
        "n1",
    )
    assert said["g-0"][0] == "Schedulable"
    assert not places(run(World(queue(), node("n1", cpu="3"), group("o"), going, *gang("g", 3, 3)).mirror, ROOM))


def test_a_promise_is_not_given_to_the_next() -> None:
    going = pod("old", "o", cpu="2", on="n1", deleting=True)
    world = World(queue(), node("n1", cpu="2"), group("o"), going, *gang("a", 1, 1, cpu="2"), *gang("b", 1, 1, cpu="1"))
    outcome = run(world.mirror, ROOM)
    assert places(outcome, pipelined=True) == {"a-0": "n1"}
    assert {one.task.name: one.message for one in outcome.unfit.values()}["b-0"].endswith("1 Insufficient cpu.")


def test_idle_comes_before_what_is_being_released_whatever_the_scores_say() -> None:
    going = pod("old", "o", cpu="3", on="n1", deleting=True)
    world = World(queue(), node("n1", cpu="4"), node("n2", cpu="64"), group("o"), going, *gang("g", 1, 1, cpu="2"))
    conf = SessionConf(ROOM.actions, (*ROOM.tiers, (PluginConf("binpack"),)))
    assert places(run(world.mirror, conf)) == {"g-0": "n2"}


def test_after_one_of_a_role_has_failed_the_others_are_not_tried_and_other_roles_are() -> None:
    big = [pod(f"big-{index}", "g", cpu="9", role="big") for index in range(2)]
    small = [pod(f"small-{index}", "g", cpu="1", role="small") for index in range(2)]
    world = World(queue(), node("n1", cpu="4"), group("g", 1), *big, *small)
    outcome = run(world.mirror, ROOM)
    assert places(outcome) == {"small-0": "n1", "small-1": "n1"}
    said = {one.task.name: one.message for one in outcome.unfit.values()}
    assert said["big-1"] == "Task big-1 with role spec big has already predicated failed, skip"


def test_where_all_are_needed_the_first_failure_ends_the_gang() -> None:
    world = World(queue(), node("n1", cpu="4"), group("g", 2), pod("a", "g", cpu="9"), pod("b", "g", cpu="1"))
    outcome = run(world.mirror, ROOM)
    assert not outcome.decisions
    assert outcome.jobs["d/g"].outcome == "unschedulable"
    said = {one.task.name: one.message for one in outcome.unfit.values()}
    assert said["b"].startswith("pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable.")


def test_a_role_below_its_own_minimum_ends_the_gang() -> None:
    roles = {"minTaskMember": {"big": 1, "small": 1}}
    tasks = [pod("big", "g", cpu="9", role="big"), *(pod(f"s{index}", "g", role="small") for index in range(2))]
    world = World(queue(), node("n1", cpu="4"), group("g", 2, **roles), *tasks)
    outcome = run(world.mirror, ROOM)
    assert not outcome.decisions
    assert [one.task.name for one in outcome.unfit.values() if one.error is not None] == ["big"]


def test_best_effort_is_for_backfill_and_counts_for_the_gang() -> None:
    tasks = [pod("a", "g", cpu="1"), pod("b", "g", cpu="")]
    world = World(queue(), node("n1", cpu="1", pods="2"), group("g", 2), *tasks)
    assert places(run(world.mirror, ROOM)) == {"a": "n1", "b": "n1"}
    without = SessionConf(("allocate",), ROOM.tiers)
    assert places(run(world.mirror, without)) == {"a": "n1"}


def test_a_job_that_is_not_in_its_queue_waits_where_there_is_an_enqueue_action() -> None:
    world = World(queue(), node("n1"), group("g", phase="Pending"), pod("a", "g"))
    assert places(run(world.mirror, ROOM)) == {"a": "n1"}
    gated = SessionConf(("allocate", "enqueue"), ROOM.tiers)
    outcome = run(world.mirror, gated)
    assert not places(outcome)
    assert outcome.jobs["d/g"].outcome == "enqueued"
    assert world.mirror.jobs["d/g"].phase == "Pending"


def test_too_few_pods_for_the_minimum_is_said() -> None:
    outcome = run(World(queue(), node("n1"), group("g", 3), pod("a", "g")).mirror, ROOM)
    assert (outcome.jobs["d/g"].outcome, outcome.jobs["d/g"].reason) == ("invalid", "NotEnoughTasks")


def test_the_seed_decides_between_equals_and_nothing_else_does() -> None:
    nodes = [node(f"n{index}") for index in range(8)]
    world = World(queue(), *nodes, group("g"), pod("a", "g"))
    found = [places(run(world.mirror, ROOM, seed=seed))["a"] for seed in range(12)]
    assert len(set(found)) > 3
    assert found == [places(run(world.mirror, ROOM, seed=seed))["a"] for seed in range(12)]
    backwards = World(pod("a", "g"), group("g"), *reversed(nodes), queue())
    assert found == [places(run(backwards.mirror, ROOM, seed=seed))["a"] for seed in range(12)]


def test_a_gated_pod_is_passed_over_and_nothing_is_said_of_it() -> None:
    gates = {"schedulingGates": [{"name": "example.com/wait"}]}
    world = World(queue(), node("n1"), group("g"), pod("a", "g", spec=gates), pod("b", "g"))
    outcome = run(world.mirror, ROOM)
    assert places(outcome) == {"b": "n1"}
    assert not outcome.unfit


def test_only_the_jobs_that_are_asked_about() -> None:
    world = World(queue(), node("n1", cpu="1"), *gang("a", 1, 1), *gang("b", 1, 1))
    assert places(run(world.mirror, ROOM, only=["d/b"])) == {"b-0": "n1"}


def test_members_of_a_gang_see_each_other() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "host"}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    nodes = [node(f"n{index}", labels={"host": f"n{index}"}) for index in range(2)]
    tasks = [pod(f"p{index}", "g", labels={"app": "x"}, spec=apart) for index in range(2)]
    found = places(run(World(queue(), *nodes, group("g", 2), *tasks).mirror, ROOM))
    assert sorted(found.values()) == ["n0", "n1"]
    tasks.append(pod("p2", "g", labels={"app": "x"}, spec=apart))
    outcome = run(World(queue(), *nodes, group("g", 3), *tasks).mirror, ROOM)
    assert not outcome.decisions
    last = next(one for one in outcome.unfit.values() if one.error is not None)
    assert last.message == "0/2 nodes are unavailable: 2 node(s) didn't match pod anti-affinity rules."


def test_a_pod_placed_before_keeps_others_away() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "y"}}, "topologyKey": "host"}
    alone = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    first = [group("a"), pod("a", "a", spec=alone, priority=5)]
    world = World(queue(), node("n1", labels={"host": "n1"}), *first, group("b"), pod("b", "b", labels={"app": "y"}))
    outcome = run(world.mirror, ROOM)
    assert places(outcome) == {"a": "n1"}
    (unfit,) = outcome.unfit.values()
    assert unfit.message == "0/1 nodes are unavailable: 1 node(s) didn't satisfy existing pods anti-affinity rules."


def claim(name: str) -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    meta = {"name": name, "namespace": "d", "uid": f"{name}-c"}
    return {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def volume(name: str, on: str) -> Object:
    where = {"matchExpressions": [{"key": "host", "operator": "In", "values": [on]}]}
    spec = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [where]}},
    }
    return {"kind": "PersistentVolume", "metadata": {"name": name, "uid": f"{name}-v"}, "spec": spec,
            "status": {"phase": "Available"}}  # fmt: skip


STORAGE: Object = {
    "kind": "StorageClass",
    "metadata": {"name": "local", "uid": "local-s"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def uses(name: str) -> Object:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


def test_a_volume_that_one_of_the_gang_takes_is_not_there_for_the_next() -> None:
    nodes = [node(f"n{index}", labels={"host": f"n{index}"}) for index in range(2)]
    tasks = [pod(f"p{index}", "g", spec=uses(f"c{index}")) for index in range(2)]
    claims = [claim("c0"), claim("c1")]
    one = World(STORAGE, queue(), *nodes, volume("v0", "n0"), *claims, group("g", 2), *tasks)
    outcome = run(one.mirror, ROOM)
    assert not outcome.decisions
    last = next(found for found in outcome.unfit.values() if found.error is not None)
    assert last.message == "0/2 nodes are unavailable: 2 node(s) didn't find available persistent volumes to bind."
    one.see(volume("v1", "n1"))
    assert sorted(places(run(one.mirror, ROOM)).values()) == ["n0", "n1"]


def test_a_claim_that_is_missing_ends_the_turn_of_its_job() -> None:
    world = World(STORAGE, queue(), node("n1"), group("g", 1), pod("a", "g", spec=uses("gone")), pod("b", "g"))
    outcome = run(world.mirror, ROOM)
    said = {one.task.name: one.message for one in outcome.unfit.values()}
    assert 'persistentvolumeclaim "gone" not found' in said["a"]
    assert not outcome.decisions


def test_a_users_predicate_and_score_count() -> None:
    class Mine:
        name = "mine"

        def __init__(self, arguments: Any) -> None:
            """No arguments."""

        def on_open(self, ssn: Any) -> None:
            def likes(task: SessionTask, rows: Any) -> Any:
                return np.array([ssn.nodes.names[row] == "n3" for row in rows], dtype=float)

            ssn.add("predicate", self.name, lambda task: np.array([name != "n1" for name in ssn.nodes.names]))
            ssn.add("node_order", self.name, likes)

        def on_close(self, ssn: Any) -> None:
            """Nothing is kept."""

    conf = SessionConf(("allocate",), (*ROOM.tiers, (PluginConf("mine"),)))
    world = World(queue(), *(node(f"n{index}", cpu="1") for index in (1, 2, 3)), *gang("g", 1, 3))
    outcome = run(world.mirror, conf, plugins={**BUILTIN, "mine": Mine})
    assert places(outcome) == {"g-0": "n3", "g-1": "n2"}
    (unfit,) = outcome.unfit.values()
    assert unfit.table["n1"] == ("node(s) were ruled out by a plugin's predicate",)


def test_a_cycle_as_events_and_what_was_said_is_not_said_again() -> None:
    world = World(queue(), node("n1", cpu="1"), *gang("g", 1, 2))
    said: dict[str, str] = {}
    events = [event for _, event in events_of(run(world.mirror, CONF, seed=7, cycle=3), said=said)]
    assert isinstance(events[0], CycleStarted)
    assert (events[0].cycle, events[0].seed, events[0].jobs, events[0].nodes) == (3, 7, 1, 1)
    assert [type(event) for event in events[1:3]] == [TaskAllocated, TaskUnschedulable]
    assert isinstance(events[-1], CycleEnded)
    assert (events[-1].allocated, events[-1].unschedulable) == (1, 1)
    world.see(pod("g-0", "g", on="n1"))
    assert events_of(run(world.mirror, CONF, seed=7, cycle=4), said=said)
    assert events_of(run(world.mirror, CONF, seed=7, cycle=5), said=said) == []


@pytest.mark.parametrize("free", [True, False])
def test_a_node_that_was_promised_comes_first(free: bool) -> None:
    promised = pod("a", "g", cpu="2")
    promised["status"]["nominatedNodeName"] = "n2"
    going = pod("old", "o", cpu="4", on="n2", deleting=True)
    world = World(queue(), node("n1"), node("n2"), group("o"), *([] if free else [going]), group("g"), promised)
    outcome = run(world.mirror, ROOM)
    assert places(outcome, pipelined=not free) == {"a": "n2"}
    kinds = {type(event) for _, event in events_of(outcome)}
    assert (TaskAllocated if free else TaskPipelined) in kinds


@pytest.mark.parametrize("infers", [True, False])
def test_a_pod_whose_volume_is_being_made_counts_on_its_node(infers: bool) -> None:
    waiting = claim("c")
    waiting["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n1"}
    made = {**STORAGE, "provisioner": "csi.example.com"}
    first = [group("a"), pod("a", "a", cpu="3", spec=uses("c"))]
    world = World(made, queue(), node("n1"), waiting, *first, group("b"), pod("b", "b", cpu="2"))
    mirror = Mirror(world.cache, world.pod_of, infers_assumed=infers)
    outcome = run(mirror, ROOM)
    assert places(outcome) == ({} if infers else {"a": "n1"})
    assert [one.task.name for one in outcome.unfit.values()] == ["b"]
    if infers:
        assert mirror.jobs["d/a"].ready_count == 1
        bound = claim("c")
        bound["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        bound["spec"]["volumeName"] = "v"
        world.see(volume("v", "n1"), bound)
        for kind, name in (("PersistentVolume", "v"), ("PersistentVolumeClaim", "c")):
            mirror.touch(kind, "d" if kind.endswith("Claim") else "", name)
        mirror.refresh()
        assert mirror.nodes.idle[0][0] == 4000


class Full:
    """Says of the queue of that name that it gets nothing more."""

    name = "full"

    def __init__(self, arguments: Any) -> None:
        """No arguments."""

    def on_open(self, ssn: Any) -> None:
        ssn.add("overused", self.name, lambda queue: queue.name == "full")

    def on_close(self, ssn: Any) -> None:
        """Nothing is kept."""


def test_a_queue_that_gets_nothing_more_is_passed_over_and_its_gang_has_its_sentence() -> None:
    jobs = [group("w", queue="full"), pod("w", "w"), group("o", queue="other"), pod("o", "o")]
    world = World(queue("full"), queue("other"), node("n1"), *jobs)
    conf = SessionConf(("allocate",), (*ROOM.tiers, (PluginConf("full"),)))
    outcome = run(world.mirror, conf, plugins={**BUILTIN, "full": Full})
    assert places(outcome) == {"o": "n1"}
    assert (outcome.jobs["d/w"].outcome, outcome.jobs["d/w"].message) == ("overused", "queue full is overused")
    said = (
        "1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 minAvailable; Pending: 1 Unschedulable"
    )
    assert outcome.jobs["d/w"].sentence == said
    assert outcome.jobs["d/o"].sentence == ""


def test_the_bench_places_all_its_pods() -> None:
    done = measure(nodes=30, pods=60)
    assert done.placed == 60


class NotFor(Full):
    """Says of every queue that it has not enough for the tasks."""

    def on_open(self, ssn: Any) -> None:
        ssn.add("allocatable", self.name, lambda queue, task: False)


def test_a_job_whose_tasks_are_too_much_for_its_queue_is_told_so() -> None:
    world = World(queue("default"), node("n1"), group("w"), pod("w", "w"))
    conf = SessionConf(("allocate",), (*ROOM.tiers, (PluginConf("full"),)))
    outcome = run(world.mirror, conf, plugins={**BUILTIN, "full": NotFor})
    job = outcome.jobs["d/w"]
    assert (job.outcome, job.message) == ("overused", "queue default is overused for task w")
