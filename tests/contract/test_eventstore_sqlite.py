"""What the log must do on SQLite beyond the common suite: files, locks, full disks, crashes, tampering."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventstore import open_store
from eventstore.store import EventStore
from eventstore.testing import START, observation, payload_like
from eventstore.types import (
    LedgerBusy,
    LedgerMissing,
    LedgerUnwritable,
    NotALedger,
    Snapshot,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def fill(path: Path, count: int = 20) -> None:
    with open_store(str(path), create=True) as store:
        store.append([observation(f"pod-{i % 4}", i, payload=payload_like(i)) for i in range(1, count + 1)])


class TestOpening:
    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(LedgerMissing, match="no ledger at"):
            open_store(str(tmp_path / "none.db"))
        with pytest.raises(LedgerMissing):
            open_store(str(tmp_path / "none.db"), create=True, read_only=True)
        with pytest.raises(LedgerMissing, match="folder"):
            open_store(str(tmp_path / "no" / "folder.db"), create=True)
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize("create", [False, True])
    def test_something_else(self, tmp_path: Path, create: bool) -> None:
        text, other = tmp_path / "notes.txt", tmp_path / "other.db"
        text.write_bytes(b"not a database at all, but long enough to be taken for one" * 100)
        with sqlite3.connect(other) as connection:
            connection.execute("CREATE TABLE mine (x)")
        connection.close()
        before = text.read_bytes(), other.read_bytes()
        for place in (str(text), str(other), str(tmp_path), "mysql://host/x", "sqlite://", "nonsense://"):
            with pytest.raises(NotALedger) as caught:
                open_store(place, create=create)
            assert "\n" not in str(caught.value)
        assert (text.read_bytes(), other.read_bytes()) == before

    def test_an_empty_file_becomes_a_ledger_only_when_asked(self, path: Path) -> None:
        path.touch()
        with pytest.raises(NotALedger):
            open_store(str(path))
        with open_store(str(path), create=True) as store:
            assert store.append([observation()]).positions == [1]

    def test_so_does_a_database_that_somebody_began_and_left_without_a_table(self, path: Path) -> None:
        """A full disk, or a kill, between the file's first page and its tables."""
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        connection.close()
        assert path.stat().st_size
        before = path.read_bytes()
        for options in ({}, {"read_only": True}, {"upgrade": True}):
            with pytest.raises(NotALedger, match="empty"):
                open_store(str(path), **options)
        assert path.read_bytes() == before
        with open_store(str(path), create=True) as store:
            assert store.append([observation()]).positions == [1]

    def test_a_url_and_a_path_with_odd_characters(self, tmp_path: Path) -> None:
        odd = tmp_path / "a b%20?#ü.db"
        with open_store(str(odd), create=True) as store:
            store.append([observation()])
        with open_store(f"sqlite:///{tmp_path}/plain.db", create=True) as store:
            store.append([observation()])
        assert sorted(os.listdir(tmp_path)) == [odd.name, "plain.db"]
        with open_store(str(odd), read_only=True) as store:
            assert store.head() == 1

    def test_the_file_says_what_it_is(self, path: Path) -> None:
        fill(path)
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA application_id").fetchone() == (0x76636C67,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()
        with open_store(str(path)) as store, store.backend.engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2

    def test_two_that_create_at_once(self, path: Path) -> None:
        stores: list[EventStore] = []
        threads = [threading.Thread(target=lambda: stores.append(open_store(str(path), create=True))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert len(stores) == 3
        for number, store in enumerate(stores):
            assert store.append([observation(f"p{number}", at=START)]).positions == [number + 1]
            store.close()


class TestReadOnly:
    def test_reads_and_refuses_to_write(self, path: Path) -> None:
        fill(path)
        with open_store(str(path), read_only=True) as store:
            assert store.head() == 20
            assert store.verify().ok
            for write in (
                lambda: store.append([observation("x")]),
                lambda: store.save_snapshot(Snapshot("p", 1, "one", 1, None, b"")),
            ):
                with pytest.raises(LedgerUnwritable):
                    write()

    def test_sees_what_a_writer_adds(self, path: Path) -> None:
        with open_store(str(path), create=True) as writer:
            writer.append([observation(revision=1)])
            with open_store(str(path), read_only=True) as reader:
                writer.append([observation(revision=2)])
                assert [event.position for event in reader.read()] == [1, 2]

    def test_where_no_file_can_be_made(self) -> None:
        with pytest.raises(LedgerUnwritable, match="no ledger can be made at") as caught:
            open_store("/proc/ledger.db", create=True)
        assert "import" not in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.slow
    def test_in_a_folder_that_cannot_be_written(self) -> None:
        # Rights do not hold root back, so another process gives its rights up first.
        script = """
import os, sys
from eventstore import open_store
from eventstore.types import LedgerUnwritable
from eventstore.testing import observation
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
with open_store(sys.argv[1], read_only=True) as store:
    print(store.head(), sum(len(event.payload) for event in store.read()), store.verify().ok)
try:
    open_store(sys.argv[1]).append([observation("new")])
except LedgerUnwritable as error:
    print("refused:", str(error).count(chr(10)))
"""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.db"
            fill(path)
            os.chmod(path, 0o444)
            os.chmod(folder, 0o555)
            try:
                done = subprocess.run(
                    [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=120, check=False
                )
            finally:
                os.chmod(folder, 0o755)
            size = sum(len(payload_like(i)) for i in range(1, 21))
            assert done.stdout.splitlines() == [f"20 {size} True", "refused: 0"], done.stderr


class TestBusy:
    def test_a_writer_that_waits_too_long_is_told_so(self, path: Path) -> None:
        fill(path)
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with open_store(str(path), busy_timeout_seconds=0.3) as store:
            began = time.monotonic()
            with pytest.raises(LedgerBusy) as caught:
                store.append([observation("x", at=START + 10**9)])
            assert 0.25 < time.monotonic() - began < 25  # who asks for nothing waits 30 s
            assert "database is locked" not in str(caught.value)
            assert store.head() == 20
            holder.execute("COMMIT")
            holder.close()
            assert store.append([observation("x", at=START + 10**9)]).positions == [21]

    @pytest.mark.slow
    def test_e2_a_reader_that_turns_to_writing(self, path: Path) -> None:
        """python/cpython#124510: a transaction that has read and then writes fails at once when another wrote between,
        whatever the timeout. Here no append ever begins by reading without the writers' lock."""
        with open_store(str(path), create=True) as reader, open_store(str(path)) as writer:
            reading = reader.read()
            assert list(reading) == []
            assert reader.head() == 0
            assert writer.append([observation("w", at=START)]).positions == [1]
            assert reader.append([observation("r", at=START)]).positions == [2]
        script = """
import sys
from eventstore import open_store
from eventstore.testing import START, observation
with open_store(sys.argv[1]) as store:
    for i in range(500):
        head = store.head()
        assert store.append([observation(f"{sys.argv[2]}-{i}", at=START)]).positions[0] > head
"""
        writers = [
            subprocess.Popen([sys.executable, "-c", script, str(path), name], stderr=subprocess.PIPE, text=True)
            for name in ("one", "two")
        ]
        errors = [writer.communicate(timeout=600)[1] for writer in writers]
        assert errors == ["", ""]
        with open_store(str(path)) as store:
            events = list(store.read())
            assert [event.position for event in events] == list(range(1, 1003))
            assert len({event.name for event in events}) == 1002
            assert store.verify().ok


class TestFullDisk:
    def test_nothing_is_half_stored_and_the_store_goes_on(self, path: Path) -> None:
        fill(path)
        with open_store(str(path)) as store:
            store.append([observation("known", 30)])
            backend = store.backend
            with backend.engine.connect() as connection:
                pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            backend.engine.dispose()

            def limit(connection: sqlite3.Connection, _record: object) -> None:
                connection.execute(f"PRAGMA max_page_count={pages + allowed}")

            from sqlalchemy import event

            allowed = 4
            event.listen(backend.engine, "connect", limit)
            big = [observation(f"big-{i}", 40 + i, payload=os.urandom(9_000)) for i in range(20)]
            for _ in range(2):
                with pytest.raises(LedgerUnwritable, match="no room") as caught:
                    store.append([observation("known", 31), *big], token="t")
                assert "\n" not in str(caught.value)
                assert store.head() == 21
            assert store.append([observation("known", 31)]).positions == [22]
            allowed = 10_000
            backend.engine.dispose()
            assert store.append([observation("known", 31), *big], token="t").already == 1
            head = store.stream_head(observation("known").stream)
            assert head is not None
            assert head.version == 2
            assert store.head() == 42
            assert store.verify().ok


class TestCrash:
    @pytest.mark.slow
    def test_what_was_acknowledged_survives_kill(self, path: Path) -> None:
        script = """
import sys
from eventstore import open_store
from eventstore.testing import START, observation, payload_like
with open_store(sys.argv[1], create=True) as store:
    i = 0
    while True:
        names = [f"pod-{i}-{k}" for k in range(7)]
        head = store.append([observation(n, at=START, payload=payload_like(i)) for n in names], token=f"t{i}").positions
        print(head[-1], flush=True)
        i += 1
"""
        acknowledged = 0
        for _ in range(3):
            writer = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
            assert writer.stdout is not None
            for _ in range(60):
                acknowledged = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read().split("\n")
            writer.stdout.close()
            writer.wait(120)
            acknowledged = max([acknowledged, *(int(line) for line in rest[:-1] if line)])
            with open_store(str(path)) as store:
                assert store.head() >= acknowledged
                assert store.head() % 7 == 0
                assert [event.position for event in store.read()] == list(range(1, store.head() + 1))
                assert store.verify().findings == []
            path.unlink()
            path.with_name("ledger.db-wal").unlink(missing_ok=True)
            path.with_name("ledger.db-shm").unlink(missing_ok=True)


TAMPERS = {
    "payload": "UPDATE events SET payload = zeroblob(length(payload)) WHERE position = 1500",
    "time": "UPDATE events SET observed_at = observed_at + 1 WHERE position = 7",
    "known": "UPDATE events SET flags = 1 WHERE position = 7",
    "gone": "UPDATE events SET gone = 1 WHERE position = 7",
    "resource version": "UPDATE events SET resource_version = NULL WHERE position = 7",
    "causation": "UPDATE events SET causation = 3 WHERE position = 7",
    "about": "UPDATE events SET about_id = 1 WHERE position = 7",
    "stream": "UPDATE events SET stream_id = 2 WHERE position = 7",
    "type": "UPDATE types SET name = 'ObjectAdded'",
    "schema": "UPDATE types SET schema = 2",
    "name": "UPDATE streams SET name = 'other' WHERE id = 3",
    "kind": "UPDATE kinds SET name = 'Node'",
    "cluster": "UPDATE clusters SET name = 'two'",
    "subject": "UPDATE subjects SET uid = 'someone'",
    "event dropped": "DELETE FROM events WHERE position = 8",
    "last event dropped": "DELETE FROM events WHERE position = 1600",
    "batch dropped": "DELETE FROM batches WHERE id = 2",
    "batch and its events dropped": "DELETE FROM batches WHERE id = 3; DELETE FROM events WHERE position > 1200",
    "append time": "UPDATE batches SET appended_at = 1 WHERE id = 1",
    "hash": "UPDATE batches SET hash = zeroblob(32) WHERE id = 2",
    "dictionary": "UPDATE dictionaries SET payload = zeroblob(length(payload))",
    "dictionary with its hash": (
        "UPDATE dictionaries SET payload = zeroblob(9), "
        "hash = x'3e7077fd2f66d689e0cee6a7cf5b37bf2dca7c979af356d0a31cbc5c85605c7d'"
    ),
    "head": "UPDATE stream_heads SET version = version + 1 WHERE stream_id = 2",
    "head's position": "UPDATE stream_heads SET position = 3 WHERE stream_id = 2",
    "head gone": "UPDATE stream_heads SET gone = 1 WHERE stream_id = 2",
    "mark": "UPDATE batch_marks SET high_water = high_water - 1 WHERE batch_id = 2",
    "high water": "UPDATE clusters SET high_water = high_water + 1",
    "snapshot": "UPDATE snapshots SET payload = zeroblob(20) WHERE position = 50",
    "snapshot moved": "UPDATE snapshots SET position = 60 WHERE position = 50",
    "snapshot's base dropped": "DELETE FROM snapshots WHERE position = 50",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A ledger's bytes: three batches, a dictionary, two snapshots."""
    path = tmp_path_factory.mktemp("whole") / "ledger.db"
    events = [
        observation(f"pod-{i % 40}", i, payload=payload_like(i), about="someone-else" if i == 5 else "")
        for i in range(1, 1601)
    ]
    with open_store(str(path), create=True) as store:
        for start, end in ((0, 400), (400, 1200), (1200, 1600)):
            store.append(events[start:end])
        store.save_snapshot(Snapshot("cache", 1, "one", 50, None, b"state" * 100))
        store.save_snapshot(Snapshot("cache", 1, "one", 90, 50, b"more"))
        assert store.verify().ok
        assert store.stats().dictionaries == 1
    return path.read_bytes()


class TestTampering:
    @pytest.mark.parametrize("what", TAMPERS)
    def test_each_change_is_found(self, path: Path, whole: bytes, what: str) -> None:
        path.write_bytes(whole)
        connection = sqlite3.connect(path)
        connection.executescript(TAMPERS[what])
        connection.close()
        with open_store(str(path)) as store:
            report = store.verify()
        assert not report.ok
        assert all("\n" not in finding.message for finding in report.findings)

    def test_the_end_cut_off_whole_shows_in_the_head_hash(self, path: Path, whole: bytes) -> None:
        path.write_bytes(whole)
        with open_store(str(path)) as store:
            before = store.verify().head_hash
            store.append([observation("pod-1", 5_000)])
            assert store.verify().head_hash != before


class TestPrunedTampering:
    @pytest.fixture
    def pruned(self, path: Path) -> Iterator[Path]:
        with open_store(str(path), create=True) as store:
            for batch in range(4):
                store.append([observation(f"pod-{i}", batch * 5 + i + 1) for i in range(5)])
            store.save_snapshot(Snapshot("cache", 1, "one", 15, None, b"state"))
            assert store.prune(before_position=16).cut == 15
            assert store.verify().ok
        yield path

    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE events SET payload = x'00' WHERE position = 12",
            "DELETE FROM events WHERE position = 12",
            "UPDATE batches SET hash = zeroblob(32) WHERE id = 3",
            "UPDATE prunes SET dropped = 3",
            "UPDATE prunes SET cut = 10",
            "DELETE FROM prunes",
            "UPDATE stream_heads SET pruned_version = 1 WHERE stream_id = 2",
        ],
    )
    def test_each_change_is_found(self, pruned: Path, change: str) -> None:
        connection = sqlite3.connect(pruned)
        connection.executescript(change)
        connection.close()
        with open_store(str(pruned)) as store:
            assert not store.verify().ok


def test_the_view_for_people(path: Path) -> None:
    with open_store(str(path), create=True) as store:
        store.append([observation("pod-0", 7, about="node-uid"), observation("pod-0", 8, gone=True, known=1)])
        store.append([observation("pod-1", 9, at=START, cluster="one")])
        times = [event.appended_at for event in store.read()]
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    rows = [dict(row) for row in connection.execute("SELECT * FROM events_view ORDER BY position")]
    connection.close()
    assert [row["appended_at"] for row in rows] == times
    assert {key: rows[0][key] for key in ("cluster", "kind", "name", "version", "type", "known", "about", "late")} == {
        "cluster": "one",
        "kind": "Pod",
        "name": "pod-0",
        "version": 1,
        "type": "ObjectModified",
        "known": "recorded",
        "about": "node-uid",
        "late": 0,
    }
    assert [(row["gone"], row["known"], row["late"], row["resource_version"]) for row in rows] == [
        (0, "recorded", 0, 7),
        (1, "inferred", 0, 8),
        (0, "recorded", 1, 9),
    ]
