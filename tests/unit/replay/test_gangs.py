"""Gangs that broke in a record, as a free replay reads it: the same count as a shadow makes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.replay.traces import Gang, group, member
from tests.unit.vcledger.build import node
from vcledger.replay.gangs import broken_in_record
from vcledger.replay.inputs import Input
from vcledger.replay.record import Record

GANG = Gang(2, 2, 4, 0, 30)


def broken(*more: tuple[int, str, str, dict[str, Any]], least: int = 2) -> int:
    """Of a gang of two on n0 that runs from second 2 on, and what happens then: (second, kind, change, object)."""
    gang = GANG._replace(least=least)
    told = [
        (0, "Node", "ADDED", node("n0", 1, cpu="8")),
        (0, "PodGroup", "ADDED", group(0, gang, 2)),
        *((1, "Pod", "ADDED", member(0, index, gang, 3, "", "Pending")) for index in range(2)),
        *((2, "Pod", "MODIFIED", member(0, index, gang, 4, "n0", "Running")) for index in range(2)),
        *more,
    ]
    record = Record(["volcano"])
    for position, (second, kind, change, obj) in enumerate(told, 1):
        record.see(Input(position, second * 1_000_000, kind, change, obj, obj))
    return broken_in_record(record)


def pod(index: int, phase: str = "Running", *, evicted: bool = False) -> dict[str, Any]:
    found = member(0, index, GANG, 9, "n0", phase)
    if evicted:
        found["metadata"]["deletionTimestamp"] = "2026-03-01T03:00:05Z"
        found["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "Evict"}]
    return found


@pytest.mark.parametrize(
    ("more", "least", "count"),
    [
        ([], 2, 0),
        ([(5, "Pod", "MODIFIED", pod(0, evicted=True))], 2, 1),
        ([(5, "Pod", "MODIFIED", pod(0, evicted=True))], 1, 0),
        ([(5, "Pod", "MODIFIED", pod(0, evicted=True)), (6, "Pod", "MODIFIED", pod(1, evicted=True))], 1, 1),
        ([(5, "Pod", "MODIFIED", pod(0, evicted=True)), (6, "Pod", "MODIFIED", pod(1, evicted=True))], 2, 1),
        ([(5, "Pod", "DELETED", pod(0))], 2, 0),
        ([(4, "Node", "DELETED", node("n0", 8)), (5, "Pod", "DELETED", pod(0))], 2, 1),
        ([(3, "Pod", "MODIFIED", pod(0, "Failed")), (5, "Pod", "MODIFIED", pod(1, evicted=True))], 2, 0),
        ([(3, "Pod", "MODIFIED", pod(0, "Succeeded")), (5, "Pod", "MODIFIED", pod(1, evicted=True))], 2, 1),
    ],
)
def test_a_gang_breaks_when_a_member_that_it_needs_is_taken(
    more: list[tuple[int, str, str, dict[str, Any]]], least: int, count: int
) -> None:
    assert broken(*more, least=least) == count
