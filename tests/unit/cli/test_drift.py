"""`drift`: a mirror against the exact cache, on a cluster in which Volcano's best known bug shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Call
from vcledger import codec
from vcledger.ledger import Ledger

SECOND = 1_000_000
START = 1_780_000_000 * SECOND


def meta(name: str, version: int, namespace: str = "", uid: str = "") -> dict[str, Any]:
    found = {"name": name, "uid": uid or f"u-{name}", "resourceVersion": str(version)}
    return {**found, "namespace": namespace} if namespace else found


def node(name: str, version: int, uid: str = "") -> dict[str, Any]:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return {"metadata": meta(name, version, uid=uid), "status": {"allocatable": allocatable, "capacity": allocatable}}


def pod(name: str, version: int, node_name: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {**meta(name, version, "team"), "labels": labels},
        "spec": {
            "schedulerName": "volcano",
            "nodeName": node_name,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        },
        "status": {"phase": "Running"},
    }


Line = tuple[str, str, dict[str, Any]]


@pytest.fixture
def ledger_of(tmp_path: Path) -> Any:
    """`ledger_of(lines)`: a ledger of watch lines, one a second; its path."""

    def make(lines: list[Line]) -> Path:
        path = tmp_path / "ledger.db"
        events = [
            codec.observation_of(
                cluster="lab",
                kind=kind,
                change=change,
                payload=json.dumps(item).encode(),
                observed_at=START + number * SECOND,
            )
            for number, (change, kind, item) in enumerate(lines)
        ]
        with Ledger.open(str(path), create=True) as ledger:
            ledger.store.append(events)
        return path

    return make


RECREATED: list[Line] = [
    ("ADDED", "Node", node("n1", 1, "first")),
    ("ADDED", "Pod", pod("a", 2, "n1")),
    ("ADDED", "Pod", pod("b", 3, "n1")),
    ("DELETED", "Node", node("n1", 4, "first")),
    ("ADDED", "Node", node("n1", 5, "second")),
    ("MODIFIED", "Pod", pod("a", 6, "n1", touched="yes")),
]
"""A node goes and comes again under its name; then one of its two pods happens to change (fact 14)."""


def drifted(call: Call, path: Path, *words: str) -> dict[tuple[str, str], dict[str, Any]]:
    result = call("drift", "-o", "json", *words, db=path)
    assert result.exit_code == 0, result.output
    return {(row["name"], row["quantity"]): row for row in json.loads(result.stdout)}


def test_a_node_that_came_again_is_too_rich_until_its_pods_change(call: Call, ledger_of: Any) -> None:
    path = ledger_of(RECREATED)
    after_return = drifted(call, path, "--at", "5")
    idle = after_return["n1", "idle.cpu"]
    assert (idle["mirror"], idle["exact"], idle["began"]) == (4000, 2000, 5)
    assert ("n1", "tasks[team/a]") in after_return
    at_the_end = drifted(call, path)
    assert at_the_end["n1", "idle.cpu"]["mirror"] == 3000
    assert at_the_end["n1", "idle.cpu"]["began"] == 5, "it held on since then, only less"
    assert ("n1", "tasks[team/a]") not in at_the_end
    assert at_the_end["n1", "tasks[team/b]"]["began"] == 5


def test_a_difference_that_healed_and_came_back_began_when_it_came_back(call: Call, ledger_of: Any) -> None:
    healed: list[Line] = [
        *RECREATED,
        ("MODIFIED", "Pod", pod("b", 7, "n1", touched="yes")),
        ("DELETED", "Node", node("n1", 8, "second")),
        ("ADDED", "Node", node("n1", 9, "third")),
    ]
    path = ledger_of(healed)
    assert drifted(call, path, "--at", "7") == {}
    assert drifted(call, path)["n1", "idle.cpu"]["began"] == len(healed)


def test_a_long_record_is_looked_through_in_steps(call: Call, ledger_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answer whatever the steps back are."""
    monkeypatch.setattr("vcledger.drift.FIRST_STEP", 1)
    quiet: list[Line] = [("ADDED", "Pod", pod(f"p{number}", 100 + number, "n9")) for number in range(20)]
    path = ledger_of([*RECREATED, *quiet])
    found = drifted(call, path)
    assert found["n1", "idle.cpu"]["began"] == 5
    assert ("n9", "idle.cpu") not in found, "a placeholder counts nothing in either"


def test_the_table_names_the_event(call: Call, ledger_of: Any) -> None:
    text = call("drift", db=ledger_of(RECREATED)).stdout
    assert "quantities drifted" in text.splitlines()[0]
    line = next(line for line in text.splitlines() if "idle.cpu" in line)
    assert line.split()[:6] == ["node", "n1", "idle.cpu", "3", "2", "5"]


def test_what_a_job_has_left_of_a_podgroup_that_is_gone_is_no_drift(call: Call, unschedulable: Path) -> None:
    assert call("drift", db=unschedulable).stdout.endswith("no drift\n")
