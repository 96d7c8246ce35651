"""A writer and a follower of a shared ledger, each a process of its own, for the test of a team on one PostgreSQL.

Owns what each of them does and what it prints: one JSON line when it is done. Must not know how many others there are.
Started as `python -m tests.integration.team write|follow ...` by `test_postgres_team`.

A writer has bad luck on purpose, drawn from its seed: transactions that are rolled back after their rows were written,
commits that come late while the writers' lock is held, and connections that the server ends in the middle of an
append. It sends again with the same token, as a writer that lost its answer does.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import threading
import time
from collections.abc import Callable

import psycopg
from sqlalchemy import Connection, text

from eventstore import EventStore, open_store
from eventstore.testing.build import START
from eventstore.types import EventStoreError, LedgerUnreachable, NewEvent, StreamId

STREAMS = 10_000
"""Streams a writer writes to."""

BATCH_MAX = 2_000
TRIES_MAX = 20


class RolledBack(Exception):
    """Raised inside an append, after its rows were written and before the commit."""


def events(writer: int, first: int, count: int) -> list[NewEvent]:
    """Numbers `first` to `first + count - 1` of a writer's events: the number is the resource version."""
    made = []
    for number in range(first, first + count):
        name = f"w{writer}-{number % STREAMS}"
        stream = StreamId("one", "Pod", "default", name, f"uid-{name}")
        payload = b'{"kind":"Pod","writer":%d,"number":%d}' % (writer, number)
        made.append(NewEvent(stream, "ObjectModified", "observation", START, payload, 1, 0, number, False))
    return made


class Luck:
    """Stands in the way of a store's commits, as drawn."""

    def __init__(self, store: EventStore, rng: random.Random) -> None:
        self.rng = rng
        self.counts = {"rolled back": 0, "slow": 0, "cut": 0}
        self._appended: Callable[[Connection, int], None] = store.backend.appended
        store.backend.appended = self.appended  # type: ignore[method-assign]

    def appended(self, connection: Connection, position: int) -> None:
        self._appended(connection, position)
        drawn = self.rng.random()
        if drawn < 0.04:
            self.counts["rolled back"] += 1
            raise RolledBack
        if drawn < 0.08:
            self.counts["slow"] += 1
            time.sleep(self.rng.uniform(0.01, 0.1))
        elif drawn < 0.10:
            self.counts["cut"] += 1
            connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))


def write(url: str, writer: int, total: int) -> dict[str, object]:
    """Appends `total` events and says how often what went wrong."""
    rng = random.Random(writer)
    sent = 0
    with open_store(url, busy_timeout_seconds=120) as store:
        luck = Luck(store, rng)
        while sent < total:
            batch = events(writer, sent + 1, min(rng.randint(1, BATCH_MAX), total - sent))
            append(store, batch, f"{writer}-{sent}")
            sent += len(batch)
    return {"writer": writer, "sent": sent, **luck.counts}


def append(store: EventStore, batch: list[NewEvent], token: str) -> None:
    """Appends until the answer comes."""
    for _ in range(TRIES_MAX):
        try:
            result = store.append(batch, token=token)
        except (RolledBack, LedgerUnreachable):
            continue
        assert len(result.positions) == len(batch)
        return
    raise EventStoreError(f"{token}: {TRIES_MAX} tries were not enough")


def follow(url: str, total: int) -> dict[str, object]:
    """Follows from the start until it has `total` events; what it saw, with a digest of it."""
    digest = hashlib.sha256()
    position, last, wrong = 0, dict[str, int](), 0
    done = threading.Event()
    with open_store(url, read_only=True) as store:
        for some in store.follow(0, stop=done.is_set, poll_seconds=5):
            for event in some:
                wrong += event.position != position + 1
                position = event.position
                writer = event.name.partition("-")[0]
                wrong += event.resource_version != last.get(writer, 0) + 1
                last[writer] = event.resource_version or 0
                digest.update(b"%d %s %d;" % (event.position, event.uid.encode(), event.version))
            if position >= total:
                done.set()
    return {"position": position, "wrong": wrong, "last": last, "digest": digest.hexdigest()}


def main(arguments: list[str]) -> None:
    what, url, *numbers = arguments
    if what == "write":
        print(json.dumps(write(url, int(numbers[0]), int(numbers[1]))))
    else:
        print(json.dumps(follow(url, int(numbers[0]))))


def deadlocks(url: str) -> int:
    """How many deadlocks the server has counted in this database."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])


if __name__ == "__main__":
    main(sys.argv[1:])
