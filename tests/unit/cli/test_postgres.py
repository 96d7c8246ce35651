"""The commands on a PostgreSQL ledger: the same answers as on SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data import recording
from tests.unit.cli.conftest import Call

pytestmark = pytest.mark.postgres


@pytest.mark.slow
def test_a_database_url_answers_as_a_file_does(call: Call, unschedulable: Path, postgres_url: str) -> None:
    folder = recording("02")
    done = call("import", str(folder / "watch.jsonl.zst"), "--cluster", "lab", "--db", postgres_url)
    assert done.exit_code == 0, done.output
    for words in (
        ("get", "nodes", "-o", "wide", "--at", "marker:many-pending"),
        ("get", "tasks", "-A"),
        ("state",),
        ("log", "pod/anti-affinity-w-0"),
        ("diff", "--from", "marker:many-pending"),
        ("drift",),
        ("compare", str(folder / "volcano-cache-dump-1-many-pending.json.zst")),
    ):
        there, here = call(*words, "--db", postgres_url), call(*words, db=unschedulable)
        assert (there.exit_code, there.stdout) == (0, here.stdout), words
    assert call("verify", "--db", postgres_url).stdout.endswith("verified\n")
    assert call("stats", "--db", postgres_url).stdout.startswith("backend:   postgresql")
