"""What a session decided, as values.

Owns their shapes, and the events that they become. Must not know how they are carried out. Filled by the actions, given
out by `run`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vcledger.scheduler.session.model import SessionTask


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
    """A task got no node. `table` has the reasons of each node that refused it (node name to the scheduler's words,
    the first first), empty when it was never tried; `message` is the PodScheduled condition's, `reason` too."""

    task: SessionTask
    reason: str
    message: str
    table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What became of a job in the cycle. `outcome`: enqueued, gated (held back at its queue's gate), invalid, overused
    (its queue was passed over), allocated, pipelined, discarded, unschedulable or untried."""

    job: str
    outcome: str
    reason: str = ""
    message: str = ""
    placed: int = 0
    pipelined: int = 0
    ready: int = 0
    needed: int = 0


@dataclass(slots=True)
class Outcome:
    """A cycle. `decisions` in the order in which they were made; `jobs` by uid, in the order in which they were come
    to; `unfit` by task uid."""

    cycle: int
    seed: int
    actions: tuple[str, ...] = ()
    job_count: int = 0
    node_count: int = 0
    queue_count: int = 0
    decisions: list[Enqueued | Placed | Evicted] = field(default_factory=list)
    jobs: dict[str, JobOutcome] = field(default_factory=dict)
    unfit: dict[str, Unfit] = field(default_factory=dict)


__all__ = ["Enqueued", "Evicted", "JobOutcome", "Outcome", "Placed", "Unfit"]
