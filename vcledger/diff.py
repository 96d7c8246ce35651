"""What changed between two moments of a cache, one quantity at a time.

Owns which quantities a person is told of. Must not know the log. Called by `cli.diff`.
"""

from __future__ import annotations

from projections.cache import Cache
from vcledger import quantities as q
from vcledger.errors import VcledgerError
from vcledger.quantities import Change, Table

KINDS: dict[str, tuple[str, ...]] = {
    "nodes": (q.NODE,),
    "jobs": (q.JOB,),
    "tasks": (q.TASK,),
    "queues": (q.QUEUE,),
    "volumes": (q.VOLUME, q.CLAIM),
}
"""What the command's kinds are in the table."""


def diff(
    before: Cache, after: Cache, *, kind: str | None = None, namespace: str | None = None, name: str | None = None
) -> list[Change]:
    """The changes from one cache to another; of one kind (nodes, jobs, tasks, queues, volumes) where it is given, of
    one namespace, which leaves out what has none, and of one name. A task that a node got or lost is told once, by the
    task. NoSuchName when neither cache has that name."""
    tables = [_shown(cache, kind, namespace) for cache in (before, after)]
    if name is not None:
        wanted = _of_name(before, tables[0], name) | _of_name(after, tables[1], name)
        if not wanted:
            raise NoSuchName([label.rpartition("/")[2] for table in tables for _, label in _labels(table)])
        tables = [{key: found for key, found in table.items() if key in wanted} for table in tables]
    return q.changes(*tables)


class NoSuchName(VcledgerError):
    """Neither moment has it. `names`: what there is."""

    def __init__(self, names: list[str]) -> None:
        super().__init__("nothing of that name at either moment")
        self.names = names


def _labels(table: Table) -> list[tuple[tuple[str, str], str]]:
    """Each key of a table, and what people read for it: NS/NAME, or NAME where there is no namespace."""
    return [(key, entity.label or entity.key) for key, (entity, _) in table.items()]


def _of_name(cache: Cache, table: Table, name: str) -> set[tuple[str, str]]:
    """The keys of what goes by that name: of a job also the name of what owns its PodGroup, such as a Volcano Job."""
    wanted = {key for key, label in _labels(table) if label.rpartition("/")[2] == name}
    for kind, key in table:
        job = cache.jobs.get(key) if kind == q.JOB else None
        if job is not None and job.pod_group is not None:
            owners = job.pod_group.metadata.owner_references or ()
            wanted |= {(kind, key) for owner in owners if owner.name == name}
    return wanted


def _shown(cache: Cache, kind: str | None, namespace: str | None) -> Table:
    wanted = KINDS[kind] if kind is not None else tuple(name for name in q.KIND_ORDER if name != q.CACHE)
    return {
        key: (entity, {name: value for name, value in found.items() if not name.startswith("tasks[")})
        for key, (entity, found) in q.of_cache(cache).items()
        if entity.kind in wanted and (namespace is None or (entity.label or entity.key).startswith(f"{namespace}/"))
    }
