"""What the log needs of a database, as a protocol that SQLite and PostgreSQL fulfil.

Owns the protocol and the shape of the rows that cross it. Must not know either database. Called by the modules that
write and read; fulfilled by `eventstore.sqlite` and `eventstore.postgres`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from eventstore.types import EventStoreError

EVENT_COLUMNS = (
    "position",
    "stream_id",
    "observed_at",
    "resource_version",
    "causation",
    "cycle",
    "about_id",
    "version",
    "type_id",
    "flags",
    "gone",
    "dictionary_id",
    "payload",
)
"""Order of an event row's values, wherever rows cross the protocol."""

STREAM_COLUMNS = (
    "s.id, s.cluster_id, s.kind_id, s.namespace, s.name, s.uid, h.version, h.position, h.resource_version, "
    "h.resource_version_max, h.gone, h.pruned_version"
)
"""What a writer reads of a stream (s) and its head (h)."""

EventRow = tuple[int, int, int, int | None, int | None, int | None, int | None, int, int, int, bool, int | None, bytes]
StreamRow = tuple[int, int, int, int, str, str, str]
"""id, key, cluster_id, kind_id, namespace, name, uid"""
HeadRow = tuple[int, int, int, int | None, int | None, bool, int]
"""stream_id, version, position, resource_version, resource_version_max, gone, pruned_version"""
Observation = tuple[int, int, bool]
"""stream_id, resource_version, gone: what makes an observation the same"""

Wait = Callable[[int, float, Callable[[], bool]], None]
"""wait(position, seconds, stop) returns when the log may have got past the position, when the seconds have passed, or
soon after `stop` says True."""


class Backend(Protocol):
    """One database. All methods that take a connection work inside its transaction."""

    name: str
    where: str
    address: str
    engine: Engine

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that is alone: no other writer's runs until it ends. Commits at the end, rolls back on an
        exception. LedgerBusy when another writer holds on for longer than the busy timeout."""
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one state of the ledger."""
        ...

    def insert_streams(self, connection: Connection, rows: Sequence[StreamRow]) -> None: ...

    def put_heads(self, connection: Connection, rows: Sequence[HeadRow]) -> None:
        """Inserts or replaces."""
        ...

    def insert_events(self, connection: Connection, rows: Sequence[EventRow]) -> None: ...

    def find_observations(self, connection: Connection, wanted: Sequence[Observation]) -> dict[Observation, int]:
        """The positions of those observations that the log has."""
        ...

    def find_streams(self, connection: Connection, keys: Sequence[int]) -> list[tuple[Any, ...]]:
        """Streams that have these keys, with their heads: the columns of STREAM_COLUMNS, as plain tuples."""
        ...

    def select_events(
        self, connection: Connection, after: int, to: int, columns: Sequence[str]
    ) -> list[tuple[Any, ...]]:
        """The rows of a range of positions (`after` excluded, `to` included), in order, as plain tuples."""
        ...

    def select_streams(self, connection: Connection, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        """(id, cluster_id, kind_id, namespace, name, uid) of the streams with these numbers, in any order."""
        ...

    def appended(self, connection: Connection, position: int) -> None:
        """Called inside the append's transaction: tells followers, and whatever else the database needs."""
        ...

    def waiting(self) -> AbstractContextManager[Wait]:
        """A way for a follower to wait, which is its own for as long as the context lasts."""
        ...

    def delete_events(self, connection: Connection, cut: int) -> int:
        """Drops the rows at or below the position that are not in the temporary table `kept_events`; how many."""
        ...

    def reclaim(self, cut: int) -> None:
        """Gives the room of rows that were dropped at or below the position back to the disk."""
        ...

    def grant_reading(self, role: str) -> None:
        """Lets a role of the database read the ledger, and nothing more. RolesUnknown where there are no roles."""
        ...

    def size(self) -> int:
        """Bytes on disk, indexes and all."""
        ...

    def translate(self, error: DBAPIError | Exception) -> EventStoreError | None:
        """The log's own error for one of the database's; None when it is none of the known ones."""
        ...

    def close(self) -> None: ...


@contextmanager
def translated(backend: Backend) -> Iterator[None]:
    """Turns the database's errors into the log's, with their cause."""
    try:
        yield
    except EventStoreError:
        raise
    except Exception as error:
        known = backend.translate(error)
        if known is None:
            raise
        raise known from error


def chunks(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    """The items in runs of at most `size`."""
    return (items[i : i + size] for i in range(0, len(items), size))
