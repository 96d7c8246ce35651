"""TaskStatus: the statuses of a task, which of them count, and how a pod's state gives one.

Owns the table. Must not know the cache. Called by `projections` and by readers of Volcano's dumps.

Source: Volcano's api.TaskStatus, getTaskStatus and AllocatedStatus; vectors 016, 017, 020, 110.
"""

from __future__ import annotations

from enum import IntEnum


class TaskStatus(IntEnum):
    """A task's status; the value is the bit that Volcano's dumps print."""

    PENDING = 1
    ALLOCATED = 2
    PIPELINED = 4
    BINDING = 8
    BOUND = 16
    RUNNING = 32
    RELEASING = 64
    SUCCEEDED = 128
    FAILED = 256
    UNKNOWN = 512

    @property
    def word(self) -> str:
        """As Volcano prints it: 'Pending', 'Running'."""
        return STATUS_WORDS[self]


STATUS_WORDS: dict[int, str] = {
    TaskStatus.PENDING: "Pending",
    TaskStatus.ALLOCATED: "Allocated",
    TaskStatus.PIPELINED: "Pipelined",
    TaskStatus.BINDING: "Binding",
    TaskStatus.BOUND: "Bound",
    TaskStatus.RUNNING: "Running",
    TaskStatus.RELEASING: "Releasing",
    TaskStatus.SUCCEEDED: "Succeeded",
    TaskStatus.FAILED: "Failed",
    TaskStatus.UNKNOWN: "Unknown",
}

STATUS_BY_WORD: dict[str, TaskStatus] = {word: TaskStatus(status) for status, word in STATUS_WORDS.items()}

ALLOCATED_STATUSES = frozenset({TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING})
"""What a job's `allocated` counts (fact 7)."""

READY_STATUSES = (
    TaskStatus.BOUND,
    TaskStatus.BINDING,
    TaskStatus.RUNNING,
    TaskStatus.ALLOCATED,
    TaskStatus.SUCCEEDED,
)
"""What a job's `ready_task_num` counts (fact 7)."""

TERMINATED_STATUSES = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})
"""Kept in the job, never on the node (fact 6)."""


_PENDING, _BOUND = TaskStatus.PENDING, TaskStatus.BOUND
_BY_PHASE = {
    "Running": (TaskStatus.RUNNING, TaskStatus.RELEASING),
    "Pending": (_PENDING, TaskStatus.RELEASING),
    "Succeeded": (TaskStatus.SUCCEEDED, TaskStatus.SUCCEEDED),
    "Failed": (TaskStatus.FAILED, TaskStatus.FAILED),
}
"""A pod's phase to its task's status, and to that of one that is being deleted."""

_ANY_OTHER = (TaskStatus.UNKNOWN, TaskStatus.UNKNOWN)


def task_status(phase: str, deleting: bool, node_name: str) -> TaskStatus:
    """The status that a pod's phase, deletionTimestamp and nodeName give (fact 5)."""
    status = _BY_PHASE.get(phase, _ANY_OTHER)[deleting]
    return _BOUND if status is _PENDING and node_name else status


__all__ = [
    "ALLOCATED_STATUSES",
    "READY_STATUSES",
    "STATUS_BY_WORD",
    "STATUS_WORDS",
    "TERMINATED_STATUSES",
    "TaskStatus",
    "task_status",
]
