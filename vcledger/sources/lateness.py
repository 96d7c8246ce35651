"""What is older than the ledger's last moment, and still news: it must not be missing from the present.

Owns that decision (docs/adr/0009-observation-times.md). Must not know formats. Called by `vcledger.sources.pipeline`
for sources that do not say when something was observed.

An event is late when the ledger has got past its time: folds skip it. That is right for what the ledger knows better:
an object of which it has the same or a newer version, one that it saw deleted, or one of a kind that it watched at that
time. Of all other objects the ledger knows nothing newer, so they are observed when the ledger learns of them: at its
last moment. What was known before then is not rewritten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from eventstore import EventStore
from eventstore.types import NewEvent, StreamId
from vcledger.at import format_time
from vcledger.codec import OBJECT_TYPES
from vcledger.sources.items import Item, ListBegun, ListItem, Sighting
from vcledger.sources.moments import at
from vcledger.sources.report import ImportReport

NO_NUMBER = 1 << 60
"""From here on the log's numbers of versions are made from texts that are none, and say nothing of newer or older."""

GONE = NO_NUMBER
"""In place of a version: the ledger saw the object deleted, and nothing of it comes after that."""


class Admission:
    """The decision, for one import into a cluster. Reads the ledger once for each object that may be late."""

    def __init__(self, store: EventStore, cluster: str, report: ImportReport) -> None:
        self.store, self.cluster, self.report = store, cluster, report
        self.start = store.high_water(cluster)
        self._known: dict[StreamId, int | None] = {}
        self._watched: dict[str, int] = {}
        self._raised: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()

    def admitted(self, items: Iterator[Item]) -> Iterator[Item]:
        """The items; those that are older than the ledger and news to it stand at its last moment."""
        if self.start is None:
            yield from items
            return
        start = self.start
        for item in items:
            if type(item) is ListBegun and self._has(item):
                continue
            event = item.event if isinstance(item, ListItem | Sighting) else item
            old = type(event) is NewEvent and event.type in OBJECT_TYPES and event.observed_at < start
            yield at(item, start) if old and self._is_news(event) else item  # type: ignore[arg-type]

    def _has(self, begun: ListBegun) -> bool:
        """Whether the ledger has a list already: then its items are nothing new, and what is missing in it neither."""
        lists = self.store.read(cluster=self.cluster, kinds=begun.kind, types="ListCompleted")
        return any(one.resource_version == begun.key for one in lists)

    def _is_news(self, event: NewEvent) -> bool:
        stream, version = event.stream, event.resource_version
        if stream not in self._known:
            self._known[stream] = self._version(stream)
        known = self._known[stream]
        if known is None:
            if event.gone:
                return False
            if event.observed_at <= self._watched_until(stream.kind):
                self._unknown[stream.kind] += 1
                return False
        elif version is None or not known < version < NO_NUMBER:
            return False
        self._known[stream] = GONE if event.gone else version
        self._raised[stream.kind] += 1
        return True

    def _version(self, stream: StreamId) -> int | None:
        """The version of an object that the ledger has last; GONE, or None when its folds have never seen it. A version
        that is no number is above all others."""
        head = self.store.stream_head(stream)
        if head is None or not head.position:
            return None
        if head.gone:
            return GONE
        return NO_NUMBER if head.resource_version is None else head.resource_version

    def _watched_until(self, kind: str) -> int:
        """Until when the ledger had all objects of a kind in view: the last sign of its list and watch."""
        if kind not in self._watched:
            about = {"cluster": self.cluster, "kinds": kind, "late": False, "reverse": True, "limit": 1}
            listed = any(True for _ in self.store.read(types="ListCompleted", **about))  # type: ignore[arg-type]
            last = next(iter(self.store.read(**about)), None) if listed else None  # type: ignore[arg-type]
            self._watched[kind] = last.observed_at if last is not None else -(2**62)
        return self._watched[kind]

    def tell(self) -> None:
        """Notes of what was decided, kinds and counts with it."""
        if self._raised and self.start is not None:
            self.report.note(
                f"{counted(self._raised)}: older than the ledger's last moment, which knew nothing newer of them: they "
                f"count from that moment on ({format_time(self.start)}); files of one time belong in one import"
            )
        if self._unknown:
            self.report.note(
                f"{counted(self._unknown)}: not in the present, as the ledger's own list and watch of that kind "
                "went on after them and did not show them: kept as late (of what is there now, import a new list)"
            )


def counted(kinds: Counter[str]) -> str:
    """`3 Node, 1 Queue`"""
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
