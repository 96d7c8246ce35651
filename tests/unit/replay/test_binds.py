"""Binds that take time in a free replay, as they did in the record: failed ones, and volumes that are made first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventstore.types import NewEvent
from tests.unit.replay.test_free import free, lives, told
from tests.unit.replay.traces import Gang, group, member, queue
from tests.unit.vcledger.build import node, seen
from vcledger.ledger import Ledger
from vcledger.replay import freely
from vcledger.replay.engine import ReplayResult

ONE, OTHER = Gang(1, 1, 4, 0, 10), Gang(1, 1, 6, 0, 10)


def failed(pod: dict[str, Any], reason: str = "SchedulerError") -> dict[str, Any]:
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": "no"}]
    return pod


def using(pod: dict[str, Any]) -> dict[str, Any]:
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return pod


def claim(version: int, phase: str = "Pending", *, on: str = "") -> dict[str, Any]:
    annotations = {"annotations": {"volume.kubernetes.io/selected-node": on}} if on else {}
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "metadata": {
            "name": "data", "namespace": "default", "uid": "data-u", "resourceVersion": str(version), **annotations,
        },
        "spec": {"accessModes": ["ReadWriteOnce"]},
        "status": {"phase": phase},
    }  # fmt: skip


def record(*more: NewEvent, nodes: int = 1) -> list[NewEvent]:
    return [
        seen("ADDED", queue("default", 1), 0),
        *(seen("ADDED", node(f"n{number}", 2, cpu="8"), 0) for number in range(nodes)),
        seen("ADDED", group(0, ONE, 3), 0),
        *more,
    ]


def failing(*, until: float | None, runs: bool = True) -> list[NewEvent]:
    """A pod whose binds fail from second 2 on, until a second, and then it runs for ten; None: to the end (20)."""
    events = [
        seen("ADDED", member(0, 0, ONE, 4, "", "Pending"), 1),
        seen("MODIFIED", failed(member(0, 0, ONE, 5, "", "Pending")), 2),
        seen("ADDED", group(1, OTHER, 6), 3),
        seen("ADDED", member(1, 0, OTHER, 7, "", "Pending"), 3),
    ]
    if until is not None:
        events += [
            seen("MODIFIED", member(0, 0, ONE, 8, "n0", "Running"), until),
            seen("MODIFIED", member(0, 0, ONE, 9, "n0", "Succeeded"), until + 10),
        ]
    return record(*events, seen("ADDED", node("last", 10, cpu="1"), 40))


def replayed(events: list[NewEvent], folder: Path, **how: Any) -> ReplayResult:
    path = folder / "source.db"
    if not path.exists():
        with Ledger.open(str(path), create=True) as made:
            made.store.append(events)
    with Ledger.open(str(path), read_only=True) as source:
        return free(source, folder / how.pop("out", "out.db"), **how)


def test_a_bind_that_failed_there_fails_here_as_long_and_holds_its_room(tmp_path: Path) -> None:
    result = replayed(failing(until=7), tmp_path)
    history = lives(tmp_path / "out.db", "g0-0")
    assert [(one[0], one[2], one[3]) for one in history] == [
        (1.0, "Pending", ""), (6.0, "Pending", "n0"), (6.0, "Running", "n0"), (16.0, "Succeeded", "n0"),
    ]  # fmt: skip
    assert lives(tmp_path / "out.db", "g1-0")[1][:1] == (16.0,), "who asks for the same room waits until it is free"
    assert (result.placed, result.waits[""].p50) == (2, 5.0)


def test_a_bind_that_never_went_through_there_does_not_here(tmp_path: Path) -> None:
    result = replayed(failing(until=None), tmp_path)
    assert [one[1:] for one in lives(tmp_path / "out.db", "g0-0")] == [("Added", "Pending", "")]
    assert (result.placed, result.pending, result.pending_recorded) == (0, 2, 2)
    assert result.counts.neither == 2


def test_failures_that_were_over_when_the_pod_was_left_waiting_are_over_here(tmp_path: Path) -> None:
    events = failing(until=None)
    events.insert(-1, seen("MODIFIED", failed(member(0, 0, ONE, 8, "", "Pending"), "Unschedulable"), 5))
    assert replayed(events, tmp_path).counts.only_here == 1


@pytest.mark.parametrize(("bound", "running"), [(9.0, 8.0), (None, None)])
def test_a_volume_that_is_made_first_takes_as_long_as_it_took(
    tmp_path: Path, bound: float | None, running: float | None
) -> None:
    events = [
        seen("ADDED", claim(4), 0),
        seen("ADDED", using(member(0, 0, ONE, 5, "", "Pending")), 1),
        seen("MODIFIED", claim(6, on="n0"), 2),
    ]
    if bound is not None:
        events += [
            seen("MODIFIED", claim(7, "Bound", on="n0"), bound),
            seen("MODIFIED", using(member(0, 0, ONE, 8, "n0", "Running")), bound + 1),
        ]
    result = replayed(record(*events), tmp_path)
    runs = [one[0] for one in lives(tmp_path / "out.db", "g0-0") if one[2] == "Running"]
    assert runs == ([] if running is None else [running])
    assert (result.pending, result.pending_recorded) == ((1, 1) if bound is None else (0, 0))


def test_who_is_being_bound_to_a_node_that_goes_waits_again(tmp_path: Path) -> None:
    events = failing(until=9)
    gone = seen("DELETED", node("n0", 11, cpu="8"), 4)
    back = seen("ADDED", {**node("n1", 12, cpu="8")}, 5)
    events[7:7] = [gone, back]
    replayed(events, tmp_path)
    assert [one[3] for one in lives(tmp_path / "out.db", "g0-0")][-1] == "n1"


@pytest.mark.parametrize("steps", [2, 3, 5, 6])
def test_goes_on_in_the_middle_of_a_bind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.setattr(freely, "TOLD_EACH", 1)
    left = [steps]

    def stop() -> bool:
        left[0] -= 1
        return left[0] <= 0

    whole = replayed(failing(until=7), tmp_path, out="whole.db")
    replayed([], tmp_path, out="part.db", stop=stop)
    done = replayed([], tmp_path, out="part.db", resume=True)
    assert told(tmp_path / "part.db") == told(tmp_path / "whole.db")
    assert msgspec.structs.replace(done, ledger=whole.ledger) == whole
