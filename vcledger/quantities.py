"""A cache as a table of quantities, so that two of them can be compared one quantity at a time.

Owns the names of the quantities and what counts as a change. Must not know the log, nor where a cache came from.
Called by `vcledger.compare`, `vcledger.diff` and `vcledger.drift`.

Resources are in the cache's own units: cpu in milli-cores, memory in bytes, `pods` and attachable-volumes-* in units,
other scalars in milli-units. A resource that is zero is the same as one that is missing (data of the golden vectors:
"compare with missing = 0"), so zeros are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from projections.cache import Cache, JobInfo, NodeInfo

Value: TypeAlias = str | float | bool | None
Quantities: TypeAlias = dict[str, Value]
"""Quantity name to value, such as `idle.cpu` to 2000.0. A name that is missing means 0, '' or no."""

NODE, JOB, TASK, QUEUE, VOLUME, CLAIM, PRIORITY, CSI_NODE, NAMESPACE, CACHE = (
    "node",
    "job",
    "task",
    "queue",
    "volume",
    "claim",
    "priority class",
    "csi node",
    "namespace",
    "cache",
)


class Entity(NamedTuple):
    """What a quantity is of. A task's key is its pod's UID, every other key is a name; `label` is what people read."""

    kind: str
    key: str
    label: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.label or self.key}"


Table: TypeAlias = dict[tuple[str, str], tuple[Entity, Quantities]]
"""(kind, key) to the entity and its quantities."""


class Change(NamedTuple):
    """One quantity that differs. `quantity` is 'present' where one side has no such entity at all."""

    entity: Entity
    quantity: str
    before: Value
    after: Value


PRESENT = "present"


def add(table: Table, kind: str, key: str, quantities: Quantities, label: str = "") -> None:
    """Puts an entity into the table."""
    table[kind, key] = Entity(kind, key, label), quantities


# --- from a cache -------------------------------------------------------------------------------------------------


def of_cache(cache: Cache, *, settled: bool = False) -> Table:
    """All quantities of a cache: those of its state, and the volumes and claims that the state's JSON leaves out.
    `settled`: what the scheduler's next snapshot makes of it. It writes each job's priority back (fact 20), and leaves
    jobs without PodGroup out (fact 19): what such a job still has of an old PodGroup is not told, nor a job without
    tasks, which only waits to be cleaned up (fact 18)."""
    from projections.cache import state_json

    table = of_state(state_json(cache))
    if settled:
        for key, job in cache.jobs.items():
            _, quantities = table.pop((JOB, key))
            if not job.terminated:
                add(table, JOB, key, _settled(cache, job, quantities))
    for name, volume in cache.volumes.items():
        claim = volume.spec.claim_ref
        add(
            table,
            VOLUME,
            name,
            {
                "phase": volume.status.phase,
                "class": volume.spec.storage_class_name,
                "claim": f"{claim.namespace}/{claim.name}" if claim is not None else "",
                "capacity": str((volume.spec.capacity or {}).get("storage", "")),
            },
        )
    for name, pvc in cache.claims.items():
        add(
            table,
            CLAIM,
            name,
            {
                "phase": pvc.status.phase,
                "class": pvc.spec.storage_class_name or "",
                "volume": pvc.spec.volume_name,
                "selected_node": (pvc.metadata.annotations or {}).get("volume.kubernetes.io/selected-node", ""),
            },
        )
    return table


def priority_quantity(cache: Cache, job: JobInfo) -> Quantities:
    """A job's priority as a snapshot computes it: its PodGroup's class's value, else the default; 0 is None."""
    name = job.pod_group.spec.priority_class_name if job.pod_group is not None else ""
    found = cache.priority_classes.get(name)
    return {"priority": float(found.value if found is not None else cache.default_priority) or None}


def of_node(node: NodeInfo) -> Quantities:
    """The quantities of one node."""
    from projections.cache.json import node_json

    return _node(node_json(node))


def of_job(cache: Cache, job: JobInfo) -> Quantities | None:
    """The quantities of one job, settled; None of one that only waits to be cleaned up."""
    from projections.cache.json import job_json

    return None if job.terminated else _settled(cache, job, _job(job_json(job)))


def _settled(cache: Cache, job: JobInfo, quantities: Quantities) -> Quantities:
    if job.pod_group is not None:
        return {**quantities, **priority_quantity(cache, job)}
    return {name: value for name, value in quantities.items() if name.partition(".")[0] in OF_TASKS}


def of_task(cache: Cache, uid: str, name: str) -> Quantities | None:
    """The quantities of one task, 'ns/name' with this UID: as its job has it, else as a node does; None without any."""
    from projections.cache.json import job_task_json, node_task_json

    ref = cache.pods.get(name)
    near = [cache.jobs[ref.job]] if ref is not None and ref.job in cache.jobs else []
    for job in (*near, *cache.jobs.values()):
        if uid in job.tasks:
            return _task(job.uid, job_task_json(job.tasks[uid]))
    for node in cache.nodes.values():
        task = node.tasks.get(name)
        if task is not None and task.uid == uid:
            return _held(node.name, node_task_json(task))
    return None


OF_TASKS = frozenset(("allocated", "total_request", "ready_task_num"))
"""A job's quantities that come of its tasks alone."""


def of_state(state: Mapping[str, Any]) -> Table:
    """All quantities of a state in the shape of the golden vectors' `expected`."""
    table: Table = {}
    for name, node in state["nodes"].items():
        add(table, NODE, name, _node(node))
        for key, task in node["tasks"].items():
            add(table, TASK, task["uid"], _held(name, task), key)
    for key, job in state["jobs"].items():
        add(table, JOB, key, _job(job))
        for uid, task in job["tasks"].items():
            add(table, TASK, uid, _task(key, task), task["name"])
    for kind, part in (
        (QUEUE, "queues"),
        (PRIORITY, "priority_classes"),
        (CSI_NODE, "csi_nodes"),
        (NAMESPACE, "namespaces"),
    ):
        for name, value in (state.get(part) or {}).items():
            add(table, kind, name, flat(value if isinstance(value, dict) else {"value": value}))
    own = ("default_priority", "default_priority_class", "bind_flow", *PENDING)
    add(table, CACHE, "", flat({name: state.get(name) for name in own}))
    return table


PENDING = ("pending_cleanup", "pending_resync", "pending_node_sync")


def _node(node: Mapping[str, Any]) -> Quantities:
    """A node's quantities; each task that it holds is one, with its status as the value."""
    quantities = flat({name: value for name, value in node.items() if name not in ("tasks", "future_idle")})
    for key, task in node["tasks"].items():
        quantities[f"tasks[{key}]"] = task["status"]
    return quantities


def _held(node: str, task: Mapping[str, Any]) -> Quantities:
    """A task that only a node tells of."""
    return flat({"status": task["status"], "job": task["job"], "node": node, "request": task["resreq"]})


def _job(job: Mapping[str, Any]) -> Quantities:
    left_out = ("name", "namespace", "tasks", "tasks_by_status", "creation_timestamp")
    return flat({name: value for name, value in job.items() if name not in left_out})


def _task(job: str, task: Mapping[str, Any]) -> Quantities:
    renamed = {"node_name": "node", "resreq": "request"}
    parts = {renamed.get(name, name): value for name, value in task.items() if name != "name"}
    return flat({"job": job, **parts})


def flat(value: Mapping[str, Any], prefix: str = "") -> Quantities:
    """Nested parts as dotted names; a resource as one quantity for each of its resources; a list as its JSON. What is
    empty, zero, false or null is left out, as it is the same as missing."""
    quantities: Quantities = {}
    for name, part in value.items():
        full = f"{prefix}{name}"
        if isinstance(part, Mapping):
            quantities.update(resource(full, part) if "milli_cpu" in part else flat(part, f"{full}."))
        elif isinstance(part, list):
            if part:
                quantities[full] = json.dumps(part, sort_keys=True)
        elif part:
            quantities[full] = part if isinstance(part, str | bool) else float(part)
    return quantities


def resource(name: str, value: Mapping[str, Any]) -> Quantities:
    """A resource in the state's form as quantities: name.cpu, name.memory, name.<scalar>, name.max_task_num."""
    parts = {
        "cpu": value["milli_cpu"],
        "memory": value["memory"],
        "max_task_num": value.get("max_task_num", 0),
        **(value.get("scalars") or {}),
    }
    return {f"{name}.{part}": float(amount) for part, amount in parts.items() if amount}


# --- changes ------------------------------------------------------------------------------------------------------


def changes(before: Table, after: Table) -> list[Change]:
    """Every quantity that differs, in a fixed order: by kind as the tables list them, then name, then quantity."""
    found: list[Change] = []
    for key in _ordered(before, after):
        old, new = before.get(key), after.get(key)
        if old is None or new is None:
            entity = (old or new)[0]  # type: ignore[index]
            found.append(Change(entity, PRESENT, old is not None, new is not None))
            continue
        (_, mine), (entity, theirs) = old, new
        for quantity in sorted({*mine, *theirs}):
            if mine.get(quantity) != theirs.get(quantity):
                found.append(Change(entity, quantity, mine.get(quantity), theirs.get(quantity)))
    return found


def differing(mine: Quantities | None, theirs: Quantities | None) -> frozenset[str]:
    """The names of the quantities of one entity that differ; only 'present' when just one side has it."""
    if mine is None or theirs is None:
        return frozenset() if mine is theirs else frozenset((PRESENT,))
    return frozenset(name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name))


KIND_ORDER = (NODE, JOB, TASK, QUEUE, VOLUME, CLAIM, PRIORITY, CSI_NODE, NAMESPACE, CACHE)


def _ordered(before: Table, after: Table) -> list[tuple[str, str]]:
    keys: Iterable[tuple[str, str]] = {**before, **after}
    labels = {key: entity.label or entity.key for table in (before, after) for key, (entity, _) in table.items()}
    return sorted(keys, key=lambda key: (KIND_ORDER.index(key[0]), labels[key], key[1]))


# --- for people ---------------------------------------------------------------------------------------------------

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


def human(resource_name: str, amount: float) -> str:
    """An amount of a resource as people write it: 2500 milli-CPU as 2.5, 3221225472 bytes as 3Gi, 2000 of a scalar
    as 2. `resource_name` is cpu, memory or a scalar's name."""
    if resource_name == "memory":
        return _bytes(amount)
    if resource_name in ("pods", "max_task_num") or resource_name.startswith("attachable-volumes-"):
        return _number(amount)
    if resource_name == "ephemeral-storage" or resource_name.startswith("hugepages-"):
        return _bytes(amount / 1000)
    return _number(amount / 1000)


def human_value(quantity: str, value: Value) -> str:
    """A quantity's value for people; an absent one is '-'."""
    first, _, rest = quantity.partition(".")
    if isinstance(value, float) or (value is None and first in RESOURCE_QUANTITIES):
        amount = value if isinstance(value, float) else 0.0
        return human(rest, amount) if first in RESOURCE_QUANTITIES else _number(amount)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value in (None, "") else str(value)


RESOURCE_QUANTITIES = frozenset(
    (
        "allocatable",
        "capacity",
        "idle",
        "used",
        "releasing",
        "pipelined",
        "request",
        "allocated",
        "total_request",
        "min_resources",
    )
)
"""The quantities that are resources: what follows the first dot is the resource's name."""


def _number(amount: float) -> str:
    """Up to three decimals, without trailing zeros or an exponent."""
    text = f"{amount:.3f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _bytes(amount: float) -> str:
    """In the largest binary unit that leaves at least 1, to at most two decimals."""
    power = 0
    while abs(amount) >= 1024 and power < len(_BINARY) - 1:
        amount /= 1024
        power += 1
    text = f"{amount:.2f}".rstrip("0").rstrip(".")
    return f"{'0' if text == '-0' else text}{_BINARY[power]}"
