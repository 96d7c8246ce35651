"""Pods: the informer's store in front, and the handlers that add, update and delete tasks.

Owns what a pod event does to jobs and nodes. Must not know other kinds' events. Called by `projections.cache.fold`,
`projections.cache.actions` and the vector runner.

Source: client-go's informer (an ADDED of a known key is an update, a DELETED of an unknown one is dropped) and
FilteringResourceEventHandler; Volcano's AddPod, UpdatePod, DeletePod, addTask, deleteTask.
"""

from __future__ import annotations

from projections.cache.accounting import (
    TaskRefused,
    job_add,
    job_remove,
    node_add,
    node_remove,
    unindex,
)
from projections.cache.brief import PodBrief
from projections.cache.jobs import queue_cleanup
from projections.cache.retries import put_off
from projections.cache.state import Cache, JobInfo, NodeInfo, PodRef, TaskInfo
from projections.cache.tasks import new_task, pod_ref
from projections.cache.volumes import ClaimMissing, claim_key, with_volumes
from volcano.objects.resource import Resource
from volcano.objects.status import ALLOCATED_STATUSES, TERMINATED_STATUSES, TaskStatus

_TERMINATED = frozenset(int(status) for status in TERMINATED_STATUSES)
_ALLOCATED = frozenset(int(status) for status in ALLOCATED_STATUSES)
_RELEASING, _PIPELINED = int(TaskStatus.RELEASING), int(TaskStatus.PIPELINED)
_MOVING = frozenset({_RELEASING, _PIPELINED}) | _TERMINATED
_FLOAT_EXACT = 2.0**52
"""Below this, taking an amount off a float64 sum and putting it back changes nothing."""


# --- the informer -------------------------------------------------------------------------------------------------


def responsible(cache: Cache, ref: PodRef) -> bool:
    """The informer's filter: our scheduler's pods, and everyone's once bound (fact 10)."""
    return bool(ref.node_name) or ref.scheduler_name in cache.config.scheduler_names


def observe_pod(cache: Cache, pod: PodBrief, position: int, *, watched: bool = False) -> bool:
    """A pod seen, new or changed. False: nothing was delivered to the handlers. `watched`: it comes from a watch's
    MODIFIED line, whose order within the object is the API server's. Raises QuantityInvalid, ResourceInsufficient."""
    ref = pod_ref(cache, pod, position)
    key = f"{ref.namespace}/{ref.name}"
    old = cache.pods.get(key)
    if watched and old is not None and not cache.policy.applies_stale and _older(ref, old):
        return False
    if ref.claims or (old is not None and old.claims):
        store_pod(cache, key, old, ref)
    else:
        cache.touched.pods.setdefault(key, old)
        cache.pods[key] = ref
    names = cache.config.scheduler_names
    now = bool(ref.node_name) or ref.scheduler_name in names
    if old is not None and (old.node_name or old.scheduler_name in names):
        if now:
            update_pod(cache, old, pod, ref)
        else:
            delete_pod(cache, old)
        return True
    if now:
        add_pod(cache, pod, ref)
    return now


def _older(ref: PodRef, held: PodRef) -> bool:
    return ref.uid == held.uid and 0 < ref.version < held.version


def forget_pod(cache: Cache, pod: PodBrief, position: int, *, inferred: bool = False) -> bool:
    """A pod seen gone. `inferred`: a relist found it missing, and then no filter stands before the handler."""
    key = f"{pod.metadata.namespace}/{pod.metadata.name}"
    old = cache.pods.get(key)
    if old is None:
        return False
    ref = pod_ref(cache, pod, position)
    store_pod(cache, key, old, None)
    if inferred or responsible(cache, ref):
        delete_pod(cache, ref)
        return True
    return False


def forget_missing_pod(cache: Cache, key: str) -> None:
    """A pod that a relist found missing: the handler gets what the store held, and no filter stands before it."""
    ref = cache.pods[key]
    store_pod(cache, key, ref, None)
    delete_pod(cache, ref)


def store_pod(cache: Cache, key: str, old: PodRef | None, new: PodRef | None) -> None:
    """Put a pod into the store, or take it out, and keep the index of who uses which claim."""
    cache.touched.pods.setdefault(key, old)
    if new is None:
        cache.pods.pop(key, None)
    else:
        cache.pods[key] = new
    if cache.policy.defers_claims or (old.claims if old else ()) == (new.claims if new else ()):
        return
    for name in old.claims if old else ():
        users = cache.claim_users.get(claim_key(old, name)) if old else None
        if users is not None:
            users.pop(key, None)
            if not users and old:
                del cache.claim_users[claim_key(old, name)]
    for name in new.claims if new else ():
        if new:
            cache.claim_users.setdefault(claim_key(new, name), {})[key] = None


# --- the handlers -------------------------------------------------------------------------------------------------


def add_pod(cache: Cache, pod: PodBrief, ref: PodRef) -> None:
    """Volcano's addPod. A task that its node refuses is in no job either."""
    task = new_task(pod, ref)
    if ref.claims:
        count_volumes(cache, task, ref)
    add_task(cache, task)


def count_volumes(cache: Cache, task: TaskInfo, ref: PodRef) -> None:
    """Add the pod's volumes to the task's request, or ask for a resync where a claim is missing (052)."""
    try:
        task.resreq = with_volumes(cache, ref)
    except ClaimMissing:
        queue_resync(cache, task)
        return
    task.best_effort = task.resreq.is_empty()


def queue_resync(cache: Cache, task: TaskInfo) -> None:
    """Ask for the task to be read again; the key is Volcano's, '<job>/<uid>'."""
    put_off(cache, cache.pending_resync, f"{task.job}/{task.uid}")


def add_task(cache: Cache, task: TaskInfo) -> bool:
    """Volcano's addTask: onto its node (a placeholder is made for an unknown one, even for a task that has ended,
    034), then into its job, which is made if need be (fact 10). False: the node refused it, and it is nowhere."""
    try:
        place_task(cache, task)
    except TaskRefused:
        return False
    if task.job:
        job = cache.jobs.get(task.job)
        if job is None:
            job = cache.jobs[task.job] = JobInfo(task.job)
        job_add(cache, job, task)
    return True


def place_task(cache: Cache, task: TaskInfo) -> None:
    """Onto its node. Raises TaskRefused."""
    if not task.node_name:
        return
    if task.status in _TERMINATED and not cache.policy.keeps_placeholders:
        return
    node = cache.nodes.get(task.node_name)
    if node is None:
        node = cache.nodes[task.node_name] = NodeInfo(task.node_name)
        cache.touched.nodes[node.name] = True
    if task.status in _TERMINATED:
        return
    key = f"{task.namespace}/{task.name}"
    if not cache.policy.leaks_duplicate_adds and key in node.tasks:
        node_remove(cache, node, key)
        cache.nodes.setdefault(node.name, node)
    node_add(cache, node, task)


def delete_pod(cache: Cache, ref: PodRef) -> None:
    """Volcano's deletePod: the job's own task if it has one of that UID, else what the event says."""
    job = cache.jobs.get(ref.job) if ref.job else None
    task = job.tasks.get(ref.uid) if job is not None else None
    node_name = ref.node_name if task is None else task.node_name
    if job is not None:
        job_remove(cache, job, ref.uid)
    if node_name:
        node = cache.nodes.get(node_name)
        if node is not None:
            node_remove(cache, node, f"{ref.namespace}/{ref.name}")
    if job is not None and job.terminated:
        queue_cleanup(cache, job)


def delete_task(cache: Cache, task: TaskInfo) -> None:
    """Volcano's deleteTask: out of its job and off the node that it names."""
    job = cache.jobs.get(task.job) if task.job else None
    if job is not None:
        job_remove(cache, job, task.uid)
    node = cache.nodes.get(task.node_name) if task.node_name else None
    if node is not None:
        node_remove(cache, node, task.key)


def update_pod(cache: Cache, old: PodRef, pod: PodBrief, ref: PodRef) -> None:
    """Volcano's updatePod: delete the old, add the new; but an update without nodeName is ignored while its task is
    allocated (fact 15)."""
    job = cache.jobs.get(ref.job) if ref.job else None
    task = job.tasks.get(ref.uid) if job is not None else None
    if job is not None and task is not None:
        if not ref.node_name and task.status in _ALLOCATED:
            ends = ref.deleting or ref.phase in ("Succeeded", "Failed")
            if cache.policy.ignores_unbound or (task.node_name and not ends):
                return
        if old.uid == ref.uid and old.job == ref.job and refresh_task(cache, job, task, old, pod, ref):
            return
    delete_pod(cache, old)
    add_pod(cache, pod, ref)


def _same(one: Resource, other: Resource) -> bool:
    return one is other or one == other


def refresh_task(cache: Cache, job: JobInfo, task: TaskInfo, old: PodRef, pod: PodBrief, ref: PodRef) -> bool:
    """The outcome of delete and add for an update of the same pod, job and request, without taking the request off the
    sums that get it back. False where the long way is needed, and then nothing was done."""
    request = task.resreq
    if ref.claims or old.claims or not (request is ref.request or request == ref.request):
        return False
    if (job.held is None and len(job.tasks) == 1) or not _plain(cache, job.total_request, request):
        return False
    fresh = new_task(pod, ref)
    fresh.resreq = request
    key = f"{ref.namespace}/{ref.name}"
    node = _stays_on(cache, task, fresh, key)
    if node is None:
        if not _take_off(cache, task, fresh, key):
            return False
        place_task(cache, fresh)
    elif node is not _NOWHERE:
        _follow(cache, node, fresh, key)
    job.tasks[fresh.uid] = fresh
    _reindex(cache, job, task, fresh)
    cache.touched.job_tasks[job.uid, fresh.uid] = None
    return True


_NOWHERE = NodeInfo("")


def _stays_on(cache: Cache, task: TaskInfo, fresh: TaskInfo, key: str) -> NodeInfo | None:
    """The node where the task stays as it is in the columns it counts in; it may also begin to be released. _NOWHERE
    for a task that is on no node before and after. None: it has to be taken off and put on again."""
    name = fresh.node_name
    if task.node_name != name or task.status in _MOVING or fresh.status in _TERMINATED:
        return None
    if not name:
        return _NOWHERE
    node = cache.nodes.get(name)
    copy = node.tasks.get(key) if node is not None else None
    if node is None or copy is None or copy.uid != fresh.uid or copy.status != task.status or copy.job != fresh.job:
        return None
    return node if copy.resreq is task.resreq and _plain_node(cache, node, task.resreq) else None


def _follow(cache: Cache, node: NodeInfo, fresh: TaskInfo, key: str) -> None:
    """Make a node's copy what a copy of the new task would be."""
    copy = node.tasks[key]
    copy.status, copy.node_name, copy.gated, copy.role = fresh.status, fresh.node_name, fresh.gated, fresh.role
    copy.priority, copy.preemptable, copy.best_effort = fresh.priority, fresh.preemptable, fresh.best_effort
    copy.restartable_init, copy.revocable_zone = fresh.restartable_init, fresh.revocable_zone
    if fresh.status == _RELEASING and node.held is not None:
        node.releasing.add(fresh.resreq)
        cache.touched.nodes.setdefault(node.name, False)
    cache.touched.node_tasks[node.name, key] = None


def _take_off(cache: Cache, task: TaskInfo, fresh: TaskInfo, key: str) -> bool:
    """Take a task off its node, so that it can be put onto the one that the pod names now. False: that one would refuse
    it, or the sums would not come out the same; nothing was done."""
    node = cache.nodes.get(task.node_name) if task.node_name else None
    if node is not None and not _plain_node(cache, node, task.resreq):
        return False
    if task.node_name != fresh.node_name and fresh.node_name:
        target = cache.nodes.get(fresh.node_name)
        if target is not None and key in target.tasks:
            return False
    if node is not None:
        node_remove(cache, node, key, fits=key in node.tasks and node.tasks[key].resreq is task.resreq)
    return True


def _reindex(cache: Cache, job: JobInfo, task: TaskInfo, fresh: TaskInfo) -> None:
    """A job's index and sum with the new task in the old one's place."""
    status, before, uid = fresh.status, task.status, fresh.uid
    by_status = job.tasks_by_status
    if status == before:
        by_status[status][uid] = fresh
        return
    unindex(job, before, uid)
    index = by_status.get(status)
    if index is None:
        by_status[status] = {uid: fresh}
    else:
        index[uid] = fresh
    if before in _ALLOCATED:
        if status not in _ALLOCATED:
            job.allocated.subtract_unchecked(fresh.resreq)
    elif status in _ALLOCATED:
        job.allocated.add(fresh.resreq)
    cache.touched.jobs[job.uid] = None


def _plain(cache: Cache, total: Resource, request: Resource) -> bool:
    """Taking the request off the total and putting it back would change nothing and trip no assertion."""
    if not cache.policy.float64:
        return True
    if not request.milli_cpu <= total.milli_cpu < _FLOAT_EXACT or not request.memory <= total.memory < _FLOAT_EXACT:
        return False
    scalars, asked = total.scalars, request.scalars
    if scalars is None or asked is None:
        return False
    if len(asked) > 1:
        for name, number in asked.items():
            if not number <= scalars.get(name, 0) < _FLOAT_EXACT:
                return False
    return True


def _plain_node(cache: Cache, node: NodeInfo, request: Resource) -> bool:
    if node.held is None:
        return True
    if node.idle.scalars is None or node.oversubscription_cpu or node.oversubscription_memory:
        return False
    return _plain(cache, node.used, request)


# --- claims that come later ---------------------------------------------------------------------------------------


def recount_users(cache: Cache, claim: str) -> None:
    """Count the volumes of the pods that use a claim again, where the model counts them whenever they come."""
    for key in list(cache.claim_users.get(claim, ())):
        ref = cache.pods[key]
        resource = with_volumes(cache, ref)
        for task in tasks_of(cache, key, ref):
            if not _same(task.resreq, resource):
                _replace_request(cache, task, resource)


def tasks_of(cache: Cache, key: str, ref: PodRef) -> list[TaskInfo]:
    """A pod's task: the job's, or the node's copy when it has no job."""
    job = cache.jobs.get(ref.job) if ref.job else None
    task = job.tasks.get(ref.uid) if job is not None else None
    if task is None:
        node = cache.nodes.get(ref.node_name) if ref.node_name else None
        task = node.tasks.get(key) if node is not None else None
    return [] if task is None else [task]


def _replace_request(cache: Cache, task: TaskInfo, resource: Resource) -> None:
    fresh = task.clone()
    fresh.resreq = resource
    fresh.best_effort = resource.is_empty()
    delete_task(cache, task)
    add_task(cache, fresh)


__all__ = [
    "add_pod",
    "add_task",
    "count_volumes",
    "delete_pod",
    "delete_task",
    "forget_missing_pod",
    "forget_pod",
    "observe_pod",
    "place_task",
    "queue_resync",
    "recount_users",
    "responsible",
    "store_pod",
    "update_pod",
]
