"""Commands about one pod or job: a node for a pod, into the bind queue, and back out of it.

Owns these commands, of scenarios and of sessions of one's own. Must not know how a whole pass decides: that is a
session's (`vcledger.scheduler.cycle`). Called by `vcledger.scheduler.decide`.
"""

from __future__ import annotations

from projections.cache.state import JobInfo
from projections.diagnosis.reasons import fit_message
from vcledger.scheduler import binder, place
from vcledger.scheduler.decision import Hand, ref_of
from vcledger.scheduler.state import Flow
from vcledger.scheduler.transitions import Phase
from volcano.events.base import Subject
from volcano.events.binding import BindQueued
from volcano.events.scheduling import AllocationDiscarded


def job_subject(job: JobInfo) -> Subject:
    """The stream of a job's PodGroup."""
    namespace, _, name = job.uid.partition("/")
    return Subject("PodGroup", namespace, name, job.pg_uid)


def assume(hand: Hand, key: str, node: str) -> None:
    """Give one pod a node, if it may go there; else say why not."""
    flow = hand.flow
    ref = flow.cache.pods.get(key)
    if ref is None or ref.uid in flow.tasks or not flow.synced:
        return
    plan = place.plan_for(flow, key, node)
    if plan is None:
        return
    if plan.refused:
        table = {node: list(plan.refused)}
        place.unschedulable(hand, plan.task, ref.job, fit_message(table), table)
    else:
        place.allocate(hand, plan, ref.job, ref.position)


def bind(hand: Hand, keys: tuple[str, ...], node: str) -> list[str]:
    """Queue assumed tasks; the UIDs of those that were."""
    queued: list[str] = []
    for key in keys:
        task = hand.flow.task(key)
        if task is not None and task.phase is Phase.ASSUMED and task.node == node:
            binder.queue(hand, task, len(queued))
            queued.append(task.uid)
    return queued


def schedule(hand: Hand, key: str) -> None:
    """Find a node for one pod, or say why there is none."""
    flow = hand.flow
    ref, pod = flow.cache.pods.get(key), flow.pods.get(key)
    if ref is None or pod is None or ref.uid in flow.tasks or ref.gated or not flow.synced:
        return
    plan, table = place.plan_anywhere(flow, key)
    if plan is None:
        view = place.view_of(flow, ref, pod, place.reported(flow))
        place.unschedulable(hand, view, ref.job, fit_message(table), table)
        return
    cause = place.allocate(hand, plan, ref.job, ref.position)
    event = BindQueued(
        job=ref.job,
        node=plan.node,
        request=plan.task.request,
        attempt=flow.attempts.get(ref.uid, 0) + 1,
        queued=len(flow.bind_queue) + 1,
    )
    hand.add(place.subject_of(plan.task), event, cause=cause)


def discard(hand: Hand, key: str, reason: str) -> None:
    """Give back what the job's tasks hold that are not on their way yet: volumes first."""
    flow = hand.flow
    held = [task for task in flow.tasks.values() if task.job == key and task.phase is Phase.ASSUMED]
    if not held:
        return
    cause = max(task.cause for task in held)
    for task in held:
        binder.revert(hand, task, "AllocationDiscarded", reason, task.cause)
    job = flow.cache.jobs.get(key)
    ready = job.ready_task_num - len(held) if job is not None else 0
    needed = job.min_available if job is not None else 0
    event = AllocationDiscarded(
        job=key,
        reason="Discarded",
        message=reason,
        gang_ready=ready,
        gang_needed=needed,
        short_of=max(0, needed - ready),
        tasks=tuple(ref_of(task) for task in held),
    )
    hand.add(_subject(flow, key), event, cause=cause)


def _subject(flow: Flow, key: str) -> Subject:
    job = flow.cache.jobs.get(key)
    if job is not None:
        return job_subject(job)
    namespace, _, name = key.partition("/")
    return Subject("PodGroup", namespace, name, flow.podgroups.get(key, ""))


__all__ = ["assume", "bind", "discard", "job_subject", "schedule"]
