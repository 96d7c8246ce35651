"""What a ledger needs while it is written to: snapshots and retention.

Owns when each of them is due. Must not know watches. Called by the recorder and the scheduler, on a
thread of its own with a ledger of its own, so that nothing here holds up an append for longer than the database does.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from sqlalchemy import text

from eventstore import EventStore
from eventstore.types import EventStoreError, PruneReport
from vcledger.at import format_time
from vcledger.errors import BadTime, VcledgerError
from vcledger.ledger import Ledger, cache_projection
from vcledger.record.meters import Meters
from vcledger.snapshotter import Snapshotter

ROUND_SECONDS = 5.0
"""Between two looks at what is due."""

SIZE_SECONDS, RETAIN_SECONDS = 30.0, 600.0
"""Between two looks at the ledger's size, and at its age."""

ROOM = 0.9
"""Of the size allowed, what is left after a prune, so that the next is not due at once."""

KEPT_MIN = 1_000
"""The newest events, which no limit on size drops."""


class Upkeep:
    """Snapshots as they fall due, and what is too old or too much dropped. `told` hears what was done, and what went
    wrong; neither ends the recording."""

    def __init__(
        self,
        db: str,
        cluster: str,
        meters: Meters,
        stop: threading.Event,
        *,
        snapshots: bool,
        retain_seconds: int | None,
        bytes_max: int | None,
        clock: Callable[[], int],
        told: Callable[[str], None],
    ) -> None:
        self.db, self.cluster, self.meters, self.stop = db, cluster, meters, stop
        self.snapshots, self.retain_seconds, self.bytes_max = snapshots, retain_seconds, bytes_max
        self.clock, self.told = clock, told
        self._snapshotter: Snapshotter[Any] | None = None
        self._size_due = self._retain_due = 0
        self._problem = ""

    def run(self) -> None:
        """A thread's life."""
        with Ledger.open(self.db) as ledger:
            while not self.stop.wait(ROUND_SECONDS):
                self.round(ledger)

    def round(self, ledger: Ledger) -> None:
        """Whatever is due now."""
        try:
            if self.snapshots:
                self._fold(ledger)
            now = self.clock()
            if now >= self._size_due:
                self._size_due = now + int(SIZE_SECONDS * 1_000_000)
                self._limit(ledger)
            if self.retain_seconds is not None and now >= self._retain_due:
                self._retain_due = now + int(RETAIN_SECONDS * 1_000_000)
                self._drop(ledger, format_time(now - self.retain_seconds * 1_000_000))
            self._problem = ""
        except (EventStoreError, VcledgerError) as error:
            self._snapshotter = None
            if str(error) != self._problem:
                self._problem = str(error)
                self.told(f"upkeep: {error}")

    def _fold(self, ledger: Ledger) -> None:
        if self._snapshotter is None:
            self._snapshotter = Snapshotter(ledger.store, self.cluster, cache_projection(*ledger.ways(self.cluster)))
        before = self._snapshotter.progress
        after = self._snapshotter.run()
        made = after.whole + after.changes - before.whole - before.changes
        if made:
            self.meters.add("snapshots", by=made)

    def _limit(self, ledger: Ledger) -> None:
        """Drops the oldest while the ledger takes more than it may."""
        size = used_bytes(ledger.store)
        self.meters.set("ledger_bytes", size)
        if self.bytes_max is None or size <= self.bytes_max:
            return
        first, head = ledger.store.first(), ledger.store.head()
        too_much = (size - self.bytes_max * ROOM) / size
        cut = min(first + int((head - first + 1) * too_much) + 1, head - KEPT_MIN)
        # SQLite uses the room again that rows leave; PostgreSQL counts as taken what it has not been told to reclaim.
        if cut <= first or not self._drop(ledger, cut, reclaim=ledger.store.backend.name != "sqlite"):
            self.told(
                f"the ledger takes {size:,} bytes, more than the {self.bytes_max:,} allowed, and nothing more can be "
                "dropped: what is left are the newest events, and what the present rests on"
            )

    def _drop(self, ledger: Ledger, before: str | int, *, reclaim: bool = False) -> bool:
        with contextlib.suppress(BadTime), self.meters.gauged("pruning"):
            report: PruneReport = ledger.prune(before, reclaim=reclaim)
            if report.dropped:
                self.meters.add("pruned", by=report.dropped)
                self.meters.set("ledger_bytes", used_bytes(ledger.store))
                self.told(f"dropped {report.dropped:,} events up to position {report.cut:,}")
            return report.dropped > 0
        return False


def used_bytes(store: EventStore) -> int:
    """What the ledger takes of the disk, without room in it that is free for what comes next: SQLite keeps that."""
    backend = store.backend
    if backend.name != "sqlite":
        return backend.size()
    with backend.reading() as connection:
        free, page = (
            int(connection.execute(text(f"PRAGMA {name}")).scalar_one()) for name in ("freelist_count", "page_size")
        )
    return max(0, backend.size() - free * page)
