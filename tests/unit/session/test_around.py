"""Counts by topology domain let the same nodes through as the checks that count anew for each pod, whatever a session
has placed, taken back and evicted, and whatever came after it.

Owns these laws. Called by pytest.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.session.world import CONF, Object, World, group, node, pod, queue
from vcledger.scheduler.session.feasible import ALL_CHECKS
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.run import close_session, open_session
from vcledger.scheduler.session.statement import Statement

KEYS = st.sampled_from(("zone", "kubernetes.io/hostname", "rack"))
LABELS = st.sampled_from(({"app": "a"}, {"app": "b"}, {"app": "a", "volcano.sh/task-index": "1"}, {}))


@st.composite
def terms(draw: st.DrawFn) -> list[Object]:
    """Required terms of affinity or anti-affinity."""
    made: list[Object] = []
    for _ in range(draw(st.integers(0, 2))):
        selector = {"matchLabels": draw(st.sampled_from(({"app": "a"}, {"app": "b"}, {})))}
        made.append({"labelSelector": selector, "topologyKey": draw(KEYS)})
    return made


@st.composite
def specs(draw: st.DrawFn) -> Object:
    """What a pod asks of others."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity: Object = {"podAffinity": {required: draw(terms())}, "podAntiAffinity": {required: draw(terms())}}
    if draw(st.booleans()):
        wanted = [{"key": "zone", "operator": "In", "values": ["a", "b"]}]
        affinity["nodeAffinity"] = {required: {"nodeSelectorTerms": [{"matchExpressions": wanted}]}}
    spread = [
        {
            "maxSkew": draw(st.integers(1, 2)),
            "topologyKey": draw(KEYS),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
            "minDomains": draw(st.sampled_from((None, 3))),
            "nodeAffinityPolicy": draw(st.sampled_from((None, "Ignore"))),
            "nodeTaintsPolicy": draw(st.sampled_from((None, "Honor"))),
        }
        for _ in range(draw(st.integers(0, 1)))
    ]
    return {"affinity": affinity, "topologySpreadConstraints": spread}


NODES = tuple(
    node(
        f"n{index}",
        cpu="40",
        labels={"zone": "abc"[index % 3], "kubernetes.io/hostname": f"n{index}"} | ({"rack": "r"} if index < 2 else {}),
        taints=[{"key": "t", "value": "", "effect": "NoSchedule"}] if index == 4 else None,
    )
    for index in range(5)
)


@st.composite
def placed(draw: st.DrawFn, name: str) -> Object:
    """A pod on a node."""
    on, deleting = f"n{draw(st.integers(0, 4))}", draw(st.integers(0, 4)) == 0
    return pod(name, "g", on=on, labels=draw(LABELS), spec=draw(specs()), deleting=deleting)


@st.composite
def waiting(draw: st.DrawFn) -> list[Object]:
    """Pending pods, the last two alike."""
    found = [pod(f"w{index}", "g", labels=draw(LABELS), spec=draw(specs())) for index in range(3)]
    return [*found, pod("w3", "g", labels=found[2]["metadata"]["labels"], spec=found[2]["spec"])]


def agrees(ssn: Session, tasks: list[SessionTask]) -> None:
    """Every task is let onto the same nodes by counts and by asking each."""
    feasible = ssn.feasible
    for task in tasks:
        if task.node or not task.like.looks:
            continue
        countable, counted = task.like.countable, feasible.mask(task, "none").tolist()
        fits = [feasible.fits_now(task, row) for row in range(len(ssn.nodes))]
        task.like.countable = False
        asked = feasible.mask(task, "none").tolist()
        assert fits == [feasible.fits_now(task, row) for row in range(len(ssn.nodes))]
        task.like.countable = countable
        assert countable
        assert counted == asked


def opened(world: World) -> tuple[Session, list[SessionTask]]:
    world.mirror.refresh()
    ssn = open_session(world.mirror, CONF)
    ssn.checks = ALL_CHECKS
    world.mirror.feasible.open(ssn)
    return ssn, ssn.jobs["d/g"].pending()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_counts_by_domain_let_the_nodes_through_that_are_let_through_one_by_one(data: Any) -> None:
    there = [data.draw(placed(f"r{index}")) for index in range(4)]
    world = World(queue(), *NODES, group("g"), *there, *data.draw(waiting()))
    for late in range(2):
        ssn, tasks = opened(world)
        if data.draw(st.booleans()):
            agrees(ssn, tasks)
        kept, statement = Statement(ssn), Statement(ssn)
        kept.allocate(tasks[3], f"n{data.draw(st.integers(0, 4))}")
        agrees(ssn, tasks)
        statement.allocate(tasks[0], f"n{data.draw(st.integers(0, 4))}")
        running = ssn.jobs["d/g"].tasks["r1-u"]
        if running.status != 128:
            statement.evict(running, "room", "preempt")
        agrees(ssn, tasks)
        statement.discard()
        agrees(ssn, tasks)
        close_session(ssn)
        world.lose(there[0]) if late == 0 else world.see(node("n1", labels={"zone": "c"}))
        world.see(data.draw(placed("r2")), data.draw(placed(f"s{late}")))
    ssn, tasks = opened(world)
    agrees(ssn, tasks)
    close_session(ssn)
