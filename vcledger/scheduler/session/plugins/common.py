"""What plugins have in common: shares, comparisons of amounts, words for them.

Owns these helpers. Must not know a plugin. Called by the plugins.

Source: Volcano's api/helpers (Share), api.Resource (LessEqualWithDimensionAndResourcesName, ExceededPart, IsEmpty),
api.JobInfo (DeductSchGatedResources).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from projections.diagnosis.amounts import show
from vcledger.scheduler.session.model import PENDING, Resources, SessionJob, SessionQueue, Vector
from volcano.objects.resource import EPSILON, PODS

CPU, MEMORY = 0, 1
"""Their columns in every vector (`Resources`)."""


def sign(left: float, right: float) -> int:
    """-1 when left is smaller, 1 when it is larger, else 0."""
    return (left > right) - (left < right)


def counted(whole: Vector) -> list[int]:
    """The columns of which `whole` has anything; cpu and memory in any case."""
    has = whole > 0
    has[[CPU, MEMORY]] = True
    return [int(column) for column in np.flatnonzero(has)]


def dominant_share(part: Vector, whole: Vector, columns: Sequence[int]) -> float:
    """The largest share of `part` in `whole` among some columns; of nothing, anything is the whole (helpers.Share).
    Number by number: the columns are few, and this is asked for each task."""
    most = 0.0
    for column in columns:
        mine, all_of_it = part.item(column), whole.item(column)
        share = mine / all_of_it if all_of_it else float(mine != 0)
        most = max(most, share)
    return most


def exceeding(amount: Vector, limit: Vector, asked: Vector) -> list[int]:
    """The columns that are asked for and in which `amount` goes over the limit."""
    amounts, limits = amount.tolist(), limit.tolist()
    return [
        column
        for column, wanted in enumerate(asked.tolist())
        if wanted > 0 and not amounts[column] < limits[column] + EPSILON
    ]


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
