"""allocate: queue by queue, job by job, task by task, each to the best of the nodes that it may go to.

Owns the order, the choice of a node and what becomes of a gang. Must not know what a plugin says nor why. Called by
`run`.

Source: Volcano's pkg/scheduler/actions/allocate/allocate.go (v1.13 and later) and util.PredicateHelper. A job that is
ready goes on one task at a time, so that queues and jobs take turns. In a large cluster only some nodes are looked at
(`sampling`), and among these those come first on which the task fits at once. Networks of nodes (HyperNodes) and shards
are not done. Of equal nodes the seed decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vcledger.scheduler.session.actions.remembered import Remembered
from vcledger.scheduler.session.feasible import Mask, ShapeColumns
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import PENDING, FitError, SessionJob, SessionTask, fits
from vcledger.scheduler.session.nodes import Rows
from vcledger.scheduler.session.outcome import Discarded, JobOutcome, Outcome, Placed
from vcledger.scheduler.session.refusals import Said
from vcledger.scheduler.session.statement import ALLOCATE, Operation, Statement
from volcano.objects.status import READY_STATUSES

ACTION, INQUEUE = "allocate", "Inqueue"
_COUNTED = frozenset(int(status) for status in READY_STATUSES)


def execute(ssn: Session, outcome: Outcome) -> None:
    """The whole action."""
    _Allocate(ssn, outcome).run()


class Choice:
    """How tasks of a session choose among nodes; the backfill action does so too."""

    def __init__(self, ssn: Session, remembered: Remembered | None = None) -> None:
        self.ssn, self.looks = ssn, ssn.looks
        self.feasible = ssn.feasible
        self.samples = ssn.looks.samples
        self.scorers = ssn.functions("node_order")
        self.batch = ssn.functions("batch_node_order")
        self.remembered = remembered

    def place(self, task: SessionTask) -> tuple[int, bool, float | None] | None:
        """The row of the best node, whether the task fits into what is idle there, and the score where there was a
        choice. A node that an earlier cycle has promised it comes before any other, also where it has to wait for what
        is being released there. None: no node takes it."""
        if task.like is None:
            return None
        columns = self.feasible.columns(task.like)
        if not columns.open:
            return None
        now, later = self._masks(task, columns)
        promised = self.ssn.nodes.row.get(task.nominated) if task.nominated else None
        if promised is not None:
            if self.samples and fits(task.request, self.ssn.nodes.future_idle(np.array((promised,)))[0]):
                self.looks.look_at_one()
            if now[promised] or later[promised]:
                return promised, bool(now[promised]), None
        for rows, idle in self._seen(task, now, later):
            if len(rows) == 1:
                return int(rows[0]), idle, None
            if len(rows):
                row, score = self._best(task, columns, rows)
                return row, idle, score
        return None

    def _seen(self, task: SessionTask, now: Mask, later: Mask) -> Iterator[tuple[Rows, bool]]:
        """Of the nodes that would do those that are seen: where the task fits now, and where
        it will."""
        remembered = self.remembered if self.remembered is not None and self.remembered.keeps(task) else None
        if remembered is not None:
            now, later = remembered.without(task, now), remembered.without(task, later)
        if self.samples:
            rows = self.looks.look(task.uid, now, later)
            found = (rows[now[rows]], True), (rows[later[rows]], False)
        else:
            found = (np.flatnonzero(now), True), (np.flatnonzero(later), False)
        if remembered is not None:
            remembered.note(task, now | later, self.looks.looked_at if self.samples else None)
        return iter(found)

    def takes(self, task: SessionTask, node: str) -> bool:
        """Whether a node takes the task, now or once what is being released there has gone."""
        row = self.ssn.nodes.row.get(node)
        if row is None or task.like is None:
            return False
        now, later = self._masks(task, self.feasible.columns(task.like))
        return bool(now[row] or later[row])

    def _masks(self, task: SessionTask, columns: ShapeColumns) -> tuple[Mask, Mask]:
        now, later = columns.now, columns.later
        if self.feasible.more(task):
            allowed = self.feasible.narrowed(task, now | later)
            now, later = now & allowed, later & allowed
        return now, later

    def _best(self, task: SessionTask, columns: ShapeColumns, rows: Rows) -> tuple[int, float]:
        """The row with the highest score; the seed decides between equals."""
        scores = self._scores(task, columns)[rows]
        for function in self.batch:
            more = function(task, rows)
            if more is not None:
                scores = scores + more
        chooser = self.ssn.chooser
        chosen = chooser(task, rows, scores) if chooser is not None else None
        if chosen is not None:
            return chosen, float(scores[rows == chosen].item())
        best = scores.max()
        equal = rows[scores == best]
        row = equal[self.ssn.tie(task.uid) % len(equal)] if len(equal) > 1 else equal[0]
        return int(row), float(best)

    def _scores(self, task: SessionTask, columns: ShapeColumns) -> NDArray[np.float64]:
        """The scores of the task's shape by row, asked anew for rows that changed."""
        table = self.ssn.nodes
        if columns.scored_for is not self.ssn.conf or columns.scored_objects != table.object_changes:
            columns.scores = np.zeros(len(table))
            rows = np.arange(len(table))
            columns.scored_for = self.ssn.conf
        elif columns.scored == table.changes:
            return columns.scores
        else:
            rows = table.changed_since(columns.scored)
        if len(rows):
            total = np.zeros(len(rows))
            for function in self.scorers:
                total += function(task, rows)
            columns.scores[rows] = total
        columns.scored, columns.scored_objects = table.changes, table.object_changes
        return columns.scores


class _Allocate:
    def __init__(self, ssn: Session, outcome: Outcome) -> None:
        self.ssn, self.outcome = ssn, outcome
        self.remembered = Remembered(ssn, ACTION)
        self.choice = Choice(ssn, self.remembered)
        self.job_key = ssn.job_key
        self.tasks: dict[str, list[tuple[Any, SessionTask]]] = {}
        self.failed_roles: dict[str, set[str]] = {}
        self.passed_over: dict[str, str] = {}

    def run(self) -> None:
        ssn = self.ssn
        jobs, queue_key = self._jobs(), ssn.queue_key
        if ssn.promised:
            self._promised(jobs)
        queues = [(queue_key(ssn.queues[name]), name) for name in sorted(jobs)]
        heapify(queues)
        while queues:
            _, name = heappop(queues)
            queue, waiting = ssn.queues[name], jobs[name]
            if ssn.overused(queue):
                for _, job in sorted(waiting, key=lambda item: item[1].uid):
                    self._note(job, "overused", f"queue {name} is overused")
                continue
            if not waiting:
                continue
            _, job = heappop(waiting)
            if self._job(job):
                heappush(waiting, (self.job_key(job), job))
            heappush(queues, (queue_key(queue), name))

    def _promised(self, jobs: dict[str, list[tuple[Any, SessionJob]]]) -> None:
        """The jobs for which evictions have made room come before all others, or these would take it."""
        for name in sorted(jobs):
            for _, job in sorted(jobs[name]):
                if not any(self._is_promised(task) for _, task in self.tasks[job.uid]):
                    continue
                jobs[name] = [one for one in jobs[name] if one[1] is not job]
                more = True
                while more and self._is_promised(self.tasks[job.uid][0][1]):
                    more = self._job(job)
                if more:
                    jobs[name].append((self.job_key(job), job))
            heapify(jobs[name])

    def _is_promised(self, task: SessionTask) -> bool:
        """Whether room was made for the task on a node that still takes it; elsewhere the ordinary order holds."""
        node = self.ssn.promised.get(task.uid)
        return node is not None and self.choice.takes(task, node)

    def _jobs(self) -> dict[str, list[tuple[Any, SessionJob]]]:
        """The jobs that take part, by queue, as heaps."""
        ssn, task_key = self.ssn, self._task_key()
        gated = "enqueue" in ssn.conf.actions
        found: dict[str, list[tuple[Any, SessionJob]]] = {}
        for uid in sorted(ssn.waiting):
            job = ssn.waiting[uid]
            if job.unadmitted:
                if gated:
                    continue
                job.phase = INQUEUE
            invalid = ssn.job_valid(job)
            if invalid is not None:
                self._note(job, "invalid", invalid[1], invalid[0])
                continue
            tasks = [(task_key(task), task) for task in job.pending() if not task.gated and not task.best_effort]
            if tasks:
                heapify(tasks)
                self.tasks[uid] = tasks
                found.setdefault(job.queue, []).append((self.job_key(job), job))
        for heap in found.values():
            heapify(heap)
        return found

    def _task_key(self) -> Callable[[SessionTask], Any]:
        """The key of a job's tasks: those that room was made for come first."""
        usual = self.ssn.task_key
        return (lambda task: (not self._is_promised(task), usual(task))) if self.ssn.promised else usual

    # --- one job ------------------------------------------------------------------------------------------------------

    def _job(self, job: SessionJob) -> bool:
        """One turn of a job. True: it has more tasks, and is to have another. Without any node none is tried, and so
        none has a fit error (allocateResourcesForTasks)."""
        ssn = self.ssn
        if not len(ssn.nodes):
            self._note(job, "untried")
            return False
        statement = Statement(ssn)
        self._tasks(job, statement)
        if ssn.job_ready(job):
            done = statement.commit()
            self._commit(job, done)
            return bool(self.tasks[job.uid])
        if ssn.job_pipelined(job):
            self._keep(job, statement.commit())
            return False
        self._discard(job, statement)
        return False

    def _tasks(self, job: SessionJob, statement: Statement) -> None:
        ssn, tasks = self.ssn, self.tasks[job.uid]
        queue = ssn.queues[job.queue]
        self.remembered.begin()
        failed = self.failed_roles.setdefault(job.uid, set())
        while tasks:
            _, task = heappop(tasks)
            if not ssn.allocatable(queue, task):
                self.passed_over.setdefault(job.uid, task.name)
                continue
            if task.role and task.role in failed:
                role = f"Task {task.name} with role spec {task.role} has already predicated failed, skip"
                job.fit_errors[task.uid] = Said(role)
                continue
            place = self.choice.place(task)
            if place is None:
                error = job.fit_errors[task.uid] = self._error(task)
                failed.add(task.role)
                if not error.everywhere and self._goes_on(job, failed):
                    continue
                break
            row, idle, score = place
            if idle:
                statement.allocate(task, ssn.nodes.names[row], score)
            else:
                statement.pipeline(task, ssn.nodes.names[row], score)
            if ssn.job_ready(job):
                break

    def _error(self, task: SessionTask) -> FitError:
        if task.like is None:
            return Said("the pod's object is not known")
        found: FitError = self.ssn.feasible.refusals(task, self.remembered.of(task))
        return found

    @staticmethod
    def _goes_on(job: SessionJob, failed: set[str]) -> bool:
        """Whether other tasks are tried after one that fits nowhere (JobInfo.NeedContinueAllocating)."""
        needed, minimums = job.min_available, job.task_min_available
        if needed >= len(job.tasks):
            return False
        if needed < sum(minimums.values()):
            left = sum(1 for task in job.pending() if task.role not in failed)
            return job.ready_count + left >= needed
        return all(_held(job, role) >= minimums[role] for role in sorted(failed) if minimums.get(role))

    # --- what becomes of it -------------------------------------------------------------------------------------------

    def _commit(self, job: SessionJob, done: list[Operation]) -> None:
        allocated = [one for one in done if one.kind == ALLOCATE]
        self.outcome.decisions += [
            Placed(one.task, one.node, one.score, pipelined=one.kind != ALLOCATE) for one in done
        ]
        what = "allocated" if allocated else "unschedulable"
        self._note(job, what, placed=len(allocated), more=len(done) - len(allocated))

    def _keep(self, job: SessionJob, done: list[Operation]) -> None:
        """The gang waits for what is being released: its places are kept in this session, nothing is bound."""
        promised = [one for one in done if one.kind != ALLOCATE]
        self.outcome.decisions += [Placed(one.task, one.node, one.score, pipelined=True) for one in promised]
        self._note(job, "pipelined", more=len(promised))

    def _discard(self, job: SessionJob, statement: Statement) -> None:
        tasks = tuple((one.task, one.node) for one in statement.operations)
        ready = job.ready_count + job.waiting_count
        statement.discard()
        broken = next(iter(job.fit_errors), None)
        if tasks:
            breaker = job.tasks[broken] if broken is not None else None
            self.outcome.discarded.append(Discarded(job.uid, ready, job.min_available, tasks, breaker))
            self._note(job, "discarded", f"gang: {ready} of {job.min_available} fit", "NotEnoughResources")
        elif broken is None and job.uid in self.passed_over:
            self._note(job, "overused", f"queue {job.queue} is overused for task {self.passed_over[job.uid]}")
        else:
            self._note(job, "unschedulable" if broken is not None else "untried")

    def _note(
        self, job: SessionJob, outcome: str, message: str = "", reason: str = "", *, placed: int = 0, more: int = 0
    ) -> None:
        """What became of the job; a later turn that got nothing does not take back what an earlier one got."""
        old = self.outcome.jobs.get(job.uid)
        if old is not None and old.placed:
            placed, more = placed + old.placed, more + old.pipelined
            if outcome != "allocated":
                outcome, message, reason = old.outcome, old.message, old.reason
        self.outcome.jobs[job.uid] = JobOutcome(
            job.uid, outcome, reason, message, placed, more, job.ready_count, job.min_available
        )


def _held(job: SessionJob, role: str) -> int:
    """Tasks of a role that have a place, or wait and ask for nothing (JobInfo.getJobAllocatedRoles)."""
    return sum(
        1
        for status, index in job.by_status.items()
        for task in index.values()
        if task.role == role and (status in _COUNTED or (status == PENDING and task.best_effort))
    )


__all__ = ["Choice", "execute"]
