"""What a person means by `--at`: a position, a time, an offset from the end of the record, or a marker.

Owns the grammar, and the reading and writing of RFC 3339 times. Must not know the log: `vcledger.ledger` turns what is
parsed here into a position. Called by `vcledger.ledger`, `vcledger.sources` and `cli`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from vcledger.errors import BadTime

MICROS = 1_000_000
"""Microseconds in a second."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_POSITION_MAX = 2**63 - 1

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:([Zz])|([+-])(\d\d):?(\d\d))?", re.ASCII
)
_LOOKS_LIKE_TIME = re.compile(r"\d{4}-\d", re.ASCII)
_OFFSET_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])", re.ASCII)
_UNITS: dict[str, Fraction] = {
    "d": Fraction(86_400 * MICROS),
    "h": Fraction(3_600 * MICROS),
    "m": Fraction(60 * MICROS),
    "s": Fraction(MICROS),
    "ms": Fraction(1_000),
}
_SUFFIXES = (".zst", ".gz", ".json", ".txt")


class AtPosition(NamedTuple):
    """After the event at `position`; 0: before everything."""

    position: int


class AtTime(NamedTuple):
    """After everything observed at or before `micros`, microseconds since 1970, UTC."""

    micros: int


class AtOffset(NamedTuple):
    """`micros` before the newest observed time."""

    micros: int


class AtMarker(NamedTuple):
    """At the marker that has this name, label or file."""

    name: str


At: TypeAlias = AtPosition | AtTime | AtOffset | AtMarker

HELP = "give a position (1234), a time (2026-03-01T03:12:00Z), an offset from the end (-2h, -1h30m) or marker:NAME"


def parse(text: str) -> At:
    """What `--at TEXT` means. BadTime when it means nothing."""
    word = text.strip()
    if word.startswith("marker:"):
        name = word.removeprefix("marker:").strip()
        if not name:
            raise BadTime("marker: needs a name: marker:NAME, or the file that it speaks of")
        return AtMarker(name)
    if word.isascii() and word.isdigit():
        if len(word) > 19 or int(word) > _POSITION_MAX:
            raise BadTime(f"position {word[:24]} is larger than any log")
        return AtPosition(int(word))
    if word.startswith("-"):
        return AtOffset(parse_duration(word[1:]))
    if _LOOKS_LIKE_TIME.match(word):
        return AtTime(parse_time(word))
    raise BadTime(f"{_shown(text)} is no moment: {HELP}")


def parse_time(text: str) -> int:
    """An RFC 3339 time in microseconds since 1970, UTC; digits beyond the microsecond are cut off. A leap second is the
    second that follows it. BadTime when it is no such time, or has no zone."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise BadTime(f"{_shown(text)} is no RFC 3339 time such as 2026-03-01T03:12:00Z or 2026-03-01T04:12:00.5+01:00")
    year, month, day, hour, minute, second, fraction, zulu, sign, zone_hours, zone_minutes = found.groups()
    if zulu is None and sign is None:
        raise BadTime(f"{_shown(text)} has no zone: add Z for UTC, or an offset such as +02:00")
    leap = second == "60"
    offset_minutes = 0
    if sign is not None:
        if int(zone_hours) > 23 or int(zone_minutes) > 59:
            raise BadTime(f"{_shown(text)} has no such zone: an offset is at most 23:59")
        offset_minutes = (int(zone_hours) * 60 + int(zone_minutes)) * (1 if sign == "+" else -1)
    try:
        moment = datetime(
            int(year), int(month), int(day), int(hour), int(minute), 59 if leap else int(second), tzinfo=UTC
        )
    except ValueError as error:
        raise BadTime(f"{_shown(text)} is no time: {error}") from error
    since = moment - _EPOCH
    seconds = since.days * 86_400 + since.seconds + (1 if leap else 0) - offset_minutes * 60
    return seconds * MICROS + (0 if leap else int(((fraction or "") + "000000")[:6]))


def parse_duration(text: str) -> int:
    """`2h`, `90s`, `1d`, `1h30m`, `1.5h`, `250ms` in microseconds, rounded down. Units d, h, m, s, ms, largest first,
    each at most once. BadTime when it is none."""
    total = Fraction(0)
    at = 0
    last = -1
    order = list(_UNITS)
    while at < len(text):
        part = _OFFSET_PART.match(text, at)
        if part is None or order.index(part[2]) <= last or len(part[1]) > 20:
            raise BadTime(f"{_shown('-' + text)} is no offset: give -2h, -90s, -1d or -1h30m (d, h, m, s, ms)")
        total += Fraction(part[1]) * _UNITS[part[2]]
        last = order.index(part[2])
        at = part.end()
    if at == 0:
        raise BadTime("an offset needs a number and a unit: -2h, -90s, -1d or -1h30m")
    return int(total)


def format_time(micros: int) -> str:
    """Microseconds since 1970 as RFC 3339 in UTC, with as many digits of the second as it takes: none, three or six."""
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return f"{micros}us"
    precision = "seconds" if micros % MICROS == 0 else "milliseconds" if micros % 1_000 == 0 else "microseconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def bare_name(name: str) -> str:
    """A marker's or a file's name without folder and without .json, .txt, .zst or .gz at its end."""
    name = name.rpartition("/")[2]
    while True:
        shorter = next((name.removesuffix(end) for end in _SUFFIXES if name.endswith(end) and name != end), None)
        if shorter is None:
            return name
        name = shorter


def _shown(text: str) -> str:
    """The text as an error shows it: quoted, on one line, cut off when long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")
