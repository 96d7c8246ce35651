"""The dice that the real scheduler threw, thrown again: of the nodes that a session scores best, the recorded one.

Owns whether a node is one that it could have taken. Must not know why a node scores as it does, nor the log. Made for a
cycle by `proof_session`, asked by the session through its chooser.

Volcano takes one of the nodes with the best score by chance. In a large cluster it does not score all that would do: it
looks at nodes one after another from a place that goes round, and stops once it has found some that do. So a node is
one that it could have taken when no node scores better, or when so few do that they may all have been left out. Which
nodes are next to each other in its list is not known (see docs/adr/0018): for each sample of those that would do as
likely as any other, there must be at least one chance in `ONE_IN` that none of the better ones is in it.

Source: SelectBestNodeAndScore and predicateHelper.PredicateNodes in Volcano's pkg/scheduler/util. How many are
enough is said by `session.sampling`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.nodes import NodeTable
from vcledger.scheduler.session.sampling import DEFAULT_SAMPLING, Sampling

BEST, SAMPLED, LOWER, REFUSED = "among the best", "best of a sample", "not the best", "does not fit"
"""What a recorded node is where the session has a choice: of the best score; best of what a sample may have left; one
that others are better than; or none of those that would do."""


ONE_IN = 1_000
"""Chances below one in so many are none."""


class Throws(Protocol):
    """What decides on nodes in place of a session."""

    def choose(
        self, nodes: NodeTable, task: SessionTask, rows: NDArray[np.intp], scores: NDArray[np.float64]
    ) -> int | None:
        """See `framework.Chooser`."""


class Dice:
    """The throws of one cycle: node by uid. `always`: a recorded node is taken where it would do at all, so that what
    follows is decided after what was decided in the record; else only where it could have been taken. `stood` is what
    each was, by uid, for the first time that the session had to choose."""

    def __init__(
        self, thrown: Mapping[str, str], *, always: bool = False, sampling: Sampling = DEFAULT_SAMPLING
    ) -> None:
        self.thrown, self.always, self.sampling = thrown, always, sampling
        self.stood: dict[str, str] = {}

    def choose(
        self, nodes: NodeTable, task: SessionTask, rows: NDArray[np.intp], scores: NDArray[np.float64]
    ) -> int | None:
        """See `framework.Chooser`."""
        name = self.thrown.get(task.uid)
        if name is None:
            return None
        here = np.flatnonzero(rows == nodes.row.get(name, -1))
        here = here[scores[here] > -math.inf]
        what = self._what(len(nodes), scores, int(here[0])) if len(here) else REFUSED
        self.stood.setdefault(task.uid, what)
        return int(rows[here[0]]) if len(here) and (self.always or what != LOWER) else None

    def _what(self, nodes: int, scores: NDArray[np.float64], at: int) -> str:
        """What the node at that index is beside the others."""
        better = int((scores > scores[at]).sum())
        if not better:
            return BEST
        return SAMPLED if chance_without(better, len(scores), self.sampling.enough(nodes)) * ONE_IN >= 1 else LOWER


def chance_without(better: int, nodes: int, enough: int) -> float:
    """How likely a sample of `enough` nodes out of some has none of `better` ones in it."""
    if nodes - better < enough:
        return 0.0
    chance = 1.0
    for number in range(better):
        chance *= (nodes - enough - number) / (nodes - number)
    return chance


__all__ = ["BEST", "LOWER", "ONE_IN", "REFUSED", "SAMPLED", "Dice", "Throws", "chance_without"]
