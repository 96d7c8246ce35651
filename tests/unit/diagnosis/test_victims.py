"""Who could be evicted for whom, and why not: each rule of preempt, reclaim and the plugins that spare."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from projections.diagnosis.explain import explain
from projections.diagnosis.victims import rights
from projections.diagnosis.views import Rules
from projections.diagnosis.world import World
from tests.unit.diagnosis.build import cluster, node, pod, task
from tests.unit.diagnosis.test_changes import full, occupant, queue
from tests.unit.diagnosis.test_explain import GROUPED, case, podgroup
from tests.unit.diagnosis.test_gang import group

ROOMY = {"cpu": 2000.0, "pods": 2.0}


def world(priority: int | None = 10, rules: Rules | None = None, **queues: Any) -> World:
    """A pod of group default/g, in queue default, whose job has this priority; queue other holds more than it
    deserves."""
    own = task(pod("p", **GROUPED), {"cpu": "1"}, priority=5)
    held = {"cpu": 8000.0, "pods": 2.0}
    asked = {"cpu": 9000.0, "pods": 9.0}
    views = {
        "default": queue(held=ROOMY, asked=asked),
        "other": queue("other", held=held, asked=asked, **queues),
    }
    there = cluster([node("n1", cpu="10")], queues=views, rules=rules or Rules())
    return World(there, replace(group([own], 1), priority=priority), own, {})


@pytest.mark.parametrize(
    ("victim", "allowed", "how", "why"),
    [
        ({}, True, "preempt", ""),
        ({"queue": "other"}, True, "reclaim", ""),
        ({"job_priority": 10}, False, "by hand", "its job's priority 10 is not below 10"),
        ({"spare": 0}, False, "by hand", "its job default/other holds no more than its minimum (gang)"),
        (
            {"queue": "other", "spare": 0},
            False,
            "by hand",
            "its job default/other holds no more than its minimum (gang)",
        ),
        ({"preemptable": False}, False, "by hand", "not preemptable"),
        ({"critical": True}, False, "by hand", "system-critical (conformance)"),
        ({"ours": False}, False, "by hand", "not of a job that the scheduler looks after"),
        ({"job": ""}, False, "by hand", "not of a job that the scheduler looks after"),
        ({"job": "default/g", "priority": 1}, True, "preempt", ""),
        ({"job": "default/g", "priority": 5}, False, "by hand", "of the same job, priority 5 is not below 5"),
        ({"queue": "nowhere"}, False, "by hand", "its queue nowhere does not exist"),
    ],
)
def test_each_rule(victim: dict[str, Any], allowed: bool, how: str, why: str) -> None:
    there = world()
    assert there.task is not None
    assert rights(occupant("v", **victim), there.task, there) == (allowed, how, why)


def test_queues_that_are_not_reclaimable_or_hold_no_more_than_their_share() -> None:
    there, victim = world(reclaimable=False), occupant("v", queue="other")
    assert there.task is not None
    assert rights(victim, there.task, there).why == "queue other is not reclaimable"
    there = world()
    calm = replace(there.cluster.queues["other"], allocated={"cpu": 1000.0})
    there.cluster.queues = {**there.cluster.queues, "other": calm}
    assert there.task is not None
    assert rights(victim, there.task, there).why == "queue other holds no more than it deserves"


def test_plugins_that_are_not_configured_spare_nobody() -> None:
    there = world(rules=Rules(actions=("preempt",), keepers=("conformance",), reclaim_keepers=("conformance",)))
    assert there.task is not None
    assert rights(occupant("v", job_priority=99, spare=0), there.task, there).allowed
    assert rights(occupant("v", queue="other", spare=0), there.task, there).how == "reclaim"


def test_a_pod_that_never_preempts() -> None:
    there = world()
    never = task(pod("p", preemptionPolicy="Never", **GROUPED), {"cpu": "1"})
    assert rights(occupant("v"), never, there).why == "the pod's preemptionPolicy is Never"


def test_what_preemption_could_do_is_told_with_the_configuration() -> None:
    of = case(pod(**GROUPED), {"cpu": "4"}, cluster=full(occupant("low", "8", priority=0)), pod_group=podgroup())
    assert of.group is not None
    of.group = replace(of.group, priority=10)
    found = explain(of).preemption
    assert found is not None and found.actions is None
    assert found.nodes[0].preempt == ["default/low"] and found.nodes[0].enough
    assert "preempt could make room on n1: 1 pod may go there" in found.note and "--config" in found.note
    of.cluster = replace(of.cluster, rules=Rules(actions=("enqueue", "allocate")), memo={})
    of._table = of._trial = of._evaluation = of._fitting = None
    found = explain(of).preemption
    assert found is not None
    assert found.note.startswith("neither preempt nor reclaim is among the configured actions (enqueue, allocate)")


def test_no_preemption_where_room_is_not_what_lacks() -> None:
    tainted = node("n1", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    assert explain(case(pod(**GROUPED), cluster=cluster([tainted], occupants=lambda name: []))).preemption is None
