"""enqueue: jobs that wait at their queue's gate are let in, one queue and one job after the other.

Owns the order and the letting in. Must not know what a plugin says nor why. Called by `run`.

Source: Volcano's pkg/scheduler/actions/enqueue/enqueue.go. Its pull-back of jobs that stay admitted for too long, which
only some builds have, is not done.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionJob
from vcledger.scheduler.session.outcome import Enqueued, JobOutcome, Outcome

INQUEUE = "Inqueue"


def execute(ssn: Session, outcome: Outcome) -> None:
    """Each queue in its turn lets its first job in, or not; a queue is asked again until none of its jobs is left. The
    orders are looked at anew each time, as letting a job in may change them."""
    waiting: dict[str, list[SessionJob]] = {}
    for job in sorted(ssn.unadmitted.values(), key=lambda job: job.uid):
        waiting.setdefault(job.queue, []).append(job)
    jobs = {name: [(ssn.job_key(job), job) for job in found] for name, found in waiting.items()}
    for heap in jobs.values():
        heapify(heap)
    queues = [(ssn.queue_key(ssn.queues[name]), name) for name in sorted(jobs)]
    heapify(queues)
    while queues:
        _, name = heappop(queues)
        _, job = heappop(jobs[name])
        _try(ssn, outcome, job)
        if jobs[name]:
            heappush(queues, (ssn.queue_key(ssn.queues[name]), name))


def _try(ssn: Session, outcome: Outcome, job: SessionJob) -> None:
    if job.least is None or ssn.job_enqueueable(job):
        ssn.job_enqueued(job)
        job.phase = INQUEUE
        outcome.decisions.append(Enqueued(job.uid))
        outcome.jobs[job.uid] = JobOutcome(job.uid, "enqueued", needed=job.min_available, ready=job.ready_count)
    else:
        message = ssn.blocked.get(job.uid, "a plugin keeps it out of its queue")
        outcome.jobs[job.uid] = JobOutcome(
            job.uid, "gated", "NotEnqueued", message, needed=job.min_available, ready=job.ready_count
        )


__all__ = ["INQUEUE", "execute"]
