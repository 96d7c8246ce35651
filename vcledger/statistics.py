"""What a ledger holds, counted: events by kind and type, times by cluster, and what they take on disk.

Owns the counting. Must not know how it is printed. Called by `cli.stats`.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from eventstore.types import KNOWN_NAMES, StoreStats
from vcledger.ledger import Ledger


class ClusterTimes(NamedTuple):
    """A cluster's events and the first and last time of observation among them, in microseconds."""

    cluster: str
    events: int
    first: int
    last: int


class Statistics(NamedTuple):
    """The store's own figures, which are the whole ledger's, and counts of the events that are there now (retention may
    have dropped others), of `cluster` where one is named. `kinds` and `types` are by count, the largest first. Ratios
    are the whole ledger's, 0.0 of an empty one."""

    store: StoreStats
    clusters: list[ClusterTimes]
    kinds: dict[str, int]
    types: dict[str, int]
    known: dict[str, int]
    late: int
    cluster: str | None = None

    @property
    def events(self) -> int:
        """How many events were counted."""
        return sum(self.types.values())

    @property
    def bytes_per_event(self) -> float:
        """The whole ledger on disk, indexes and all, by its events."""
        return self.store.size / self.store.events if self.store.events else 0.0

    @property
    def compression(self) -> float:
        """How many times smaller the payloads are stored than they came."""
        return self.store.payload_size / self.store.payload_stored if self.store.payload_stored else 0.0

    @property
    def ratio(self) -> float:
        """How many times larger the payloads alone were than the whole ledger is. Events that retention has dropped
        count in the payloads, so after a prune it flatters."""
        return self.store.payload_size / self.store.size if self.store.size else 0.0


def statistics(ledger: Ledger, cluster: str | None = None) -> Statistics:
    """Counts in one pass over the log, of one cluster where it is named; the store's figures are the whole ledger's."""
    kinds: Counter[str] = Counter()
    types: Counter[str] = Counter()
    known: Counter[str] = Counter()
    events: Counter[str] = Counter()
    times: dict[str, tuple[int, int]] = {}
    late = 0
    wanted = ledger.cluster(cluster) if cluster is not None else None
    for batch in ledger.store.read_raw(cluster=wanted, late=True):
        for _, stream, type_, _, observed_at, how, is_late, *_ in batch:
            kinds[stream.kind] += 1
            types[type_] += 1
            known[KNOWN_NAMES[how]] += 1
            events[stream.cluster] += 1
            late += is_late
            first, last = times.get(stream.cluster, (observed_at, observed_at))
            times[stream.cluster] = min(first, observed_at), max(last, observed_at)
    return Statistics(
        store=ledger.store.stats(),
        clusters=[ClusterTimes(name, events[name], *times[name]) for name in sorted(times)],
        kinds=dict(kinds.most_common()),
        types=dict(types.most_common()),
        known=dict(known.most_common()),
        late=late,
        cluster=wanted,
    )
