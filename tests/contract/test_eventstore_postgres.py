"""What the log must do on PostgreSQL beyond the common suite: commit order, lost connections, partitions, notices."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest
from sqlalchemy import make_url

from eventstore import open_store
from eventstore.opening import bring_up
from eventstore.postgres import PostgresBackend
from eventstore.store import EventStore
from eventstore.testing import START, observation, payload_like
from eventstore.types import (
    LedgerBusy,
    LedgerMissing,
    LedgerUnreachable,
    LedgerUnwritable,
    NotALedger,
    Snapshot,
    WrongExpectedVersion,
)
from tests.postgres import database_url

pytestmark = pytest.mark.postgres


def test_e1_a_reader_that_has_passed_a_number_misses_nothing(postgres_url: str) -> None:
    """JasperFx/marten#1629: numbers that are handed out before the commit let a poll pass 3 while 2 is still open, and
    a rolled-back 4 leaves a hole. Here writer B cannot get its number while A's transaction is open."""
    with open_store(postgres_url, create=True) as a, open_store(postgres_url) as b, open_store(postgres_url) as reader:
        checkpoint, delivered = 0, []

        def poll() -> None:
            nonlocal checkpoint
            for event in reader.read(after=checkpoint):
                delivered.append(event.name)
                checkpoint = event.position

        a.append([observation("1", at=START)])
        poll()
        assert delivered == ["1"]
        paused, go_on = threading.Event(), threading.Event()
        appended = a.backend.appended

        def pause(connection: object, position: int) -> None:
            appended(connection, position)  # type: ignore[arg-type]
            paused.set()
            assert go_on.wait(120)

        a.backend.appended = pause  # type: ignore[method-assign]
        open_tx = threading.Thread(target=lambda: a.append([observation("2", at=START)]))
        open_tx.start()
        assert paused.wait(120)
        other = threading.Thread(target=lambda: b.append([observation("3", at=START)]))
        other.start()
        time.sleep(0.3)
        assert other.is_alive()
        poll()
        assert (delivered, checkpoint) == (["1"], 1)
        go_on.set()
        open_tx.join(120)
        other.join(120)
        poll()
        assert delivered == ["1", "2", "3"]
        with pytest.raises(WrongExpectedVersion):
            a.append([observation("4", at=START)], expected={observation("1").stream: 9})
        b.append([observation("5", at=START)])
        poll()
        assert delivered == ["1", "2", "3", "5"]
        assert checkpoint == reader.head() == 4
        assert [event.position for event in reader.read()] == [1, 2, 3, 4]


def test_a_lost_connection_is_a_clear_line_and_the_store_goes_on(postgres_url: str) -> None:
    with open_store(postgres_url, create=True) as store:
        store.append([observation(revision=1)])
        appended = store.backend.appended

        def killed(connection: object, position: int) -> None:
            with psycopg.connect(postgres_url, autocommit=True) as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            appended(connection, position)  # type: ignore[arg-type]

        store.backend.appended = killed  # type: ignore[method-assign]
        with pytest.raises(LedgerUnreachable) as caught:
            store.append([observation(revision=2)], token="t")
        assert "\n" not in str(caught.value)
        store.backend.appended = appended  # type: ignore[method-assign]
        assert store.head() == 1
        assert store.append([observation(revision=2)], token="t").positions == [2]
        assert store.verify().ok


def test_a_server_that_is_not_there(tmp_path: object) -> None:
    with pytest.raises(LedgerUnreachable) as caught:
        open_store(f"postgresql://someone:secret@/ledger?host={tmp_path}")
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_database_that_is_not_there(postgres_server: str) -> None:
    with pytest.raises(LedgerMissing):
        open_store(database_url(postgres_server, "nothing_of_that_name"), create=True)


def test_a_database_of_something_else(postgres_url: str) -> None:
    with pytest.raises(LedgerMissing):
        open_store(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE mine (x int)")
    with pytest.raises(NotALedger):
        open_store(postgres_url, create=True)


def test_read_only(postgres_url: str) -> None:
    with open_store(postgres_url, create=True) as store:
        store.append([observation()])
    with open_store(postgres_url, read_only=True) as store:
        assert store.head() == 1
        with pytest.raises(LedgerUnwritable):
            store.append([observation("x")])


def test_a_writer_that_waits_too_long_is_told_so(postgres_url: str) -> None:
    with open_store(postgres_url, create=True) as holder, open_store(postgres_url, busy_timeout_seconds=0.2) as store:
        with holder.backend.writing(), pytest.raises(LedgerBusy):
            store.append([observation()])
        assert store.append([observation()]).positions == [1]


def test_the_same_url_in_all_its_spellings(postgres_url: str) -> None:
    open_store(postgres_url, create=True).close()
    address = postgres_url.split("://", 1)[1]
    for scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        with open_store(f"{scheme}://{address}") as store:
            assert store.head() == 0


def _partitioned(url: str, size: int) -> EventStore:
    backend = PostgresBackend(make_url(url), busy_timeout_seconds=5, partition_events=size)
    bring_up(backend, create=True, upgrade=False)
    return EventStore(backend)


def test_partitions_are_made_ahead_and_dropped_by_retention(postgres_url: str) -> None:
    with _partitioned(postgres_url, 100) as store:
        for batch in range(12):
            store.append(
                [
                    observation(f"pod-{i % 10}", batch * 50 + i + 1, payload=payload_like(i, 3_000), at=START)
                    for i in range(50)
                ]
            )
        assert _partitions(postgres_url)[-1] == "events_601_700"
        before = list(store.read())
        store.save_snapshot(Snapshot("cache", 1, "one", 470, None, b"state"))
        report = store.prune(before_position=471)
        assert (report.cut, report.kept, report.dropped) == (450, 10, 440)
        assert list(store.read(after=450)) == before[450:]
        assert [event.position for event in store.read(to=450)] == list(range(441, 451))
        assert store.verify().findings == []
        # The appender makes new partitions all the same, and a bigger size later does no harm.
        assert store.append([observation("new", at=START)]).positions == [601]
    with _partitioned(postgres_url, 1_000) as store:
        store.append([observation(f"more-{i}", at=START) for i in range(300)])
        assert store.head() == 901
        assert _partitions(postgres_url)[-1] == "events_701_1700"
        assert store.verify().findings == []


def _partitions(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'events'::regclass"
        ).fetchall()
    return sorted((row[0] for row in rows), key=lambda name: int(name.split("_")[1]))


def test_a_failed_append_that_made_a_partition(postgres_url: str) -> None:
    with _partitioned(postgres_url, 10) as store:
        appended = store.backend.appended

        def fail(connection: object, position: int) -> None:
            raise KeyboardInterrupt

        store.backend.appended = fail  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            store.append([observation(f"p-{i}", at=START) for i in range(25)])
        store.backend.appended = appended  # type: ignore[method-assign]
        assert store.head() == 0
        assert store.append([observation(f"p-{i}", at=START) for i in range(25)]).positions[-1] == 25


def test_a_follower_is_told_at_once(postgres_url: str) -> None:
    with open_store(postgres_url, create=True) as store, open_store(postgres_url) as writer:
        came: list[int] = []
        done, started = threading.Event(), threading.Event()

        def run() -> None:
            for events in store.follow(0, stop=done.is_set, poll_seconds=3_600):  # by looking it would come too late
                came.append(events[-1].position)
                started.set()
                if events[-1].position >= 2:
                    done.set()

        thread = threading.Thread(target=run)
        writer.append([observation(revision=1)])
        thread.start()
        assert started.wait(120)
        time.sleep(0.5)  # so that it mostly waits for the notice; it may as well come before
        writer.append([observation(revision=2)])
        thread.join(120)
        assert not thread.is_alive()
        assert came == [1, 2]
