"""What the log lets one know of pods beside their own state: who sits on a node and may have to go, and which pods a
job would have that has made none yet.

Owns that adapter from the cache to the diagnosis's values. Must not know verdicts nor wording. Called by
`vcledger.why_views` and `vcledger.why`.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from projections.cache.brief import brief_of
from projections.cache.jobs import priority_of
from projections.cache.state import Cache, JobInfo, TaskInfo
from projections.cache.tasks import pod_request
from projections.diagnosis.views import GROUP_ANNOTATIONS, INDEX_LABEL, PLANNED_UID, ROLE_ANNOTATION, Occupant, TaskView
from volcano.objects.core import Pod, PodStatus
from volcano.objects.meta import ObjectMeta
from volcano.objects.quantity import QuantityInvalid
from volcano.objects.scheduling import TaskSpec, VolcanoJob
from volcano.objects.status import ALLOCATED_STATUSES, READY_STATUSES, STATUS_WORDS

SYSTEM_NAMESPACE, SYSTEM_PRIORITY = "kube-system", 2_000_000_000
"""What the conformance plugin shields: that namespace, and the classes system-cluster-critical (this priority) and
system-node-critical (above it)."""

PLANNED_MAX = 500
"""Of a job without pods no more are made up."""


def occupants(cache: Cache, node: str) -> list[Occupant]:
    """The pods on a node, by name."""
    info = cache.nodes.get(node)
    tasks = sorted(info.tasks.values(), key=lambda task: task.key) if info is not None else []
    return [occupant(cache, task, node) for task in tasks]


def holders(cache: Cache, queue: str) -> list[Occupant]:
    """The pods of a queue's jobs that are on nodes, job by job."""
    return [
        occupant(cache, task, task.node_name, known)
        for job in cache.jobs.values()
        if job.queue == queue and job.held is not None and job.count_of(ALLOCATED_STATUSES)
        for known in [_of_job(cache, job)]
        for task in job.tasks.values()
        if task.node_name
    ]


class _Job(NamedTuple):
    """What a job's pods have in common."""

    queue: str = ""
    priority: int = 0
    spare: int = 0
    ours: bool = False


def _of_job(cache: Cache, job: JobInfo | None) -> _Job:
    if job is None:
        return _Job()
    spare = job.count_of(READY_STATUSES) - job.min_available
    return _Job(job.queue, priority_of(cache, job), spare, job.held is not None)


def occupant(cache: Cache, task: TaskInfo, node: str, of: _Job | None = None) -> Occupant:
    """A task of a node; `of`: what its job is, where that is known."""
    known = of or _of_job(cache, cache.jobs.get(task.job) if task.job else None)
    return Occupant(
        key=task.key,
        uid=task.uid,
        node=node,
        status=STATUS_WORDS.get(task.status, "Unknown"),
        request=task.resreq.amounts(),
        priority=task.priority,
        preemptable=task.preemptable,
        best_effort=task.best_effort,
        job=task.job,
        queue=known.queue,
        job_priority=known.priority,
        spare=known.spare,
        ours=known.ours,
        critical=task.namespace == SYSTEM_NAMESPACE or task.priority >= SYSTEM_PRIORITY,
    )


def planned(cache: Cache, job: VolcanoJob, group: str) -> list[TaskView]:
    """The pods that a Volcano Job would make, from its templates; none where a template says no pod, or one that the
    scheduler could not read."""
    found: list[TaskView] = []
    for spec in job.spec.tasks or ():
        for index in range(min(spec.replicas, PLANNED_MAX - len(found))):
            made = _planned(cache, job, group, spec, index)
            if made is None:
                return []
            found.append(made)
    return found


def _planned(cache: Cache, job: VolcanoJob, group: str, spec: TaskSpec, index: int) -> TaskView | None:
    template = spec.template
    if template is None or template.spec is None:
        return None
    meta = template.metadata or ObjectMeta()
    name = f"{job.metadata.name}-{spec.name}-{index}"
    annotations = {**(meta.annotations or {}), GROUP_ANNOTATIONS[0]: group, ROLE_ANNOTATION: spec.name}
    labels = {**(meta.labels or {}), INDEX_LABEL: str(index)}
    pod = Pod(
        metadata=replace(
            meta,
            name=name,
            namespace=job.metadata.namespace,
            uid=f"{PLANNED_UID}{name}",
            annotations=annotations,
            labels=labels,
        ),
        spec=replace(template.spec, scheduler_name=job.spec.scheduler_name or "volcano"),
        status=PodStatus(phase="Pending"),
    )
    try:
        request = pod_request(cache, brief_of(pod).spec)
    except QuantityInvalid:
        return None
    return TaskView(
        namespace=job.metadata.namespace,
        name=name,
        uid=pod.metadata.uid,
        status="Pending",
        request=request.amounts(),
        best_effort=request.is_empty(),
        role=spec.name,
        index=index,
        priority=pod.spec.priority or 0,
        pod=pod,
    )
