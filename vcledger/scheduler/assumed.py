"""Assume caches: of each PersistentVolume and claim what the API server said, and beside it what is assumed.

Owns the two pointers. Must not know why something is assumed. Called by the fold; held by `vcledger.scheduler.state`.

Source: kube-scheduler's assume_cache.go (Assume, Restore, Get, GetAPIObj). Different from there, a newer object from
the API server does not end an assumption: it ends when it is confirmed or reverted, so each has exactly one end.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from volcano.objects.core import PersistentVolume, PersistentVolumeClaim

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)


class Assumption(msgspec.Struct, Generic[T]):
    """What is assumed of one object for a pod (`uid`) on `node`. `object` is what it will be, `body` its JSON as it
    will be sent, made from the object at `based_on`; `written` the version that the API server answered, '' before."""

    uid: str
    node: str
    object: T
    body: bytes
    based_on: str
    written: str = ""


class AssumeCache(Generic[T]):
    """`api` is the informer's store (the cache fold's own dict), `raw` the JSON of each object in it."""

    def __init__(self, api: dict[str, T]) -> None:
        self.api: dict[str, T] = api
        self.raw: dict[str, bytes] = {}
        self.assumed: dict[str, Assumption[T]] = {}
        self._objects: dict[str, T] = {}
        self.latest: Mapping[str, T] = ChainMap(self._objects, api)

    def assume(self, key: str, assumption: Assumption[T]) -> None:
        """Set the second pointer. ValueError when another pod's assumption stands there."""
        held: Assumption[T] | None = self.assumed.get(key)
        if held is not None and held.uid != assumption.uid:
            raise ValueError(f"{key} is assumed for another pod")
        self.assumed[key] = assumption
        self._objects[key] = assumption.object

    def end(self, key: str, uid: str) -> bool:
        """Confirmed or reverted: the API's object is the only one again. False: nothing was assumed for that pod."""
        held: Assumption[T] | None = self.assumed.get(key)
        if held is None or held.uid != uid:
            return False
        del self.assumed[key], self._objects[key]
        return True

    def rows(self) -> list[list[Any]]:
        """For the digest."""
        return [
            [key, one.uid, one.node, one.body.decode(), one.based_on, one.written]
            for key, one in sorted(self.assumed.items(), key=lambda item: item[0])
        ]


__all__ = ["AssumeCache", "Assumption"]
