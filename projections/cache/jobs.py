"""PodGroups: what they make of a job, and the clean-up of jobs that have none left.

Owns the job's own fields. Must not know tasks' arithmetic. Called by `projections.cache.fold`, `.pods` and `.actions`.

Source: Volcano's SetPodGroup, UnsetPodGroup, deleteJob, processCleanupJob (vectors 053 to 064).
"""

from __future__ import annotations

from projections.cache.parsing import parse_bool, parse_duration_seconds
from projections.cache.retries import put_off
from projections.cache.state import Cache, JobInfo
from projections.cache.tasks import PREEMPTABLE_KEY, revocable_zone
from volcano.objects.scheduling import PodGroup

WAITING_TIME_KEYS = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
MIN_AVAILABLE_KEY = "volcano.sh/jdb-min-available"
MAX_UNAVAILABLE_KEY = "volcano.sh/jdb-max-unavailable"


def observe_pod_group(cache: Cache, group: PodGroup, position: int) -> bool:
    """A PodGroup seen. One of the resourceVersion that the job already has is skipped (fact 16). False: skipped."""
    key = f"{group.metadata.namespace}/{group.metadata.name}"
    job = cache.jobs.get(key)
    known = job.pod_group if job is not None else None
    if known is not None and known.metadata.resource_version == group.metadata.resource_version:
        return False
    set_pod_group(cache, key, group)
    cache.jobs[key].position = position
    return True


def set_pod_group(cache: Cache, key: str, group: PodGroup) -> None:
    """Volcano's setPodGroup."""
    job = cache.jobs.get(key)
    if job is None:
        job = cache.jobs[key] = JobInfo(key)
    meta, spec = group.metadata, group.spec
    annotations, labels = meta.annotations or {}, meta.labels or {}
    job.name, job.namespace = meta.name, meta.namespace
    job.min_available = spec.min_member
    job.queue = spec.queue or cache.config.default_queue
    job.waiting_time_seconds = _waiting_time(annotations)
    preemptable = annotations.get(PREEMPTABLE_KEY)
    if preemptable is None:
        preemptable = labels.get(PREEMPTABLE_KEY, "")
    job.preemptable = bool(parse_bool(preemptable))
    job.revocable_zone = revocable_zone(annotations)
    job.budget_min_available = annotations.get(MIN_AVAILABLE_KEY, "")
    job.budget_max_unavailable = "" if MIN_AVAILABLE_KEY in annotations else annotations.get(MAX_UNAVAILABLE_KEY, "")
    roles = spec.min_task_member or {}
    if cache.policy.keeps_roles:
        job.task_min_available.update(roles)
    else:
        job.task_min_available = dict(roles)
    job.task_min_available_total = sum(roles.values())
    job.pg_uid = meta.uid
    job.pod_group = group
    if not cache.policy.priority_by_snapshot:
        job.priority = priority_of(cache, job)
    cache.touched.jobs[key] = None
    cache.touched.objects["PodGroup", key] = None


def _waiting_time(annotations: dict[str, str]) -> float | None:
    for key in WAITING_TIME_KEYS:
        seconds = parse_duration_seconds(annotations[key]) if annotations.get(key) else None
        if seconds is not None and seconds > 0:
            return seconds
    return None


def forget_pod_group(cache: Cache, group: PodGroup) -> bool:
    """A PodGroup seen gone: the job stays until its clean-up. False: there was none."""
    key = f"{group.metadata.namespace}/{group.metadata.name}"
    job = cache.jobs.get(key)
    if job is None or job.pod_group is None:
        return False
    unset_pod_group(cache, job)
    return True


def unset_pod_group(cache: Cache, job: JobInfo) -> None:
    """Volcano's deletePodGroup of a job that there is."""
    if cache.policy.keeps_group_fields:
        job.pod_group = None
    else:
        job = cache.jobs[job.uid] = _of_pods_alone(job)
    cache.touched.jobs[job.uid] = None
    cache.touched.objects["PodGroup", job.uid] = None
    queue_cleanup(cache, job)


def _of_pods_alone(job: JobInfo) -> JobInfo:
    return JobInfo(
        job.uid,
        made=job.tasks,
        made_by_status=job.tasks_by_status,
        allocated=job.allocated,
        total_request=job.total_request,
    )


def priority_of(cache: Cache, job: JobInfo) -> int:
    """The priority that a snapshot gives the job: its PodGroup's class, else the default (fact 20)."""
    if job.pod_group is None:
        return job.priority
    priority_class = cache.priority_classes.get(job.pod_group.spec.priority_class_name)
    return priority_class.value if priority_class is not None else cache.default_priority


def queue_cleanup(cache: Cache, job: JobInfo) -> None:
    """Volcano's deleteJob: ask for the clean-up; `exact` does it where it can be done."""
    if cache.policy.defers_cleanup:
        put_off(cache, cache.pending_cleanup, job.uid)
    elif job.terminated:
        drop_job(cache, job.uid)


def drop_job(cache: Cache, key: str) -> None:
    """Take a job out of the cache."""
    cache.jobs.pop(key, None)
    cache.touched.jobs[key] = None


def clean_up(cache: Cache, key: str) -> bool:
    """One clean-up request: True when it is done with, False when it has to be tried again."""
    job = cache.jobs.get(key)
    if job is None:
        return True
    if not job.terminated:
        return False
    drop_job(cache, key)
    return True


__all__ = [
    "clean_up",
    "drop_job",
    "forget_pod_group",
    "observe_pod_group",
    "priority_of",
    "queue_cleanup",
    "set_pod_group",
    "unset_pod_group",
]
