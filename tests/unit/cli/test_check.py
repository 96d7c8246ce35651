"""`vcledger check`: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Call
from vcledger import codec
from vcledger.ledger import Ledger
from volcano.events.base import Subject
from volcano.events.binding import BindRequested, BindSucceeded

POD = Subject("Pod", "ns", "p", "u")


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A ledger in which a pod is bound twice: at positions 2 and 3."""
    path = str(tmp_path / "check.db")
    with Ledger.open(path, create=True) as ledger:
        for number, event in enumerate((BindRequested(node="n"), BindSucceeded(node="n"), BindSucceeded(node="n")), 1):
            ledger.store.append([codec.domain("c", POD, event, number * 1_000_000)])
    return path


def test_a_broken_invariant_is_exit_1_and_its_position(call: Call, db: str) -> None:
    result = call("check", "--db", db)
    assert result.exit_code == 1
    row = next(line for line in result.stdout.splitlines() if "bound-once" in line)
    assert "broken at 3" in row
    assert "ns/p was bound already at position 2" in row
    assert result.stdout.splitlines()[-1] == "3 held, 1 broken, 8 not applicable"


def test_up_to_a_moment_before_it_all_is_well(call: Call, db: str) -> None:
    result = call("check", "--db", db, "--at", "2")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "4 held, 0 broken, 8 not applicable")


def test_as_data(call: Call, db: str) -> None:
    result = call("check", "--db", db, "-o", "json")
    assert result.exit_code == 1
    rows = json.loads(result.stdout)
    assert [row["number"] for row in rows] == list(range(1, 13))
    broken = [row for row in rows if row["outcome"] == "broken"]
    assert [(row["name"], row["position"]) for row in broken] == [("bound-once", 3)]


def test_a_moment_outside_the_record_and_a_pruned_record_are_noted(call: Call, db: str) -> None:
    result = call("check", "--db", db, "--at", "2036-01-01T00:00:00Z")
    assert result.exit_code == 1 and result.stderr.startswith("note: ") and "2036-01-01" in result.stderr
    with Ledger.open(db) as ledger:
        ledger.prune(3)
    result = call("check", "--db", db)
    assert "note: the record was pruned up to position 2: checked from the state there on" in result.stderr


def test_misuse_is_one_line(call: Call, db: str, tmp_path: Path) -> None:
    for args in (("--db", db, "-o", "name"), ("--db", str(tmp_path / "none.db")), ("--db", db, "--at", "99")):
        result = call("check", *args)
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
