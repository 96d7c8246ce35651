"""Who has to go for a task: the order of victims, and the making of room on a node.

Owns both. Must not know who may be a victim (plugins say so) nor which nodes are tried. Called by the actions preempt
and reclaim, and by plugins that go through victims in their order.

Source: Volcano's Session.BuildVictimsPriorityQueue and VictimQueueOrderFn, util.ValidateVictims, and what normalPreempt
of actions/preempt and planOnNode of actions/reclaim have in common.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property, cmp_to_key

import numpy as np
from numpy.typing import NDArray

from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionQueue, SessionTask, Vector, fits
from vcledger.scheduler.session.outcome import Evicted, JobOutcome, Outcome, Placed
from vcledger.scheduler.session.statement import EVICT, Operation, Statement
from volcano.objects.resource import EPSILON


def in_order(ssn: Session, victims: Sequence[SessionTask], preemptor: SessionTask) -> list[SessionTask]:
    """The first to go first: those of the queue that comes last, in it of the job that the plugins put last, and of
    jobs that no plugin tells apart the task that comes last. (Their age and uid don't count: so it was recorded.)"""
    if len(victims) < 2:
        return list(victims)
    own = ssn.queues[ssn.jobs[preemptor.job].queue]

    def compare(left: SessionTask, right: SessionTask) -> int:
        if left.job == right.job:
            return -ssn.compare_tasks(left, right)
        left_job, right_job = ssn.jobs[left.job], ssn.jobs[right.job]
        if left_job.queue != right_job.queue:
            return _compare_queues(ssn, ssn.queues[left_job.queue], ssn.queues[right_job.queue], own)
        return -ssn.rank_jobs(left_job, right_job) or -ssn.compare_tasks(left, right)

    return sorted(victims, key=cmp_to_key(compare))


def _compare_queues(ssn: Session, left: SessionQueue, right: SessionQueue, own: SessionQueue) -> int:
    for function in ssn.functions("victim_queue_order"):
        found: int = function(left, right, own)
        if found:
            return found
    return -ssn.compare_queues(left, right)


class OnNodes:
    """The tasks that may be evicted at all, by queue and row, looked up once for an action; those that the session is
    to spare are none. What the session evicts meanwhile stays in the lists, and has another status."""

    def __init__(self, ssn: Session, statuses: Collection[int]) -> None:
        self.ssn, self.statuses = ssn, frozenset(statuses)
        self.of: dict[str, dict[int, list[SessionTask]]] = {}
        for row, tasks in enumerate(ssn.nodes.tasks):
            for task in tasks.values():
                job = ssn.jobs.get(task.job) if task.preemptable and task.status in self.statuses else None
                if job is not None and task.uid not in ssn.spared:
                    self.of.setdefault(job.queue, {}).setdefault(row, []).append(task)
        self._sums: dict[tuple[str, ...], NDArray[np.float64]] = {}

    def rows(self, task: SessionTask, rows: NDArray[np.intp], queues: Sequence[str]) -> NDArray[np.intp]:
        """Those of some rows on which there would be room for a task if all tasks of some queues were gone. (What has
        been evicted already is being released, which comes to the same.)"""
        known = self._sums.get(tuple(queues))
        if known is None:
            known = np.zeros_like(self.ssn.nodes.idle)
            for queue in queues:
                for row, tasks in self.of.get(queue, {}).items():
                    known[row] += np.sum([one.request for one in tasks if one.status in self.statuses], axis=0)
            self._sums[tuple(queues)] = known
        room = self.ssn.nodes.future_idle(rows) + known[rows]
        found: NDArray[np.intp] = rows[(task.request < room + EPSILON).all(axis=1)]
        return found

    def on(self, row: int, queue: str) -> list[SessionTask]:
        """The tasks of a queue there that are still to be had."""
        return [one for one in self.of.get(queue, {}).get(row, ()) if one.status in self.statuses]


class Evicting:
    """An action that evicts, while it runs; `statuses` are those of the tasks that it may evict."""

    statuses: Collection[int] = ()

    def __init__(self, ssn: Session, outcome: Outcome) -> None:
        self.ssn, self.outcome = ssn, outcome
        self.in_vain: dict[object, object] = {}

    @cached_property
    def there(self) -> OnNodes:
        """Looked up when the first task asks: it goes through all that is on the nodes."""
        return OnNodes(self.ssn, self.statuses)


def make_room(
    ssn: Session, statement: Statement, task: SessionTask, row: int, candidates: Sequence[SessionTask], action: str
) -> bool:
    """Evicts from a node until the task's queue may hold it and the node will have room for it, and promises it the
    room; all of that into the statement. False: it can't be had there, and nothing was done. `action` is preempt or
    reclaim."""
    victims = ssn.victims("preemptable" if action == "preempt" else "reclaimable", task, candidates)
    released = np.sum([one.request for one in victims], axis=0) if victims else 0.0
    if not fits(task.request, _future(ssn, row) + released):
        return False
    queue, trial = ssn.queues[ssn.jobs[task.job].queue], Statement(ssn)
    left = in_order(ssn, victims, task)
    while not (ready := _is_ready_for(ssn, queue, task, row)) and left:
        trial.evict(left.pop(0), action, action, task)
    if not ready:
        trial.discard()
        return False
    trial.pipeline(task, ssn.nodes.names[row])
    statement.merge(trial)
    return True


def _is_ready_for(ssn: Session, queue: SessionQueue, task: SessionTask, row: int) -> bool:
    return (
        ssn.allocatable(queue, task)
        and fits(task.request, _future(ssn, row))
        and bool(ssn.feasible.fits_now(task, row))
    )


def _future(ssn: Session, row: int) -> Vector:
    found: Vector = ssn.nodes.idle[row] + ssn.nodes.releasing[row] - ssn.nodes.pipelined[row]
    return found


def report(ssn: Session, outcome: Outcome, uid: str, done: Sequence[Operation]) -> None:
    """Tells the outcome what a statement for a job has come to."""
    promised = 0
    for one in done:
        if one.kind == EVICT:
            outcome.decisions.append(Evicted(one.task, one.node, one.reason, one.action, one.preemptor))
        else:
            outcome.decisions.append(Placed(one.task, one.node, one.score, pipelined=True))
            promised += 1
    if not promised:
        return
    job, old = ssn.jobs[uid], outcome.jobs.get(uid)
    placed, before = (old.placed, old.pipelined) if old is not None else (0, 0)
    kind = "allocated" if placed else "pipelined"
    outcome.jobs[uid] = JobOutcome(
        uid, kind, placed=placed, pipelined=before + promised, ready=job.ready_count, needed=job.min_available
    )


__all__ = ["Evicting", "OnNodes", "in_order", "make_room", "report"]
