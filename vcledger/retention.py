"""Dropping what is old without losing a state that is not: snapshots at the cut first, then the log's own prune.

Owns where the cut is and which folds must be able to begin there. Must not know how the log drops rows. Called by
`Ledger.prune`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eventstore import EventStore
from eventstore.types import PruneReport, Snapshot
from projections.base import Projection
from vcledger.at import AtMarker, AtOffset, AtPosition, AtTime, parse
from vcledger.errors import BadTime

if TYPE_CHECKING:
    from vcledger.ledger import Ledger


def prune(
    ledger: Ledger, before: str | int, projections: Sequence[Projection[Any]], *, cluster: str | None, reclaim: bool
) -> PruneReport:
    """See `Ledger.prune`."""
    store = ledger.store
    cut = batch_end(store, cut_wanted(ledger, before, cluster))
    if cut < store.first():
        return store.prune(before_position=cut + 1, reclaim=False)
    for name in store.clusters():
        for projection in projections:
            state = ledger.folder.at(projection, name, cut)
            whole = projection.dump(state)
            store.save_snapshot(Snapshot(projection.name, projection.version, name, cut, None, whole))
        keep_flows(ledger, name, cut)
    covered = [(projection.name, projection.version) for projection in projections]
    return store.prune(before_position=cut + 1, projections=covered, reclaim=reclaim)


def keep_flows(ledger: Ledger, cluster: str, cut: int) -> None:
    """A snapshot at the cut of each scheduler's state that the cluster has snapshots of, as it goes on from there."""
    store = ledger.store
    flows = {info.projection: None for info in store.snapshots(cluster=cluster) if info.projection.startswith("flow")}
    if not flows:
        return
    from vcledger.scheduler.snapshot import VERSION, projection_of

    for name in flows:
        chain = store.load_snapshots(name, VERSION, cluster, store.head())
        if chain:
            projection = projection_of(chain[-1].payload)
            whole = projection.dump(ledger.folder.at(projection, cluster, cut))
            store.save_snapshot(Snapshot(name, VERSION, cluster, cut, None, whole))


def cut_wanted(ledger: Ledger, before: str | int, named: str | None = None) -> int:
    """The last position that may go. `before` a position or a marker: the one before it; a time, or an offset from the
    newest observation (of the cluster named, else of all): the last before the first event of any cluster that was
    observed since."""
    wanted = AtPosition(before) if isinstance(before, int) else parse(before)
    store = ledger.store
    clusters = store.clusters() if named is None else [ledger.cluster(named)]
    if isinstance(wanted, AtPosition | AtMarker):
        return max(ledger.position(before, named) - 1, 0)
    if isinstance(wanted, AtOffset):
        newest = [mark for cluster in clusters if (mark := store.high_water(cluster)) is not None]
        if not newest:
            raise BadTime("nothing was observed yet: there is no end to count back from")
        wanted = AtTime(max(newest) - wanted.micros)
    firsts = [store.head() + 1]
    for cluster in store.clusters():
        older = store.position_at(wanted.micros - 1, cluster)
        firsts += [event.position for event in store.read(after=older, cluster=cluster, late=False, limit=1)]
    return min(firsts) - 1


def batch_end(store: EventStore, position: int) -> int:
    """The last position at or before `position` at which a batch ends, as the log cuts nowhere else: events that were
    appended at different times are of different batches."""
    if position >= store.head():
        return store.head()
    after = None
    for event in store.read(after=store.first() - 1, to=position + 1, reverse=True):
        if after is not None and event.appended_at != after:
            return event.position
        after = event.appended_at
    return 0
