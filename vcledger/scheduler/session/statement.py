"""What is done for one gang: allocate, pipeline, evict, all kept or all undone.

Owns the doing and the undoing on the session's own data. Must not know why. Used by the actions.

Source: Volcano's pkg/scheduler/framework/statement.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionTask
from volcano.objects.status import TaskStatus

_ALLOCATED, _PIPELINED, _RELEASING = int(TaskStatus.ALLOCATED), int(TaskStatus.PIPELINED), int(TaskStatus.RELEASING)

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

    def merge(self, other: Statement) -> None:
        """Takes over what another has done."""
        self.operations += other.operations
        other.operations = []

    def commit(self) -> list[Operation]:
        """What was done stays; the operations in their order, which the action reports to the outcome."""
        done, self.operations = self.operations, []
        return done

    def discard(self) -> None:
        """Nothing of it is kept, but where each task would have gone (TaskInfo.LastTransaction)."""
        while self.operations:
            operation = self.operations.pop()
            job = self.ssn.jobs.get(operation.task.job)
            if job is not None and operation.kind != EVICT:
                job.tried[operation.task.uid] = operation.task.status, operation.node
            self._undo(operation)

    def _do(self, operation: Operation) -> None:
        apply(self.ssn, operation)
        task = operation.task
        for handler in self.ssn.handlers:
            (handler.deallocate if operation.kind == EVICT else handler.allocate)(task)
        self.operations.append(operation)

    def _undo(self, operation: Operation) -> None:
        revert(self.ssn, operation)
        for handler in self.ssn.handlers:
            (handler.allocate if operation.kind == EVICT else handler.deallocate)(operation.task)


def apply(ssn: Session, operation: Operation) -> None:
    """Does an operation to the session's data."""
    task, nodes, feasible = operation.task, ssn.nodes, ssn.feasible
    job, row = ssn.jobs.get(task.job), nodes.row[operation.node]
    if operation.kind == ALLOCATE:
        nodes.take(row, task)
        status = _ALLOCATED
    elif operation.kind == PIPELINE:
        nodes.promise(row, task)
        status = _PIPELINED
    else:
        nodes.release(row, task.request)
        status = _RELEASING
    if feasible is None:
        pass
    elif operation.kind == EVICT:
        feasible.leave(task)
    else:
        feasible.take_volumes(task, row)
        feasible.come(task, operation.node)
    task.node = operation.node
    if job is not None:
        ssn.held.setdefault(job.uid, job.allocated)
        job.set_status(task, status)
    else:
        task.status = status
    ssn.done[id(operation)] = operation


def revert(ssn: Session, operation: Operation) -> None:
    """Undoes it. Those done after it have been undone before."""
    task, nodes, feasible = operation.task, ssn.nodes, ssn.feasible
    job, row = ssn.jobs.get(task.job), nodes.row[operation.node]
    if operation.kind == ALLOCATE:
        nodes.give_back(row, task)
    elif operation.kind == PIPELINE:
        nodes.break_promise(row, task)
    else:
        nodes.keep(row, task.request)
    if feasible is not None and operation.kind == EVICT:
        feasible.stay(task)
    elif feasible is not None:
        feasible.go_back(task)
    if operation.kind != EVICT:
        task.node = ""
    if job is not None:
        job.set_status(task, operation.was)
    else:
        task.status = operation.was
    ssn.done.pop(id(operation), None)


__all__ = ["ALLOCATE", "EVICT", "PIPELINE", "Operation", "Statement", "apply", "revert"]
