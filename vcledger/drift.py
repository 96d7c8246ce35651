"""Where a mirror of Volcano's cache has drifted from the exact one, and since which event.

Owns the comparison of two models over a ledger. Must not know what a policy of a model does. Called by `cli.drift`.

A difference's beginning is the first event after which it held without a break until the moment that is asked about.
To find it, steps back of doubling length look for a moment at which none of today's differences held; from there both
models are folded forward side by side, and after each event only what it touched is compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from projections.cache import CACHE_KINDS, Cache, CacheConfig
from projections.cache.state import Touched
from vcledger import codec
from vcledger import quantities as q
from vcledger.folding import decoders_of
from vcledger.ledger import DEFAULT_CONFIG, Ledger, cache_projection
from vcledger.quantities import Change, Entity, Quantities

EXACT = "exact"
FIRST_STEP = 1_000
"""How far the first step back goes, in positions."""

SPREADING_KINDS = frozenset(
    (
        "CSINode",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "PriorityClass",
        "Queue",
        "ResourceQuota",
        "StorageClass",
    )
)
"""Kinds whose events may change what other objects count; after one of these everything watched is compared."""

Key: TypeAlias = tuple[str, str]


class Drift(NamedTuple):
    """A quantity in which the mirror (`before` of the change) and the exact cache (`after`) differ, and the position of
    the event with which that began. 0: it was so where the record begins."""

    change: Change
    began: int


def drift(
    ledger: Ledger, position: int, *, cluster: str, model: str, config: CacheConfig = DEFAULT_CONFIG
) -> list[Drift]:
    """Every quantity in which `model` differs from the exact cache after `position`."""
    looks = _looks(ledger, position, cluster, model, config)
    found = _differing(looks[-1], model, config)
    if not found:
        return []
    wanted = _names(found)
    for begin in reversed(looks):
        held = wanted & _names(_differing(begin, model, config))
        if not held:
            break
    watch = Watch(found, held, begin.position)
    _fold_both(ledger, watch, begin, position, cluster, model, config)
    return [Drift(change, watch.began.get((change.entity[:2], change.quantity)) or 0) for change in found]


class Look(NamedTuple):
    """The two caches at a position as snapshots, from which they can be looked at and folded on. (A ledger has
    snapshots of the mirror as a rule, but not of the exact cache.)"""

    position: int
    mirror: bytes
    exact: bytes


def _names(differing: Iterable[Change]) -> set[tuple[Key, str]]:
    return {(change.entity[:2], change.quantity) for change in differing}


def _looks(ledger: Ledger, position: int, cluster: str, model: str, config: CacheConfig) -> list[Look]:
    """The caches at rising positions, each in one pass; the last one is `position`: each step back from it is twice as
    long as the one before, and the first place is where the record begins."""
    oldest = ledger.store.first() - 1
    places, step, at = [position], FIRST_STEP, position - FIRST_STEP
    while at > oldest:
        places.append(at)
        step *= 2
        at -= step
    if position > oldest:
        places.append(oldest)
    mirrors, exacts = (_dumps(ledger, places[::-1], cluster, name, config) for name in (model, EXACT))
    return [Look(*look) for look in zip(places[::-1], mirrors, exacts, strict=True)]


def _dumps(ledger: Ledger, places: list[int], cluster: str, model: str, config: CacheConfig) -> list[bytes]:
    projection = cache_projection(model, config)
    return [projection.dump(cache) for _, cache in ledger.caches(places, cluster=cluster, model=model, config=config)]


def _differing(look: Look, model: str, config: CacheConfig) -> list[Change]:
    """In what the two caches differ. The work queues are left out: they say what will be tried, not what holds."""
    mirror, exact = (
        cache_projection(model, config).load([look.mirror]),
        cache_projection(EXACT, config).load([look.exact]),
    )
    tables = (q.of_cache(cache, settled=True) for cache in (mirror, exact))
    mine, theirs = ({key: value for key, value in table.items() if key[0] != q.CACHE} for table in tables)
    return q.changes(mine, theirs)


class Watch:
    """The differences that are looked at, and since when each holds without a break (None: it does not just now)."""

    def __init__(self, found: Iterable[Change], held: set[tuple[Key, str]], start: int) -> None:
        self.entities: dict[Key, Entity] = {change.entity[:2]: change.entity for change in found}
        self.quantities: dict[Key, list[str]] = {}
        for change in found:
            self.quantities.setdefault(change.entity[:2], []).append(change.quantity)
        self.began: dict[tuple[Key, str], int | None] = {
            (key, name): start if (key, name) in held else None
            for key, names in self.quantities.items()
            for name in names
        }
        self.uids: dict[str, list[Key]] = {}
        for key, entity in self.entities.items():
            self.uids.setdefault(entity.label, []).append(key)

    def look(self, key: Key, mirror: Cache, exact: Cache, position: int) -> None:
        """Compares one entity after the event at a position."""
        entity = self.entities[key]
        differing = q.differing(_quantities(mirror, entity), _quantities(exact, entity))
        for name in self.quantities[key]:
            if name not in differing:
                self.began[key, name] = None
            elif self.began[key, name] is None:
                self.began[key, name] = position

    def touched(self, caches: Iterable[Cache], kind: str, name: str) -> list[Key]:
        """The watched entities that an event about `kind` `name` ('ns/name' or a name) may have changed. Clears what
        the caches had noted."""
        keys: dict[Key, None] = dict.fromkeys(self.uids.get(name, ()))
        everything = kind in SPREADING_KINDS
        for cache in caches:
            noted = cache.touched
            everything = everything or noted.rest
            nodes = (*noted.nodes, *(node for node, _ in noted.node_tasks))
            jobs = (*noted.jobs, *(job for job, _ in noted.job_tasks))
            keys.update(dict.fromkeys((q.NODE, node) for node in nodes))
            keys.update(dict.fromkeys((q.JOB, job) for job in jobs))
            keys.update(dict.fromkeys((q.TASK, uid) for _, uid in noted.job_tasks))
            cache.touched = Touched()
        return list(self.entities) if everything else [key for key in keys if key in self.entities]


def _quantities(cache: Cache, entity: Entity) -> Quantities | None:
    """An entity's quantities in a cache, None when it has none."""
    if entity.kind == q.NODE:
        node = cache.nodes.get(entity.key)
        return None if node is None else q.of_node(node)
    if entity.kind == q.JOB:
        job = cache.jobs.get(entity.key)
        return None if job is None else q.of_job(cache, job)
    if entity.kind == q.TASK:
        return q.of_task(cache, entity.key, entity.label)
    found = q.of_cache(cache).get(entity[:2])
    return None if found is None else found[1]


def _fold_both(
    ledger: Ledger, watch: Watch, begin: Look, end: int, cluster: str, model: str, config: CacheConfig
) -> None:
    """Folds the mirror and the exact cache on from `begin` to `end` and lets `watch` look after each event."""
    folds = [cache_projection(name, config) for name in (model, EXACT)]
    start = begin.position
    mirror, exact = folds[0].load([begin.mirror]), folds[1].load([begin.exact])
    for cache in (mirror, exact):
        cache.touched = Touched()
    for recorded in codec.fold_stream(ledger.store, cluster, start, end, decoders=decoders_of(folds[0])):
        mirror, exact = folds[0].evolve(mirror, recorded), folds[1].evolve(exact, recorded)
        if recorded.kind not in CACHE_KINDS:
            continue
        name = f"{recorded.namespace}/{recorded.name}" if recorded.namespace else recorded.name
        for key in watch.touched((mirror, exact), recorded.kind, name):
            watch.look(key, mirror, exact, recorded.position)
