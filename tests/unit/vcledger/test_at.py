"""The grammar of --at, and RFC 3339 times both ways."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcledger.at import (
    MICROS,
    AtMarker,
    AtOffset,
    AtPosition,
    AtTime,
    bare_name,
    format_time,
    parse,
    parse_duration,
    parse_time,
)
from vcledger.errors import BadTime, VcledgerError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
moments = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30))  # noqa: DTZ001 (zones follow)
zones = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def _micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


@given(moments, zones)
def test_any_offset_names_the_same_instant(moment: datetime, zone: timezone) -> None:
    local = moment.replace(tzinfo=zone)
    assert parse_time(local.isoformat()) == _micros(local)
    assert parse(local.isoformat()) == AtTime(_micros(local))


@given(moments)
def test_what_is_written_is_read_back(moment: datetime) -> None:
    micros = _micros(moment.replace(tzinfo=UTC))
    assert parse_time(format_time(micros)) == micros


@given(moments, st.text("0123456789", min_size=1, max_size=30))
def test_digits_beyond_the_microsecond_are_cut_off(moment: datetime, digits: str) -> None:
    whole = moment.replace(microsecond=0)
    expected = _micros(whole.replace(tzinfo=UTC)) + int(digits[:6].ljust(6, "0"))
    assert parse_time(f"{whole.isoformat()}.{digits}Z") == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2026-03-01T03:12:00Z", "2026-03-01T04:12:00+01:00"),
        ("2026-03-01t03:12:00z", "2026-03-01 03:12:00Z"),
        ("2026-03-01T03:12:00-00:00", "2026-02-28T21:42:00-05:30"),
        ("2026-03-01T03:12:00.5Z", "2026-03-01T03:12:00,500000000Z"),
        ("2026-12-31T23:59:60Z", "2027-01-01T00:00:00Z"),
        ("2026-12-31T23:59:60.9Z", "2027-01-01T00:00:00Z"),
        ("2026-03-01T03:12:00+0130", "2026-03-01T01:42:00Z"),
    ],
)
def test_ways_to_write_one_instant(text: str, same: str) -> None:
    assert parse_time(text) == parse_time(same)


def test_known_instants() -> None:
    assert parse_time("1970-01-01T00:00:00Z") == 0
    assert parse_time("1969-12-31T23:59:59.999999Z") == -1
    assert parse_time("2026-11-29T13:41:16.000052Z") == 1795959676000052
    assert format_time(1795959676000052) == "2026-11-29T13:41:16.000052Z"
    assert format_time(1795959676500000) == "2026-11-29T13:41:16.500Z"
    assert format_time(1795959676000000) == "2026-11-29T13:41:16Z"
    assert format_time(10**18) == f"{10**18}us"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2026-03-01T03:12:00", "no zone"),
        ("2026-03-01", "no RFC 3339"),
        ("2026-02-30T00:00:00Z", "day"),
        ("2026-03-01T24:00:00Z", "hour"),
        ("2026-03-01T03:61:00Z", "minute"),
        ("2026-03-01T03:12:61Z", "second"),
        ("0000-03-01T03:12:00Z", "year"),
        ("2026-03-01T03:12:00+24:00", "zone"),
        ("2026-03-01T03:12:00+01:60", "zone"),
        ("2026-03-01T03:12:00.Z", "no RFC 3339"),
        ("２０２６-03-01T03:12:00Z", "no moment"),
        ("2026-03-01T03:12:00Z\n2026", "no RFC 3339"),
    ],
)
def test_times_that_are_none(text: str, says: str) -> None:
    with pytest.raises(BadTime, match=says):
        parse(text)


@given(st.integers(0, 2**63 - 1))
def test_positions(position: int) -> None:
    assert parse(str(position)) == AtPosition(position)


@pytest.mark.parametrize("text", ["9" * 19 + "9", str(2**63), "9" * 5000])
def test_positions_larger_than_any_log(text: str) -> None:
    with pytest.raises(BadTime, match="larger than any log"):
        parse(text)


@given(st.integers(0, 400), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_offsets(days: int, hours: int, minutes: int, seconds: int) -> None:
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    assert parse(f"-{days}d{hours}h{minutes}m{seconds}s") == AtOffset(total * MICROS)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("-2h", 7200), ("-90s", 90), ("-1d", 86_400), ("-1h30m", 5_400), ("-1.5h", 5_400), ("-250ms", 0.25), ("-0s", 0)],
)
def test_offsets_in_words(text: str, seconds: float) -> None:
    assert parse(text) == AtOffset(int(seconds * MICROS))


@pytest.mark.parametrize("text", ["-", "-2", "-h", "-2x", "-2h2h", "-2m1h", "-1h 30m", "--2h", "-2h-", "-1e3s", "-٣h"])
def test_offsets_that_are_none(text: str) -> None:
    with pytest.raises(BadTime, match="offset"):
        parse(text)


def test_long_numbers_do_not_hang() -> None:
    with pytest.raises(BadTime):
        parse_duration("9" * 100_000 + "s")


@pytest.mark.parametrize("name", ["a", "volcano-cache-dump-1-all-running.json", "odd name: with things", "marker:x"])
def test_markers(name: str) -> None:
    assert parse(f"marker:{name}") == AtMarker(name)


@pytest.mark.parametrize("text", ["", " ", "now", "+2h", "marker", "marker:", "marker: ", "1.5", "0x10", "12a", "\x00"])
def test_words_that_mean_nothing(text: str) -> None:
    with pytest.raises(BadTime):
        parse(text)


@given(st.text(max_size=80))
def test_any_text_is_a_moment_or_a_typed_error_of_one_line(text: str) -> None:
    try:
        parse(text)
    except VcledgerError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 300


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("dump-1.json", "dump-1"),
        ("folder/dump-1.json.zst", "dump-1"),
        ("dump-1.txt.gz", "dump-1"),
        ("dump-1", "dump-1"),
        (".json", ".json"),
        ("v1.11", "v1.11"),
    ],
)
def test_names_without_their_ends(name: str, bare: str) -> None:
    assert bare_name(name) == bare
