"""What would make one node take one task: from each refusal to the edits that lift it.

Owns that mapping, and the choice of whom to evict. Must not know gangs nor what is shown. Called by
`projections.diagnosis.changes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from projections.diagnosis import basic
from projections.diagnosis.amounts import exceeding, less_equal, subtract
from projections.diagnosis.claims import class_name, fully_bound
from projections.diagnosis.edits import (
    DropAffinity,
    DropSelector,
    DropSpread,
    Edit,
    Evict,
    Label,
    Room,
    Tolerate,
    Uncordon,
    Untaint,
)
from projections.diagnosis.edits_group import AddVolume
from projections.diagnosis.reasons import Reason
from projections.diagnosis.victims import BY_HAND, Rights, rights
from projections.diagnosis.views import Amounts, NodeView, Occupant, TaskView, claim_names, host_ports
from projections.diagnosis.volumes import storage_asked
from projections.diagnosis.world import World
from volcano.objects.selectors import node_affinity_matches, untolerated_taints

EVICTED_MAX = 8
"""More evictions on one node are no small change."""

FIXED_LABELS = ("kubernetes.io/", "topology.kubernetes.io/", "node.kubernetes.io/", "failure-domain.beta.")
"""How labels begin that say what a node is; nobody gives it others."""

PAIRED_MAX = 24
"""Of how many pods every pair and triple is tried."""


class Way(NamedTuple):
    """How refusals are lifted: room by evictions (or just found), constraints on the pod (or on the node)."""

    evicting: bool
    on_pod: bool


WAYS = (Way(False, True), Way(True, True), Way(False, False), Way(True, False))


def differs(way: Way, found: Sequence[Reason]) -> bool:
    """Whether a way lifts some of the refusals otherwise than the plainest does."""
    families = {reason.family for reason in found if reason.scheduler}
    if way.evicting and not families & {"resources", "pod-count", "ports"}:
        return False
    return way.on_pod or bool(families & {"taints", "node-affinity"})


class Turn(NamedTuple):
    """A task at its turn: what a trial has put on each node before it."""

    task: TaskView
    taken: Mapping[str, Amounts]


def remedy(turn: Turn, node: NodeView, found: Sequence[Reason], world: World, way: Way) -> list[Edit] | None:
    """The edits with which the node should take the task; None where none is known for a refusal. Whether they do is
    for the proof to say."""
    edits: list[Edit] = []
    evicting = False
    for reason in found:
        if not reason.scheduler:
            continue
        if reason.family in {"resources", "pod-count"} or (reason.family == "ports" and way.evicting):
            if way.evicting:
                evicting = True
            elif not any(isinstance(edit, Room) for edit in edits):
                edits.append(Room(node.name, lacking(turn, node), turn.task.request))
            continue
        more = _lifting(reason.family, turn, node, world, way)
        if not more:
            return None
        edits += [edit for edit in more if edit not in edits]
    if evicting:
        evict = evictions(turn, node, world)
        if evict is None:
            return None
        edits.insert(0, evict)
    return edits


def lacking(turn: Turn, node: NodeView) -> Amounts:
    """What the node has too little of, what is being released counted in."""
    available = subtract(node.future_idle, turn.taken.get(node.name, {}))
    request = turn.task.request
    missing = {name: request.get(name, 0.0) - available.get(name, 0.0) for name in exceeding(request, available)}
    if node.pods_max is not None and node.pods >= node.pods_max:
        missing["pods"] = float(node.pods + 1 - node.pods_max)
    return missing


def _lifting(family: str, turn: Turn, node: NodeView, world: World, way: Way) -> list[Edit]:
    """The edits against one refusal that is not about room; none where none is known."""
    task = turn.task
    if family == "unschedulable":
        return [Uncordon(node.name)]
    if family == "taints" and node.node is not None and task.pod is not None:
        taints = untolerated_taints(node.node.spec.taints, task.pod.spec.tolerations)
        return [Tolerate(task, one) if way.on_pod else Untaint(node.name, one) for one in taints]
    if family == "node-affinity":
        return _labels(task, node, way)
    if family == "pod-affinity":
        return [DropAffinity(task, "pod")]
    if family == "pod-anti-affinity":
        return [DropAffinity(task, "pod-anti")]
    if family == "spread":
        return [DropSpread(task)]
    if family in {"claims", "volumes", "volume-zone"}:
        return _volumes(task, node, world)
    return []


def _labels(task: TaskView, node: NodeView, way: Way) -> list[Edit]:
    """The labels that the pod asks for and the node has not: asked no more, or given to the node; its required node
    affinity where that is what does not match."""
    if task.pod is None:
        return []
    spec = task.pod.spec
    unmet = tuple(key for key, value in sorted((spec.node_selector or {}).items()) if node.labels.get(key) != value)
    edits: list[Edit] = []
    if unmet and way.on_pod:
        edits.append(DropSelector(task, unmet))
    elif unmet:
        if any(key.startswith(FIXED_LABELS) for key in unmet):
            return []
        edits.append(Label(node.name, tuple((key, (spec.node_selector or {})[key]) for key in unmet)))
    if not node_affinity_matches(None, spec.affinity, node.labels, node.name):
        edits.append(DropAffinity(task, "node"))
    return edits


def _volumes(task: TaskView, node: NodeView, world: World) -> list[Edit]:
    """A volume for each claim that has none, bound where the scheduler may not bind it itself. A claim whose volume
    lies elsewhere has none of this."""
    edits: list[Edit] = []
    for name, _ in claim_names(task.pod) if task.pod is not None else ():
        claim = world.cluster.claims.get(f"{task.namespace}/{name}")
        if claim is not None and claim.metadata.deletion_timestamp is not None:
            return []
        if claim is not None and fully_bound(claim) and claim.spec.volume_name in world.cluster.volumes:
            continue
        wanted = class_name(claim) if claim is not None else ""
        known = world.cluster.classes.get(wanted)
        delayed = known is not None and known.volume_binding_mode == "WaitForFirstConsumer"
        bound = claim is None or not delayed or bool(claim.spec.volume_name)
        size = storage_asked(claim) if claim is not None else 0.0
        edits.append(AddVolume(task, name, claim, "" if bound else node.name, wanted, size, bound))
    return edits


# --- evictions ----------------------------------------------------------------------------------------------------


def evictions(turn: Turn, node: NodeView, world: World) -> Evict | None:
    """The fewest pods whose going makes the room: those that the scheduler itself could evict first, then by priority,
    lowest first. None when no few do."""
    own = world.group.key if world.group is not None else ""
    held = _in_the_way(turn, node, world)
    free = [(right, one) for right, one in _leaving(turn, node, world) if one.job != own or not own]
    must = [(right, one) for right, one in free if one.uid in held]
    if len(must) < len(held):
        return None
    return _evict(node, lacking(turn, node), must, [pair for pair in free if pair[1].uid not in held])


def evictions_of_queue(turn: Turn, node: NodeView, queue: str, world: World) -> Evict | None:
    """The fewest pods of a queue on a node that hold what the task asks: so that the queue holds less."""
    free = [(right, one) for right, one in _leaving(turn, node, world) if one.queue == queue]
    asked = {name: amount for name, amount in turn.task.request.items() if amount > 0}
    return _evict(node, asked, [], free)


_Choice = tuple[Rights, Occupant]


def _leaving(turn: Turn, node: NodeView, world: World) -> list[_Choice]:
    """Who on the node could be evicted by somebody at all."""
    there = world.cluster.occupants(node.name) if world.cluster.occupants is not None else ()
    return [
        (rights(one, turn.task, world), one)
        for one in there
        if one.key not in world.gone and one.status in {"Running", "Bound", "Binding"} and not one.critical
    ]


def _evict(node: NodeView, missing: Amounts, must: list[_Choice], free: list[_Choice]) -> Evict | None:
    rest = sorted(free, key=lambda pair: (not pair[0].allowed, pair[1].priority, pair[1].key))
    chosen = _fewest(missing, must, rest)
    if not chosen:
        return None
    hows = {right.how for right, _ in chosen}
    how = hows.pop() if len(hows) == 1 else BY_HAND
    return Evict(node.name, tuple(one for _, one in chosen), how)


def _in_the_way(turn: Turn, node: NodeView, world: World) -> frozenset[str]:
    """Uids of pods on the node that hold a host port which the task wants."""
    wanted = host_ports(turn.task.pod) if turn.task.pod is not None else ()
    return frozenset(
        pod.uid
        for pod in world.cluster.pods
        if pod.node == node.name and any(basic.ports_conflict(port, used) for port in wanted for used in pod.host_ports)
    )


def _fewest(missing: Amounts, must: list[_Choice], rest: list[_Choice]) -> list[_Choice]:
    """The smallest choice that covers what is missing, `must` in it; of equals the first in the order of `rest`."""
    if must and _covers(must, missing):
        return must
    for size in (1, 2, 3):
        pool = rest if size == 1 else rest[:PAIRED_MAX]
        for more in combinations(pool, size):
            if _covers([*must, *more], missing):
                return [*must, *more]
    chosen = list(must)
    largest = sorted(rest, key=lambda pair: (not pair[0].allowed, -_share(pair[1], missing), pair[1].key))
    for one in largest[: EVICTED_MAX - len(must)]:
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
