"""reclaim: a queue that has less than it deserves takes back from queues that have more.

Owns the order and the choice of nodes. Must not know who may be a victim nor what a queue deserves. Called by `run`.

Source: Volcano's pkg/scheduler/actions/reclaim/reclaim.go. The first node that will do is taken; Volcano goes through
them in an order that changes from run to run, here the seed decides. Its choices that have to be asked for (the node
with the cheapest victims, victims on several nodes) are not made.
"""

from __future__ import annotations

from heapq import heapify, heappop

from vcledger.scheduler.session.actions.preempt import allowed_rows, may_preempt, starving_jobs, waiting_tasks
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionJob, SessionQueue, SessionTask
from vcledger.scheduler.session.outcome import Outcome
from vcledger.scheduler.session.statement import Statement
from vcledger.scheduler.session.victims import in_order, make_room, report
from volcano.objects.status import TaskStatus

ACTION = "reclaim"


def execute(ssn: Session, outcome: Outcome) -> None:
    """Queue by queue; one that holds all that it deserves takes from nobody."""
    starving = starving_jobs(ssn)
    queues = [(ssn.queue_key(ssn.queues[name]), name) for name in sorted(starving)]
    heapify(queues)
    while queues:
        _, name = heappop(queues)
        queue = ssn.queues[name]
        if ssn.overused(queue):
            continue
        jobs = [(ssn.job_key(job), job) for job in starving[name]]
        heapify(jobs)
        while jobs:
            _, job = heappop(jobs)
            _reclaim(ssn, outcome, queue, job)


def _reclaim(ssn: Session, outcome: Outcome, queue: SessionQueue, job: SessionJob) -> None:
    statement, tasks = Statement(ssn), waiting_tasks(ssn, job)
    while ssn.job_starving(job):
        task = next(tasks, None)
        if task is None:
            break
        if may_preempt(ssn, task) and ssn.preemptive(queue, task):
            _reclaim_for(ssn, statement, task)
    if ssn.job_pipelined(job):
        report(ssn, outcome, job.uid, statement.commit())
    else:
        statement.discard()


def _reclaim_for(ssn: Session, statement: Statement, task: SessionTask) -> bool:
    """Makes room on the first node where it can be had from running tasks of other queues."""
    own, names = ssn.jobs[task.job].queue, ssn.nodes.names
    rows = allowed_rows(ssn, task)
    rows.sort(key=lambda row: (ssn.tie(task.uid, names[row]), row))
    for row in rows:
        candidates = [
            one
            for one in ssn.nodes.tasks[row].values()
            if one.status == TaskStatus.RUNNING and one.preemptable and _is_taken_from(ssn, one, own)
        ]
        if candidates and make_room(ssn, statement, task, row, in_order(ssn, candidates, task), ACTION):
            return True
    return False


def _is_taken_from(ssn: Session, task: SessionTask, own: str) -> bool:
    job = ssn.jobs.get(task.job)
    return job is not None and job.queue != own and ssn.queues[job.queue].reclaimable


__all__ = ["execute"]
