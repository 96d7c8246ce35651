"""The edits that a change is made of: what each does to the world, how it is told, and how large it is.

Owns the edits of nodes, and what all edits have in common. Must not know which of them is needed where, nor whether it
helps. Called by the modules of `projections.diagnosis` that look for changes, and by `vcledger.why_node` and
`vcledger.why_queue`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Protocol

from projections.diagnosis.amounts import counted, show
from projections.diagnosis.model import Step
from projections.diagnosis.views import Amounts, NodeView, Occupant
from projections.diagnosis.world import World, empty_like, roomier, with_labels, with_spec
from volcano.objects.core import Taint
from volcano.objects.selectors import describe_taint

NEW_NODE = "new-node-"
"""How nodes are called that are added on trial."""


class Edit(Protocol):
    """One edit. `touches` says how large it is: the objects that it changes, a new node counted thrice, a label twice;
    `share` is what it has to find of what is asked; `rank` puts equals in order, what is done most lightly first."""

    rank: int

    def apply(self, world: World) -> World: ...

    def step(self) -> Step: ...

    def text(self) -> str: ...

    @property
    def touches(self) -> int: ...

    @property
    def share(self) -> float: ...


class One:
    """An edit of one object, without amounts."""

    rank = 3

    @property
    def touches(self) -> int:
        return 1

    @property
    def share(self) -> float:
        return 0.0


def amounts_text(amounts: Amounts) -> dict[str, str]:
    """Amounts as people write them, in the scheduler's order."""
    names = [name for name in ("cpu", "memory") if amounts.get(name)]
    names += sorted(name for name in amounts if name not in {"cpu", "memory"} and amounts[name])
    return {name: show(name, amounts[name]) for name in names}


def more_of(amounts: Amounts) -> str:
    """`1.5 more cpu, 2Gi more memory`."""
    return ", ".join(f"{amount} more {name}" for name, amount in amounts_text(amounts).items())


# --- nodes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Room(One):
    """A node has more of something, however that comes about. `asked` is the request that is short."""

    rank = 0

    node: str
    amounts: Amounts
    asked: Amounts

    def apply(self, world: World) -> World:
        return world.with_node(self.node, lambda node: roomier(node, self.amounts))

    def step(self) -> Step:
        return Step(action="more-room", object=f"Node {self.node}", amounts=amounts_text(self.amounts))

    def text(self) -> str:
        return f"{self.node}: {more_of(self.amounts)}"

    @property
    def touches(self) -> int:
        """For how many pods of the kind the room is, begun ones counted."""
        asked = [amount / self.asked[name] for name, amount in self.amounts.items() if self.asked.get(name, 0.0) > 0]
        return max(1, ceil(max(asked, default=1.0) - 1e-9))

    @property
    def share(self) -> float:
        return sum(amount / max(self.asked.get(name, 0.0), amount) for name, amount in sorted(self.amounts.items()))


@dataclass(frozen=True)
class Evict(One):
    """Pods leave a node."""

    rank = 1

    node: str
    pods: tuple[Occupant, ...]
    how: str = ""

    def apply(self, world: World) -> World:
        return world.without(self.pods)

    def step(self) -> Step:
        keys = [one.key for one in self.pods]
        return Step(action="evict", object=f"Node {self.node}", pods=keys, count=len(keys), value=self.how)

    def text(self) -> str:
        named = ", ".join(f"{one.key} (priority {one.priority})" for one in self.pods)
        return f"evict {counted(len(self.pods), 'pod')} on {self.node}: {named}"

    @property
    def touches(self) -> int:
        return len(self.pods)


@dataclass(frozen=True)
class Untaint(One):
    """A taint is taken off a node."""

    node: str
    taint: Taint

    def apply(self, world: World) -> World:
        return world.with_node(self.node, self._off)

    def _off(self, node: NodeView) -> NodeView:
        taints = (node.node.spec.taints if node.node is not None else None) or []
        return with_spec(node, taints=[one for one in taints if one != self.taint])

    def step(self) -> Step:
        return Step(action="remove-taint", object=f"Node {self.node}", value=describe_taint(self.taint))

    def text(self) -> str:
        return f"{self.node}: taint {describe_taint(self.taint)} removed"


@dataclass(frozen=True)
class Uncordon(One):
    """A node is made schedulable again."""

    rank = 0

    node: str

    def apply(self, world: World) -> World:
        return world.with_node(self.node, lambda node: with_spec(node, unschedulable=False))

    def step(self) -> Step:
        return Step(action="uncordon", object=f"Node {self.node}")

    def text(self) -> str:
        return f"{self.node}: uncordoned"


@dataclass(frozen=True)
class Label(One):
    """A node gets the labels that are asked for."""

    rank = 8

    node: str
    labels: tuple[tuple[str, str], ...]

    def apply(self, world: World) -> World:
        return world.with_node(self.node, lambda node: with_labels(node, dict(self.labels)))

    def step(self) -> Step:
        return Step(action="add-label", object=f"Node {self.node}", value=self._shown())

    def text(self) -> str:
        return f"{self.node}: label {self._shown()} added"

    def _shown(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.labels)

    @property
    def touches(self) -> int:
        return 2


@dataclass(frozen=True)
class AddNodes(One):
    """New nodes of the kind of one that there is (`made` is one of them); `like` names that one, or is '' where the
    node is made to measure for a task that asks for `asked`."""

    rank = 7

    count: int
    made: NodeView
    like: str
    asked: Amounts

    def apply(self, world: World) -> World:
        before = world.cluster.named(NEW_NODE)
        names = [f"{NEW_NODE}{number}" for number in range(before + 1, before + self.count + 1)]
        return world.with_nodes({}, [empty_like(self.made, name) for name in names])

    def step(self) -> Step:
        amounts = amounts_text(self._told())
        return Step(action="add-nodes", object="Node", amounts=amounts, value=self.like, count=self.count)

    def text(self) -> str:
        if self.like:
            return f"{counted(self.count, 'more node')} like {self.like}"
        size = ", ".join(f"{name} {amount}" for name, amount in amounts_text(self._told()).items())
        return f"{counted(self.count, 'new node')} with {size}"

    def _told(self) -> Amounts:
        """Of its size what somebody asks for."""
        size = self.made.allocatable
        return {name: size[name] for name in size if name != "pods" and self.asked.get(name, 0.0) > 0}

    @property
    def touches(self) -> int:
        return 3 * self.count
