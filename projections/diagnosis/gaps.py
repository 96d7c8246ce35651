"""Gaps in the record: of which kinds nothing was recorded, from when to when, and how people are told.

Owns the shape of a gap, how those of one outage go together, and the wording. Must not know the log. Called by
`vcledger.gaps` and `projections.diagnosis.text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

KIND_ORDER = (
    "Pod",
    "Node",
    "PodGroup",
    "Queue",
    "VolcanoJob",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "Event",
)
"""Kinds in the order in which people are told of them; the others follow by name."""

TOGETHER_MICROS = 2_000_000
"""Gaps that end within this of each other are one outage."""

KINDS_SHOWN = 3


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is recorded of a kind between two moments: RFC 3339 texts as `from` and `to` (None: the record was not
    taken up again), and the same in microseconds. `inside`: the moment that is asked about lies between them. The
    counts are what the relist that ended the gap found: objects new, changed and missing; what came and went in
    between shows nowhere."""

    kind: str
    from_time: str | None = msgspec.field(name="from")
    to_time: str | None = msgspec.field(name="to")
    inside: bool
    added: int = 0
    modified: int = 0
    deleted: int = 0
    reason: str = ""
    position: int = 0
    from_micros: int | None = None
    to_micros: int | None = None


def kind_rank(kind: str) -> tuple[int, str]:
    """Where a kind stands when several are told of."""
    return (KIND_ORDER.index(kind) if kind in KIND_ORDER else len(KIND_ORDER), kind)


def outages(gaps: Iterable[Gap]) -> list[list[Gap]]:
    """The gaps of each outage, the kinds that matter most first; the outages by the time at which they ended."""
    found: list[list[Gap]] = []
    for gap in sorted(gaps, key=lambda one: (_end(one), kind_rank(one.kind))):
        outage = next((one for one in reversed(found) if _together(one[0], gap)), None)
        if outage is not None:
            outage.append(gap)
        else:
            found.append([gap])
    return [sorted(one, key=lambda gap: kind_rank(gap.kind)) for one in found]


def _end(gap: Gap) -> float:
    return gap.to_micros if gap.to_micros is not None else float("inf")


def _together(first: Gap, gap: Gap) -> bool:
    if first.inside != gap.inside:
        return False
    return _end(gap) == _end(first) or _end(gap) - _end(first) <= TOGETHER_MICROS


def tell(outage: Sequence[Gap], now: str | None = None) -> str:
    """One line for an outage: `Pod, Node, PodGroup and 2 more: not recorded 13:51:39 to 13:51:59; this moment lies
    inside it`. Times without their date where it is that of `now`. The time it began is the first kind's."""
    kinds = [gap.kind for gap in outage]
    named = kinds if len(kinds) <= KINDS_SHOWN + 1 else kinds[:KINDS_SHOWN]
    more = f" and {len(kinds) - len(named)} more" if len(named) < len(kinds) else ""
    first = outage[0]
    since = clock(first.from_time, now) if first.from_time else "the beginning"
    ended = f"{since} to {clock(first.to_time, now)}" if first.to_time else f"since {since}"
    return f"{', '.join(named)}{more}: not recorded {ended}; {_meaning(outage)}"


def _meaning(outage: Sequence[Gap]) -> str:
    """What the outage means for the answer: the moment lies in it, or what it left to be found."""
    if outage[0].inside:
        return "this moment lies inside it"
    parts = []
    for word, counts in (
        ("new", [gap.added for gap in outage]),
        ("changed", [gap.modified for gap in outage]),
        ("gone", [gap.deleted for gap in outage]),
    ):
        if sum(counts):
            parts.append(f"{sum(counts)} {word}")
    return f"then {', '.join(parts)}" if parts else "then nothing was found changed"


def clock(time: str, now: str | None) -> str:
    """A time to the second, without its date where that is the date of `now`."""
    date, _, rest = time.partition("T")
    whole = rest.partition(".")[0].removesuffix("Z")
    return whole if now is not None and now.startswith(f"{date}T") else f"{date}T{whole}Z"
