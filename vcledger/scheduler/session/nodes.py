"""The nodes in columns: what each has, holds, releases and has promised, one row a node, one column a resource.

Owns the numbers. Must not know predicates nor plugins. Filled by `mirror`, changed by `statement`, read by `feasible`,
the plugins' scores and the actions.

Source: Volcano's api.NodeInfo. Rows stand in the order of names, so that equal scores have a stable order.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from projections.cache.state import NodeInfo
from vcledger.scheduler.session.model import Resources, SessionTask, Vector

Columns = NDArray[np.float64]


class NodeTable:
    """The nodes of a session. `allocatable`, `idle`, `used`, `releasing` and `pipelined` have the shape (nodes,
    resources); `tasks` the tasks on each node by uid, `pods_max` its limit on their number (0: none).
    `version` grows with each change of a row."""

    def __init__(self, resources: Resources, names: Iterable[str] = ()) -> None:
        self.resources = resources
        self.names: list[str] = sorted(names)
        self.row: dict[str, int] = {name: row for row, name in enumerate(self.names)}
        shape = (len(self.names), resources.width)
        self.allocatable: Columns = np.zeros(shape)
        self.idle: Columns = np.zeros(shape)
        self.used: Columns = np.zeros(shape)
        self.releasing: Columns = np.zeros(shape)
        self.pipelined: Columns = np.zeros(shape)
        self.pods_max: NDArray[np.int64] = np.zeros(len(self.names), dtype=np.int64)
        self.infos: list[NodeInfo | None] = [None] * len(self.names)
        self.tasks: list[dict[str, SessionTask]] = [{} for _ in self.names]
        self.version = 0

    def __len__(self) -> int:
        return len(self.names)

    def future_idle(self, rows: NDArray[np.intp] | slice = slice(None)) -> Columns:
        """Idle plus what is being released less what is promised (NodeInfo.FutureIdle)."""
        future: Columns = self.idle[rows] + self.releasing[rows] - self.pipelined[rows]
        return future

    def take(self, row: int, task: SessionTask) -> None:
        """The task uses what is idle there."""
        self._charge(row, task.request)
        self.tasks[row][task.uid] = task

    def give_back(self, row: int, task: SessionTask) -> None:
        """The reverse of `take`."""
        self._charge(row, -task.request)
        self.tasks[row].pop(task.uid, None)

    def promise(self, row: int, task: SessionTask) -> None:
        """The task waits for what is being released there."""
        self.pipelined[row] += task.request
        self.tasks[row][task.uid] = task
        self.version += 1

    def break_promise(self, row: int, task: SessionTask) -> None:
        """The reverse of `promise`."""
        self.pipelined[row] -= task.request
        self.tasks[row].pop(task.uid, None)
        self.version += 1

    def release(self, row: int, request: Vector) -> None:
        """A task there is told to go: what it uses is being released."""
        self.releasing[row] += request
        self.version += 1

    def keep(self, row: int, request: Vector) -> None:
        """The reverse of `release`."""
        self.releasing[row] -= request
        self.version += 1

    def _charge(self, row: int, request: Vector) -> None:
        self.idle[row] -= request
        self.used[row] += request
        self.version += 1


__all__ = ["Columns", "NodeTable"]
