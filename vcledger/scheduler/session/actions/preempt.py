"""preempt: a job that lacks members takes the place of others in its queue, then of its own lesser tasks.

Owns the order and the choice of nodes. Must not know who may be a victim nor why. Called by `run`.

Source: Volcano's pkg/scheduler/actions/preempt/preempt.go (normal preemption). Every node is looked at, where Volcano
samples large clusters; of nodes with equal scores the seed decides, where Volcano goes through a map. The preemption
that is aware of topology, which has to be asked for, is not done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vcledger.scheduler.bodies import BY_SCHEDULER, DISRUPTION_TARGET
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionJob, SessionTask
from vcledger.scheduler.session.outcome import Outcome
from vcledger.scheduler.session.statement import Statement
from vcledger.scheduler.session.victims import Evicting, OnNodes, in_order, make_room, report
from volcano.objects.core import Pod
from volcano.objects.status import TaskStatus

ACTION, NEVER = "preempt", "Never"
PREEMPTABLE = (int(TaskStatus.BOUND), int(TaskStatus.RUNNING))


def execute(ssn: Session, outcome: Outcome) -> None:
    """Queue by queue: between jobs, each gang all or nothing; then within each job, task by task."""
    starving = starving_jobs(ssn)
    if starving:
        _Preempt(ssn, outcome).run(starving)


def starving_jobs(ssn: Session) -> dict[str, list[SessionJob]]:
    """The admitted, valid jobs that lack members, by queue."""
    found: dict[str, list[SessionJob]] = {}
    for uid in sorted(ssn.waiting):
        job = ssn.waiting[uid]
        if not job.unadmitted and ssn.job_valid(job) is None and ssn.job_starving(job):
            found.setdefault(job.queue, []).append(job)
    return found


def waiting_tasks(ssn: Session, job: SessionJob) -> Iterator[SessionTask]:
    """A job's pending tasks that no gate holds back, the first first."""
    heap: list[tuple[Any, SessionTask]] = [(ssn.task_key(task), task) for task in job.pending() if not task.gated]
    heapify(heap)
    while heap:
        yield heappop(heap)[1]


class _Preempt(Evicting):
    statuses = PREEMPTABLE

    def run(self, starving: Mapping[str, list[SessionJob]]) -> None:
        ssn = self.ssn
        queues = [(ssn.queue_key(ssn.queues[name]), name) for name in sorted(starving)]
        heapify(queues)
        while queues:
            _, name = heappop(queues)
            jobs = [(ssn.job_key(job), job) for job in starving[name]]
            heapify(jobs)
            while jobs:
                self._between_jobs(heappop(jobs)[1])
            for job in sorted(starving[name], key=ssn.job_key):
                self._within_job(job)

    def _between_jobs(self, job: SessionJob) -> None:
        ssn = self.ssn
        statement, tasks = Statement(ssn), waiting_tasks(ssn, job)
        while ssn.job_starving(job):
            task = next(tasks, None)
            if task is None:
                break
            self._preempt(statement, task, job, within=False)
        if ssn.job_pipelined(job):
            report(ssn, self.outcome, job.uid, statement.commit())
        else:
            statement.discard()

    def _within_job(self, job: SessionJob) -> None:
        for task in waiting_tasks(self.ssn, job):
            statement = Statement(self.ssn)
            if not self._preempt(statement, task, job, within=True):
                statement.discard()
                return
            report(self.ssn, self.outcome, job.uid, statement.commit())

    def _preempt(self, statement: Statement, task: SessionTask, job: SessionJob, *, within: bool) -> bool:
        """Makes room for a task on the first node, the best score first, where it can be had. Of tasks that are alike
        one that finds none speaks for all, until something changes."""
        ssn = self.ssn
        kind = (task.like if task.like is not None else task.uid, task.priority, job.uid, within)
        if self.in_vain.get(kind) == ssn.nodes.version or not _is_eligible(ssn, task):
            return False
        for row in by_score(ssn, task, self.there):
            candidates = [
                one
                for one in self.there.on(row, job.queue)
                if (one.job == job.uid) == within and (one.best_effort or not task.best_effort)
            ]
            if make_room(ssn, statement, task, row, in_order(ssn, candidates, task), ACTION):
                return True
        self.in_vain[kind] = ssn.nodes.version
        return False


def may_preempt(ssn: Session, task: SessionTask) -> bool:
    """The pod's preemptionPolicy is not Never."""
    pod = ssn.pod_of(task)
    return pod is None or pod.spec.preemption_policy != NEVER


def _is_eligible(ssn: Session, task: SessionTask) -> bool:
    """A pod that has been promised a node by an earlier preemption waits for it while that is under way. In Volcano one
    whose node is gone never preempts again; with kube-scheduler it does, and in a session that is to (`anew`)."""
    pod = ssn.pod_of(task)
    if pod is None:
        return True
    if pod.spec.preemption_policy == NEVER:
        return False
    node = pod.status.nominated_node_name
    if not node:
        return True
    row = ssn.nodes.row.get(node)
    if row is None:
        return ssn.anew
    if ssn.feasible.fits_now(task, row):
        return False
    if row not in ssn.feasible.resolvable(task):
        return True
    return not any(_is_making_way(ssn, one, task) for one in ssn.nodes.tasks[row].values())


def _is_making_way(ssn: Session, one: SessionTask, task: SessionTask) -> bool:
    pod = ssn.pod_of(one)
    return pod is not None and one.priority < task.priority and makes_way(pod)


def makes_way(pod: Pod) -> bool:
    """Whether the pod is being deleted because a scheduler has evicted it."""
    return pod.metadata.deletion_timestamp is not None and any(
        condition.type == DISRUPTION_TARGET and condition.status == "True" and condition.reason == BY_SCHEDULER
        for condition in pod.status.conditions or ()
    )


def allowed_rows(ssn: Session, task: SessionTask) -> NDArray[np.intp]:
    """The rows of nodes from which nothing keeps the task that an eviction could not help."""
    rows: NDArray[np.intp] = ssn.feasible.resolvable(task)
    for predicate in ssn.functions("predicate"):
        allowed = predicate(task)
        if allowed is not None:
            rows = rows[allowed[rows]]
    return rows


def by_score(ssn: Session, task: SessionTask, there: OnNodes) -> list[int]:
    """Those rows where evictions in the task's queue could make enough room, the best score first; the seed decides
    between equals."""
    rows = allowed_rows(ssn, task)
    hopeful = there.rows(task, rows, (ssn.jobs[task.job].queue,))
    if not len(hopeful):
        return []
    scores = dict(zip(rows.tolist(), ssn.scores(task, rows).tolist(), strict=True))
    names = ssn.nodes.names
    found = sorted(hopeful.tolist(), key=lambda row: (-scores[row], ssn.tie(task.uid, names[row]), row))
    return chosen_first(ssn, task, found, [scores[row] for row in found])


def chosen_first(ssn: Session, task: SessionTask, rows: list[int], scores: Sequence[float]) -> list[int]:
    """Rows in their order, but for the one that the session's chooser wants to be tried first."""
    if ssn.chooser is None or not rows:
        return rows
    chosen = ssn.chooser(task, np.array(rows, dtype=np.intp), np.array(scores, dtype=np.float64))
    return rows if chosen is None else [chosen, *(row for row in rows if row != chosen)]


__all__ = [
    "allowed_rows",
    "by_score",
    "chosen_first",
    "execute",
    "makes_way",
    "may_preempt",
    "starving_jobs",
    "waiting_tasks",
]
