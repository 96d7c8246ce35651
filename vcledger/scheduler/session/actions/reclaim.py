"""reclaim: a queue that has less than it deserves takes back from queues that have more.

Owns the order and the choice of nodes. Must not know who may be a victim nor what a queue deserves. Called by `run`.

Source: Volcano's pkg/scheduler/actions/reclaim/reclaim.go. The first node that will do is taken, in the order in which
they are found (`sampling`). Its choices that have to be asked for (the node with the cheapest victims, victims on
several nodes) are not made.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop

from vcledger.scheduler.session.actions.preempt import (
    chosen_first,
    may_preempt,
    seen_rows,
    starving_jobs,
    waiting_tasks,
)
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionJob, SessionQueue, SessionTask
from vcledger.scheduler.session.outcome import Outcome
from vcledger.scheduler.session.statement import Statement
from vcledger.scheduler.session.victims import Evicting, in_order, make_room, report
from volcano.objects.status import TaskStatus

ACTION = "reclaim"


def execute(ssn: Session, outcome: Outcome) -> None:
    """Queue by queue; one that holds all that it deserves takes from nobody."""
    starving = starving_jobs(ssn)
    if starving:
        _Reclaim(ssn, outcome).run(starving)


class _Reclaim(Evicting):
    statuses = (int(TaskStatus.RUNNING),)

    def run(self, starving: Mapping[str, list[SessionJob]]) -> None:
        ssn = self.ssn
        queues = [(ssn.queue_key(ssn.queues[name]), name) for name in sorted(starving)]
        heapify(queues)
        while queues:
            _, name = heappop(queues)
            if ssn.overused(ssn.queues[name]):
                continue
            jobs = [(ssn.job_key(job), job) for job in starving[name]]
            heapify(jobs)
            while jobs:
                self._job(ssn.queues[name], heappop(jobs)[1])

    def _job(self, queue: SessionQueue, job: SessionJob) -> None:
        ssn = self.ssn
        statement, tasks = Statement(ssn), waiting_tasks(ssn, job)
        while ssn.job_starving(job):
            task = next(tasks, None)
            if task is None:
                break
            if may_preempt(ssn, task) and ssn.preemptive(queue, task):
                self._task(statement, task, job)
        if ssn.job_pipelined(job):
            report(ssn, self.outcome, job.uid, statement.commit())
        else:
            statement.discard()

    def _task(self, statement: Statement, task: SessionTask, job: SessionJob) -> bool:
        """Makes room on the first node where it can be had from running tasks of other queues. Of tasks that are alike
        one that finds none speaks for all, until something changes."""
        ssn = self.ssn
        kind = (task.like if task.like is not None else task.uid, task.priority, job.uid)
        if self.in_vain.get(kind) == ssn.nodes.version:
            return False
        others = [name for name in sorted(self.there.of) if name != job.queue and ssn.queues[name].reclaimable]
        seen = seen_rows(ssn, task)
        rows = self.there.rows(task, seen, others).tolist()
        for row in chosen_first(ssn, task, rows, seen, {}):
            candidates = [one for name in others for one in self.there.on(row, name)]
            if candidates and make_room(ssn, statement, task, row, in_order(ssn, candidates, task), ACTION):
                return True
        if ssn.looks.saw_all:
            self.in_vain[kind] = ssn.nodes.version
        return False


__all__ = ["execute"]
