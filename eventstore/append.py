"""Appending: one batch, one transaction, one link of the hash chain.

Owns the order of an append's steps: catch up with other writers, token, expected versions, duplicates, late ones,
compression, rows, hash. Must not know either database nor what a payload means. Called by `eventstore.store`.

Everything runs inside the writers' turn, so what is read here cannot change before the commit. A failed append leaves
the ledger as it was, and this object too: its caches are dropped and read again.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from sqlalchemy import Connection, func, insert, select

from eventstore import codec as coding
from eventstore import schema
from eventstore.backend import Backend, EventRow, translated
from eventstore.chain import GENESIS, batch_hash, canonical
from eventstore.codec import Codec, RatioWatch
from eventstore.types import AppendResult, InvalidEvent, NewEvent, StreamId, WrongExpectedVersion
from eventstore.words import Head, Words, check_text

PAYLOAD_BYTES_MAX = 256 * 1024 * 1024


Accepted = tuple[int, bool, Head, NewEvent]
"""An event that the log does not have yet: position, late, its stream's head, and itself. A plain tuple, because one is
made for every event."""


class Appender:
    """A writer. One at a time may append; a lock inside sees to it."""

    def __init__(self, backend: Backend, clock: Callable[[], int]) -> None:
        self._backend = backend
        self._clock = clock
        self._lock = threading.Lock()
        self._words = Words(backend)
        self._codec = Codec()
        self._watch = RatioWatch()
        self._batch_id = -1
        self._position = 0
        self._hash = GENESIS
        self._dictionary_hash = GENESIS
        self._train_from = coding.SAMPLES_MIN

    def append(self, events: Sequence[NewEvent], expected: Mapping[StreamId, int], token: str | None) -> AppendResult:
        with self._lock:
            try:
                with translated(self._backend), self._backend.writing() as connection:
                    return self._append(connection, list(events), expected, token)
            except BaseException:
                self._batch_id = -1
                self._codec.forget()
                raise

    def _append(
        self, connection: Connection, batch: list[NewEvent], expected: Mapping[StreamId, int], token: str | None
    ) -> AppendResult:
        self._catch_up(connection)
        if token is not None:
            check_text(token, "token")
            earlier = earlier_result(connection, token)
            if earlier is not None:
                return earlier
        words = self._words
        wanted = [event.stream for event in batch]
        missing = words.find(connection, [*wanted, *expected] if expected else wanted)
        check_expected(words.heads, expected)
        if missing:
            needed = set(wanted)
            words.create(connection, [stream for stream in missing if stream in needed])
        positions, accepted = self._accept(connection, batch)
        if accepted:
            self._store(connection, accepted)
        late = sum(late for _, late, _, _ in accepted)
        result = AppendResult(positions, len(accepted), len(positions) - len(accepted), late)
        if token is not None:
            remember_result(connection, token, self._batch_id if accepted else None, result)
        return result

    def _catch_up(self, connection: Connection) -> None:
        """Reads again what another writer, or a failed append of our own, may have made untrue."""
        b, d = schema.batches.c, schema.dictionaries.c
        newest = connection.execute(
            select(b.id, b.first_position, b.events, b.hash).order_by(b.id.desc()).limit(1)
        ).one_or_none()
        batch_id, first, count, last_hash = newest or (0, 1, 0, GENESIS)
        if batch_id == self._batch_id:
            return
        self._words.load(connection)
        self._position, self._hash = first + count - 1, bytes(last_hash)
        last = connection.execute(select(func.max(d.id))).scalar()
        if last is not None and last != self._codec.active:
            row = connection.execute(select(d.hash, d.payload).where(d.id == last)).one()
            self._codec.add(last, bytes(row.payload))
            self._dictionary_hash = bytes(row.hash)
        self._batch_id = batch_id

    def _accept(self, connection: Connection, batch: list[NewEvent]) -> tuple[list[int], list[Accepted]]:
        """The position of each event, and those that are not there yet, with their heads and clusters moved on."""
        heads = self._words.heads
        seen = self._already(connection, batch)
        position = self._position
        positions: list[int] = []
        accepted: list[Accepted] = []
        for event in batch:
            head = heads[event.stream]
            revision = event.resource_version
            if revision is not None:
                key = (head.id, revision, event.gone)
                there = seen.get(key)
                if there is not None:
                    positions.append(there)
                    continue
                seen[key] = position + 1
            position += 1
            positions.append(position)
            cluster = head.cluster
            observed_at = event.observed_at
            if type(observed_at) is not int:
                raise InvalidEvent(f"observed_at {observed_at!r} is no number: nothing of the batch was stored")
            late = bool(event.late) or (cluster.high_water is not None and observed_at < cluster.high_water)
            accepted.append((position, late, head, event))
            head.version += 1
            if revision is not None and (head.resource_version_max is None or revision > head.resource_version_max):
                head.resource_version_max = revision
            if late:
                continue
            cluster.high_water = observed_at
            cluster.position = head.position = position
            if revision is not None:
                head.resource_version = revision
                head.gone = bool(event.gone)
            elif event.gone:
                head.gone = True
        return positions, accepted

    def _already(self, connection: Connection, batch: list[NewEvent]) -> dict[tuple[int, int, bool], int]:
        """Positions of the batch's observations that the log has. Only those are looked up whose resource version is
        not above all that their stream has had."""
        heads = self._words.heads
        doubtful: dict[tuple[int, int, bool], None] = {}
        for event in batch:
            revision = event.resource_version
            if revision is None:
                continue
            head = heads[event.stream]
            if type(revision) is not int or revision < 0:
                raise InvalidEvent(f"resource version {revision!r} is no number: nothing of the batch was stored")
            if head.resource_version_max is not None and revision <= head.resource_version_max:
                doubtful[head.id, revision, bool(event.gone)] = None
        if not doubtful:
            return {}
        return self._backend.find_observations(connection, list(doubtful))

    def _store(self, connection: Connection, accepted: list[Accepted]) -> None:
        """Writes the rows of a batch, its dictionary if one was trained, its heads, its marks and its link."""
        payloads = [payload_of(event) for _, _, _, event in accepted]
        self._train(connection, accepted, payloads)
        stored = self._codec.compress(payloads)
        rows, body = self._rows(connection, accepted, stored)
        batch_id, first = self._batch_id + 1, accepted[0][0]
        size, stored_size = sum(map(len, payloads)), sum(len(data) for _, data in stored)
        dictionary_id, appended_at = self._codec.active, self._clock()
        dictionary_hash = GENESIS if dictionary_id is None else self._dictionary_hash
        link = batch_hash(
            self._hash, batch_id, first, len(rows), appended_at, size, stored_size, dictionary_id, dictionary_hash, body
        )
        self._backend.insert_events(connection, rows)
        heads = {head.id: head for _, _, head, _ in accepted}
        self._backend.put_heads(connection, [head.row() for head in heads.values()])
        self._words.save_marks(connection, batch_id)
        connection.execute(
            insert(schema.batches).values(
                id=batch_id,
                first_position=first,
                events=len(rows),
                appended_at=appended_at,
                payload_size=size,
                payload_stored=stored_size,
                dictionary_id=dictionary_id,
                hash=link,
            )
        )
        self._position = accepted[-1][0]
        self._backend.appended(connection, self._position)
        self._batch_id, self._hash = batch_id, link
        if dictionary_id is not None and self._watch.fallen_off(len(rows), size, stored_size):
            self._train_from = 0

    def _rows(
        self, connection: Connection, accepted: list[Accepted], stored: list[tuple[int | None, bytes]]
    ) -> tuple[list[EventRow], list[bytes]]:
        """Rows for the table, and the batch's canonical bytes."""
        subjects = self._words.subjects(connection, (event.about for _, _, _, event in accepted))
        types, rows, body = self._words.types, [], []
        # Versions count up to the head's, which has moved past the whole batch already.
        versions: dict[int, int] = {}
        for _, _, head, _ in accepted:
            versions[head.id] = versions.get(head.id, head.version + 1) - 1
        try:
            for (position, late, head, event), (dictionary_id, data) in zip(accepted, stored, strict=True):
                _, name, family, observed_at, _, number, known, revision, gone, _, about, causation, cycle = event
                kind = types.get((name, family, number)) or self._words.type(connection, name, family, number)
                about_id, about_digest = subjects[about]
                version = versions[head.id]
                versions[head.id] = version + 1
                flags = (known | schema.LATE) if late else known
                gone = bool(gone)
                body.append(
                    canonical(position, version, observed_at, revision, causation, cycle, dictionary_id, flags, gone,
                              (head.digest, kind[1], about_digest), data)
                )  # fmt: skip
                body.append(data)
                rows.append((position, head.id, observed_at, revision, causation, cycle, about_id, version,
                             dictionary_id, kind[0], flags, gone, data))  # fmt: skip
                if known not in (0, 1, 2):
                    raise InvalidEvent(f"known is {known!r}, not 0, 1 or 2: nothing of the batch was stored")
        except (struct.error, TypeError) as error:
            raise InvalidEvent(
                f"a number does not fit into 64 bits ({error}): nothing of the batch was stored"
            ) from error
        return rows, body

    def _train(self, connection: Connection, accepted: list[Accepted], payloads: list[bytes]) -> None:
        """Trains a dictionary when the ledger has enough payloads for a first one, or the last one no longer fits."""
        if self._position + len(payloads) < self._train_from or (self._train_from and self._codec.active is not None):
            return
        pairs = [(event.stream.kind, payload) for (_, _, _, event), payload in zip(accepted, payloads, strict=True)]
        if len(pairs) < coding.SAMPLES_MIN:
            pairs += self._recent(connection, coding.SAMPLES_MAX - len(pairs))
        samples = balanced(pairs, coding.SAMPLES_MAX)
        made = coding.train(samples)
        active = self._codec.active
        d = schema.dictionaries.c
        old = None
        if active is not None:
            old = bytes(connection.execute(select(d.payload).where(d.id == active)).scalar_one())
        if made is None or not coding.worthwhile(made, old, samples):
            self._watch.refused()
            # Not at each append again: a ledger that does not compress is asked anew when it has doubled.
            self._train_from = max(2 * self._position, coding.SAMPLES_MIN)
            return
        number = (active or 0) + 1
        self._dictionary_hash = coding.dictionary_hash(made)
        connection.execute(
            insert(schema.dictionaries).values(
                id=number, trained_at=accepted[0][0], hash=self._dictionary_hash, payload=made
            )
        )
        self._codec.add(number, made)
        self._watch.trained()
        self._train_from = coding.SAMPLES_MIN

    def _recent(self, connection: Connection, count: int) -> list[tuple[str, bytes]]:
        """(kind, payload) of the newest events in the log. Used when batches are too small to train on alone."""
        e, d, s, k = schema.events.c, schema.dictionaries.c, schema.streams.c, schema.kinds.c
        rows = connection.execute(
            select(k.name, e.dictionary_id, e.payload)
            .join(schema.streams, s.id == e.stream_id)
            .join(schema.kinds, k.id == s.kind_id)
            .where(e.position > self._position - count)
            .order_by(e.position)
        ).all()
        reading = Codec()
        for id_, payload in connection.execute(select(d.id, d.payload)):
            reading.add(id_, bytes(payload))
        return [(kind, reading.decompress(id_, bytes(data))) for kind, id_, data in rows]


def payload_of(event: NewEvent) -> bytes:
    payload = event.payload
    if type(payload) is not bytes:
        raise InvalidEvent(f"a payload is {type(payload).__name__}, not bytes: nothing of the batch was stored")
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise InvalidEvent(
            f"a payload has {len(payload)} bytes, over {PAYLOAD_BYTES_MAX}: nothing of the batch was stored"
        )
    return payload


def balanced(pairs: Sequence[tuple[str, bytes]], count: int) -> list[bytes]:
    """At most `count` payloads, as many of each kind as the others leave room for, evenly spread over each."""
    kinds = {
        kind: [data for _, data in some] for kind, some in groupby(sorted(pairs, key=lambda p: p[0]), lambda p: p[0])
    }
    samples: list[bytes] = []
    for left, kind in zip(range(len(kinds), 0, -1), sorted(kinds, key=lambda k: len(kinds[k])), strict=True):
        share = (count - len(samples)) // left
        step = max(1, -(-len(kinds[kind]) // max(share, 1)))
        samples += kinds[kind][::step]
    return samples


def check_expected(heads: Mapping[StreamId, Head], expected: Mapping[StreamId, int]) -> None:
    """WrongExpectedVersion unless each stream is at its expected version; 0 means that it must not be there yet."""
    for stream, version in expected.items():
        head = heads.get(stream)
        actual = head.version if head is not None else 0
        if actual != version:
            name = "/".join(part for part in stream if part)
            raise WrongExpectedVersion(
                f"stream {name} is at version {actual}, not {version}: read it again, decide anew (nothing stored)"
            )


def earlier_result(connection: Connection, token: str) -> AppendResult | None:
    """What the append with this token gave the first time; None when there was none."""
    t = schema.tokens.c
    found = connection.execute(select(t.result).where(t.token == token)).scalar_one_or_none()
    if found is None:
        return None
    runs, stored, already, late = json.loads(bytes(found))
    positions = [position for first, count in runs for position in range(first, first + count)]
    return AppendResult(positions, stored, already, late)


def remember_result(connection: Connection, token: str, batch_id: int | None, result: AppendResult) -> None:
    runs: list[list[int]] = []
    for position in result.positions:
        if runs and position == runs[-1][0] + runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([position, 1])
    text = json.dumps([runs, result.stored, result.already, result.late], separators=(",", ":"))
    connection.execute(insert(schema.tokens).values(token=token, batch_id=batch_id, result=text.encode()))
