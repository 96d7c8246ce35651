"""A session's outcome as events for the log.

Owns that translation. Must not know how anything was decided. Called by `vcledger.replay` and by the scheduler, which
append what they get and fold it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, MutableMapping

from projections.diagnosis.views import TaskView
from vcledger.scheduler.session.conf import SessionConf
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.session.model import SessionJob, SessionTask, Vector
from vcledger.scheduler.session.outcome import Discarded, Enqueued, Evicted, JobOutcome, Outcome, Placed, Unfit
from volcano.events.base import SCHEDULER, Amounts, DomainEvent, Subject, TaskRef
from volcano.events.scheduling import (
    AllocationDiscarded,
    CycleEnded,
    CycleStarted,
    FitErrors,
    JobConsidered,
    JobEnqueued,
    TaskAllocated,
    TaskEvicted,
    TaskPipelined,
    TaskUnschedulable,
)

CYCLES = Subject(SCHEDULER, "", "cycles")
"""The stream of the cycles."""


def events_of(
    outcome: Outcome, *, scheduler: str = "", said: MutableMapping[str, str] | None = None
) -> list[tuple[Subject, DomainEvent]]:
    """What a cycle decided, in the order in which it did, from CycleStarted to CycleEnded. With `said`, which keeps the
    last words about each task (by uid) and job (by uid) from cycle to cycle, what was said before is not said again,
    and a cycle without news has no events at all."""
    mirror = outcome.mirror
    assert mirror is not None, "an outcome of `run` has its mirror"
    news = _news(outcome, mirror, said)
    if said is not None and not news:
        return []
    return [(CYCLES, started_of(outcome, scheduler)), *news, (CYCLES, _ended(outcome))]


def _news(outcome: Outcome, mirror: Mirror, said: MutableMapping[str, str] | None) -> list[tuple[Subject, DomainEvent]]:
    found: list[tuple[Subject, DomainEvent]] = []
    counts: dict[str, int] = {}
    for decision in outcome.decisions:
        if isinstance(decision, Enqueued):
            found.append(enqueued_of(decision, mirror))
        elif isinstance(decision, Evicted):
            found.append(evicted_of(decision))
        elif not decision.pipelined or _is_news(said, decision.task.uid, f"pipelined {decision.node}"):
            job = decision.task.job
            counts[job] = counts.get(job, 0) + 1
            found.append(placed_of(decision, mirror, counts[job]))
    for one in outcome.discarded:
        if _is_news(said, f"discarded {one.job}", f"{one.ready} of {one.needed}"):
            found.append(discarded_of(one, mirror))
    for unfit in outcome.unfit.values():
        if _is_news(said, f"unfit {unfit.task.uid}", unfit.reason + unfit.message):
            found.append(unfit_of(unfit, mirror))
    for considered in outcome.jobs.values():
        if _is_news(said, considered.job, f"{considered.outcome} {considered.placed} {considered.message}"):
            found.append(considered_of(considered, mirror))
    return found


def _is_news(said: MutableMapping[str, str] | None, key: str, words: str) -> bool:
    if said is None:
        return True
    if said.get(key) == words:
        return False
    said[key] = words
    return True


def digest_of(conf: SessionConf) -> str:
    """A short digest of a configuration: equal for equal files."""
    text = conf.text or repr((conf.actions, conf.tiers, sorted(conf.configurations.items())))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def started_of(outcome: Outcome, scheduler: str) -> CycleStarted:
    """The event that a cycle begins with."""
    return CycleStarted(
        cycle=outcome.cycle,
        scheduler=scheduler,
        actions=outcome.actions,
        jobs=outcome.job_count,
        nodes=outcome.node_count,
        queues=outcome.queue_count,
        seed=outcome.seed,
        configuration=digest_of(outcome.conf) if outcome.conf is not None else "",
    )


def _ended(outcome: Outcome) -> CycleEnded:
    decisions = outcome.decisions
    placed = [one for one in decisions if isinstance(one, Placed)]
    return CycleEnded(
        cycle=outcome.cycle,
        enqueued=sum(isinstance(one, Enqueued) for one in decisions),
        allocated=sum(not one.pipelined for one in placed),
        pipelined=sum(one.pipelined for one in placed),
        discarded=len(outcome.discarded),
        unschedulable=len(outcome.unfit),
        evicted=sum(isinstance(one, Evicted) for one in decisions),
    )


def enqueued_of(decision: Enqueued, mirror: Mirror) -> tuple[Subject, JobEnqueued]:
    """The gate let a job in."""
    job = mirror.groups[decision.job]
    event = JobEnqueued(
        job=job.uid,
        podgroup_uid=job.pod_group.metadata.uid,
        queue=job.queue,
        min_member=job.min_available,
        min_resources=_amounts(mirror, job.least) if job.least is not None else {},
    )
    return subject_of(job), event


def placed_of(decision: Placed, mirror: Mirror, count: int) -> tuple[Subject, DomainEvent]:
    """A task got a node or the promise of one; `count` of its job have got one in this cycle, itself among them."""
    if decision.pipelined:
        return promised_of(decision, mirror, (), count)
    task, job = decision.task, mirror.groups[decision.task.job]
    return _of_task(task), TaskAllocated(
        job=job.uid,
        node=decision.node,
        node_uid=_node_uid(mirror, decision.node),
        request=_amounts(mirror, task.request),
        score=decision.score,
        gang_ready=job.ready_count + count,
        gang_needed=job.min_available,
    )


def promised_of(
    decision: Placed, mirror: Mirror, waits_for: tuple[TaskRef, ...], count: int = 0
) -> tuple[Subject, TaskPipelined]:
    """A task is promised what is being released on a node; `waits_for` are those that were evicted for it."""
    task, job = decision.task, mirror.groups[decision.task.job]
    return _of_task(task), TaskPipelined(
        job=job.uid,
        node=decision.node,
        node_uid=_node_uid(mirror, decision.node),
        request=_amounts(mirror, task.request),
        waits_for=waits_for,
        gang_ready=job.ready_count + count,
        gang_needed=job.min_available,
    )


def _node_uid(mirror: Mirror, name: str) -> str:
    row = mirror.nodes.row.get(name)
    info = mirror.nodes.infos[row] if row is not None else None
    return info.node.metadata.uid if info is not None and info.node is not None else ""


def evicted_of(decision: Evicted) -> tuple[Subject, TaskEvicted]:
    """A task is told to go."""
    preemptor = ref_on(decision.preemptor, "") if decision.preemptor is not None else None
    return _of_task(decision.task), TaskEvicted(
        job=decision.task.job,
        node=decision.node,
        reason=decision.reason,
        action=decision.action,
        preemptor=preemptor,
    )


def discarded_of(one: Discarded, mirror: Mirror) -> tuple[Subject, AllocationDiscarded]:
    """A gang that is short keeps nothing."""
    job = mirror.groups[one.job]
    return subject_of(job), AllocationDiscarded(
        job=one.job,
        reason="NotEnoughResources" if one.broken_by is not None else "NotEnoughTasks",
        message=f"gang: {one.ready} of {one.needed} fit",
        gang_ready=one.ready,
        gang_needed=one.needed,
        short_of=max(0, one.needed - one.ready),
        tasks=tuple(ref_on(task, node) for task, node in one.tasks),
        broken_by=ref_on(one.broken_by, "") if one.broken_by is not None else None,
    )


def unfit_of(unfit: Unfit, mirror: Mirror) -> tuple[Subject, TaskUnschedulable]:
    """A task got no node."""
    groups = unfit.groups
    return _of_task(unfit.task), TaskUnschedulable(
        job=unfit.task.job,
        reason=unfit.reason,
        message=unfit.message,
        fit_errors=tuple(FitErrors(reasons=reasons, nodes=tuple(nodes)) for reasons, nodes in groups),
        nodes_total=len(mirror.nodes) if groups else 0,
        nominated_node=unfit.node,
    )


def considered_of(one: JobOutcome, mirror: Mirror) -> tuple[Subject, JobConsidered]:
    """What became of a job."""
    job = mirror.groups[one.job]
    return subject_of(job), JobConsidered(
        job=one.job,
        queue=job.queue,
        outcome=one.outcome,
        reason=one.reason,
        message=one.message,
        placed=one.placed,
        pipelined=one.pipelined,
        ready=one.ready,
        needed=one.needed,
    )


def _amounts(mirror: Mirror, vector: Vector) -> Amounts:
    return mirror.resources.amounts(vector)


def ref_on(task: SessionTask | TaskView, node: str) -> TaskRef:
    """A task as events name it, with the node that it is to have."""
    return TaskRef(namespace=task.namespace, name=task.name, uid=task.uid, node=node)


def _of_task(task: SessionTask) -> Subject:
    return Subject("Pod", task.namespace, task.name, task.uid)


def subject_of(job: SessionJob) -> Subject:
    """The stream of a job's PodGroup."""
    return Subject("PodGroup", job.namespace, job.name, job.pod_group.metadata.uid)


def positions(outcome: Outcome) -> Iterator[tuple[str, int]]:
    """The last position of the object behind each task and job of the outcome, by uid: what caused the decision."""
    mirror = outcome.mirror
    assert mirror is not None, "an outcome of `run` has its mirror"
    for decision in outcome.decisions:
        if not isinstance(decision, Enqueued):
            yield decision.task.uid, decision.task.position
    for unfit in outcome.unfit.values():
        yield unfit.task.uid, unfit.task.position
    for uid in outcome.jobs:
        yield uid, mirror.groups[uid].position


__all__ = [
    "CYCLES",
    "considered_of",
    "digest_of",
    "discarded_of",
    "enqueued_of",
    "events_of",
    "evicted_of",
    "placed_of",
    "positions",
    "promised_of",
    "ref_on",
    "started_of",
    "subject_of",
    "unfit_of",
]
