"""The arithmetic of a node's and a job's books: tasks in, tasks out, a status changed.

Owns the rules of which column a task counts in. Must not know events nor informers. Called by the handlers of
`projections.cache` and by `projections.cache.actions`.

Source: Volcano's NodeInfo.AddTask, RemoveTask, setNode and JobInfo.AddTaskInfo, DeleteTaskInfo, UpdateTaskStatus.
Of the real cache's two assertions only that of Resource.Sub shows (015): a task is then half taken off, and so it is
left here.
"""

from __future__ import annotations

from projections.cache.state import Cache, JobInfo, NodeInfo, TaskInfo
from volcano.objects.resource import Resource
from volcano.objects.status import ALLOCATED_STATUSES, TaskStatus

_PIPELINED, _RELEASING, _BINDING = int(TaskStatus.PIPELINED), int(TaskStatus.RELEASING), int(TaskStatus.BINDING)
_ALLOCATED = frozenset(int(status) for status in ALLOCATED_STATUSES)


class TaskRefused(Exception):
    """A node or job would not take a task. The text is Volcano's error; the books are as they were."""


def _give_back(cache: Cache, total: Resource, part: Resource) -> None:
    """Subtract with Volcano's assertion where the model has it."""
    if cache.policy.float64:
        total.subtract(part)
    else:
        total.subtract_unchecked(part)


def count_on_node(node: NodeInfo, task: TaskInfo) -> None:
    """Add a task to the node's columns (fact 8)."""
    if task.status == _PIPELINED:
        node.pipelined.add(task.resreq)
        return
    node.idle.subtract_unchecked(task.resreq)
    if task.status == _RELEASING:
        node.releasing.add(task.resreq)
    node.used.add(task.resreq)


def node_add(cache: Cache, node: NodeInfo, task: TaskInfo) -> None:
    """The node takes a copy of the task. Raises TaskRefused: another node's task, its key already there, or Binding
    without enough idle (facts 21; vectors 070, 091)."""
    if task.node_name and node.name and task.node_name != node.name:
        raise TaskRefused(f"task <{task.namespace}/{task.name}> already on different node <{task.node_name}>")
    key = f"{task.namespace}/{task.name}"
    if key in node.tasks:
        raise TaskRefused(f"task <{key}> already on node <{node.name}>")
    if node.held is not None:
        if task.status == _BINDING:
            lacking = task.resreq.exceeding(node.idle)
            if lacking:
                raise TaskRefused(
                    f"node {node.name} resources [{' '.join(lacking)}] are not enough to put task <{key}>, "
                    f"idle: {node.idle}, req: {task.resreq}"
                )
        count_on_node(node, task)
    task.node_name = node.name
    node.tasks[key] = task.clone()
    touched = cache.touched
    touched.nodes.setdefault(node.name, False)
    touched.node_tasks[node.name, key] = None


def node_remove(cache: Cache, node: NodeInfo, key: str, *, fits: bool = False) -> None:
    """Take a task off a node by its 'namespace/name'; what the node's copy says counts (fact 17). An unknown key is
    left alone. `fits`: the caller has seen that `used` has it all. Raises ResourceInsufficient."""
    task = node.tasks.get(key)
    if task is None:
        return
    touched = cache.touched
    touched.nodes.setdefault(node.name, False)
    touched.node_tasks[node.name, key] = None
    if node.held is not None:
        if task.status == _PIPELINED:
            _give_back(cache, node.pipelined, task.resreq)
        else:
            if task.status == _RELEASING:
                _give_back(cache, node.releasing, task.resreq)
            node.idle.add(task.resreq)
            if fits:
                node.used.subtract_unchecked(task.resreq)
            else:
                _give_back(cache, node.used, task.resreq)
    del node.tasks[key]
    if not node.tasks and node.held is None and not cache.policy.keeps_placeholders:
        del cache.nodes[node.name]
        touched.nodes[node.name] = True


def job_add(cache: Cache, job: JobInfo, task: TaskInfo) -> None:
    """The job takes the task itself, and counts it again if it had one of that UID (070)."""
    if not cache.policy.leaks_duplicate_adds and task.uid in job.tasks:
        job_remove(cache, job, task.uid)
    job.tasks[task.uid] = task
    index = job.tasks_by_status.get(task.status)
    if index is None:
        job.tasks_by_status[task.status] = {task.uid: task}
    else:
        index[task.uid] = task
    job.total_request.add(task.resreq)
    if task.status in _ALLOCATED:
        job.allocated.add(task.resreq)
    touched = cache.touched
    touched.jobs[job.uid] = None
    touched.job_tasks[job.uid, task.uid] = None


def job_remove(cache: Cache, job: JobInfo, uid: str) -> None:
    """Take a task out of a job by UID; an unknown one is left alone. Raises ResourceInsufficient."""
    task = job.tasks.get(uid)
    if task is None:
        return
    touched = cache.touched
    touched.jobs[job.uid] = None
    touched.job_tasks[job.uid, uid] = None
    _give_back(cache, job.total_request, task.resreq)
    if task.status in _ALLOCATED:
        _give_back(cache, job.allocated, task.resreq)
    del job.tasks[uid]
    unindex(job, task.status, uid)


def unindex(job: JobInfo, status: int, uid: str) -> None:
    """Take a UID out of one status's set, and the set away when it is empty."""
    index = job.tasks_by_status.get(status)
    if index is not None:
        index.pop(uid, None)
        if not index:
            del job.tasks_by_status[status]


def job_set_status(cache: Cache, job: JobInfo, task: TaskInfo, status: int) -> None:
    """JobInfo.UpdateTaskStatus: out with the old status, in with the new."""
    if task.uid in job.tasks:
        job_remove(cache, job, task.uid)
    task.status = status
    job_add(cache, job, task)


__all__ = [
    "TaskRefused",
    "count_on_node",
    "job_add",
    "job_remove",
    "job_set_status",
    "node_add",
    "node_remove",
    "unindex",
]
