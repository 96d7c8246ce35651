"""Runs a scenario of storage steps on a real log: who writes when, what a subscriber sees, what is left in the end.

Owns what each step does to the log. Must not know the flow. Called by `vcledger.conformance_files` and by tests.

A transaction (`tx`) is one append: it holds the log's write lock from its first insert until its commit or rollback, so
another one's commit may have to wait for it, and is then done as soon as it can be. A subscriber (`sub`) reads on from
the last event that it was given. A connection (`conn`) reads, keeps what it reads open, and appends. `seq` is a number
that the event carries; a subscriber's checkpoint is the `seq` of the last event that it was given.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Connection, make_url
from sqlalchemy.exc import ArgumentError

from eventstore import EventStore, open_store
from eventstore.types import EventStoreError, LedgerUnreachable, NewEvent, StreamId
from vcledger.testing.scenario_format import Fact, ScenarioResult, Script, Step

SECOND = 1_000_000
START = 1_767_225_600_000_000
WAIT_SECONDS = 30.0
LOOK_SECONDS = 0.01
WAITING = """
SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted
"""
"""How many wait for the log's write lock."""

APPENDING = """
import sys
from vcledger.testing.scenario_db import append_many
append_many(sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""

LOCKED = "database is locked"


class RolledBack(Exception):
    """Ends an append before its commit."""


def needs_postgres(script: Script) -> bool:
    """Transactions that are open side by side are PostgreSQL's matter; SQLite has one writer anyway."""
    return any("tx" in step.object for step in script.steps)


def run_storage(script: Script, postgres: str | None = None) -> ScenarioResult:
    """Runs a storage script on a new SQLite file, or, when it needs PostgreSQL, on a new database of the server at
    `postgres` (a URL), which is dropped afterwards."""
    with ExitStack() as stack:
        if needs_postgres(script):
            if postgres is None:
                raise ValueError("the script needs PostgreSQL, and no URL of one is given")
            where = stack.enter_context(_database(postgres))
        else:
            where = str(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vcledger-storage-"))) / "log.db")
        runner = _Runner(script, where, stack)
        return runner.run()


@contextmanager
def _database(url: str) -> Iterator[str]:
    """A new database on the server of a URL."""
    try:
        given = make_url(url).set(drivername="postgresql")
        connection = psycopg.connect(given.render_as_string(hide_password=False), autocommit=True)
    except (ArgumentError, psycopg.Error) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise LedgerUnreachable(f"the PostgreSQL server for storage scenarios does not answer: {reason}") from error
    name = f"vcledger_scenario_{threading.get_native_id()}"
    with connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
        try:
            yield given.set(database=name).render_as_string(hide_password=False)
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def event(name: str, time: int = START) -> NewEvent:
    """An event of a stream of its own, as a storage step writes it."""
    return NewEvent(StreamId("storage", "Step", "", name, name), "Step", "storage", time, name.encode())


def append_many(where: str, prefix: str, count: int) -> None:
    """So many appends of one event each; run by the processes of a `spawn` step."""
    with open_store(where) as store:
        for number in range(count):
            store.append([event(f"{prefix}-{number}")])


class _Transaction:
    """An append in a thread of its own, held just before its commit."""

    def __init__(self, where: str, events: list[NewEvent], number: int) -> None:
        self.number = number
        self._store = open_store(where, busy_timeout_seconds=WAIT_SECONDS)
        self._events = events
        self._held, self._go = threading.Event(), threading.Event()
        self._undo = False
        self.error: EventStoreError | None = None
        appended = self._store.backend.appended

        def hold(connection: Connection, position: int) -> None:
            appended(connection, position)
            self._held.set()
            if not self._go.wait(WAIT_SECONDS) or self._undo:
                raise RolledBack

        self._store.backend.appended = hold  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._append, daemon=True)
        before = self._waiting()
        self._thread.start()
        self._queue_up(before)

    def _waiting(self) -> int:
        with self._store.backend.reading() as connection:
            return int(connection.exec_driver_sql(WAITING).scalar_one())

    def _queue_up(self, before: int) -> None:
        """Until it has the write lock, or waits for it: whoever asks later comes later."""
        end = time.monotonic() + WAIT_SECONDS
        while not self._held.wait(LOOK_SECONDS) and self._thread.is_alive() and time.monotonic() < end:
            if self._waiting() > before:
                return

    def _append(self) -> None:
        try:
            self._store.append(self._events)
        except RolledBack:
            pass
        except EventStoreError as error:
            self.error = error

    def end(self, *, undo: bool) -> None:
        """Commit or rollback: at once, or when the write lock is free."""
        self._undo = undo
        self._go.set()
        if self._held.is_set():
            self.join()

    def join(self) -> None:
        self._thread.join(WAIT_SECONDS)

    @property
    def waiting(self) -> bool:
        """Ended by the script, but still behind another writer."""
        return self._thread.is_alive() and self._go.is_set()

    def close(self) -> None:
        self._undo = True
        self._go.set()
        self.join()
        self._store.close()


class _Subscriber:
    """Reads on from the last event that it was given."""

    def __init__(self) -> None:
        self.after = 0
        self.delivered: list[int] = []


class _Runner:
    def __init__(self, script: Script, where: str, stack: ExitStack) -> None:
        self.script, self.where, self.stack = script, where, stack
        self.store: EventStore = stack.enter_context(open_store(where, create=True))
        self.transactions: dict[str, _Transaction] = {}
        self.ended: list[_Transaction] = []
        self.subscribers: dict[str, _Subscriber] = {}
        self.connections: dict[str, EventStore] = {}
        self.reads: dict[str, ExitStack] = {}
        self.errors: list[str] = []
        self.time = START
        self.appended = 0

    def run(self) -> ScenarioResult:
        facts, problems, done = 0, list[str](), 0
        checkpoints = {one.after_line: one.facts for one in self.script.checkpoints}
        for step in self.script.steps:
            self._step(step)
            done += 1
            for fact in checkpoints.get(step.line, []):
                facts += 1
                problems += [f"after line {step.line}: {text} (line {fact.line})" for text in self._wrong(fact)]
        for one in self.ended:
            one.join()
        for fact in self.script.facts:
            facts += 1
            problems += [f"at the end: {text} (line {fact.line})" for text in self._wrong(fact)]
        problems += [f"the log refused: {text}" for text in self.errors]
        return ScenarioResult(done, facts, problems)

    # --- steps ----------------------------------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        found = step.object
        if step.type == "CONTROL":
            if found["op"] == "advance":
                self.time += round(found["seconds"] * SECOND)
            elif found["op"] == "spawn":
                self._spawn(int(found["processes"]), int(found["appends_each"]))
        elif "tx" in found:
            self._transaction(step, found["tx"], found["op"])
        elif "sub" in found:
            self._poll(self.subscribers.setdefault(found["sub"], _Subscriber()))
        else:
            self._connection(found["conn"], found["op"], int(found.get("n", 0)))

    def _transaction(self, step: Step, name: str, operation: str) -> None:
        if operation == "insert" and name not in self.transactions:
            opened = _Transaction(self.where, self._inserts(step, name), step.line)
            self.stack.callback(opened.close)
            self.transactions[name] = opened
        elif operation in ("commit", "rollback") and name in self.transactions:
            ending = self.transactions.pop(name)
            ending.end(undo=operation == "rollback")
            self.ended.append(ending)
            self._go_on()

    def _inserts(self, begun: Step, name: str) -> list[NewEvent]:
        """All that a transaction inserts until it ends."""
        found = []
        for step in self.script.steps:
            if step.line >= begun.line and step.object.get("tx") == name:
                if step.object["op"] != "insert":
                    break
                found.append(event(str(step.object["seq"]), self.time))
        return found

    def _go_on(self) -> None:
        """What waited behind a writer that has ended gets its turn; it waits on while an older one is open, as the
        lock is given in the order of those who ask."""
        oldest = min((one.number for one in self.transactions.values()), default=None)
        for one in self.ended:
            if oldest is None or one.number < oldest:
                one.join()

    def _poll(self, subscriber: _Subscriber) -> None:
        for stored in self.store.read(after=subscriber.after):
            subscriber.after = stored.position
            subscriber.delivered.append(int(stored.name))

    def _connection(self, name: str, operation: str, count: int) -> None:
        if name not in self.connections:
            self.connections[name] = self.stack.enter_context(open_store(self.where))
        store = self.connections[name]
        if operation in ("begin", "begin deferred"):
            self.reads[name] = self.stack.enter_context(ExitStack())
        elif operation == "select max(seq)":
            connection = self.reads.get(name, self.stack).enter_context(store.backend.reading())
            connection.exec_driver_sql("SELECT max(position) FROM events").scalar()
        elif operation == "append":
            self._append(store, count)
        elif name in self.reads:
            self.reads.pop(name).close()

    def _append(self, store: EventStore, count: int) -> None:
        for _ in range(count):
            self.appended += 1
            try:
                store.append([event(f"append-{self.appended}", self.time)])
            except EventStoreError as error:
                self.errors.append(str(error))

    def _spawn(self, processes: int, appends: int) -> None:
        for read in self.reads.values():
            read.close()
        started = [
            subprocess.Popen(
                [sys.executable, "-c", APPENDING, self.where, f"process-{number}", str(appends)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for number in range(processes)
        ]
        for process in started:
            said, _ = process.communicate()
            if process.returncode:
                self.errors.append(said.strip().splitlines()[-1] if said.strip() else f"exit code {process.returncode}")

    # --- facts ----------------------------------------------------------------------------------------------------

    def _wrong(self, fact: Fact) -> list[str]:
        if fact.about == "subscriber":
            return self._wrong_subscriber(fact, self.subscribers.get(fact.name, _Subscriber()))
        if fact.about == "log":
            count = sum(LOCKED in text for text in self.errors)
            return _same(f"log {fact.name}", "count", count, fact.keys.get("count", count))
        positions = [stored.position for stored in self.store.read()]
        wrong = []
        if "count" in fact.keys:
            wrong += _same(f"store {fact.name}", "count", len(positions), fact.keys["count"])
        if "unique" in fact.keys:
            wrong += _same(f"store {fact.name}", "unique", len(set(positions)) == len(positions), fact.keys["unique"])
        return wrong

    def _wrong_subscriber(self, fact: Fact, subscriber: _Subscriber) -> list[str]:
        name, has = f"subscriber {fact.name}", subscriber.delivered
        checkpoint = has[-1] if has else 0
        wrong = []
        for key, wanted in fact.keys.items():
            if key == "delivered_so_far_is_prefix_of" and has != wanted[: len(has)]:
                wrong.append(f"{name}: {has} was delivered, which {wanted} does not begin with")
            elif key == "checkpoint_at_most" and checkpoint > wanted:
                wrong.append(f"{name}: its checkpoint is {checkpoint}, at most {wanted} is expected")
            elif key == "delivered":
                wrong += _same(name, key, has, wanted)
            elif key == "checkpoint":
                wrong += _same(name, key, checkpoint, wanted)
            elif key == "each" and len(set(has)) != len(has):
                wrong.append(f"{name}: {has} was delivered, some of it more than once")
        return wrong


def _same(name: str, key: str, found: Any, wanted: Any) -> list[str]:
    return [] if found == wanted else [f"{name}: {key} is {found!r}, expected {wanted!r}"]


__all__ = ["append_many", "needs_postgres", "run_storage"]
