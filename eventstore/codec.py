"""Payload bytes to stored bytes and back: zstd, with dictionaries trained on the ledger's own payloads.

Owns compression and when to train. Must not know tables or transactions. Called by the appender, the reader, retention
and `verify`.

A stored payload is one of three, told apart by its `dictionary_id`: None a plain zstd frame, STORED_AS_IS the bytes
themselves (they were too small to gain), n a frame made with dictionary n. Dictionaries never change and never go.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import cast

import zstandard

from eventstore.types import LedgerCorrupt

STORED_AS_IS = 0
LEVEL = 3
DICTIONARY_SIZE = 64 * 1024
THREADED_MIN = 200
"""From so many payloads on, compression uses several threads. The bytes are the same."""
THREADS = min(2, os.cpu_count() or 1)
SAMPLES_MIN = 1_000
"""A ledger that holds fewer payloads than this has no dictionary: it would take more room than it saves."""
SAMPLES_MAX = 2_000
SAMPLE_BYTES_MAX = 64 * 1024
"""Of a longer payload only the beginning is a sample."""
FALLEN_OFF = 1.4
"""Train again when payloads take this many times the room that they took just after the training."""
RATIO_WINDOW = 2_000
"""Payloads over which the ratio is measured, and the fewest between two trainings."""
WORTHWHILE = 0.9
"""A newly trained dictionary is taken when the samples take less than this share of what they took with the old one."""


class Codec:
    """Compresses with the newest dictionary and reads with any. Reading may be done from several threads at once,
    writing from one (the appender's lock sees to that)."""

    def __init__(self) -> None:
        self._dictionaries: dict[int, bytes] = {}
        self._local = threading.local()
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self.active: int | None = None

    def known(self, dictionary_id: int | None) -> bool:
        return not dictionary_id or dictionary_id in self._dictionaries

    def forget(self) -> None:
        """Drops what an append that was rolled back, or another process, may have made untrue."""
        self._dictionaries = {}
        self._local = threading.local()
        self.active = None
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)

    def add(self, dictionary_id: int, payload: bytes) -> None:
        """Makes a dictionary known; the highest is the one to write with."""
        self._dictionaries[dictionary_id] = payload
        if self.active is None or dictionary_id > self.active:
            self.active = dictionary_id
            self._compressor = compressor(payload)

    def compress(self, payloads: Sequence[bytes]) -> list[tuple[int | None, bytes]]:
        """(dictionary_id, stored bytes) of each payload, in order."""
        active = self.active
        smalls: Iterable[bytes]
        if len(payloads) < THREADED_MIN or not all(payloads):
            smalls = map(self._compressor.compress, payloads)
        else:
            made = self._compressor.multi_compress_to_buffer(list(payloads), threads=THREADS)
            smalls = (made[i].tobytes() for i in range(len(made)))
        stored: list[tuple[int | None, bytes]] = []
        for payload, small in zip(payloads, smalls, strict=True):
            stored.append((active, small) if len(small) < len(payload) else (STORED_AS_IS, payload))
        return stored

    def decompress(self, dictionary_id: int | None, stored: bytes) -> bytes:
        """The payload as it was handed in. LedgerCorrupt when the bytes do not decompress."""
        if dictionary_id == STORED_AS_IS:
            return stored
        try:
            return self.decompressor(dictionary_id).decompress(stored)
        except zstandard.ZstdError as error:
            raise LedgerCorrupt(f"a payload does not decompress ({error}): run `vcledger verify`") from error

    def function(self, dictionary_id: int | None) -> Callable[[bytes], bytes]:
        """What decompresses payloads of a dictionary, for loops over many; raises zstd's own errors."""
        if dictionary_id == STORED_AS_IS:
            return bytes
        return cast("Callable[[bytes], bytes]", self.decompressor(dictionary_id).decompress)

    def decompressor(self, dictionary_id: int | None) -> zstandard.ZstdDecompressor:
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
            return zstandard.ZstdDecompressor()
        if dictionary_id not in self._dictionaries:
            raise LedgerCorrupt(f"dictionary {dictionary_id} is missing from the ledger: run `vcledger verify`")
        return zstandard.ZstdDecompressor(dict_data=zstandard.ZstdCompressionDict(self._dictionaries[dictionary_id]))


class RatioWatch:
    """Notices when the newest dictionary no longer fits what is appended: compares the ratio over the last
    RATIO_WINDOW payloads with the ratio over the first ones after the training."""

    def __init__(self) -> None:
        self._baseline: float | None = None
        self._count = self._size = self._stored = 0
        self._patience = 1

    def trained(self) -> None:
        """Starts anew after a training whose dictionary was taken."""
        self._baseline, self._patience = None, 1
        self._count = self._size = self._stored = 0

    def refused(self) -> None:
        """After a training that brought nothing: waits twice as long before the next."""
        self._patience = min(self._patience * 2, 64)

    def fallen_off(self, count: int, size: int, stored: int) -> bool:
        """Counts a batch in; True when it is time to train again."""
        self._count, self._size, self._stored = self._count + count, self._size + size, self._stored + stored
        if self._count < RATIO_WINDOW * self._patience or not self._size:
            return False
        ratio = self._stored / self._size
        self._count = self._size = self._stored = 0
        if self._baseline is None:
            self._baseline = ratio
            return False
        return ratio > self._baseline * FALLEN_OFF


def compressor(dictionary: bytes) -> zstandard.ZstdCompressor:
    """A compressor with the dictionary digested once. Frames carry no dictionary id: the row has it."""
    data = zstandard.ZstdCompressionDict(dictionary)
    data.precompute_compress(level=LEVEL)
    return zstandard.ZstdCompressor(level=LEVEL, dict_data=data, write_dict_id=False)


def train(samples: Sequence[bytes]) -> bytes | None:
    """A dictionary made of the samples, or None when they are too few or too alike to make one."""
    cut: list[bytes | bytearray | memoryview] = [sample[:SAMPLE_BYTES_MAX] for sample in samples if sample]
    if len(cut) < SAMPLES_MIN:
        return None
    room = min(DICTIONARY_SIZE, sum(map(len, cut)) // 10)
    try:
        return zstandard.train_dictionary(room, cut, level=LEVEL).as_bytes()
    except zstandard.ZstdError:
        return None


def worthwhile(new: bytes, old: bytes | None, samples: Sequence[bytes]) -> bool:
    """Whether the new dictionary takes clearly less room than the old one (or none), on every fifth sample."""
    some = samples[::5]
    before = compressor(old) if old is not None else zstandard.ZstdCompressor(level=LEVEL)
    after = compressor(new)
    return sum(len(after.compress(s)) for s in some) < WORTHWHILE * sum(len(before.compress(s)) for s in some)


def dictionary_hash(payload: bytes) -> bytes:
    """By which batches vouch for their dictionary."""
    return hashlib.sha256(payload).digest()
