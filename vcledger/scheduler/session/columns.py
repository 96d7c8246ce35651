"""What the nodes' columns say of one shape, as it is kept from session to session.

Owns what is kept. Must not know how it is worked out nor when it holds: `feasible` does. Read by `feasible` and by the
action allocate, which keeps its scores in it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vcledger.scheduler.session.shape import Shape
from vcledger.scheduler.session.statics import NOTHING

Mask = NDArray[np.bool_]


class ShapeColumns:
    """What the columns say of one shape, row by row: `now` and `later` are the nodes that take it on what is idle, or
    only on what will be, `open` whether there is any; `scores` those of `node_order`, of nodes that take it, kept as
    long as `scored_for` is the session's configuration."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.epoch = -1
        self.seen = self.objects_seen = 0
        self.open = False
        self.checks: frozenset[str] = NOTHING
        self.fits_now: Mask = np.zeros(0, dtype=bool)
        self.fits_later: Mask = np.zeros(0, dtype=bool)
        self.counts: Mask = np.zeros(0, dtype=bool)
        self.now: Mask = np.zeros(0, dtype=bool)
        self.later: Mask = np.zeros(0, dtype=bool)
        self.scores: NDArray[np.float64] = np.zeros(0)
        self.scored_for: object = None
        self.scored = self.scored_objects = 0


__all__ = ["Mask", "ShapeColumns"]
