"""Queues of queues, for the capacity plugin: the tree, its sums, and what each queue may reach.

Owns these. Must not know the plugin. Called by `capacity`.

Source: Volcano's pkg/scheduler/plugins/capacity/capacity.go (buildHierarchicalQueueAttrs, updateAncestors,
checkHierarchicalQueue, getQueueLevel, queueAncestorAtDepth).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from vcledger.scheduler.session.model import INFINITE, SessionQueue, Vector
from vcledger.scheduler.session.plugins.proportion import Attributes

ROOT = "root"


class NoTree(ValueError):
    """The queues don't hang together: one has a parent that there is not, they go round in a circle, or jobs are in a
    queue that others are part of. Nothing is scheduled then, as in Volcano; the text says which."""


def queue_tree(queues: Mapping[str, SessionQueue]) -> dict[str, Attributes]:
    """All queues by name, with what those below them hold, and what each may reach and deserves. Raises NoTree."""
    if ROOT not in queues:
        raise NoTree(f"there is no queue {ROOT}")
    made: dict[str, Attributes] = {}
    for name in sorted(queues):
        _hang(name, queues, made, ())
    children: dict[str, list[Attributes]] = {}
    for name in sorted(made):
        if name != ROOT:
            children.setdefault(made[name].above[-1].queue.name, []).append(made[name])
    for name in children:
        made[name].is_leaf = False
        if queues[name].has_jobs:
            raise NoTree(f"queue {name} has jobs, and queues that are part of it")
    for one in made.values():
        for above in one.above:
            _sum_up(above, one.queue)
    _limit(made[ROOT], children, made[ROOT].queue.capability)
    return made


def _hang(
    name: str, queues: Mapping[str, SessionQueue], made: dict[str, Attributes], below: tuple[str, ...]
) -> Attributes:
    if name in made:
        return made[name]
    if name in below:
        raise NoTree(f"queue {name} is part of itself, by way of {', '.join(below)}")
    queue = queues[name]
    above: list[Attributes] = []
    if name != ROOT:
        parent = queue.parent or ROOT
        if parent not in queues:
            raise NoTree(f"queue {name} is part of {parent}, which there is not")
        over = _hang(parent, queues, made, (*below, name))
        above = [*over.above, over]
    found = made[name] = Attributes(
        queue=queue,
        limit=queue.capability,
        deserved=np.maximum(queue.deserved, queue.guarantee) if name != ROOT else queue.deserved,
        allocated=queue.allocated,
        inqueue=queue.inqueue,
        elastic=queue.elastic,
        above=above,
    )
    return found


def _sum_up(above: Attributes, queue: SessionQueue) -> None:
    above.allocated = above.allocated + queue.allocated
    above.inqueue = above.inqueue + queue.inqueue
    above.elastic = above.elastic + queue.elastic


def _limit(one: Attributes, children: Mapping[str, list[Attributes]], capability: Vector) -> None:
    """What the queues that are part of one may reach: what it may, less what their siblings are guaranteed, and their
    own capability, which is the parent's where they state none."""
    parts = children.get(one.queue.name, [])
    guaranteed = _total((part.queue.guarantee for part in parts), len(capability))
    if one.queue.name == ROOT:
        one.deserved = _total((part.deserved for part in parts), len(capability))
    for part in parts:
        own = np.where(part.queue.capability == INFINITE, capability, part.queue.capability)
        part.limit = np.minimum(np.maximum(one.limit - guaranteed, 0.0) + part.queue.guarantee, own)
        _limit(part, children, own)


def _total(vectors: Iterable[Vector], width: int) -> Vector:
    total: Vector = np.zeros(width)
    for vector in vectors:
        total = total + vector
    return total


def common_level(left: Attributes, right: Attributes) -> int:
    """How deep the two are still part of the same queues: 0 for the outermost, or none at all."""
    level = 0
    for depth, (mine, other) in enumerate(zip(left.above, right.above, strict=False)):
        if mine.queue.name != other.queue.name:
            break
        level = depth
    return level


def below_common(one: Attributes, level: int) -> Attributes:
    """The queue, or what it is part of just below a level."""
    return one.above[level + 1] if level + 1 < len(one.above) else one


def above_at(one: Attributes, depth: int) -> Attributes | None:
    """The queue above, so many steps out; None beyond the outermost."""
    return one.above[-depth] if 0 < depth <= len(one.above) else None


__all__ = ["ROOT", "NoTree", "above_at", "below_common", "common_level", "queue_tree"]
