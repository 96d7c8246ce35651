"""Queues, priority classes and resource quotas.

Owns these stores and the default priority. Must not know tasks nor nodes. Called by `projections.cache.fold`.

Source: Volcano's handlers of these kinds (vectors 061, 065 to 068).
"""

from __future__ import annotations

from projections.cache.jobs import priority_of
from projections.cache.state import Cache
from volcano.objects.core import ResourceQuota
from volcano.objects.scheduling import PriorityClass, Queue


def observe_queue(cache: Cache, queue: Queue) -> bool:
    """A Queue seen; one of the resourceVersion that is held is skipped (fact 16). False: skipped."""
    name = queue.metadata.name
    known = cache.queues.get(name)
    if known is not None and known.metadata.resource_version == queue.metadata.resource_version:
        return False
    cache.queues[name] = queue
    cache.touched.objects["Queue", name] = None
    return True


def forget_queue(cache: Cache, queue: Queue) -> bool:
    """A Queue seen gone. False: it was not known."""
    if cache.queues.pop(queue.metadata.name, None) is None:
        return False
    cache.touched.objects["Queue", queue.metadata.name] = None
    return True


def observe_priority_class(cache: Cache, priority_class: PriorityClass) -> None:
    """A PriorityClass seen: the real cache deletes the old and adds the new (067)."""
    name = priority_class.metadata.name
    known = cache.priority_classes.get(name)
    if known is not None and cache.policy.resets_default_priority and known.global_default:
        _set_default(cache, None)
    cache.priority_classes[name] = priority_class
    if cache.policy.resets_default_priority:
        if priority_class.global_default:
            _set_default(cache, priority_class)
    else:
        _choose_default(cache)
    _changed(cache, name)


def forget_priority_class(cache: Cache, priority_class: PriorityClass) -> bool:
    """A PriorityClass seen gone: any globalDefault one takes the default with it (067). False: it was not known."""
    name = priority_class.metadata.name
    if cache.priority_classes.pop(name, None) is None:
        return False
    if not cache.policy.resets_default_priority:
        _choose_default(cache)
    elif priority_class.global_default:
        _set_default(cache, None)
    _changed(cache, name)
    return True


def _set_default(cache: Cache, priority_class: PriorityClass | None) -> None:
    cache.default_priority_class = priority_class.metadata.name if priority_class is not None else ""
    cache.default_priority = priority_class.value if priority_class is not None else 0
    cache.touched.rest = True


def _choose_default(cache: Cache) -> None:
    """Kubernetes' own choice among several defaults: the lowest value."""
    defaults = [each for each in cache.priority_classes.values() if each.global_default]
    _set_default(cache, min(defaults, key=lambda each: (each.value, each.metadata.name), default=None))


def _changed(cache: Cache, name: str) -> None:
    cache.touched.objects["PriorityClass", name] = None
    if cache.policy.priority_by_snapshot:
        return
    for job in cache.jobs.values():
        priority = priority_of(cache, job)
        if priority != job.priority:
            job.priority = priority
            cache.touched.jobs[job.uid] = None


def observe_quota(cache: Cache, quota: ResourceQuota) -> None:
    """A ResourceQuota seen."""
    namespace = quota.metadata.namespace
    key = f"{namespace}/{quota.metadata.name}"
    cache.quotas[key] = quota
    cache.touched.objects["ResourceQuota", key] = None
    if namespace not in cache.namespaces:
        cache.namespaces[namespace] = None
        cache.touched.rest = True


def forget_quota(cache: Cache, quota: ResourceQuota) -> bool:
    """A ResourceQuota seen gone; its namespace's collection stays, empty (068). False: it was not known."""
    key = f"{quota.metadata.namespace}/{quota.metadata.name}"
    if cache.quotas.pop(key, None) is None:
        return False
    cache.touched.objects["ResourceQuota", key] = None
    return True


__all__ = [
    "forget_priority_class",
    "forget_queue",
    "forget_quota",
    "observe_priority_class",
    "observe_queue",
    "observe_quota",
]
