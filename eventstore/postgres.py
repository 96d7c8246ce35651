"""The log on PostgreSQL: the writers' lock, COPY, partitions, LISTEN and NOTIFY, errors.

Owns everything that is PostgreSQL's own. Must not know what events mean. Made by `eventstore.opening`, called through
`eventstore.backend`.

Positions are not drawn from a sequence: sequences hand numbers out before the commit, so a reader could pass 3 and
never see a late 2. Each writer takes a transaction-scoped advisory lock, reads the head, and counts on; the lock is
given up after the commit has become visible, so positions are in commit order and have no holes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors, sql
from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from eventstore.backend import EVENT_COLUMNS, STREAM_COLUMNS, EventRow, HeadRow, Observation, StreamRow, Wait
from eventstore.types import (
    EventStoreError,
    InvalidEvent,
    LedgerBusy,
    LedgerCorrupt,
    LedgerUnreachable,
    LedgerUnwritable,
    PlaceMissing,
    RoleUnknown,
)

LOCK = 0x76636C67
"""First half of the advisory lock's key; the second is the schema's name hashed, so that ledgers in two schemas of one
database do not wait for each other."""

CHANNEL = "vcledger_appended"
PARTITION_EVENTS = 1_000_000
"""Positions in a partition of `events`."""

EVENT_TYPES = ("int8", "int8", "int8", "int8", "int8", "int8", "int8", "int4", "int2", "int2", "bool", "int4", "bytea")
TABLES = ("clusters", "kinds", "types", "subjects", "streams", "stream_heads", "batches", "batch_marks", "tokens",
          "dictionaries", "snapshots", "prunes", "leases")  # fmt: skip

READING = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {role}",
)

_PUT_HEADS = """
INSERT INTO stream_heads (stream_id, version, position, resource_version, resource_version_max, gone, pruned_version)
SELECT * FROM unnest(%s::bigint[], %s::int[], %s::bigint[], %s::bigint[], %s::bigint[], %s::boolean[], %s::int[])
ON CONFLICT (stream_id) DO UPDATE SET version = excluded.version, position = excluded.position,
resource_version = excluded.resource_version, resource_version_max = excluded.resource_version_max,
gone = excluded.gone, pruned_version = excluded.pruned_version
"""
_INSERT_STREAMS = """
INSERT INTO streams (id, key, cluster_id, kind_id, namespace, name, uid)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::int[], %s::int[], %s::text[], %s::text[], %s::text[])
"""
_SELECT_STREAMS = "SELECT id, cluster_id, kind_id, namespace, name, uid FROM streams WHERE id = ANY(%s)"
_FIND_STREAMS = (
    f"SELECT {STREAM_COLUMNS} FROM streams s JOIN stream_heads h ON h.stream_id = s.id "  # noqa: S608
    "WHERE s.key = ANY(%s::bigint[])"
)
_FIND = """
SELECT w.s, w.r, w.g, e.position FROM unnest(%s::bigint[], %s::bigint[], %s::boolean[]) AS w(s, r, g)
JOIN events e ON e.stream_id = w.s AND e.resource_version = w.r AND e.gone = w.g
"""


class PostgresBackend:
    """A ledger in a PostgreSQL database, in the schema that its connections find first."""

    name = "postgresql"

    def __init__(
        self,
        url: URL,
        *,
        busy_timeout_seconds: float,
        read_only: bool = False,
        partition_events: int = PARTITION_EVENTS,
    ) -> None:
        self.url = url.set(drivername="postgresql+psycopg")
        self.where = url.render_as_string(hide_password=True)
        self.address = url.render_as_string(hide_password=False)
        self._busy_timeout_ms = max(1, int(busy_timeout_seconds * 1000))
        self._read_only = read_only
        self._partition_events = partition_events
        self._partitioned_to = 0
        self.engine: Engine = create_engine(self.url, pool_pre_ping=True, pool_size=4, max_overflow=32)
        self._reader = self.engine.execution_options(isolation_level="REPEATABLE READ")
        if read_only:
            event.listen(self.engine, "connect", _read_only)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        if self._read_only:
            raise LedgerUnwritable(f"{self.where} is open for reading only: open it without read_only to write")
        try:
            with self.engine.connect() as connection, connection.begin():
                connection.execute(text(f"SET LOCAL lock_timeout = {self._busy_timeout_ms}"))
                connection.execute(
                    text("SELECT pg_advisory_xact_lock(:one, hashtext(current_schema()))"), {"one": LOCK}
                )
                yield connection
        except BaseException:
            # A partition that was made in the failed transaction is gone again.
            self._partitioned_to = 0
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._reader.connect() as connection, connection.begin():
            yield connection

    def insert_streams(self, connection: Connection, rows: Sequence[StreamRow]) -> None:
        connection.exec_driver_sql(_INSERT_STREAMS, _columns(rows))

    def put_heads(self, connection: Connection, rows: Sequence[HeadRow]) -> None:
        connection.exec_driver_sql(_PUT_HEADS, _columns(rows))

    def insert_events(self, connection: Connection, rows: Sequence[EventRow]) -> None:
        self._partition(connection, rows[-1][0])
        statement = f"COPY events ({', '.join(EVENT_COLUMNS)}) FROM STDIN (FORMAT BINARY)"
        with raw(connection).cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(EVENT_TYPES)
            write = copy.write_row
            for row in rows:
                write(row)

    def _partition(self, connection: Connection, position: int) -> None:
        """Sees to it that there are partitions for half a partition's events beyond the position."""
        needed = position + self._partition_events // 2
        if needed <= self._partitioned_to:
            return
        last = max((end for _, end, _ in partitions(connection)), default=0)
        while last < needed:
            make_partition(connection, last + 1, last + self._partition_events)
            last += self._partition_events
        self._partitioned_to = last

    def find_observations(self, connection: Connection, wanted: Sequence[Observation]) -> dict[Observation, int]:
        rows = connection.exec_driver_sql(_FIND, _columns(wanted))
        return {(stream_id, revision, gone): position for stream_id, revision, gone, position in rows}

    def find_streams(self, connection: Connection, keys: Sequence[int]) -> list[tuple[Any, ...]]:
        with raw(connection).cursor(binary=True) as cursor:
            return cursor.execute(_FIND_STREAMS.encode(), (list(keys),)).fetchall()

    def select_events(
        self, connection: Connection, after: int, to: int, columns: Sequence[str]
    ) -> list[tuple[Any, ...]]:
        statement = f"SELECT {', '.join(columns)} FROM events WHERE position > %s AND position <= %s ORDER BY position"  # noqa: S608
        with raw(connection).cursor(binary=True) as cursor:
            return cursor.execute(statement.encode(), (after, to)).fetchall()

    def select_streams(self, connection: Connection, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        with raw(connection).cursor(binary=True) as cursor:
            return cursor.execute(_SELECT_STREAMS, (list(ids),)).fetchall()

    def appended(self, connection: Connection, position: int) -> None:
        connection.execute(
            text("SELECT pg_notify(:channel, :position)"), {"channel": CHANNEL, "position": str(position)}
        )

    @contextmanager
    def waiting(self) -> Iterator[Wait]:
        url = self.url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))

            def wait(position: int, seconds: float, stop: Callable[[], bool]) -> None:
                if _head(connection) > position:
                    return
                until = time.monotonic() + seconds
                while not stop() and (left := until - time.monotonic()) > 0:
                    for notice in connection.notifies(timeout=min(left, 0.25), stop_after=1):
                        if int(notice.payload) > position:
                            return

            yield wait

    def delete_events(self, connection: Connection, cut: int) -> int:
        dropped = 0
        for first, last, name in partitions(connection):
            if last <= cut:
                dropped += _thin_out(connection, first, last, name)
        rest = text(
            "DELETE FROM events WHERE position <= :cut AND NOT EXISTS "
            "(SELECT FROM kept_events k WHERE k.position = events.position)"
        )
        return dropped + connection.execute(rest, {"cut": cut}).rowcount

    def reclaim(self, cut: int) -> None:
        """Partitions that were dropped gave their room back already. The one that the cut goes through is written
        anew, which keeps others from it for as long as that takes."""
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for first, last, name in partitions(connection):
                if first <= cut < last:
                    connection.execute(text(f"VACUUM FULL {name}"))
            connection.execute(text("VACUUM streams, stream_heads, snapshots"))

    def grant_reading(self, role: str) -> None:
        """SELECT on what there is, and on what later revisions add. Partitions need no grant of their own: rights on
        `events` are those that count (PostgreSQL manual, 5.12, table partitioning, and GRANT)."""
        if self._read_only:
            raise LedgerUnwritable(f"{self.where} is open for reading only: open it without read_only to grant")
        who = sql.Identifier(role)
        with self.engine.connect() as connection, connection.begin():
            schema = sql.Identifier(str(connection.execute(text("SELECT current_schema()")).scalar_one()))
            if connection.execute(text("SELECT FROM pg_roles WHERE rolname = :role"), {"role": role}).first() is None:
                raise RoleUnknown(f"there is no role {role} on {self.where}: make it first (CREATE ROLE ... LOGIN)")
            # Without the right to grant, PostgreSQL only warns.
            may = text("SELECT has_table_privilege('events', 'SELECT WITH GRANT OPTION')")
            if not connection.execute(may).scalar_one():
                raise LedgerUnwritable(f"only the owner of {self.where} may let others read it")
            for statement in READING:
                raw(connection).execute(sql.SQL(statement).format(schema=schema, role=who))

    def size(self) -> int:
        with self.reading() as connection:
            names = [*TABLES, *(name for _, _, name in partitions(connection))]
            found: int = connection.execute(
                text(
                    "SELECT sum(pg_total_relation_size(to_regclass(name))) FROM unnest(CAST(:names AS text[])) AS name"
                ),
                {"names": names},
            ).scalar_one()
            return int(found)

    def translate(self, error: DBAPIError | Exception) -> EventStoreError | None:
        cause = error.orig if isinstance(error, DBAPIError) else error
        return translate_error(cause, self.where) if isinstance(cause, psycopg.Error) else None

    def close(self) -> None:
        self.engine.dispose()


def raw(connection: Connection) -> psycopg.Connection[tuple[Any, ...]]:
    """psycopg's own connection, in the same transaction."""
    found = connection.connection.driver_connection
    assert isinstance(found, psycopg.Connection)
    return found


def partitions(connection: Connection) -> list[tuple[int, int, str]]:
    """First and last position of each partition of `events`, and its name, which says both; in order."""
    names = connection.execute(
        text(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
            "WHERE i.inhparent = to_regclass('events')"
        )
    ).scalars()
    found = []
    for name in names:
        _, first, last = name.split("_")
        found.append((int(first), int(last), name))
    return sorted(found)


def make_partition(connection: Connection, first: int, last: int) -> None:
    connection.execute(
        text(f"CREATE TABLE events_{first}_{last} PARTITION OF events FOR VALUES FROM ({first}) TO ({last + 1})")
    )
    connection.execute(text(f"ALTER TABLE events_{first}_{last} ALTER COLUMN payload SET STORAGE EXTERNAL"))


def _thin_out(connection: Connection, first: int, last: int, name: str) -> int:
    """Drops a partition and makes it again with the rows that are kept, so that its room is given back at once."""
    before = connection.execute(text(f"SELECT count(*) FROM {name}")).scalar_one()  # noqa: S608
    kept = f"SELECT e.* FROM {name} e JOIN kept_events k ON k.position = e.position"  # noqa: S608
    connection.execute(text(f"CREATE TEMPORARY TABLE kept_rows ON COMMIT DROP AS {kept}"))
    connection.execute(text(f"DROP TABLE {name}"))
    make_partition(connection, first, last)
    after = connection.execute(text(f"INSERT INTO {name} SELECT * FROM kept_rows")).rowcount  # noqa: S608
    connection.execute(text("DROP TABLE kept_rows"))
    return int(before) - after


def _columns(rows: Sequence[tuple[Any, ...]]) -> tuple[list[Any], ...]:
    return tuple(list(column) for column in zip(*rows, strict=True))


def _head(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT first_position + events - 1 FROM batches ORDER BY id DESC LIMIT 1").fetchone()
    return 0 if row is None else int(row[0])


def _read_only(connection: psycopg.Connection[Any], _record: object) -> None:
    connection.read_only = True


def translate_error(error: psycopg.Error, where: str) -> EventStoreError | None:
    """The log's error for one of PostgreSQL's, by its SQLSTATE (PostgreSQL manual, appendix A)."""
    match error:
        case errors.LockNotAvailable():
            return LedgerBusy(f"another writer holds {where}: try again, or wait longer (busy_timeout_seconds)")
        case errors.DiskFull():
            return LedgerUnwritable(f"no room left on the disk of {where}: nothing of the batch was stored")
        case errors.InsufficientPrivilege() | errors.ReadOnlySqlTransaction():
            return LedgerUnwritable(f"{where} cannot be written: check the rights of its user")
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return LedgerCorrupt(f"the database {where} is damaged: restore it from a copy")
        case errors.NumericValueOutOfRange() | errors.DataError():
            return InvalidEvent(f"{where} cannot keep a value of the batch ({_line(error)}): nothing of it was stored")
        case errors.InvalidCatalogName():
            return PlaceMissing(f"there is no database {where}: make it first (createdb)")
        case psycopg.OperationalError():
            if "does not exist" in str(error) and "database" in str(error):
                return PlaceMissing(f"there is no database {where}: make it first (createdb)")
            return LedgerUnreachable(
                f"{where} does not answer ({_line(error)}): check that the server runs, and the URL"
            )
    return None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
