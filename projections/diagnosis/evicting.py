"""Whom to evict: so that a node has room, or so that a queue holds less.

Owns that choice. Must not know whether it helps in the end. Called by `projections.diagnosis.remedies` and
`projections.diagnosis.openings`.

Few evictions come before many; of as many, those that the scheduler could do by itself, then those of low priority.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from projections.diagnosis import basic
from projections.diagnosis.amounts import exceeding, less_equal, subtract
from projections.diagnosis.edits import Edit, Evict
from projections.diagnosis.nodes import Evaluation
from projections.diagnosis.podaffinity import repelling
from projections.diagnosis.reasons import Reason
from projections.diagnosis.victims import BY_HAND, Rights, rights
from projections.diagnosis.views import Amounts, NodeView, Occupant, PlacedPod, TaskView, host_ports
from projections.diagnosis.world import World

EVICTED_MAX, EVICTED_OF_QUEUE_MAX = 8, 16
"""More evictions on one node, or in one queue, are no small change."""

PAIRED_MAX = 24
"""Of how many pods every pair and triple is tried."""

ON_ONE_NODE_MAX = 3
"""On how many nodes each by itself a queue's pods are sought."""

ATTACHING_MAX = 3
"""No more pods than these are evicted for their volumes."""

TOPPED_UP_MAX = 3
"""How often pods are added because the queue deserves less, too, once some are gone."""

LEAVING = ("Running", "Bound", "Binding")


class Turn(NamedTuple):
    """A task at its turn: what a trial has put on each node before it."""

    task: TaskView
    taken: Mapping[str, Amounts]


_Choice = tuple[Rights, Occupant]


def lacking(turn: Turn, node: NodeView) -> Amounts:
    """What the node has too little of, what is being released counted in."""
    available = subtract(node.future_idle, turn.taken.get(node.name, {}))
    request = turn.task.request
    missing = {name: request.get(name, 0.0) - available.get(name, 0.0) for name in exceeding(request, available)}
    if node.pods_max is not None and node.pods >= node.pods_max:
        missing["pods"] = float(node.pods + 1 - node.pods_max)
    return missing


def evictions(turn: Turn, node: NodeView, world: World, found: Sequence[Reason] = ()) -> list[Edit] | None:
    """The fewest pods whose going lifts the refusals `found` that a pod's going lifts: those in the way of its ports,
    its attachments or its anti-affinity (wherever they are), and on the node as many as hold the room that it lacks.
    None when no few do."""
    placed = _in_the_way(turn, node, world, {reason.family for reason in found if reason.scheduler})
    if placed is None:
        return None
    held = frozenset(one.uid for one in placed if one.node == node.name)
    free = [pair for pair in _leaving(_there(node.name, world), turn.task, world) if _another_job(pair, world)]
    must = [pair for pair in free if pair[1].uid in held]
    chosen = _fewest(lacking(turn, node), must, _ordered([pair for pair in free if pair[1].uid not in held]))
    away = _gone_elsewhere([one for one in placed if one.node != node.name], turn.task, world)
    if len(must) < len(held) or away is None or not (chosen or away):
        return None
    moved = [_by_hand(pair) for pair in (*chosen, *away)] if placed else chosen
    return list(_by_node(moved)) if len(moved) <= EVICTED_MAX else None


def _there(node: str, world: World) -> Sequence[Occupant]:
    return world.cluster.occupants(node) if world.cluster.occupants is not None else ()


def _another_job(pair: _Choice, world: World) -> bool:
    """Whether a pod is of another job than the one that is to run."""
    own = world.group.key if world.group is not None else ""
    return pair[1].job != own or not own


def _by_hand(pair: _Choice) -> _Choice:
    """Neither action evicts for anything but room."""
    return pair[0]._replace(how=BY_HAND), pair[1]


def _gone_elsewhere(placed: Sequence[PlacedPod], task: TaskView, world: World) -> list[_Choice] | None:
    """Pods on other nodes as who may go; None where one may not."""
    chosen: list[_Choice] = []
    for one in placed:
        there = [occupant for occupant in _there(one.node, world) if occupant.uid == one.uid]
        pairs = [pair for pair in _leaving(there, task, world) if _another_job(pair, world)]
        if not pairs:
            return None
        chosen += pairs
    return chosen


def _in_the_way(turn: Turn, node: NodeView, world: World, families: Collection[str]) -> list[PlacedPod] | None:
    """The pods for which a node refuses the task, other than for the room that they take; None where it is none that
    is there (a mate that a trial has placed)."""
    pod, cluster = turn.task.pod, world.cluster
    if pod is None:
        return []
    ports = host_ports(pod)
    found = [
        one
        for one in cluster.pods
        if one.node == node.name and any(basic.ports_conflict(port, used) for port in ports for used in one.host_ports)
    ]
    if "pod-anti-affinity" in families:
        repellers = repelling(PlacedPod.of(pod), node, cluster.by_name(), cluster.pods)
        if not repellers:
            return None
        found += repellers
    if "volume-limits" in families:
        attaching = _attaching(turn, node, world, frozenset(one.uid for one in found))
        if attaching is None:
            return None
        found += attaching
    return list({one.uid: one for one in found}.values())


def _attaching(turn: Turn, node: NodeView, world: World, gone: frozenset[str]) -> list[PlacedPod] | None:
    """The fewest pods whose volumes have to go from a node so that those of the task can be attached, beside those
    that go anyway; a volume that two use goes with both. None when no few do."""
    pod, cluster = turn.task.pod, world.cluster
    assert pod is not None
    limits = Evaluation(turn.task, pod, cluster).limits
    excess, by_pod = limits.too_many(node) if limits is not None else (0, {})
    candidates = [pair for pair in _leaving(_there(node.name, world), turn.task, world) if _another_job(pair, world)]
    ordered = [pair[1].uid for pair in _ordered(candidates) if pair[1].uid in by_pod and pair[1].uid not in gone]
    for size in range(ATTACHING_MAX + 1):
        for more in combinations(ordered[:PAIRED_MAX], size):
            left = [handles for uid, handles in by_pod.items() if uid not in gone and uid not in more]
            if len(frozenset().union(*by_pod.values())) - len(frozenset().union(*left)) >= excess:
                return [one for one in cluster.pods if one.uid in more]
    return None


def evictions_of_queue(task: TaskView, queue: str, world: World, lack: Callable[[World], Amounts]) -> list[list[Edit]]:
    """The fewest pods of a queue whose going lets it hold `lack` less (what it holds too much with the task, in a
    world): wherever they are, and on each of a few nodes alone."""
    missing = lack(world)
    holders = _holders(queue, world)
    if not missing or _out_of_reach(missing, holders):
        return []
    free = [pair for pair in _leaving(holders, task, world) if _another_job(pair, world)]
    anywhere = _topped_up(free, world, lack, EVICTED_OF_QUEUE_MAX)
    if not anywhere:
        return []
    by_node: dict[str, list[_Choice]] = {}
    for pair in free:
        by_node.setdefault(pair[1].node, []).append(pair)
    enough = [by_node[name] for name in sorted(by_node) if _covers(by_node[name], missing)]
    alone = [_topped_up(there, world, lack, EVICTED_MAX) for there in enough[:ON_ONE_NODE_MAX]]
    return [list(_by_node(found)) for found in (anywhere, *alone) if found]


def _holders(queue: str, world: World) -> list[Occupant]:
    """The pods of a queue that are on nodes, but for those that went already."""
    cluster = world.cluster
    if cluster.holders is not None:
        found = cluster.holders(queue)
    elif cluster.occupants is not None:
        found = [one for node in cluster.nodes for one in cluster.occupants(node.name) if one.queue == queue]
    else:
        found = []
    gone = frozenset(world.gone)
    return [one for one in found if one.key not in gone] if gone else list(found)


def _out_of_reach(missing: Amounts, holders: Sequence[Occupant]) -> bool:
    """Whether not even the largest pods, as many as may go, hold what is missing."""
    for name, amount in missing.items():
        largest = max((1.0 if name == "pods" else one.request.get(name, 0.0) for one in holders), default=0.0)
        if not less_equal(amount, largest * EVICTED_OF_QUEUE_MAX):
            return True
    return False


def _topped_up(free: list[_Choice], world: World, lack: Callable[[World], Amounts], most: int) -> list[_Choice]:
    """The fewest pods that do; more of them where the queue deserves less once they are gone. None when no few do."""
    rest, chosen = _ordered(free), list[_Choice]()
    for _ in range(TOPPED_UP_MAX):
        gone = {pair[1].uid for pair in chosen}
        missing = lack(world.without([pair[1] for pair in chosen]) if chosen else world)
        if not missing:
            return chosen
        more = _fewest(missing, [], [pair for pair in rest if pair[1].uid not in gone], most - len(chosen))
        if not more:
            return []
        chosen += more
    return chosen if not lack(world.without([pair[1] for pair in chosen])) else []


def _by_node(chosen: Sequence[_Choice]) -> list[Evict]:
    nodes: dict[str, list[_Choice]] = {}
    for pair in sorted(chosen, key=lambda pair: pair[1].node):
        nodes.setdefault(pair[1].node, []).append(pair)
    return [_evict(name, pairs) for name, pairs in nodes.items()]


def _evict(node: str, chosen: Sequence[_Choice]) -> Evict:
    hows = {right.how for right, _ in chosen}
    return Evict(node, tuple(one for _, one in chosen), hows.pop() if len(hows) == 1 else BY_HAND)


def _leaving(there: Sequence[Occupant], task: TaskView, world: World) -> list[_Choice]:
    """Who of these could be evicted by somebody at all."""
    return [
        (rights(one, task, world), one)
        for one in there
        if one.key not in world.gone and one.status in LEAVING and not one.critical
    ]


def _ordered(free: list[_Choice]) -> list[_Choice]:
    return sorted(free, key=lambda pair: (not pair[0].allowed, pair[1].priority, pair[1].key))


def _fewest(missing: Amounts, must: list[_Choice], rest: list[_Choice], most: int = EVICTED_MAX) -> list[_Choice]:
    """The smallest choice that covers what is missing, `must` in it; of equals the first in the order of `rest`."""
    if _covers(must, missing):
        return must
    for size in range(1, min(3, most - len(must)) + 1):
        pool = rest if size == 1 else rest[:PAIRED_MAX]
        for more in combinations(pool, size):
            if _covers([*must, *more], missing):
                return [*must, *more]
    chosen = list(must)
    largest = sorted(rest, key=lambda pair: (not pair[0].allowed, -_share(pair[1], missing), pair[1].key))
    for one in largest[: max(0, most - len(must))]:
        chosen.append(one)
        if _covers(chosen, missing):
            return chosen
    return []


def _covers(chosen: Sequence[_Choice], missing: Amounts) -> bool:
    return all(
        less_equal(amount, sum(1.0 if name == "pods" else one.request.get(name, 0.0) for _, one in chosen))
        for name, amount in missing.items()
    )


def _share(one: Occupant, missing: Amounts) -> float:
    return sum(min(1.0, one.request.get(name, 0.0) / amount) for name, amount in missing.items() if amount > 0)


__all__ = ["Turn", "evictions", "evictions_of_queue", "lacking"]
