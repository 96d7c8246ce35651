"""Snapshots of the cache: the whole of it, or what changed since the last, to bytes and back.

Owns the order of dumps and the check of a chain. Must not know the bytes' layout, see `snapshot_image`, nor what the
fold does. Called by `projections.cache.projection`. The binds that are queued at the moment are not in a snapshot: they
belong to the scheduler, not to what was observed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from projections.cache.snapshot_image import EXACT_DECODER, FLOAT_DECODER, FORMAT, Image, SnapshotInvalid
from projections.cache.snapshot_read import Reader, as_it_is, from_row, last_given, pod_keys
from projections.cache.snapshot_write import Writer
from projections.cache.state import Cache, Touched
from volcano.objects.resource import Resource

R = TypeVar("R")


def dump(cache: Cache) -> bytes:
    """The whole cache; what comes next counts from here."""
    return _dump(cache, whole=True)


def dump_changes(cache: Cache) -> bytes:
    """What changed since the last dump of either sort, or since the cache was loaded; what comes next counts from here.
    Raises ValueError when there was none."""
    if not cache.tracked:
        raise ValueError("changes follow a whole snapshot, and there was none of this cache")
    return _dump(cache, whole=False)


def _dump(cache: Cache, *, whole: bool) -> bytes:
    image = Writer(cache, whole).image()
    _track(cache)
    return image


def load(cache: Cache, chain: list[bytes]) -> Cache:
    """Fill a new cache from a whole dump and the changes after it, oldest first. Raises SnapshotInvalid."""
    if not chain:
        raise SnapshotInvalid("no snapshot to load from")
    try:
        if cache.policy.float64:
            _apply(cache, [FLOAT_DECODER.decode(data) for data in chain], as_it_is)
        else:
            _apply(cache, [EXACT_DECODER.decode(data) for data in chain], from_row)
    except (LookupError, TypeError, ValueError, AttributeError, msgspec.MsgspecError) as error:
        if isinstance(error, SnapshotInvalid):
            raise
        raise SnapshotInvalid(f"a snapshot of the cache is damaged: {error}") from error
    _track(cache)
    return cache


def _track(cache: Cache) -> None:
    cache.touched, cache.tracked = Touched(), True


def _apply(cache: Cache, images: list[Image[R]], amount: Callable[[R], Resource]) -> None:
    """Apply each in order."""
    for number, image in enumerate(images):
        if image.format != FORMAT or image.model != cache.model or image.whole != (number == 0):
            raise SnapshotInvalid(f"not a snapshot of the cache under {cache.model} that fits at place {number}")
    keys = [pod_keys(image) for image in images]
    last = last_given(images, keys)
    for number, image in enumerate(images):
        Reader(cache, image, keys[number], amount, last, number).apply()


__all__ = ["SnapshotInvalid", "dump", "dump_changes", "load"]
