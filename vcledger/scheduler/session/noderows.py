"""The rows of the node table as the cache has the nodes, and which tasks of the session are on them.

Owns how a node of the cache becomes a row. Must not know jobs nor queues. Called by
`vcledger.scheduler.session.mirror`, which says whose nodes may have changed.

A row that comes out as it was is no change: most events about a pod (it starts, its status says more) leave the amounts
and pods of its node as they are, and whoever keeps something by row need not look at it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from projections.cache.state import NodeInfo
from vcledger.scheduler.session.model import Resources, SessionTask, Vector
from vcledger.scheduler.session.nodes import NodeTable
from vcledger.scheduler.session.reader import Reader
from volcano.objects.core import Node
from volcano.objects.status import TERMINATED_STATUSES

if TYPE_CHECKING:
    from vcledger.scheduler.session.mirror import Mirror

_TERMINATED = frozenset(int(status) for status in TERMINATED_STATUSES)


class _Row(NamedTuple):
    """What a row was made from: amounts (idle, used, releasing, pipelined), what there is, the number of pods there and
    its limit, and which tasks they are."""

    amounts: tuple[list[float], ...]
    allocatable: list[float]
    pods: int
    pods_max: int
    tasks: frozenset[str]


class NodeRows:
    """Fills `table`. A task that is `held` has taken its request there, though the cache does not say so."""

    def __init__(self, mirror: Mirror, resources: Resources, reader: Reader) -> None:
        self.mirror, self.reader = mirror, reader
        self.table = NodeTable(resources)
        self._on: dict[str, dict[str, SessionTask]] = {}
        self._held: dict[str, dict[str, SessionTask]] = {}
        self._rows: dict[str, _Row] = {}
        self._objects: dict[str, Node | None] = {}
        self._total: Vector | None = None

    # --- tasks --------------------------------------------------------------------------------------------------------

    def put(self, task: SessionTask, *, held: bool) -> None:
        """A task that has not ended is on its node."""
        if task.status not in _TERMINATED:
            self._on.setdefault(task.node, {})[task.uid] = task
        if held:
            self._held.setdefault(task.node, {})[task.uid] = task

    def drop(self, task: SessionTask) -> None:
        """The reverse."""
        for index in (self._on, self._held):
            there = index.get(task.node)
            if there is not None:
                there.pop(task.uid, None)

    def holds(self, task: SessionTask) -> bool:
        """Whether a task is held on its node."""
        there = self._held.get(task.node)
        return there is not None and task.uid in there

    # --- rows ---------------------------------------------------------------------------------------------------------

    def set(self, names: Iterable[str]) -> None:
        """The rows of some nodes as the cache has them now; the table has others when nodes came or went."""
        nodes, table = self.mirror.cache.nodes, self.table
        found = {name: nodes.get(name) for name in names}
        wanted = {name: info for name, info in found.items() if info is not None and info.ready}
        gone = [name for name in found if name not in wanted and name in table.row]
        if gone or any(name not in table.row for name in wanted):
            without = set(gone)
            kept = [name for name in table.names if name not in without]
            table.rename({*kept, *wanted})
            self._total = None
            for name in gone:
                self._rows.pop(name, None)
                self._objects.pop(name, None)
        for name, info in wanted.items():
            self._set(table.row[name], info)

    def _set(self, row: int, info: NodeInfo) -> None:
        table, name, listed = self.table, info.name, self.reader.listed
        if info.images:
            self.mirror.images_count()
        amounts = (listed(info.idle), listed(info.used), listed(info.releasing), listed(info.pipelined))
        allocatable = listed(info.allocatable, reported=True)
        there, held = self._on.setdefault(name, {}), self._held.get(name)
        made = _Row(amounts, allocatable, info.task_count, info.allocatable.max_task_num, frozenset(there))
        before, table.infos[row], table.tasks[row] = self._rows.get(name), info, there
        news = self._object_changed(row, info) or before is None
        if made == before and not held and not news:
            return
        if before is None or before.allocatable != allocatable:
            table.allocatable[row], self._total = allocatable, None
        table.set(row, amounts, made.pods, made.pods_max)
        self._rows[name] = made
        if held:
            del self._rows[name]
            for task in held.values():
                table.hold(row, task)
        table.changed(row, object_too=news)

    def _object_changed(self, row: int, info: NodeInfo) -> bool:
        """Whether a node's object is another to predicates and scores; most often it is the very same."""
        if self._objects.get(info.name, self) is info.node:
            return False
        self._objects[info.name] = info.node
        return self.mirror.feasible.object_changed(row, info.node)

    @property
    def total(self) -> Vector:
        """All that the nodes have."""
        if self._total is None:
            self._total = self.table.allocatable.sum(axis=0)
        return self._total


__all__ = ["NodeRows"]
