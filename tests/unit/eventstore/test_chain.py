"""Canonical bytes: no two different events look alike."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.chain import NOTHING, canonical, digest, stream_key

words = st.lists(st.text(max_size=6), max_size=4)
numbers = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))


@given(words, words)
def test_lists_of_words_have_one_digest_each(one: list[str], other: list[str]) -> None:
    one = [word.encode("utf-8", "ignore").decode() for word in one]
    other = [word.encode("utf-8", "ignore").decode() for word in other]
    assert (digest(*one) == digest(*other)) == (one == other)


event = st.tuples(
    st.integers(1, 9), st.integers(1, 9), st.integers(0, 9), numbers, numbers, numbers,
    st.one_of(st.none(), st.integers(0, 9)), st.integers(0, 7), st.booleans(),
)  # fmt: skip


@given(event, event, st.binary(max_size=4), st.binary(max_size=4))
def test_events_have_one_form_each(one: tuple, other: tuple, a: bytes, b: bytes) -> None:
    digests = (digest("s"), digest("t"), NOTHING)
    forms = canonical(*one, digests, a) + a, canonical(*other, digests, b) + b
    assert (forms[0] == forms[1]) == ((one, a) == (other, b))


def test_numbers_beyond_64_bits_are_refused() -> None:
    with pytest.raises(struct.error):
        canonical(1, 1, 2**63, None, None, None, None, 0, False, (NOTHING,) * 3, b"")


def test_a_streams_key_is_a_signed_64_bit_number() -> None:
    assert all(-(2**63) <= stream_key(digest(str(i))) < 2**63 for i in range(200))
    assert any(stream_key(digest(str(i))) < 0 for i in range(20))
