"""The naive pieces that ours is compared with, in the same run and over the same lines.

Owns them. Must not use the product, but for the structs that `decode_alone` decodes into. Called by `bench.__main__`.

Each function returns seconds, read from the monotonic clock around the work alone.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec
import psycopg
from eventsourcing.application import Application
from eventsourcing.domain import DomainEvent, datetime_now_with_tzinfo
from eventsourcing.persistence import StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

from volcano.objects import kinds


def batches(path: Path, size: int) -> Iterator[list[str]]:
    """The file's lines as text, `size` at a time."""
    with path.open(encoding="utf-8") as file:
        while batch := list(islice(file, size)):
            yield batch


def sqlite_insert(lines: Path, folder: Path) -> float:
    """A plain loop: executemany of the JSON lines into one table, 1,000 a transaction, WAL and synchronous=FULL."""
    start = time.perf_counter()
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, body TEXT)")
    for batch in batches(lines, 1000):
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO events (body) VALUES (?)", ((line,) for line in batch))
        connection.execute("COMMIT")
    connection.close()
    return time.perf_counter() - start


class Observed(DomainEvent):
    """An observation as the library's own event class."""

    body: dict[str, Any]


def eventsourcing_insert(lines: Path, folder: Path) -> float:
    """The `eventsourcing` library: each line an event of its object's stream, through the library's mapper and JSON
    transcoder into its SQLite recorder, 100 a transaction."""
    application: Application[UUID] = Application()
    datastore = SQLiteDatastore(str(folder / "eventsourcing.db"))
    recorder = SQLiteApplicationRecorder(datastore)
    recorder.create_table()
    versions: dict[UUID, int] = {}
    decode = msgspec.json.decode
    start = time.perf_counter()
    for batch in batches(lines, 100):
        stored: list[StoredEvent] = []
        for line in batch:
            body = decode(line)
            stream = uuid5(NAMESPACE_URL, body["object"]["metadata"]["uid"])
            versions[stream] = version = versions.get(stream, 0) + 1
            event = Observed(
                originator_id=stream, originator_version=version, timestamp=datetime_now_with_tzinfo(), body=body
            )
            stored.append(application.mapper.to_stored_event(event))
        recorder.insert_events(stored)
    seconds = time.perf_counter() - start
    datastore.close()
    return seconds


def postgres_copy(lines: Path, url: str) -> float:
    """Raw COPY of the JSON lines into one table with a `json` column, 1,000 a transaction as well."""
    start = time.perf_counter()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE raw_events (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body JSON)")
        connection.commit()
        for batch in batches(lines, 1000):
            with connection.cursor() as cursor, cursor.copy("COPY raw_events (body) FROM STDIN") as copy:
                for line in batch:
                    copy.write_row((line,))
            connection.commit()
    return time.perf_counter() - start


def decode_alone(objects: Sequence[tuple[str, bytes]]) -> float:
    """msgspec alone: the same bytes into the same structs, and nothing else. `objects` are (kind, JSON)."""
    decoders = kinds.DECODERS
    start = time.perf_counter()
    for kind, body in objects:
        decoders[kind].decode(body)
    return time.perf_counter() - start
