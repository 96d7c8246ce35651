"""What a task on its way holds of its node: put on the books, taken off, kept up through what is observed meanwhile.

Owns this bookkeeping on the cache. Must not know events. Called by `vcledger.scheduler.fold`.

The cache fold knows only what the API server holds. A task that was given a node stands there as a copy of its own, as
in Volcano's AddBindTask, and its job's task is Allocated, Binding or Bound with it (facts 8 and 21).
"""

from __future__ import annotations

from projections.cache.accounting import count_on_node, job_add, job_set_status, node_remove
from projections.cache.brief import brief_of
from projections.cache.state import Cache, JobInfo, NodeInfo, TaskInfo
from projections.cache.tasks import new_task
from projections.cache.volumes import with_volumes
from vcledger.scheduler.state import Eviction, Flow, FlowTask
from vcledger.scheduler.transitions import Phase
from volcano.objects.status import TaskStatus, task_status

_STATUS = {Phase.ASSUMED: TaskStatus.ALLOCATED, Phase.BOUND: TaskStatus.BOUND}


def held_status(phase: Phase) -> int:
    """The status of a task's copy on its node."""
    return int(_STATUS.get(phase, TaskStatus.BINDING))


def job_task(cache: Cache, task: FlowTask) -> TaskInfo | None:
    """The job's task, None where the pod has no job."""
    job = cache.jobs.get(task.job) if task.job else None
    return job.tasks.get(task.uid) if job is not None else None


def _made_anew(flow: Flow, task: FlowTask) -> TaskInfo | None:
    """A pod without a job as a task."""
    ref, pod = flow.cache.pods.get(task.key), flow.pods.get(task.key)
    if ref is None or pod is None or ref.uid != task.uid:
        return None
    made = new_task(brief_of(pod), ref)
    made.resreq = with_volumes(flow.cache, ref)
    return made


def _back_in_job(flow: Flow, task: FlowTask) -> TaskInfo | None:
    """A task that its job lost because its full node would not take it again when its claims were counted anew."""
    made = _made_anew(flow, task) if task.job else None
    if made is not None:
        job = flow.cache.jobs.setdefault(task.job, JobInfo(task.job))
        job_add(flow.cache, job, made)
    return made


def put(cache: Cache, name: str, task: TaskInfo, status: int) -> None:
    """A copy of the task on the node, counted, whether there is room or not; in place of one that stood there."""
    node = cache.nodes.get(name)
    if node is not None and task.key in node.tasks:
        node_remove(cache, node, task.key)
    node = cache.nodes.get(name)
    if node is None:
        node = cache.nodes[name] = NodeInfo(name)
        cache.touched.nodes[name] = True
    copy = task.clone()
    copy.status, copy.node_name = status, name
    if node.node is not None:
        count_on_node(node, copy)
    node.tasks[task.key] = copy
    cache.touched.nodes.setdefault(name, False)
    cache.touched.node_tasks[name, task.key] = None


def hold(flow: Flow, task: FlowTask, *, ended: bool = False) -> None:
    """Put the task on its node's books, and on its job's, with the status of its phase. `ended`: the job's own task
    says already that the pod is over, only the node's share is kept."""
    cache, status = flow.cache, held_status(task.phase)
    found = job_task(cache, task) or _back_in_job(flow, task)
    if found is not None and not ended:
        job_set_status(cache, cache.jobs[task.job], found, status)
        found.node_name = task.node
    source = found if found is not None else _made_anew(flow, task)
    if source is not None:
        put(cache, task.node, source, status)


def holds(flow: Flow, task: FlowTask) -> bool:
    """Whether the task's copy stands on its node."""
    node = flow.cache.nodes.get(task.node)
    copy = node.tasks.get(task.key) if node is not None else None
    return copy is not None and copy.uid == task.uid


def keep(flow: Flow, task: FlowTask, *, ended: bool) -> None:
    """After an observation of a pod that is not bound: what it holds is held as before."""
    if not holds(flow, task):
        hold(flow, task, ended=ended)


def release(flow: Flow, task: FlowTask) -> None:
    """Take the task off its node, unless its pod is bound there, and let its job's task be what the pod says."""
    cache = flow.cache
    ref = cache.pods.get(task.key)
    own = ref is not None and ref.uid == task.uid and ref.node_name == task.node
    node = cache.nodes.get(task.node)
    if node is not None and not own and holds(flow, task):
        node_remove(cache, node, task.key)
    found = job_task(cache, task)
    if found is None or ref is None or ref.uid != task.uid or ref.node_name:
        return
    status = int(task_status(ref.phase, ref.deleting, ref.node_name))
    if found.status != status:
        job_set_status(cache, cache.jobs[task.job], found, status)
    found.node_name = ref.node_name


# --- tasks that were told to go -----------------------------------------------------------------------------------


def leave(flow: Flow, eviction: Eviction) -> None:
    """The task is Releasing from now on, whatever its pod says: what it holds is about to be free (fact 25)."""
    _set_status(flow, eviction, int(TaskStatus.RELEASING))


def stay(flow: Flow, eviction: Eviction) -> None:
    """The task is again what its pod says."""
    ref = flow.cache.pods.get(eviction.key)
    if ref is not None and ref.uid == eviction.uid:
        _set_status(flow, eviction, int(task_status(ref.phase, ref.deleting, ref.node_name)))


def _set_status(flow: Flow, eviction: Eviction, status: int) -> None:
    cache = flow.cache
    job = cache.jobs.get(eviction.job) if eviction.job else None
    task = job.tasks.get(eviction.uid) if job is not None else None
    if job is not None and task is not None and task.status != status:
        job_set_status(cache, job, task, status)
    node = cache.nodes.get(eviction.node)
    copy = node.tasks.get(eviction.key) if node is not None else None
    if copy is not None and copy.uid == eviction.uid and copy.status != status:
        put(cache, eviction.node, copy, status)


__all__ = ["held_status", "hold", "holds", "job_task", "keep", "leave", "put", "release", "stay"]
