"""Where each kind's objects lie in the cache, by kind.

Owns this table. Must not know handlers nor snapshots' bytes. Called by `projections.cache.fold` and `.snapshot`.
Pods are not in it: the cache keeps a PodRef of each. Of VolcanoJobs it keeps positions only.
"""

from __future__ import annotations

from typing import Any

from projections.cache.state import Cache, JobInfo, Store
from projections.cache.volumes import store_claim

ATTRIBUTES: dict[str, str] = {
    "Node": "node_objects",
    "CSINode": "csi_nodes",
    "Queue": "queues",
    "PriorityClass": "priority_classes",
    "ResourceQuota": "quotas",
    "PersistentVolumeClaim": "claims",
    "PersistentVolume": "volumes",
    "StorageClass": "storage_classes",
    "CSIStorageCapacity": "storage_capacities",
    "Numatopology": "numatopologies",
}
"""Our kind name to the attribute of Cache; PodGroups lie in their jobs."""

UNREAD = frozenset(("CSINode", "Node", "Numatopology", "PodGroup"))
"""Kinds of which there are many and nothing is indexed, so that they need not be read before they are looked at."""


def held(cache: Cache, kind: str, key: str) -> Any:
    """The object that the cache holds, None when it holds none."""
    if kind == "PodGroup":
        job = cache.jobs.get(key)
        return job.pod_group if job is not None else None
    attribute = ATTRIBUTES.get(kind)
    return getattr(cache, attribute).get(key) if attribute is not None else None


def kept(cache: Cache, kind: str, key: str) -> Any:
    """The same, Unread where nobody has looked at it since it was loaded."""
    if kind == "PodGroup":
        job = cache.jobs.get(key)
        return job.held if job is not None else None
    store = getattr(cache, ATTRIBUTES[kind]) if kind in ATTRIBUTES else None
    return store.raw(key) if isinstance(store, Store) else held(cache, kind, key)


def keys(cache: Cache, kind: str) -> list[str]:
    """The keys of all objects held of a kind, pods included."""
    if kind == "Pod":
        return list(cache.pods)
    if kind == "PodGroup":
        return [key for key, job in cache.jobs.items() if job.held is not None]
    attribute = ATTRIBUTES.get(kind)
    return list(getattr(cache, attribute)) if attribute is not None else []


def any_held(cache: Cache, kind: str) -> bool:
    """Whether the cache holds an object of a kind, or a pod."""
    if kind == "PodGroup":
        return any(job.held is not None for job in cache.jobs.values())
    attribute = "pods" if kind == "Pod" else ATTRIBUTES.get(kind)
    return attribute is not None and bool(getattr(cache, attribute))


def put(cache: Cache, kind: str, key: str, obj: Any) -> None:
    """Set or, with None, take away an object without any consequence; for the loader of snapshots. Of the kinds in
    UNREAD it may be Unread."""
    if kind == "PodGroup":
        job = cache.jobs.get(key)
        if job is None and obj is not None:
            job = cache.jobs[key] = JobInfo(key)
        if job is not None:
            job.held = obj
        return
    if kind == "PersistentVolumeClaim":
        store_claim(cache, key, obj)
        return
    attribute = ATTRIBUTES.get(kind)
    if attribute is None:
        return
    store: dict[str, Any] = getattr(cache, attribute)
    if obj is None:
        store.pop(key, None)
    else:
        store[key] = obj


__all__ = ["ATTRIBUTES", "UNREAD", "any_held", "held", "kept", "keys", "put"]
