"""The fold: one recorded event after the other changes the cache.

Owns the dispatch by kind, the order of what happens around an observation, and the clock of the retry queues. Must not
know the log nor any handler's inside. Called by `projections.cache.projection` and by the vector runner.

The real cache's clean-up and resync queues run on timers beside its informers. Here time is data: a request that is due
by observed time is tried before the next event, so a replay gives the same state always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from projections.cache import jobs, nodes, pods, queues, stores
from projections.cache.actions import resync_from_store
from projections.cache.brief import brief_of
from projections.cache.retries import set_next_due, settle, try_again
from projections.cache.state import Cache, Touched
from projections.cache.tasks import pod_ref
from projections.cache.volumes import store_claim
from volcano.events.base import Recorded, Unreadable
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified
from volcano.objects.quantity import QuantityInvalid
from volcano.objects.resource import ResourceInsufficient

_CHANGES = frozenset({ObjectAdded, ObjectModified, ObjectDeleted})
_UNTRACKED = 4095
"""While nobody takes snapshots, what was touched is forgotten each so many positions."""

_INFERRED = 1
"""`Recorded.known` of an observation that a relist or an audit line implies."""


class Delivery(NamedTuple):
    """One observation to deliver. `watched`: a watch's MODIFIED line; `inferred`: a relist found it gone."""

    kind: str
    object: Any
    gone: bool = False
    watched: bool = False
    inferred: bool = False


def _key(obj: Any) -> str:
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else str(meta.name)


def observe(cache: Cache, delivery: Delivery, position: int) -> bool:
    """Deliver an observation through its informer. False: it never got to a handler, or changed nothing.

    Raises QuantityInvalid before anything is changed, and ResourceInsufficient where the real cache panics.
    """
    kind, obj = delivery.kind, delivery.object
    if kind == "Pod":
        if delivery.gone:
            return pods.forget_pod(cache, brief_of(obj), position, inferred=delivery.inferred)
        return pods.observe_pod(cache, brief_of(obj), position, watched=delivery.watched)
    handler = _HANDLERS.get(kind)
    if handler is None:
        return False
    key = _key(obj)
    cache.touched.objects[kind, key] = None
    if delivery.watched and not cache.policy.applies_stale and _stale(cache, kind, key, obj):
        return False
    if delivery.gone:
        cache.positions.pop((kind, key), None)
        return handler.forget(cache, obj)
    cache.positions[kind, key] = position
    return handler.observe(cache, obj, position)


def _stale(cache: Cache, kind: str, key: str, obj: Any) -> bool:
    """A version below the one held of the same object."""
    known = stores.held(cache, kind, key)
    if known is None or known.metadata.uid != obj.metadata.uid:
        return False
    old, new = known.metadata.resource_version, obj.metadata.resource_version
    return bool(old.isdecimal() and new.isdecimal() and int(new) < int(old))


class _Handler(NamedTuple):
    observe: Callable[[Cache, Any, int], bool]
    forget: Callable[[Cache, Any], bool]


def _always(function: Callable[[Cache, Any], Any]) -> Callable[[Cache, Any, int], bool]:
    def observe_one(cache: Cache, obj: Any, position: int) -> bool:
        return function(cache, obj) is not False

    return observe_one


def _observe_node(cache: Cache, obj: Any, position: int) -> bool:
    nodes.observe_node(cache, obj, position)
    return True


def _keep(
    name: str, after: Callable[[Cache, Any], None] | None = None, *, gone: Callable[[Cache, Any], None] | None = None
) -> _Handler:
    """A kind that is only stored under its key, with what follows when one is seen, and when one is seen gone."""

    def observe_one(cache: Cache, obj: Any, position: int) -> bool:
        getattr(cache, name)[_key(obj)] = obj
        if after is not None:
            after(cache, obj)
        return True

    def forget_one(cache: Cache, obj: Any) -> bool:
        known = getattr(cache, name).pop(_key(obj), None) is not None
        if known and gone is not None:
            gone(cache, obj)
        return known

    return _Handler(observe_one, forget_one)


def _observe_claim(cache: Cache, claim: Any, position: int) -> bool:
    store_claim(cache, _key(claim), claim)
    pods.recount_users(cache, _key(claim))
    return True


def _forget_claim(cache: Cache, claim: Any) -> bool:
    key = _key(claim)
    if key not in cache.claims:
        return False
    store_claim(cache, key, None)
    pods.recount_users(cache, key)
    return True


def _recount_volume(cache: Cache, volume: Any) -> None:
    for key in list(cache.claims_by_volume.get(volume.metadata.name, ())):
        pods.recount_users(cache, key)


def _recount_class(cache: Cache, storage_class: Any) -> None:
    for key in list(cache.claim_users):
        pods.recount_users(cache, key)


_HANDLERS: dict[str, _Handler] = {
    "Node": _Handler(_observe_node, nodes.forget_node),
    "CSINode": _Handler(_always(nodes.observe_csi_node), nodes.forget_csi_node),
    "PodGroup": _Handler(jobs.observe_pod_group, jobs.forget_pod_group),
    "Queue": _Handler(_always(queues.observe_queue), queues.forget_queue),
    "PriorityClass": _Handler(_always(queues.observe_priority_class), queues.forget_priority_class),
    "ResourceQuota": _Handler(_always(queues.observe_quota), queues.forget_quota),
    "PersistentVolumeClaim": _Handler(_observe_claim, _forget_claim),
    "PersistentVolume": _keep("volumes", _recount_volume, gone=_recount_volume),
    "StorageClass": _keep("storage_classes", _recount_class, gone=_recount_class),
    "CSIStorageCapacity": _keep("storage_capacities"),
    "Numatopology": _keep("numatopologies", nodes.observe_numatopology),
    "VolcanoJob": _Handler(lambda cache, obj, position: True, lambda cache, obj: True),
}

CACHE_KINDS: tuple[str, ...] = ("Pod", *_HANDLERS)
"""The kinds that the fold reads; a rebuild may leave out all others."""

_KINDS = frozenset(CACHE_KINDS)


def relist(cache: Cache, kind: str, objects: Sequence[Any], position: int) -> None:
    """client-go's Replace: each object listed is an update or an add, then each missing one is deleted as it was."""
    listed: dict[str, None] = {}
    for obj in objects:
        listed[_key(obj)] = None
        observe(cache, Delivery(kind, obj), position)
    for key in sorted(stores.keys(cache, kind)):
        if key in listed:
            continue
        if kind == "Pod":
            pods.forget_missing_pod(cache, key)
        else:
            observe(cache, Delivery(kind, stores.held(cache, kind, key), gone=True, inferred=True), position)


def deliver_to_handler(cache: Cache, change: str, delivery: Delivery, position: int, old: Any = None) -> None:
    """A pod's or PodGroup's event straight to Volcano's handler: no store, no filter. `old` is what a MODIFIED pod was
    before, when that is known."""
    obj = delivery.object
    if delivery.kind == "Pod":
        pod = brief_of(obj)
        ref = pod_ref(cache, pod, position)
        if change == "DELETED":
            pods.delete_pod(cache, ref)
        elif change == "MODIFIED":
            pods.update_pod(cache, ref if old is None else pod_ref(cache, brief_of(old), position), pod, ref)
        else:
            pods.add_pod(cache, pod, ref)
    elif delivery.kind == "PodGroup":
        job = cache.jobs.get(_key(obj))
        if change != "DELETED":
            jobs.set_pod_group(cache, _key(obj), obj)
        elif job is not None:
            jobs.unset_pod_group(cache, job)
    else:
        observe(cache, delivery._replace(gone=change == "DELETED"), position)


# --- time ---------------------------------------------------------------------------------------------------------


def tick(cache: Cache) -> None:
    """Try what is due at `cache.now`: clean-ups, then resyncs."""
    for key in [key for key, retry in cache.pending_cleanup.items() if retry.due <= cache.now]:
        if jobs.clean_up(cache, key):
            settle(cache, cache.pending_cleanup, key)
        else:
            try_again(cache, cache.pending_cleanup, key)
    for key in [key for key, retry in cache.pending_resync.items() if retry.due <= cache.now]:
        if resync_from_store(cache, key):
            settle(cache, cache.pending_resync, key)
        else:
            try_again(cache, cache.pending_resync, key)
    set_next_due(cache)
    cache.touched.rest = True


def evolve(cache: Cache, recorded: Recorded) -> Cache:
    """The cache after one more event; changed in place. Late events and those that are no observation change nothing.

    An object that the API server would have refused, or that cannot be read as one of its kind, leaves the state as it
    was and is noted in `refused`; where the real cache would have panicked, what is left behind stays and the position
    is noted in `panics`.
    """
    position, _, kind, _, _, _, observed_at, known, late, _, _, _, event = recorded
    change = type(event)
    if late or (change not in _CHANGES and not (change is Unreadable and kind in _KINDS)):
        return cache
    cache.now = observed_at
    if cache.next_due <= observed_at:
        tick(cache)
    if not position & _UNTRACKED and not cache.tracked:
        cache.touched = Touched()
    try:
        _deliver(cache, event, kind, position, inferred=known == _INFERRED)
    except QuantityInvalid as refusal:
        cache.refused[position] = str(refusal)
    except ResourceInsufficient:
        cache.panics.append(position)
        cache.touched.rest = True
    cache.position = position
    return cache


def _deliver(cache: Cache, event: Any, kind: str, position: int, *, inferred: bool) -> None:
    """One event of those that count. Raises QuantityInvalid, ResourceInsufficient."""
    change = type(event)
    if change is Unreadable:
        cache.refused[position] = event.reason
    elif kind != "Pod":
        gone, watched = change is ObjectDeleted, change is ObjectModified and not inferred
        observe(cache, Delivery(kind, event.object, gone, watched, inferred), position)
    elif change is ObjectDeleted:
        pods.forget_pod(cache, brief_of(event.object), position, inferred=inferred)
    else:
        watched = change is ObjectModified and not inferred
        pods.observe_pod(cache, brief_of(event.object), position, watched=watched)


__all__ = [
    "CACHE_KINDS",
    "Delivery",
    "deliver_to_handler",
    "evolve",
    "observe",
    "relist",
    "tick",
]
