"""Payload bytes to stored bytes and back: zstd, with dictionaries trained on the ledger's own payloads.

Owns compression and the short form of payloads. Must not know tables or transactions, nor when to train. Called by the
appender, the reader, retention and `verify`.

A stored payload is one of three, told apart by its `dictionary_id`: None a plain zstd frame, STORED_AS_IS the bytes
themselves (they were too small to gain), n the short form in a frame made with dictionary n. Frames are without their
magic number. Dictionaries never change and never go.

The short form: what stands in the row or its stream anyway need not stand in the payload as well. The first place where
a payload has its stream's uid, its stream's name, or its own resource version as API objects write it, becomes a single
byte that JSON text cannot hold. A payload that holds one of these bytes has no short form and gets a plain frame.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import zstandard

from eventstore.types import LedgerCorrupt

STORED_AS_IS = 0
LEVEL = 3
DICTIONARY_SIZE = 32 * 1024
THREADED_MIN = 200
"""From so many payloads on, compression uses several threads. The bytes are the same."""
THREADS = min(2, os.cpu_count() or 1)
SAMPLES_MIN = 500
"""A dictionary that is made of fewer would take more room than it saves."""
SAMPLE_BYTES_MAX = 16 * 1024
"""Of a longer payload only the beginning is a sample."""
SEGMENT_MIN, SEGMENT_MAX = 256, 4096
WORTHWHILE = 0.95
"""A newly trained dictionary is taken when the samples take less than this share of what they took with the old one."""

UID, NAME, VERSION = b"\x01", b"\x02", b"\x03"
_VERSION_TEXT = b'"resourceVersion":"%d"'

Stored = tuple[int | None, bytes]
"""dictionary_id and stored bytes of a payload"""


class Known(NamedTuple):
    """What the row and its stream say, and the payload need not say again: the stream's uid and name in UTF-8."""

    uid: bytes
    name: bytes


def shorten(payload: bytes, known: Known, version: int | None) -> bytes | None:
    """The short form; None when the payload holds a byte that it gives a meaning to."""
    if UID in payload or NAME in payload or VERSION in payload:
        return None
    uid, name = known
    if uid:
        payload = payload.replace(uid, UID, 1)
    if name:
        payload = payload.replace(name, NAME, 1)
    if version is not None:
        payload = payload.replace(_VERSION_TEXT % version, VERSION, 1)
    return payload


def shorten_json(parts: Sequence[bytes], known: Known, version: int) -> bytes | None:
    """`shorten` of a payload that is given in parts, and was decoded as JSON: so it holds none of the bytes that the
    short form gives a meaning to. In the order in which API servers write them, name, uid and version are put away in
    one go, without copying the payload once for each."""
    first, (uid, name), text = parts[0], known, _VERSION_TEXT % version
    at_name, at_uid, at_version = first.find(name), first.find(uid), first.find(text)
    to_uid = at_name + len(name)
    to_version = at_uid + len(uid)
    if not (name and uid and 0 <= at_name < to_uid <= at_uid < to_version <= at_version):
        return shorten(b"".join(parts), known, version)
    return b"".join(
        (first[:at_name], NAME, first[to_uid:at_uid], UID, first[to_version:at_version], VERSION,
         first[at_version + len(text) :], *parts[1:])
    )  # fmt: skip


def lengthen(payload: bytes, known: Known, version: int | None) -> bytes:
    """The payload from its short form. Each step undoes one of `shorten`'s, the last one first: its byte stands for
    nothing but what that step put away, so this holds whatever the uid and the name are."""
    if version is not None:
        payload = payload.replace(VERSION, _VERSION_TEXT % version, 1)
    return payload.replace(NAME, known[1], 1).replace(UID, known[0], 1)


class Codec:
    """Compresses with the newest dictionary and reads with any. Reading may be done from several threads at once,
    writing from one (the appender's lock sees to that)."""

    def __init__(self) -> None:
        self._dictionaries: dict[int, bytes] = {}
        self._local = threading.local()
        self._plain = compressor(None)
        self._compressor = self._plain
        self.active: int | None = None

    def known(self, dictionary_id: int | None) -> bool:
        return not dictionary_id or dictionary_id in self._dictionaries

    def forget(self) -> None:
        """Drops what an append that was rolled back, or another process, may have made untrue."""
        self._dictionaries = {}
        self._local = threading.local()
        self.active = None
        self._compressor = self._plain

    def add(self, dictionary_id: int, payload: bytes) -> None:
        """Makes a dictionary known; the highest is the one to write with."""
        self._dictionaries[dictionary_id] = payload
        if self.active is None or dictionary_id > self.active:
            self.active = dictionary_id
            self._compressor = compressor(payload)

    def compress(
        self, shorts: Sequence[bytes | None], sizes: Sequence[int], payload: Callable[[int], bytes]
    ) -> list[Stored]:
        """What is stored of payloads, in order, of which the short forms and the sizes are given; `payload` gives the
        one at a place, where the short form will not do."""
        active = self.active
        if active is None or None in shorts:
            plain = self._plain.compress
            with_dictionary = self._compressor.compress
            frames: list[Stored] = []
            for place, short in enumerate(shorts):
                if active is None or short is None:
                    frames.append((None, plain(payload(place))))
                else:
                    frames.append((active, with_dictionary(short)))
        else:
            frames = [(active, frame) for frame in self._frames(cast("Sequence[bytes]", shorts))]
        for place, (frame, size) in enumerate(zip(frames, sizes, strict=True)):
            if len(frame[1]) >= size:
                frames[place] = (STORED_AS_IS, payload(place))
        return frames

    def _frames(self, shorts: Sequence[bytes]) -> list[bytes]:
        """Many at once, on several threads, without Python's lock."""
        if len(shorts) < THREADED_MIN or not all(shorts):
            return list(map(self._compressor.compress, shorts))
        made = self._compressor.multi_compress_to_buffer(list(shorts), threads=THREADS)
        return [made[i].tobytes() for i in range(len(made))]

    def decompress(self, dictionary_id: int | None, stored: bytes, known: Known, version: int | None) -> bytes:
        """The payload as it was handed in. LedgerCorrupt when the bytes do not decompress."""
        if dictionary_id == STORED_AS_IS:
            return stored
        payload = self.unpacked(dictionary_id, stored)
        return payload if dictionary_id is None else lengthen(payload, known, version)

    def unpacked(self, dictionary_id: int | None, stored: bytes) -> bytes:
        """What is in a frame, which with a dictionary is the short form. LedgerCorrupt when it does not decompress."""
        try:
            return self.function(dictionary_id)(stored)
        except zstandard.ZstdError as error:
            raise LedgerCorrupt(f"a payload does not decompress ({error}): run `vcledger verify`") from error

    def function(self, dictionary_id: int | None) -> Callable[[bytes], bytes]:
        """What unpacks frames of a dictionary, for loops over many; raises zstd's own errors."""
        if dictionary_id == STORED_AS_IS:
            return bytes
        return cast("Callable[[bytes], bytes]", self._decompressor_of(dictionary_id).decompress)

    def _decompressor_of(self, dictionary_id: int | None) -> zstandard.ZstdDecompressor:
        """This thread's decompressor for a dictionary (they may not be shared between threads)."""
        try:
            made: dict[int | None, zstandard.ZstdDecompressor] = self._local.made
        except AttributeError:
            made = self._local.made = {}
        found = made.get(dictionary_id)
        if found is None:
            found = made[dictionary_id] = self._decompressor(dictionary_id)
        return found

    def _decompressor(self, dictionary_id: int | None) -> zstandard.ZstdDecompressor:
        if dictionary_id is None:
            return zstandard.ZstdDecompressor(format=zstandard.FORMAT_ZSTD1_MAGICLESS)
        if dictionary_id not in self._dictionaries:
            raise LedgerCorrupt(f"dictionary {dictionary_id} is missing from the ledger: run `vcledger verify`")
        return zstandard.ZstdDecompressor(
            format=zstandard.FORMAT_ZSTD1_MAGICLESS,
            dict_data=zstandard.ZstdCompressionDict(self._dictionaries[dictionary_id]),
        )


def compressor(dictionary: bytes | None) -> zstandard.ZstdCompressor:
    """A compressor, its dictionary digested once. Frames carry no dictionary id: the row has it."""
    form = zstandard.ZstdCompressionParameters.from_level(
        LEVEL, format=zstandard.FORMAT_ZSTD1_MAGICLESS, write_dict_id=False
    )
    if dictionary is None:
        return zstandard.ZstdCompressor(compression_params=form)
    data = zstandard.ZstdCompressionDict(dictionary)
    data.precompute_compress(compression_params=form)
    return zstandard.ZstdCompressor(dict_data=data, compression_params=form)


def train(samples: Sequence[bytes]) -> bytes | None:
    """A dictionary made of the samples, or None when they are too few or too alike to make one.

    It is put together from segments of the samples about as long as a payload: zstd's own search for the best length
    takes four times as long and finds no better one."""
    cut: list[bytes | bytearray | memoryview] = [sample[:SAMPLE_BYTES_MAX] for sample in samples if sample]
    if len(cut) < SAMPLES_MIN:
        return None
    size = sum(map(len, cut))
    room = min(DICTIONARY_SIZE, size // 10)
    segment = min(max(SEGMENT_MIN, size // len(cut)), SEGMENT_MAX, room)
    try:
        return zstandard.train_dictionary(room, cut, k=segment, d=8, level=LEVEL).as_bytes()
    except zstandard.ZstdError:
        return None


def worthwhile(new: bytes, old: bytes | None, samples: Sequence[bytes]) -> bool:
    """Whether the new dictionary takes clearly less room than the old one (or none), on every fifth sample."""
    some = samples[::5]
    before, after = compressor(old), compressor(new)
    return sum(len(after.compress(s)) for s in some) < WORTHWHILE * sum(len(before.compress(s)) for s in some)


def dictionary_hash(payload: bytes) -> bytes:
    """By which batches vouch for their dictionary."""
    return hashlib.sha256(payload).digest()
