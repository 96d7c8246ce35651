"""Whom to evict so that a queue holds less: as few as do, wherever they are; and what a queue is asked for counts."""

from __future__ import annotations

from typing import Any

import pytest

from projections.diagnosis.case import Case
from projections.diagnosis.evicting import EVICTED_OF_QUEUE_MAX
from projections.diagnosis.explain import explain
from projections.diagnosis.views import Occupant
from tests.unit.diagnosis.build import claim, cluster, node, obj, placed, pod, task, uses, volume
from tests.unit.diagnosis.test_changes import occupant, queue, texts
from tests.unit.diagnosis.test_explain import GROUPED, case, podgroup


def at_its_share(*pods: Occupant, cpu: str = "4", asked: str = "2") -> Case:
    """A pod whose queue holds what these pods have: half of the cluster's cpu, as another queue wants as much."""
    nodes = sorted({one.node for one in pods})
    used = {name: sum(one.request["cpu"] for one in pods if one.node == name) for name in nodes}
    held = {"cpu": sum(used.values()), "pods": float(len(pods))}
    wants = {"cpu": 10 * held["cpu"], "pods": 100.0}
    world = cluster(
        [node(name, cpu=cpu, used={"cpu": used[name]}) for name in nodes],
        queues={"default": queue(held=held, asked=wants), "other": queue("other", held={}, asked=wants)},
        occupants=lambda name: [one for one in pods if one.node == name],
        holders=lambda name: [one for one in pods if one.queue == name],
    )
    return case(pod(**GROUPED), {"cpu": asked}, cluster=world)


def evicted(of: Case) -> list[list[str]]:
    """The pods of each change that only evicts."""
    found = [one.steps for one in explain(of).changes if all(step.action == "evict" for step in one.steps)]
    return [[key for step in steps for key in step.pods] for steps in found]


@pytest.mark.parametrize("asked,gone", [("1", 1), ("2", 1), ("3", 2), ("4", 2)])
def test_what_is_above_the_share_goes_and_no_more_from_as_many_nodes_as_it_takes(asked: str, gone: int) -> None:
    of = at_its_share(*[occupant(f"p{number}", "2", on=f"n{number}") for number in range(1, 5)], asked=asked)
    assert explain(of).verdict == "queue-overused"
    assert evicted(of)[0] == [f"default/p{number}" for number in range(1, gone + 1)]


def test_one_large_pod_comes_before_two_small_ones_and_low_priorities_before_high_ones() -> None:
    small = [occupant(f"p{number}", "1", on=f"n{number}", priority=number) for number in range(1, 5)]
    of = at_its_share(*small, occupant("large", "4", on="n5", priority=9), asked="4")
    assert evicted(of)[0] == ["default/large"]
    of = at_its_share(*reversed(small), cpu="2", asked="1")
    assert evicted(of)[0] == ["default/p1"]


def test_each_step_names_the_node_and_all_are_told_in_one() -> None:
    of = at_its_share(*[occupant(f"p{number}", "2", on=f"n{number}") for number in range(1, 5)], asked="3")
    change = next(one for one in explain(of).changes if one.steps[0].action == "evict")
    assert [step.object for step in change.steps] == ["Node n1", "Node n2"]
    assert change.text == "evict 2 pods: default/p1 on n1 (priority 1), default/p2 on n2 (priority 1)"


def test_more_evictions_than_are_small_are_not_offered() -> None:
    """The queue deserves 8: with what is asked, all that it holds would have to go, in pods of a tenth."""
    pods = [occupant(f"p{number}", "100m", on=f"n{number % 4}") for number in range(80)]
    of = at_its_share(*pods, asked="4")
    assert len(pods) > EVICTED_OF_QUEUE_MAX
    assert evicted(of) == []


def test_a_group_that_gets_its_missing_members_asks_its_queue_for_more() -> None:
    """The queue has what it asks for, and the cluster has room: more members are asked for, and deserved."""
    held = {"cpu": 2000.0, "pods": 1.0}
    asked = {"cpu": 3000.0, "pods": 2.0}
    world = cluster(
        [node("n1", cpu="16"), node("n2", cpu="16")],
        queues={"default": queue(held=held, asked=asked), "other": queue("other", held=held, asked=asked)},
    )
    of = case(pod(**GROUPED), {"cpu": "1"}, cluster=world, pod_group=podgroup(minimum=4))
    assert explain(of).verdict == "members-missing"
    assert "PodGroup default/g: 3 more members" in texts(of)


def test_a_member_that_its_mates_take_the_share_from_is_looked_at_with_them() -> None:
    """A gang of three over the share: what has to go is what all three ask for too much."""
    of = at_its_share(*[occupant(f"p{number}", "2", on=f"n{number}") for number in range(1, 5)], asked="1")
    assert of.group is not None
    mates = [task(pod(f"m{number}", **GROUPED), {"cpu": "1"}, index=number) for number in (1, 2)]
    of.group = case(pod(**GROUPED), {"cpu": "1"}, mates=mates, pod_group=podgroup(minimum=3)).group
    assert [len(one) for one in evicted(of)][:1] == [2]


def test_what_asks_for_nothing_waits_for_no_share_but_that_of_the_mates_it_needs() -> None:
    """Backfill asks no queue."""
    of = at_its_share(*[occupant(f"p{number}", "2", on=f"n{number}") for number in range(1, 5)])
    assert of.group is not None
    idle = task(pod(**GROUPED))
    of.task, of.group.tasks[:] = idle, [idle]
    assert (explain(of).verdict, explain(of).changes) == ("schedulable", [])
    of = at_its_share(*[occupant(f"p{number}", "2", on=f"n{number}") for number in range(1, 5)])
    mate = task(pod("mate", **GROUPED), {"cpu": "2"})
    of.task, of.group = idle, case(pod(**GROUPED), mates=[mate], pod_group=podgroup(minimum=2)).group
    assert of.group is not None
    of.group.tasks[0] = idle
    assert explain(of).verdict == "queue-overused"
    assert evicted(of)[0] == ["default/p1"]


# --- what a pod's going lifts beside room -------------------------------------------------------------------------

EXAMPLE_DRIVER = "csi.example.com"


def handle(name: str) -> Any:
    return volume(name, spec={"csi": {"driver": EXAMPLE_DRIVER, "volumeHandle": name}}, phase="Bound")


def attaching(limit: int, *pods: tuple[str, tuple[str, ...]], **more: Any) -> Case:
    """A pod with claim `mine`, on a node n1 that takes so many volumes; the pods there use the claims named."""
    drivers = [{"name": EXAMPLE_DRIVER, "nodeID": "n1", "allocatable": {"count": limit}}]
    names = sorted({name for _, used in pods for name in used})
    there = {name: pod(name, **uses(*used)) for name, used in pods}
    world = cluster(
        [node("n1")],
        pods=[placed(one, "n1") for one in there.values()],
        occupants=lambda name: [occupant(one, "1", **more) for one in there],
        claims={f"default/{name}": claim(name, volume=f"v-{name}") for name in ("mine", *names)},
        volumes={f"v-{name}": handle(f"v-{name}") for name in ("mine", *names)},
        csi_nodes={"n1": obj("CSINode", metadata={"name": "n1", "uid": "u"}, spec={"drivers": drivers})},
    )
    return case(pod(**uses("mine"), **GROUPED), cluster=world)


def test_an_attach_limit_is_kept_when_a_pod_with_a_volume_goes() -> None:
    of = attaching(2, ("a", ("x",)), ("b", ("y",)), ("c", ()))
    assert explain(of).verdict == "volume-limit"
    assert evicted(of) == [["default/a"]]
    assert "evict 1 pod: default/a on n1 (priority 1)" in texts(of)


def test_a_volume_that_two_pods_use_goes_with_both() -> None:
    assert evicted(attaching(1, ("a", ("x",)), ("b", ("x",)))) == [["default/a", "default/b"]]
    assert evicted(attaching(2, ("a", ("x",)), ("b", ("x",)), ("c", ("y",)))) == [["default/c"]]


def test_who_may_not_be_evicted_keeps_its_volume() -> None:
    assert evicted(attaching(1, ("a", ("x",)), critical=True)) == []
    assert evicted(attaching(1, ("a", ("x",)), job="default/g")) == [], "a mate"


def keeping_away(key: str, **selecting: Any) -> dict[str, Any]:
    terms = [{"labelSelector": {"matchLabels": selecting}, "topologyKey": key}]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def repelled(subject: Any, *others: tuple[Any, str]) -> Case:
    """A pod beside some others, on two nodes of one zone."""
    nodes = [node(name, labels={"zone": "z"}) for name in ("n1", "n2")]
    world = cluster(
        nodes,
        pods=[placed(one, on) for one, on in others],
        occupants=lambda name: [occupant(one.metadata.name, "1", on=name) for one, on in others if on == name],
    )
    return case(subject, cluster=world)


def test_others_that_keep_it_away_are_evicted_wherever_they_are() -> None:
    guards = [(pod(name, **keeping_away("zone", app="web")), on) for name, on in (("a", "n1"), ("b", "n2"))]
    of = repelled(pod(labels={"app": "web"}, **GROUPED), *guards)
    assert explain(of).verdict == "no-node-fits"
    assert evicted(of) == [["default/a", "default/b"]]
    change = explain(of).changes[0]
    assert [(step.object, step.value) for step in change.steps] == [("Node n1", "by hand"), ("Node n2", "by hand")]
    alone = repelled(pod(labels={"app": "web"}, **GROUPED), guards[0], (pod("c"), "n2"))
    assert evicted(alone) == [["default/a"]]


def test_its_own_anti_affinity_is_dropped_or_those_that_it_avoids_go() -> None:
    avoided = [(pod(name, labels={"app": "db"}), on) for name, on in (("a", "n1"), ("b", "n2"))]
    of = repelled(pod(**keeping_away("kubernetes.io/hostname", app="db"), **GROUPED), *avoided)
    assert evicted(of) == [["default/a"], ["default/b"]]
    assert "p: drop its required pod anti-affinity" in texts(of)


def test_mates_that_keep_each_other_apart_are_not_evicted() -> None:
    apart = {**keeping_away("zone", app="web"), "labels": {"app": "web"}}
    mates = [task(pod("m", **apart, **GROUPED), {"cpu": "1"}, index=1)]
    of = repelled(pod(**apart, **GROUPED))
    of.group = case(pod(**apart, **GROUPED), mates=mates, pod_group=podgroup(minimum=2)).group
    assert explain(of).verdict == "gang-short"
    assert evicted(of) == []
