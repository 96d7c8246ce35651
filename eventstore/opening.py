"""Opening a ledger: which database, what is there, and at which revision of the schema.

Owns the way from a `db` text to a backend that is known to hold a ledger of this version. Must not know events. Called
by `eventstore.store`.

Migrations lie in the folder `migrations` beside this package, and are found by that path: a user's own package of that
name is never imported.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL, Connection, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from eventstore import schema
from eventstore.backend import Backend, translated
from eventstore.sqlite import SQLiteBackend
from eventstore.types import (
    EventStoreError,
    LedgerMissing,
    LedgerNewer,
    LedgerOutdated,
    LedgerUnwritable,
    NotALedger,
    PlaceMissing,
)

MIGRATIONS = Path(__file__).resolve().parent.parent / "migrations"


def open_backend(db: str, *, create: bool, read_only: bool, upgrade: bool, busy_timeout_seconds: float) -> Backend:
    """The database of a ledger, checked and if asked created or brought forward. `db` is a path or a SQLAlchemy URL."""
    if "://" not in db:
        return _open_sqlite(Path(db), create, read_only, upgrade, busy_timeout_seconds)
    try:
        url = make_url(db)
    except ArgumentError as error:
        raise NotALedger(f"{db!r} is neither a path nor a database URL") from error
    backend = url.get_backend_name()
    if backend == "sqlite":
        if not url.database or url.database == ":memory:":
            raise NotALedger("a ledger in memory would be lost: give a path")
        return _open_sqlite(Path(url.database), create, read_only, upgrade, busy_timeout_seconds)
    if backend in ("postgresql", "postgres"):
        return _open_postgres(url, create, read_only, upgrade, busy_timeout_seconds)
    raise NotALedger(f"{backend} holds no ledgers: give a path, or a postgresql:// URL")


def _open_sqlite(path: Path, create: bool, read_only: bool, upgrade: bool, busy_timeout_seconds: float) -> Backend:
    there = path.exists()
    if path.is_dir():
        raise NotALedger(f"{path} is a folder: give the path of a ledger file")
    if not there and (not create or read_only):
        raise LedgerMissing(f"there is no ledger at {path}")
    if not there and not path.absolute().parent.is_dir():
        raise PlaceMissing(f"the folder {path.absolute().parent} is not there: make it first")
    backend = SQLiteBackend(path, busy_timeout_seconds=busy_timeout_seconds, read_only=read_only, create=create)
    try:
        if not there or _is_blank(backend, create and not read_only):
            _prepare_file(backend)
        bring_up(backend, create=create, upgrade=upgrade, read_only=read_only)
    except LedgerMissing as error:
        backend.close()
        if there:
            raise
        raise LedgerUnwritable(
            f"no ledger can be made at {path}: the folder cannot be written, take another place"
        ) from error
    except BaseException:
        backend.close()
        raise
    return backend


def _open_postgres(url: URL, create: bool, read_only: bool, upgrade: bool, busy_timeout_seconds: float) -> Backend:
    from eventstore.postgres import PostgresBackend

    backend = PostgresBackend(url, busy_timeout_seconds=busy_timeout_seconds, read_only=read_only)
    try:
        bring_up(backend, create=create, upgrade=upgrade, read_only=read_only)
    except BaseException:
        backend.close()
        raise
    return backend


def _is_blank(backend: SQLiteBackend, create: bool) -> bool:
    """Whether the file is about to become a ledger, as it holds nothing: no bytes, or no table (the disk was full when
    somebody wanted to make one, or somebody is making one right now). NotALedger unless it is that or a ledger."""
    found = _looked_into(backend) if backend.path.stat().st_size else _Held(tables=0, application=0)
    if found.application == schema.APPLICATION_ID:
        return False
    if found.tables or found.application:
        raise NotALedger(f"{backend.where} is a SQLite database, but not a ledger")
    if not create:
        raise NotALedger(f"{backend.where} is empty, not a ledger")
    return True


class _Held(NamedTuple):
    """What a SQLite file holds: how many tables and such, and its application_id."""

    tables: int
    application: int


def _looked_into(backend: SQLiteBackend) -> _Held:
    try:
        return _held(backend)
    except EventStoreError:
        # In a folder that cannot be written SQLite cannot make its helper files; without a log that waits to be
        # written back, the file alone is the whole ledger.
        wal = Path(f"{backend.where}-wal")
        if backend._mode != "ro" or (wal.exists() and wal.stat().st_size):
            raise
        backend.read_as_it_stands()
        return _held(backend)


def _held(backend: SQLiteBackend) -> _Held:
    with translated(backend), backend.reading() as connection:
        tables = connection.execute(text("SELECT count(*) FROM sqlite_master")).scalar_one()
        return _Held(tables, connection.execute(text("PRAGMA application_id")).scalar_one())


def _prepare_file(backend: SQLiteBackend) -> None:
    """What a SQLite file is told once, outside of any transaction."""
    with translated(backend), backend.engine.connect() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        mode = raw.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise LedgerUnwritable(f"the file system of {backend.where} cannot hold a write-ahead log: use another one")


def bring_up(backend: Backend, *, create: bool, upgrade: bool, read_only: bool = False) -> None:
    """Makes the tables, migrates them, or refuses, by what the database says about itself."""
    with translated(backend), backend.reading() as connection:
        revision = found_revision(backend, connection)
    if revision == schema.REVISION:
        return
    if revision is None:
        if not create or read_only:
            raise LedgerMissing(f"there is no ledger in {backend.where}")
    elif revision not in schema.REVISIONS:
        raise LedgerNewer(
            f"{backend.where} was made by a newer version of vcledger (schema {revision}): upgrade vcledger"
        )
    elif read_only and revision in schema.READABLE:
        return
    elif not upgrade or read_only:
        raise LedgerOutdated(
            f"{backend.where} has schema {revision}, this version needs {schema.REVISION}: bring it forward first"
        )
    with translated(backend), backend.writing() as connection:
        # Another process may have been first while this one waited for its turn.
        if found_revision(backend, connection) != schema.REVISION:
            migrate(connection, schema.REVISION)


def found_revision(backend: Backend, connection: Connection) -> str | None:
    """The ledger's revision, None when the database is empty. NotALedger when it holds something else."""
    tables = inspect(connection).get_table_names()
    if not tables:
        return None
    if "alembic_version" not in tables or not {"events", "batches", "streams"} <= set(tables):
        raise NotALedger(f"{backend.where} holds something else, not a ledger")
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return None if revision is None else str(revision)


def migrate(connection: Connection, revision: str) -> None:
    """Carries out all migrations up to the revision, inside the connection's transaction."""
    from alembic import command
    from alembic.config import Config

    if not (MIGRATIONS / "env.py").is_file():
        raise EventStoreError(f"the migrations are missing from {MIGRATIONS}: install vcledger again")
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA application_id={schema.APPLICATION_ID}")
