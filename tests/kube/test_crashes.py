"""Recorder and scheduler killed at any moment, on a real API server, SQLite and PostgreSQL: thirty times in all. And
with PostgreSQL restarted under them, and with the disk full."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kube import crashes
from tests.kube.control_plane import ControlPlane
from tests.postgres import restartable_server

pytestmark = pytest.mark.slow

SEED = 20261129
RECORDER_RUNS, SCHEDULER_RUNS = 7, 8
REFUSES, WORKS = "the ledger refuses", "the ledger works again"


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


# --- the ledger fails under them ----------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[Any]:
    """A PostgreSQL of the test's own, that can be stopped."""
    with restartable_server() as one:
        yield one


@contextmanager
def gone(server: Any, *, crash: bool) -> Iterator[None]:
    """While it lasts the server is gone, as one stops it or as it crashes."""
    if crash:
        process = psutil.Process(server.get_pid())
        process.send_signal(signal.SIGQUIT)
        psutil.wait_procs([process], timeout=120)
    else:
        server.stop()
    yield
    server.start()


def told(child: crashes.Child, word: str) -> int:
    """How often it has said so."""
    return sum(word in line for line in child.lines)


@pytest.mark.postgres
def test_the_recorder_while_postgresql_restarts(clean_plane: ControlPlane, server: Any) -> None:
    db = crashes.new_database(server.get_uri(), "restarts")
    with crashes.recording(clean_plane, db, seed=SEED) as (child, writer):
        for crash in (False, True, False):
            refused, worked = told(child, REFUSES), told(child, WORKS)
            with gone(server, crash=crash):
                crashes.wait_until(lambda refused=refused: told(child, REFUSES) > refused, "it is noticed", child)  # type: ignore[misc]
            crashes.wait_until(lambda worked=worked: told(child, WORKS) > worked, "it goes on", child)  # type: ignore[misc]
        crashes.catch_up(clean_plane, db, child, writer)
    crashes.is_sound(db)


@pytest.mark.postgres
def test_the_scheduler_while_postgresql_restarts(clean_plane: ControlPlane, server: Any) -> None:
    db = crashes.new_database(server.get_uri(), "restarts")
    with clean_plane.controllers(), crashes.scheduling(clean_plane, db, seed=SEED) as (child, arrive):
        for crash in (False, True, False):
            arrive(3)
            with gone(server, crash=crash):
                time.sleep(1.0)
            arrive(2)
        crashes.all_placed(clean_plane, db, child)
    crashes.is_sound(db)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that is soon full; `larger` makes room. Where it cannot be mounted the test is left out, but on a
    machine that tests for all (CI is set) that is a failure."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    said = subprocess.run(mount, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        why = f"the small file system that this fills takes root's rights to mount: {said.stderr.strip()}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(why)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def larger(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)


def test_the_recorder_with_the_disk_full(clean_plane: ControlPlane, small_disk: Path) -> None:
    """It waits, tells, and goes on when there is room: nothing is lost that no gap is on record for."""
    db = str(small_disk / "ledger.db")
    with crashes.recording(clean_plane, db, seed=SEED, ballast=60_000) as (child, writer):
        crashes.wait_until(lambda: any("no room left" in line for line in child.lines), "the disk is full", child)
        time.sleep(2.0)
        larger(small_disk)
        crashes.catch_up(clean_plane, db, child, writer)
    assert any("the ledger works again" in line for line in child.lines)
    crashes.is_sound(db)


def test_the_scheduler_with_the_disk_full(clean_plane: ControlPlane, small_disk: Path) -> None:
    """It takes no decision that it cannot write down, and goes on when there is room."""
    db = str(small_disk / "ledger.db")
    with clean_plane.controllers(), crashes.scheduling(clean_plane, db, seed=SEED, ballast=60_000) as (child, arrive):
        for _ in range(120):  # more than there is room for
            if told(child, "no room left"):
                break
            arrive(1)
        crashes.wait_until(lambda: told(child, "no room left") > 0, "the disk is full", child)
        arrive(2)
        time.sleep(2.0)
        bound = {key for key, node in crashes.nodes_of(clean_plane).items() if node}
        assert bound <= crashes.asked_for(db)  # looked at later, so that what was asked for meanwhile is in it
        larger(small_disk)
        crashes.all_placed(clean_plane, db, child)
    assert any("the ledger works again" in line for line in child.lines)
    crashes.is_sound(db)
