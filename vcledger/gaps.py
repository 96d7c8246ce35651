"""Where the record has gaps, what it never looked at, and where it ends: what an answer about a moment has to warn of.

Owns finding them in the log. Must not know commands. Called by `vcledger.why`, by the commands that show a state, and
by users' code:

    moment = gaps.moment(ledger, "2026-03-01T03:12:00Z", "prod")
    for line in gaps.warnings(ledger, moment, "prod"): ...

A gap stands in the log where the relist that closed it stands, after the moments that it covers, so the whole log is
looked through for gaps, not only what is before the moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from projections.diagnosis.gaps import Gap, outages, tell
from vcledger.at import AtTime, format_time, parse
from volcano.events.observation import GapRecorded, ListCompleted, WatchExpired, WatchFailed, WatchStarted
from volcano.objects.kinds import KINDS

if TYPE_CHECKING:
    from vcledger.ledger import Ledger
    from volcano.events.base import Recorded

LIFE_TYPES = ("GapRecorded", "ListCompleted", "WatchStarted", "WatchFailed", "WatchExpired")
"""Events about a kind as a whole that tell whether it is being recorded."""

NOT_FOUND = 404

KIND_NAMES = tuple(dict.fromkeys(kind.name for kind in KINDS))


class Moment(NamedTuple):
    """A moment that is asked about: the log's position, the time (microseconds) for which the answer stands, and the
    time that was named, None when a position, a marker or an offset was."""

    position: int
    time: int | None
    asked: int | None = None


def moment(ledger: Ledger, at: str | int | None, cluster: str) -> Moment:
    """What `--at` means, with its time: the one that was named, where the record reaches that far, else the newest
    observed time of the cluster up to the position. Raises BadTime as `Ledger.position`."""
    position = ledger.position(at, cluster)
    asked = parse(at) if isinstance(at, str) else None
    named = asked.micros if isinstance(asked, AtTime) else None
    return Moment(position, named if named is not None else ledger.observed_at(position, cluster), named)


def gaps_between(ledger: Ledger, cluster: str, start: int | None = None, end: int | None = None) -> list[Gap]:
    """The gaps that reach into the time from `start` to `end` (microseconds; None: no bound), by the time at which
    they ended. One whose versions prove that nothing was missed is none. `inside` is False for all of them."""
    return [
        gap
        for gap in _gaps(ledger, cluster)
        if (start is None or gap.to_micros is None or gap.to_micros > start)
        and (end is None or gap.from_micros is None or gap.from_micros < end)
    ]


def gaps_at(ledger: Ledger, cluster: str, time: int | None) -> list[Gap]:
    """The gaps inside which a moment (microseconds) lies, each with `inside` True."""
    if time is None:
        return []
    return [inside(gap) for gap in _gaps(ledger, cluster) if covers(gap, time)]


def covers(gap: Gap, time: int) -> bool:
    """Whether a moment lies inside the gap: after the last that was recorded, before the record was taken up again."""
    began = gap.from_micros is None or gap.from_micros < time
    return began and (gap.to_micros is None or time < gap.to_micros)


def inside(gap: Gap) -> Gap:
    """The gap, marked as one that the moment lies in."""
    from msgspec.structs import replace

    return replace(gap, inside=True)


def _gaps(ledger: Ledger, cluster: str) -> list[Gap]:
    """Every gap: those that a relist closed, and those of watches that ended and have not been taken up again."""
    found: list[Gap] = []
    ended: dict[tuple[str, str], Recorded] = {}
    for recorded in _life(ledger, cluster):
        event, scope = recorded.event, (recorded.kind, recorded.namespace)
        if isinstance(event, GapRecorded):
            if not _proven_empty(event):
                found.append(_closed(recorded, event))
        elif isinstance(event, WatchFailed | WatchExpired) and not _not_there(event):
            ended.setdefault(scope, recorded)
        else:
            ended.pop(scope, None)
    found += [_open(recorded) for recorded in ended.values()]
    return sorted(found, key=lambda gap: (gap.to_micros is None, gap.to_micros or 0, gap.position))


def _not_there(event: object) -> bool:
    """Whether the API server said that it has no such kind: then there is nothing of it to record."""
    return isinstance(event, WatchFailed) and event.code == NOT_FOUND


def _life(ledger: Ledger, cluster: str, to: int | None = None) -> Iterator[Recorded]:
    """What was said of kinds as a whole, or of a kind in one namespace where only that is recorded."""
    return ledger.recorded(cluster=cluster, kinds=KIND_NAMES, name="", types=LIFE_TYPES, to=to)


def _proven_empty(event: GapRecorded) -> bool:
    """Whether nothing can have been missed: the relist was of the version that had been reached before."""
    return bool(event.from_resource_version) and event.from_resource_version == event.to_resource_version


def _closed(recorded: Recorded, event: GapRecorded) -> Gap:
    until = event.to_time if event.to_time is not None else recorded.observed_at
    return Gap(
        kind=recorded.kind,
        from_time=_text(event.from_time),
        to_time=_text(until),
        inside=False,
        added=event.added,
        modified=event.modified,
        deleted=event.deleted,
        reason=event.reason,
        position=recorded.position,
        from_micros=event.from_time,
        to_micros=until,
    )


def _open(recorded: Recorded) -> Gap:
    event = recorded.event
    return Gap(
        kind=recorded.kind,
        from_time=_text(recorded.observed_at),
        to_time=None,
        inside=False,
        reason=event.message if isinstance(event, WatchFailed | WatchExpired) else "",
        position=recorded.position,
        from_micros=recorded.observed_at,
    )


def _text(micros: int | None) -> str | None:
    return format_time(micros) if micros is not None else None


# --- what was never looked at, and where the record ends ----------------------------------------------------------


def unwatched(
    ledger: Ledger, cluster: str, kinds: Iterable[str], position: int | None = None, seen: Collection[str] = ()
) -> list[str]:
    """Those of some kinds of which the record has no list and no watch up to the position, and no object now, nor the
    API server's word that it has no such kind: that there was none of them is then not known. `seen`: kinds of which
    the caller has objects at the position."""
    wanted = [kind for kind in kinds if kind not in seen]
    if not wanted:
        return []
    watched = {
        recorded.kind
        for recorded in _life(ledger, cluster, position)
        if isinstance(recorded.event, ListCompleted | WatchStarted) or _not_there(recorded.event)
    }
    return [kind for kind in wanted if kind not in watched and not ledger.store.has_live(cluster, kind)]


def record_notes(ledger: Ledger, at: Moment, cluster: str) -> list[str]:
    """That the time asked about lies after the end of the record, or the position before its beginning."""
    end = ledger.store.high_water(cluster)
    if at.asked is not None and end is not None and at.asked > end:
        return [f"the record of {cluster} ends at {format_time(end)}, before {format_time(at.asked)}: this is its end"]
    if at.time is None:
        return [f"nothing of {cluster} is recorded up to position {at.position}"]
    return []


def warnings(ledger: Ledger, at: Moment, cluster: str) -> list[str]:
    """Everything to warn of beside a state at a moment, one line each: the gaps inside which it lies, and that it lies
    outside the record. Empty when the record covers it."""
    now = format_time(at.time) if at.time is not None else None
    return record_notes(ledger, at, cluster) + [
        f"gap in the record: {tell(outage, now)}" for outage in outages(gaps_at(ledger, cluster, at.time))
    ]


def warnings_between(ledger: Ledger, start: Moment, end: Moment, cluster: str) -> list[str]:
    """The same for what lies between two moments: what changed in a gap and was undone in it is not seen."""
    now = format_time(end.time) if end.time is not None else None
    gaps = gaps_between(ledger, cluster, start.time, end.time)
    notes = dict.fromkeys(record_notes(ledger, start, cluster) + record_notes(ledger, end, cluster))
    return [*notes, *(f"gap in the record: {tell(outage, now)}" for outage in outages(gaps))]


__all__ = [
    "Gap",
    "Moment",
    "covers",
    "gaps_at",
    "gaps_between",
    "inside",
    "moment",
    "record_notes",
    "unwatched",
    "warnings",
    "warnings_between",
]
