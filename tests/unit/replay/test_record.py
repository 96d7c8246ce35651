"""What a free replay reads out of a record."""

from __future__ import annotations

from typing import Any

from tests.unit.replay.traces import Gang, group, member
from vcledger.replay.inputs import Input
from vcledger.replay.record import Record

GANG = Gang(2, 2, 1, 0, 5)


def listed(position: int, kind: str, obj: dict[str, Any]) -> Input:
    return Input(position, 0, kind, "ADDED", obj, obj, listed=True)


def test_pods_that_stand_before_their_group_at_the_beginning_are_its_pods() -> None:
    record = Record(["volcano"])
    for index in range(2):
        record.see(listed(1 + index, "Pod", member(0, index, GANG, 1 + index, "n0", "Running")))
    record.see(listed(3, "PodGroup", {**group(0, GANG, 3), "status": {"phase": "Running"}}))
    (found,) = record.groups.values()
    assert [life.name for life in found.lives] == ["g0-0", "g0-1"]


def test_pods_that_were_gone_before_their_group_came_are_none_of_it() -> None:
    record = Record(["volcano"])
    pod = member(0, 0, GANG, 1, "", "Pending")
    record.see(Input(1, 0, "Pod", "ADDED", pod, pod))
    record.see(Input(2, 1, "Pod", "DELETED", pod, pod))
    made = group(0, GANG, 3)
    record.see(Input(3, 2, "PodGroup", "ADDED", made, made))
    (found,) = record.groups.values()
    assert found.lives == []
