"""What plugins have in common: shares, comparisons of amounts, words for them.

Owns these helpers. Must not know a plugin. Called by the plugins.

Source: Volcano's api/helpers (Share), api.Resource (LessEqualWithDimensionAndResourcesName, ExceededPart, IsEmpty),
api.JobInfo (DeductSchGatedResources).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projections.diagnosis.amounts import show
from vcledger.scheduler.session.model import PENDING, Resources, SessionJob, SessionQueue, Vector
from volcano.objects.resource import EPSILON, PODS

CPU, MEMORY = 0, 1
"""Their columns in every vector (`Resources`)."""


def sign(left: float, right: float) -> int:
    """-1 when left is smaller, 1 when it is larger, else 0."""
    return (left > right) - (left < right)


def counted(whole: Vector) -> NDArray[np.intp]:
    """The columns of which `whole` has anything; cpu and memory in any case."""
    has = whole > 0
    has[[CPU, MEMORY]] = True
    found: NDArray[np.intp] = np.flatnonzero(has)
    return found


def dominant_share(part: Vector, whole: Vector, columns: NDArray[np.intp]) -> float:
    """The largest share of `part` in `whole` among some columns; of nothing, anything is the whole (helpers.Share)."""
    parts, wholes = part[columns], whole[columns]
    shares = np.divide(parts, wholes, out=(parts != 0).astype(np.float64), where=wholes != 0)
    return max(0.0, float(shares.max()))


def exceeding(amount: Vector, limit: Vector, asked: Vector) -> NDArray[np.intp]:
    """The columns that are asked for and in which `amount` goes over the limit."""
    found: NDArray[np.intp] = np.flatnonzero((asked > 0) & ~(amount < limit + EPSILON))
    return found


def is_empty(amount: Vector, resources: Resources) -> bool:
    """Nothing of anything but places for pods."""
    over = amount >= EPSILON
    pods = resources.column.get(PODS)
    if pods is not None and pods < len(over):
        over[pods] = False
    return not over.any()


def less_gated(job: SessionJob, least: Vector) -> Vector:
    """A job's minimum without what its tasks behind scheduling gates ask: those wait anyway."""
    gated = [task.request for task in job.by_status.get(PENDING, {}).values() if task.gated]
    if not gated:
        return least
    rest: Vector = np.maximum(least - np.sum(gated, axis=0), 0.0)
    return rest


def is_open(queue: SessionQueue) -> bool:
    """A queue without a state is open: the controller has yet to write it."""
    return queue.state in {"", "Open"}


def shown(resources: Resources, column: int, vector: Vector) -> str:
    """One amount for people."""
    return show(resources.names[column], float(vector[column]))


__all__ = [
    "CPU",
    "MEMORY",
    "counted",
    "dominant_share",
    "exceeding",
    "is_empty",
    "is_open",
    "less_gated",
    "shown",
    "sign",
]
