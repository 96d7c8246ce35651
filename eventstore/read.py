"""Reading: events by range, by filter, by position; heads; where the record had got to at a time.

Owns the queries. Must not know either database nor what a payload means. Called by `eventstore.store`.

No transaction stays open between two chunks of a read, so a slow reader holds nobody up; positions never change and
have no holes, so the chunks join exactly. A read ends at the head as it was when it began.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import zstandard
from sqlalchemy import Connection, Select, Table, and_, select

from eventstore import schema
from eventstore.backend import EVENT_COLUMNS, Backend, chunks, translated
from eventstore.chain import digest, stream_key
from eventstore.codec import STORED_AS_IS, Codec, Known, lengthen
from eventstore.positions import batch_times, head_position, position_within, pruned_to
from eventstore.types import LedgerCorrupt, StoredEvent, StreamHead, StreamId

Scalars = str | Sequence[str] | None
"""A filter: one word, several, or None for no filter."""

RawEvent = tuple[int, StreamId, str, int, int, int, bool, int | None, int | None, int | None, bytes]
"""position, stream, type, schema, observed_at, known, late, resource_version, causation, cycle, payload"""

STREAMS_CACHED_MAX = 500_000
RAW_COLUMNS = ("position", "stream_id", "type_id", "observed_at", "flags", "resource_version", "causation", "cycle",
               "dictionary_id", "payload")  # fmt: skip


class Filter(NamedTuple):
    """What a read asks for; None: anything. All must hold. Times in microseconds, both ends included."""

    cluster: Scalars = None
    kinds: Scalars = None
    types: Scalars = None
    families: Scalars = None
    namespace: Scalars = None
    name: Scalars = None
    uid: Scalars = None
    about: Scalars = None
    observed_from: int | None = None
    observed_to: int | None = None
    late: bool | None = None

    @property
    def by_stream(self) -> bool:
        """Whether it names so few streams that their events are best found through the index."""
        return self.name is not None or self.uid is not None


class Reader:
    """Reads a ledger. May be used from several threads at once."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._codec = Codec()
        self._lock = threading.Lock()
        self._streams: dict[int, tuple[StreamId, Known]] = {}
        self._clusters: dict[int, str] = {}
        self._kinds: dict[int, str] = {}
        self._types: dict[int, tuple[str, str, int]] = {}
        self._numbered: dict[str, dict[str, int]] = {}

    # Whole reads

    def head(self) -> int:
        with translated(self._backend), self._backend.reading() as connection:
            return head_position(connection)

    def read(
        self, wanted: Filter, *, after: int, to: int | None, reverse: bool, limit: int | None, batch: int
    ) -> Iterator[StoredEvent]:
        left = limit
        for some in self.pages(wanted, after, to, reverse, batch):
            if left is not None:
                some = some[:left]
                left -= len(some)
            yield from some
            if left == 0:
                return

    def pages(
        self, wanted: Filter, after: int, to: int | None, reverse: bool, batch: int
    ) -> Iterator[list[StoredEvent]]:
        with translated(self._backend), self._backend.reading() as connection:
            head = head_position(connection)
            end = head if to is None else min(to, head)
            after, end = self._narrow(connection, wanted, max(after, 0), end)
            positions = self._indexed(connection, wanted, after, end)
        if positions is not None:
            for run in chunks(positions[::-1] if reverse else positions, batch):
                yield self._select(wanted, reverse, positions=run)
            return
        size = max(batch, 1)
        starts = range(after, end, size)
        for start in reversed(starts) if reverse else starts:
            yield self._select(wanted, reverse, after=start, to=min(start + size, end))

    def _narrow(self, connection: Connection, wanted: Filter, after: int, end: int) -> tuple[int, int]:
        """A smaller range of positions for a range of times: possible where observed time never decreases."""
        if wanted.late is not False or not isinstance(wanted.cluster, str):
            return after, end
        if wanted.observed_from is not None:
            after = max(after, position_within(connection, wanted.cluster, wanted.observed_from - 1))
        if wanted.observed_to is not None:
            end = min(end, position_within(connection, wanted.cluster, wanted.observed_to))
        return after, end

    def _indexed(self, connection: Connection, wanted: Filter, after: int, end: int) -> list[int] | None:
        """Positions of candidates through an index, in order; None when the filter calls for reading the range."""
        e, s = schema.events.c, schema.streams.c
        if wanted.about is not None:
            ids = select(schema.subjects.c.id).where(schema.subjects.c.uid.in_(listed(wanted.about)))
            found = connection.execute(select(e.position).where(e.about_id.is_not(None), e.about_id.in_(ids)))
        elif wanted.by_stream:
            ids = select(s.id).where(*self._stream_conditions(connection, wanted))
            found = connection.execute(select(e.position).where(e.stream_id.in_(ids)))
        else:
            return None
        return sorted(position for position in found.scalars() if after < position <= end)

    def _stream_conditions(self, connection: Connection, wanted: Filter) -> list[Any]:
        s = schema.streams.c
        conditions: list[Any] = []
        if wanted.cluster is not None:
            conditions.append(s.cluster_id.in_(self._numbers(connection, schema.clusters, wanted.cluster)))
        if wanted.kinds is not None:
            conditions.append(s.kind_id.in_(self._numbers(connection, schema.kinds, wanted.kinds)))
        for column, values in ((s.namespace, wanted.namespace), (s.name, wanted.name), (s.uid, wanted.uid)):
            if values is not None:
                conditions.append(column.in_(listed(values)))
        return conditions

    def _numbers(self, connection: Connection, table: Table, words: Scalars) -> list[int]:
        """The numbers that a table of words has given to some of them. A number once given stays, so it is looked up
        once; a word without one is looked up again."""
        wanted = listed(words)
        known = self._numbered.setdefault(table.name, {})
        if any(word not in known for word in wanted):
            found = connection.execute(select(table.c.name, table.c.id).where(table.c.name.in_(wanted)))
            self._numbered[table.name] = known = {**known, **dict(found.all())}
        return [known[word] for word in wanted if word in known]

    def _event_conditions(self, connection: Connection, wanted: Filter) -> list[Any]:
        e, t = schema.events.c, schema.types.c
        conditions: list[Any] = []
        words = [(t.name, wanted.types), (t.family, wanted.families)]
        if any(values is not None for _, values in words):
            ids = select(t.id).where(*(column.in_(listed(values)) for column, values in words if values is not None))
            conditions.append(e.type_id.in_(connection.execute(ids).scalars().all()))
        if wanted.observed_from is not None:
            conditions.append(e.observed_at >= wanted.observed_from)
        if wanted.observed_to is not None:
            conditions.append(e.observed_at <= wanted.observed_to)
        if wanted.late is not None:
            conditions.append(e.flags.op("&")(schema.LATE) == (schema.LATE if wanted.late else 0))
        return conditions

    def _select(
        self, wanted: Filter, reverse: bool, *, after: int = 0, to: int = 0, positions: Sequence[int] | None = None
    ) -> list[StoredEvent]:
        e, s = schema.events.c, schema.streams.c
        statement: Select[Any] = select(*(schema.events.c[name] for name in EVENT_COLUMNS))
        if positions is not None:
            statement = statement.where(e.position.in_(positions))
        else:
            statement = statement.where(e.position > after, e.position <= to)
        with translated(self._backend), self._backend.reading() as connection:
            statement = statement.where(*self._event_conditions(connection, wanted))
            of_streams = self._stream_conditions(connection, wanted)
            if of_streams:
                statement = statement.join(schema.streams, s.id == e.stream_id).where(*of_streams)
            order = e.position.desc() if reverse else e.position.asc()
            rows = connection.execute(statement.order_by(order)).all()
            return self._stored(connection, rows)

    def get(self, positions: Sequence[int]) -> list[StoredEvent]:
        found: dict[int, StoredEvent] = {}
        for some in chunks(list(dict.fromkeys(positions)), 2_000):
            found.update((event.position, event) for event in self._select(Filter(), False, positions=some))
        return [found[position] for position in positions if position in found]

    def _stored(self, connection: Connection, rows: Sequence[Any]) -> list[StoredEvent]:
        """Rows as events: words looked up, payloads decompressed."""
        if not rows:
            return []
        streams = self._known_streams(connection, {row[1] for row in rows})
        abouts = self._abouts(connection, {row[6] for row in rows if row[6] is not None})
        self._know(connection, {row[8] for row in rows}, {row[11] for row in rows})
        low, high = min(row[0] for row in rows), max(row[0] for row in rows)
        starts, times = batch_times(connection, low, high)
        types, decompress = self._types, self._codec.decompress
        stored = []
        for (position, stream_id, observed_at, revision, causation, cycle, about_id, version, type_id, flags, gone,
             dictionary_id, payload) in rows:  # fmt: skip
            name, family, number = types[type_id]
            stream, known = streams[stream_id]
            appended_at = times[bisect_right(starts, position) - 1]
            stored.append(
                StoredEvent(
                    position, *stream, version, name, family, number, observed_at, appended_at,
                    decompress(dictionary_id, payload, known, revision), flags & 3, revision, bool(gone),
                    bool(flags & schema.LATE), abouts[about_id], causation, cycle,
                )
            )  # fmt: skip
        return stored

    def read_raw(
        self, *, after: int, to: int | None, cluster: str | None, late: bool, batch: int
    ) -> Iterator[list[RawEvent]]:
        """The fast path for folds: plain tuples, late events left out unless asked for."""
        with translated(self._backend), self._backend.reading() as connection:
            head = head_position(connection)
            end = head if to is None else min(to, head)
            names = connection.execute(select(schema.clusters.c.name)).scalars().all()
        only = None if cluster is None or list(names) == [cluster] else cluster
        for start in range(after, end, batch):
            with translated(self._backend), self._backend.reading() as connection:
                rows = self._backend.select_events(connection, start, min(start + batch, end), RAW_COLUMNS)
                streams = self._known_streams(connection, {row[1] for row in rows})
                self._know(connection, {row[2] for row in rows}, {row[8] for row in rows})
            some = self._raw(rows, streams, late, only)
            if some:
                yield some

    def _raw(
        self, rows: list[tuple[Any, ...]], streams: dict[int, tuple[StreamId, Known]], late: bool, cluster: str | None
    ) -> list[RawEvent]:
        types, number_now = self._types, STORED_AS_IS
        decompress = self._codec.function(number_now)
        some: list[RawEvent] = []
        try:
            for position, stream_id, type_id, observed_at, flags, revision, causation, cycle, number, payload in rows:
                if flags >= schema.LATE and not late:
                    continue
                stream, known = streams[stream_id]
                if cluster is not None and stream.cluster != cluster:
                    continue
                if number != number_now:
                    # Runs of events share a dictionary, so this is rare.
                    number_now = number
                    decompress = self._codec.function(number)
                payload = decompress(payload)
                if number:
                    payload = lengthen(payload, known, revision)
                name, _, version = types[type_id]
                some.append((position, stream, name, version, observed_at, flags & 3, flags >= schema.LATE, revision,
                             causation, cycle, payload))  # fmt: skip
        except zstandard.ZstdError as error:
            raise LedgerCorrupt(f"event {position} does not decompress ({error}): run `vcledger verify`") from error
        return some

    # Words

    def _known_streams(self, connection: Connection, ids: set[int]) -> dict[int, tuple[StreamId, Known]]:
        """The streams of these numbers. The cache is given back as it is: it holds at least these."""
        cache = self._streams
        missing = sorted(id_ for id_ in ids if id_ not in cache)
        if not missing:
            return cache
        if len(cache) + len(missing) > STREAMS_CACHED_MAX:
            cache = self._streams = {}
            missing = sorted(ids)
        clusters, kinds = self._clusters, self._kinds
        for id_, cluster_id, kind_id, namespace, name, uid in self._backend.select_streams(connection, missing):
            if cluster_id not in clusters or kind_id not in kinds:
                clusters, kinds = self._load_names(connection)
            stream = StreamId(clusters[cluster_id], kinds[kind_id], namespace, name, uid)
            cache[id_] = stream, Known(uid.encode(), name.encode())
        return cache

    def _load_names(self, connection: Connection) -> tuple[dict[int, str], dict[int, str]]:
        clusters, kinds = schema.clusters.c, schema.kinds.c
        self._clusters = dict(connection.execute(select(clusters.id, clusters.name)).all())
        self._kinds = dict(connection.execute(select(kinds.id, kinds.name)).all())
        return self._clusters, self._kinds

    def _know(self, connection: Connection, type_ids: set[int], dictionary_ids: set[int | None]) -> None:
        """Loads the types and dictionaries of these numbers that are not known yet."""
        if any(id_ not in self._types for id_ in type_ids):
            rows = connection.execute(select(schema.types))
            self._types = {id_: (name, family, number) for id_, name, family, number in rows}
        for id_ in dictionary_ids:
            if not self._codec.known(id_):
                d = schema.dictionaries.c
                payload = connection.execute(select(d.payload).where(d.id == id_)).scalar_one_or_none()
                if payload is not None:
                    self._codec.add(id_ or 0, bytes(payload))

    def _abouts(self, connection: Connection, ids: set[int]) -> dict[int | None, str]:
        found: dict[int | None, str] = {None: ""}
        c = schema.subjects.c
        for some in chunks(sorted(ids), 5_000):
            found.update((id_, uid) for id_, uid in connection.execute(select(c.id, c.uid).where(c.id.in_(some))))
        return found

    # Heads and times

    def stream_head(self, stream: StreamId) -> StreamHead | None:
        key = schema.streams.c.key == stream_key(digest(*stream))
        return next((head for head in self._heads(key) if head.stream == stream), None)

    def live(self, cluster: str, kind: str) -> list[StreamHead]:
        h = schema.stream_heads.c
        asked = and_(schema.clusters.c.name == cluster, schema.kinds.c.name == kind, ~h.gone, h.position > 0)
        return self._heads(asked)

    def has_live(self, cluster: str, kind: str) -> bool:
        s, h = schema.streams.c, schema.stream_heads.c
        with translated(self._backend), self._backend.reading() as connection:
            clusters = self._numbers(connection, schema.clusters, cluster)
            kinds = self._numbers(connection, schema.kinds, kind)
            if not clusters or not kinds:
                return False
            statement = (
                select(s.id)
                .join_from(schema.streams, schema.stream_heads, h.stream_id == s.id)
                .where(s.cluster_id == clusters[0], s.kind_id == kinds[0], s.name != "", ~h.gone, h.position > 0)
                .limit(1)
            )
            return connection.execute(statement).first() is not None

    def _heads(self, condition: Any) -> list[StreamHead]:
        s, h, c, k = schema.streams.c, schema.stream_heads.c, schema.clusters.c, schema.kinds.c
        statement = (
            select(c.name, k.name, s.namespace, s.name, s.uid, h.version, h.position, h.resource_version, h.gone)
            .select_from(schema.streams)
            .join(schema.stream_heads, h.stream_id == s.id)
            .join(schema.clusters, c.id == s.cluster_id)
            .join(schema.kinds, k.id == s.kind_id)
            .where(condition)
            .order_by(h.position, s.id)
        )
        with translated(self._backend), self._backend.reading() as connection:
            return [
                StreamHead(StreamId(*row[:5]), row[5], row[6], row[7], bool(row[8]))
                for row in connection.execute(statement)
            ]

    def clusters(self) -> list[str]:
        with translated(self._backend), self._backend.reading() as connection:
            return list(connection.execute(select(schema.clusters.c.name).order_by(schema.clusters.c.name)).scalars())

    def high_water(self, cluster: str) -> int | None:
        c = schema.clusters.c
        with translated(self._backend), self._backend.reading() as connection:
            found: int | None = connection.execute(select(c.high_water).where(c.name == cluster)).scalar_one_or_none()
            return found

    def first(self) -> int:
        with translated(self._backend), self._backend.reading() as connection:
            return pruned_to(connection) + 1

    def position_at(self, observed_at: int, cluster: str | None) -> int:
        with translated(self._backend), self._backend.reading() as connection:
            names = (
                [cluster] if cluster is not None else connection.execute(select(schema.clusters.c.name)).scalars().all()
            )
            return max((position_within(connection, name, observed_at) for name in names), default=0)


def listed(values: Scalars) -> list[str]:
    """A filter's words as a list, without those that no ledger can hold: the databases would stumble over them."""
    words = [values] if isinstance(values, str) else list(values or ())
    return [word for word in words if "\0" not in word and not any("\ud800" <= char <= "\udfff" for char in word)]
