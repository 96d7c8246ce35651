"""Times as the sources write them, to microseconds, fast.

Owns the cached reading of RFC 3339 times. Must not know where a time stands. Called by the readers of
`vcledger.sources`. The grammar itself is `vcledger.at.parse_time`'s.
"""

from __future__ import annotations

import calendar

from vcledger import at
from vcledger.errors import BadTime

_CACHE_MAX = 50_000

_seconds: dict[str, int] = {}
"""`2026-11-29T13:57:36` to microseconds, UTC."""


def micros(text: str) -> int:
    """An RFC 3339 time in microseconds since 1970, UTC, any offset; what is finer than a microsecond is cut off.
    BadTime when it is none. The common forms, seconds or a fraction and a Z, take a dictionary look-up."""
    base = _seconds.get(text[:19])
    if base is not None:
        length = len(text)
        if length == 20 and text[19] == "Z":
            return base
        digits = text[20:-1]
        if 21 < length <= 30 and text[19] == "." and text[-1] == "Z" and digits.isdigit() and digits.isascii():
            return base + int(digits[:6] if length >= 27 else digits.ljust(6, "0"))
    value = at.parse_time(text)
    if text[-1:] == "Z" and text[10] == "T" and text[17:19] != "60":
        if len(_seconds) >= _CACHE_MAX:
            _seconds.clear()
        _seconds[text[:19]] = value - (value % 1_000_000)
    return value


_stamps: dict[bytes, int] = {}
"""The same of bytes."""

_SCALES = (0, 100_000, 10_000, 1_000, 100, 10, 1)


def micros_of(text: bytes) -> int:
    """The same of a time in ASCII; those with a fraction of up to nine digits and a Z take a dictionary look-up."""
    base = _stamps.get(text[:19])
    digits = text[20:-1]
    if base is not None and digits.isdigit() and text[19] == 0x2E and text[-1] == 0x5A and len(digits) <= 9:
        return base + (int(digits[:6]) if len(digits) >= 6 else int(digits) * _SCALES[len(digits)])
    value = micros(text.decode("ascii", "replace"))
    second = _seconds.get(text[:19].decode("ascii", "replace"))
    if second is not None:
        if len(_stamps) >= _CACHE_MAX:
            _stamps.clear()
        _stamps[text[:19]] = second
    return value


def micros_or_none(text: str | None) -> int | None:
    """The same, None for no time, for null, and for what is no time."""
    if not text:
        return None
    try:
        return micros(text)
    except BadTime:
        return None


def unix_micros(seconds: int) -> int | None:
    """Whole unix seconds to microseconds; None outside of the years 2000 to 2200, which is no time of a dump."""
    low, high = calendar.timegm((2000, 1, 1, 0, 0, 0)), calendar.timegm((2200, 1, 1, 0, 0, 0))
    return seconds * 1_000_000 if low <= seconds < high else None
