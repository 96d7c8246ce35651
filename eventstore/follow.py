"""Following the log: what is there, then what comes.

Owns the loop. Must not know how a database tells that something came. Called by `eventstore.store`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from eventstore.backend import Backend, translated
from eventstore.read import Filter, Reader
from eventstore.types import StoredEvent


def follow(
    backend: Backend,
    reader: Reader,
    wanted: Filter,
    after: int,
    stop: Callable[[], bool],
    poll_seconds: float,
    batch: int,
) -> Iterator[list[StoredEvent]]:
    """Runs of events in order, each event once, until `stop` says True. A run is never empty. A follower that keeps the
    position of the last event it dealt with goes on from there after a restart."""
    with translated(backend), backend.waiting() as wait:
        while not stop():
            head = reader.head()
            if head <= after:
                wait(after, poll_seconds, stop)
                continue
            for some in reader.pages(wanted, after, head, False, batch):
                if some:
                    yield some
                if stop():
                    return
            after = head
