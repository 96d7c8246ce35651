"""Retention: dropping what is old, once a snapshot covers it.

Owns what goes and what stays. Must not know what a state is. Called by `eventstore.store`.

A prune cuts at the end of a batch, never inside one. At or below the cut these stay: the newest event and the newest
observation of each stream whose object was not gone there (a cache names an object by the position of its last
observation, and reads it later), every batch's row with its hash, and snapshots that later positions still need. What
went is replaced by a link in the chain that says how much went, and vouches for the rows that stayed; `verify` goes on
passing, and still notices a change to any of it. Before anything is dropped it is verified one last time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, text

from eventstore import schema
from eventstore.backend import Backend, translated
from eventstore.chain import GENESIS, batch_hash
from eventstore.positions import head_position, position_within, pruned_to
from eventstore.snapshots import chain
from eventstore.types import KEYED, LedgerCorrupt, PruneReport, SnapshotMissing
from eventstore.verify import Prune, Walk, prune_record

Covers = Sequence[tuple[str, int]]
"""Projections that must be covered: (name, version) of each."""

_KEPT = """
INSERT INTO kept_events
SELECT max(position) FROM events WHERE position <= :cut AND flags < 4 GROUP BY stream_id
UNION
SELECT max(position) FROM events WHERE position <= :cut AND flags < 4 AND resource_version < :keyed GROUP BY stream_id
"""
_GONE = """
DELETE FROM kept_events WHERE position IN (SELECT position FROM events WHERE position <= :cut AND stream_id IN (
SELECT stream_id FROM events WHERE gone AND position IN (
SELECT max(position) FROM events WHERE position <= :cut AND flags < 4
AND (resource_version < :keyed OR (resource_version IS NULL AND gone)) GROUP BY stream_id)))
"""
# Of an object that was gone at an earlier cut already there is no observation left, only its head.
_LONG_GONE = """
DELETE FROM kept_events WHERE position IN (SELECT position FROM events WHERE position <= :cut AND stream_id IN (
SELECT stream_id FROM stream_heads WHERE gone AND position <= :cut))
"""
_BASES = """
UPDATE stream_heads SET pruned_version = (SELECT max(CASE WHEN e.version > stream_heads.pruned_version
THEN e.version ELSE stream_heads.pruned_version END)
FROM events e WHERE e.stream_id = stream_heads.stream_id AND e.position <= :cut)
WHERE stream_id IN (SELECT stream_id FROM events WHERE position <= :cut)
"""
# The highest number stays, so that no number is ever given out twice: readers remember what they mean.
_STREAMS = """
DELETE FROM streams WHERE id IN (SELECT stream_id FROM stream_heads WHERE (gone OR position = 0) AND position <= :cut)
AND id < (SELECT max(stream_id) FROM stream_heads)
AND NOT EXISTS (SELECT 1 FROM events e WHERE e.stream_id = streams.id)
"""
_HEADS = "DELETE FROM stream_heads WHERE NOT EXISTS (SELECT 1 FROM streams s WHERE s.id = stream_heads.stream_id)"


def prune(
    backend: Backend,
    clock: Callable[[], int],
    *,
    before_position: int | None,
    before_time: int | None,
    projections: Covers | None,
    reclaim: bool,
) -> PruneReport:
    """See `EventStore.prune`."""
    if (before_position is None) == (before_time is None):
        raise ValueError("give either before_position or before_time")
    size_before = backend.size()
    with translated(backend), backend.reading() as connection:
        wanted = before_position if before_position is not None else first_at(connection, before_time or 0)
        cut = cut_for(connection, min(wanted - 1, head_position(connection)), projections)
        if cut <= pruned_to(connection):
            return PruneReport(0, 0, 0, 0, 0, size_before, size_before)
        vouch(backend, connection, cut)
    with translated(backend), backend.writing() as connection:
        if cut <= pruned_to(connection):
            return PruneReport(0, 0, 0, 0, 0, size_before, size_before)
        report = _drop(backend, connection, clock, cut)
    if reclaim:
        with translated(backend):
            backend.reclaim(cut)
    return report._replace(size_before=size_before, size_after=backend.size())


def first_at(connection: Connection, observed_at: int) -> int:
    """The first position of an event, of any cluster, that was observed at or after a time and is not late."""
    e, s = schema.events.c, schema.streams.c
    firsts = [head_position(connection) + 1]
    for id_, name in connection.execute(select(schema.clusters.c.id, schema.clusters.c.name)).all():
        before = position_within(connection, name, observed_at - 1)
        statement = (
            select(e.position)
            .join(schema.streams, s.id == e.stream_id)
            .where(e.position > before, e.flags < schema.LATE, s.cluster_id == id_)
            .order_by(e.position)
            .limit(1)
        )
        firsts += connection.execute(statement).scalars().all()
    return min(firsts)


def cut_for(connection: Connection, wanted: int, projections: Covers | None) -> int:
    """The highest position at or below the wanted one at which a batch ends and which snapshots cover, for each cluster
    that has events there. SnapshotMissing when one has no snapshot."""
    b, m, c = schema.batches.c, schema.batch_marks.c, schema.clusters.c
    names = connection.execute(
        select(c.name)
        .join(schema.batch_marks, m.cluster_id == c.id)
        .group_by(c.name)
        .having(func.min(m.position) <= wanted)
    )
    cut = wanted
    for name in names.scalars().all():
        cut = min(cut, covered(connection, name, wanted, projections))
    last = b.first_position + b.events - 1
    found: int | None = connection.execute(select(func.max(last)).where(b.events > 0, last <= cut)).scalar()
    return found or 0


def covered(connection: Connection, cluster: str, wanted: int, projections: Covers | None) -> int:
    """The position up to which snapshots cover a cluster: all of the projections named, or else the best of any."""
    t = schema.snapshots.c
    asked: Covers
    if projections is None:
        rows = connection.execute(select(t.projection, t.version).where(t.cluster == cluster).distinct())
        asked = rows.all()
    else:
        asked = projections
    ends = {}
    for name, version in asked:
        links = chain(connection, name, version, cluster, wanted)
        if not links and projections is not None:
            raise SnapshotMissing(
                f"{name} version {version} of cluster {cluster} has no snapshot at or before {wanted}: save one first"
            )
        if links:
            ends[name, version] = links[-1]
    if not ends:
        raise SnapshotMissing(f"cluster {cluster} has no snapshot at or before {wanted}: save one first")
    return max(ends.values()) if projections is None else min(ends.values())


def vouch(backend: Backend, connection: Connection, cut: int) -> None:
    """Verifies what is about to go: once it is dropped, nobody can."""
    walk = Walk(backend, connection, None)
    walk.chain(cut)
    if walk.findings:
        raise LedgerCorrupt(f"nothing was dropped: {walk.findings[0].message}: run `vcledger verify`")


def _drop(backend: Backend, connection: Connection, clock: Callable[[], int], cut: int) -> PruneReport:
    of_cut, of_objects = {"cut": cut}, {"cut": cut, "keyed": KEYED}
    connection.execute(text("CREATE TEMPORARY TABLE kept_events (position BIGINT PRIMARY KEY)"))
    connection.execute(text(_KEPT), of_objects)
    connection.execute(text(_GONE), of_objects)
    connection.execute(text(_LONG_GONE), of_cut)
    connection.execute(text(_BASES), of_cut)
    dropped = backend.delete_events(connection, cut)
    connection.execute(text("DROP TABLE kept_events"))
    streams = connection.execute(text(_STREAMS), of_cut).rowcount
    connection.execute(text(_HEADS))
    snapshots = _drop_snapshots(connection, cut)
    kept = _link(backend, connection, clock, cut, dropped)
    return PruneReport(cut, dropped, kept, streams, snapshots, 0, 0)


def _drop_snapshots(connection: Connection, cut: int) -> int:
    """Drops the snapshots below the cut that no chain needs which ends at or above it: from them no later state can be
    folded any more."""
    t = schema.snapshots.c
    rows = connection.execute(
        select(t.projection, t.version, t.cluster, t.position, t.base).order_by(t.position.desc())
    ).all()
    needed: set[tuple[Any, ...]] = set()
    unneeded: list[tuple[Any, ...]] = []
    for projection, version, cluster, position, base in rows:
        key = (projection, version, cluster)
        if position >= cut or (*key, position) in needed:
            needed.add((*key, base))
        else:
            unneeded.append((*key, position))
    for projection, version, cluster, position in unneeded:
        connection.execute(
            delete(schema.snapshots).where(
                t.projection == projection, t.version == version, t.cluster == cluster, t.position == position
            )
        )
    return len(unneeded)


def _link(backend: Backend, connection: Connection, clock: Callable[[], int], cut: int, dropped: int) -> int:
    """Writes the prune into the chain; how many rows were kept."""
    b = schema.batches.c
    last = connection.execute(select(b.id, b.hash).order_by(b.id.desc()).limit(1)).one()
    id_ = (connection.execute(select(func.max(schema.prunes.c.id))).scalar() or 0) + 1
    kept, hash_ = Walk(backend, connection, None).hash_kept(cut)
    record = Prune(id_, last.id + 1, cut, dropped, kept, hash_)
    connection.execute(insert(schema.prunes).values(**record._asdict()))
    first, now = head_position(connection) + 1, clock()
    link = batch_hash(bytes(last.hash), record.batch_id, first, 0, now, 0, 0, None, GENESIS, [prune_record(record)])
    connection.execute(
        insert(schema.batches).values(
            id=record.batch_id,
            first_position=first,
            events=0,
            appended_at=now,
            payload_size=0,
            payload_stored=0,
            hash=link,
        )
    )
    through = select(func.max(b.id)).where(b.events > 0, b.first_position <= cut).scalar_subquery()
    connection.execute(delete(schema.tokens).where(schema.tokens.c.batch_id <= through))
    return kept
