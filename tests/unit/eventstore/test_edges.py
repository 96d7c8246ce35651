"""What only a bug on purpose showed to be untested: see docs/mutants.md."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import zstandard

from eventstore import accept, open_store, training
from eventstore.chain import numbers
from eventstore.codec import Known, lengthen, shorten
from eventstore.testing.build import SECOND, START, observation, payload_like
from eventstore.types import InvalidEvent, LedgerCorrupt, Snapshot
from tests.unit.eventstore.test_runs import both, observed


def test_what_is_acknowledged_is_on_the_disk(tmp_path: Path) -> None:
    """synchronous=FULL: a commit waits for the disk, also under write-ahead logging."""
    with open_store(str(tmp_path / "ledger.db"), create=True) as store, store.backend.writing() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"


def test_a_moment_at_which_several_batches_end_is_after_all_of_them(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "ledger.db"), create=True) as store:
        for revision in (1, 2, 3):
            store.append([observation(revision=revision, at=START)])
        store.append([observation(revision=4, at=START + SECOND)])
        assert store.position_at(START, "one") == 3
        assert store.position_at(START - 1, "one") == 0
        assert store.position_at(START + SECOND, "one") == 4


def test_a_hole_in_a_streams_versions_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with open_store(str(path), create=True) as store:
        store.append([observation(revision=revision) for revision in (1, 2, 3)])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE events SET version = 4 WHERE position = 3")
        connection.execute("UPDATE stream_heads SET version = 4")
    connection.close()
    with open_store(str(path)) as store:
        found = {(finding.rule, finding.position) for finding in store.verify().findings}
    assert ("version", 3) in found


def test_which_event_has_a_number_is_part_of_the_form() -> None:
    assert numbers([None, 1]) != numbers([1, None])
    assert numbers([None, 1, None]) != numbers([None, None, 1])


def test_what_was_changed_is_not_dropped(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with open_store(str(path), create=True) as store:
        for revision in range(1, 5):
            store.append([observation(revision=revision)])
        store.save_snapshot(Snapshot("cache", 1, "one", 3, None, b"state"))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE events SET observed_at = observed_at + 1 WHERE position = 2")
    connection.close()
    with open_store(str(path)) as store:
        with pytest.raises(LedgerCorrupt, match="nothing was dropped"):
            store.prune(before_position=4)
        assert [event.position for event in store.read()] == [1, 2, 3, 4]


def test_a_run_is_stored_as_its_events_are(tmp_path: Path) -> None:
    """Its duplicates, what of it comes late, and the mark that it leaves."""
    first = [observed("u1", 1, 10), observed("u2", 2, 11), observed("u1", 3, 12)]
    again = [observed("u1", 3, 12), observed("u1", 1, 12), observed("u3", 9, 13)]
    late = [observed("u4", 20, 5), observed("u4", 21, 6), observed("u1", 22, 14)]
    both(tmp_path, [first, again, late, [observed("u2", 30, 11), observed("u2", 31, 15)]])


def test_a_name_that_is_a_byte_of_the_short_form_comes_back() -> None:
    known = Known(b"u", b"\x01")
    short = shorten(b"uX", known, None)
    assert short is not None
    assert lengthen(short, known, None) == b"uX"


def test_a_snapshot_that_was_changed_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with open_store(str(path), create=True) as store:
        store.append([observation()])
        store.save_snapshot(Snapshot("cache", 1, "one", 1, None, b"state"))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE snapshots SET payload = ?", (zstandard.ZstdCompressor().compress(b"other"),))
    connection.close()
    with open_store(str(path)) as store, pytest.raises(LedgerCorrupt, match="not what was saved"):
        store.load_snapshots("cache", 1, "one", 1)


def test_the_event_at_the_position_stays(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "ledger.db"), create=True) as store:
        for revision in range(1, 6):
            store.append([observation(revision=revision)])
        for position in (3, 4):
            store.save_snapshot(Snapshot("cache", 1, "one", position, None, b"state"))
        assert store.prune(before_position=4).cut == 3
        assert store.first() == 4


def test_all_that_are_asked_for_must_cover(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "ledger.db"), create=True) as store:
        for revision in range(1, 6):
            store.append([observation(revision=revision)])
        for name, position in (("one", 2), ("other", 4)):
            store.save_snapshot(Snapshot(name, 1, "one", position, None, b"state"))
        assert store.prune(before_position=6, projections=[("one", 1), ("other", 1)]).cut == 2


def test_objects_of_another_kind_get_a_dictionary_before_the_ledger_has_grown_by_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "RATIO_WINDOW", 200)
    other = [f'{{"node":{i},"status":"{i * 7919 % 4099}-of-another-kind"}}'.encode() * 3 for i in range(400)]
    payloads = [*map(payload_like, range(1_200)), *other]
    with open_store(str(tmp_path / "ledger.db"), create=True) as store:
        counts = []
        for start in range(0, 1_500, 100):
            store.append([observation(f"p-{i}", payload=payloads[i]) for i in range(start, start + 100)])
            counts.append(store.stats().dictionaries)
        assert [counts.index(number) * 100 + 100 for number in (1, 2)] == [1_000, 1_400]


def test_a_payload_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accept, "PAYLOAD_BYTES_MAX", 10)
    assert accept.checked(b"x" * 10) == b"x" * 10
    for size in (11, 12):
        with pytest.raises(InvalidEvent, match=f"a payload has {size} bytes, over 10"):
            accept.checked(b"x" * size)


@pytest.mark.parametrize("known", [0, 1, 2])
def test_late_is_counted_however_it_is_known(tmp_path: Path, known: int) -> None:
    with open_store(str(tmp_path / "ledger.db"), create=True) as store:
        assert store.append([observation(known=known, late=True), observation("q", known=known)]).late == 1


def test_a_token_is_kept_with_the_batch_that_it_stored(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with open_store(str(path), create=True) as store:
        store.append([observation()])
        store.append([observation("q")], token="stored")
        store.append([observation("q")], token="nothing new")
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT token, batch_id FROM tokens ORDER BY token").fetchall()
    connection.close()
    assert rows == [("nothing new", None), ("stored", 2)]
