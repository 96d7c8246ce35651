"""Quantities: the grammar, rounding up, int64's limits, canonical text, refusals."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.objects.quantity import QuantityInvalid, canonical, exact_value, milli_value, parse, value


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        ("0", 0, 0),
        ("1", 1, 1000),
        ("100m", 1, 100),
        ("100u", 1, 1),
        ("1500000n", 1, 2),
        ("0.0001", 1, 1),
        (".5", 1, 500),
        ("3.", 3, 3000),
        ("+1", 1, 1000),
        ("1e3", 1000, 1_000_000),
        ("1E1", 10, 10_000),
        ("2.5e-1", 1, 250),
        ("1k", 1000, 1_000_000),
        ("1Ki", 1024, 1_024_000),
        ("0.1Ki", 103, 102_400),
        ("1.25Ki", 1280, 1_280_000),
        ("1.5Gi", 1610612736, 1610612736000),
        ("128974848000m", 128974848, 128974848000),
        ("999999999999n", 1000, 1_000_000),
        ("2Ti", 2199023255552, 2199023255552000),
        ("1Ei", 2**60, -(2**63)),
        ("-1.5", -2, -1500),
        (" 1Gi ", 2**30, 2**30 * 1000),
        ("0.9n", 1, 1),
        ("1e-400", 1, 1),
        (12, 12, 12_000),
        (1.5, 2, 1500),
        (1e3, 1000, 1_000_000),
    ],
)
def test_values_are_rounded_up(text: str, whole: int, milli: int) -> None:
    assert (value(text), milli_value(text)) == (whole, milli)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("1E", 10**18),
        ("20E", 0),
        ("1e400", 0),
        ("8Ei", 2**63 - 1),
        ("100Ei", 2**63 - 1),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", -(2**63)),
    ],
)
def test_what_int64_makes_of_too_much(text: str, whole: int) -> None:
    """Go drops the `ok` of its scaling and wraps or gives 0; only binary suffixes are capped on parsing."""
    assert value(text) == whole


def test_the_exact_reading_has_no_int64() -> None:
    assert exact_value("20E") == 20 * 10**18
    assert exact_value("1Ei", -3) == 2**60 * 1000
    assert exact_value("0.0001", -3) == 1
    assert exact_value("1e400") == (2**63 - 1) * 1000
    assert exact_value("-1e400") == -(2**63 - 1) * 1000
    assert exact_value("0e400") == 0


@pytest.mark.parametrize(
    "text",
    ["", " ", "abc", "1x", "1ki", "1KI", "e", "1e", "1 Gi", "--1", "1.2.3", "0x10", "1e99999999999", "NaN", "inf", "١"],
)
def test_what_the_api_server_refuses_is_refused(text: str) -> None:
    for reading in (value, milli_value, canonical, exact_value):
        with pytest.raises(QuantityInvalid, match="is no quantity"):
            reading(text)


def test_a_refusal_is_a_value_error_of_one_short_line() -> None:
    with pytest.raises(ValueError) as refusal:
        parse("x" * 10_000)
    assert len(str(refusal.value)) < 200 and "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "text_stored"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1.5Gi", "1536Mi"),
        ("1000k", "1M"),
        ("0.1Ki", "102400m"),
        ("512Ki", "512Ki"),
        ("1Ki", "1Ki"),
        ("1023", "1023"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("0Gi", "0"),
        ("00100", "100"),
        ("-0.5", "-500m"),
        (12, "12"),
    ],
)
def test_canonical_text(text: str, text_stored: str) -> None:
    assert canonical(text) == text_stored


SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "e2": 2, "E-3": -3}


@given(
    whole=st.integers(0, 10**6),
    fraction=st.integers(0, 9999),
    suffix=st.sampled_from([*SUFFIXES, "Ki", "Mi", "Gi"]),
)
def test_rounding_is_that_of_exact_fractions(whole: int, fraction: int, suffix: str) -> None:
    text = f"{whole}.{fraction:04d}{suffix}"
    number = Fraction(whole * 10_000 + fraction, 10_000)
    if suffix in SUFFIXES:
        number *= Fraction(10) ** SUFFIXES[suffix]
    else:
        number *= 2 ** (10 * ("Ki", "Mi", "Gi").index(suffix) + 10)
    number = Fraction(-(-number * 10**9 // 1), 10**9)
    assert value(text) == -(-number // 1)
    assert milli_value(text) == -(-number * 1000 // 1)
    assert exact_value(text, -3) == -(-number * 1000 // 1)
    assert value(canonical(text)) == value(text)


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        whole = value(text)
    except QuantityInvalid:
        return
    assert -(2**63) <= whole < 2**63
    assert value(canonical(text)) == whole or abs(exact_value(text)) > 2**63 - 1
