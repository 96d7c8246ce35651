"""The binpack plugin: the fuller node first.

Owns its score. Must not know the actions. Called by the registry beside it (`plugins`), then at its extension points.

Source: Volcano's pkg/scheduler/plugins/binpack/binpack.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vcledger.scheduler.session.conf import Argument
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.nodes import NodeTable

SCORE_MAX = 100
FEW = 16
"""So many rows are scored number by number: columns cost more than they save there."""


_RESOURCES = "binpack.resources"


class Binpack:
    """Arguments: binpack.weight, binpack.cpu, binpack.memory (1 each); binpack.resources, further resources with commas
    between, and binpack.resources.NAME, the weight of each (1). A negative weight is refused, where Volcano takes 1."""

    name = "binpack"
    ARGUMENTS = (
        Argument("binpack.weight", int),
        Argument("binpack.cpu", int, least=0),
        Argument("binpack.memory", int, least=0),
        Argument(_RESOURCES, str),
        Argument(f"{_RESOURCES}.*", int, least=0),
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.weight: int = arguments.get("binpack.weight", 1)
        named = [name.strip() for name in str(arguments.get(_RESOURCES, "")).split(",")]
        self.weights: dict[str, int] = {name: arguments.get(f"{_RESOURCES}.{name}", 1) for name in named if name}
        self.weights["cpu"] = arguments.get("binpack.cpu", 1)
        self.weights["memory"] = arguments.get("binpack.memory", 1)

    def on_open(self, ssn: Session) -> None:
        if self.weight:
            ssn.add("node_order", self.name, lambda task, rows: self.score(ssn.nodes, task, rows))

    def on_close(self, ssn: Session) -> None:
        """Nothing is kept."""

    def score(self, nodes: NodeTable, task: SessionTask, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """0 to 100 times the weight: how full each node would be, averaged by weight over what the task asks for. 0
        where any of it would not fit, which preemption and promises of what is being released come to. (Older versions
        left only that part out.)"""
        columns = nodes.resources.column
        asked = [
            (columns[name], weight)
            for name, weight in self.weights.items()
            if name in columns and task.request[columns[name]] > 0
        ]
        whole = sum(weight for _, weight in asked)
        if len(rows) <= FEW:
            return np.array([self._at(nodes, task, row, asked, whole) for row in rows.tolist()])
        added, over = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
        for column, weight in asked:
            if not weight:
                continue
            have = nodes.allocatable[rows, column]
            full = nodes.used[rows, column] + task.request[column]
            added += np.divide(full * weight, have, out=np.zeros(len(rows)), where=have != 0)
            over |= (have != 0) & (full > have)
        if whole:
            added /= whole
        found: NDArray[np.float64] = np.where(over, 0.0, added * float(SCORE_MAX * self.weight))
        return found

    def _at(self, nodes: NodeTable, task: SessionTask, row: int, asked: Sequence[tuple[int, int]], whole: int) -> float:
        """The same for one node, number by number."""
        added = 0.0
        for column, weight in asked:
            have = nodes.allocatable.item(row, column)
            full = nodes.used.item(row, column) + float(task.request[column])
            if not have or not weight:
                continue
            if full > have:
                return 0.0
            added += full * weight / have
        return (added / whole if whole else added) * float(SCORE_MAX * self.weight)


__all__ = ["SCORE_MAX", "Binpack"]
