"""What the scheduler does to its own cache, beside what it observes: binds, evictions, resyncs, clean-ups, snapshots.

Owns these operations on the cache's books. Must not know how a decision was made, nor talk to anyone: what the API
server answers comes in as a value. Called by `projections.cache.fold`, the vector runner and the deciders.

Source: Volcano's AddBindTask, Evict, syncTask, processCleanupJob, Snapshot and the session's changes of a node and job.
"""

from __future__ import annotations

from typing import NamedTuple

from projections.cache.accounting import TaskRefused, job_add, job_set_status, node_add, node_remove
from projections.cache.brief import brief_of
from projections.cache.jobs import clean_up, priority_of
from projections.cache.nodes import NodeUnknown, node_resource, set_books, sync_node, write_back_names
from projections.cache.pods import add_task, delete_task, queue_resync
from projections.cache.retries import settle
from projections.cache.state import Cache, JobInfo, NodeInfo, PodRef, TaskInfo
from projections.cache.tasks import new_task, pod_ref
from projections.cache.volumes import ClaimMissing, with_volumes
from volcano.objects.core import Pod
from volcano.objects.resource import new_resource
from volcano.objects.status import TaskStatus, task_status


class ActionRefused(Exception):
    """The cache would not do it. The text is Volcano's error; the books are as they were."""


class BindTask(NamedTuple):
    """A task on its way to be bound, as the session handed it over: a copy, with the node it chose."""

    task: TaskInfo
    node_name: str


# --- finding ------------------------------------------------------------------------------------------------------


def find_task(cache: Cache, key: str) -> TaskInfo | None:
    """The job's task behind a resync key '<job>/<uid>'; None where the job or the task is gone, or there is no job
    (115)."""
    job_key, _, uid = key.rpartition("/")
    job = cache.jobs.get(job_key)
    return job.tasks.get(uid) if job is not None else None


def task_named(cache: Cache, key: str) -> TaskInfo | None:
    """The job's task of a pod by 'namespace/name': the store's pod first, else any job's task of that name."""
    ref = cache.pods.get(key)
    if ref is not None and ref.job in cache.jobs:
        task = cache.jobs[ref.job].tasks.get(ref.uid)
        if task is not None:
            return task
    for _, job in sorted(cache.jobs.items()):
        for _, task in sorted(job.tasks.items()):
            if task.key == key:
                return task
    return None


def _node(cache: Cache, task: TaskInfo, name: str) -> NodeInfo:
    node = cache.nodes.get(name)
    if node is None:
        raise ActionRefused(f"failed to bind Task {task.uid} to host {name}, host does not exist")
    return node


# --- binding and evicting -----------------------------------------------------------------------------------------


def add_bind_task(cache: Cache, task: TaskInfo, node_name: str) -> BindTask:
    """Charge a task to a node as Binding and queue it for the bind flow (fact 21). Raises ActionRefused, the task's
    status restored."""
    job = cache.jobs[task.job]
    node = _node(cache, task, node_name)
    before = task.status
    job_set_status(cache, job, task, int(TaskStatus.BINDING))
    try:
        node_add(cache, node, task)
    except TaskRefused as refusal:
        job_set_status(cache, job, task, before)
        raise ActionRefused(str(refusal)) from None
    copy = task.clone()
    copy.node_name = node_name
    bind = BindTask(copy, node_name)
    cache.bind_flow.append(bind)
    return bind


def take_binds(cache: Cache) -> list[BindTask]:
    """All queued binds, in order; the queue is empty then."""
    binds = list(cache.bind_flow)
    cache.bind_flow.clear()
    return binds


def evict(cache: Cache, task: TaskInfo) -> JobInfo:
    """Mark a task Releasing on its node at once (fact 25); its job is returned. Raises ActionRefused."""
    job = cache.jobs[task.job]
    node = _node(cache, task, task.node_name)
    job_set_status(cache, job, task, int(TaskStatus.RELEASING))
    node_update(cache, node, task)
    return job


# --- what a session does to the books -----------------------------------------------------------------------------


def node_update(cache: Cache, node: NodeInfo, task: TaskInfo) -> None:
    """NodeInfo.UpdateTask: off and on again. Raises ActionRefused."""
    node_remove(cache, node, task.key)
    node_put(cache, node, task)


def node_put(cache: Cache, node: NodeInfo, task: TaskInfo) -> None:
    """NodeInfo.AddTask. Raises ActionRefused."""
    try:
        node_add(cache, node, task)
    except TaskRefused as refusal:
        raise ActionRefused(str(refusal)) from None


def node_take(cache: Cache, node: NodeInfo, task: TaskInfo) -> None:
    """NodeInfo.RemoveTask."""
    node_remove(cache, node, task.key)


def set_job_fit_errors(cache: Cache, job: JobInfo, message: str) -> None:
    """What kept the job as a whole from being scheduled."""
    job.job_fit_errors = message
    _fields_changed(cache, job)


def set_task_fit_error(cache: Cache, job: JobInfo, uid: str, message: str) -> None:
    """What kept one task off the nodes."""
    job.nodes_fit_errors[uid] = message
    _fields_changed(cache, job)


def _fields_changed(cache: Cache, job: JobInfo) -> None:
    cache.touched.jobs[job.uid] = None
    cache.touched.objects["PodGroup", job.uid] = None


def assume(cache: Cache, task: TaskInfo, node_name: str, status: int) -> None:
    """Give a task a node and a status, as a session does on its own copy. Raises ActionRefused, and that is not rolled
    back (106)."""
    node = _node(cache, task, node_name)
    job_set_status(cache, cache.jobs[task.job], task, status)
    task.node_name = node_name
    node_put(cache, node, task)


def unassume(cache: Cache, task: TaskInfo) -> None:
    """The reverse: off the node, Pending, without a node."""
    node = cache.nodes.get(task.node_name)
    if node is not None:
        node_remove(cache, node, task.key)
    job_set_status(cache, cache.jobs[task.job], task, int(TaskStatus.PENDING))
    task.node_name = ""


def set_status(cache: Cache, task: TaskInfo, status: int) -> None:
    """Change a task's status in its job and on its node."""
    job_set_status(cache, cache.jobs[task.job], task, status)
    node = cache.nodes.get(task.node_name)
    if node is not None:
        node_update(cache, node, task)


# --- queues -------------------------------------------------------------------------------------------------------


def resync_from_store(cache: Cache, key: str) -> bool:
    """A resync whose API answer is what the informer's store holds. True: done with; False: to be tried again."""
    task = find_task(cache, key)
    if task is None:
        return True
    ref = cache.pods.get(task.key)
    if ref is None:
        delete_task(cache, task)
        return True
    try:
        resource = with_volumes(cache, ref)
    except ClaimMissing:
        return False
    fresh = task.clone()
    fresh.uid, fresh.job, fresh.node_name = ref.uid, ref.job, ref.node_name
    fresh.status = task_status(ref.phase, ref.deleting, ref.node_name)
    fresh.resreq, fresh.best_effort, fresh.gated = resource, resource.is_empty(), ref.gated
    return _replace(cache, task, fresh)


def resync(cache: Cache, key: str, pod: Pod | None) -> bool:
    """A queued resync with the pod that the API server answered, None for not found. True: done with and taken out of
    the queue (also when there is no such task, 115); False: to be tried again."""
    done = _resync(cache, key, pod)
    if done and key in cache.pending_resync:
        settle(cache, cache.pending_resync, key)
    return done


def _resync(cache: Cache, key: str, pod: Pod | None) -> bool:
    task = find_task(cache, key)
    if task is None:
        return True
    if pod is None:
        delete_task(cache, task)
        return True
    brief = brief_of(pod)
    ref: PodRef = pod_ref(cache, brief, cache.position)
    fresh = new_task(brief, ref)
    try:
        fresh.resreq = with_volumes(cache, ref)
    except ClaimMissing:
        return False
    fresh.best_effort = fresh.resreq.is_empty()
    return _replace(cache, task, fresh)


def _replace(cache: Cache, old: TaskInfo, new: TaskInfo) -> bool:
    """Volcano's updateTask: delete the old, add the new. False: its node would not have it, and it is gone."""
    delete_task(cache, old)
    return add_task(cache, new)


def clean_up_jobs(cache: Cache) -> None:
    """Each queued clean-up once."""
    for key in sorted(cache.pending_cleanup):
        if clean_up(cache, key):
            settle(cache, cache.pending_cleanup, key)


def sync_nodes(cache: Cache) -> list[str]:
    """Each node sync that failed before, once; the names of those that fail again."""
    failed = []
    for name in sorted(cache.pending_node_sync):
        try:
            sync_node(cache, name)
        except NodeUnknown:
            failed.append(name)
        else:
            settle(cache, cache.pending_node_sync, name)
    return failed


# --- snapshot -----------------------------------------------------------------------------------------------------


class ClusterSnapshot(NamedTuple):
    """What a session works on: Ready nodes, and jobs with a PodGroup in a known queue (fact 19), each a copy."""

    nodes: dict[str, NodeInfo]
    jobs: dict[str, JobInfo]
    queues: list[str]
    namespaces: dict[str, int]
    node_list: list[str]
    revocable_nodes: list[str]


def take_snapshot(cache: Cache) -> ClusterSnapshot:
    """Volcano's Snapshot. It writes into the cache: jobs' priorities (066), and node_name of nodes' tasks (033)."""
    nodes = {name: _clone_node(cache, node) for name, node in sorted(cache.nodes.items()) if node.ready}
    jobs = {}
    for key, job in sorted(cache.jobs.items()):
        if job.pod_group is None or job.queue not in cache.queues:
            continue
        priority = priority_of(cache, job)
        if priority != job.priority:
            job.priority = priority
            cache.touched.jobs[key] = None
        jobs[key] = _clone_job(cache, job)
    counts = dict.fromkeys(sorted(cache.namespaces), 0)
    for quota in cache.quotas.values():
        counts[quota.metadata.namespace] += 1
    revocable = [name for name, node in nodes.items() if node.revocable_zone]
    return ClusterSnapshot(nodes, jobs, sorted(cache.queues), counts, list(cache.node_list), revocable)


def _clone_node(cache: Cache, node: NodeInfo) -> NodeInfo:
    """NodeInfo.Clone: a new node from the object with the tasks that it takes; Binding ones that no longer fit are
    left out (097)."""
    dropped = write_back_names(cache, node) if cache.policy.blanks_node_name else []
    copy = NodeInfo(node.name, position=node.position, images=dict(node.images))
    copy.phase, copy.reason = node.phase, node.reason
    copy.made = {key: task.clone() for key, task in node.tasks.items() if key not in dropped}
    if node.node is not None:
        set_books(cache, copy, node.node, dict(node.csi))
    else:
        copy.allocatable = copy.capacity = copy.idle = node_resource(cache, None, copy)
    return copy


def _clone_job(cache: Cache, job: JobInfo) -> JobInfo:
    """JobInfo.Clone: sums and status index are built anew from the tasks; fit errors of nodes are not copied."""
    scratch = Cache(cache.policy, cache.config)
    copy = JobInfo(
        job.uid,
        job.name,
        job.namespace,
        job.pg_uid,
        job.held,
        job.position,
        job.queue,
        job.priority,
        job.min_available,
        dict(job.task_min_available),
        job.task_min_available_total,
        allocated=new_resource(None, exact=not cache.policy.float64),
        total_request=new_resource(None, exact=not cache.policy.float64),
        preemptable=job.preemptable,
        revocable_zone=job.revocable_zone,
        budget_min_available=job.budget_min_available,
        budget_max_unavailable=job.budget_max_unavailable,
        waiting_time_seconds=job.waiting_time_seconds,
        job_fit_errors=job.job_fit_errors,
    )
    for task in job.tasks.values():
        job_add(scratch, copy, task.clone())
    return copy


__all__ = [
    "ActionRefused",
    "BindTask",
    "ClusterSnapshot",
    "add_bind_task",
    "assume",
    "clean_up_jobs",
    "evict",
    "find_task",
    "node_put",
    "node_take",
    "node_update",
    "queue_resync",
    "resync",
    "resync_from_store",
    "set_job_fit_errors",
    "set_status",
    "set_task_fit_error",
    "sync_nodes",
    "take_binds",
    "take_snapshot",
    "task_named",
    "unassume",
]
