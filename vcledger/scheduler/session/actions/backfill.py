"""backfill: tasks that ask for nothing, each to a node that it may go to.

Owns the order, and what is bound. Must not know predicates nor scores. Called by `run`.

Source: Volcano's pkg/scheduler/actions/backfill/backfill.go (v1.13 and later). A task that no node takes keeps nobody
else from being tried. What is placed is bound once its job is ready.
"""

from __future__ import annotations

from vcledger.scheduler.session.actions.allocate import Choice
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.outcome import JobOutcome, Outcome, Placed
from vcledger.scheduler.session.refusals import Said
from vcledger.scheduler.session.statement import ALLOCATE, Operation, Statement


def execute(ssn: Session, outcome: Outcome) -> None:
    """The whole action."""
    choice = Choice(ssn)
    kept = _kept(ssn, outcome)
    for task in _tasks(ssn):
        job = ssn.jobs[task.job]
        place = choice.place(task)
        if place is None:
            unknown = Said("the pod's object is not known")
            job.fit_errors[task.uid] = ssn.feasible.refusals(task) if task.like is not None else unknown
            continue
        row, _, score = place
        statement = Statement(ssn)
        statement.allocate(task, ssn.nodes.names[row], score)
        done = kept.pop(job.uid, []) + statement.commit()
        if not ssn.job_ready(job):
            kept[job.uid] = done
            continue
        outcome.decisions += [Placed(one.task, one.node, one.score) for one in done]
        old = outcome.jobs.get(job.uid)
        outcome.jobs[job.uid] = JobOutcome(
            job.uid,
            "allocated",
            placed=len(done) + (old.placed if old is not None else 0),
            pipelined=old.pipelined if old is not None else 0,
            ready=job.ready_count,
            needed=job.min_available,
        )


def _kept(ssn: Session, outcome: Outcome) -> dict[str, list[Operation]]:
    """What earlier actions have placed for jobs that weren't ready."""
    placed = {one.task.uid for one in outcome.decisions if isinstance(one, Placed)}
    found: dict[str, list[Operation]] = {}
    for operation in ssn.done.values():
        if operation.kind == ALLOCATE and operation.task.uid not in placed:
            found.setdefault(operation.task.job, []).append(operation)
    return found


def _tasks(ssn: Session) -> list[SessionTask]:
    """The tasks in their order: by queue, by job, by task."""
    found = []
    jobs = []
    for uid in sorted(ssn.waiting):
        job = ssn.waiting[uid]
        if job.pending_best_effort and not job.unadmitted and ssn.job_valid(job) is None:
            jobs.append(job)
    names = {job.queue for job in jobs}
    for queue in sorted((ssn.queues[name] for name in sorted(names)), key=ssn.queue_key):
        for job in sorted((job for job in jobs if job.queue == queue.name), key=ssn.job_key):
            tasks = [task for task in job.pending() if task.best_effort and not task.gated]
            found += sorted(tasks, key=ssn.task_key)
    return found


__all__ = ["execute"]
