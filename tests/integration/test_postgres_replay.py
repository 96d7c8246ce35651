"""Replays of a ledger on PostgreSQL: worker processes open it themselves, and a result can be kept there."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.postgres import database_url
from tests.unit.replay.test_workers import MORE, told
from tests.unit.replay.traces import Gang, Stage, ledger_of
from vcledger.ledger import Ledger
from vcledger.replay.digest import result_digest
from vcledger.replay.engine import ReplayPlan
from vcledger.replay.variants import Trace, make_jobs
from vcledger.replay.workers import run_jobs

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

STAGE = Stage((4, 2), tuple(Gang(2, 2, 1 + n % 2, n * 4, 9) for n in range(6)))
PLAN = ReplayPlan(mode="free", seed=2)


def test_from_and_to_postgresql_it_is_the_same(postgres_url: str, postgres_server: str, tmp_path: Path) -> None:
    ledger_of(STAGE, postgres_url)
    local = ledger_of(STAGE, str(tmp_path / "local.db"))
    expected = told(run_jobs(make_jobs(PLAN, {}, [MORE], [Trace(local, "c")])))
    found = run_jobs(make_jobs(PLAN, {}, [MORE], [Trace(postgres_url, "c")]), workers=2)
    assert told(found) == expected

    name = f"{postgres_url.rpartition('/')[2].partition('?')[0]}_result"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        try:
            out = database_url(postgres_server, name)
            (kept,) = run_jobs(make_jobs(PLAN, {}, [], [Trace(postgres_url, "c")], out=out))
            assert told([kept]) == expected[:1]
            with Ledger.open(out, read_only=True) as ledger:
                digest = result_digest(ledger)
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    (here,) = run_jobs(make_jobs(PLAN, {}, [], [Trace(local, "c")], out=str(tmp_path / "result.db")))
    assert told([here]) == expected[:1]
    with Ledger.open(str(tmp_path / "result.db"), read_only=True) as ledger:
        assert result_digest(ledger) == digest
