"""The cache as a registered projection: name, version, fold, snapshots and digest.

Owns what of the state the digest covers. Must not know the log. Called by `projections.registry`, and by way of it by
`vcledger`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from projections.cache import stores
from projections.cache.brief import decode_brief
from projections.cache.fold import CACHE_KINDS, evolve
from projections.cache.json import state_json
from projections.cache.models import DEFAULT_MODEL, Model, model_named
from projections.cache.snapshot import dump, dump_changes, load
from projections.cache.snapshot_image import resource_row
from projections.cache.state import Cache, CacheConfig
from volcano.objects import kinds

VERSION = 2
"""To be raised with every change of the fold or of the snapshots' bytes."""


def projection_name(model: str, config: CacheConfig) -> str:
    """`cache/<model>`; a fold under other options than the default ones has its own name, so that snapshots of one
    are never read by another."""
    if config == CacheConfig():
        return f"cache/{model}"
    digest = hashlib.sha256(msgspec.json.encode(config)).hexdigest()
    return f"cache/{model}/{digest[:12]}"


class CacheProjection:
    """`projections.base.Projection` of Cache, for one model and one set of scheduler options."""

    version = VERSION
    decoders: ClassVar[Mapping[str, Callable[[bytes], Any]]] = {
        kind: kinds.DECODERS[kind].decode for kind in CACHE_KINDS
    } | {"Pod": decode_brief}

    def __init__(self, model: str | Model = DEFAULT_MODEL, config: CacheConfig | None = None) -> None:
        self.model = model if isinstance(model, Model) else model_named(model)
        self.config = config or CacheConfig()
        self.name = projection_name(self.model.name, self.config)

    def initial(self) -> Cache:
        return Cache(self.model, self.config)

    evolve = staticmethod(evolve)

    def dump(self, state: Cache) -> bytes:
        return dump(state)

    def dump_changes(self, state: Cache) -> bytes:
        return dump_changes(state)

    def load(self, chain: Sequence[bytes]) -> Cache:
        return load(self.initial(), list(chain))

    def digest(self, state: Cache) -> str:
        return digest(state)


def digest(cache: Cache) -> str:
    """SHA-256 in hex over everything that decides what the cache shows and what it will do next: its books, its stores,
    its positions and its queues. Where the fold stands, and what it refused, are not in it."""
    hasher = hashlib.sha256()
    for part in _parts(cache):
        hasher.update(msgspec.json.encode(part, order="sorted"))
        hasher.update(b"\n")
    return hasher.hexdigest()


def _parts(cache: Cache) -> list[Any]:
    pods = [
        [msgspec.structs.astuple(msgspec.structs.replace(ref, request=None)), resource_row(ref.request)]
        for _, ref in sorted(cache.pods.items())
    ]
    kinds = (*stores.ATTRIBUTES, "PodGroup")
    held = {kind: [[key, stores.held(cache, kind, key)] for key in sorted(stores.keys(cache, kind))] for kind in kinds}
    images = [[name, state.size, sorted(state.nodes)] for name, state in sorted(cache.images.items())]
    placed = [[name, node.position, node.csi, node.node] for name, node in sorted(cache.nodes.items())]
    jobs = [[key, job.position] for key, job in sorted(cache.jobs.items())]
    positions = [[kind, key, position] for (kind, key), position in sorted(cache.positions.items())]
    queues = [cache.pending_cleanup, cache.pending_resync, cache.pending_node_sync, cache.panics]
    return [cache.model, state_json(cache), pods, held, images, placed, jobs, positions, queues]


__all__ = ["VERSION", "CacheProjection", "digest", "projection_name"]
