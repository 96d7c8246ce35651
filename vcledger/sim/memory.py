"""A log in memory, for worlds that only have to be run: what the loop and the feeds ask of a log, without a disk.

Owns the same guarantees in the small: positions, versions of streams, observations stored once, late events. Must not
know who reads. Called by `vcledger.sim.simulate`; a test holds it to what the log on SQLite gives for the same plan.

It keeps nothing beyond the process and verifies nothing: what `vcledger check` looks at is a ledger on a disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eventstore.types import (
    AppendResult,
    LogMoved,
    NewEvent,
    Snapshot,
    StoredEvent,
    StreamHead,
    StreamId,
    WrongExpectedVersion,
    is_observation,
)

Scalars = str | Sequence[str] | None


class MemoryLog:
    """Append, and read by stream and position."""

    def __init__(self) -> None:
        self._events: list[StoredEvent] = []
        self._streams: dict[StreamId, list[int]] = {}
        self._heads: dict[StreamId, StreamHead] = {}
        self._once: dict[tuple[StreamId, int, bool], int] = {}
        self._high: dict[str, int] = {}
        self._snapshots: dict[int, Snapshot] = {}

    def append(
        self,
        events: Sequence[NewEvent],
        *,
        expected: Mapping[StreamId, int] | None = None,
        token: str | None = None,
        first: int | None = None,
    ) -> AppendResult:
        """As the log's; `token` is not looked at, as no answer is ever lost here."""
        if first is not None and first != len(self._events) + 1:
            raise LogMoved(f"the log ends at {len(self._events)}, not at {first - 1}")
        for stream, version in (expected or {}).items():
            head = self._heads.get(stream)
            if (head.version if head else 0) != version:
                raise WrongExpectedVersion(f"{stream} is not at version {version}")
        positions: list[int] = []
        stored = late = 0
        for event in events:
            key = (event.stream, event.resource_version, event.gone) if event.resource_version is not None else None
            if key is not None and key in self._once:
                positions.append(self._once[key])
                continue
            positions.append(len(self._events) + 1)
            stored += 1
            if key is not None:
                self._once[key] = positions[-1]
            late += self._store(event, positions)
        return AppendResult(positions, stored, len(positions) - stored, late)

    def _store(self, event: NewEvent, positions: list[int]) -> bool:
        position, stream = positions[-1], event.stream
        late = event.late or event.observed_at < self._high.get(stream.cluster, event.observed_at)
        head = self._heads.get(stream) or StreamHead(stream, 0, 0, None, False)
        head = head._replace(version=head.version + 1)
        if not late:
            self._high[stream.cluster] = event.observed_at
            if is_observation(event.resource_version, event.gone):
                head = head._replace(position=position, resource_version=event.resource_version, gone=event.gone)
        self._heads[stream] = head
        cause = event.causation
        if cause is not None and cause < 0:
            cause = positions[-cause - 1]
        self._streams.setdefault(stream, []).append(position)
        self._events.append(
            StoredEvent(
                position,
                *stream,
                head.version,
                event.type,
                event.family,
                event.schema,
                event.observed_at,
                event.observed_at,
                event.payload,
                event.known,
                event.resource_version,
                event.gone,
                late,
                event.about,
                cause,
                event.cycle,
            )
        )
        return late

    def read(
        self,
        *,
        after: int = 0,
        to: int | None = None,
        cluster: Scalars = None,
        kinds: Scalars = None,
        namespace: Scalars = None,
        name: Scalars = None,
        uid: Scalars = None,
        reverse: bool = False,
    ) -> Iterator[StoredEvent]:
        """The log's read, with the filters that name a stream."""
        wanted = (cluster, kinds, namespace, name, uid)
        if all(isinstance(one, str) for one in wanted):
            positions = self._streams.get(StreamId(*(str(one) for one in wanted)), [])
            found = [self._events[position - 1] for position in positions]
        else:
            found = [event for event in self._events if all(map(_matches, wanted, event.stream))]
        found = [event for event in found if event.position > after and (to is None or event.position <= to)]
        return iter(found[::-1] if reverse else found)

    def get(self, positions: Sequence[int]) -> list[StoredEvent]:
        """Events by their positions."""
        return [self._events[position - 1] for position in positions if 0 < position <= len(self._events)]

    def read_raw(
        self, after: int, to: int, cluster: str | None = None, batch: int = 2000
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The log's, in one piece."""
        yield [
            (one.position, StreamId(*one[1:6]), one.type, one.schema, one.observed_at, one.known, one.late,
             one.resource_version, one.causation, one.cycle, one.payload)
            for one in self._events[after:to]
            if not one.late and (cluster is None or one.cluster == cluster)
        ]  # fmt: skip

    def save_snapshot(self, snapshot: Snapshot, *, replace: bool = False) -> None:
        """The log's; only whole ones come."""
        self._snapshots[snapshot.position] = snapshot

    def load_snapshots(self, projection: str, version: int, cluster: str, at: int) -> list[Snapshot]:
        """The newest whole one, as a chain."""
        found = [one for position, one in sorted(self._snapshots.items()) if position <= at and one[0] == projection]
        return found[-1:]

    def first(self) -> int:
        """Nothing is ever pruned."""
        return 1

    def head(self) -> int:
        """The newest event's position; 0 when there is none."""
        return len(self._events)

    def stream_head(self, stream: StreamId) -> StreamHead | None:
        """A stream's version and last observation."""
        return self._heads.get(stream)

    def live(self, cluster: str, kind: str) -> list[StreamHead]:
        """Heads of a kind's streams whose objects are not gone, by position."""
        mine = [head for head in self._heads.values() if head.stream.cluster == cluster and head.stream.kind == kind]
        return sorted((head for head in mine if head.position and not head.gone), key=lambda head: head.position)


def _matches(wanted: Scalars, found: str) -> bool:
    return wanted is None or (found == wanted if isinstance(wanted, str) else found in wanted)
