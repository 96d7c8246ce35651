"""Pods from a Volcano Job's templates, for a job whose pods the record never had.

Owns what Volcano's job controller makes of a template. Must not know the simulation. Called by
`vcledger.replay.living`, `vcledger.replay.notes`.

Source: Volcano's pkg/controllers/job (createJobPod, MakePodName): names JOB-TASK-INDEX, the PodGroup and the task in
annotations and labels, the Job as controlling owner.
"""

from __future__ import annotations

from typing import Any

from vcledger.replay.record import encode

PODS_MAX = 50_000
"""So many pods of one Job are made: what asks for more is a slip, and would take all memory."""


def pods_of(job: dict[str, Any], group: str) -> list[tuple[str, bytes]]:
    """(name, JSON) of the pods of a Job (JSON object) whose PodGroup is named `group`, task by task, PODS_MAX at
    most."""
    spec, meta = job.get("spec") or {}, job["metadata"]
    made: list[tuple[str, bytes]] = []
    for number, task in enumerate(spec.get("tasks") or ()):
        task_name = task.get("name") or f"default{number}"
        for index in range(min(_replicas(task), PODS_MAX - len(made))):
            name = f"{meta['name']}-{task_name}-{index}"
            made.append((name, encode(_pod(spec, meta, group, task.get("template") or {}, (task_name, name, index)))))
    return made


def asked(job: dict[str, Any]) -> int:
    """How many pods a Job asks for."""
    return sum(max(0, _replicas(task)) for task in (job.get("spec") or {}).get("tasks") or ())


def _replicas(task: dict[str, Any]) -> int:
    replicas = task.get("replicas")
    return 1 if replicas is None else int(replicas)


def _pod(
    spec: dict[str, Any], meta: dict[str, Any], group: str, template: dict[str, Any], place: tuple[str, str, int]
) -> dict[str, Any]:
    task, name, index = place
    own = template.get("metadata") or {}
    shared = {
        "volcano.sh/job-name": meta["name"],
        "volcano.sh/queue-name": spec.get("queue") or "default",
        "volcano.sh/task-index": str(index),
        "volcano.sh/task-spec": task,
    }
    body = dict(template.get("spec") or {})
    body["schedulerName"] = spec.get("schedulerName") or body.get("schedulerName") or "volcano"
    if spec.get("priorityClassName") and not body.get("priorityClassName"):
        body["priorityClassName"] = spec["priorityClassName"]
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": meta["name"],
        "uid": meta.get("uid") or "",
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta.get("namespace") or "default",
            "annotations": {**(own.get("annotations") or {}), **shared, "scheduling.k8s.io/group-name": group},
            "labels": {
                **(own.get("labels") or {}),
                **shared,
                "volcano.sh/job-namespace": meta.get("namespace") or "default",
            },
            "ownerReferences": [owner],
        },
        "spec": body,
        "status": {},
    }


__all__ = ["PODS_MAX", "asked", "pods_of"]
