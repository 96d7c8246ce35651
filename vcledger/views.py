"""The cache as lists of plain objects: nodes, jobs, tasks, queues, volumes and claims.

Owns what is told of each. Must not know how it is printed nor where the cache came from. Called by `cli.get`, and by
users' code that wants rows.

Amounts are numbers by Kubernetes' resource names: cpu in cores, memory and storage in bytes, everything else in units.
`position` is where the object was last observed in the log. Lists are in the order of their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from projections.cache import Cache, JobInfo, NodeInfo, TaskInfo
from projections.cache.state import PodRef
from volcano.objects.core import NodeSelector, PersistentVolume, PersistentVolumeClaim
from volcano.objects.meta import ResourceMap
from volcano.objects.resource import ATTACH_PREFIX, PODS, Resource
from volcano.objects.status import STATUS_WORDS, task_status

Row: TypeAlias = dict[str, Any]

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node that the scheduler chose for the pod that waits for it."""


def amounts(resource: Resource, *, zeros: bool = True) -> dict[str, float]:
    """A resource in cores, bytes and units."""
    found: dict[str, float] = {}
    for name, amount in resource.amounts().items():
        unit = 1 if name in ("memory", PODS) or name.startswith(ATTACH_PREFIX) else 1000
        if amount or zeros:
            found[name] = amount / unit
    return found


# --- nodes --------------------------------------------------------------------------------------------------------


def nodes(cache: Cache) -> list[Row]:
    """Every node that the cache holds, placeholders too."""
    return [_node(info) for _, info in sorted(cache.nodes.items())]


def _node(info: NodeInfo) -> Row:
    node = info.node
    row: Row = {
        "kind": "node",
        "name": info.name,
        "phase": info.phase,
        "reason": info.reason,
        "ready": _condition(info, "Ready"),
        "unschedulable": node.spec.unschedulable if node is not None else False,
        "taints": [_taint(taint.key, taint.value, taint.effect) for taint in (node.spec.taints or ())] if node else [],
        "tasks": len(info.tasks),
    }
    for name in ("idle", "used", "allocatable", "releasing", "pipelined"):
        row[name] = amounts(getattr(info, name), zeros=name in ("idle", "used", "allocatable"))
    return {**row, "position": info.position}


def _condition(info: NodeInfo, wanted: str) -> str:
    """The status of a condition of the Node object: True, False, Unknown, or '' without one."""
    conditions = (info.node.status.conditions or ()) if info.node is not None else ()
    return next((condition.status for condition in conditions if condition.type == wanted), "")


def _taint(key: str, value: str, effect: str) -> str:
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


# --- jobs and tasks -----------------------------------------------------------------------------------------------


def jobs(cache: Cache) -> list[Row]:
    """Every job: a PodGroup with its tasks, or tasks whose PodGroup the cache does not have. `job` is the name of the
    Volcano Job that it belongs to, '' for none."""
    return [_job(job) for _, job in sorted(cache.jobs.items())]


def _job(job: JobInfo) -> Row:
    group = job.pod_group
    return {
        "kind": "job",
        "namespace": job.namespace or job.uid.partition("/")[0],
        "name": job.name or job.uid.partition("/")[2],
        "job": _volcano_job(job),
        "owners": [owner.name for owner in (group.metadata.owner_references or ())] if group is not None else [],
        "pod_group": group is not None,
        "phase": group.status.phase if group is not None else "",
        "queue": job.queue,
        "min_available": job.min_available,
        "ready": job.ready_task_num,
        "tasks": {STATUS_WORDS[status]: len(held) for status, held in sorted(job.tasks_by_status.items()) if held},
        "priority": job.priority,
        "allocated": amounts(job.allocated),
        "requested": amounts(job.total_request),
        "position": job.position,
    }


_OF_JOB = re.compile(r"(.+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The name that Volcano's job controller gives a PodGroup: the job's, and its uid."""


def _volcano_job(job: JobInfo) -> str:
    """The Volcano Job of a group: its owner, or, where the group is not there, what its name says."""
    if job.pod_group is not None:
        owners = job.pod_group.metadata.owner_references or ()
        return next((owner.name for owner in owners if owner.kind == "Job"), "")
    named = _OF_JOB.fullmatch(job.uid.partition("/")[2])
    return named[1] if named is not None else ""


class HeldTask(NamedTuple):
    """A task, and the node that holds it: '' when none does."""

    task: TaskInfo
    held_by: str


def all_tasks(cache: Cache) -> Iterator[HeldTask]:
    """Each task once, by name: those of jobs, and those that only a node has (pods without a group)."""
    holders = {task.uid: name for name, node in cache.nodes.items() for task in node.tasks.values()}
    found = {uid: task for job in cache.jobs.values() for uid, task in job.tasks.items()}
    for node in cache.nodes.values():
        for task in node.tasks.values():
            found.setdefault(task.uid, task)
    for task in sorted(found.values(), key=lambda task: (task.namespace, task.name, task.uid)):
        yield HeldTask(task, holders.get(task.uid, ""))


def tasks(cache: Cache) -> list[Row]:
    """Every task, and every pod that is in the informer's store only: other schedulers' pods, and those that wait
    without a group. These have no job, and the status that a task of theirs would have."""
    rows = [_task(cache, held) for held in all_tasks(cache)]
    known = {row["uid"] for row in rows}
    rows += [_pod(ref) for ref in cache.pods.values() if ref.uid not in known]
    return sorted(rows, key=lambda row: (row["namespace"], row["name"], row["uid"]))


def _pod(ref: PodRef) -> Row:
    return {
        "kind": "pod",
        "namespace": ref.namespace,
        "name": ref.name,
        "uid": ref.uid,
        "status": STATUS_WORDS[task_status(ref.phase, ref.deleting, ref.node_name)],
        "node": ref.node_name,
        "job": "",
        "queue": "",
        "role": "",
        "priority": 0,
        "gated": ref.gated,
        "request": amounts(ref.request),
        "position": ref.position,
    }


def _task(cache: Cache, held: HeldTask) -> Row:
    task = held.task
    job = cache.jobs.get(task.job)
    return {
        "kind": "pod",
        "namespace": task.namespace,
        "name": task.name,
        "uid": task.uid,
        "status": STATUS_WORDS[task.status],
        "node": task.node_name or held.held_by,
        "job": task.job.partition("/")[2],
        "queue": job.queue if job is not None else "",
        "role": task.role,
        "priority": task.priority,
        "gated": task.gated,
        "request": amounts(task.resreq),
        "position": cache.position_of("Pod", task.key),
    }


# --- queues -------------------------------------------------------------------------------------------------------


def queues(cache: Cache) -> list[Row]:
    """Every queue, with what its jobs have and ask for."""
    return [_queue(cache, name) for name in sorted(cache.queues)]


def _queue(cache: Cache, name: str) -> Row:
    queue = cache.queues[name]
    jobs_in = [job for job in cache.jobs.values() if job.queue == name]
    allocated, requested = Resource(), Resource()
    for job in jobs_in:
        allocated.add(job.allocated)
        requested.add(job.total_request)
    guarantee = queue.spec.guarantee
    return {
        "kind": "queue",
        "name": name,
        "state": queue.status.state,
        "weight": queue.spec.weight,
        "priority": queue.spec.priority,
        "parent": queue.spec.parent,
        "reclaimable": queue.spec.reclaimable is not False,
        "capability": dict(queue.spec.capability or {}),
        "deserved": dict(queue.spec.deserved or {}),
        "guarantee": dict((guarantee.resource if guarantee is not None else None) or {}),
        "jobs": len(jobs_in),
        "tasks": sum(len(job.tasks) for job in jobs_in),
        "allocated": amounts(allocated),
        "requested": amounts(requested),
        "position": cache.position_of("Queue", name),
    }


# --- volumes ------------------------------------------------------------------------------------------------------


def volumes(cache: Cache) -> list[Row]:
    """Every PersistentVolume."""
    return [_volume(cache, name, volume) for name, volume in sorted(cache.volumes.items())]


def claims(cache: Cache) -> list[Row]:
    """Every PersistentVolumeClaim."""
    return [_claim(cache, key, claim) for key, claim in sorted(cache.claims.items())]


def _volume(cache: Cache, name: str, volume: PersistentVolume) -> Row:
    claim = volume.spec.claim_ref
    affinity = volume.spec.node_affinity
    return {
        "kind": "pv",
        "name": name,
        "phase": volume.status.phase,
        "capacity": _storage(volume.spec.capacity),
        "class": volume.spec.storage_class_name,
        "access_modes": list(volume.spec.access_modes or ()),
        "bound_to": f"{claim.namespace}/{claim.name}" if claim is not None else "",
        "nodes": selector_text(affinity.required) if affinity is not None else "",
        "position": cache.position_of("PersistentVolume", name),
    }


def _claim(cache: Cache, key: str, claim: PersistentVolumeClaim) -> Row:
    resources = claim.spec.resources
    return {
        "kind": "pvc",
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "phase": claim.status.phase,
        "capacity": _storage(claim.status.capacity) or _storage(resources.requests if resources is not None else None),
        "class": claim.spec.storage_class_name or "",
        "access_modes": list(claim.spec.access_modes or ()),
        "bound_to": claim.spec.volume_name,
        "nodes": (claim.metadata.annotations or {}).get(SELECTED_NODE, ""),
        "position": cache.position_of("PersistentVolumeClaim", key),
    }


def _storage(amount: ResourceMap | None) -> str:
    return str((amount or {}).get("storage", ""))


def selector_text(selector: NodeSelector | None) -> str:
    """A node selector as people write one: terms joined by 'or', requirements by commas."""
    terms = []
    for term in (selector.node_selector_terms if selector is not None else None) or ():
        parts = [*(term.match_expressions or ()), *(term.match_fields or ())]
        terms.append(", ".join(f"{part.key} {part.operator} {'|'.join(part.values or ())}".rstrip() for part in parts))
    return " or ".join(terms)
