"""The overcommit plugin: how much more than the cluster has may be admitted.

Owns what is let in. Must not know the actions. Called by the registry beside it (`plugins`), then at its extension
points.

A job is let into its queue while what is admitted but not placed, with what it asks at least, stays below what the
cluster has, times a factor, less what is used.

Source: Volcano's pkg/scheduler/plugins/overcommit/overcommit.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vcledger.scheduler.session.conf import Argument
from vcledger.scheduler.session.framework import PERMIT, REJECT, Session
from vcledger.scheduler.session.model import Resources, SessionJob, Vector
from vcledger.scheduler.session.plugins.common import exceeding, less_gated, shown

FACTOR, DEFAULT_FACTOR = "overcommit-factor", 1.2


class Overcommit:
    """Arguments: overcommit-factor (1.2) for all resources, overcommit-factor.NAME for one."""

    name = "overcommit"
    ARGUMENTS = (Argument(FACTOR, float, least=1.0), Argument(f"{FACTOR}.*", float, least=1.0))

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.factor = float(arguments.get(FACTOR, DEFAULT_FACTOR))
        prefix = f"{FACTOR}."
        self.factors = {
            name.removeprefix(prefix): float(value) for name, value in arguments.items() if name.startswith(prefix)
        }
        self.left: Vector = np.zeros(0)
        self.admitted: Vector = np.zeros(0)

    def on_open(self, ssn: Session) -> None:
        self.ssn = ssn
        self.scales = self._factors(ssn.resources, len(ssn.total))
        self.left = ssn.total * self.scales - ssn.nodes.used.sum(axis=0)
        self.admitted = np.zeros(len(ssn.total))
        for queue in ssn.queues.values():
            self.admitted = self.admitted + queue.inqueue
        ssn.add("job_enqueueable", self.name, self.enqueueable)
        ssn.add("job_enqueued", self.name, self.enqueued)

    def on_close(self, ssn: Session) -> None:
        """Nothing is kept."""

    def _factors(self, resources: Resources, width: int) -> Vector:
        factors: Vector = np.full(width, self.factor)
        for name, factor in self.factors.items():
            column = resources.column.get(name)
            if column is not None:
                factors[column] = factor
        return factors

    def enqueueable(self, job: SessionJob) -> int:
        """PERMIT or REJECT; why not stands in the session's `blocked`."""
        if job.least is None:
            return PERMIT
        over = exceeding(self.admitted + job.least, self.left, job.least)
        if not over:
            return PERMIT
        names, least = self.ssn.resources, job.least
        lines = [
            f"{names.names[column]}: asks {shown(names, column, least)} on top of "
            f"{shown(names, column, self.admitted)} already admitted, {shown(names, column, self.left)} left "
            f"(overcommit factor {self.scales[column]:g})"
            for column in over
        ]
        self.ssn.blocked[job.uid] = f"the cluster is overused for it: {'; '.join(lines)}"
        return REJECT

    def enqueued(self, job: SessionJob) -> None:
        """What the job asks at least is admitted too."""
        if job.least is not None:
            self.admitted = self.admitted + less_gated(job, job.least)


__all__ = ["Overcommit"]
