"""What preempt and reclaim could do for a pod: on the nearest nodes, who could be evicted, who is spared, and why.

Owns that part of the answer. Must not know the rules for one victim (`victims`). Called by
`projections.diagnosis.explain`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from projections.diagnosis.amounts import counted, less_equal
from projections.diagnosis.case import Case
from projections.diagnosis.changes import world_of
from projections.diagnosis.evicting import Turn, lacking
from projections.diagnosis.model import NodeVictims, Preemption, Spared
from projections.diagnosis.placing import nearest_by_kind
from projections.diagnosis.reasons import Reason
from projections.diagnosis.victims import rights
from projections.diagnosis.views import NodeView
from projections.diagnosis.world import World

NODES_MAX = 3
ROOM = ("resources", "pod-count")
"""Refusals that evictions lift."""


def preemption(case: Case) -> Preemption | None:
    """What the two actions could do; None where the pod does not wait for a node, or no node lacks only room."""
    task = case.task
    if task is None or not case.pending or case.cluster.occupants is None or not case.table:
        return None
    world, turn = world_of(case), Turn(task, {})
    kinds = nearest_by_kind(case.table, task, world, None)
    names = [name for kind in kinds for name in kind if case.table[name] and _only_room(case.table[name])][:NODES_MAX]
    if not names:
        return None
    nodes = case.cluster.by_name()
    rows = [_victims(nodes[name], turn, world) for name in names]
    actions = case.cluster.rules.actions
    return Preemption(actions=list(actions) if actions is not None else None, note=_note(case, rows), nodes=rows)


def _only_room(found: Sequence[Reason]) -> bool:
    return all(one.family in ROOM for one in found if one.scheduler)


def _victims(node: NodeView, turn: Turn, world: World) -> NodeVictims:
    """The pods of one node, parted into those that could go and those that are spared."""
    could: dict[str, list[str]] = {"preempt": [], "reclaim": []}
    freed: dict[str, float] = {}
    spared: list[Spared] = []
    there = world.cluster.occupants(node.name) if world.cluster.occupants is not None else ()
    for one in there:
        right = rights(one, turn.task, world)
        if not right.allowed:
            spared.append(Spared(pod=one.key, why=right.why))
            continue
        could[right.how].append(one.key)
        for name, amount in {**one.request, "pods": 1.0}.items():
            freed[name] = freed.get(name, 0.0) + amount
    return NodeVictims(
        node=node.name,
        preempt=could["preempt"],
        reclaim=could["reclaim"],
        enough=bool(could["preempt"] or could["reclaim"]) and _covers(freed, turn, node),
        spared=spared,
    )


def _covers(freed: Mapping[str, float], turn: Turn, node: NodeView) -> bool:
    return all(less_equal(amount, freed.get(name, 0.0)) for name, amount in lacking(turn, node).items())


def _note(case: Case, rows: Sequence[NodeVictims]) -> str:
    """What follows from the configuration, and from what was found."""
    actions = case.cluster.rules.actions
    enough = [row for row in rows if row.enough]
    found = _found(rows, enough)
    if actions is None:
        return f"{found}; whether preempt and reclaim run is not in the log (--config FILE)"
    missing = [name for name in ("preempt", "reclaim") if name not in actions]
    if len(missing) == 2:
        return f"neither preempt nor reclaim is among the configured actions ({', '.join(actions)}); {found}"
    if missing:
        return f"{missing[0]} is not among the configured actions ({', '.join(actions)}); {found}"
    return found


def _found(rows: Sequence[NodeVictims], enough: Sequence[NodeVictims]) -> str:
    if enough:
        row = enough[0]
        how = " and ".join(name for name, pods in (("preempt", row.preempt), ("reclaim", row.reclaim)) if pods)
        return (
            f"{how} could make room on {row.node}: {counted(len(row.preempt) + len(row.reclaim), 'pod')} may go there"
        )
    if any(row.preempt or row.reclaim for row in rows):
        return "on the nearest nodes the pods that may go hold too little"
    return "no pod on the nearest nodes may be evicted for it by the scheduler"
