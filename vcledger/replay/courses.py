"""What each pod of a free replay does by itself: when it comes, how long it runs, when it goes.

Owns reading that out of a record. Must not know the simulation's state. Called by `vcledger.replay.world`.

The rules (docs/replay.md tells them to people):

- A pod comes when it was recorded; one that a Volcano Job's controller made after its PodGroup had been let in comes as
  long after the PodGroup is let in here; one that was made again after its predecessor had gone, as long after that.
- A pod that came to an end of its own runs for as long as it ran, and then stays as long as it stayed. One that
  somebody took away goes at that time, whether it runs here or waits; where nothing says that somebody did (a trace
  that has only starts and ends), it runs for as long as it ran.
- A pod that the scheduler evicted is not gone from the trace: what was made again in its place is the same course, and
  the last of them says how long it ran, or when somebody took it away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median_low

from vcledger.replay.record import Group, Life, Record, decode


@dataclass(slots=True)
class Course:
    """A pod of the trace. Times and spans in microseconds.

    arrive  when it comes, None: it waits for `gate` or `after`
    gate    (uid of a PodGroup, span): so long after that is let in
    after   (uid of a course, span): so long after that has gone
    failing   how long its binds fail here, as they did there, None: to the end
    provision how long its claims take to get their volumes once a node is named, None: they get none
    delay   from its place to running
    run     how long it runs, None: nobody knows, so until `until`, or on to the end
    phase   how its run ends: Succeeded, Failed, or '' for a deletion
    linger  from its end to its deletion, None: it stays
    until   when it goes, wherever it is then
    grace   from being told to go to being gone
    """

    uid: str
    namespace: str
    name: str
    group: str
    owner: str
    body: bytes
    lives: list[Life] = field(default_factory=list)
    kept: bytes = b""
    later: list[tuple[int, bytes]] = field(default_factory=list)
    arrive: int | None = None
    gate: tuple[str, int] | None = None
    after: tuple[str, int] | None = None
    failing: int | None = 0
    provision: int | None = 0
    delay: int = 0
    run: int | None = None
    phase: str = ""
    linger: int | None = None
    until: int | None = None
    grace: int = 0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def first(self) -> Life | None:
        """Its first life in the record; None for one that the record does not have."""
        return self.lives[0] if self.lives else None

    def body_at(self, now: int) -> bytes:
        """What is asked for at a time."""
        return next((body for time, body in reversed(self.later) if time <= now), self.body)


@dataclass(frozen=True, slots=True)
class Spans:
    """What is typical of the record (its medians), for whom the record has no figures of their own: from place to
    running, from told to go to gone, from gone by eviction to made again, from let in to made."""

    delay: int = 0
    grace: int = 0
    again: int = 0
    made: int = 0


def spans_of(record: Record) -> Spans:
    """The record's medians; 0 for what it never shows."""
    lives = list(record.lives.values())
    again = [
        max(0, after.created - before.deleted)
        for chain in record.seats.values()
        for before, after in pairwise(chain)
        if before.evicted and before.deleted is not None
    ]
    return Spans(
        _median(life.ran - life.started for life in lives if life.ran is not None and life.started is not None),
        _median(
            life.deleted - life.asked_to_go
            for life in lives
            if life.deleted is not None and life.asked_to_go is not None and life.ran is not None
        ),
        _median(again),
        _median(
            life.created - group.let_in
            for group in record.groups.values()
            for life in group.lives[:1]
            if group.let_in is not None and group.owner and life.created >= group.let_in
        ),
    )


def _median(values: Iterable[int]) -> int:
    found = list(values)
    return median_low(found) if found else 0


def courses_of(record: Record, spans: Spans) -> list[Course]:
    """The courses in the order in which they come in the record."""
    gates = {
        life.uid: group
        for group in record.groups.values()
        if group.owner and group.let_in is not None
        for life in group.lives
    }
    found: list[Course] = []
    for chain in record.seats.values():
        before: Course | None = None
        for part in _parts(chain):
            before = _course(part, before, gates.get(part[0].uid), spans)
            before.failing, before.provision = _failing(part[-1]), _provision(before, record)
            found.append(before)
    return sorted(found, key=lambda course: course.lives[0].position)


def _parts(chain: Sequence[Life]) -> Iterable[list[Life]]:
    """The lives of one name, those after an eviction with the evicted one."""
    part: list[Life] = []
    for life in chain:
        if part and not _goes_on(part):
            yield part
            part = []
        part.append(life)
    if part:
        yield part


def _goes_on(part: list[Life]) -> bool:
    """Whether what comes next under the name follows from an eviction: the last life was evicted, or it came after one
    and was replaced before it had a place."""
    last = part[-1]
    return last.evicted or (len(part) > 1 and last.started is None)


def _course(part: list[Life], before: Course | None, gate: Group | None, spans: Spans) -> Course:
    first, last = part[0], part[-1]
    course = Course(first.uid, first.namespace, first.name, last.group, first.owner, first.body, part, first.kept)
    course.later = [one for life in part for one in life.later]
    _comes(course, first, before, gate)
    course.delay = last.ran - last.started if last.ran is not None and last.started is not None else spans.delay
    asked = last.asked_to_go
    course.grace = last.deleted - asked if last.deleted is not None and asked is not None else 0
    begun = last.ran if last.ran is not None else last.started
    if first.listed and last.ended is not None:
        course.until, course.phase = last.ended, last.phase
    elif last.ended is not None and begun is not None:
        course.run, course.phase = max(0, last.ended - begun), last.phase
    elif not last.evicted and (asked is not None or begun is None or first.listed):
        course.until = asked if asked is not None else last.deleted
    elif last.deleted is not None and begun is not None and not last.evicted:
        course.run = max(0, last.deleted - begun)
    if last.ended is not None and last.deleted is not None:
        course.linger = max(0, last.deleted - last.ended)
    return course


def _failing(life: Life) -> int | None:
    """How long its binds failed: until it had its place, else as far as is known."""
    if life.failing is None:
        return 0
    first, last = life.failing
    if life.started is None and life.fails:
        return None
    return max(0, (last if life.started is None else life.started) - first)


def _provision(course: Course, record: Record) -> int | None:
    """How long the slowest of its claims waited for the volume that is made for it."""
    if not record.claims:
        return 0
    longest = 0
    for name in _claims(course):
        claim = record.claims.get(f"{course.namespace}/{name}")
        if claim is not None and claim.bound is None:
            return None
        if claim is not None and claim.bound is not None:
            longest = max(longest, claim.bound - claim.chosen)
    return longest


def _claims(course: Course) -> Iterable[str]:
    """The names of the claims that a pod uses, those made for itself included."""
    for volume in (decode(course.body).get("spec") or {}).get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield str((volume["persistentVolumeClaim"] or {}).get("claimName") or "")
        elif "ephemeral" in volume:
            yield f"{course.name}-{volume.get('name')}"


def _comes(course: Course, first: Life, before: Course | None, gate: Group | None) -> None:
    if before is not None and (gone := before.lives[-1].deleted) is not None:
        course.after = before.uid, max(0, first.created - gone)
    elif gate is not None and gate.let_in is not None and first.created >= gate.let_in and not first.listed:
        course.gate = gate.uid, first.created - gate.let_in
    else:
        course.arrive = first.created


__all__ = ["Course", "Spans", "courses_of", "spans_of"]
