"""Words that stand once in the ledger and are pointed at by number: clusters, kinds, types, subjects, and streams with
their heads. The appender's side: finds their numbers, and gives out new ones.

Owns the caches of numbers and of stream heads inside a writer. Must not know payloads or hashes of batches. Called by
`eventstore.append` alone, always inside a write transaction; after a failed one everything here is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, bindparam, func, insert, select, update

from eventstore import schema
from eventstore.backend import Backend, HeadRow, StreamRow, chunks
from eventstore.chain import NOTHING, digest, stream_key, text_digest
from eventstore.codec import Known
from eventstore.types import InvalidEvent, StreamId

TEXT_BYTES_MAX = 2_000
STREAMS_CACHED_MAX = 200_000
SUBJECTS_CACHED_MAX = 200_000


class Cluster:
    """A cluster, and how far its observed time has got. `position` is that of its last event in the batch at hand."""

    __slots__ = ("high_water", "id", "name", "position")

    def __init__(self, id_: int, name: str, high_water: int | None) -> None:
        self.id, self.name, self.high_water = id_, name, high_water
        self.position: int | None = None


class Head:
    """A stream's head as a writer changes it. `highest` is the highest resource version of all its events, late ones
    too, or -1: a higher one cannot be in the log yet."""

    __slots__ = ("cluster", "digest", "gone", "highest", "id", "known", "position", "pruned_version",
                 "resource_version", "version")  # fmt: skip

    def __init__(self, id_: int, cluster: Cluster, stream: StreamId, stream_digest: bytes) -> None:
        self.id, self.cluster, self.digest = id_, cluster, stream_digest
        self.known = Known(stream.uid.encode(), stream.name.encode())
        self.version = self.position = self.pruned_version = 0
        self.resource_version: int | None = None
        self.highest = -1
        self.gone = False

    def row(self) -> HeadRow:
        return (
            self.id,
            self.version,
            self.position,
            self.resource_version,
            self.highest if self.highest >= 0 else None,
            self.gone,
            self.pruned_version,
        )


def check_text(value: object, column: str) -> None:
    """InvalidEvent unless both databases keep the text unchanged."""
    if not isinstance(value, str):
        raise InvalidEvent(f"{column} is {type(value).__name__}, not text: nothing of the batch was stored")
    if "\0" in value:
        raise InvalidEvent(f"{column} {value!r} holds a NUL: nothing of the batch was stored")
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidEvent(f"{column} {value!r} holds a lone surrogate: nothing of the batch was stored") from None
    if size > TEXT_BYTES_MAX:
        raise InvalidEvent(f"{column} has {size} bytes, over {TEXT_BYTES_MAX}: nothing of the batch was stored")


def stream_digest(stream: StreamId) -> bytes:
    """A stream's digest. InvalidEvent when one of its words cannot be kept."""
    if type(stream) is not StreamId:
        raise InvalidEvent(f"{stream!r} is not a StreamId: nothing of the batch was stored")
    try:
        text = "\0".join(stream).encode() + b"\0"
        if len(text) <= TEXT_BYTES_MAX and text.count(0) == len(stream):
            return text_digest(text)
    except (TypeError, UnicodeEncodeError):
        pass  # the words one by one say which it is
    for column, value in zip(StreamId._fields, stream, strict=True):
        check_text(value, column)
    return digest(*stream)


class Words:
    """All caches of a writer. `load` fills the small ones; streams and subjects come as they are needed."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.forget()

    def forget(self) -> None:
        self.heads: dict[StreamId, Head] = {}
        self.clusters: dict[str, Cluster] = {}
        self.types: dict[tuple[str, str, int], tuple[int, bytes]] = {}
        self._digests: dict[StreamId, bytes] = {}
        self._kinds: dict[str, int] = {}
        self._subjects: dict[str, tuple[int, bytes]] = {}
        self._next_stream = self._next_subject = 1

    def load(self, connection: Connection) -> None:
        """Starts afresh from what the ledger has."""
        self.forget()
        for id_, name, high_water in connection.execute(select(schema.clusters)):
            self.clusters[name] = Cluster(id_, name, high_water)
        for id_, name in connection.execute(select(schema.kinds)):
            self._kinds[name] = id_
        for id_, name, family, number in connection.execute(select(schema.types)):
            self.types[name, family, number] = id_, digest(name, family, number)
        self._next_stream = (connection.execute(select(func.max(schema.streams.c.id))).scalar() or 0) + 1
        self._next_subject = (connection.execute(select(func.max(schema.subjects.c.id))).scalar() or 0) + 1

    def find(self, connection: Connection, wanted: Iterable[StreamId]) -> list[StreamId]:
        """Makes the heads of the streams known that the ledger has; returns those that it has not, in order."""
        missing = [stream for stream in dict.fromkeys(wanted) if stream not in self.heads]
        if not missing:
            return missing
        if len(self.heads) + len(missing) > STREAMS_CACHED_MAX:
            # What the batch at hand found before is still needed, so all of it is looked up again.
            kept = dict.fromkeys(wanted)
            self.heads = {stream: head for stream, head in self.heads.items() if stream in kept}
        self._digests = {stream: stream_digest(stream) for stream in missing}
        self._fetch(connection, self._digests)
        return [stream for stream in missing if stream not in self.heads]

    def _fetch(self, connection: Connection, digests: dict[StreamId, bytes]) -> None:
        names = {cluster.id: cluster for cluster in self.clusters.values()}
        kinds = {id_: name for name, id_ in self._kinds.items()}
        keys = [stream_key(one) for one in digests.values()]
        for id_, cluster_id, kind_id, namespace, name, uid, *last in self._backend.find_streams(connection, keys):
            cluster = names[cluster_id]
            stream = StreamId(cluster.name, kinds[kind_id], namespace, name, uid)
            if stream in digests:
                head = self.heads[stream] = Head(id_, cluster, stream, digests[stream])
                head.version, head.position, head.resource_version, highest, gone, head.pruned_version = last
                head.highest, head.gone = -1 if highest is None else highest, bool(gone)

    def create(self, connection: Connection, streams: Sequence[StreamId]) -> None:
        """Gives new streams, which `find` has just missed, their numbers, and inserts them. Their heads are written
        with the batch's."""
        rows: list[StreamRow] = []
        for stream in streams:
            found = self._digests[stream]
            head = Head(self._next_stream, self._cluster(connection, stream.cluster), stream, found)
            self._next_stream += 1
            self.heads[stream] = head
            kind = self._kind(connection, stream.kind)
            rows.append((head.id, stream_key(found), head.cluster.id, kind, stream.namespace, stream.name, stream.uid))
        if rows:
            self._backend.insert_streams(connection, rows)

    def _cluster(self, connection: Connection, name: str) -> Cluster:
        found = self.clusters.get(name)
        if found is None:
            found = self.clusters[name] = Cluster(len(self.clusters) + 1, name, None)
            connection.execute(insert(schema.clusters).values(id=found.id, name=name))
        return found

    def _kind(self, connection: Connection, name: str) -> int:
        found = self._kinds.get(name)
        if found is None:
            found = self._kinds[name] = len(self._kinds) + 1
            connection.execute(insert(schema.kinds).values(id=found, name=name))
        return found

    def type(self, connection: Connection, name: str, family: str, number: int) -> tuple[int, bytes]:
        """Number and digest of a type, given out when it is new."""
        found = self.types.get((name, family, number))
        if found is None:
            check_text(name, "type")
            check_text(family, "family")
            if type(number) is not int or not 0 < number < 2**31:
                raise InvalidEvent(f"schema {number!r} is not a version number: nothing of the batch was stored")
            found = self.types[name, family, number] = len(self.types) + 1, digest(name, family, number)
            values = {"id": found[0], "name": name, "family": family, "schema": number}
            connection.execute(insert(schema.types).values(**values))
        return found

    def subjects(self, connection: Connection, uids: Iterable[str]) -> dict[str, tuple[int | None, bytes]]:
        """Number and digest of each uid that events speak of; new ones are inserted. '' has no number."""
        wanted = list(dict.fromkeys(uid for uid in uids if uid != ""))
        found: dict[str, tuple[int | None, bytes]] = {"": (None, NOTHING)}
        missing = [uid for uid in wanted if uid not in self._subjects]
        for uid in missing:
            check_text(uid, "about")
        if len(self._subjects) + len(missing) > SUBJECTS_CACHED_MAX:
            self._subjects = {}
            missing = wanted
        c = schema.subjects.c
        for some in chunks(missing, 5_000):
            for id_, uid in connection.execute(select(c.id, c.uid).where(c.uid.in_(some))):
                self._subjects[uid] = id_, digest(uid)
        new = [uid for uid in missing if uid not in self._subjects]
        for uid in new:
            self._subjects[uid] = self._next_subject, digest(uid)
            self._next_subject += 1
        if new:
            rows = [{"id": self._subjects[uid][0], "uid": uid} for uid in new]
            connection.execute(insert(schema.subjects), rows)
        for uid in wanted:
            found[uid] = self._subjects[uid]
        return found

    def save_marks(self, connection: Connection, batch_id: int) -> None:
        """Writes how far each cluster of the batch has got."""
        moved = [cluster for cluster in self.clusters.values() if cluster.position is not None]
        if not moved:
            return
        c = schema.clusters.c
        marks = [
            {"cluster_id": one.id, "batch_id": batch_id, "high_water": one.high_water, "position": one.position}
            for one in moved
        ]
        connection.execute(insert(schema.batch_marks), marks)
        connection.execute(
            update(schema.clusters).where(c.id == bindparam("the_id")).values(high_water=bindparam("mark")),
            [{"the_id": one.id, "mark": one.high_water} for one in moved],
        )
        for one in moved:
            one.position = None
