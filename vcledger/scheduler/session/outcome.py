"""What a session decided, as values.

Owns their shapes, and the events that they become. Must not know how they are carried out. Called by the actions, which
fill it, and by whoever has run a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vcledger.scheduler.session.closing import Closing
from vcledger.scheduler.session.conf import SessionConf
from vcledger.scheduler.session.model import FitError, SessionTask
from vcledger.scheduler.session.refusals import Table

if TYPE_CHECKING:
    from vcledger.scheduler.session.mirror import Mirror


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A job was taken into its queue: its PodGroup's phase becomes Inqueue."""

    job: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A task takes a node (to be bound), or, with `pipelined`, is promised what is being released there."""

    task: SessionTask
    node: str
    score: float | None = None
    pipelined: bool = False


@dataclass(frozen=True, slots=True)
class Evicted:
    """A task is told to go. `action` is preempt or reclaim."""

    task: SessionTask
    node: str
    reason: str
    action: str
    preemptor: SessionTask | None = None


@dataclass(frozen=True, slots=True)
class Unfit:
    """A task got no node. `error` has the reasons of the nodes that refused it, None when it was never tried; `message`
    is the PodScheduled condition's, `reason` too; `node` the one that the scheduler has named for it."""

    task: SessionTask
    reason: str
    message: str
    error: FitError | None = None
    node: str = ""

    @property
    def groups(self) -> Sequence[tuple[tuple[str, ...], Sequence[str]]]:
        """Reasons with the nodes that gave them."""
        return self.error.groups if self.error is not None else ()

    @property
    def table(self) -> Mapping[str, tuple[str, ...]]:
        """Node name to its reasons, in the scheduler's words, the first first."""
        return Table(self.groups)


@dataclass(frozen=True, slots=True)
class Discarded:
    """A gang whose places were given back. `tasks` with the nodes that they would have had; `ready` of `needed` would
    then have stood ready; `broken_by` is the first task that fitted nowhere."""

    job: str
    ready: int
    needed: int
    tasks: tuple[tuple[SessionTask, str], ...]
    broken_by: SessionTask | None = None


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What became of a job in the cycle. `outcome`: enqueued, gated (held back at its queue's gate), invalid, overused
    (its queue was passed over), allocated, pipelined, discarded, unschedulable or untried. `message` says why, for
    people; `sentence` is what the PodGroup's Unschedulable condition says, '' where it gets none."""

    job: str
    outcome: str
    reason: str = ""
    message: str = ""
    placed: int = 0
    pipelined: int = 0
    ready: int = 0
    needed: int = 0
    sentence: str = ""


@dataclass(slots=True)
class Outcome:
    """A cycle. `decisions` in the order in which they were made; `jobs` by uid, in the order in which they were come
    to; `unfit` by task uid; `discarded` in the order in which it happened. `closings` are what PodGroups should say,
    of the jobs for which that was asked. `conf` and `mirror` are
    what it was decided with and on; `events_of` looks into them, before the mirror's next refresh."""

    cycle: int
    seed: int
    actions: tuple[str, ...] = ()
    job_count: int = 0
    node_count: int = 0
    queue_count: int = 0
    decisions: list[Enqueued | Placed | Evicted] = field(default_factory=list)
    jobs: dict[str, JobOutcome] = field(default_factory=dict)
    unfit: dict[str, Unfit] = field(default_factory=dict)
    discarded: list[Discarded] = field(default_factory=list)
    closings: list[Closing] = field(default_factory=list)
    conf: SessionConf | None = None
    mirror: Mirror | None = None


__all__ = ["Discarded", "Enqueued", "Evicted", "JobOutcome", "Outcome", "Placed", "Unfit"]
