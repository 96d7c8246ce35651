"""What opens the way into a queue, and how many nodes would have to be added.

Owns these options and the searches for their numbers. Must not know single nodes. Called by
`projections.diagnosis.changes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from projections.diagnosis import quotas
from projections.diagnosis.amounts import add, exceeding_asked, subtract
from projections.diagnosis.edits import NEW_NODE, AddNodes, Edit
from projections.diagnosis.edits_group import IgnoreProvisioner, OpenQueue, RaiseCapability, RaiseQuota, RaiseWeight
from projections.diagnosis.evicting import evictions_of_queue
from projections.diagnosis.nodes import Evaluation, refuses
from projections.diagnosis.proof import Held, obstacle, over_its_share, up_to
from projections.diagnosis.queues import capability, cluster_total, enqueue_gates, real_capability
from projections.diagnosis.views import ClusterView, NodeView, TaskView
from projections.diagnosis.world import World, empty_like
from volcano.objects.core import Node, NodeSpec
from volcano.objects.meta import ObjectMeta
from volcano.objects.quotas import Exceeded

KINDS_MAX, NODES_MAX, WEIGHT_MAX = 4, 1_000, 10_000
NODES_ADDED_MAX = 32
ATTACHMENTS = "attachable-volumes-csi-"


def queue_options(what: str, world: World, held: Held) -> list[list[Edit]]:
    """What lifts an obstacle that is the queue's: not there, closed, over its capability, at its share."""
    name = _queue(world)
    if what == "queue":
        return [[OpenQueue(name, name not in world.cluster.known_queues())]]
    if what == "enqueue":
        found = [_capability(name, world), quota_raised(world)]
        return [*(one for one in found if one), *_cluster_larger(world, held)]
    if what == "share":
        return [
            *_ignored(name, world),
            *_weight(name, world, held),
            *_holding_less(name, world, held),
            *_larger(world, held),
        ]
    return _ignored(name, world) if what == "ghost" else []


def _queue(world: World) -> str:
    group = world.group
    return group.pod_group.spec.queue if group is not None and group.pod_group is not None else ""


def _capability(name: str, world: World) -> list[Edit]:
    """The capability that would take the group in, where its own limit is what holds it."""
    view, asked = world.cluster.queues.get(name), dict(world.asked_min)
    if view is None:
        return []
    own, limit = capability(view), real_capability(view, world.cluster)
    needed = add(subtract(add(view.allocated, view.inqueue), view.elastic), asked)
    over = [one for one in exceeding_asked(needed, limit, asked) if one in own]
    if not over:
        return []
    return [RaiseCapability(name, {one: needed[one] for one in over}, {one: own[one] for one in over})]


def quota_raised(world: World) -> list[Edit]:
    """The quota that keeps the group out, with as much as lets it in."""
    found = quotas.gate(world.group, world.cluster) if world.group is not None else None
    return [raising(*found)] if found is not None else []


def raising(key: str, over: Sequence[Exceeded]) -> RaiseQuota:
    """A quota with room for what it has not."""
    before = tuple((one.name, one.hard) for one in over)
    return RaiseQuota(key, tuple(quotas.raised(over).items()), before)


def _cluster_larger(world: World, held: Held) -> list[list[Edit]]:
    """More nodes, of a kind that has what is short."""
    group = world.group
    if group is None:
        return []
    gates = enqueue_gates(group, dict(world.asked_min), world.cluster)
    if all(gate.verdict != "cluster-overused" for gate in gates):
        return []
    tasks = [task for task in group.tasks if task.pod is not None]
    asked = dict(world.asked_min)
    options: list[list[Edit]] = []
    for node, like in shapes(world, tasks[0]) if tasks else [(kind, kind.name) for kind in node_kinds(world)]:
        count = fewest(
            lambda number, node=node, like=like: (  # type: ignore[misc]
                obstacle(AddNodes(number, node, like, asked).apply(world), held) != "enqueue"
            )
        )
        if count:
            options.append([AddNodes(count, node, like, asked)])
    return options


def _weight(name: str, world: World, held: Held) -> list[list[Edit]]:
    """The smallest weight with which the queue deserves enough, if there is one."""
    view = world.cluster.queues.get(name)
    if view is None:
        return []
    before = view.queue.spec.weight
    weight = fewest_if_any(
        lambda more: obstacle(RaiseWeight(name, before, before + more).apply(world), held) != "share", WEIGHT_MAX
    )
    return [[RaiseWeight(name, before, before + weight)]] if weight else []


def _holding_less(name: str, world: World, held: Held) -> list[list[Edit]]:
    """Pods of the queue that go, so that it holds less."""
    task = world.task or next(iter(up_to(world)), None)
    if task is None:
        return []
    return evictions_of_queue(task, name, world, lambda then: over_its_share(then, held.ghost))


def _larger(world: World, held: Held) -> list[list[Edit]]:
    """As many more nodes as make the queue's share large enough, of each kind that would take the task too."""
    task, options = world.task or next(iter(up_to(world)), None), list[list[Edit]]()
    for node, like in shapes(world, task) if task is not None else ():
        more = partial(AddNodes, made=node, like=like, asked=task.request if task is not None else {})
        count = fewest_if_any(
            lambda number, more=more: obstacle(more(number).apply(world), held) != "share",  # type: ignore[misc]
            NODES_ADDED_MAX,
        )
        if count:
            options.append([more(count)])
    return options


def _ignored(name: str, world: World) -> list[list[Edit]]:
    """Drivers' attachments that the queue's jobs ask for and no node has."""
    view = world.cluster.queues.get(name)
    ghosts = [key for key in ghost_attachments(world.cluster) if view is not None and view.requested.get(key, 0.0) > 0]
    return [[IgnoreProvisioner(key, key.removeprefix(ATTACHMENTS)) for key in ghosts]] if ghosts else []


def ghost_attachments(cluster: ClusterView) -> tuple[str, ...]:
    """The attachments that some queue's jobs ask for and no node has."""
    have = cluster_total(cluster)
    asked = {key for view in cluster.queues.values() for key, amount in view.requested.items() if amount > 0}
    return tuple(key for key in sorted(asked) if key.startswith(ATTACHMENTS) and have.get(key, 0.0) <= 0)


# --- nodes to add -------------------------------------------------------------------------------------------------


def more_nodes(world: World, task: TaskView, held: Held, small: World) -> Iterator[list[Edit]]:
    """As many new nodes as the subject needs, of each kind that would take the task, else made to measure. `small` is
    the world in which the number is searched."""
    asked = task.request
    most = len(world.group.tasks) if world.group is not None and world.group.tasks else 1
    for node, like in shapes(world, task):
        count = fewest(
            lambda number, node=node, like=like: not obstacle(AddNodes(number, node, like, asked).apply(small), held),  # type: ignore[misc]
            most,
        )
        if count:
            yield [AddNodes(count, node, like, asked)]


def shapes(world: World, task: TaskView) -> list[tuple[NodeView, str]]:
    """Nodes that could be added for a task, each with the name of the one that it is like: of the kinds that there are
    those that would take it, else one made to measure ('')."""
    kinds = [(kind, kind.name) for kind in node_kinds(world) if _takes(kind, task, world)][:KINDS_MAX]
    made = to_measure(task, world) if not kinds else None
    return kinds or ([(made, "")] if made is not None and _takes(made, task, world) else [])


def node_kinds(world: World) -> list[NodeView]:
    """One node of each kind that there is, by size and taints; the smallest first."""
    found: dict[object, NodeView] = {}
    sizes: dict[int, object] = {}
    for node in world.cluster.schedulable_nodes():
        taints = tuple(node.node.spec.taints) if node.node is not None and node.node.spec.taints else ()
        size = sizes.get(id(node.allocatable))
        if size is None:
            size = sizes[id(node.allocatable)] = frozenset(node.allocatable.items())
        found.setdefault((size, taints), node)
    return sorted(found.values(), key=lambda node: (sum(node.allocatable.values()), node.name))


def _takes(kind: NodeView, task: TaskView, world: World) -> bool:
    """Whether an empty node of that kind would take the task."""
    if task.pod is None:
        return False
    node = empty_like(kind, f"{NEW_NODE}1")
    return not refuses(Evaluation(task, task.pod, world.with_nodes({}, [node]).cluster).on(node))


def to_measure(task: TaskView, world: World) -> NodeView | None:
    """A node that has what the task asks, at least as large as the smallest that there is, with the labels that it
    selects and no taint."""
    if task.pod is None:
        return None
    sizes = [node.allocatable for node in world.cluster.schedulable_nodes()]
    least = min(sizes, key=lambda size: sum(size.values())) if sizes else {}
    asked = {name: amount for name, amount in task.request.items() if amount > 0}
    amounts = {name: max(asked.get(name, 0.0), least.get(name, 0.0)) for name in dict.fromkeys([*least, *asked])}
    amounts["pods"] = max(amounts.get("pods", 0.0), 110.0)
    labels = {"kubernetes.io/hostname": "new-node", **(task.pod.spec.node_selector or {})}
    body = Node(metadata=ObjectMeta(name="new-node", uid="new-node", labels=labels), spec=NodeSpec())
    return NodeView(name="new-node", node=body, allocatable=amounts, idle=amounts, pods_max=int(amounts["pods"]))


def fewest(enough: Callable[[int], bool], most: int = NODES_MAX) -> int:
    """The smallest number from 1 to `most` that is enough, taken that more never hurts; 0 when none is."""
    high = 1
    while not enough(high):
        if high >= most:
            return 0
        high = min(most, high * 2)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high


def fewest_if_any(enough: Callable[[int], bool], most: int) -> int:
    """`fewest` for what mostly is never enough: one is asked about, then whether the most is, before any between."""
    if enough(1):
        return 1
    return fewest(enough, most) if enough(most) else 0


__all__ = ["fewest", "more_nodes", "node_kinds", "queue_options", "to_measure"]
