"""What makes room for a task that fits nowhere, or makes it take the room that there is.

Owns this search, on the nodes that come nearest, of each kind of refusal some. Must not know queues, nor how one
refusal is lifted (`remedies`). Called by `projections.diagnosis.changes`, and for the nearest nodes by
`projections.diagnosis.preemption`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from projections.diagnosis.combined import Edits, applied, merged, size_of
from projections.diagnosis.edits_group import LowerMinMember
from projections.diagnosis.edits_pods import AskLess
from projections.diagnosis.evicting import Turn
from projections.diagnosis.gang import Trial, try_gang
from projections.diagnosis.nodes import Evaluation
from projections.diagnosis.openings import more_nodes
from projections.diagnosis.proof import Held, obstacle
from projections.diagnosis.reasons import Reason
from projections.diagnosis.remedies import WAYS, Way, differs, remedy
from projections.diagnosis.views import ClusterView, GroupView, NodeView, TaskView
from projections.diagnosis.world import World

KINDS_MAX, NEAREST_MAX, SINGLE_NODES = 5, 8, 3
"""Of how many kinds of refusal, and how many nodes of each, the search looks; how many nodes are told one by one."""

STEPS_MAX = 32
"""How many members' placing a change may mend."""


def placings(world: World, held: Held) -> Iterator[Edits]:
    """What makes room, or makes the task take the room that there is."""
    trial, failed = _turn_of(world)
    if failed is None:
        return
    task, table = failed
    groups = nearest_by_kind(table, task, world, trial)
    singles = SINGLE_NODES if trial is None or trial.short <= 1 else 1
    for way in WAYS:
        for names in groups:
            if not differs(way, table.get(names[0], ())):
                continue
            yield from _on_nodes(world, held, way, names, singles if names is groups[0] else 1)
    if trial is not None:
        yield from _fewer(world, trial)
    yield from more_nodes(world, task, held, _small(world, trial, [name for names in groups for name in names]))
    yield from _less(world, task)


def _turn_of(world: World) -> tuple[Trial | None, tuple[TaskView, Mapping[str, Sequence[Reason]]] | None]:
    """The trial, and the task that has to be mended with its table: the one asked about, or whoever breaks the gang."""
    task = world.task
    trial = _trial(world.group, world.cluster)
    if trial is None or (task is not None and task.best_effort and not trial.short):
        return trial, (task, _table(task, world)) if task is not None and task.pod is not None else None
    breaker = trial.breaker
    if trial.short == 0 and task is not None and task.uid in trial.failed:
        breaker = task
    if breaker is None:
        return trial, None
    return trial, (breaker, trial.failed[breaker.uid])


def _trial(group: GroupView | None, cluster: ClusterView) -> Trial | None:
    """The trial of a group; the last one of each group is kept beside the cluster that it was made on."""
    if group is None or group.pod_group is None or not group.tasks:
        return None
    key = ("trial-of", group.key)
    of, found = cluster.memo.get(key, (None, None))
    if of is not group:
        found = try_gang(group, cluster)
        cluster.memo[key] = group, found
    trial: Trial = found
    return trial


def _table(task: TaskView, world: World) -> Mapping[str, Sequence[Reason]]:
    assert task.pod is not None
    return Evaluation(task, task.pod, world.cluster).table()


def nearest_by_kind(
    table: Mapping[str, Sequence[Reason]], task: TaskView, world: World, trial: Trial | None
) -> list[list[str]]:
    """The nodes that come nearest to taking the task, of each kind of refusal (its families) some: few families first,
    then how much is missing."""
    key = ("nearest", task.uid, id(table))
    known: tuple[object, list[list[str]]] = world.cluster.memo.get(key, (None, []))
    if known[0] is table:
        return known[1]
    turn = Turn(task, trial.taken if trial is not None else {})
    kinds: dict[tuple[str, ...], list[tuple[float, str]]] = {}
    alike: dict[object, tuple[float, list[tuple[float, str]]]] = {}
    asked = tuple(task.request)
    for node in world.cluster.schedulable_nodes():
        found = table.get(node.name)
        if found is None:
            continue
        like = (id(found), *map(node.future_idle.get, asked), node.name if node.name in turn.taken else "")
        known_like = alike.get(like)
        if known_like is None:
            families = tuple(dict.fromkeys([reason.family for reason in found if reason.scheduler]))
            missing = _missing(turn, node) if "resources" in families else 0.0
            known_like = alike[like] = missing, kinds.setdefault(families, [])
        known_like[1].append((known_like[0], node.name))
    ranked = sorted(kinds.items(), key=lambda item: (len(item[0]), min(item[1]), item[0]))
    nearest = [[name for _, name in heapq.nsmallest(NEAREST_MAX, pairs)] for _, pairs in ranked[:KINDS_MAX]]
    world.cluster.memo[key] = table, nearest
    return nearest


def _missing(turn: Turn, node: NodeView) -> float:
    """How much of what is asked the node lacks, added up over the resources."""
    idle, taken = node.future_idle, turn.taken.get(node.name, {})
    missing = 0.0
    for name, amount in turn.task.request.items():
        short = amount - idle.get(name, 0.0) + taken.get(name, 0.0)
        if short > 0 and amount > 0:
            missing += short / amount
    return missing


def _on_nodes(world: World, held: Held, way: Way, names: Sequence[str], singles: int) -> Iterator[Edits]:
    """Mending on nodes of one kind: from the nearest one on, and from each of some others alone."""
    trial = _turn_of(world)[0]
    small = _small(world, trial, names)
    for first in names[:singles]:
        edits = _accumulated(small, held, way, names, first)
        if edits is not None:
            yield edits


def _small(world: World, trial: Trial | None, names: Sequence[str]) -> World:
    """The world with only some nodes: those, and the ones where the trial has placed somebody. Where pods look at other
    nodes' pods it stays whole."""
    if world.cluster.pods or len(world.cluster.nodes) <= NEAREST_MAX * KINDS_MAX:
        return world
    world.cluster.allocatable()  # the share goes by the whole cluster
    kept = {*names, *(trial.placed.values() if trial is not None else ())}
    nodes = [node for node in world.cluster.nodes if node.name in kept]
    return replace(world, cluster=replace(world.cluster, nodes=nodes, memo={}, _sums=dict(world.cluster._sums)))


def _accumulated(world: World, held: Held, way: Way, names: Sequence[str], first: str) -> Edits | None:
    """Mends the task that fits nowhere, one after the other, each on the node where that is smallest."""
    edits: Edits = []
    for _ in range(STEPS_MAX):
        trial, failed = _turn_of(world)
        if edits and _placed(trial, world.task):
            return edits if not obstacle(world, held) else None
        if failed is None:
            return None
        task, table = failed
        turn = Turn(task, trial.taken if trial is not None else {})
        more = _best(turn, table, world, way, [first] if not edits else names)
        if not more:
            return None
        world, edits = applied(world, more), merged([*edits, *more])
    return None


def _placed(trial: Trial | None, task: TaskView | None) -> bool:
    """Whether the trial has placed what is asked about; True where only the whole check can tell."""
    if trial is None or (task is not None and task.best_effort):
        return True
    return not trial.short and (task is None or task.uid in trial.placed)


def _best(
    turn: Turn, table: Mapping[str, Sequence[Reason]], world: World, way: Way, names: Sequence[str]
) -> Edits | None:
    nodes = world.cluster.by_name()
    found = []
    for name in names:
        edits = remedy(turn, nodes[name], table.get(name, ()), world, way)
        if edits:
            found.append(edits)
    return min(found, key=size_of) if found else None


def _fewer(world: World, trial: Trial) -> Iterator[Edits]:
    """A gang content with those that have a place."""
    group, reached = world.group, trial.ready + len(trial.placed)
    if group is not None and trial.short and reached > 0:
        yield [LowerMinMember(group.key, group.min_member, reached)]


def _less(world: World, task: TaskView) -> Iterator[Edits]:
    """The task asks for no more than some node could ever give: only where none has that much even when empty."""
    nodes = world.cluster.schedulable_nodes()
    best: dict[str, float] = {}
    sizes = {id(node.allocatable): node.allocatable for node in nodes}
    for name, amount in task.request.items():
        most = max((size.get(name, 0.0) for size in sizes.values()), default=0.0)
        if amount > most > 0 and name != "pods":
            best[name] = _largest_idle(world.cluster, name, most)
    if best and all(amount > 0 for amount in best.values()):
        yield [AskLess(task, best)]


def _largest_idle(cluster: ClusterView, name: str, most: float) -> float:
    """The most of a resource that is idle on one node."""
    return min(most, max((node.future_idle.get(name, 0.0) for node in cluster.schedulable_nodes()), default=0.0))
