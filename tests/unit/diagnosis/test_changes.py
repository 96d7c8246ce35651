"""The smallest change: each kind of obstacle has its own, only proven ones are given, the smallest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from projections.diagnosis.case import Case
from projections.diagnosis.changes import smallest_changes, world_of
from projections.diagnosis.explain import explain
from projections.diagnosis.model import Change
from projections.diagnosis.proof import Held, obstacle
from projections.diagnosis.text import lines, plain
from projections.diagnosis.views import Amounts, ClusterView, Occupant, QueueView, TaskView
from tests.unit.diagnosis.build import claim, cluster, node, obj, placed, pod, storage_class, task, uses
from tests.unit.diagnosis.test_explain import GROUPED, case, podgroup
from volcano.objects.resource import new_resource


def changes(of: Case) -> list[Change]:
    return explain(of).changes


def texts(of: Case) -> list[str]:
    return [one.text for one in changes(of)]


def actions(of: Case) -> list[list[str]]:
    return [[step.action for step in one.steps] for one in changes(of)]


def occupant(name: str, cpu: str = "4", on: str = "n1", **more: Any) -> Occupant:
    """A running pod of job default/other, which could spare it, unless told otherwise."""
    defaults: dict[str, Any] = {"job": "default/other", "queue": "default", "spare": 1, "priority": 1}
    return Occupant(
        key=f"default/{name}",
        uid=f"uid-{name}",
        node=on,
        status="Running",
        request=new_resource({"cpu": cpu, "pods": "1"}).amounts(),
        **{**defaults, **more},
    )


def full(*on_it: Occupant, cpu: str = "8", **more: Any) -> ClusterView:
    """A cluster of one node n1 with these pods on it."""
    used: Amounts = {}
    for one in on_it:
        for name, amount in one.request.items():
            used[name] = used.get(name, 0.0) + amount
    return cluster([node("n1", cpu=cpu, used=used)], occupants=lambda name: list(on_it) if name == "n1" else [], **more)


def queue(name: str = "default", held: Amounts | None = None, asked: Amounts | None = None, **spec: Any) -> QueueView:
    body = obj(
        "Queue", metadata={"name": name}, spec={"weight": 1, **spec}, status={"state": spec.pop("state", "Open")}
    )
    held = held or {}
    return QueueView(name=name, queue=body, allocated=held, requested=asked or held, inqueue={})


def test_what_is_missing_on_the_nearest_nodes() -> None:
    nodes = [node("n1", cpu="2"), node("n2", cpu="2500m"), node("n3", cpu="1")]
    found = changes(case(pod(**GROUPED), {"cpu": "4"}, cluster=cluster(nodes)))
    rooms = [one for one in found if one.steps[0].action == "more-room"]
    assert [one.text for one in rooms] == ["n2: 1.5 more cpu", "n1: 2 more cpu", "n3: 3 more cpu"]
    assert rooms[0].steps[0].amounts == {"cpu": "1.5"}
    assert (rooms[0].size, rooms[0].share) == (1, 0.375)


def test_the_fewest_evictions_of_the_lowest_priority_and_what_the_scheduler_could_do_first() -> None:
    pods = [occupant("small", "1"), occupant("low", "3", priority=0), occupant("high", "4", priority=50)]
    found = texts(case(pod(**GROUPED), {"cpu": "3"}, cluster=full(*pods)))
    assert "evict 1 pod: default/low on n1 (priority 0)" in found
    assert not any("default/high" in text for text in found)
    three = full(occupant("a", "2"), occupant("b", "2"), occupant("c", "4", critical=True))
    two = texts(case(pod(**GROUPED), {"cpu": "4"}, cluster=three))
    assert any(text.startswith("evict 2 pods: default/a on n1 (priority 1), default/b on n1") for text in two)
    assert not any("default/c" in text for text in two), "system-critical pods are not for eviction"


def test_an_eviction_that_preemption_could_do_is_named_so() -> None:
    victim = occupant("low", "8", priority=0, job_priority=0)
    of = case(pod(**GROUPED), {"cpu": "4"}, cluster=full(victim))
    assert of.group is not None
    of.group = replace(of.group, priority=10)
    assert texts(of)[0] == "evict 1 pod by preempt: default/low on n1 (priority 0)"
    kept = replace(victim, spare=0)
    of = case(pod(**GROUPED), {"cpu": "4"}, cluster=full(kept))
    assert "by preempt" not in " ".join(texts(of))


def test_a_taint_is_tolerated_or_removed() -> None:
    tainted = node("n1", taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}])
    found = texts(case(pod(**GROUPED), cluster=cluster([tainted])))
    assert set(found[:2]) == {"p: tolerate taint gpu=true:NoSchedule", "n1: taint gpu=true:NoSchedule removed"}


def test_a_label_is_dropped_and_only_those_that_nobody_fixes_are_given_to_nodes() -> None:
    found = texts(case(pod(nodeSelector={"accel": "h100"}, **GROUPED), cluster=cluster([node("n1")])))
    assert found[0] == "p: drop nodeSelector accel=h100"
    assert "n1: label accel=h100 added" in found
    found = texts(case(pod(nodeSelector={"kubernetes.io/hostname": "n9"}, **GROUPED), cluster=cluster([node("n1")])))
    assert found[0] == "p: drop nodeSelector kubernetes.io/hostname=n9"
    assert not any("label" in text for text in found)


def test_an_edit_of_a_pod_says_of_how_many_more_it_is() -> None:
    tainted = [node(f"n{number}", taints=[{"key": "gpu", "effect": "NoSchedule"}]) for number in (1, 2)]
    of = gang(3, 3, tainted)
    assert "p-0: tolerate taint gpu:NoSchedule (and 2 more like it)" in texts(of)


def test_several_refusals_of_one_node_are_lifted_together() -> None:
    tainted = node("n1", cpu="2", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    found = changes(case(pod(**GROUPED), {"cpu": "3"}, cluster=cluster([tainted])))
    assert found[0].text in {
        "n1: 1 more cpu; p: tolerate taint gpu:NoSchedule",
        "n1: 1 more cpu; n1: taint gpu:NoSchedule removed",
    }
    assert found[0].size == 2


def test_a_cordoned_node_a_gate_and_another_scheduler() -> None:
    assert texts(case(pod(**GROUPED), cluster=cluster([node("n1", unschedulable=True)])))[0] == "n1: uncordoned"
    gated = case(pod(schedulingGates=[{"name": "wait"}], **GROUPED))
    gated.task = replace(gated.task, gated=True) if gated.task is not None else None
    assert gated.group is not None and gated.task is not None
    gated.group = replace(gated.group, tasks=[gated.task])
    assert texts(gated) == ["p: take off scheduling gate wait"]
    assert texts(case(pod(schedulerName="other", **GROUPED)))[0] == "p: schedulerName volcano"


def test_a_claim_gets_its_volume() -> None:
    waiting = cluster(
        [node("n1")], claims={"default/c": claim("c", size="5Gi")}, classes={"wait": storage_class("wait")}
    )
    found = changes(case(pod(**uses("c"), **GROUPED), cluster=waiting))
    assert found[0].text == "claim c: a volume of 5Gi of class wait, usable on n1"
    assert found[0].steps[0].action == "add-volume"
    missing = texts(case(pod(**uses("c"), **GROUPED), cluster=cluster([node("n1")])))
    assert missing[0] == "create claim c with a volume bound to it"


def test_a_claim_that_is_being_deleted_has_no_change() -> None:
    going = claim("c", volume="v", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert changes(case(pod(**uses("c"), **GROUPED), cluster=cluster([node("n1")], claims={"default/c": going}))) == []


def gang(minimum: int, count: int, nodes: Sequence[Any], cpu: str = "4", **more: Any) -> Case:
    mates = [task(pod(f"p-{i}", **GROUPED), {"cpu": cpu}, index=i) for i in range(1, count)]
    return case(
        pod("p-0", **GROUPED),
        {"cpu": cpu},
        mates=mates,
        pod_group=podgroup(minimum=minimum),
        cluster=cluster(nodes, **more),
    )


def test_a_gang_gets_nodes_room_or_a_lower_minimum() -> None:
    of = gang(4, 4, [node("n1", cpu="8")])
    found = changes(of)
    assert found[0].text == "PodGroup default/g: minMember 2 instead of 4"
    assert "2 more nodes like n1" not in [one.text for one in found], "one node of 8 takes two"
    assert "1 more node like n1" in [one.text for one in found]
    assert "n1: 8 more cpu" in [one.text for one in found]


def test_a_lower_minimum_is_no_help_to_the_member_that_then_stays_out() -> None:
    of = gang(4, 4, [node("n1", cpu="8")])
    assert of.group is not None
    last = of.group.tasks[3]
    assert last.pod is not None
    of.task, of.pod, of.uid, of.name = last, last.pod, last.uid, last.name
    assert not any(text.startswith("PodGroup") for text in texts(of))
    assert "1 more node like n1" in texts(of)


def test_nodes_are_made_to_measure_where_none_is_large_enough() -> None:
    found = texts(case(pod(**GROUPED), {"cpu": "40", "memory": "1Gi"}, cluster=cluster([node("n1", cpu="8")])))
    assert "1 new node with cpu 40, memory 32Gi" in found
    assert "p: ask for 8 cpu instead of 40" in found


def test_a_queue_is_made_opened_or_enlarged() -> None:
    closed = cluster([node("n1")], queues={"default": queue(state="Closed")})
    assert texts(case(pod(**GROUPED), cluster=closed)) == ["queue default: open it"]
    other = cluster([node("n1")], queues={"other": queue("other")})
    assert texts(case(pod(**GROUPED), cluster=other)) == ["queue default: create it"]
    held = new_resource({"cpu": "3"}).amounts()
    small = cluster([node("n1"), node("n2")], queues={"default": queue(held=held, capability={"cpu": "4"})})
    asked = {"cpu": 2000.0}
    of = case(pod(**GROUPED), cluster=small, pod_group=podgroup("Pending"), asked_min=asked)
    assert texts(of) == ["queue default: capability cpu 5 instead of 4"]


def test_a_cluster_that_is_too_small_for_the_gate_gets_nodes_that_also_take_the_pods() -> None:
    group = podgroup("Pending")
    of = case(
        pod(**GROUPED),
        {"cpu": "6"},
        cluster=cluster([node("n1", cpu="4")], queues={"default": queue()}),
        pod_group=group,
        asked_min={"cpu": 6000.0},
    )
    assert texts(of)[0] == "1 new node with cpu 6, memory 32Gi" or texts(of)[0].startswith("1 new node with cpu 6")


def test_a_share_is_raised_by_weight() -> None:
    held, wanted = ({"cpu": float(cpu), "pods": pods} for cpu, pods in ((8000, 4.0), (16000, 9.0)))
    queues = {"default": queue(held=held, asked=wanted), "other": queue("other", held=held, asked=wanted)}
    of = case(pod(**GROUPED), {"cpu": "2"}, cluster=cluster([node("n1", cpu="8"), node("n2", cpu="8")], queues=queues))
    of.cluster = replace(of.cluster, nodes=[node("n1", cpu="8", used={"cpu": 6000.0}), node("n2", cpu="8")])
    answer = explain(of)
    assert answer.verdict == "queue-overused"
    assert answer.changes[0].text == "queue default: weight 2 instead of 1"
    assert "1 more node like n1" in [one.text for one in answer.changes]


def test_a_queue_at_its_share_gets_room_from_its_own_pods() -> None:
    victims = [occupant("mine", "4"), occupant("theirs", "4", queue="other")]
    held, wanted = {"cpu": 4000.0, "pods": 1.0}, {"cpu": 8000.0, "pods": 9.0}
    queues = {"default": queue(held=held, asked=wanted), "other": queue("other", held=held, asked=wanted)}
    answer = explain(case(pod(**GROUPED), {"cpu": "2"}, cluster=full(*victims, queues=queues)))
    assert answer.verdict == "queue-overused"
    assert "evict 1 pod: default/mine on n1 (priority 1)" in [one.text for one in answer.changes]
    assert not any(one.text.startswith("evict 1 pod: default/theirs") for one in answer.changes)


def test_what_does_not_prove_is_not_given() -> None:
    of = case(pod(**GROUPED), {"cpu": "4"}, cluster=cluster([node("n1", cpu="2")]))
    assert smallest_changes(of, "no-node-fits") != []
    assert smallest_changes(of, "no-node-fits", prove=lambda world, held: False) == []


def test_every_change_that_is_given_lifts_the_last_obstacle() -> None:
    proven: list[str] = []

    def prove(world: Any, held: Held) -> bool:
        proven.append(obstacle(world, held))
        return proven[-1] == ""

    of = gang(3, 3, [node("n1", cpu="4"), node("n2", cpu="3"), node("n3", cpu="2", unschedulable=True)])
    assert obstacle(world_of(of), Held()) == "gang"
    found = smallest_changes(of, "gang-short", prove)
    assert len(found) == proven.count("")
    assert [one.size for one in found] == sorted(one.size for one in found)


def test_nothing_given_changes() -> None:
    of = gang(3, 3, [node("n1", cpu="4")])
    before = (repr(of.cluster.nodes), repr(of.group))
    smallest_changes(of, "gang-short")
    assert (repr(of.cluster.nodes), repr(of.group)) == before


def test_host_ports_make_room_by_eviction() -> None:
    port = {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    holder = pod("holder", uid="uid-holder", **port)
    there = occupant("holder", "1")
    world = cluster([node("n1")], pods=[placed(holder, "n1")], occupants=lambda name: [there])
    assert "evict 1 pod: default/holder on n1 (priority 1)" in texts(case(pod(**port, **GROUPED), cluster=world))


def test_the_text_has_one_line_and_all_with_full() -> None:
    answer = explain(case(pod(**GROUPED), {"cpu": "40"}, cluster=cluster([node("n1"), node("n2")])))
    assert len(answer.changes) > 2
    short = [line.text for line in lines(answer) if line.role == "change"]
    assert short == [f"Smallest change: {answer.changes[0].text} ({len(answer.changes) - 1} others with --full)"]
    assert len([line for line in lines(answer, full=True) if line.role == "change"]) == len(answer.changes)
    assert "Change" in plain(lines(answer))


@pytest.mark.parametrize("verdict_of", [pod(status={"phase": "Running"}, nodeName="n1", **GROUPED)])
def test_what_waits_for_nothing_has_none(verdict_of: Any) -> None:
    assert changes(case(verdict_of, status="Running")) == []


def members(of: Case) -> list[TaskView]:
    assert of.group is not None
    return list(of.group.tasks)


def test_a_minimum_beyond_all_bounds_is_lowered_and_its_members_are_not_tried_on() -> None:
    world = cluster([node("n1", cpu="16")])
    of = case(pod(**GROUPED), {"cpu": "1"}, cluster=world, pod_group=podgroup(minimum=2**31 - 1))
    assert texts(of) == ["PodGroup default/g: minMember 1 instead of 2147483647"]
