"""Jobs, tasks and queues as the session looks at them, and amounts as vectors.

Owns these shapes. Must not know plugins nor actions. Made by `mirror`, changed by `statement`, read by everything else
in the session.

A vector has one float64 for each resource of `Resources`, in the scheduler's units (cpu in milli-cores, memory in
bytes, `pods` and `attachable-volumes-*` in units, others in thousandths).

Source: Volcano's api.TaskInfo, JobInfo, QueueInfo.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcano.objects.resource import EPSILON
from volcano.objects.scheduling import PodGroup, Queue
from volcano.objects.status import ALLOCATED_STATUSES, READY_STATUSES, TaskStatus

Vector: TypeAlias = NDArray[np.float64]
INFINITE = float("inf")

PENDING, PIPELINED = int(TaskStatus.PENDING), int(TaskStatus.PIPELINED)


class Resources:
    """The names of the resources, each with its column. Names are only ever added: a vector made before a name came is
    shorter, so whoever holds vectors makes them anew when `width` has grown (`mirror` sees to it)."""

    def __init__(self, names: tuple[str, ...] = ("cpu", "memory", "pods")) -> None:
        self.names: list[str] = []
        self.column: dict[str, int] = {}
        for name in names:
            self.add(name)

    @property
    def width(self) -> int:
        """The length of a vector."""
        return len(self.names)

    def add(self, name: str) -> int:
        """The column of a name, a new one if need be."""
        found = self.column.get(name)
        if found is None:
            found = self.column[name] = len(self.names)
            self.names.append(name)
        return found

    def vector(self, amounts: Mapping[str, float], missing: float = 0.0) -> Vector:
        """Amounts as a vector; names that have no column yet get one."""
        columns = [(self.add(name), amount) for name, amount in amounts.items()]
        made = np.full(self.width, missing)
        for column, amount in columns:
            made[column] = amount
        return made

    def amounts(self, vector: Vector) -> dict[str, float]:
        """The amounts that are not zero, by name."""
        return {name: float(vector[column]) for column, name in enumerate(self.names[: len(vector)]) if vector[column]}


def fits(asked: Vector, limit: Vector) -> bool:
    """Each of `asked` is less than that of `limit`, or equal but for the epsilon (Resource.LessEqual)."""
    return bool((asked < limit + EPSILON).all())


@dataclass(slots=True, eq=False)
class SessionTask:
    """A task. `request` is never changed in place; tasks with equal `like` are alike to every predicate and score (the
    same request, selectors, tolerations …), so that they share their evaluation. `index` is the task's in its job."""

    uid: str
    namespace: str
    name: str
    job: str
    status: int
    node: str
    request: Vector
    role: str = ""
    index: int = 0
    priority: int = 0
    created: str = ""
    preemptable: bool = True
    best_effort: bool = False
    gated: bool = False
    like: object = None
    position: int = 0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True, eq=False)
class SessionJob:
    """A job with a PodGroup. `tasks` by uid, `by_status` too. `allocated` is what its tasks of ALLOCATED_STATUSES hold.
    `least` are the PodGroup's minResources, None without. `fit_errors` is filled by the actions: why a task got no
    node, by task uid; `job_error` why the job was not ready (JobInfo.JobFitErrors)."""

    uid: str
    namespace: str
    name: str
    queue: str
    pod_group: PodGroup
    priority: int = 0
    created: str = ""
    min_available: int = 0
    task_min_available: dict[str, int] = field(default_factory=dict)
    least: Vector | None = None
    preemptable: bool = False
    tasks: dict[str, SessionTask] = field(default_factory=dict)
    by_status: dict[int, dict[str, SessionTask]] = field(default_factory=dict)
    allocated: Vector = field(default_factory=lambda: np.zeros(0))
    phase: str = ""
    position: int = 0
    job_error: str = ""

    def count(self, *statuses: int) -> int:
        """The number of tasks in some statuses."""
        return sum(len(self.by_status.get(status, ())) for status in statuses)

    @property
    def ready_count(self) -> int:
        """Tasks that are bound, on their way, or have succeeded (ReadyTaskNum)."""
        return self.count(*READY_STATUSES)

    @property
    def waiting_count(self) -> int:
        """Pipelined tasks (WaitingTaskNum)."""
        return self.count(PIPELINED)

    @property
    def pending_best_effort(self) -> int:
        """Pending tasks that ask for nothing; they count for the gang (PendingBestEffortTaskNum)."""
        return sum(1 for task in self.by_status.get(PENDING, {}).values() if task.best_effort)

    def pending(self) -> list[SessionTask]:
        """The tasks that wait."""
        return list(self.by_status.get(PENDING, {}).values())

    def set_status(self, task: SessionTask, status: int) -> None:
        """Moves a task in the index; `allocated` follows (UpdateTaskStatus)."""
        was, now = task.status in ALLOCATED_STATUSES, status in ALLOCATED_STATUSES
        index = self.by_status.get(task.status)
        if index is not None:
            index.pop(task.uid, None)
        task.status = status
        self.by_status.setdefault(status, {})[task.uid] = task
        if was and not now:
            self.allocated = self.allocated - task.request
        elif now and not was:
            self.allocated = self.allocated + task.request


@dataclass(slots=True, eq=False)
class SessionQueue:
    """A queue with what its jobs hold and ask (as in `projections.diagnosis.views.QueueView`), at the session's start:
    `allocated` of tasks that hold resources, `requested` that plus the pending ones, `inqueue` the minimum of admitted
    jobs that hold less, `elastic` what jobs hold above their minimum. Plugins keep their own running sums.
    `capability` is infinite where the queue states none."""

    name: str
    queue: Queue
    weight: int
    capability: Vector
    guarantee: Vector
    deserved: Vector
    allocated: Vector
    requested: Vector
    inqueue: Vector
    elastic: Vector
    priority: int = 0
    parent: str = ""
    reclaimable: bool = True
    state: str = "Open"
    has_jobs: bool = False
    position: int = 0


__all__ = [
    "INFINITE",
    "PENDING",
    "PIPELINED",
    "Resources",
    "SessionJob",
    "SessionQueue",
    "SessionTask",
    "Vector",
    "fits",
]
