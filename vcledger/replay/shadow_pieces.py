"""A record in pieces, for a shadow replay: where it may be cut, and what one piece tells.

Owns the cuts, a piece's run from the cache before it to its end, and the tape on which its notes wait for their turn.
Must not know processes nor how notes are summed. Called by `vcledger.replay.shadowing`, and by `shadow_workers` for
pieces that are replayed side by side. A record that is not cut is one piece.

A cut lies where a stretch of the trace's time begins (`shadow.stretch_of`): there a Shadow has nothing in its mind, so
a piece needs only the cache before it, and what it tells does not depend on the other pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from projections.cache import Cache, CacheConfig, CacheProjection
from projections.cache.state import PodRef
from vcledger.folding import Folder, collector_paused
from vcledger.ledger import Ledger, cache_projection
from vcledger.replay.inputs import CHANGES
from vcledger.replay.notes import impossible, without_nodes
from vcledger.replay.shadow import Asking, Shadow, events_of, stretch_of
from vcledger.replay.shadow_tally import AnyNote, Said, Sample, Tell
from volcano.events import catalog
from volcano.objects.core import Pod
from volcano.objects.resource import Resource

if TYPE_CHECKING:
    from vcledger.replay.deciding import MakeDecider
    from vcledger.replay.engine import ReplayPlan

TOLD_EACH = 1024
"""Events between two looks at `stop` and two words of progress."""

SHARED_FROM = 50_000
"""Events from which on a record is replayed in pieces: a process takes a second or two to begin."""

PIECE_MIN = 25_000
"""Events of a piece at least."""

PIECES_EACH = 4
"""Pieces for each process, where snapshots stand in the ledger: those of unlike length even out, and what is lost with
a process is little."""

FOLDED_AHEAD = 5
"""How much faster a record is folded than replayed."""

_TAPED_AT_ONCE = 2_000
_READ_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Piece:
    """The events after one position, up to another; `ends`: the record ends there."""

    after: int
    to: int
    ends: bool


@dataclass(frozen=True, slots=True)
class Work:
    """What is the same for all pieces. Picklable.

    stays         whether jobs that stay pending are asked about
    start, every  when what is in use is looked at: each so many microseconds
    says          whether what the session says is told, too: for a result ledger"""

    plan: ReplayPlan
    cluster: str
    model: str
    options: CacheConfig
    stays: bool
    start: int
    every: int
    says: bool

    @property
    def period(self) -> int:
        """Between two cycles, in microseconds."""
        return round(self.plan.period_seconds * 1_000_000)


class Ended(msgspec.Struct, frozen=True):
    """How a piece ended: whether at its own end, what the Shadow then had in mind, the pods that wait there, and lines
    for people about the cache there."""

    finished: bool
    asking: Asking
    pending: int
    notes: list[str]


# --- cuts ---------------------------------------------------------------------------------------------------------


def cut(source: Ledger, work: Work, after: int, last: int, workers: int) -> list[Piece]:
    """The record from a position on, in pieces for so many processes."""
    events = last - after
    count = min(workers * PIECES_EACH, max(1, events // PIECE_MIN))
    shares = [number / count for number in range(1, count)]
    if not _has_snapshots(source, work, (after + last) // 2, events // (4 * max(1, count))):
        shares = _shares(min(workers, count))
    places, end = [after], _last_read(source, work, after, last)
    for share in shares:
        place = _stretch_at(source, work, after + int(share * events))
        if places[-1] < place < end:
            places.append(place)
    ends = [*places[1:], last]
    return [Piece(start, end, end == last) for start, end in zip(places, ends, strict=True)]


def _shares(count: int) -> list[float]:
    """Where to cut when each process has to fold all that is before its piece: later ones are shorter."""
    left = 1 - 1 / FOLDED_AHEAD
    return [(1 - left**number) / (1 - left**count) for number in range(1, count)]


def _has_snapshots(source: Ledger, work: Work, position: int, near: int) -> bool:
    """Whether a snapshot stands near before a position."""
    chain = Folder(source.store).chain(cache_projection(work.model, work.options), work.cluster, position)
    return bool(chain) and position - chain[-1].position <= near


def _last_read(source: Ledger, work: Work, after: int, last: int) -> int:
    """The position of the last event that a Shadow takes: behind it may be other clusters', or markers. Without an
    event a piece would not know the time of the record's end."""
    record = source.store.read(
        after=after, to=last, cluster=work.cluster, types=tuple(CHANGES), late=False, reverse=True, batch=_READ_AT_ONCE
    )
    return next((stored.position for stored in record if stored.kind in CacheProjection.decoders), after)


def _stretch_at(source: Ledger, work: Work, position: int) -> int:
    """The end of the stretch that a position is in."""
    stretch = stretch_of(work.period)
    now = source.observed_at(position, work.cluster) or 0
    return source.store.position_at((now // stretch + 1) * stretch - 1, work.cluster)


# --- one piece ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Sampler:
    """Looks at what is in use and what there is at a piece's first event, and then at the times that are due."""

    start: int
    every: int
    due: int = field(default=0)

    def look(self, cache: Cache, now: int, tell: Tell) -> None:
        """A sample; the next one is wanted at `due`."""
        self.due = self.start + ((now - self.start) // self.every + 1) * self.every
        used: dict[str, float] = {}
        room: dict[str, float] = {}
        for name in cache.node_objects:
            info = cache.nodes[name]
            _add(used, info.used)
            _add(room, info.allocatable)
        tell(Sample(now, used, room))


def _add(into: dict[str, float], resource: Resource) -> None:
    """Adds amounts by name, which stand in the order in which they came: cpu, memory, then scalars by name."""
    scalars = resource.scalars or {}
    if "cpu" not in into:
        into["cpu"] = into["memory"] = 0.0
    if not scalars.keys() <= into.keys():
        into |= {name: into.get(name, 0.0) for name in sorted(scalars)}
    into["cpu"] += resource.milli_cpu
    into["memory"] += resource.memory
    for name, amount in scalars.items():
        into[name] += amount


def walk(
    source: Ledger,
    work: Work,
    piece: Piece,
    asking: Asking | None,
    make: MakeDecider,
    tell: Tell,
    moved: Callable[[Asking], bool],
) -> Ended:
    """One piece from its beginning, or from what a Shadow had in mind that was told to stop there. `moved` is called
    now and then; once it says True it ends."""
    projection = cache_projection(work.model, work.options)
    cache = Folder(source.store).at(projection, work.cluster, piece.after)
    events = events_of(source.store, work.cluster, piece.after, piece.to)
    fresh = asking or Asking(position=piece.after)
    shadow = Shadow(cache, events, work.period, tell, make, _from(source), stays=work.stays, asking=fresh)
    _remind(shadow, source)
    with collector_paused():
        finished = _steps(shadow, work, tell, moved)
    if finished and piece.ends:
        shadow.look_for_stayers()
        if work.says:
            _say(shadow, piece.to + 1, tell)
    notes = [*without_nodes(cache), *impossible(cache)]
    return Ended(finished, shadow.asking, shadow.pending(), notes)


def _remind(shadow: Shadow, source: Ledger) -> None:
    """The objects of all pods that wait where a piece begins, which are about to be looked at: one by one they would
    take as long as the whole cache."""
    waiting = {ref.position: ref for ref in shadow.cache.pods.values() if not ref.node_name and ref.phase == "Pending"}
    positions = sorted(waiting)
    for start in range(0, len(positions), _READ_AT_ONCE):
        for stored in source.store.get(positions[start : start + _READ_AT_ONCE]):
            shadow.remember(waiting[stored.position], stored.payload)


def _steps(shadow: Shadow, work: Work, tell: Tell, moved: Callable[[Asking], bool]) -> bool:
    sampler = Sampler(work.start, work.every)
    count = 0
    while (event := shadow.step()) is not None:
        count += 1
        if event.recorded.observed_at >= sampler.due:
            sampler.look(shadow.cache, event.recorded.observed_at, tell)
        if shadow.outcomes:
            if work.says:
                _say(shadow, event.recorded.position, tell)
            shadow.outcomes.clear()
        if count % TOLD_EACH == 0 and moved(shadow.asking):
            return False
    return True


def _say(shadow: Shadow, position: int, tell: Tell) -> None:
    """What the questions of a step are in the result ledger, before the event at a position."""
    for outcome in shadow.outcomes:
        said = []
        for subject, event in shadow.decider.events(outcome):
            made = catalog.encode(event)
            said.append((subject.kind, subject.namespace, subject.name, subject.uid, *made))
        tell(Said(position, outcome.cycle, said))


def _from(source: Ledger) -> Callable[[PodRef], Pod | None]:
    """The objects of pods that were seen before a piece, from the record."""

    def pod_of(ref: PodRef) -> Pod | None:
        found = source.objects([ref.position]).get(ref.position)
        return found if isinstance(found, Pod) else None

    return pod_of


def asks_stayers(source: Ledger, cluster: str, config: CacheConfig, after: int, last: int) -> bool:
    """Whether jobs that stay pending are to be asked about: not where pods run and no node is named for any. Then
    nothing is known to be in use, and whoever waits would be placed."""
    ran = False
    read = CacheProjection.decoders["Pod"]
    for rows in source.store.read_raw(after, last, cluster, batch=TOLD_EACH):
        for _, stream, _, schema, *_, payload in rows:
            if stream[1] != "Pod" or schema != 1:
                continue
            named = b'"nodeName"' in payload
            if not named and (ran or b'"Running"' not in payload):
                continue
            try:
                pod = read(payload)
            except (ValueError, RecursionError):
                continue
            if pod.spec.scheduler_name in config.scheduler_names:
                if pod.spec.node_name:
                    return True
                ran = ran or pod.status.phase == "Running"
    return not ran


# --- tapes --------------------------------------------------------------------------------------------------------


class Tape:
    """A file that notes are written to."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._notes: list[AnyNote] = []
        self._encode = msgspec.msgpack.Encoder().encode

    def tell(self, note: AnyNote) -> None:
        """One more note."""
        self._notes.append(note)
        if len(self._notes) >= _TAPED_AT_ONCE:
            self._write()

    def _write(self) -> None:
        written = self._encode(self._notes)
        self._file.write(len(written).to_bytes(8, "big") + written)
        self._notes.clear()

    def close(self) -> None:
        """Writes what is left."""
        self._write()
        self._file.close()


def notes_on(path: Path) -> Iterator[AnyNote]:
    """The notes of a tape that was closed, in their order."""
    decode = msgspec.msgpack.Decoder(list[AnyNote]).decode
    with path.open("rb") as file:
        while head := file.read(8):
            yield from decode(file.read(int.from_bytes(head, "big")))


__all__ = ["Ended", "Piece", "Sampler", "Tape", "Work", "asks_stayers", "cut", "notes_on", "walk"]
