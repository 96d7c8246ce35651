"""What a batch's hash covers, byte for byte.

Owns the canonical form of an event and of a batch. Must not know tables. Called by the appender when it writes, by
`verify` when it walks, and by retention for the rows that it keeps.

An event's canonical form is fixed-width numbers, then digests of the words that it points at (stream, type, about),
then its stored payload. Words are hashed by what they say, not by their row number, so that an edited stream name or
type breaks the chain as an edited payload does. A batch's hash is SHA-256 over the previous batch's hash, the batch's
own columns, its dictionary's hash and its events.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

GENESIS = bytes(32)
"""What stands for the previous hash in the first batch."""

PACK = struct.Struct(">qqqqqqiBI16s16s16s").pack
"""position, version, observed_at, resource_version, causation, cycle, dictionary_id (-1: none), flags, payload length,
digests of stream, type and about. Numbers that are missing are 0 and have their bit in the flags unset."""

HAS_RESOURCE_VERSION, HAS_CAUSATION, HAS_CYCLE, GONE = 8, 16, 32, 64
"""Bits of the canonical flags above `known` and LATE."""

HEADER = struct.Struct(">32sqqiqqqi32s").pack


def digest(*words: str | int) -> bytes:
    """16 bytes of SHA-256 over words, each with its length before it, so that no two lists of words look alike."""
    parts = [str(word).encode("utf-8") for word in words]
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()[:16]


NOTHING = bytes(16)
"""The digest of an empty `about`."""


def stream_key(stream_digest: bytes) -> int:
    """The number by which a stream is found: the first 8 bytes of its digest, signed as SQL's integers are."""
    return int.from_bytes(stream_digest[:8], "big", signed=True)


def canonical(
    position: int,
    version: int,
    observed_at: int,
    resource_version: int | None,
    causation: int | None,
    cycle: int | None,
    dictionary_id: int | None,
    flags: int,
    gone: bool,
    digests: tuple[bytes, bytes, bytes],
    stored: bytes,
) -> bytes:
    """An event's canonical form without the payload's bytes, which follow it. struct.error when a number does not fit
    into 64 bits."""
    bits = flags | (GONE if gone else 0)
    if resource_version is None:
        resource_version = 0
    else:
        bits |= HAS_RESOURCE_VERSION
    if causation is None:
        causation = 0
    else:
        bits |= HAS_CAUSATION
    if cycle is None:
        cycle = 0
    else:
        bits |= HAS_CYCLE
    return PACK(
        position,
        version,
        observed_at,
        resource_version,
        causation,
        cycle,
        -1 if dictionary_id is None else dictionary_id,
        bits,
        len(stored),
        *digests,
    )


def batch_hash(
    previous: bytes,
    batch_id: int,
    first_position: int,
    events: int,
    appended_at: int,
    payload_size: int,
    payload_stored: int,
    dictionary_id: int | None,
    dictionary_hash: bytes,
    body: Iterable[bytes],
) -> bytes:
    """A batch's hash. `body` is the canonical forms with their payloads, in order."""
    number = -1 if dictionary_id is None else dictionary_id
    head = HEADER(
        previous,
        batch_id,
        first_position,
        events,
        appended_at,
        payload_size,
        payload_stored,
        number,
        dictionary_hash,
    )
    return hashlib.sha256(head + b"".join(body)).digest()
