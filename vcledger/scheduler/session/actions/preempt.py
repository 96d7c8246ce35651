"""preempt: a job that lacks members takes the place of others in its queue, then of its own lesser tasks.

Owns the order and the choice of nodes. Must not know who may be a victim nor why. Called by `run`.

Source: Volcano's pkg/scheduler/actions/preempt/preempt.go (normal preemption), and for the nodes that are looked at
Session.FilterOutUnschedulableAndUnresolvableNodesForTask. Of nodes with equal scores the one that was found first comes
first (`sampling`). The preemption that is aware of topology, which has to be asked for, is not done.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
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
        if ssn.looks.saw_all:
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


def seen_rows(ssn: Session, task: SessionTask) -> NDArray[np.intp]:
    """Those of the allowed rows that are seen, in the order in which they are. Nodes of which an action before has said
    that nothing could help there are not even looked at."""
    rows = allowed_rows(ssn, task)
    allowed = np.zeros(len(ssn.nodes), dtype=bool)
    allowed[rows] = True
    error = ssn.jobs[task.job].fit_errors.get(task.uid)
    listed = ssn.looks.listed
    return ssn.looks.look(
        task.uid, allowed, among=listed[allowed[listed]] if error is not None and error.groups else None
    )


def by_score(ssn: Session, task: SessionTask, there: OnNodes) -> list[int]:
    """The rows that are seen where evictions in the task's queue could make enough room, the best score first; of
    equals the one that was seen first."""
    seen = seen_rows(ssn, task)
    hopeful = set(there.rows(task, seen, (ssn.jobs[task.job].queue,)).tolist())
    if not hopeful:
        return []
    rows = np.sort(seen)
    scores = dict(zip(rows.tolist(), ssn.scores(task, rows).tolist(), strict=True))
    found = sorted([row for row in seen.tolist() if row in hopeful], key=lambda row: -scores[row])
    return chosen_first(ssn, task, found, seen, scores)


def chosen_first(
    ssn: Session, task: SessionTask, rows: list[int], seen: NDArray[np.intp], scores: Mapping[int, float]
) -> list[int]:
    """Those of the rows that are seen on which there is hope, in their order, but for the one that the session's
    chooser wants to be tried first. It is shown all that are seen, without hope those with a score of -inf."""
    if ssn.chooser is None or not rows:
        return rows
    hopeful = set(rows)
    shown = [scores.get(row, 0.0) if row in hopeful else -math.inf for row in seen.tolist()]
    chosen = ssn.chooser(task, seen, np.array(shown, dtype=np.float64))
    return rows if chosen not in hopeful else [chosen, *(row for row in rows if row != chosen)]


__all__ = [
    "allowed_rows",
    "by_score",
    "chosen_first",
    "execute",
    "makes_way",
    "may_preempt",
    "seen_rows",
    "starving_jobs",
    "waiting_tasks",
]
