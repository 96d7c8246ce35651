"""Recorder and scheduler killed at any moment, on a real API server, SQLite and PostgreSQL: thirty times in all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kube import crashes
from tests.kube.control_plane import ControlPlane

pytestmark = pytest.mark.slow

SEED = 20261129
RECORDER_RUNS, SCHEDULER_RUNS = 7, 8


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.postgres)])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A database for a ledger: its kind, and its path or URL."""
    if request.param == "SQLite":
        return "SQLite", str(tmp_path / "ledger.db")
    return "PostgreSQL", request.getfixturevalue("postgres_url")


def test_the_recorder_killed_at_any_moment(clean_plane: ControlPlane, ledger: tuple[str, str]) -> None:
    database, db = ledger
    report = crashes.recorder(clean_plane, db, database, runs=RECORDER_RUNS, seed=SEED)
    assert report.written > 50
    print(report.line())


def test_the_scheduler_killed_at_any_moment(clean_plane: ControlPlane, ledger: tuple[str, str]) -> None:
    database, db = ledger
    with clean_plane.controllers():
        report = crashes.scheduler(clean_plane, db, database, runs=SCHEDULER_RUNS, seed=SEED)
    assert report.written >= SCHEDULER_RUNS
    print(report.line())
