"""The log on SQLite: connections, the writers' turn, bulk statements, errors.

Owns everything that is SQLite's own. Must not know what events mean. Made by `eventstore.opening`, called through
`eventstore.backend`.

Writers take turns with BEGIN IMMEDIATE: a transaction that begins by reading and then turns to writing would fail at
once when another wrote in between, whatever the busy timeout says (python/cpython#124510), so no transaction here
ever does.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from eventstore.backend import EVENT_COLUMNS, STREAM_COLUMNS, EventRow, HeadRow, Observation, StreamRow, Wait, chunks
from eventstore.types import (
    EventStoreError,
    LedgerBusy,
    LedgerCorrupt,
    LedgerMissing,
    LedgerUnwritable,
    NotALedger,
    RoleUnknown,
)

_INSERT_EVENTS = f"INSERT INTO events ({', '.join(EVENT_COLUMNS)}) VALUES "  # noqa: S608
_INSERT_STREAMS = "INSERT INTO streams (id, key, cluster_id, kind_id, namespace, name, uid) VALUES "
_SELECT_STREAMS = "SELECT id, cluster_id, kind_id, namespace, name, uid FROM streams WHERE id IN"
_FIND_STREAMS = f"SELECT {STREAM_COLUMNS} FROM streams s JOIN stream_heads h ON h.stream_id = s.id WHERE s.key IN"  # noqa: S608
_PUT_HEADS = (
    "INSERT OR REPLACE INTO stream_heads (stream_id, version, position, resource_version, resource_version_max, gone, "
    "pruned_version) VALUES "
)
_VALUES_MAX = 32_000
"""Values in one statement; SQLite allows 32,766 (https://www.sqlite.org/limits.html, since 3.32)."""
_WAL_LIMIT = 64 * 1024 * 1024


class SQLiteBackend:
    """A ledger in a file. `immutable`: the file lies where nothing can be written, not even SQLite's own helper files,
    and is read as it stands."""

    name = "sqlite"

    def __init__(
        self, path: Path, *, busy_timeout_seconds: float, read_only: bool = False, create: bool = False
    ) -> None:
        self.path = path
        self.where = self.address = str(path)
        self._busy_timeout_seconds = busy_timeout_seconds
        self._read_only = read_only
        self._mode = "ro" if read_only else "rwc" if create else "rw"
        self.engine: Engine = create_engine(
            "sqlite://", creator=self._connect, poolclass=QueuePool, pool_size=4, max_overflow=32
        )
        event.listen(self.engine, "begin", _begin)
        self._writer = self.engine.execution_options(ledger_writer=True)

    def _connect(self) -> sqlite3.Connection:
        uri = f"file:{quote(str(self.path.absolute()))}?mode={self._mode}"
        connection = sqlite3.connect(
            uri, uri=True, timeout=self._busy_timeout_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA cache_size=-32768")
            connection.execute("PRAGMA temp_store=MEMORY")
            if not self._read_only:
                connection.execute(f"PRAGMA journal_size_limit={_WAL_LIMIT}")
                connection.execute("PRAGMA wal_autocheckpoint=4000")
        except BaseException:
            connection.close()
            raise
        return connection

    def read_as_it_stands(self) -> None:
        """From now on opens the file as immutable: for a read-only folder. Only right when no writer is at work and
        nothing waits in the write-ahead log."""
        self.engine.dispose()
        self._mode = "ro&immutable=1"

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        if self._read_only:
            raise LedgerUnwritable(f"{self.where} is open for reading only: open it without read_only to write")
        with self._writer.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self.engine.connect() as connection, connection.begin():
            yield connection

    def insert_streams(self, connection: Connection, rows: Sequence[StreamRow]) -> None:
        _insert(connection, _INSERT_STREAMS, rows)

    def put_heads(self, connection: Connection, rows: Sequence[HeadRow]) -> None:
        _insert(connection, _PUT_HEADS, rows)

    def insert_events(self, connection: Connection, rows: Sequence[EventRow]) -> None:
        _insert(connection, _INSERT_EVENTS, rows)

    def find_observations(self, connection: Connection, wanted: Sequence[Observation]) -> dict[Observation, int]:
        found: dict[Observation, int] = {}
        for some in chunks(wanted, 5_000):
            rows = connection.exec_driver_sql(
                f"WITH wanted(s, r, g) AS (VALUES {', '.join(['(?, ?, ?)'] * len(some))}) "  # noqa: S608
                "SELECT s, r, g, position FROM wanted CROSS JOIN events "
                "ON stream_id = s AND resource_version = r AND gone = g",
                tuple(value for key in some for value in key),
            )
            found.update({(s, r, bool(g)): position for s, r, g, position in rows})
        return found

    def find_streams(self, connection: Connection, keys: Sequence[int]) -> list[tuple[Any, ...]]:
        raw = connection.connection.driver_connection
        assert raw is not None
        rows: list[tuple[Any, ...]] = []
        for some in chunks(keys, 5_000):
            marks = ", ".join("?" * len(some))
            rows += raw.execute(f"{_FIND_STREAMS} ({marks})", some).fetchall()
        return rows

    def select_events(
        self, connection: Connection, after: int, to: int, columns: Sequence[str]
    ) -> list[tuple[Any, ...]]:
        raw = connection.connection.driver_connection
        assert raw is not None
        sql = f"SELECT {', '.join(columns)} FROM events WHERE position > ? AND position <= ? ORDER BY position"  # noqa: S608
        rows: list[tuple[Any, ...]] = raw.execute(sql, (after, to)).fetchall()
        return rows

    def select_streams(self, connection: Connection, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        raw = connection.connection.driver_connection
        assert raw is not None
        rows: list[tuple[Any, ...]] = []
        for some in chunks(ids, _VALUES_MAX):
            rows += raw.execute(f"{_SELECT_STREAMS} ({', '.join('?' * len(some))})", some).fetchall()
        return rows

    def appended(self, connection: Connection, position: int) -> None:
        """Nothing to do: followers of a file poll."""

    @contextmanager
    def waiting(self) -> Iterator[Wait]:
        yield _sleep

    def delete_events(self, connection: Connection, cut: int) -> int:
        return connection.exec_driver_sql(
            "DELETE FROM events WHERE position <= ? AND position NOT IN (SELECT position FROM kept_events)", (cut,)
        ).rowcount

    def reclaim(self, cut: int) -> None:
        with self.engine.connect() as connection:
            raw = connection.connection.driver_connection
            assert raw is not None
            raw.execute("VACUUM")
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def grant_reading(self, role: str) -> None:
        raise RoleUnknown(f"{self.where} is a file, which has no roles: its rights are those of the file")

    def size(self) -> int:
        return sum(
            os.path.getsize(name)
            for name in (self.where, f"{self.where}-wal", f"{self.where}-shm")
            if os.path.exists(name)
        )

    def translate(self, error: DBAPIError | Exception) -> EventStoreError | None:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(cause, sqlite3.Error):
            return None
        return translate_code(cause, self.where)

    def close(self) -> None:
        self.engine.dispose()


def _insert(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Many rows with few statements. `executemany` takes as long, but gives up Python's lock and takes it again for
    each row: beside a thread that computes, each time would be a wait."""
    raw = connection.connection.driver_connection
    assert raw is not None
    width = len(rows[0]) if rows else 1
    row = f"({', '.join('?' * width)})"
    for some in chunks(rows, _VALUES_MAX // width):
        raw.execute(statement + ", ".join([row] * len(some)), list(chain.from_iterable(some)))


def _sleep(position: int, seconds: float, stop: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while not stop() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.1))


def _begin(connection: Connection) -> None:
    writer = connection.get_execution_options().get("ledger_writer")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writer else "BEGIN")


def translate_code(error: sqlite3.Error, where: str) -> EventStoreError | None:
    """The log's error for one of SQLite's, by its primary result code (https://www.sqlite.org/rescode.html)."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return None
    match code & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return LedgerBusy(f"another writer holds {where}: try again, or wait longer (busy_timeout_seconds)")
        case sqlite3.SQLITE_FULL:
            return LedgerUnwritable(f"no room left on the disk of {where}: nothing of the batch was stored")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return LedgerUnwritable(f"{where} cannot be written: check the rights of the file and of its folder")
        case sqlite3.SQLITE_IOERR:
            return LedgerUnwritable(f"the disk refused to read or write {where} ({error})")
        case sqlite3.SQLITE_CANTOPEN:
            if not os.path.exists(where):
                return LedgerMissing(f"there is no ledger at {where}")
            return LedgerUnwritable(f"{where} cannot be opened: check the rights of the file and of its folder")
        case sqlite3.SQLITE_NOTADB:
            return NotALedger(f"{where} is not a ledger")
        case sqlite3.SQLITE_CORRUPT:
            return LedgerCorrupt(f"the file {where} is damaged ({error}): restore it from a copy")
    return None
