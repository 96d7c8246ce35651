"""The dice that the real scheduler threw, thrown again: of the nodes that a session scores best, the recorded one.

Owns whether a node is one that it could have taken. Must not know why a node scores as it does, nor the log. Made for a
cycle by `proof_session`, asked by the session through its chooser.

Volcano takes one of the nodes with the best score by chance. In a large cluster it does not score all that would do: it
looks at nodes one after another from a place that goes round, and stops once it has found some that do. So a node is
one that it could have taken when no node scores better, or when it lies on a stretch of the nodes' list, the end of
which goes on at its beginning, with as many that would do as are enough and none that scores better. The list's order
is the cache's. That a stretch began where the one before it ended is not asked for, as that goes on over all cycles.

Source: SelectBestNodeAndScore and predicateHelper.PredicateNodes in Volcano's pkg/scheduler/util. How many are
enough is said by `session.sampling`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.nodes import NodeTable
from vcledger.scheduler.session.sampling import DEFAULT_SAMPLING, Sampling

BEST, SAMPLED, LOWER, REFUSED = "among the best", "best of a sample", "not the best", "does not fit"
"""What a recorded node is where the session has a choice: of the best score; best of what a sample may have left; one
that others are better than; or none of those that would do."""


class Throws(Protocol):
    """What decides on nodes in place of a session."""

    def choose(
        self, nodes: NodeTable, task: SessionTask, rows: NDArray[np.intp], scores: NDArray[np.float64]
    ) -> int | None:
        """See `framework.Chooser`."""


class Dice:
    """The throws of one cycle: node by uid. `always`: a recorded node is taken where it would do at all, so that what
    follows is decided after what was decided in the record; else only where it could have been taken. `order` are the
    names of the nodes in the order in which the scheduler looks at them; what is not there comes last, by name. `stood`
    is what each was, by uid, for the first time that the session had to choose."""

    def __init__(
        self,
        thrown: Mapping[str, str],
        order: Sequence[str] = (),
        *,
        always: bool = False,
        sampling: Sampling = DEFAULT_SAMPLING,
    ) -> None:
        self.thrown, self.always, self.sampling = thrown, always, sampling
        self.place = {name: place for place, name in enumerate(order)}
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
        what = self._what(nodes, rows, scores, int(here[0])) if len(here) else REFUSED
        self.stood.setdefault(task.uid, what)
        return int(rows[here[0]]) if len(here) and (self.always or what != LOWER) else None

    def _what(self, nodes: NodeTable, rows: NDArray[np.intp], scores: NDArray[np.float64], at: int) -> str:
        """What the node at that index of `rows` is beside the others."""
        better, enough = scores > scores[at], self.sampling.enough(len(nodes))
        if not better.any():
            return BEST
        if int(better.sum()) > len(scores) - enough:
            return LOWER
        last = len(self.place)
        listed = sorted(range(len(rows)), key=lambda one: (self.place.get(nodes.names[rows[one]], last), rows[one]))
        return SAMPLED if longest_run(better[listed], listed.index(at)) >= enough else LOWER


def longest_run(better: NDArray[np.bool_], at: int) -> int:
    """How many nodes in a row round the one at that index, itself among them, are not better; what follows the last is
    the first."""
    places = np.flatnonzero(better)
    if not len(places):
        return len(better)
    following = np.searchsorted(places, at)
    after = places[following] if following < len(places) else places[0] + len(better)
    before = places[following - 1] if following else places[-1] - len(better)
    return int(after - before - 1)


__all__ = ["BEST", "LOWER", "REFUSED", "SAMPLED", "Dice", "Throws", "longest_run"]
