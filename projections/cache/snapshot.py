"""Snapshots of the cache: the whole of it, or what changed since the last, to bytes and back.

Owns the order of dumps and the check of a chain. Must not know the bytes' layout, see `snapshot_image`, nor what the
fold does. Called by `projections.cache.projection`. The binds that are queued at the moment are not in a snapshot: they
belong to the scheduler, not to what was observed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from projections.cache.snapshot_image import EXACT_DECODER, FLOAT_DECODER, FORMAT, Image, SnapshotInvalid
from projections.cache.snapshot_read import Reader, as_it_is, from_row
from projections.cache.snapshot_write import Writer
from projections.cache.state import Cache, Touched


def dump(cache: Cache) -> bytes:
    """The whole cache; what comes next counts from here."""
    return _dump(cache, whole=True)


def dump_changes(cache: Cache) -> bytes:
    """What changed since the last dump of either sort; what comes next counts from here."""
    return _dump(cache, whole=False)


def _dump(cache: Cache, *, whole: bool) -> bytes:
    image = Writer(cache, whole).image()
    cache.touched = Touched()
    return image


def load(cache: Cache, chain: list[bytes]) -> Cache:
    """Fill a new cache from a whole dump and the changes after it, oldest first. Raises SnapshotInvalid."""
    if not chain:
        raise SnapshotInvalid("no snapshot to load from")
    for number, data in enumerate(chain):
        try:
            _apply(cache, data, number)
        except SnapshotInvalid:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, msgspec.MsgspecError) as error:
            raise SnapshotInvalid(f"a snapshot of the cache is damaged: {error}") from error
    cache.touched = Touched()
    return cache


def _apply(cache: Cache, data: bytes, number: int) -> None:
    if cache.policy.float64:
        image = FLOAT_DECODER.decode(data)
        _check(image, cache, number)
        Reader(cache, image, as_it_is).apply()
    else:
        exact = EXACT_DECODER.decode(data)
        _check(exact, cache, number)
        Reader(cache, exact, from_row).apply()


def _check(image: Image[Any], cache: Cache, number: int) -> None:
    if image.format != FORMAT or image.model != cache.model or image.whole != (number == 0):
        raise SnapshotInvalid(f"not a snapshot of the cache under {cache.model} that fits at place {number}")


__all__ = ["SnapshotInvalid", "dump", "dump_changes", "load"]
