"""Appends run beside the reading: in order, each whole, and what goes wrong in one is told."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eventstore import EventStore, open_store
from eventstore.testing import observation
from eventstore.types import AppendResult, InvalidEvent, LedgerUnwritable, NewEvent
from vcledger.sources.interpreter import TURN_SECONDS, rare_collections, short_turns
from vcledger.sources.report import ImportReport
from vcledger.sources.sink import Sink


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    with open_store(str(tmp_path / "ledger.db"), create=True) as opened:
        yield opened


def _events(count: int) -> list[NewEvent]:
    return [observation(f"pod-{i % 7}", i + 1, cluster="c") for i in range(count)]


def _watched(store: EventStore, monkeypatch: pytest.MonkeyPatch, before: Callable[[int], None]) -> list[int]:
    """The sizes of the store's appends, as they begin; `before` is called with the number of each."""
    sizes: list[int] = []
    append = store.append

    def watched(events: list[NewEvent]) -> AppendResult:
        sizes.append(len(events))
        before(len(sizes))
        return append(events)

    monkeypatch.setattr(store, "append", watched)
    return sizes


def test_all_is_stored_in_order(store: EventStore) -> None:
    report, events = ImportReport(cluster="c"), _events(1_003)
    with Sink(store, "c", report, batch=10) as sink:
        for event in events:
            sink.take(event)
        sink.finish()
        assert [event.resource_version for event in store.read()] == list(range(1, 1_004))
    assert (report.stored, report.already) == (1_003, 0)


def test_one_append_at_a_time_and_reading_goes_on(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, main, threads = threading.Event(), threading.current_thread(), []

    def wait(number: int) -> None:
        threads.append(threading.current_thread())
        assert go_on.wait(120)

    sizes = _watched(store, monkeypatch, wait)
    with Sink(store, "c", ImportReport(cluster="c"), batch=10) as sink:
        for event in _events(19):
            sink.take(event)
        assert len(sizes) <= 1
        assert store.head() == 0
        go_on.set()
        sink.finish()
    assert sizes == [10, 9]
    assert main not in threads


def test_a_failed_append_is_told_and_nothing_comes_after_it(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(number: int) -> None:
        if number == 2:
            raise LedgerUnwritable("no room left on the disk")

    sizes, report = _watched(store, monkeypatch, fail), ImportReport(cluster="c")
    with pytest.raises(LedgerUnwritable), Sink(store, "c", report, batch=10) as sink:
        for event in _events(100):
            sink.take(event)
        sink.finish()
    assert sizes == [10, 10]
    assert report.stored == store.head() == 10


def test_an_event_that_cannot_be_kept_takes_its_batch_alone_with_it(store: EventStore) -> None:
    events = _events(30)
    events[14] = events[14]._replace(payload="no bytes")  # type: ignore[arg-type]
    with pytest.raises(InvalidEvent), Sink(store, "c", ImportReport(cluster="c"), batch=10) as sink:
        for event in events:
            sink.take(event)
        sink.finish()
    assert store.head() == 10
    assert store.verify().ok


def test_an_interrupt_waits_for_the_append_under_way(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow(number: int) -> None:
        begun.set()
        ended.wait(0.2)

    _watched(store, monkeypatch, slow)
    with pytest.raises(KeyboardInterrupt), Sink(store, "c", ImportReport(cluster="c"), batch=10) as sink:
        for event in _events(10):
            sink.take(event)
        assert begun.wait(120)
        raise KeyboardInterrupt
    assert store.head() == 10
    assert store.verify().ok


def test_the_interpreters_turns_are_as_they_were_afterwards() -> None:
    before = sys.getswitchinterval()
    with pytest.raises(ZeroDivisionError), short_turns():
        assert sys.getswitchinterval() == pytest.approx(TURN_SECONDS)
        _ = 1 / 0
    assert sys.getswitchinterval() == before


@pytest.mark.parametrize("set_before", [(700, 10, 10), (200_000, 5, 5), (0, 10, 10)])
def test_collections_are_as_they_were_afterwards(set_before: tuple[int, int, int]) -> None:
    at_first = gc.get_threshold()
    try:
        gc.set_threshold(*set_before)
        with pytest.raises(ZeroDivisionError), rare_collections():
            assert gc.get_threshold()[0] == (max(100_000, set_before[0]) if set_before[0] else 0)
            _ = 1 / 0
        assert gc.get_threshold() == set_before
    finally:
        gc.set_threshold(*at_first)
