"""The nodes in columns: what each has, holds, releases and has promised, one row a node, one column a resource.

Owns the numbers. Must not know predicates nor plugins. Filled by `mirror`, changed by `statement`, read by `feasible`,
the plugins' scores and the actions.

Source: Volcano's api.NodeInfo. Rows stand in the order of names, so that equal scores have a stable order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from projections.cache.state import NodeInfo
from vcledger.scheduler.session.model import Resources, SessionTask, Vector

Columns = NDArray[np.float64]
Rows = NDArray[np.intp]


class NodeTable:
    """The nodes of a session. `allocatable`, `idle`, `used`, `releasing` and `pipelined` have the shape (nodes,
    resources); `tasks` the tasks on each node by uid; `pod_counts` the number of pods there as the predicates count
    them (placed and promised ones too, evicted ones not), `pods_max` its limit on it (0: none).

    Whoever keeps something by row notes `changes`, the number of changes so far, and asks for those since then
    (`changed_since`); `epoch` is another once rows have moved. `object_changes` is the same for the nodes' objects."""

    def __init__(self, resources: Resources, names: Iterable[str] = ()) -> None:
        self.resources = resources
        self.names: list[str] = sorted(names)
        self.row: dict[str, int] = {name: row for row, name in enumerate(self.names)}
        shape = (len(self.names), resources.width)
        self.allocatable: Columns = np.zeros(shape)
        self._show(np.zeros((4, *shape)))
        self.pod_counts: NDArray[np.int64] = np.zeros(len(self.names), dtype=np.int64)
        self.pods_max: NDArray[np.int64] = np.zeros(len(self.names), dtype=np.int64)
        self.infos: list[NodeInfo | None] = [None] * len(self.names)
        self.tasks: list[dict[str, SessionTask]] = [{} for _ in self.names]
        self.epoch = 0
        self._listed: tuple[int, int, Rows] | None = None
        self._thrown: dict[str, int] = {}
        self._number()
        self._saved: dict[int, tuple[Columns, int]] | None = None

    def _show(self, amounts: Columns) -> None:
        """The four columns of amounts lie in one array, so that a row of all four is set at once."""
        self._amounts = amounts
        self.idle, self.used, self.releasing, self.pipelined = amounts

    def __len__(self) -> int:
        return len(self.names)

    @property
    def version(self) -> tuple[int, int]:
        """Equal as long as no row has changed."""
        return self.epoch, self.changes

    @property
    def objects_version(self) -> tuple[int, int]:
        """The same for the nodes' objects."""
        return self.epoch, self.object_changes

    def changed_since(self, changes: int) -> Rows:
        """The rows that have changed since there were so many changes."""
        if self.changes - changes == 1:
            return np.array((self._last,), dtype=np.intp)
        return np.flatnonzero(self._stamps > changes)

    def objects_changed_since(self, changes: int) -> Rows:
        """The same for the nodes' objects."""
        return np.flatnonzero(self._object_stamps > changes)

    def _number(self) -> None:
        self.changes = self.object_changes = self._last = 0
        self._stamps: NDArray[np.int64] = np.zeros(len(self.names), dtype=np.int64)
        self._object_stamps: NDArray[np.int64] = np.zeros(len(self.names), dtype=np.int64)

    def _stamp(self, row: int) -> None:
        self.changes += 1
        self._stamps[row] = self.changes
        self._last = row

    def future_idle(self, rows: Rows | slice = slice(None)) -> Columns:
        """Idle plus what is being released less what is promised (NodeInfo.FutureIdle)."""
        future: Columns = self.idle[rows] + self.releasing[rows] - self.pipelined[rows]
        return future

    def listed_twice(self, seed: int, thrown: Callable[..., int]) -> Rows:
        """The rows in an order that follows from a seed and the nodes' names, twice over, so that whoever goes round
        takes a slice; `thrown` makes numbers of both."""
        known = self._listed
        if known is None or known[0] != self.epoch or known[1] != seed:
            if known is None or known[1] != seed:
                self._thrown = {}
            place = self._thrown
            place.update({name: thrown("listed", name) for name in self.names if name not in place})
            rows = sorted(range(len(self.names)), key=lambda row: (place[self.names[row]], row))
            known = self._listed = self.epoch, seed, np.array(rows * 2, dtype=np.intp)
        return known[2]

    # --- what a session does ------------------------------------------------------------------------------------------

    def take(self, row: int, task: SessionTask) -> None:
        """The task uses what is idle there."""
        self._touch(row)
        self.idle[row] -= task.request
        self.used[row] += task.request
        self._come(row, task)

    def give_back(self, row: int, task: SessionTask) -> None:
        """The reverse of `take`."""
        self._touch(row)
        self.idle[row] += task.request
        self.used[row] -= task.request
        self._go(row, task)

    def promise(self, row: int, task: SessionTask) -> None:
        """The task waits for what is being released there."""
        self._touch(row)
        self.pipelined[row] += task.request
        self._come(row, task)

    def break_promise(self, row: int, task: SessionTask) -> None:
        """The reverse of `promise`."""
        self._touch(row)
        self.pipelined[row] -= task.request
        self._go(row, task)

    def release(self, row: int, request: Vector) -> None:
        """A task there is told to go: what it uses is being released."""
        self._touch(row)
        self.releasing[row] += request
        self.pod_counts[row] -= 1

    def keep(self, row: int, request: Vector) -> None:
        """The reverse of `release`."""
        self._touch(row)
        self.releasing[row] -= request
        self.pod_counts[row] += 1

    def _come(self, row: int, task: SessionTask) -> None:
        self.tasks[row][task.uid] = task
        self.pod_counts[row] += 1

    def _go(self, row: int, task: SessionTask) -> None:
        self.tasks[row].pop(task.uid, None)
        self.pod_counts[row] -= 1

    def _touch(self, row: int) -> None:
        saved = self._saved
        if saved is not None and row not in saved:
            saved[row] = self._amounts[:, row].copy(), int(self.pod_counts[row])
        self._stamp(row)

    def begin(self) -> None:
        """From here on the amounts of each row that changes are kept."""
        self._saved = {}

    def restore(self) -> None:
        """The amounts are as they were at `begin`, to the last bit. (Tasks are whoever's that moved them.)"""
        saved, self._saved = self._saved or {}, None
        for row, (columns, pods) in saved.items():
            self._amounts[:, row] = columns
            self.pod_counts[row] = pods
            self._stamp(row)

    # --- what the mirror does -----------------------------------------------------------------------------------------

    def set(self, row: int, amounts: tuple[list[float], ...], pods: int, pods_max: int) -> None:
        """A row's amounts (idle, used, releasing, pipelined) and pods."""
        self._amounts[:, row] = amounts
        self.pod_counts[row], self.pods_max[row] = pods, pods_max

    def hold(self, row: int, task: SessionTask) -> None:
        """The task has taken its request there, beside what the row was set to."""
        self.idle[row] -= task.request
        self.used[row] += task.request
        self.pod_counts[row] += 1

    def changed(self, row: int, *, object_too: bool = False) -> None:
        """A row has been set."""
        self._stamp(row)
        if object_too:
            self.object_changes += 1
            self._object_stamps[row] = self.object_changes

    def rename(self, names: Iterable[str]) -> None:
        """The table has these nodes from now on; rows of nodes that stay keep what they have, new ones are empty."""
        old, self.names = self.row, sorted(names)
        self.row = {name: row for row, name in enumerate(self.names)}
        where = np.array([old.get(name, -1) for name in self.names], dtype=np.intp)
        kept, source = np.flatnonzero(where >= 0), where[where >= 0]
        amounts = np.zeros((4, len(self.names), self.resources.width))
        amounts[:, kept] = self._amounts[:, source]
        self._show(amounts)
        for column in ("allocatable", "pod_counts", "pods_max"):
            before = getattr(self, column)
            after = np.zeros((len(self.names), *before.shape[1:]), dtype=before.dtype)
            after[kept] = before[source]
            setattr(self, column, after)
        self.infos = [self.infos[row] if row >= 0 else None for row in where]
        self.tasks = [self.tasks[row] if row >= 0 else {} for row in where]
        self.epoch += 1
        self._number()


__all__ = ["Columns", "NodeTable", "Rows"]
