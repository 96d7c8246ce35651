"""The nodes that have refused a role of a gang, for as long as the gang's turn lasts.

Owns what is remembered. Must not know why a node refuses. Called by `allocate` through its `Choice`.

Volcano remembers, for one turn of a job, which nodes refused a task of which role and what they said, and does not ask
them again about tasks of that role; pods without a role are asked about each time. Room only becomes less in a turn,
so most often nothing comes of it. But a domain that had too many pods of a spread has not once others have caught up,
and a pod that others want to be with may have come: such a node stays refused until the gang's next turn.

Source: predicateHelper.PredicateNodes in Volcano's pkg/scheduler/util (taskPredicateErrorCache), and the argument
predicateErrorCacheEnable of the action.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vcledger.scheduler.session.feasible import Mask
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.nodes import Rows
from vcledger.scheduler.session.refusals import Texts


class Remembered:
    """What one turn remembers: by role, row and what the node said."""

    def __init__(self, ssn: Session, action: str) -> None:
        self.ssn = ssn
        self.on = bool(ssn.conf.configurations.get(action, {}).get("predicateErrorCacheEnable", True))
        self._said: dict[str, dict[int, Texts]] = {}

    def begin(self) -> None:
        """A turn begins."""
        if self._said:
            self._said = {}

    def keeps(self, task: SessionTask) -> bool:
        """Whether anything is remembered about the task's role: only where it makes a difference, for tasks that look
        at other pods."""
        return self.on and bool(task.role) and task.like is not None and bool(task.like.looks)

    def of(self, task: SessionTask) -> Mapping[int, Texts]:
        """What nodes have said to the task's role, by row."""
        return self._said.get(task.role, {}) if self.keeps(task) else {}

    def without(self, task: SessionTask, mask: Mask) -> Mask:
        """The nodes of a mask that have not refused the task's role."""
        said = self.of(task)
        if not said:
            return mask
        left = mask.copy()
        left[list(said)] = False
        return left

    def note(self, task: SessionTask, would_do: Mask, looked_at: Rows | None) -> None:
        """What the nodes that were looked at and would not do say. `looked_at`: None for all."""
        if not self.keeps(task):
            return
        refused = ~would_do
        if looked_at is not None:
            seen = np.zeros(len(would_do), dtype=bool)
            seen[looked_at] = True
            refused &= seen
        said = self._said.setdefault(task.role, {})
        fresh = [row for row in np.flatnonzero(refused).tolist() if row not in said]
        if fresh:
            refusals = self.ssn.feasible.refusals(task)
            said.update({row: refusals.of_row(row) for row in fresh})


__all__ = ["Remembered"]
