"""The one writer: a ledger that cannot be read for a while holds it up as one that cannot be written does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventstore import EventStore, open_store
from eventstore.testing import START, observation
from eventstore.types import LedgerUnreachable, StreamId
from vcledger.record import writer as writing
from vcledger.record.backlog import Backlog
from vcledger.record.feed import Gone, Item, size_of
from vcledger.record.meters import Meters
from vcledger.record.writer import Writer


def refusing(real: Callable[..., Any], times: int) -> Callable[..., Any]:
    """A method that refuses so often before it works."""
    left = [times]

    def call(*args: Any, **options: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise LedgerUnreachable("the server restarts")
        return real(*args, **options)

    return call


@pytest.mark.parametrize("method", ["head", "stream_head", "get", "append"])
def test_a_ledger_that_cannot_be_reached_is_tried_again(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "RETRY_SECONDS", (0.0,))
    troubles: list[str] = []
    with open_store(str(tmp_path / "l.db"), create=True) as store:
        store.append([observation("gone", 3, at=START)])
        backlog: Backlog[Item] = Backlog(size_of)
        writer = Writer(store, "one", backlog, Meters(), threading.Event(), trouble=troubles.append)
        monkeypatch.setattr(store, method, refusing(getattr(store, method), 2))
        stream = StreamId("one", "Pod", "default", "gone", "uid-of-gone")
        backlog.put([observation("first", 5), Gone(stream, START + 6_000_000), observation("last", 7)])
        backlog.close()
        writer.run()
        assert stored(store) == [("gone", 3), ("first", 5), ("gone", 3), ("last", 7)]
    assert troubles == ["the server restarts", ""]


def stored(store: EventStore) -> list[tuple[str, int | None]]:
    return [(event.name, event.resource_version) for event in store.read()]
