"""Compression: what goes in comes out, whatever it is, with any dictionary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import codec
from eventstore.append import balanced
from eventstore.codec import Codec, RatioWatch
from eventstore.testing import payload_like
from eventstore.types import LedgerCorrupt

SAMPLES = [payload_like(i) for i in range(1_500)]
DICTIONARY = codec.train(SAMPLES)


@given(st.lists(st.binary(max_size=3_000), max_size=5), st.booleans())
def test_what_goes_in_comes_out(payloads: list[bytes], with_dictionary: bool) -> None:
    writer, reader = Codec(), Codec()
    if with_dictionary:
        assert DICTIONARY is not None
        writer.add(1, DICTIONARY)
        reader.add(1, DICTIONARY)
    stored = writer.compress(payloads)
    assert [reader.decompress(number, data) for number, data in stored] == payloads
    assert all(len(data) <= len(payload) for payload, (_, data) in zip(payloads, stored, strict=True))


def test_several_threads_give_the_same_bytes() -> None:
    assert DICTIONARY is not None
    one = Codec()
    one.add(1, DICTIONARY)
    at_once = one.compress(SAMPLES)
    assert len(SAMPLES) > codec.THREADED_MIN
    assert at_once == [one.compress([sample])[0] for sample in SAMPLES]
    assert sum(len(data) for _, data in at_once) * 8 < sum(map(len, SAMPLES))


def test_training_is_deterministic_and_refuses_too_few() -> None:
    assert codec.train(SAMPLES) == DICTIONARY
    assert codec.train(SAMPLES[:100]) is None
    assert codec.train([b""] * 5_000) is None


def test_bytes_that_do_not_decompress_are_told() -> None:
    assert DICTIONARY is not None
    reader = Codec()
    for number in (None, 7):
        with pytest.raises(LedgerCorrupt):
            reader.decompress(number, b"nothing of the kind")


def test_the_watch_asks_for_training_when_the_ratio_falls_off() -> None:
    watch = RatioWatch()
    assert not any(watch.fallen_off(1_000, 1_000_000, 50_000) for _ in range(10))
    assert [watch.fallen_off(1_000, 1_000_000, 200_000) for _ in range(2)] == [False, True]
    watch.refused()
    assert [watch.fallen_off(1_000, 1_000_000, 200_000) for _ in range(4)] == [False, False, False, True]
    watch.trained()
    assert not any(watch.fallen_off(1_000, 1_000_000, 200_000) for _ in range(10))


def test_samples_are_balanced_over_kinds() -> None:
    pairs = [("Pod", b"p%d" % i) for i in range(5_000)] + [("Node", b"n%d" % i) for i in range(50)]
    samples = balanced(pairs, 1_000)
    assert len(samples) <= 1_000
    assert sum(sample.startswith(b"n") for sample in samples) == 50
    assert sum(sample.startswith(b"p") for sample in samples) > 700
    assert samples[-1] != b"p949"
