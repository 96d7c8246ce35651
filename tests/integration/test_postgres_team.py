"""PostgreSQL for a team: many writers and followers on one ledger, retention beside them, a role that only reads.

Owns these tests. Each writer and follower is a process of its own (`tests.integration.team`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from eventstore import open_store
from tests.integration.team import deadlocks

ROOT = Path(__file__).parent.parent.parent
WRITERS = FOLLOWERS = 8
EVENTS = 1_000_000


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.integration.team", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str], seconds: float) -> dict[str, object]:
    out, errors = process.communicate(timeout=seconds)
    assert process.returncode == 0, errors
    found: dict[str, object] = json.loads(out)
    return found


@pytest.mark.slow
def test_eight_writers_and_eight_followers(postgres_url: str) -> None:
    """Every follower sees every event once and in order, whatever happens to the writers' transactions."""
    with open_store(postgres_url, create=True):
        pass
    followers = [start("follow", postgres_url, str(EVENTS)) for _ in range(FOLLOWERS)]
    writers = [start("write", postgres_url, str(number), str(EVENTS // WRITERS)) for number in range(WRITERS)]
    try:
        wrote = [said(process, 900) for process in writers]
        saw = [said(process, 900) for process in followers]
    finally:
        for process in writers + followers:
            process.kill()
    assert all(one["sent"] == EVENTS // WRITERS for one in wrote)
    for kind in ("rolled back", "slow", "cut"):
        assert sum(int(str(one[kind])) for one in wrote) > 0, kind
    assert saw[0]["position"] == EVENTS
    assert saw[0]["wrong"] == 0
    assert saw[0]["last"] == {f"w{number}": EVENTS // WRITERS for number in range(WRITERS)}
    assert saw == [saw[0]] * FOLLOWERS
    assert deadlocks(postgres_url) == 0
    with open_store(postgres_url) as store:
        assert store.head() == EVENTS
        assert store.verify().findings == []
