"""`vcledger replay` from the command to the report, with the session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Call
from tests.unit.replay.traces import Gang, Stage, group, ledger_of, member, queue
from tests.unit.vcledger.build import node, seen
from vcledger.ledger import Ledger

STAGE = Stage((4,), (Gang(1, 1, 4, 0, 30), Gang(1, 1, 4, 1, 30)))
"""One node, so that nobody has a choice."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(ledger_of(STAGE, tmp_path_factory.mktemp("trace") / "trace.db"))


def unplaced(folder: Path) -> Path:
    """A record that says that a pod ran, but not where."""
    gang = Gang(1, 1, 4, 0, 10)
    path = folder / "unplaced.db"
    with Ledger.open(str(path), create=True) as ledger:
        ledger.store.append(
            [
                seen("ADDED", queue("default", 1), 0),
                seen("ADDED", node("n0", 2, cpu="8"), 0),
                seen("ADDED", group(0, gang, 3), 1),
                seen("ADDED", member(0, 0, gang, 4, "", "Pending"), 1),
                seen("MODIFIED", member(0, 0, gang, 5, "", "Running"), 2),
            ]
        )
    return path


def test_the_report_of_a_free_replay(call: Call, trace: Path) -> None:
    result = call("replay", "--mode", "free", "--expect", "same", db=trace)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("free replay of c, positions 1 to ")
    assert "       2  same node" in result.stdout
    assert "no divergence: every decision is the same" in result.stdout
    assert "queue default" in result.stdout


def test_as_json(call: Call, trace: Path) -> None:
    result = call("replay", "--mode", "free", "-o", "json", db=trace)
    (told,) = json.loads(result.stdout)["replays"]
    assert told["result"]["placed"] == 2
    assert told["result"]["divergence"] is None


def test_a_divergence_is_told_with_both_reasons_and_fails_the_check(call: Call, tmp_path: Path) -> None:
    gang = Gang(1, 1, 4, 0, 10)
    path = tmp_path / "odd.db"
    with Ledger.open(str(path), create=True) as ledger:
        ledger.store.append(
            [
                seen("ADDED", queue("default", 1), 0),
                seen("ADDED", node("n0", 2, cpu="2"), 0),
                seen("ADDED", group(0, gang, 3), 1),
                seen("ADDED", member(0, 0, gang, 4, "", "Pending"), 1),
                seen("MODIFIED", member(0, 0, gang, 5, "n0", "Running"), 2),
            ]
        )
    result = call("replay", "--expect", "same", db=path)
    assert result.exit_code == 1
    assert "first divergence, of 1: position 5, default/g0-0: a node that is refused here" in result.stdout
    assert "placed on n0, which is refused here: Insufficient cpu" in result.stdout
    assert "  here      " in result.stdout


def test_nothing_to_compare_is_no_agreement(call: Call, tmp_path: Path) -> None:
    path = unplaced(tmp_path)
    for mode in ("shadow", "free"):
        result = call("replay", "--mode", mode, "--expect", "same", db=path)
        assert result.exit_code == 1
        assert "nothing could be compared" in result.stdout
        assert "--expect same: nothing could be compared" in result.stderr


@pytest.mark.parametrize("mode", ["shadow", "free"])
def test_a_result_holds_the_invariants(call: Call, trace: Path, tmp_path: Path, mode: str) -> None:
    out = tmp_path / "out.db"
    assert call("replay", "--mode", mode, "--out", str(out), db=trace).exit_code == 0
    checked = call("check", db=out)
    assert checked.exit_code == 0, checked.output
    assert " 0 broken" in checked.stdout
