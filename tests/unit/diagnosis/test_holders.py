"""The answers about queues and nodes in words: ten lines at most, what is left out counted."""

from __future__ import annotations

from projections.diagnosis.holders import HeldBack, Holder, NodeAnswer, QueueAnswer, node_lines, queue_lines
from projections.diagnosis.lines import table
from projections.diagnosis.model import Evidence, ResourceNumbers
from projections.diagnosis.numbers import members, queue_numbers, resource_numbers
from projections.diagnosis.text import LINES_MAX
from tests.unit.diagnosis.build import cluster, node, pod, task
from tests.unit.diagnosis.test_changes import queue
from tests.unit.diagnosis.test_explain import GROUPED, case, podgroup

PROOF = [Evidence(position=4, what="Queue q as last seen", proves="its weight")]


def numbers(resource: str) -> ResourceNumbers:
    return ResourceNumbers(
        resource=resource,
        asked="6",
        allocated="1",
        admitted="0",
        requested="7",
        deserved="4",
        capability="",
        guarantee="",
        cluster="8",
        cluster_used="2",
    )


def of_queue(holders: int, groups: int, resources: int = 3) -> QueueAnswer:
    return QueueAnswer(
        subject="Queue q",
        name="q",
        at=9,
        time="2026-01-01T00:00:00Z",
        verdict="held-back",
        summary="5 of its jobs wait",
        state="Open",
        weight=1,
        resources=[numbers(f"r{i}") for i in range(resources)],
        holders=[
            Holder(job=f"ns/j{i}", phase="Running", pods=2, amounts={"cpu": "2"}, share=0.5) for i in range(holders)
        ],
        held_back=[HeldBack(verdict=f"v{i}", count=2, summary="why", names=["a", "b"]) for i in range(groups)],
        waiting=5,
        waiting_total=5,
        evidence=PROOF,
        notes=["a note"],
    )


def test_a_queue_in_ten_lines_and_in_full() -> None:
    answer = of_queue(holders=9, groups=6, resources=7)
    short, full = queue_lines(answer), queue_lines(answer, full=True)
    assert len(short) == LINES_MAX
    assert "left out (--full)" in short[-2].text
    assert short[-1].text == "4 Queue q as last seen (recorded)"
    assert "and 5 more jobs" in next(line.text for line in short if line.role == "holder")
    texts = [line.text for line in full]
    assert sum(text.startswith("ns/j") for text in texts) == 9
    assert sum(text.startswith("2 v") for text in texts) == 6
    assert [line.text.split()[0] for line in full if line.role == "numbers"] == [
        "RESOURCE",
        *[f"r{i}" for i in range(7)],
    ]


def test_a_small_answer_is_told_whole() -> None:
    texts = [line.text for line in queue_lines(of_queue(holders=1, groups=1, resources=1))]
    assert texts[:2] == ["Queue q at position 9, 2026-01-01T00:00:00Z", "held-back: 5 of its jobs wait"]
    assert not any("left out" in text for text in texts)
    assert "ns/j0 cpu 2 (50%)" in texts


def test_a_node_in_words() -> None:
    answer = NodeAnswer(
        subject="Node n1",
        name="n1",
        at=9,
        time=None,
        verdict="would-take",
        summary="1 of 3 waiting pods would fit",
        state=["taints: gpu:NoSchedule"],
        allocatable={"cpu": "8"},
        idle={"cpu": "1"},
        releasing={"cpu": "2"},
        pods=3,
        pods_max=110,
        refused=[HeldBack(verdict="Insufficient cpu", count=2, summary="asks 4, idle 1", names=["ns/a", "ns/b"])],
        would_fit=[HeldBack(verdict="gang-short", count=1, summary="short by 1", names=["ns/c"])],
        asked_about=3,
        waiting_total=3,
        evidence=PROOF,
    )
    texts = [line.text for line in node_lines(answer)]
    assert texts[2:6] == [
        "taints: gpu:NoSchedule",
        "idle: cpu 1 of cpu 8; 3 of 110 pods; being released: cpu 2",
        "1 would fit, but gang-short: short by 1 (ns/c)",
        "2 Insufficient cpu: asks 4, idle 1 (ns/a, ns/b)",
    ]


def test_columns_stand_under_each_other() -> None:
    assert table(("A", "LONG"), [("xyz", "1"), ("q", "22")]) == ["A    LONG", "xyz  1", "q    22"]
    assert table(("A",), []) == []


def test_the_numbers_at_the_queue() -> None:
    view = queue(held={"cpu": 3000.0, "pods": 1.0}, asked={"cpu": 5000.0, "pods": 2.0}, capability={"cpu": "4"})
    of = case(
        pod(**GROUPED),
        cluster=cluster([node("n1"), node("n2")], queues={"default": view}),
        pod_group=podgroup("Pending"),
        asked_min={"cpu": 2000.0},
    )
    found = queue_numbers(of)
    assert found is not None
    assert (found.queue, found.state, found.weight, found.enqueued) == ("default", "Open", 1, False)
    assert len(found.gates) == 1 and "capability 4" in found.gates[0]
    cpu = found.resources[0]
    assert (cpu.resource, cpu.asked, cpu.allocated, cpu.requested, cpu.deserved) == ("cpu", "2", "3", "5", "4")
    assert (cpu.capability, cpu.guarantee, cpu.cluster, cpu.cluster_used) == ("4", "", "16", "0")
    assert [one.resource for one in resource_numbers(view, of.cluster, {})] == ["cpu", "pods"]


def test_each_member_has_its_state() -> None:
    mates = [
        task(pod("big", **GROUPED), {"cpu": "99"}, role="big"),
        task(pod("big-too", **GROUPED), {"cpu": "99"}, role="big", index=1),
        task(pod("runs", **GROUPED), {"cpu": "1"}, status="Running", node="n1"),
        task(pod("failed", **GROUPED), {"cpu": "1"}, status="Failed"),
        task(pod("gated", **GROUPED), {"cpu": "1"}, gated=True),
        task(pod("easy", **GROUPED)),
    ]
    found = {one.name: one.trial for one in members(case(pod(**GROUPED), mates=mates))}
    assert found == {
        "p": "could go to n1",
        "big": "fits on no node at its turn",
        "big-too": "passed over: big of its role fits nowhere",
        "runs": "holds its place",
        "failed": "does not count (Failed)",
        "gated": "has scheduling gates",
        "easy": "asks for nothing: placed by backfill",
    }
