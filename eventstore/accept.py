"""What of a batch the log does not have yet, and where it goes: positions, versions, what is late.

Owns that decision for each event, and the heads and marks that move with it. Must not know payloads nor rows. Called by
`eventstore.append` inside the writers' turn; when it fails, heads and marks are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat

from eventstore import schema
from eventstore.backend import Observation
from eventstore.codec import shorten
from eventstore.runs import Run
from eventstore.types import KEYED, RETURNED, InvalidEvent, NewEvent, StreamId
from eventstore.words import Head

PAYLOAD_BYTES_MAX = 256 * 1024 * 1024

Accepted = tuple[
    Head, tuple[str, str, int], int, int | None, int | None, int | None, str, int, int, bool, int, bytes | None,
    bytes | None,
]  # fmt: skip
"""An event that the log does not have yet: its stream's head, (type, family, schema), observed_at, resource version,
causation, cycle, about, version, flags, gone, the payload's size, its short form, and the payload itself, None when the
short form is all there is. A plain tuple, because one is made for every event. They stand at consecutive positions."""


class Acceptance:
    """One batch on its way in, after the position that the log has got to. `find` looks observations up. `present`: who
    appends sees the present, so that an object that is shown is there."""

    def __init__(
        self,
        heads: Mapping[StreamId, Head],
        position: int,
        find: Callable[[list[Observation]], dict[Observation, int]],
        present: bool = False,
    ) -> None:
        self._heads, self._find, self._present = heads, find, present
        self._after = self._position = position
        self.positions: list[int] = []
        self.accepted: list[Accepted] = []
        self._there: dict[Observation, int] = {}
        self._own: dict[Observation, int] | None = None

    def take(self, batch: Sequence[NewEvent | Run]) -> None:
        """Fills in `positions`, of each event, and `accepted`."""
        of_runs = {id(run): self._heads_of(run) for run in batch if type(run) is Run}
        doubtful = self._doubtful(batch, of_runs)
        if doubtful:
            self._there = self._find(list(doubtful))
        for one in batch:
            if type(one) is Run:
                self._run(one, of_runs[id(one)])
            else:
                self._event(one, None)

    def _heads_of(self, run: Run) -> list[Head]:
        """The head of each of its events."""
        heads, streams = self._heads, run.streams
        found = {number: heads[streams[number]] for number in set(run.stream)}
        return [found[number] for number in run.stream]

    def _doubtful(self, batch: Sequence[NewEvent | Run], of_runs: dict[int, list[Head]]) -> dict[Observation, None]:
        """The batch's observations that the log may have: only those whose resource version is not above all that their
        stream has had."""
        heads = self._heads
        doubtful: dict[Observation, None] = {}
        for event in batch:
            if type(event) is Run:
                for place, (head, version) in enumerate(zip(of_runs[id(event)], event.revision, strict=True)):
                    if version <= head.highest:
                        doubtful[head.id, version, event.forms[event.form[place]].gone] = None
                continue
            revision = event.resource_version
            if revision is None:
                continue
            if type(revision) is not int or revision < 0:
                raise InvalidEvent(f"resource version {revision!r} is no number: nothing of the batch was stored")
            head = heads[event.stream]
            if revision <= head.highest:
                doubtful[head.id, revision, bool(event.gone)] = None
        return doubtful

    def _seen(self, key: Observation) -> int | None:
        """Where an observation stands, when it is in the log or ahead in the batch."""
        if self._own is None:
            first = self._after + 1
            self._own = {
                (one[0].id, one[3], one[9]): position
                for position, one in enumerate(self.accepted, first)
                if one[3] is not None
            }
        return self._there.get(key) or self._own.get(key)

    def _event(self, event: NewEvent, short: bytes | None, size: int = 0) -> None:
        """One event. `short` is given when the short form and the size are all that there is of the payload."""
        stream, name, family, observed_at, payload, number, known, revision, gone, late, about, cause, cycle = event
        head = self._heads[stream]
        gone = bool(gone)
        if revision is not None:
            if revision <= head.highest:
                there = self._seen((head.id, revision, gone))
                if there is not None:
                    if not self._present or late or not _returned(head, revision, gone, self._position):
                        self.positions.append(there)
                        return
                    revision = RETURNED + self._position + 1
            head.highest = max(head.highest, revision)
        position = self._position = self._position + 1
        self.positions.append(position)
        if self._own is not None and revision is not None:
            self._own[head.id, revision, gone] = position
        if cause is not None:
            cause = cause_of(cause, self.positions)
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
        if flags < schema.LATE and (gone if revision is None else revision < KEYED):  # is_observation
            head.position, head.resource_version, head.gone = position, revision, gone
        whole: bytes | None = None
        if short is None:
            whole = checked(payload)
            short, size = shorten(whole, head.known, revision), len(whole)
        self.accepted.append(
            (head, (name, family, number), observed_at, revision, cause, cycle, about, head.version, flags, gone, size,
             short, whole)
        )  # fmt: skip

    def _run(self, run: Run, heads: list[Head]) -> None:
        """A run: all of it that is plainly new at once, the rest one by one."""
        cluster = heads[0].cluster
        shorts = run.payloads()
        plain = 0
        if cluster.high_water is None or run.observed[0] >= cluster.high_water:
            plain = self._plainly_new(run, heads, shorts)
        if plain == len(run):
            return
        for place in range(plain, len(run)):
            form = run.forms[run.form[place]]
            event = NewEvent(
                run.streams[run.stream[place]], form.type, form.family, run.observed[place], b"", form.schema,
                form.known, run.revision[place], form.gone, False, run.about[place] if run.about is not None else "",
            )  # fmt: skip
            self._event(event, shorts[place], run.size[place])

    def _plainly_new(self, run: Run, heads: list[Head], shorts: list[bytes]) -> int:
        """Takes events, none of them late, up to the first that may be in the log or ahead in the batch; how many."""
        first = position = self._position + 1
        versions: list[int] = []
        gones = [run.forms[number].gone for number in run.form]
        for head, revision, gone in zip(heads, run.revision, gones, strict=True):
            if revision <= head.highest:
                break
            head.highest = head.resource_version = revision
            head.version = version = head.version + 1
            head.position = position
            head.gone = gone
            position += 1
            versions.append(version)
        count = len(versions)
        if not count:
            return 0
        self._position = position - 1
        kinds = [form[:3] for form in run.forms]
        flags = [form.known for form in run.forms]
        self.positions.extend(range(first, position))
        # The columns are longer than the versions when the run was broken off: zip ends with the shortest.
        self.accepted.extend(
            zip(
                heads,
                [kinds[number] for number in run.form],
                run.observed,
                run.revision,
                repeat(None),
                repeat(None),
                run.about if run.about is not None else repeat(""),
                versions,
                [flags[number] for number in run.form],
                gones,
                run.size,
                shorts,
                repeat(None),
            )
        )
        if self._own is not None:
            for place, (head, revision, gone) in enumerate(zip(heads[:count], run.revision, gones, strict=False)):
                self._own[head.id, revision, gone] = first + place
        cluster = heads[0].cluster
        cluster.high_water, cluster.position = run.observed[count - 1], position - 1
        return count


def _returned(head: Head, revision: int, gone: bool, position: int) -> bool:
    """Whether an observation, which the log has, shows an object at the version at which the log takes it to have gone,
    be it for another time."""
    at = head.resource_version
    return head.gone and not gone and at is not None and (at == revision or 0 < at - RETURNED <= position)


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
