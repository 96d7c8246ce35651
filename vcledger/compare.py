"""Our cache against Volcano's own dump of the same moment, one quantity at a time.

Owns the comparison and what an in-flight task explains. Must not know the log nor files: it gets a parsed dump and a
cache. Called by `cli.compare`.

Volcano dumps a snapshot (pkg/scheduler/cache/cache.go, Snapshot), so ours is seen as one: without nodes that are not
Ready, without jobs that have no PodGroup or an unknown queue, and with each job's priority from its PriorityClass.
What the scheduler decided and has not yet told the API server (a task Allocated, Pipelined or Binding whose pod the API
server knows as pending and on no node) no recording can show. Such tasks are listed apart, and they are put on our
cache before the comparison is made again: a difference that is gone then was wholly explained by them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from projections.cache import Cache, state_json
from vcledger import quantities as q
from vcledger.quantities import Change, Quantities, Table
from vcledger.sources.volcano_dump import PHASE_NAMES, Dump, DumpJob, DumpNode, DumpResource, DumpTask

IN_FLIGHT = ("Allocated", "Pipelined", "Binding")
"""Statuses of a task that only the scheduler knows of."""

COUNTS_AS_ALLOCATED = ("Allocated", "Binding")
"""Of these, the ones that a job's `allocated` counts and that take from a node's idle (facts 7 and 8)."""


class InFlight(NamedTuple):
    """A task that the scheduler holds in flight: its status and node in the dump."""

    uid: str
    name: str
    status: str
    node: str


class Comparison(NamedTuple):
    """What was compared and what differs. In `differences` and `explained`, `before` is ours and `after` Volcano's."""

    dump: str
    documents: int
    nodes: int
    jobs: int
    tasks: int
    in_flight: list[InFlight]
    explained: list[Change]
    differences: list[Change]

    @property
    def equal(self) -> bool:
        """No difference but what the tasks in flight wholly explain."""
        return not self.differences


def compare(dump: Dump, cache: Cache) -> Comparison:
    """The comparison of a dump with the cache at the same moment."""
    theirs = of_dump(dump)
    ours = as_snapshot(cache)
    plain = q.changes(_restricted(ours, dump), theirs)
    in_flight = _in_flight(ours, theirs)
    for task in in_flight:
        apply_in_flight(ours, task)
    differences = q.changes(_restricted(ours, dump), theirs)
    left = {(change.entity[:2], change.quantity) for change in differences}
    explained = [change for change in plain if (change.entity[:2], change.quantity) not in left]
    return Comparison(
        dump=dump.source,
        documents=dump.documents,
        nodes=len(dump.nodes),
        jobs=len(dump.jobs or {}),
        tasks=sum(kind == q.TASK for kind, _ in theirs),
        in_flight=in_flight,
        explained=explained,
        differences=differences,
    )


# --- the two sides ------------------------------------------------------------------------------------------------


def of_dump(dump: Dump) -> Table:
    """The quantities that a dump tells of, under the names that `vcledger.quantities` gives them."""
    table: Table = {}
    for name, node in dump.nodes.items():
        q.add(table, q.NODE, name, _dumped_node(node))
        for key, task in (node.tasks or {}).items():
            parts = {"status": task.status, "job": task.job, "node": name, "request": _amounts(task.request)}
            q.add(table, q.TASK, task.uid, q.flat(parts), key)
    for key, job in (dump.jobs or {}).items():
        labels = {uid: _label(table, task) for uid, task in (job.tasks or {}).items()}
        q.add(table, q.JOB, key, _dumped_job(job, labels))
        for uid, task in (job.tasks or {}).items():
            q.add(table, q.TASK, uid, _dumped_task(key, task), labels[uid])
    return table


def _label(table: Table, task: DumpTask) -> str:
    """A dumped task's 'ns/name': its own, else the one under which a node holds it."""
    if task.name:
        return f"{task.namespace}/{task.name}"
    held = table.get((q.TASK, task.uid))
    return held[0].label if held is not None else task.uid


def as_snapshot(cache: Cache) -> Table:
    """The quantities of our cache as Volcano's Snapshot would show them."""
    state = state_json(cache)
    nodes = {name: node for name, node in state["nodes"].items() if node["phase"] == "Ready" and node["has_object"]}
    jobs = {
        key: {**job, **q.priority_quantity(cache, cache.jobs[key])}
        for key, job in state["jobs"].items()
        if job["has_podgroup"] and job["queue"] in state["queues"]
    }
    table = q.of_state({**state, "nodes": nodes, "jobs": jobs})
    for key, job in jobs.items():
        table[q.JOB, key][1].update({f"tasks[{task['name']}]": task["status"] for task in job["tasks"].values()})
    return {key: value for key, value in table.items() if key[0] in (q.NODE, q.JOB, q.TASK)}


def _amounts(value: DumpResource) -> dict[str, Any]:
    """A dumped resource in the form that the state uses."""
    return {
        "milli_cpu": value.milli_cpu,
        "memory": value.memory,
        "scalars": value.scalars or {},
        "max_task_num": value.max_task_num,
    }


_NODE_RESOURCES = ("idle", "used", "allocatable", "releasing", "pipelined", "capacity")


def _dumped_node(node: DumpNode) -> Quantities:
    parts: dict[str, Any] = {
        name: _amounts(value) for name in _NODE_RESOURCES if (value := getattr(node, name)) is not None
    }
    if node.state is not None:
        parts |= {"phase": PHASE_NAMES[node.state.phase], "reason": node.state.reason}
    parts["revocable_zone"] = node.revocable_zone
    quantities = q.flat(parts)
    for key, task in (node.tasks or {}).items():
        quantities[f"tasks[{key}]"] = task.status
    return quantities


def _dumped_job(job: DumpJob, labels: dict[str, str]) -> Quantities:
    parts = {
        "has_podgroup": True,
        "pg_uid": job.pg_uid,
        "queue": job.queue,
        "min_available": job.min_available,
        "priority": job.priority,
        "allocated": _amounts(job.allocated),
        "total_request": _amounts(job.total_request),
        "task_min_available": job.task_min_available or {},
        "preemptable": job.preemptable,
        "revocable_zone": job.revocable_zone,
    }
    tasks = {f"tasks[{labels[uid]}]": task.status for uid, task in (job.tasks or {}).items()}
    return {**q.flat(parts), **tasks}


def _dumped_task(job: str, task: DumpTask) -> Quantities:
    parts = {
        "job": job,
        "status": task.status,
        "node": task.node_name,
        "request": _amounts(task.request),
        "priority": task.priority,
        "preemptable": task.preemptable,
        "best_effort": task.best_effort,
    }
    return q.flat(parts)


COMPARED: dict[str, frozenset[str]] = {
    q.NODE: frozenset((*_NODE_RESOURCES, "phase", "reason", "revocable_zone", "tasks")),
    q.JOB: frozenset(
        (
            "has_podgroup",
            "pg_uid",
            "queue",
            "min_available",
            "priority",
            "allocated",
            "total_request",
            "task_min_available",
            "preemptable",
            "revocable_zone",
            "tasks",
        )
    ),
    q.TASK: frozenset(("job", "status", "node", "request", "priority", "preemptable", "best_effort")),
}
"""The quantities that both sides have, by the part of their names before the first dot or bracket."""

HELD_BY_NODE = frozenset(("job", "status", "node", "request"))
"""What a node's own copy of a task tells of it."""


def _restricted(ours: Table, dump: Dump) -> Table:
    """Our side with only the quantities that are compared; of a task that only a node of the dump tells of, only what a
    node tells. Without jobs in the dump, only nodes and the tasks that they hold."""
    held = {
        name for (kind, _), (_, found) in ours.items() if kind == q.NODE for name in found if _stem(name) == "tasks"
    }
    of_jobs = {uid for job in (dump.jobs or {}).values() for uid in job.tasks or ()}
    kept: Table = {}
    for key, (entity, found) in ours.items():
        if dump.jobs is None and (
            entity.kind == q.JOB or (entity.kind == q.TASK and f"tasks[{entity.label}]" not in held)
        ):
            continue
        compared = HELD_BY_NODE if entity.kind == q.TASK and entity.key not in of_jobs else COMPARED[entity.kind]
        kept[key] = entity, {name: value for name, value in found.items() if _stem(name) in compared}
    return kept


def _stem(name: str) -> str:
    """A quantity's name before the first dot or bracket."""
    return name.partition(".")[0].partition("[")[0]


# --- what only the scheduler knows --------------------------------------------------------------------------------


def _in_flight(ours: Table, theirs: Table) -> list[InFlight]:
    """The tasks in flight, by name: in the dump Allocated, Pipelined or Binding on a node, with us pending on none."""
    found = []
    for key, (entity, task) in theirs.items():
        mine = ours.get(key)
        if entity.kind != q.TASK or task.get("status") not in IN_FLIGHT or mine is None:
            continue
        if mine[1].get("status") == "Pending" and not mine[1].get("node"):
            found.append(InFlight(entity.key, entity.label, str(task["status"]), str(task.get("node", ""))))
    return sorted(found, key=lambda task: (task.name, task.uid))


def apply_in_flight(ours: Table, task: InFlight) -> None:
    """Does to our cache's quantities what the scheduler did to its own when it took the task: status and node, the
    job's allocated, and the node's accounting (facts 7 and 8). The request is our own, not the dump's."""
    _, mine = ours[q.TASK, task.uid]
    request = {
        name.removeprefix("request."): float(value or 0) for name, value in mine.items() if name.startswith("request.")
    }
    mine["status"] = task.status
    if task.node:
        mine["node"] = task.node
    allocated = task.status in COUNTS_AS_ALLOCATED
    job = ours.get((q.JOB, str(mine.get("job", ""))))
    if job is not None:
        job[1][f"tasks[{task.name}]"] = task.status
        if allocated:
            _shift(job[1], "allocated", request, 1)
    node = ours.get((q.NODE, task.node))
    if node is None:
        return
    node[1][f"tasks[{task.name}]"] = task.status
    if allocated:
        _shift(node[1], "idle", request, -1)
        _shift(node[1], "used", request, 1)
    else:
        _shift(node[1], "pipelined", request, 1)


def _shift(quantities: Quantities, name: str, request: dict[str, float], sign: int) -> None:
    """Adds a request to a resource, or takes it away; what becomes zero is left out."""
    for part, amount in request.items():
        key = f"{name}.{part}"
        value = float(quantities.get(key) or 0) + sign * amount
        if value:
            quantities[key] = value
        else:
            quantities.pop(key, None)
