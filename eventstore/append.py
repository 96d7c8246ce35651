"""Appending: one batch, one transaction, one link of the hash chain.

Owns the order of an append's steps: catch up with other writers, token, expected versions, acceptance, compression,
rows, hash. Must not know either database nor what a payload means. Called by `eventstore.store`.

Everything runs inside the writers' turn, so what is read here cannot change before the commit. A failed append leaves
the ledger as it was, and this object too: its caches are dropped and read again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from sqlalchemy import Connection, func, insert, select

from eventstore import codec as coding
from eventstore import schema
from eventstore.accept import Acceptance, Accepted
from eventstore.backend import Backend, translated
from eventstore.chain import GENESIS, batch_hash, canonical_columns
from eventstore.codec import SAMPLES_MIN, Codec, Known, lengthen, shorten
from eventstore.leases import check_lease
from eventstore.runs import Run, one_by_one
from eventstore.training import SAMPLES, Sampler, Schedule
from eventstore.types import (
    AppendResult,
    InvalidEvent,
    Lease,
    LogMoved,
    NewEvent,
    StreamId,
    WrongExpectedVersion,
)
from eventstore.words import Head, Words, check_text


class Appender:
    """A writer. One at a time may append; a lock inside sees to it."""

    def __init__(self, backend: Backend, clock: Callable[[], int]) -> None:
        self._backend = backend
        self._clock = clock
        self._lock = threading.Lock()
        self._words = Words(backend)
        self._codec = Codec()
        self._sampler = Sampler()
        self._schedule = Schedule()
        self._batch_id = -1
        self._position = 0
        self._hash = GENESIS
        self._dictionary_hash = GENESIS

    def append(
        self,
        events: Sequence[NewEvent | Run],
        expected: Mapping[StreamId, int],
        token: str | None,
        lift: bool = False,
        lease: Lease | None = None,
        first: int | None = None,
    ) -> AppendResult:
        with self._lock:
            try:
                with translated(self._backend), self._backend.writing() as connection:
                    return self._append(connection, list(events), expected, token, lift, lease, first)
            except BaseException:
                self._batch_id = -1
                self._codec.forget()
                self._sampler.clear()
                raise

    def _append(
        self,
        connection: Connection,
        batch: list[NewEvent | Run],
        expected: Mapping[StreamId, int],
        token: str | None,
        lift: bool,
        lease: Lease | None,
        first: int | None,
    ) -> AppendResult:
        self._catch_up(connection)
        if token is not None:
            check_text(token, "token")
            earlier = earlier_result(connection, token)
            if earlier is not None:
                return earlier
        if lease is not None:
            check_lease(connection, lease)
        if first is not None and first != self._position + 1:
            raise LogMoved(f"the log ends at {self._position}, not at {first - 1}: another writer has appended")
        words = self._words
        wanted = streams_of(batch)
        missing = words.find(connection, [*wanted, *expected] if expected else wanted)
        check_expected(words.heads, expected)
        if missing:
            needed = set(wanted)
            words.create(connection, [stream for stream in missing if stream in needed])
        if lift:
            batch = list(lifted(one_by_one(batch), words.heads))
        find = partial(self._backend.find_observations, connection)
        acceptance = Acceptance(words.heads, self._position, find, present=lift)
        acceptance.take(batch)
        positions, accepted = acceptance.positions, acceptance.accepted
        if accepted:
            self._store(connection, accepted)
        late = sum(one[8] >= schema.LATE for one in accepted)
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
        if last is None:
            self._schedule.opened(self._position, None)
        elif last != self._codec.active:
            row = connection.execute(select(d.hash, d.payload, d.trained_at).where(d.id == last)).one()
            self._codec.add(last, bytes(row.payload))
            self._dictionary_hash = bytes(row.hash)
            self._schedule.opened(self._position, row.trained_at)
        self._batch_id = batch_id

    def _store(self, connection: Connection, accepted: list[Accepted]) -> None:
        """Writes the rows of a batch, its dictionary if one was trained, its heads, its marks and its link."""
        heads, _, _, revisions, _, _, _, _, _, _, sizes, shorts, payloads = zip(*accepted, strict=True)
        first, last = self._position + 1, self._position + len(accepted)
        self._sampler.see(shorts)
        if last >= self._schedule.due:
            self._train(connection, first, last)

        def payload(place: int) -> bytes:
            whole: bytes | None = payloads[place]
            return lengthen(shorts[place], heads[place].known, revisions[place]) if whole is None else whole

        stored = self._codec.compress(shorts, sizes, payload)
        columns, digests = self._columns(connection, first, accepted, *zip(*stored, strict=True))
        batch_id = self._batch_id + 1
        size, stored_size = sum(sizes), sum(map(len, columns[-1]))
        dictionary_id, appended_at = self._codec.active, self._clock()
        dictionary_hash = GENESIS if dictionary_id is None else self._dictionary_hash
        try:
            body = canonical_columns(columns, digests)
        except (OverflowError, TypeError) as error:
            raise InvalidEvent(
                f"a number does not fit into 64 bits ({error}): nothing of the batch was stored"
            ) from error
        link = batch_hash(
            self._hash, batch_id, first, len(accepted), appended_at, size, stored_size, dictionary_id, dictionary_hash,
            body,
        )  # fmt: skip
        self._backend.insert_events(connection, list(zip(*columns, strict=True)))
        moved = {head.id: head for head in heads}
        self._backend.put_heads(connection, [head.row() for head in moved.values()])
        self._words.save_marks(connection, batch_id)
        connection.execute(
            insert(schema.batches).values(
                id=batch_id,
                first_position=first,
                events=len(accepted),
                appended_at=appended_at,
                payload_size=size,
                payload_stored=stored_size,
                dictionary_id=dictionary_id,
                hash=link,
            )
        )
        self._position = last
        self._backend.appended(connection, self._position)
        self._batch_id, self._hash = batch_id, link
        if dictionary_id is not None:
            self._schedule.appended(last, len(accepted), size, stored_size)

    def _columns(
        self,
        connection: Connection,
        first: int,
        accepted: list[Accepted],
        dictionaries: tuple[int | None, ...],
        frames: tuple[bytes, ...],
    ) -> tuple[list[Sequence[Any]], list[bytes]]:
        """The columns of the rows for the table, in the order of EVENT_COLUMNS, and the digests of the words that each
        row points at: stream, type, about."""
        heads, kinds, observed, revisions, causes, cycles, about, versions, flags, gone, _, _, _ = zip(
            *accepted, strict=True
        )
        types = {kind: self._words.type(connection, *kind) for kind in dict.fromkeys(kinds)}
        subjects = self._words.subjects(connection, about)
        words = zip([head.digest for head in heads], [types[kind][1] for kind in kinds],
                    [subjects[uid][1] for uid in about], strict=True)  # fmt: skip
        columns: list[Sequence[Any]] = [
            range(first, first + len(accepted)),
            [head.id for head in heads],
            observed,
            revisions,
            causes,
            cycles,
            [subjects[uid][0] for uid in about],
            versions,
            [types[kind][0] for kind in kinds],
            flags,
            gone,
            dictionaries,
            frames,
        ]
        return columns, list(chain.from_iterable(words))

    def _train(self, connection: Connection, first: int, last: int) -> None:
        """Trains a dictionary on what was set aside, and takes it when it is clearly better than the last one."""
        samples = self._sampler.chosen()
        if len(samples) < SAMPLES_MIN:
            samples = self._recent(connection, first, SAMPLES) + samples
        made = coding.train(samples)
        active = self._codec.active
        d = schema.dictionaries.c
        old = None
        if active is not None:
            old = bytes(connection.execute(select(d.payload).where(d.id == active)).scalar_one())
        taken = made is not None and coding.worthwhile(made, old, samples)
        self._sampler.clear()
        self._schedule.done(last, taken)
        if made is None or not taken:
            return
        number = (active or 0) + 1
        self._dictionary_hash = coding.dictionary_hash(made)
        connection.execute(
            insert(schema.dictionaries).values(id=number, trained_at=first, hash=self._dictionary_hash, payload=made)
        )
        self._codec.add(number, made)

    def _recent(self, connection: Connection, before: int, count: int) -> list[bytes]:
        """Payloads in their short form from the newer half of the log, evenly spread. Used when this writer has not
        seen enough itself."""
        e, d, s = schema.events.c, schema.dictionaries.c, schema.streams.c
        since = before // 2
        wanted = list(range(since + 1, before, max(1, (before - since) // count)))
        rows = connection.execute(
            select(e.dictionary_id, e.payload, e.resource_version, s.uid, s.name)
            .join(schema.streams, s.id == e.stream_id)
            .where(e.position.in_(wanted))
            .order_by(e.position)
        ).all()
        reading = Codec()
        for id_, payload in connection.execute(select(d.id, d.payload)):
            reading.add(id_, bytes(payload))
        found: list[bytes] = []
        for id_, stored, version, uid, name in rows:
            known = Known(uid.encode(), name.encode())
            short = shorten(reading.decompress(id_, bytes(stored), known, version), known, version)
            if short:
                found.append(short)
        return found


def lifted(batch: list[NewEvent], heads: Mapping[StreamId, Head]) -> list[NewEvent]:
    """The batch with no event, but those that are late by themselves, observed before what its cluster has got to or
    before one that stands ahead of it in the batch."""
    marks = {event.stream.cluster: heads[event.stream].cluster.high_water for event in batch}
    lifted_batch = []
    for event in batch:
        mark = marks[event.stream.cluster]
        if not event.late:
            if mark is not None and event.observed_at < mark:
                event = event._replace(observed_at=mark)
            else:
                marks[event.stream.cluster] = event.observed_at
        lifted_batch.append(event)
    return lifted_batch


def streams_of(batch: Sequence[NewEvent | Run]) -> list[StreamId]:
    """The streams of a batch's events, in the order in which they come up; those of a run once."""
    found: list[StreamId] = []
    for one in batch:
        if type(one) is Run:
            streams = one.streams
            found += [streams[number] for number in dict.fromkeys(one.stream)]
        else:
            found.append(one.stream)
    return found


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
