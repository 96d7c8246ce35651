"""Appending: one batch, one transaction, one link of the hash chain.

Owns the order of an append's steps: catch up with other writers, token, expected versions, duplicates, late ones,
compression, rows, hash. Must not know either database nor what a payload means. Called by `eventstore.store`.

Everything runs inside the writers' turn, so what is read here cannot change before the commit. A failed append leaves
the ledger as it was, and this object too: its caches are dropped and read again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection, func, insert, select

from eventstore import codec as coding
from eventstore import schema
from eventstore.backend import Backend, EventRow, translated
from eventstore.chain import GENESIS, batch_hash, canonical
from eventstore.codec import SAMPLES_MIN, Codec, Known, Stored, shorten
from eventstore.leases import check_lease
from eventstore.training import SAMPLES, Sampler, Schedule
from eventstore.types import KEYED, AppendResult, InvalidEvent, Lease, NewEvent, StreamId, WrongExpectedVersion
from eventstore.words import Head, Words, check_text

PAYLOAD_BYTES_MAX = 256 * 1024 * 1024


Accepted = tuple[
    Head, bytes, str, str, int, str, tuple[int, int, int, int | None, int | None, int | None], int, int, bool
]
"""An event that the log does not have yet: its stream's head, payload, type, family, schema, about, the beginning of
its row, version, flags, gone. A plain tuple, because one is made for every event."""


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
        events: Sequence[NewEvent],
        expected: Mapping[StreamId, int],
        token: str | None,
        lift: bool = False,
        lease: Lease | None = None,
    ) -> AppendResult:
        with self._lock:
            try:
                with translated(self._backend), self._backend.writing() as connection:
                    return self._append(connection, list(events), expected, token, lift, lease)
            except BaseException:
                self._batch_id = -1
                self._codec.forget()
                self._sampler.clear()
                raise

    def _append(
        self,
        connection: Connection,
        batch: list[NewEvent],
        expected: Mapping[StreamId, int],
        token: str | None,
        lift: bool,
        lease: Lease | None,
    ) -> AppendResult:
        self._catch_up(connection)
        if token is not None:
            check_text(token, "token")
            earlier = earlier_result(connection, token)
            if earlier is not None:
                return earlier
        if lease is not None:
            check_lease(connection, lease)
        words = self._words
        wanted = [event.stream for event in batch]
        missing = words.find(connection, [*wanted, *expected] if expected else wanted)
        check_expected(words.heads, expected)
        if missing:
            needed = set(wanted)
            words.create(connection, [stream for stream in missing if stream in needed])
        if lift:
            batch = lifted(batch, words.heads)
        positions: list[int] = []
        accepted: list[Accepted] = []
        self._accept(connection, batch, positions, accepted)
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

    def _accept(
        self, connection: Connection, batch: list[NewEvent], positions: list[int], accepted: list[Accepted]
    ) -> None:
        """Fills in the position of each event, and those that are not there yet, with their heads and clusters moved
        on. Both lists are good up to the event at hand when this fails."""
        heads = self._words.heads
        seen = self._already(connection, batch)
        position = self._position
        for event in batch:
            stream, name, family, observed_at, payload, number, known, revision, gone, late, about, cause, cycle = event
            head = heads[stream]
            gone = bool(gone)
            if revision is not None:
                key = (head.id, revision, gone)
                there = seen.get(key)
                if there is not None:
                    positions.append(there)
                    continue
                seen[key] = position + 1
            position += 1
            positions.append(position)
            if cause is not None:
                cause = cause_of(cause, positions)
            cluster = head.cluster
            if type(observed_at) is not int:
                raise InvalidEvent(f"observed_at {observed_at!r} is no number: nothing of the batch was stored")
            if known not in (0, 1, 2):
                raise InvalidEvent(f"known is {known!r}, not 0, 1 or 2: nothing of the batch was stored")
            if late or (cluster.high_water is not None and observed_at < cluster.high_water):
                flags = known | schema.LATE
            else:
                flags = known
                cluster.high_water = observed_at
                cluster.position = position
            head.version += 1
            if revision is not None and (head.resource_version_max is None or revision > head.resource_version_max):
                head.resource_version_max = revision
            if flags < schema.LATE and (gone if revision is None else revision < KEYED):  # is_observation
                head.position, head.resource_version, head.gone = position, revision, gone
            accepted.append(
                (head, payload, name, family, number, about,
                 (position, head.id, observed_at, revision, cause, cycle), head.version, flags, gone)
            )  # fmt: skip

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
            highest = head.resource_version_max
            if highest is not None and revision <= highest:
                doubtful[head.id, revision, bool(event.gone)] = None
        if not doubtful:
            return {}
        return self._backend.find_observations(connection, list(doubtful))

    def _store(self, connection: Connection, accepted: list[Accepted]) -> None:
        """Writes the rows of a batch, its dictionary if one was trained, its heads, its marks and its link."""
        payloads = [checked(one[1]) for one in accepted]
        shorts = [shorten(one[1], one[0].known, one[6][3]) for one in accepted]
        first, last = accepted[0][6][0], accepted[-1][6][0]
        self._sampler.see(shorts)
        if last >= self._schedule.due:
            self._train(connection, first, last)
        stored = self._codec.compress(payloads, shorts)
        rows, digests = self._rows(connection, accepted, stored)
        batch_id = self._batch_id + 1
        size, stored_size = sum(map(len, payloads)), sum(len(data) for _, data in stored)
        dictionary_id, appended_at = self._codec.active, self._clock()
        dictionary_hash = GENESIS if dictionary_id is None else self._dictionary_hash
        try:
            body = canonical(rows, digests)
        except (OverflowError, TypeError) as error:
            raise InvalidEvent(
                f"a number does not fit into 64 bits ({error}): nothing of the batch was stored"
            ) from error
        link = batch_hash(
            self._hash, batch_id, first, len(rows), appended_at, size, stored_size, dictionary_id, dictionary_hash, body
        )
        self._backend.insert_events(connection, rows)
        heads = {one[0].id: one[0] for one in accepted}
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
        self._position = last
        self._backend.appended(connection, self._position)
        self._batch_id, self._hash = batch_id, link
        if dictionary_id is not None:
            self._schedule.appended(last, len(rows), size, stored_size)

    def _rows(
        self, connection: Connection, accepted: list[Accepted], stored: list[Stored]
    ) -> tuple[list[EventRow], list[bytes]]:
        """Rows for the table, and the digests of the words that they point at."""
        words, types = self._words, self._words.types
        subjects = words.subjects(connection, (one[5] for one in accepted))
        rows: list[EventRow] = []
        digests: list[bytes] = []
        for (head, _, name, family, number, about, begin, version, flags, gone), frame in zip(
            accepted, stored, strict=True
        ):
            kind = types.get((name, family, number)) or words.type(connection, name, family, number)
            about_id, about_digest = subjects[about]
            rows.append((*begin, about_id, version, kind[0], flags, gone, *frame))
            digests += head.digest, kind[1], about_digest
        return rows, digests

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


def cause_of(cause: object, positions: list[int]) -> int:
    """The position of an event's cause; `positions` are those of the append so far, its own last. InvalidEvent unless
    it is before the event."""
    if type(cause) is not int:
        raise InvalidEvent(f"causation {cause!r} is no number: nothing of the batch was stored")
    if cause < 0:
        if -cause >= len(positions):
            raise InvalidEvent(
                f"causation {cause}: an event can only be caused by one before it in the append "
                f"(it is number {len(positions)}); nothing of the batch was stored"
            )
        return positions[-cause - 1]
    if not 0 < cause < positions[-1]:
        raise InvalidEvent(
            f"causation {cause}: an event can only be caused by one before it (it would be at {positions[-1]}); "
            "nothing of the batch was stored"
        )
    return cause


def checked(payload: object) -> bytes:
    """A payload that the log can keep, or InvalidEvent."""
    if type(payload) is not bytes:
        raise InvalidEvent(f"a payload is {type(payload).__name__}, not bytes: nothing of the batch was stored")
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise InvalidEvent(
            f"a payload has {len(payload)} bytes, over {PAYLOAD_BYTES_MAX}: nothing of the batch was stored"
        )
    return payload


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
