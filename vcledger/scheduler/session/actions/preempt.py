"""preempt: a job that lacks members takes the place of others in its queue, then of its own lesser tasks.

Owns the order and the choice of nodes. Must not know who may be a victim nor why. Called by `run`.

Source: Volcano's pkg/scheduler/actions/preempt/preempt.go (normal preemption). Every node is looked at, where Volcano
samples large clusters; of nodes with equal scores the seed decides, where Volcano goes through a map. The preemption
that is aware of topology, which has to be asked for, is not done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop
from typing import Any

import numpy as np

from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionJob, SessionTask
from vcledger.scheduler.session.outcome import Outcome
from vcledger.scheduler.session.statement import Statement
from vcledger.scheduler.session.victims import in_order, make_room, report
from volcano.objects.status import TaskStatus

ACTION, NEVER = "preempt", "Never"
PREEMPTABLE = (int(TaskStatus.BOUND), int(TaskStatus.RUNNING))
TERMINATED_BY, PREEMPTION = "DisruptionTarget", "PreemptionByScheduler"


def execute(ssn: Session, outcome: Outcome) -> None:
    """Queue by queue: between jobs, each gang all or nothing; then within each job, task by task."""
    starving = starving_jobs(ssn)
    queues = [(ssn.queue_key(ssn.queues[name]), name) for name in sorted(starving)]
    heapify(queues)
    while queues:
        _, name = heappop(queues)
        jobs = [(ssn.job_key(job), job) for job in starving[name]]
        heapify(jobs)
        while jobs:
            _, job = heappop(jobs)
            _between_jobs(ssn, outcome, job)
        for job in sorted(starving[name], key=ssn.job_key):
            _within_job(ssn, outcome, job)


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


def _between_jobs(ssn: Session, outcome: Outcome, job: SessionJob) -> None:
    statement, tasks = Statement(ssn), waiting_tasks(ssn, job)
    while ssn.job_starving(job):
        task = next(tasks, None)
        if task is None:
            break

        def others(one: SessionTask) -> bool:
            return one.job != job.uid and ssn.jobs[one.job].queue == job.queue

        _preempt(ssn, statement, task, others)
    if ssn.job_pipelined(job):
        report(ssn, outcome, job.uid, statement.commit())
    else:
        statement.discard()


def _within_job(ssn: Session, outcome: Outcome, job: SessionJob) -> None:
    for task in waiting_tasks(ssn, job):
        statement = Statement(ssn)
        if not _preempt(ssn, statement, task, lambda one: one.job == job.uid):
            statement.discard()
            return
        report(ssn, outcome, job.uid, statement.commit())


def _preempt(ssn: Session, statement: Statement, task: SessionTask, among: Callable[[SessionTask], bool]) -> bool:
    """Makes room for a task on the first node, the best score first, where it can be had."""
    if not _is_eligible(ssn, task):
        return False
    for row in by_score(ssn, task):
        candidates = [
            one
            for one in ssn.nodes.tasks[row].values()
            if one.status in PREEMPTABLE
            and one.preemptable
            and one.job in ssn.jobs
            and (one.best_effort or not task.best_effort)
            and among(one)
        ]
        if make_room(ssn, statement, task, row, in_order(ssn, candidates, task), ACTION):
            return True
    return False


def may_preempt(ssn: Session, task: SessionTask) -> bool:
    """The pod's preemptionPolicy is not Never."""
    pod = ssn.pod_of(task)
    return pod is None or pod.spec.preemption_policy != NEVER


def _is_eligible(ssn: Session, task: SessionTask) -> bool:
    """A pod that has been promised a node by an earlier preemption waits for it while that is under way."""
    pod = ssn.pod_of(task)
    if pod is None:
        return True
    if pod.spec.preemption_policy == NEVER:
        return False
    node = pod.status.nominated_node_name
    if not node:
        return True
    row = ssn.nodes.row.get(node)
    if row is None or ssn.feasible.fits_now(task, row):
        return False
    if row not in ssn.feasible.resolvable(task):
        return True
    return not any(_is_making_way(ssn, one, task) for one in ssn.nodes.tasks[row].values())


def _is_making_way(ssn: Session, one: SessionTask, task: SessionTask) -> bool:
    pod = ssn.pod_of(one)
    if pod is None or pod.metadata.deletion_timestamp is None or one.priority >= task.priority:
        return False
    return any(
        condition.type == TERMINATED_BY and condition.status == "True" and condition.reason == PREEMPTION
        for condition in pod.status.conditions or ()
    )


def allowed_rows(ssn: Session, task: SessionTask) -> list[int]:
    """The rows of nodes from which nothing keeps the task that an eviction could not help."""
    rows = ssn.feasible.resolvable(task)
    for predicate in ssn.functions("predicate"):
        allowed = predicate(task)
        if allowed is not None:
            rows = rows[allowed[rows]]
    return [int(row) for row in rows]


def by_score(ssn: Session, task: SessionTask) -> list[int]:
    """Those rows, the best score first; the seed decides between equals."""
    rows = np.array(allowed_rows(ssn, task), dtype=np.intp)
    if not len(rows):
        return []
    total = ssn.scores(task, rows)
    names = ssn.nodes.names
    keyed = [(-float(score), ssn.tie(task.uid, names[row]), int(row)) for row, score in zip(rows, total, strict=True)]
    return [row for _, _, row in sorted(keyed)]


__all__ = ["allowed_rows", "by_score", "execute", "may_preempt", "starving_jobs", "waiting_tasks"]
