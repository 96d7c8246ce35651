"""Gates of queues: missing, closed, capability, overcommit, and the proportion plugin's share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.diagnosis.queues import deserved_shares, enqueue_gates, queue_gate, share_gate
from projections.diagnosis.views import Amounts, ClusterView, GroupView, QueueView
from tests.unit.diagnosis.build import cluster, node, obj
from volcano.objects.resource import new_resource


def amounts(**resources: str) -> Amounts:
    return {name: amount for name, amount in new_resource(resources).amounts().items() if amount}


def queue(name: str = "q", held: Amounts | None = None, asked: Amounts | None = None, **spec: Any) -> QueueView:
    state = spec.pop("state", "Open")
    inqueue = spec.pop("inqueue", {})
    body = obj("Queue", metadata={"name": name, "uid": name}, spec={"weight": 1, **spec}, status={"state": state})
    held = held or {}
    return QueueView(name=name, queue=body, allocated=held, requested=asked or held, inqueue=inqueue)


def group(queue_name: str = "q") -> GroupView:
    body = obj("PodGroup", metadata={"name": "g", "namespace": "default"}, spec={"minMember": 1, "queue": queue_name})
    return GroupView(namespace="default", name="g", pod_group=body, tasks=[])


def world(*queues: QueueView, **more: Any) -> ClusterView:
    return cluster(
        more.pop("nodes", [node("n1", cpu="8"), node("n2", cpu="8")]), queues={one.name: one for one in queues}
    )


def test_a_queue_that_is_not_there() -> None:
    gate = queue_gate("nowhere", world(queue()))
    assert gate is not None
    assert (gate.verdict, gate.text) == ("queue-missing", "queue nowhere does not exist")
    assert queue_gate("nowhere", world()) is None, "a log without queues says nothing about them"


@pytest.mark.parametrize(
    ("state", "verdict"), [("Closed", "queue-closed"), ("Closing", "queue-closed"), ("Open", None)]
)
def test_only_open_queues_take_jobs(state: str, verdict: str | None) -> None:
    gate = queue_gate("q", world(queue(state=state)))
    assert (gate.verdict if gate is not None else None) == verdict


def test_over_its_capability_with_numbers() -> None:
    held = amounts(cpu="3")
    [gate] = enqueue_gates(group(), amounts(cpu="2"), world(queue(held=held, capability={"cpu": "4"})))
    assert gate.verdict == "queue-over-capability"
    assert "cpu: asks 2 on top of 3 allocated or admitted, capability 4" in gate.text
    assert gate.said == "queue resource quota insufficient: insufficient cpu"


def test_a_resource_that_is_not_asked_or_not_limited_holds_nobody_back() -> None:
    held = amounts(cpu="4", memory="1Gi")
    full = queue(held=held, capability={"cpu": "4"})
    assert enqueue_gates(group(), amounts(memory="1Gi"), world(full)) == []


def test_the_overcommitted_cluster_counts_what_was_admitted() -> None:
    waiting = queue(inqueue=amounts(cpu="10"))
    [gate] = [
        one for one in enqueue_gates(group(), amounts(cpu="10"), world(waiting)) if one.verdict == "cluster-overused"
    ]
    assert "asks 10 on top of 10 already admitted, 19.2 left (cluster 16 x 1.2 - 0 used)" in gate.text
    assert gate.said == "resource in cluster is overused: overused cpu"
    assert enqueue_gates(group(), amounts(cpu="9"), world(queue())) == []


def test_shares_follow_the_weights_up_to_what_is_asked() -> None:
    small = queue("small", asked=amounts(cpu="2"), weight=1)
    large = queue("large", asked=amounts(cpu="100"), weight=1)
    shares = deserved_shares(world(small, large))
    assert shares["small"]["cpu"] == pytest.approx(2000)
    assert shares["large"]["cpu"] == pytest.approx(14000)


def test_a_queue_at_its_share_is_passed_over() -> None:
    greedy = queue("greedy", held=amounts(cpu="12"), asked=amounts(cpu="40"), weight=1)
    heavy = queue("heavy", held=amounts(cpu="4"), asked=amounts(cpu="40"), weight=3)
    gate = share_gate("greedy", amounts(cpu="2"), world(greedy, heavy))
    assert gate is not None
    assert gate.verdict == "queue-overused"
    assert "cpu: deserves 4, has 12, asks 2" in gate.text
    assert "beside heavy" in gate.text
    assert share_gate("heavy", amounts(cpu="2"), world(greedy, heavy)) is None


def test_a_resource_that_no_node_has_overuses_every_queue_that_asks_for_it() -> None:
    """The default-queue trap: attachments of a driver that no CSINode reports."""
    trapped = queue("default", asked={"cpu": 1000.0, "attachable-volumes-csi-ghost": 1.0})
    gate = share_gate("default", {"cpu": 1000.0, "attachable-volumes-csi-ghost": 1.0}, world(trapped))
    assert gate is not None
    assert "attachable-volumes-csi-ghost: deserves 0, has 0, asks 1" in gate.text


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 30)), min_size=1, max_size=5),
)
def test_shares_never_exceed_the_cluster_nor_what_is_asked(parts: list[tuple[int, int]]) -> None:
    queues = [
        queue(f"q{index}", asked={"cpu": float(asked * 1000)}, weight=weight)
        for index, (weight, asked) in enumerate(parts)
    ]
    shares = deserved_shares(world(*queues))
    assert sum(share.get("cpu", 0.0) for share in shares.values()) <= 16_000.01
    for view in queues:
        assert shares[view.name].get("cpu", 0.0) <= view.requested["cpu"] + 0.01
    if sum(asked for _, asked in parts) >= 16:
        assert sum(share.get("cpu", 0.0) for share in shares.values()) == pytest.approx(16_000, abs=1)
