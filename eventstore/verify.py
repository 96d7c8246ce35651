"""Walking the chain: is the ledger what was written?

Owns the checks and the wording of findings. Must not change anything. Called by `eventstore.store`, and by retention
before it drops what it has vouched for.

What it proves, from the rows alone: each batch's hash over its events, words and dictionary, and over the hash before;
positions and batches without holes; stream versions without holes; heads, marks and high-water marks equal to what the
events say; dictionaries and snapshots unchanged; rows that retention kept unchanged since. Someone who can write to the
ledger could make a whole new chain: against that, keep the last hash somewhere else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from eventstore import schema
from eventstore.backend import EVENT_COLUMNS, Backend, translated
from eventstore.chain import GENESIS, NOTHING, batch_hash, canonical, digest, stream_key
from eventstore.codec import Codec
from eventstore.positions import head_position
from eventstore.snapshots import opened
from eventstore.types import Finding, LedgerCorrupt, VerifyReport, is_observation

FINDINGS_MAX = 1_000
"""A ledger that is wrong in more places than this is wrong all over."""
BATCHES_AT_ONCE = 500
EVENTS_AT_ONCE = 10_000

Progress = Callable[[int, int], None]
"""progress(events walked, events in all)"""


class Stream(NamedTuple):
    """A stream's words as hashes have them, and its cluster."""

    digest: bytes
    cluster_id: int


class Life:
    """What the walk has seen of a stream: a head made anew from its events."""

    __slots__ = ("gone", "position", "resource_version", "resource_version_max", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.position = 0
        self.resource_version: int | None = None
        self.resource_version_max: int | None = None
        self.gone = False


class Prune(NamedTuple):
    id: int
    batch_id: int
    cut: int
    dropped: int
    kept: int
    hash: bytes


def verify(backend: Backend, progress: Progress | None = None) -> VerifyReport:
    """Walks the whole ledger as it stands when this begins."""
    with translated(backend), backend.reading() as connection:
        return Walk(backend, connection, progress).report()


class Walk:
    """One walk, inside one transaction."""

    def __init__(self, backend: Backend, connection: Connection, progress: Progress | None) -> None:
        self._backend = backend
        self._connection = connection
        self._progress = progress
        self.findings: list[Finding] = []
        self._head = head_position(connection)
        self._prunes = [Prune._make(row) for row in _all(connection, schema.prunes, "id")]
        self.cut = self._prunes[-1].cut if self._prunes else 0
        self._codec = Codec()
        self._lives: dict[int, Life] = {}
        self._high_water: dict[int, int] = {}
        self._marks: dict[tuple[int, int], tuple[int, int]] = {}
        self._events = self._batches = self._kept = 0
        self._hash = GENESIS
        self._expected = 1

    def find(self, rule: str, position: int, message: str) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(Finding(rule, position, message))

    def chain(self, to: int | None = None) -> None:
        """Walks the chain and the events, up to the batch that ends at a position, or all of it."""
        self._dictionaries = self._check_dictionaries()
        self._words()
        self._kept_rows()
        self._walk(to)

    def hash_kept(self, cut: int) -> tuple[int, bytes]:
        """How many rows stand at or below the cut, and the hash that vouches for them."""
        self._check_dictionaries()
        self._words()
        self._load_bases()
        return self._kept_hash(self._rows(0, cut))

    def report(self) -> VerifyReport:
        self.chain()
        self._check_heads()
        self._check_marks()
        snapshots = self._check_snapshots()
        streams = self._connection.execute(select(func.count()).select_from(schema.streams)).scalar_one()
        return VerifyReport(
            self._events,
            self._batches,
            streams,
            len(self._dictionaries),
            snapshots,
            self.cut,
            self._kept,
            self._hash.hex(),
            self.findings,
        )

    # Words

    def _check_dictionaries(self) -> dict[int, bytes]:
        """Hashes of the dictionaries, as their bytes have them now."""
        found: dict[int, bytes] = {}
        for number, trained_at, hash_, payload in _all(self._connection, schema.dictionaries, "id"):
            found[number] = hashlib.sha256(bytes(payload)).digest()
            self._codec.add(number, bytes(payload))
            if found[number] != bytes(hash_):
                self.find("dictionary", trained_at, f"dictionary {number} is not what was stored")
        return found

    def _words(self) -> None:
        """Digests of streams, types and subjects, from what their rows say now."""
        connection = self._connection
        clusters = {row[0]: row[1] for row in _all(connection, schema.clusters, "id")}
        kinds = {row[0]: row[1] for row in _all(connection, schema.kinds, "id")}
        self._types = {row[0]: digest(*row[1:]) for row in _all(connection, schema.types, "id")}
        self._subjects: dict[int | None, bytes] = {None: NOTHING}
        self._subjects.update((id_, digest(uid)) for id_, uid in _all(connection, schema.subjects, "id"))
        self._streams: dict[int, Stream] = {}
        seen: set[bytes] = set()
        for id_, key, cluster_id, kind_id, namespace, name, uid in _all(connection, schema.streams, "id"):
            found = digest(clusters.get(cluster_id, "?"), kinds.get(kind_id, "?"), namespace, name, uid)
            self._streams[id_] = Stream(found, cluster_id)
            if stream_key(found) != key:
                self.find("stream", 0, f"stream {id_} ({namespace}/{name}) is not the one that was stored")
            if found in seen:
                self.find("stream", 0, f"stream {id_} ({namespace}/{name}) is there twice")
            seen.add(found)

    # Events

    def _canonical(self, rows: list[tuple[Any, ...]]) -> list[bytes]:
        """The canonical form of events; a word that is missing counts as empty."""
        digests: list[bytes] = []
        for row in rows:
            stream = self._streams.get(row[1])
            digests += (
                stream.digest if stream else NOTHING,
                self._types.get(row[8], NOTHING),
                self._subjects.get(row[6], NOTHING),
            )
        try:
            return canonical(rows, digests) if rows else []
        except (OverflowError, TypeError):
            return [b"not what any append writes"]

    def _kept_rows(self) -> None:
        """Rows at or below the cut of the last prune: they must be those that it kept, unchanged."""
        self._load_bases()
        if not self._prunes:
            return
        last = self._prunes[-1]
        self._kept, found = self._kept_hash(self._rows(0, self.cut))
        if found != bytes(last.hash) or self._kept != last.kept:
            self.find(
                "kept", last.cut, f"the {last.kept} rows that retention kept up to {last.cut} are not what they were"
            )

    def _load_bases(self) -> None:
        """The versions up to which retention has cut each stream."""
        h = schema.stream_heads.c
        pruned = select(h.stream_id, h.pruned_version).where(h.pruned_version > 0)
        self._bases: dict[int, int] = dict(self._connection.execute(pruned).all())

    def _kept_hash(self, rows: Iterator[tuple[Any, ...]]) -> tuple[int, bytes]:
        """How many rows there are, and the hash over them and over the versions at which their streams were cut."""
        count, hash_ = 0, hashlib.sha256()
        for row in rows:
            count += 1
            for part in self._canonical([row]):
                hash_.update(part)
            self._see(row, kept=True)
        for stream_id in sorted(self._bases):
            stream = self._streams.get(stream_id)
            hash_.update((stream.digest if stream else NOTHING) + self._bases[stream_id].to_bytes(8, "big"))
        return count, hash_.digest()

    def _rows(self, after: int, to: int) -> Iterator[tuple[Any, ...]]:
        for start in range(after, to, EVENTS_AT_ONCE):
            end = min(start + EVENTS_AT_ONCE, to)
            yield from self._backend.select_events(self._connection, start, end, EVENT_COLUMNS)

    def _walk(self, to: int | None) -> None:
        """All batches in order: those before the cut by their hashes alone, those after it with their events."""
        b = schema.batches.c
        prunes = {prune.batch_id: prune for prune in self._prunes}
        last_id = 0
        while True:
            some = self._connection.execute(
                select(schema.batches).where(b.id > last_id).order_by(b.id).limit(BATCHES_AT_ONCE)
            ).all()
            if not some:
                return
            for batch in some:
                if to is not None and batch.first_position > to:
                    return
                if batch.id != last_id + 1:
                    self.find("batch", batch.first_position, f"batch {last_id + 1} is missing before {batch.id}")
                last_id = batch.id
                self._batch(batch, prunes.get(batch.id))
            if self._progress is not None:
                self._progress(some[-1].first_position + some[-1].events - 1, self._head)

    def _batch(self, batch: Any, prune: Prune | None) -> None:
        self._batches += 1
        first, last = batch.first_position, batch.first_position + batch.events - 1
        if first != self._expected:
            self.find("position", first, f"batch {batch.id} begins at {first}, not at {self._expected}")
        self._expected = last + 1
        if last <= self.cut and batch.events:
            # Its events are dropped: its hash stands for them, and the next batch vouches for its hash.
            self._hash = bytes(batch.hash)
            return
        if prune is not None:
            body = [prune_record(prune)]
        elif batch.events == 0:
            body = []
            self.find("batch", first, f"batch {batch.id} is empty")
        else:
            body = self._events_of(batch, first, last)
        number = batch.dictionary_id
        dictionary = GENESIS if number is None else self._dictionaries.get(number, GENESIS)
        found = batch_hash(
            self._hash, batch.id, first, batch.events, batch.appended_at, batch.payload_size, batch.payload_stored,
            number, dictionary, body,
        )  # fmt: skip
        if found != bytes(batch.hash):
            self.find("hash", first, f"batch {batch.id} (positions {first} to {last}) is not what was appended")
        self._hash = bytes(batch.hash)

    def _events_of(self, batch: Any, first: int, last: int) -> list[bytes]:
        at = first
        rows = list(self._rows(first - 1, last))
        for row in rows:
            if row[0] != at:
                self.find("position", at, f"positions {at} to {row[0] - 1} are missing")
            at = row[0] + 1
            self._see(row, kept=False)
            self._mark(row, batch.id)
        if at != last + 1:
            self.find("position", at, f"positions {at} to {last} are missing")
        self._events += batch.events
        return self._canonical(rows)

    def _see(self, row: tuple[Any, ...], *, kept: bool) -> None:
        """Checks an event against its stream's life so far, and its payload against its dictionary."""
        position, stream_id, _, revision, causation, _, about, version, type_id, flags, gone, number, payload = row
        if stream_id not in self._streams or type_id not in self._types or about not in self._subjects:
            self.find("word", position, f"event {position} points at a stream, type or subject that is missing")
        life = self._lives.get(stream_id)
        if life is None:
            life = self._lives[stream_id] = Life(self._bases.get(stream_id, 0))
        if not kept:
            if version != life.version + 1:
                self.find("version", position, f"event {position} has version {version}, not {life.version + 1}")
            life.version = version
        if causation is not None and causation >= position:
            self.find("causation", position, f"event {position} names {causation} as its cause, which is not before it")
        try:
            self._codec.unpacked(number, bytes(payload))
        except LedgerCorrupt as error:
            self.find("payload", position, f"event {position}: {error}")
        if revision is not None and (life.resource_version_max is None or revision > life.resource_version_max):
            life.resource_version_max = revision
        if flags & schema.LATE or not is_observation(revision, bool(gone)):
            return
        life.position, life.resource_version, life.gone = position, revision, bool(gone)

    def _mark(self, row: tuple[Any, ...], batch_id: int) -> None:
        """Checks that observed time does not go back, and notes the marks that the batch must have left."""
        position, stream_id, observed_at, flags = row[0], row[1], row[2], row[9]
        stream = self._streams.get(stream_id)
        if stream is None or flags & schema.LATE:
            return
        before = self._high_water.get(stream.cluster_id)
        if before is not None and observed_at < before:
            self.find("time", position, f"event {position} was observed before the one before it, but is not late")
        self._high_water[stream.cluster_id] = observed_at
        self._marks[stream.cluster_id, batch_id] = observed_at, position

    # What is derived from events

    def _check_heads(self) -> None:
        for row in _all(self._connection, schema.stream_heads, "stream_id"):
            stream_id, version, position, revision, revision_max, gone, base = row
            life = self._lives.get(stream_id)
            if life is None:
                life = Life(base)
            if stream_id not in self._streams:
                self.find("head", position, f"stream {stream_id} has a head, but no row")
            said: tuple[int, ...] = (version, position)
            wanted: tuple[int, ...] = (life.version, life.position)
            if life.position <= self.cut and base:
                # What the head stands on was dropped; its version is vouched for all the same.
                said, wanted = said[:1], wanted[:1]
            if said != wanted:
                self.find("head", position, f"the head of stream {stream_id} is at {said}, its events say {wanted}")
            if (life.position or not base) and (revision, bool(gone)) != (life.resource_version, life.gone):
                self.find("head", position, f"the head of stream {stream_id} has not its last observation's version")
            if not base and revision_max != life.resource_version_max:
                self.find("head", position, f"stream {stream_id} has had resource version {life.resource_version_max}")
        heads = self._connection.execute(select(func.count()).select_from(schema.stream_heads)).scalar_one()
        if heads != len(self._streams):
            self.find("head", 0, f"there are {len(self._streams)} streams, but {heads} heads")

    def _check_marks(self) -> None:
        m = schema.batch_marks.c
        first = self._connection.execute(
            select(func.min(schema.batches.c.id)).where(
                schema.batches.c.first_position > self.cut, schema.batches.c.events > 0
            )
        ).scalar()
        found = {
            (row.cluster_id, row.batch_id): (row.high_water, row.position)
            for row in self._connection.execute(select(schema.batch_marks).where(m.batch_id >= (first or 0)))
        }
        if first is not None and found != self._marks:
            wrong = sorted(set(found.items()) ^ set(self._marks.items()))
            self.find("mark", wrong[0][1][1], f"the time marks of batch {wrong[0][0][1]} are not what its events say")
        for id_, name, high_water in _all(self._connection, schema.clusters, "id"):
            if id_ in self._high_water and high_water != self._high_water[id_]:
                self.find("mark", 0, f"the high-water mark of cluster {name} is not its last event's time")

    def _check_snapshots(self) -> int:
        t = schema.snapshots.c
        keys = self._connection.execute(
            select(t.projection, t.version, t.cluster, t.position, t.base).order_by(
                t.projection, t.version, t.cluster, t.position
            )
        ).all()
        there = {tuple(key[:4]) for key in keys}
        for projection, version, cluster, position, base in keys:
            name = f"the snapshot of {projection} at {position}"
            if base is not None and (projection, version, cluster, base) not in there:
                self.find("snapshot", position, f"{name} builds upon one at {base} that is missing")
            if position > self._head:
                self.find("snapshot", position, f"{name} lies beyond the end of the log")
            row = self._connection.execute(
                select(schema.snapshots).where(
                    t.projection == projection, t.version == version, t.cluster == cluster, t.position == position
                )
            ).one()
            try:
                opened(row)
            except LedgerCorrupt as error:
                self.find("snapshot", position, str(error))
        return len(keys)


def prune_record(prune: Prune) -> bytes:
    """What a prune puts into the chain."""
    numbers = b"".join(number.to_bytes(8, "big") for number in (prune.id, prune.cut, prune.dropped, prune.kept))
    return b"prune" + numbers + bytes(prune.hash)


def _all(connection: Connection, table: Any, order: str) -> list[Any]:
    return list(connection.execute(select(table).order_by(table.c[order])).all())
