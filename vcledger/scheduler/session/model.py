"""Jobs, tasks and queues as the session looks at them, and amounts as vectors.

Owns these shapes. Must not know plugins nor actions. Made by `mirror`, changed by `statement`, read by everything else
in the session.

A vector has one float64 for each resource of `Resources`, in the scheduler's units (cpu in milli-cores, memory in
bytes, `pods` and `attachable-volumes-*` in units, others in thousandths).

Source: Volcano's api.TaskInfo, JobInfo, QueueInfo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcano.objects.resource import EPSILON
from volcano.objects.scheduling import PodGroup, Queue
from volcano.objects.status import ALLOCATED_STATUSES, READY_STATUSES, TaskStatus

Vector: TypeAlias = NDArray[np.float64]
INFINITE = float("inf")

PENDING, PIPELINED = int(TaskStatus.PENDING), int(TaskStatus.PIPELINED)
_ALLOCATED = frozenset(int(status) for status in ALLOCATED_STATUSES)
_READY = frozenset(int(status) for status in READY_STATUSES)


FIRST_NAMES = ("cpu", "memory", "pods")
"""The names that stand first; all others follow in their order as text."""


class Resources:
    """The names of the resources, each with its column. While it is `closed`, as it is once nodes and tasks have their
    vectors, an unknown name gets no column: nothing that there is has or asks any of it. The mirror makes another when
    names have come, with all vectors anew."""

    def __init__(self, names: tuple[str, ...] = FIRST_NAMES) -> None:
        self.names: list[str] = []
        self.column: dict[str, int] = {}
        self.closed = False
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
        """Amounts as a vector; names that have no column yet get one, unless it is closed."""
        known = self.column
        if self.closed:
            columns = [(known[name], amount) for name, amount in amounts.items() if name in known]
        else:
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
    """A task. `request` is never changed in place; tasks with the same `like` (see `shape.Shape`) are alike to every
    predicate and to every score that looks at one node alone (the same request, selectors, tolerations …), so that they
    share their evaluation. `index` is the task's in its job, `nominated` the node that an earlier cycle promised it;
    these, `created` and `like` follow from the pod's object, which is read for those that wait; of the others
    (`unread`) `Session.read` fills them in."""

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
    like: Any = None
    nominated: str = ""
    position: int = 0
    unread: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True, eq=False)
class SessionJob:
    """A job with a PodGroup. `tasks` by uid, `by_status` too. `allocated` is what its tasks of ALLOCATED_STATUSES hold.
    `least` are the PodGroup's minResources, None without; `asked` is what its pending tasks ask for.
    `phase` is the PodGroup's, which a session may change; `phase_at_open` what it was before.

    Filled in the session, and empty after it: `fit_errors` why a task got no node, by task uid; `tried` where a task
    would have gone that had to give its place back, with the status it had there (TaskInfo.LastTransaction);
    `job_error` the job's sentence, once all is done (JobInfo.FitError)."""

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
    asked: Vector = field(default_factory=lambda: np.zeros(0))
    phase: str = ""
    phase_at_open: str = ""
    position: int = 0
    job_error: str = ""
    fit_errors: dict[str, FitError] = field(default_factory=dict)
    tried: dict[str, tuple[int, str]] = field(default_factory=dict)
    waiting_best_effort: int = 0
    ready_count: int = 0
    """Tasks that are bound, on their way, or have succeeded (ReadyTaskNum)."""

    def count(self, *statuses: int) -> int:
        """The number of tasks in some statuses."""
        index = self.by_status
        return sum([len(index[status]) for status in statuses if status in index])

    @property
    def unadmitted(self) -> bool:
        """Its PodGroup has not been taken into the queue (JobInfo.IsPending)."""
        return self.phase in {"", "Pending"}

    @property
    def waiting_count(self) -> int:
        """Pipelined tasks (WaitingTaskNum)."""
        return self.count(PIPELINED)

    @property
    def pending_best_effort(self) -> int:
        """Pending tasks that ask for nothing; they count for the gang (PendingBestEffortTaskNum)."""
        return self.waiting_best_effort

    def pending(self) -> list[SessionTask]:
        """The tasks that wait."""
        return list(self.by_status.get(PENDING, {}).values())

    def add(self, task: SessionTask) -> None:
        """Takes a task in. What the job holds and asks is not counted here."""
        self.tasks[task.uid] = task
        self._index(task)

    def remove(self, task: SessionTask) -> None:
        """The reverse of `add`."""
        self.tasks.pop(task.uid, None)
        self._unindex(task)

    def set_status(self, task: SessionTask, status: int) -> None:
        """Moves a task in the index; `allocated` follows (UpdateTaskStatus)."""
        was, now = task.status in _ALLOCATED, status in _ALLOCATED
        self._unindex(task)
        task.status = status
        self._index(task)
        if was and not now:
            self.allocated = self.allocated - task.request
        elif now and not was:
            self.allocated = self.allocated + task.request

    def _index(self, task: SessionTask) -> None:
        self.by_status.setdefault(task.status, {})[task.uid] = task
        self.ready_count += task.status in _READY
        if task.status == PENDING and task.best_effort:
            self.waiting_best_effort += 1

    def _unindex(self, task: SessionTask) -> None:
        index = self.by_status.get(task.status)
        if index is not None and index.pop(task.uid, None) is not None:
            if not index:
                del self.by_status[task.status]
            self.ready_count -= task.status in _READY
            if task.status == PENDING and task.best_effort:
                self.waiting_best_effort -= 1


class FitError(Protocol):
    """Why a task got no node: the sentence, and each node's reasons where nodes were looked at (FitErrors).
    `everywhere`: a claim of the task is wrong for every node."""

    everywhere: bool

    @property
    def message(self) -> str:
        """The scheduler's sentence."""

    @property
    def groups(self) -> Sequence[tuple[tuple[str, ...], Sequence[str]]]:
        """Reasons with the nodes that gave them, in the order of the nodes' names."""


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
    "FitError",
    "Resources",
    "SessionJob",
    "SessionQueue",
    "SessionTask",
    "Vector",
    "fits",
]
