"""The columns of `vcledger get`: what a table shows of each kind, narrow and wide.

Owns headers and cells. Must not know where the rows come from. Called by `cli.get`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from vcledger.quantities import human

Row: TypeAlias = dict[str, Any]
Column: TypeAlias = tuple[str, Callable[[Row], str]]


def field(name: str) -> Callable[[Row], str]:
    """A cell with one field, '-' when it says nothing."""

    def cell(row: Row) -> str:
        value = row.get(name)
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, list):
            return ",".join(map(str, value)) or "-"
        return "-" if value in (None, "") else str(value)

    return cell


def amount_text(name: str, amount: float) -> str:
    """An amount in cores, bytes or units for people."""
    unit = 1 if name in ("memory", "pods") or name.startswith("attachable-volumes-") else 1000
    return human(name, amount * unit)


def amounts_text(name: str) -> Callable[[Row], str]:
    """A cell with all amounts of a resource that are not zero, or a map of quantities."""

    def cell(row: Row) -> str:
        parts = [
            f"{resource} {amount_text(resource, value) if isinstance(value, int | float) else value}"
            for resource, value in row[name].items()
            if value
        ]
        return ", ".join(parts) or "-"

    return cell


def resources_of(rows: Sequence[Row], field_name: str, *, wide: bool) -> list[str]:
    """The resources worth a column: cpu and memory, then the scalars that some row has; ephemeral-storage only in the
    wide form."""
    seen = dict.fromkeys(name for row in rows for name, amount in row[field_name].items() if amount)
    scalars = sorted(name for name in seen if name not in ("cpu", "memory"))
    return ["cpu", "memory", *(name for name in scalars if wide or name != "ephemeral-storage")]


def node_columns(rows: Sequence[Row], wide: bool) -> list[Column]:
    """Nodes: idle, used and allocatable of each resource in one cell."""

    def accounting(resource: str) -> Callable[[Row], str]:
        return lambda row: "/".join(
            amount_text(resource, row[part].get(resource, 0)) for part in ("idle", "used", "allocatable")
        )

    columns: list[Column] = [("NAME", field("name")), ("STATUS", node_status), ("TASKS", field("tasks"))]
    for resource in resources_of(rows, "allocatable", wide=wide):
        columns.append((f"{resource.upper()} IDLE/USED/ALLOC", accounting(resource)))
    if wide:
        columns += [
            ("RELEASING", amounts_text("releasing")),
            ("PIPELINED", amounts_text("pipelined")),
            ("READY", field("ready")),
            ("TAINTS", field("taints")),
            ("POSITION", field("position")),
        ]
    return columns


def node_status(row: Row) -> str:
    """The cache's phase, with why it is not Ready, and kubectl's word for a cordoned node."""
    status = row["phase"] if row["phase"] == "Ready" or not row["reason"] else f"{row['phase']}({row['reason']})"
    return f"{status},SchedulingDisabled" if row["unschedulable"] else str(status)


def job_columns(rows: Sequence[Row], wide: bool) -> list[Column]:
    """Jobs: phase, how many tasks are ready of how many are needed, and their statuses."""
    columns: list[Column] = [
        ("NAME", field("name")),
        ("QUEUE", field("queue")),
        ("PHASE", job_phase),
        ("READY/MIN", lambda row: f"{row['ready']}/{row['min_available']}"),
        ("TASKS", lambda row: ", ".join(f"{count} {status}" for status, count in row["tasks"].items()) or "-"),
        ("ALLOCATED", amounts_text("allocated")),
    ]
    if wide:
        columns += [
            ("REQUESTED", amounts_text("requested")),
            ("PRIORITY", field("priority")),
            ("OWNER", field("owners")),
            ("POSITION", field("position")),
        ]
    return columns


def job_phase(row: Row) -> str:
    """The PodGroup's phase; of a job without one what else is known: the phase of the Volcano Job, that every task has
    ended, or the phase that the PodGroup had last."""
    if row["pod_group"]:
        return str(row["phase"])
    missing = "PodGroup gone" if row["pod_group_gone"] else "no PodGroup"
    ended = row["tasks"] and set(row["tasks"]) <= {"Succeeded", "Failed"}
    known = row["job_phase"] or ("Finished" if ended else row["phase"])
    return f"{known} ({missing})" if known else missing


def task_columns(rows: Sequence[Row], wide: bool) -> list[Column]:
    """Tasks: status, node, job, and what each asks for."""

    def asks(resource: str) -> Callable[[Row], str]:
        return lambda row: amount_text(resource, row["request"].get(resource, 0))

    columns: list[Column] = [
        ("NAME", field("name")),
        ("STATUS", field("status")),
        ("NODE", field("node")),
        *(
            (resource.upper(), asks(resource))
            for resource in resources_of(rows, "request", wide=wide)
            if resource != "pods"
        ),
        ("JOB", field("job")),
    ]
    if wide:
        columns += [
            ("QUEUE", field("queue")),
            ("ROLE", field("role")),
            ("PRIORITY", field("priority")),
            ("UID", field("uid")),
            ("POSITION", field("position")),
        ]
    return columns


def queue_columns(rows: Sequence[Row], wide: bool) -> list[Column]:
    """Queues: state, weight, limits, and what their jobs have."""
    columns: list[Column] = [
        ("NAME", field("name")),
        ("STATE", field("state")),
        ("WEIGHT", field("weight")),
        ("JOBS", field("jobs")),
        ("TASKS", field("tasks")),
        ("ALLOCATED", amounts_text("allocated")),
        ("CAPABILITY", amounts_text("capability")),
    ]
    if wide:
        columns += [
            ("REQUESTED", amounts_text("requested")),
            ("DESERVED", amounts_text("deserved")),
            ("GUARANTEE", amounts_text("guarantee")),
            ("RECLAIMABLE", field("reclaimable")),
            ("PARENT", field("parent")),
            ("PRIORITY", field("priority")),
            ("POSITION", field("position")),
        ]
    return columns


def volume_columns(rows: Sequence[Row], wide: bool) -> list[Column]:
    """Volumes and claims, each with its other half."""
    columns: list[Column] = [
        ("NAME", lambda row: f"{row['kind']}/{row['name']}"),
        ("STATUS", field("phase")),
        ("CAPACITY", field("capacity")),
        ("CLASS", field("class")),
        ("BOUND-TO", field("bound_to")),
    ]
    if wide:
        columns += [
            ("MODES", field("access_modes")),
            ("NODES", field("nodes")),
            ("POSITION", field("position")),
        ]
    return columns


def pending_columns(rows: Sequence[Row], wide: bool) -> list[Column]:
    """What waits: since when, and why."""
    columns: list[Column] = [
        ("NAME", lambda row: row["name"] if row["kind"] == "pod" else f"job/{row['name']}"),
        ("SINCE", field("since")),
        ("VERDICT", field("verdict")),
        *([("QUEUE", field("queue")), ("PODGROUP", field("group")), ("MESSAGE", field("message"))] if wide else []),
        ("SUMMARY", field("summary")),
    ]
    return columns


def marker_columns(rows: Sequence[Row], wide: bool) -> list[Column]:
    """Markers: what to write after `--at`, and where that is."""
    return [
        ("AT", lambda row: f"marker:{row['at']}"),
        ("TIME", field("time")),
        ("POSITION", field("position")),
        ("LABEL", field("label")),
        *([("NAME", field("name"))] if wide else []),
    ]


def gap_columns(rows: Sequence[Row], wide: bool) -> list[Column]:
    """Gaps: of what kind nothing is recorded, from when to when, and what the list after it found."""
    return [
        ("KIND", field("of")),
        ("FROM", field("from")),
        ("TO", lambda row: row["to"] or "not taken up again"),
        ("NEW", field("added")),
        ("CHANGED", field("modified")),
        ("GONE", field("deleted")),
        ("POSITION", field("position")),
        ("REASON", field("reason")),
    ]


def cluster_columns(rows: Sequence[Row], wide: bool) -> list[Column]:
    """Clusters: from when to when their record reaches."""
    return [
        ("NAME", field("name")),
        ("FIRST", field("first")),
        ("LAST", field("last")),
        ("POSITIONS", lambda row: f"{row['first_position']} to {row['last_position']}"),
    ]


COLUMNS: dict[str, Callable[[Sequence[Row], bool], list[Column]]] = {
    "nodes": node_columns,
    "jobs": job_columns,
    "tasks": task_columns,
    "queues": queue_columns,
    "volumes": volume_columns,
    "pending": pending_columns,
    "markers": marker_columns,
    "gaps": gap_columns,
    "clusters": cluster_columns,
}
