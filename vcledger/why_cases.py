"""The case of a pod, and that of a job: all that the log has about it, as the diagnosis wants it.

Owns the putting together. Must not know how a verdict is reached. Called by `vcledger.why`.
"""

from __future__ import annotations

from eventstore.types import KNOWN_NAMES
from projections.cache.state import Cache, JobInfo
from projections.diagnosis.case import Case
from projections.diagnosis.placement import release_node
from projections.diagnosis.views import GroupView, TaskView, group_name
from vcledger.at import format_time
from vcledger.why_asked import Question
from vcledger.why_heard import Stream, claim_since, heard_of, late_facts, pod_of, stream_of
from vcledger.why_planned import planned
from vcledger.why_queues import min_resources
from vcledger.why_views import lone_task
from vcledger.why_waits import ending_on, group_waits_since, pod_waits_since
from volcano.objects.core import Pod
from volcano.objects.meta import ObjectMeta
from volcano.objects.scheduling import VolcanoJob


def pod_case(question: Question, stream: Stream) -> Case:
    """Everything about the pod."""
    cache, last = question.cache, stream.last
    pod = pod_of(last)
    name = group_name(pod)
    job = cache.jobs.get(f"{question.namespace}/{name}") if name else None
    group = question.views.group(job) if job is not None else None
    loaded = [one.pod for one in (group.tasks if group is not None else ()) if one.pod is not None]
    cluster = question.views.cluster([pod, *loaded])
    heard = heard_of(question, stream, pod, group, cluster)
    case = Case(
        namespace=question.namespace,
        name=question.name,
        uid=last.uid,
        at=question.position,
        now=question.now,
        cluster=cluster,
        scheduler_names=cache.config.scheduler_names,
        pod=pod,
        position=last.position,
        gone_at=format_time(last.observed_at) if stream.gone else "",
        gone_position=last.position if stream.gone else 0,
        gone_known=KNOWN_NAMES[last.known],
        created=pod.metadata.creation_timestamp,
        task=None if stream.gone else _task(cache, group, pod, last.uid),
        group=group,
        group_name=name,
        said=heard.said,
        attempts=stream.attempts,
        earlier=heard.earlier,
        claim_since=claim_since(question, pod, cluster),
        late_facts=late_facts(question, stream, group),
        asked_min=min_resources(job) if job is not None else {},
        waiting_since=pod_waits_since(stream.told),
        searches=question.searches,
        again=question.again,
    )
    _find_ending(question, case)
    return case


def _task(cache: Cache, group: GroupView | None, pod: Pod, uid: str) -> TaskView | None:
    """The pod as its job's task; as a task alone when its job doesn't hold it."""
    for task in group.tasks if group is not None else ():
        if task.uid == uid:
            return task if task.pod is not None else None
    ref = cache.pods.get(f"{pod.metadata.namespace}/{pod.metadata.name}")
    return lone_task(ref, pod) if ref is not None and ref.uid == uid else None


def _find_ending(question: Question, case: Case) -> None:
    """Gives a case the pods that are ending on the node for which its pod waits."""
    node = release_node(case)
    if node:
        case.ending = ending_on(
            question.ledger, question.cache, question.cluster, node, question.position, question.time
        )


def job_case(question: Question) -> Case | None:
    """Everything about a Volcano Job or PodGroup; None when there is neither."""
    cache = question.cache
    volcano_job = _volcano_job(question)
    job = _group_of(cache, question, volcano_job)
    if volcano_job is None and job is None:
        return None
    group = question.views.group(job) if job is not None else None
    loaded = [one.pod for one in (group.tasks if group is not None else ()) if one.pod is not None]
    cluster = question.views.cluster(loaded)
    meta = volcano_job.metadata if volcano_job is not None else _pod_group_meta(group)
    case = Case(
        namespace=question.namespace,
        name=question.name,
        uid=meta.uid if meta is not None else "",
        at=question.position,
        now=question.now,
        cluster=cluster,
        scheduler_names=cache.config.scheduler_names,
        kind="Job" if volcano_job is not None else "PodGroup",
        created=meta.creation_timestamp if meta is not None else None,
        group=group,
        group_name=group.name if group is not None else "",
        job=volcano_job,
        job_position=cache.position_of("VolcanoJob", question.key),
        asked_min=min_resources(job) if job is not None else {},
        planned=_planned(cache, volcano_job or _owner(question, group), group),
        searches=question.searches,
        again=question.again,
    )
    _stand_in(question, case)
    return case


def _planned(cache: Cache, job: VolcanoJob | None, group: GroupView | None) -> list[TaskView]:
    """The pods that a job would make that has none."""
    if job is None or (group is not None and group.tasks):
        return []
    return planned(cache, job, group.name if group is not None else job.metadata.name)


def _volcano_job(question: Question) -> VolcanoJob | None:
    """The Volcano Job of that name as last seen; the cache keeps only where that was."""
    position = question.cache.position_of("VolcanoJob", question.key)
    found = question.ledger.objects([position]).get(position) if position else None
    return found if isinstance(found, VolcanoJob) else None


def _owner(question: Question, group: GroupView | None) -> VolcanoJob | None:
    """The Volcano Job that a PodGroup was made for."""
    kind, _, name = (group.owner if group is not None else "").partition(" ")
    return _volcano_job(question._replace(name=name)) if kind == "Job" else None


def _pod_group_meta(group: GroupView | None) -> ObjectMeta | None:
    return group.pod_group.metadata if group is not None and group.pod_group is not None else None


def _group_of(cache: Cache, question: Question, volcano_job: VolcanoJob | None) -> JobInfo | None:
    """The cache's job of that name: a PodGroup so called, or the one that the Volcano Job owns (its name is the job's,
    or the job's with its uid)."""
    found = cache.jobs.get(question.key)
    if found is not None or volcano_job is None:
        return found
    uid = volcano_job.metadata.uid
    named = cache.jobs.get(f"{question.key}-{uid}")
    if named is not None:
        return named
    for job in cache.jobs.values():
        owners = (job.pod_group.metadata.owner_references if job.pod_group is not None else None) or ()
        if job.namespace == question.namespace and any(owner.uid == uid for owner in owners):
            return job
    return None


def _stand_in(question: Question, case: Case) -> None:
    """Gives a job's case the member that stands for it (the one that breaks the gang, else the first that waits), and
    what was said."""
    group = case.group
    trial = case.trial
    breaker = trial.breaker if trial is not None else None
    waiting = [task for task in (trial.order if trial is not None else ()) if task.pod is not None]
    chosen = breaker or (waiting[0] if waiting else None)
    stream = None
    if chosen is not None and chosen.pod is not None:
        case.task, case.pod, case.position = chosen, chosen.pod, chosen.position
        stream = stream_of(question._replace(name=chosen.name))
        case.attempts = stream.attempts if stream is not None else []
        case.claim_since = claim_since(question, chosen.pod, case.cluster)
    job = case.job.metadata.uid if case.job is not None else ""
    case.said = heard_of(question, stream, case.pod, group, case.cluster, job).said
    case.late_facts = late_facts(question, stream, group)
    case.waiting_since = group_waits_since(group)
    _find_ending(question, case)


__all__ = ["job_case", "pod_case"]
