"""Sentences that sum up a node table or a group for people, and the scheduler's own sentence for a group.

Owns the wording. Must not know which verdict holds. Called by the checks and by `projections.diagnosis.explain`.
Source of the group's sentence: Volcano's JobInfo.FitError and TaskSchedulingReason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from projections.diagnosis.amounts import counted, show
from projections.diagnosis.gang import Trial
from projections.diagnosis.model import Refusal
from projections.diagnosis.reasons import Reason, each_named, fit_message, grouped
from projections.diagnosis.views import ClusterView, GroupView, NodeView, TaskView

NAMES_SHOWN = 3


def some(names: Sequence[str], most: int = NAMES_SHOWN) -> str:
    """Up to `most` names, and how many more there are."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def scheduler_table(table: Mapping[str, Sequence[Reason]], cluster: ClusterView) -> dict[str, Sequence[Reason]]:
    """The part of a table that the scheduler's message counts: the nodes of its snapshot."""
    return {node.name: table[node.name] for node in cluster.schedulable_nodes() if node.name in table}


def table_message(table: Mapping[str, Sequence[Reason]], cluster: ClusterView) -> str:
    """The scheduler's message for a table in which no node fits. Several findings ask for it, so it is kept beside the
    table."""
    key = ("message", id(table))
    of, known = cluster.memo.get(key, (None, ""))
    if of is not table:
        known = fit_message(scheduler_table(table, cluster))
        cluster.memo[key] = table, known
    return str(known)


def table_causes(table: Mapping[str, Sequence[Reason]], task: TaskView, cluster: ClusterView) -> list[str]:
    """One line for each reason that the scheduler would count, most nodes first, with numbers and names. Several
    findings tell of the same table, so its lines are kept beside it."""
    key = ("causes", id(table), tuple(task.request.items()))
    of, known = cluster.memo.get(key, (None, []))
    if of is not table:
        known = _causes(table, task, cluster)
        cluster.memo[key] = table, known
    return list(known)


def _causes(table: Mapping[str, Sequence[Reason]], task: TaskView, cluster: ClusterView) -> list[str]:
    nodes = cluster.by_name()
    pairs: list[tuple[str, str]] = []
    for name, named in each_named(table):
        pairs += [(text, name) for text in named]
    lines = []
    for text, names in grouped(pairs):
        detail = _group_detail(text, [name for name in names if name in nodes], table, task, nodes)
        lines.append(f"{len(names)} {text}{f': {detail}' if detail else ''} ({some(names)})")
    return lines


def nearest(text: str, names: Sequence[str], task: TaskView, nodes: Mapping[str, NodeView]) -> str:
    """Of some nodes that refuse for one reason, the one that comes nearest to taking the task: for a resource the one
    with the most of it idle, else the one with the most idle cpu."""
    resource = text.removeprefix("Insufficient ") if text.startswith("Insufficient ") else "cpu"
    idle = [nodes[name].future_idle.get(resource, 0.0) for name in names]
    most = max(idle)
    return max([name for name, amount in zip(names, idle, strict=True) if amount == most])


def refusals(table: Mapping[str, Sequence[Reason]], task: TaskView, cluster: ClusterView) -> list[Refusal]:
    """The nodes that refuse, grouped by the reason that the scheduler names first, most nodes first."""
    nodes = cluster.by_name()
    return [
        Refusal(count=len(names), reason=text, detail=_range(text, names, table, task, nodes), nodes=list(names))
        for text, names in by_first_reason(table, cluster)
    ]


def by_first_reason(table: Mapping[str, Sequence[Reason]], cluster: ClusterView) -> list[tuple[str, list[str]]]:
    """The nodes that refuse by the reason that the scheduler names first, most nodes first; kept beside the table."""
    key = ("first-reasons", id(table))
    of, found = cluster.memo.get(key, (None, []))
    if of is not table:
        found = grouped([(named[0], name) for name, named in each_named(table) if named])
        cluster.memo[key] = table, found
    known: list[tuple[str, list[str]]] = found
    return known


def _range(
    text: str,
    names: Sequence[str],
    table: Mapping[str, Sequence[Reason]],
    task: TaskView,
    nodes: Mapping[str, NodeView],
) -> str:
    """`asks 6; idle 1 to 3 of 8, most on cpu-7` for a resource, else the differing details."""
    if not text.startswith("Insufficient "):
        return _details(text, names, table)
    resource = text.removeprefix("Insufficient ")
    best = nearest(text, names, task, nodes)
    idle = [nodes[name].future_idle.get(resource, 0.0) for name in names]
    sizes = [nodes[name].allocatable.get(resource, 0.0) for name in names]
    where = f", most on {best}" if min(idle) < max(idle) else ""
    released = (
        ", what is being released counted in" if any(nodes[name].releasing.get(resource) for name in names) else ""
    )
    asked = show(resource, task.request.get(resource, 0.0))
    return f"asks {asked}; idle {_span(resource, idle)} of {_span(resource, sizes)}{where}{released}"


def _span(resource: str, amounts: Sequence[float]) -> str:
    """`1 to 3`, or `3` when all are the same."""
    least, most = show(resource, min(amounts)), show(resource, max(amounts))
    return least if least == most else f"{least} to {most}"


def _details(text: str, names: Sequence[str], table: Mapping[str, Sequence[Reason]]) -> str:
    lists = {id(found): found for found in [table[name] for name in names]}
    details = dict.fromkeys(
        reason.detail for found in lists.values() for reason in found if reason.text == text and reason.detail
    )
    shown = list(details)
    return "; ".join(shown[:2]) + (f"; {len(shown) - 2} others" if len(shown) > 2 else "")


def _group_detail(
    text: str,
    names: Sequence[str],
    table: Mapping[str, Sequence[Reason]],
    task: TaskView,
    nodes: Mapping[str, NodeView],
) -> str:
    """Numbers for a resource (asked, the most that is idle and where), else the differing details."""
    if text.startswith("Insufficient "):
        resource = text.removeprefix("Insufficient ")
        best = nearest(text, names, task, nodes)
        idle = nodes[best].future_idle.get(resource, 0.0)
        largest = max(nodes[name].allocatable.get(resource, 0.0) for name in names)
        most = f"at most {show(resource, idle)} idle, on {best}" if len(names) > 1 else f"{show(resource, idle)} idle"
        asked = show(resource, task.request.get(resource, 0.0))
        return f"asks {asked}, {most}; the largest of them has {show(resource, largest)}"
    return _details(text, names, table)


def status_counts(tasks: Iterable[TaskView]) -> dict[str, int]:
    """How many tasks there are in each status."""
    counts: dict[str, int] = {}
    for task in tasks:
        counts[task.status] = counts.get(task.status, 0) + 1
    return counts


def histogram(counts: Mapping[str, int]) -> str:
    """Counts as the scheduler writes them: `6 Pending, 6 minAvailable`, sorted as text."""
    return ", ".join(sorted(f"{count} {word}" for word, count in counts.items()))


def group_message(group: GroupView, trial: Trial | None, cluster: ClusterView) -> str:
    """The scheduler's sentence for a group: its tasks by status, what became of the pending ones, the origin. What
    backfill has found a node for keeps it, and waits for the gang."""
    filled = trial.filled if trial is not None and trial.short > 0 else {}
    pending = [task for task in group.tasks if task.status == "Pending" and task.uid not in filled]
    counts = status_counts(task for task in group.tasks if task.uid not in filled)
    if filled:
        counts["Allocated"] = counts.get("Allocated", 0) + len(filled)
    counts["minAvailable"] = group.min_member
    ready = trial is not None and trial.ready >= group.min_member
    message = f"pod group is {'ready' if ready else 'not ready'}, {histogram(counts)}"
    if trial is None or not pending:
        return message
    held = trial.short > 0
    words: dict[str, int] = {}
    for task in pending:
        word = "Schedulable" if held and task.uid in trial.placed else "Unschedulable"
        words[word] = words.get(word, 0) + 1
    message += f"; Pending: {histogram(words)}"
    breaker = trial.breaker
    if breaker is not None:
        message += f". Origin reason is {breaker.name}: {table_message(trial.failed[breaker.uid], cluster)}"
    elif trial.unfilled:
        first = next(task for task in pending if task.uid in trial.unfilled)
        message += f". Origin reason is {first.name}: {table_message(trial.unfilled[first.uid], cluster)}"
    return message


def task_message(task: TaskView, group: GroupView, trial: Trial, cluster: ClusterView) -> str:
    """The scheduler's sentence for one pending member."""
    if task.uid in trial.failed:
        return table_message(trial.failed[task.uid], cluster)
    if task.uid in trial.unfilled:
        return table_message(trial.unfilled[task.uid], cluster)
    if task.uid in trial.skipped:
        return f"Task {task.name} with role spec {task.role} has already predicated failed, skip"
    node = trial.placed.get(task.uid) or trial.filled.get(task.uid)
    if node is not None and trial.short > 0:
        return f"Pod {task.key} can possibly be assigned to {node}, once minAvailable is satisfied"
    return group_message(group, trial, cluster)


__all__ = [
    "counted",
    "group_message",
    "histogram",
    "scheduler_table",
    "some",
    "status_counts",
    "table_causes",
    "table_message",
    "task_message",
]
