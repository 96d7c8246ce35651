"""The log against the model of it that ships with it, on SQLite and on PostgreSQL."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from eventstore import open_store
from eventstore.store import EventStore
from eventstore.testing import START
from eventstore.testing.machine import LogMachine
from vcledger.testing import profiles


class SQLiteMachine(LogMachine):
    def open_ledger(self) -> EventStore:
        if not hasattr(self, "folder"):
            self.folder = tempfile.mkdtemp()
        return open_store(str(Path(self.folder) / "ledger.db"), create=True, clock=lambda: START)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.folder)


@pytest.mark.slow
def test_on_sqlite() -> None:
    wanted = settings(profiles.machine(30, 20, nightly=10_000), suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(SQLiteMachine, settings=wanted)


@pytest.mark.slow
@pytest.mark.postgres
def test_on_postgres(postgres_url: str) -> None:
    """Few runs, as a server takes longer."""

    class PostgresMachine(LogMachine):
        def open_ledger(self) -> EventStore:
            if not hasattr(self, "clean"):
                self.clean = True
                with psycopg.connect(postgres_url, autocommit=True) as connection:
                    connection.execute("DROP SCHEMA public CASCADE")
                    connection.execute("CREATE SCHEMA public")
            return open_store(postgres_url, create=True, clock=lambda: START)

    wanted = settings(profiles.machine(5, 15, nightly=2_000), suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(PostgresMachine, settings=wanted)
