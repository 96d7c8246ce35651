"""The cache as plain data, in exactly the shape of the golden vectors' `expected`.

Owns this shape (data/vectors README, 'State'). Must not know how the state came about. Called by `vcledger`.
"""

from __future__ import annotations

from typing import Any

from projections.cache.state import Cache, JobInfo, NodeInfo, TaskInfo
from volcano.objects.quantity import canonical
from volcano.objects.resource import Resource, new_resource
from volcano.objects.scheduling import Queue
from volcano.objects.status import STATUS_WORDS

HIERARCHY_KEY = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS_KEY = "volcano.sh/hierarchy-weights"


def number(amount: float) -> float:
    """An int where the number is whole and JSON's readers can hold it, a float beyond."""
    if isinstance(amount, int):
        return amount if -(2**63) <= amount < 2**63 else float(amount)
    return int(amount) if amount.is_integer() and -(2.0**63) < amount < 2.0**63 else amount


def resource_json(resource: Resource) -> dict[str, Any]:
    """milli_cpu, memory, `scalars` unless nil, `max_task_num` unless 0."""
    out: dict[str, Any] = {"milli_cpu": number(resource.milli_cpu), "memory": number(resource.memory)}
    if resource.scalars is not None:
        out["scalars"] = {name: number(amount) for name, amount in sorted(resource.scalars.items())}
    if resource.max_task_num:
        out["max_task_num"] = number(resource.max_task_num)
    return out


def node_task_json(task: TaskInfo) -> dict[str, Any]:
    """A node's copy of a task."""
    return {
        "uid": task.uid,
        "status": STATUS_WORDS[task.status],
        "job": task.job,
        "node_name": task.node_name,
        "resreq": resource_json(task.resreq),
    }


def node_json(node: NodeInfo) -> dict[str, Any]:
    """One entry of `nodes`."""
    out: dict[str, Any] = {
        "phase": node.phase,
        "reason": node.reason,
        "has_object": node.node is not None,
        "allocatable": resource_json(node.allocatable),
        "capacity": resource_json(node.capacity),
        "idle": resource_json(node.idle),
        "used": resource_json(node.used),
        "releasing": resource_json(node.releasing),
        "pipelined": resource_json(node.pipelined),
        "future_idle": resource_json(node.future_idle()),
        "tasks": {key: node_task_json(task) for key, task in sorted(node.tasks.items())},
    }
    if node.node is not None:
        spec = node.node.spec
        out["object_uid"] = node.node.metadata.uid
        out["unschedulable"] = spec.unschedulable
        out["taints"] = [f"{taint.key}={taint.value}:{taint.effect}" for taint in spec.taints or ()]
    if node.revocable_zone:
        out["revocable_zone"] = node.revocable_zone
    if node.oversubscription or node.oversubscription_cpu or node.oversubscription_memory:
        out["oversubscription"] = {
            "node": node.oversubscription,
            "offline_job_evicting": node.offline_job_evicting,
            "resource": resource_json(Resource(node.oversubscription_cpu, node.oversubscription_memory)),
        }
    if node.images:
        out["images"] = {
            name: {"size": size, "num_nodes": nodes} for name, (size, nodes) in sorted(node.images.items())
        }
    return out


def job_task_json(task: TaskInfo) -> dict[str, Any]:
    """A job's task."""
    out: dict[str, Any] = {
        "name": task.key,
        "status": STATUS_WORDS[task.status],
        "node_name": task.node_name,
        "priority": task.priority,
        "preemptable": task.preemptable,
        "best_effort": task.best_effort,
        "resreq": resource_json(task.resreq),
    }
    if task.role:
        out["role"] = task.role
    if task.restartable_init:
        out["has_restartable_init_container"] = True
    if task.gated:
        out["sch_gated"] = True
    if task.revocable_zone:
        out["revocable_zone"] = task.revocable_zone
    return out


def job_json(job: JobInfo) -> dict[str, Any]:
    """One entry of `jobs`."""
    out: dict[str, Any] = {
        "name": job.name,
        "namespace": job.namespace,
        "pg_uid": job.pg_uid,
        "has_podgroup": job.pod_group is not None,
        "queue": job.queue,
        "min_available": job.min_available,
        "priority": job.priority,
        "task_min_available": dict(sorted(job.task_min_available.items())),
        "task_min_available_total": job.task_min_available_total,
        "total_request": resource_json(job.total_request),
        "allocated": resource_json(job.allocated),
        "tasks": {uid: job_task_json(task) for uid, task in sorted(job.tasks.items())},
        "tasks_by_status": {
            STATUS_WORDS[status]: sorted(index) for status, index in sorted(job.tasks_by_status.items()) if index
        },
        "ready_task_num": job.ready_task_num,
        "job_fit_errors": job.job_fit_errors,
        "preemptable": job.preemptable,
    }
    group = job.pod_group
    if group is not None:
        out["pg_phase"] = group.status.phase
        out["creation_timestamp"] = group.metadata.creation_timestamp
        out["min_resources"] = resource_json(new_resource(group.spec.min_resources))
    if job.nodes_fit_errors:
        out["nodes_fit_errors"] = dict(sorted(job.nodes_fit_errors.items()))
    if job.revocable_zone:
        out["revocable_zone"] = job.revocable_zone
    if job.budget_min_available or job.budget_max_unavailable:
        out["budget"] = {"min_available": job.budget_min_available, "max_unavailable": job.budget_max_unavailable}
    if job.waiting_time_seconds is not None:
        out["waiting_time_s"] = number(job.waiting_time_seconds)
    return out


def queue_json(queue: Queue) -> dict[str, Any]:
    """One entry of `queues`; a queue is reclaimable unless it says otherwise."""
    annotations = queue.metadata.annotations or {}
    return {
        "name": queue.metadata.name,
        "weight": queue.spec.weight,
        "weights": annotations.get(HIERARCHY_WEIGHTS_KEY, ""),
        "hierarchy": annotations.get(HIERARCHY_KEY, ""),
        "reclaimable": queue.spec.reclaimable is not False,
        "state": queue.status.state,
    }


def _namespaces(cache: Cache) -> dict[str, Any]:
    out: dict[str, dict[str, Any]] = {namespace: {} for namespace in sorted(cache.namespaces)}
    for _, quota in sorted(cache.quotas.items()):
        hard = {name: canonical(amount) for name, amount in sorted((quota.status.hard or {}).items())}
        out[quota.metadata.namespace][quota.metadata.name] = hard
    return out


def state_json(cache: Cache) -> dict[str, Any]:
    """The whole cache, as the vectors' `expected[i]`."""
    out: dict[str, Any] = {
        "nodes": {name: node_json(node) for name, node in sorted(cache.nodes.items())},
        "jobs": {key: job_json(job) for key, job in sorted(cache.jobs.items())},
        "queues": {name: queue_json(queue) for name, queue in sorted(cache.queues.items())},
        "priority_classes": {name: each.value for name, each in sorted(cache.priority_classes.items())},
        "default_priority": cache.default_priority,
        "node_list": list(cache.node_list),
        "pending_cleanup": sorted(cache.pending_cleanup),
        "pending_resync": sorted(cache.pending_resync),
        "pending_node_sync": sorted(cache.pending_node_sync),
        "bind_flow": len(cache.bind_flow),
    }
    if cache.default_priority_class:
        out["default_priority_class"] = cache.default_priority_class
    if cache.namespaces:
        out["namespaces"] = _namespaces(cache)
    if cache.csi_nodes:
        out["csi_nodes"] = {name: _csi_json(csi_node) for name, csi_node in sorted(cache.csi_nodes.items())}
    return out


def _csi_json(csi_node: Any) -> dict[str, bool]:
    return {
        driver.name: driver.allocatable is not None and driver.allocatable.count is not None
        for driver in csi_node.spec.drivers or ()
    }


__all__ = ["job_json", "node_json", "queue_json", "resource_json", "state_json"]
