"""Snapshots of projections: saved as chains, loaded as chains.

Owns the table `snapshots`. Must not know what a state is. Called by `eventstore.store`, and by retention and `verify`.

A whole snapshot stands alone; one with a base holds only what changed since. Loading gives the whole one and all
changes after it, oldest first. Those of another version of the projection are as good as not there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import zstandard
from sqlalchemy import Connection, Row, delete, func, insert, select

from eventstore import schema
from eventstore.backend import Backend, chunks, translated
from eventstore.chain import digest
from eventstore.types import LedgerCorrupt, Snapshot, SnapshotInfo, SnapshotMissing
from eventstore.words import check_text

LEVEL = 9
"""Of zstd: a twentieth smaller than at 6; beyond, the time grows faster than the gain."""


class Snapshots:
    """The snapshots of a ledger."""

    def __init__(self, backend: Backend, clock: Callable[[], int]) -> None:
        self._backend = backend
        self._clock = clock

    def save(self, snapshot: Snapshot, replace: bool) -> None:
        t = schema.snapshots.c
        check_text(snapshot.projection, "projection")
        check_text(snapshot.cluster, "cluster")
        payload = zstandard.ZstdCompressor(level=LEVEL).compress(snapshot.payload)
        with translated(self._backend), self._backend.writing() as connection:
            there = select(t.position).where(*_same(snapshot.projection, snapshot.version, snapshot.cluster))
            if connection.execute(there.where(t.position == snapshot.position)).first() is not None:
                if not replace:
                    return
                same = _same(snapshot.projection, snapshot.version, snapshot.cluster)
                connection.execute(delete(schema.snapshots).where(*same, t.position == snapshot.position))
            if snapshot.base is not None:
                based = there.where(t.position == snapshot.base)
                if snapshot.base >= snapshot.position or connection.execute(based).first() is None:
                    raise SnapshotMissing(
                        f"the snapshot of {snapshot.projection} at {snapshot.position} builds upon one at "
                        f"{snapshot.base} that is not there: save a whole one"
                    )
            connection.execute(
                insert(schema.snapshots).values(
                    projection=snapshot.projection,
                    version=snapshot.version,
                    cluster=snapshot.cluster,
                    position=snapshot.position,
                    base=snapshot.base,
                    created_at=self._clock(),
                    size=len(snapshot.payload),
                    hash=snapshot_hash(snapshot),
                    payload=payload,
                )
            )

    def load(self, projection: str, version: int, cluster: str, at: int) -> list[Snapshot]:
        with translated(self._backend), self._backend.reading() as connection:
            positions = chain(connection, projection, version, cluster, at)
            found: dict[int, Snapshot] = {}
            t = schema.snapshots.c
            for some in chunks(positions, 2_000):
                wanted = select(schema.snapshots).where(*_same(projection, version, cluster), t.position.in_(some))
                found.update((row.position, opened(row)) for row in connection.execute(wanted))
        return [found[position] for position in positions]

    def list(self, projection: str | None, version: int | None, cluster: str | None) -> list[SnapshotInfo]:
        t = schema.snapshots.c
        statement = select(
            t.projection, t.version, t.cluster, t.position, t.base, t.created_at, t.size, func.length(t.payload)
        ).order_by(t.position, t.projection, t.version, t.cluster)
        for column, value in ((t.projection, projection), (t.version, version), (t.cluster, cluster)):
            if value is not None:
                statement = statement.where(column == value)
        with translated(self._backend), self._backend.reading() as connection:
            return [SnapshotInfo(*row) for row in connection.execute(statement)]


def _same(projection: str, version: int, cluster: str) -> tuple[Any, ...]:
    t = schema.snapshots.c
    return t.projection == projection, t.version == version, t.cluster == cluster


def chain(connection: Connection, projection: str, version: int, cluster: str, at: int) -> list[int]:
    """Positions of the chain that ends in the newest snapshot at or before `at`, oldest first; [] when there is none.
    A chain with a missing link is none, and the one before it is taken."""
    t = schema.snapshots.c
    statement = (
        select(t.position, t.base)
        .where(*_same(projection, version, cluster), t.position <= at)
        .order_by(t.position.desc())
    )
    rows = connection.execute(statement).all()
    bases = dict(rows)
    broken: set[int] = set()
    for position, _ in rows:
        links: list[int] = []
        here: int | None = position
        while here is not None and here in bases and here not in broken:
            links.append(here)
            here = bases[here]
        if here is None:
            return links[::-1]
        broken.update(links)
    return []


def opened(row: Row[*tuple[Any, ...]]) -> Snapshot:
    """A row's snapshot. LedgerCorrupt when its bytes are not what was saved."""
    name = f"the snapshot of {row.projection} at {row.position}"
    try:
        payload = zstandard.ZstdDecompressor().decompress(bytes(row.payload))
    except zstandard.ZstdError as error:
        raise LedgerCorrupt(f"{name} does not decompress ({error}): run `vcledger verify`") from error
    snapshot = Snapshot(row.projection, row.version, row.cluster, row.position, row.base, payload)
    if snapshot_hash(snapshot) != bytes(row.hash):
        raise LedgerCorrupt(f"{name} is not what was saved: run `vcledger verify`")
    return snapshot


def snapshot_hash(snapshot: Snapshot) -> bytes:
    """SHA-256 over a snapshot's columns and its uncompressed payload."""
    columns = digest(snapshot.projection, snapshot.version, snapshot.cluster, snapshot.position, str(snapshot.base))
    return hashlib.sha256(columns + snapshot.payload).digest()
