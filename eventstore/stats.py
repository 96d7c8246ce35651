"""Counts and sizes of a ledger.

Owns nothing but the questions. Must not know either database. Called by `eventstore.store`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from eventstore import schema
from eventstore.backend import Backend, translated
from eventstore.positions import head_position, pruned_to
from eventstore.types import StoreStats


def stats(backend: Backend) -> StoreStats:
    b, t = schema.batches.c, schema.snapshots.c
    with translated(backend), backend.reading() as connection:
        appended, size, stored = connection.execute(
            select(func.sum(b.events), func.sum(b.payload_size), func.sum(b.payload_stored))
        ).one()
        dropped = connection.execute(select(func.sum(schema.prunes.c.dropped))).scalar()
        snapshots, snapshot_stored = connection.execute(select(func.count(), func.sum(func.length(t.payload)))).one()
        return StoreStats(
            backend=backend.name,
            events=int(appended or 0) - int(dropped or 0),
            head=head_position(connection),
            first=pruned_to(connection) + 1,
            streams=_count(connection, schema.streams),
            batches=_count(connection, schema.batches),
            clusters=_count(connection, schema.clusters),
            dictionaries=_count(connection, schema.dictionaries),
            snapshots=snapshots,
            snapshot_stored=int(snapshot_stored or 0),
            payload_size=int(size or 0),
            payload_stored=int(stored or 0),
            size=backend.size(),
        )


def _count(connection: Connection, table: Any) -> int:
    found: int = connection.execute(select(func.count()).select_from(table)).scalar_one()
    return found
