"""What the nodes' columns say of each shape, kept from session to session by the changes of rows.

Owns what is kept and when it holds. Must not know pods nor plugins. Held by `feasible`; read by the action allocate,
which keeps its scores in it.

Between two questions of a gang one row has changed: a few rows are looked at number by number, as columns cost more
than they save there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vcledger.scheduler.session.nodes import Rows
from vcledger.scheduler.session.shape import Shape
from vcledger.scheduler.session.statics import NOTHING, Statics
from volcano.objects.resource import CSI_ATTACH_PREFIX, EPSILON

if TYPE_CHECKING:
    from vcledger.scheduler.session.mirror import Mirror

Mask = NDArray[np.bool_]

POD_COUNT = "pod-count"
FEW = 12
"""So many rows are looked at number by number."""

_KEPT_MAX = 1024


class ShapeColumns:
    """What the columns say of one shape, row by row: `now` and `later` are the nodes that take it on what is idle, or
    only on what will be, `open` whether there is any; `counts` that there are not too many pods; `scores` those of
    `node_order`, of nodes that take it, kept as long as `scored_for` is the session's configuration."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.epoch = -1
        self.seen = self.objects_seen = 0
        self.open = False
        self.checks: frozenset[str] = NOTHING
        self.counts: Mask = np.zeros(0, dtype=bool)
        self.now: Mask = np.zeros(0, dtype=bool)
        self.later: Mask = np.zeros(0, dtype=bool)
        self.scores: NDArray[np.float64] = np.zeros(0)
        self.scored_for: object = None
        self.scored = self.scored_objects = 0


class KeptColumns:
    """The columns by shape."""

    def __init__(self, mirror: Mirror, statics: Statics) -> None:
        self.mirror, self.statics = mirror, statics
        self._known: dict[Shape, ShapeColumns] = {}
        self._unreported: tuple[tuple[int, int], frozenset[int]] = ((-1, -1), frozenset())

    def forget(self) -> None:
        """Lets go of all."""
        self._known.clear()

    def of(self, shape: Shape, checks: frozenset[str]) -> ShapeColumns:
        """The columns of a shape under some checks, up to date."""
        found = self._known.get(shape)
        if found is None:
            if len(self._known) >= _KEPT_MAX:
                del self._known[next(iter(self._known))]
            found = self._known[shape] = ShapeColumns(shape)
        table = self.mirror.nodes
        changes, objects = table.changes, table.object_changes
        if found.epoch != table.epoch or found.checks != checks:
            found.counts, found.now, found.later = np.zeros((3, len(table)), dtype=bool)
            found.scored_for, found.checks = None, checks
            self._many(found, np.arange(len(table)))
        elif found.objects_seen != objects:
            both = table.changed_since(found.seen), table.objects_changed_since(found.objects_seen)
            self._some(found, np.union1d(*both))
        elif found.seen != changes:
            self._some(found, table.changed_since(found.seen))
        else:
            return found
        found.open = bool(np.count_nonzero(found.now) or np.count_nonzero(found.later))
        found.epoch, found.seen, found.objects_seen = table.epoch, changes, objects
        return found

    def _some(self, found: ShapeColumns, rows: Rows) -> None:
        if len(rows) <= FEW:
            self._few(found, rows.tolist())
        else:
            self._many(found, rows)

    def _few(self, found: ShapeColumns, rows: list[int]) -> None:
        """Sets some rows, number by number."""
        table, shape = self.mirror.nodes, found.shape
        ok, counted = self.statics.of(shape, found.checks).ok, POD_COUNT in found.checks
        columns = [] if shape.best_effort else self.compared(shape).tolist()
        asked = (shape.request - EPSILON).tolist()
        for row in rows:
            idle, releasing = table.idle[row].tolist(), table.releasing[row].tolist()
            pipelined = table.pipelined[row].tolist()
            most = table.pods_max.item(row) if counted else 0
            counts = most == 0 or table.pod_counts.item(row) < most
            now = later = counts and bool(ok[row])
            for column in columns:
                now = now and asked[column] < idle[column]
                later = later and asked[column] < idle[column] + releasing[column] - pipelined[column]
            found.counts[row], found.now[row], found.later[row] = counts, now and later, later and not now

    def _many(self, found: ShapeColumns, rows: Rows) -> None:
        """The same column by column."""
        table, shape = self.mirror.nodes, found.shape
        fine = self.statics.of(shape, found.checks).ok.take(rows)
        if POD_COUNT in found.checks:
            most = table.pods_max.take(rows)
            counts = (most == 0) | (table.pod_counts.take(rows) < most)
            found.counts[rows] = counts
            fine = fine & counts
        else:
            found.counts[rows] = True
        if shape.best_effort:
            found.now[rows], found.later[rows] = fine, False
            return
        later = now = fine
        for column in self.compared(shape).tolist():
            asked = shape.request[column] - EPSILON
            idle = table.idle[:, column].take(rows)
            now = now & (asked < idle)
            future = idle + table.releasing[:, column].take(rows) - table.pipelined[:, column].take(rows)
            later = later & (asked < future)
        now = now & later
        found.now[rows] = now
        found.later[rows] = later & ~now

    def compared(self, shape: Shape) -> Rows:
        """The resources of a shape that are compared with what a node has: not the attachments of drivers that no node
        reports."""
        table = self.mirror.nodes
        version = table.objects_version
        if self._unreported[0] != version:
            names = [column for name, column in table.resources.column.items() if name.startswith(CSI_ATTACH_PREFIX)]
            missing = frozenset(column for column in names if not (table.allocatable[:, column] > 0).any())
            if missing != self._unreported[1]:
                self._known.clear()
            self._unreported = version, missing
        if not self._unreported[1]:
            return shape.columns
        return shape.columns[[column not in self._unreported[1] for column in shape.columns]]


__all__ = ["POD_COUNT", "KeptColumns", "Mask", "ShapeColumns"]
