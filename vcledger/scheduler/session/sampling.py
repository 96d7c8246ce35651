"""Which nodes a task's predicates are asked of in a large cluster, and where the next task's begin.

Owns how many are enough, the order of the list of nodes and the place that goes round. Must not know predicates nor
scores. Called by the actions, through the session's own `Looks`; the options are held by `conf`.

Volcano looks at one node after another, from where the task before it stopped, and stops at the first that would do
once it has as many as are enough; the best of these is taken. A task that no node takes is asked of all. The order is
that of its cache's list of nodes, and those that were there when the scheduler began came into it as a Go map has them
(so client-go hands over what a watch list streamed). It is chance, then, and here the seed's; so is where a session
begins, as the place goes round over all sessions of a process. Sixteen workers side by side look at up to fifteen nodes
more than are needed; here nobody does. See docs/adr/0018.

Source: predicateHelper.PredicateNodes and CalculateNumOfFeasibleNodesToFind in Volcano's pkg/scheduler/util; the
options minimum-feasible-nodes, minimum-percentage-nodes-to-find and percentage-nodes-to-find of its
cmd/scheduler/app/options; client-go's Reflector.watchList.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from vcledger.scheduler.session.nodes import NodeTable, Rows

Mask = NDArray[np.bool_]

_MOST = 50
"""Of a cluster in which nothing else is asked for, so many in 100 are enough, less one for each 125 nodes."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Volcano's options. `minimum`: in a cluster of up to so many nodes all are looked at, and of more so many that
    would do are wanted at least; `percentage` of all nodes are enough, at 0 one that goes down as there are more, but
    not below `minimum_percentage`; from 100 on all."""

    minimum: int = 100
    minimum_percentage: int = 5
    percentage: int = 0

    def enough(self, nodes: int) -> int:
        """How many nodes that would do are enough, of so many."""
        if nodes <= self.minimum or self.percentage >= 100:
            return nodes
        share = self.percentage
        if share <= 0:
            share = max(_MOST - nodes // 125, self.minimum_percentage)
        return max(nodes * share // 100, self.minimum)


DEFAULT_SAMPLING, EVERY_NODE = Sampling(), Sampling(percentage=100)
"""What Volcano does unless it is told otherwise; and all nodes looked at."""


class Looks:
    """Where a session looks. `thrown` gives a number for some words, always the same for the same seed."""

    def __init__(self, nodes: NodeTable, sampling: Sampling, seed: int, thrown: Callable[..., int]) -> None:
        self.nodes, self.sampling, self.seed, self.thrown = nodes, sampling, seed, thrown
        self.place: int | None = None
        self._looked: Rows = np.zeros(0, dtype=np.intp)
        self._all = True

    @property
    def samples(self) -> bool:
        """Whether there are so many nodes that not all are looked at."""
        count = len(self.nodes)
        return self.sampling.enough(count) < count

    @property
    def listed(self) -> Rows:
        """The rows in the order of the list."""
        return self._twice[: len(self.nodes)]

    @property
    def _twice(self) -> Rows:
        return self.nodes.listed_twice(self.seed, self.thrown)

    def look(self, uid: str, now: Mask, later: Mask | None = None, among: Rows | None = None) -> Rows:
        """The rows that a task finds, in the order in which it does: those that would do, `now` or `later`, up to as
        many as are enough. `uid`: the task, from which a session that has not looked anywhere yet has its place.
        `among`: the rows that are looked at at all, in the order of the list; None: all."""
        twice = self._twice if among is None else np.concatenate((among, among))
        count = len(twice) // 2
        if not count:
            return twice
        enough = self.sampling.enough(count)
        if self.place is None:
            self.place = self.thrown("looks", uid) % len(self.nodes) if self.samples else 0
        start = self.place % count
        for size in (min(2 * enough, count), count):
            window = twice[start : start + size]
            found = np.flatnonzero(now[window] if later is None else now[window] | later[window])
            if len(found) > enough:
                size = int(found[enough]) + 1
                found = found[:enough]
                break
        self.place = (start + size) % count
        self._looked, self._all = window[:size], size == count
        rows: Rows = window[found]
        return rows

    @property
    def saw_all(self) -> bool:
        """Whether the last task looked at all nodes that it may look at."""
        return self._all

    @property
    def looked_at(self) -> Rows:
        """The rows at which the last task looked, whether they would do or not."""
        return self._looked

    def look_at_one(self) -> None:
        """A task was tried on one node alone: the place goes round a list of one."""
        self.place = 0


__all__ = ["DEFAULT_SAMPLING", "EVERY_NODE", "Looks", "Sampling"]
