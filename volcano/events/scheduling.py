"""The scheduling family: what one cycle of the scheduler decided, for each job and task.

Owns these events. Must not know how a decision is reached. Called through `volcano.events.catalog`.

CycleStarted and CycleEnded stand in the scheduler's own stream, JobEnqueued, AllocationDiscarded and JobConsidered in
the PodGroup's, the others in the pod's. A job is named by its cache key, `namespace/podgroup`.
"""

from __future__ import annotations

import msgspec

from volcano.events.base import Amounts, DomainEvent, TaskRef, Value


class FitErrors(Value, frozen=True):
    """The nodes that turned a task down for the same reasons. A node stands in one group only; its reasons are in the
    order in which the predicates gave them."""

    reasons: tuple[str, ...]
    nodes: tuple[str, ...]


class CycleStarted(DomainEvent, frozen=True):
    """A session opened. `actions` in the order they will run; `jobs`, `nodes` and `queues` are what the session holds
    after the filters (no job without PodGroup or queue, no node that is not Ready). `seed` decides between equals;
    `configuration` is a digest of the scheduler's file."""

    cycle: int
    scheduler: str = ""
    actions: tuple[str, ...] = ()
    jobs: int = 0
    nodes: int = 0
    queues: int = 0
    seed: int = 0
    configuration: str = ""


class JobEnqueued(DomainEvent, frozen=True):
    """The job went from Pending to Inqueue: its pods may be made and placed."""

    job: str
    podgroup_uid: str
    queue: str
    min_member: int = 0
    min_resources: Amounts = msgspec.field(default_factory=dict)


class TaskAllocated(DomainEvent, frozen=True):
    """The task took idle resources of the node. `gang_ready` of `gang_needed` tasks of its job then stood ready."""

    job: str
    node: str
    node_uid: str = ""
    request: Amounts = msgspec.field(default_factory=dict)
    score: float | None = None
    gang_ready: int = 0
    gang_needed: int = 0


class TaskPipelined(DomainEvent, frozen=True):
    """The task was promised what is being released on the node, by the tasks in `waits_for` when they are known."""

    job: str
    node: str
    node_uid: str = ""
    request: Amounts = msgspec.field(default_factory=dict)
    waits_for: tuple[TaskRef, ...] = ()
    gang_ready: int = 0
    gang_needed: int = 0


class AllocationDiscarded(DomainEvent, frozen=True):
    """The gang was not satisfied, so nothing of it was kept: `tasks` gave their nodes back. `short_of` tasks more were
    needed; `broken_by` is the first task that fitted nowhere."""

    job: str
    reason: str
    message: str = ""
    gang_ready: int = 0
    gang_needed: int = 0
    short_of: int = 0
    tasks: tuple[TaskRef, ...] = ()
    broken_by: TaskRef | None = None


class TaskUnschedulable(DomainEvent, frozen=True):
    """The task got no node. `reason` and `message` are those of the PodScheduled condition; `fit_errors` covers each of
    the `nodes_total` nodes once, or is empty when the task was never tried against a node."""

    job: str
    reason: str
    message: str
    fit_errors: tuple[FitErrors, ...] = ()
    nodes_total: int = 0
    nominated_node: str = ""


class TaskEvicted(DomainEvent, frozen=True):
    """The task was told to go, to make room for `preemptor` when there is one. `action`: preempt, reclaim, shuffle …"""

    job: str
    node: str
    reason: str
    message: str = ""
    action: str = ""
    preemptor: TaskRef | None = None


class JobConsidered(DomainEvent, frozen=True):
    """What became of a job in a session. `outcome`: enqueued, gated (held back at its queue's gate), invalid, overused
    (its queue was passed over), allocated, pipelined, discarded, unschedulable or untried; `message` the scheduler's
    sentence for a gang that is not ready, or the gate with its numbers. `placed` and `pipelined` count tasks that got a
    place in it, `ready` those of the job that then stood ready, of `needed`."""

    job: str
    outcome: str
    queue: str = ""
    reason: str = ""
    message: str = ""
    placed: int = 0
    pipelined: int = 0
    ready: int = 0
    needed: int = 0


class CycleEnded(DomainEvent, frozen=True):
    """The session closed. `started` is the position of its CycleStarted; the counts are tasks, but for `enqueued` and
    `discarded`, which count jobs."""

    cycle: int
    started: int | None = None
    enqueued: int = 0
    allocated: int = 0
    pipelined: int = 0
    discarded: int = 0
    unschedulable: int = 0
    evicted: int = 0
