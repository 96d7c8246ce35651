"""The fast reading of times says what `vcledger.at.parse_time` says.

Owns that. Must not test what a time is for.
"""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vcledger import at
from vcledger.errors import BadTime
from vcledger.sources import times

seconds = st.datetimes().map(lambda moment: moment.strftime("%m-%dT%H:%M:%S")).map(lambda text: f"2026-{text}")
fractions = st.text("0123456789", min_size=0, max_size=12).map(lambda digits: f".{digits}" if digits else "")
offsets = st.sampled_from(["Z", "z", "+00:00", "-00:00", "+05:30", "-08:00", "+14:00", "-2359", "+0100"])


def either(text: str, read: object) -> int | str:
    """What a reader makes of a text: microseconds, or that it refuses."""
    try:
        return read(text)  # type: ignore[operator, no-any-return]
    except BadTime:
        return "refused"


def warm(second: str) -> None:
    """Puts the whole second into the cache."""
    with contextlib.suppress(BadTime):
        times.micros(f"{second}Z")


@pytest.mark.parametrize("cache", ["cold", "warm"])
@given(second=seconds, fraction=fractions, offset=offsets)
@example(second="2026-03-01T08:00:59", fraction=".5", offset="Z")
@example(second="2026-03-01T08:00:60", fraction=".000001", offset="Z")
@example(second="2026-03-01 08:00:00", fraction=".12345", offset="Z")
@example(second="2026-03-01t08:00:00", fraction=".123456789", offset="z")
def test_every_number_of_digits_and_every_offset(cache: str, second: str, fraction: str, offset: str) -> None:
    text = f"{second}{fraction}{offset}"
    times._seconds.clear()
    if cache == "warm":
        warm(second)
    assert either(text, times.micros) == either(text, at.parse_time)
    assert either(text, times.micros) == either(text, at.parse_time), "once more, with what the first reading kept"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-03-01T08:00:00.Z",
        "2026-03-01T08:00:00.\u00b2Z",
        "2026-03-01T08:00:00.\u0661Z",
        "2026-03-01T08:00:00.5",
        "2026-03-01T08:00:00,5Z",
        "2026-03-01T08:00:00.-5Z",
        "2026-03-01T08:00:00.5 Z",
        "2026-03-01T08:00:00Z ",
    ],
)
def test_odd_texts(text: str) -> None:
    warm("2026-03-01T08:00:00")
    assert either(text, times.micros) == either(text, at.parse_time)
