"""What is done for one gang: allocate, pipeline, evict, all kept or all undone.

Owns the doing and the undoing on the session's own data. Must not know why. Used by the actions.

Source: Volcano's pkg/scheduler/framework/statement.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionTask
from volcano.objects.status import TaskStatus

ALLOCATE, PIPELINE, EVICT = "allocate", "pipeline", "evict"


@dataclass(frozen=True, slots=True)
class Operation:
    """One step. `was` is the task's status before; of an eviction `reason`, `action` and whom it makes room for."""

    kind: str
    task: SessionTask
    node: str
    was: int
    score: float | None = None
    reason: str = ""
    action: str = ""
    preemptor: SessionTask | None = None


class Statement:
    """A list of operations. `commit` leaves them done, and hands them to the session's outcome; `discard` undoes them,
    the last first."""

    def __init__(self, ssn: Session) -> None:
        self.ssn = ssn
        self.operations: list[Operation] = []

    def allocate(self, task: SessionTask, node: str, score: float | None = None) -> None:
        """The task takes what is idle on the node."""
        self._do(Operation(ALLOCATE, task, node, task.status, score))

    def pipeline(self, task: SessionTask, node: str, score: float | None = None) -> None:
        """The task is promised what is being released on the node."""
        self._do(Operation(PIPELINE, task, node, task.status, score))

    def evict(self, task: SessionTask, reason: str, action: str, preemptor: SessionTask | None = None) -> None:
        """The task is told to go."""
        self._do(Operation(EVICT, task, task.node, task.status, None, reason, action, preemptor))

    def commit(self) -> list[Operation]:
        """What was done stays; the operations in their order, which the action reports to the outcome."""
        done, self.operations = self.operations, []
        return done

    def discard(self) -> None:
        """Nothing of it is kept."""
        while self.operations:
            self._undo(self.operations.pop())

    def _do(self, operation: Operation) -> None:
        task, nodes = operation.task, self.ssn.nodes
        job, row = self.ssn.jobs.get(task.job), nodes.row[operation.node]
        if operation.kind == ALLOCATE:
            nodes.take(row, task)
            status = TaskStatus.ALLOCATED
        elif operation.kind == PIPELINE:
            nodes.promise(row, task)
            status = TaskStatus.PIPELINED
        else:
            nodes.release(row, task.request)
            status = TaskStatus.RELEASING
        task.node = operation.node
        if job is not None:
            job.set_status(task, int(status))
        for handler in self.ssn.handlers:
            (handler.deallocate if operation.kind == EVICT else handler.allocate)(task)
        self.operations.append(operation)

    def _undo(self, operation: Operation) -> None:
        task, nodes = operation.task, self.ssn.nodes
        job, row = self.ssn.jobs.get(task.job), nodes.row[operation.node]
        if operation.kind == ALLOCATE:
            nodes.give_back(row, task)
        elif operation.kind == PIPELINE:
            nodes.break_promise(row, task)
        else:
            nodes.keep(row, task.request)
        if operation.kind != EVICT:
            task.node = ""
        if job is not None:
            job.set_status(task, operation.was)
        for handler in self.ssn.handlers:
            (handler.allocate if operation.kind == EVICT else handler.deallocate)(task)


__all__ = ["ALLOCATE", "EVICT", "PIPELINE", "Operation", "Statement"]
