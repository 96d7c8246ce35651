"""`vcledger get nodes|jobs|tasks|queues|volumes`: the cache as tables or data.

Owns the columns. Called by `cli.main`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from cli import render
from cli.common import (
    AllNamespacesOption,
    AtOption,
    ClusterOption,
    DbOption,
    Model,
    ModelOption,
    NamespaceOption,
    Output,
    OutputOption,
    SchedulerArgsOption,
    cache_config,
    fail,
    kind_named,
    moment_at,
    moment_text,
    namespace_filter,
    opened,
)
from vcledger.quantities import human

if TYPE_CHECKING:
    from projections.cache import Cache

Row: TypeAlias = dict[str, Any]
Column: TypeAlias = tuple[str, Callable[[Row], str]]


def complete_kind(incomplete: str) -> list[str]:
    """The kinds that begin with what was typed, for shell completion."""
    return [kind for kind in (*COLUMNS, "pv", "pvc") if kind.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("get")(get)


def get(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND[/NAME]",
            help="nodes, jobs (pg), tasks (pods), queues or volumes (pv, pvc)",
            autocompletion=complete_kind,
        ),
    ],
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these")] = None,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    at: AtOption = None,
    model: ModelOption = Model.v111,
    scheduler_args: SchedulerArgsOption = None,
    output: OutputOption = Output.table,
    db: DbOption = None,
    cluster: ClusterOption = None,
) -> None:
    """The cache at a moment: nodes with idle, used and allocatable, jobs, tasks, queues, volumes."""
    word, _, name = kind.partition("/")
    wanted = [*([name] if name else []), *(names or [])]
    plural = kind_named(word)
    with opened(db) as ledger:
        where = ledger.cluster(cluster)
        position = moment_at(ledger, at, where).position
        if at is not None and output in (Output.table, Output.wide):
            typer.echo(f"at {moment_text(ledger, position, where)}", err=True)
        rows = rows_of(
            ledger.cache(position, cluster=where, model=model.value, config=cache_config(scheduler_args)),
            plural,
            word.lower(),
        )
    scope = namespace_filter(namespace, all_namespaces)
    rows = [row for row in rows if scope is None or row.get("namespace", scope) == scope]
    if wanted:
        rows = [row for given in wanted for row in named(rows, given, plural, scope, position)]
    if not rows and output in (Output.table, Output.wide):
        inside = f" in {scope} namespace" if scope is not None and plural in ("jobs", "tasks") else ""
        render.nothing_found(f"No {plural} found{inside} at position {position}.")
        return
    show(rows, plural, output, namespaced=scope is None)


def rows_of(cache: Cache, plural: str, word: str) -> list[Row]:
    """The rows of a kind; `pv` and `pvc` are the halves of volumes."""
    from vcledger import views

    if plural != "volumes":
        rows: list[Row] = getattr(views, plural)(cache)
        return rows
    only_claims, only_volumes = word.startswith(("pvc", "persistentvolumec")), word in PV_WORDS
    return [
        *([] if only_claims else views.volumes(cache)),
        *([] if only_volumes else views.claims(cache)),
    ]


PV_WORDS = ("pv", "persistentvolume", "persistentvolumes")


def named(rows: Sequence[Row], name: str, plural: str, scope: str | None, position: int) -> list[Row]:
    """The rows of that name: of a job also by the name of the Volcano Job that owns its PodGroup."""
    found = [row for row in rows if row["name"] == name] or [row for row in rows if name in row.get("owners", ())]
    if not found:
        inside = f" in namespace {scope}" if scope is not None and plural in ("jobs", "tasks") else ""
        hint = "; -A looks in all namespaces" if inside else ""
        fail(f"{plural.removesuffix('s')} {name!r} not found{inside} at position {position}{hint}")
    return found


def show(rows: list[Row], plural: str, output: Output, *, namespaced: bool) -> None:
    """Prints rows in the form that was asked for."""
    if output is Output.name:
        for row in rows:
            typer.echo(f"{row['kind']}/{row['name']}")
        return
    if output in (Output.json, Output.yaml):
        render.data(rows, output)
        return
    columns = COLUMNS[plural](rows, output is Output.wide)
    if namespaced and any("namespace" in row for row in rows):
        columns = [("NAMESPACE", lambda row: str(row.get("namespace", ""))), *columns]
    render.table([header for header, _ in columns], [[cell(row) for _, cell in columns] for row in rows])


# --- columns ------------------------------------------------------------------------------------------------------


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
        ("PHASE", lambda row: row["phase"] if row["pod_group"] else "no PodGroup"),
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


COLUMNS: dict[str, Callable[[Sequence[Row], bool], list[Column]]] = {
    "nodes": node_columns,
    "jobs": job_columns,
    "tasks": task_columns,
    "queues": queue_columns,
    "volumes": volume_columns,
}
