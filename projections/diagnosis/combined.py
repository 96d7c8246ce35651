"""Several edits as one change: applied together, merged where they are of one node, sized and told.

Owns that. Must not know how edits are found. Called by `projections.diagnosis.changes` and
`projections.diagnosis.placing`.
"""

from __future__ import annotations

from collections.abc import Sequence

from projections.diagnosis.edits import Edit, Evict, Room
from projections.diagnosis.edits_pods import OfPod
from projections.diagnosis.victims import BY_HAND
from projections.diagnosis.views import Amounts
from projections.diagnosis.words import counted, some
from projections.diagnosis.world import World, alike, roomier

Edits = list[Edit]


def applied(world: World, edits: Sequence[Edit]) -> World:
    """The world with all of them; what only makes room is done at once."""
    rooms = {edit.node: edit for edit in merged(edits) if isinstance(edit, Room)}
    if rooms:
        nodes = world.cluster.by_name()
        world = world.with_nodes(
            {name: roomier(nodes[name], one.amounts) for name, one in rooms.items() if name in nodes}
        )
    gone = [one for edit in edits if isinstance(edit, Evict) for one in edit.pods]
    world = world.without(gone) if gone else world
    for edit in edits:
        if not isinstance(edit, Room | Evict):
            world = edit.apply(world)
    return world


def merged(edits: Sequence[Edit]) -> Edits:
    """Room on the same node in one, each other edit once."""
    rooms: dict[str, Room] = {}
    rest: Edits = []
    for edit in edits:
        if isinstance(edit, Room):
            before = rooms.get(edit.node)
            amounts: Amounts = dict(before.amounts) if before is not None else {}
            for name, amount in edit.amounts.items():
                amounts[name] = amounts.get(name, 0.0) + amount
            rooms[edit.node] = Room(edit.node, amounts, edit.asked)
        elif edit not in rest:
            rest.append(edit)
    return [*rooms.values(), *rest]


def size_of(edits: Edits) -> tuple[int, float, int, str]:
    """Few objects first, then little of what is asked, then what is done lightly."""
    share, rank = sum(edit.share for edit in edits), max((edit.rank for edit in edits), default=0)
    return sum(edit.touches for edit in edits), round(share, 6), rank, "; ".join(edit.text() for edit in edits)


def told_together(edits: Sequence[Edit], world: World) -> list[str]:
    """The edits in words: nodes that lack the same in one, all evictions in one; of a pod with how many more of the
    group are edited with it."""
    rooms: dict[str, list[str]] = {}
    for edit in edits:
        if isinstance(edit, Room):
            rooms.setdefault(edit.text().partition(": ")[2], []).append(edit.node)
    told = [f"{some(nodes)}{', each' if len(nodes) > 1 else ''}: {what}" for what, nodes in rooms.items()]
    evictions = [edit for edit in edits if isinstance(edit, Evict)]
    if evictions:
        pods = [f"{one.key} on {edit.node} (priority {one.priority})" for edit in evictions for one in edit.pods]
        hows = {edit.how for edit in evictions}
        how = f" by {hows.pop()}" if len(hows) == 1 and BY_HAND not in hows else ""
        told.append(f"evict {counted(len(pods), 'pod')}{how}: {some(pods)}")
    return told + [f"{edit.text()}{_and_more(edit, world)}" for edit in edits if not isinstance(edit, Room | Evict)]


def _and_more(edit: Edit, world: World) -> str:
    if not isinstance(edit, OfPod) or not edit.of_all_alike:
        return ""
    members = world.group.tasks if world.group is not None else ()
    more = sum(1 for task in members if task.uid != edit.task.uid and alike(task, edit.task))
    return f" (and {more} more like it)" if more else ""
