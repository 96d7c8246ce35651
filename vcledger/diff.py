"""What changed between two moments of a cache, one quantity at a time.

Owns which quantities a person is told of. Must not know the log. Called by `cli.diff`.
"""

from __future__ import annotations

from projections.cache import Cache
from vcledger import quantities as q
from vcledger.quantities import Change, Table

KINDS: dict[str, tuple[str, ...]] = {
    "nodes": (q.NODE,),
    "jobs": (q.JOB,),
    "tasks": (q.TASK,),
    "queues": (q.QUEUE,),
    "volumes": (q.VOLUME, q.CLAIM),
}
"""What the command's kinds are in the table."""


def diff(before: Cache, after: Cache, *, kind: str | None = None, namespace: str | None = None) -> list[Change]:
    """The changes from one cache to another; of one kind (nodes, jobs, tasks, queues, volumes) where it is given, and
    of one namespace, which leaves out what has none. A task that a node got or lost is told once, by the task."""
    return q.changes(_shown(before, kind, namespace), _shown(after, kind, namespace))


def _shown(cache: Cache, kind: str | None, namespace: str | None) -> Table:
    wanted = KINDS[kind] if kind is not None else tuple(name for name in q.KIND_ORDER if name != q.CACHE)
    return {
        key: (entity, {name: value for name, value in found.items() if not name.startswith("tasks[")})
        for key, (entity, found) in q.of_cache(cache).items()
        if entity.kind in wanted and (namespace is None or (entity.label or entity.key).startswith(f"{namespace}/"))
    }
