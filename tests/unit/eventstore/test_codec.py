"""Compression: what goes in comes out, whatever it is, with any dictionary."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import codec
from eventstore.codec import Codec, Known, Stored, lengthen, shorten, shorten_json
from eventstore.testing import payload_like
from eventstore.types import LedgerCorrupt

SAMPLES = [payload_like(i) for i in range(1_500)]
DICTIONARY = codec.train(SAMPLES)


KNOWN = Known(b"uid-1", b"pod-1")
WORDS = st.one_of(st.binary(max_size=4), st.sampled_from([b"uid-1", b"pod-1", b"\x01", b"\x02", b"\x01\x02", b"pod"]))
PIECES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"uid-1", b"pod-1", b"pod", b'"resourceVersion":"17"', b"\x01", b"\x02", b"\x03", b'"name":"']),
)
PAYLOADS = st.lists(PIECES, max_size=12).map(b"".join)


def _stored(writer: Codec, payloads: list[bytes], known: Known = KNOWN, version: int | None = 17) -> list[Stored]:
    shorts = [shorten(payload, known, version) for payload in payloads]
    return writer.compress(shorts, list(map(len, payloads)), payloads.__getitem__)


@given(st.lists(PAYLOADS, max_size=5), st.booleans(), WORDS, WORDS, st.sampled_from([None, 0, 17]))
def test_what_goes_in_comes_out(
    payloads: list[bytes], with_dictionary: bool, uid: bytes, name: bytes, version: int | None
) -> None:
    known = Known(uid, name)
    writer, reader = Codec(), Codec()
    if with_dictionary:
        assert DICTIONARY is not None
        writer.add(1, DICTIONARY)
        reader.add(1, DICTIONARY)
    stored = _stored(writer, payloads, known, version)
    assert [reader.decompress(number, data, known, version) for number, data in stored] == payloads
    assert all(len(data) <= len(payload) for payload, (_, data) in zip(payloads, stored, strict=True))


@given(PAYLOADS, WORDS, WORDS, st.sampled_from([None, 0, 17]))
def test_the_short_form_can_be_undone(payload: bytes, uid: bytes, name: bytes, version: int | None) -> None:
    short = shorten(payload, Known(uid, name), version)
    if short is None:
        assert any(byte in payload for byte in (b"\x01", b"\x02", b"\x03"))
    else:
        assert lengthen(short, Known(uid, name), version) == payload


def test_what_the_row_says_is_not_stored_again() -> None:
    payload = b'{"metadata":{"name":"pod-1","uid":"uid-1","resourceVersion":"17"}}'
    assert shorten(payload, KNOWN, 17) == b'{"metadata":{"name":"\x02","uid":"\x01",\x03}}'
    assert shorten(payload, KNOWN, 18) == b'{"metadata":{"name":"\x02","uid":"\x01","resourceVersion":"17"}}'
    assert shorten(payload, Known(b"", b""), None) == payload


def test_several_threads_give_the_same_bytes() -> None:
    assert DICTIONARY is not None
    one = Codec()
    one.add(1, DICTIONARY)
    at_once = _stored(one, SAMPLES)
    assert len(SAMPLES) > codec.THREADED_MIN
    assert at_once == [_stored(one, [sample])[0] for sample in SAMPLES]
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
            reader.decompress(number, b"nothing of the kind", KNOWN, None)


@given(
    before=st.text(max_size=9),
    name=st.text(st.characters(codec="utf-8", exclude_characters='\\"', min_codepoint=32), min_size=1, max_size=9),
    uid=st.text("uid-1pod", min_size=1, max_size=9),
    version=st.integers(0, 99),
    cuts=st.lists(st.integers(0, 120), max_size=3),
    swapped=st.booleans(),
)
def test_the_short_form_of_parts(
    before: str, name: str, uid: str, version: int, cuts: list[int], swapped: bool
) -> None:
    names, uids = {"name": name}, {"uid": uid}
    fields = {**(uids if swapped else names), **(names if swapped else uids), "resourceVersion": str(version)}
    payload = json.dumps({"a": before, "metadata": fields}, separators=(",", ":"), ensure_ascii=False).encode()
    places = [0, *sorted(cuts), len(payload)]
    parts = [payload[start:end] for start, end in itertools.pairwise(places)]
    known = Known(uid.encode(), name.encode())
    assert shorten_json(parts, known, version) == shorten(payload, known, version)
