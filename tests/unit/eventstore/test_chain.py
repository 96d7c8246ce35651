"""Canonical bytes: no two different events look alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.chain import NOTHING, canonical, digest, stream_key

words = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6), max_size=4)
numbers = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))


@given(words, words)
def test_lists_of_words_have_one_digest_each(one: list[str], other: list[str]) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)


event = st.tuples(
    st.integers(1, 9), st.just(1), st.integers(0, 9), numbers, numbers, numbers, st.none(), st.integers(1, 9),
    st.just(1), st.integers(0, 7), st.booleans(), st.one_of(st.none(), st.integers(0, 9)), st.binary(max_size=4),
)  # fmt: skip
events = st.lists(event, min_size=2, max_size=2)


@given(events, events)
def test_events_have_one_form_each(some: list[tuple[object, ...]], others: list[tuple[object, ...]]) -> None:
    digests = (digest("s"), digest("t"), NOTHING) * 2
    forms = b"".join(canonical(some, digests)), b"".join(canonical(others, digests))
    assert (forms[0] == forms[1]) == (some == others)


def test_words_are_part_of_the_form() -> None:
    row = (1, 1, 2, None, None, None, None, 1, 1, 0, False, None, b"")
    assert canonical([row], [digest("s"), digest("t"), NOTHING]) != canonical(
        [row], [digest("s"), digest("u"), NOTHING]
    )


def test_the_form_does_not_change_with_the_machine() -> None:
    row = (1, 7, 2, 300, None, None, 7, 1, 7, 5, True, -1, b"xy")
    form = b"".join(canonical([row], [b"s" * 16, b"t" * 16, b"a" * 16]))
    eight = [number.to_bytes(8, "little", signed=True) for number in (1, 2, 300, 1, 5, 1, -1, 2)]
    assert form == (
        b"\0" + eight[0] + b"\0" + eight[1] + b"\0" + eight[2] + b"\1\1" + b"\0" + eight[3] + b"\0" + eight[4]
        + b"\0" + eight[5] + b"\0" + eight[6] + b"\0" + eight[7] + b"s" * 16 + b"t" * 16 + b"a" * 16 + b"xy"
    )  # fmt: skip


@pytest.mark.parametrize("bad", [2**63, -(2**63) - 1, "3", 1.5])
def test_what_is_no_number_of_64_bits_is_refused(bad: object) -> None:
    row = (1, 1, 2, bad, None, None, None, 1, 1, 0, False, None, b"")
    with pytest.raises((OverflowError, TypeError)):
        canonical([row], [NOTHING] * 3)


def test_a_streams_key_is_a_signed_64_bit_number() -> None:
    assert all(-(2**63) <= stream_key(digest(str(i))) < 2**63 for i in range(200))
    assert any(stream_key(digest(str(i))) < 0 for i in range(20))
