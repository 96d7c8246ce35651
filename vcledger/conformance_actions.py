"""The vectors' action steps: what the scheduler does to its cache, with scripted answers and the effects it would have.

Owns the harness around `projections.cache.actions`: the fake API server's pods, the scripted binder, evictor and volume
binder, the events and pod conditions written. Must not know files. Called by `vcledger.conformance`.

Format: data/vectors README, 'Action steps'. Effects are dicts as in the vectors' `results`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from projections.cache import Cache, actions
from projections.cache.actions import ActionRefused
from projections.cache.json import job_json, node_json, queue_json
from projections.cache.state import JobInfo, NodeInfo, TaskInfo
from volcano.objects.core import Pod, PodCondition
from volcano.objects.status import STATUS_BY_WORD, STATUS_WORDS, TaskStatus

Result = dict[str, Any]

_VERB = re.compile(r"%[-+# 0]*[0-9]*(?:\.[0-9]*)?(.?)", re.DOTALL)
_UNREADY_PHASES = ("Unknown", "Pending", "Inqueue")


def go_format(text: str) -> str:
    """A message that Go took for a format without arguments (096, 103)."""

    def verb(match: re.Match[str]) -> str:
        letter = match[1]
        if letter == "%":
            return "%"
        return f"%!{letter}(MISSING)" if letter else "%!(NOVERB)"

    return _VERB.sub(verb, text)


class Harness:
    """The scheduler's surroundings for one vector."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.api: dict[str, Pod] = {}
        self.made_from: dict[tuple[str, str], tuple[TaskInfo, Pod]] = {}
        self.binding: list[tuple[actions.BindTask, Pod, bool]] = []
        self.effects: list[Result] = []

    def note(self, pod: Pod) -> None:
        """Remember which pod a job's task was made from, if it was just made from this one."""
        task = actions.task_named(self.cache, f"{pod.metadata.namespace}/{pod.metadata.name}")
        if task is not None and task.uid == pod.metadata.uid:
            known = self.made_from.get((task.job, task.uid))
            if known is None or known[0] is not task:
                self.made_from[task.job, task.uid] = (task, pod)

    def pod_of(self, task: TaskInfo) -> Pod:
        """The pod that the cache's task holds; the API server's where it is not known what that was."""
        known = self.made_from.get((task.job, task.uid))
        return known[1] if known is not None else self.api.get(task.key, Pod())

    # --- effects --------------------------------------------------------------------------------------------------

    def event(self, kind: str, key: str, event_type: str, reason: str, message: str) -> None:
        self.effects.append(
            {"op": "event", "kind": kind, "object": key, "type": event_type, "reason": reason, "message": message}
        )

    def unschedulable(self, task: TaskInfo, pod: Pod, reason: str, message: str, nominated: str = "") -> None:
        """taskUnschedulable: one status update, only where the condition or the nominated node differs (081)."""
        held = pod.status.conditions or []
        wanted = PodCondition(type="PodScheduled", status="False", reason=reason, message=message)
        old = next((each for each in held if each.type == wanted.type), None)
        differs = old is None or (old.status, old.reason, old.message) != ("False", reason, message)
        if not differs and pod.status.nominated_node_name == nominated and old is not None and not old.last_probe_time:
            return
        self.event("Pod", task.key, "Warning", "FailedScheduling", go_format(message))
        conditions = [wanted if each.type == wanted.type else each for each in held]
        if old is None:
            conditions.append(wanted)
        rows = [
            {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            for each in conditions
        ]
        self.effects.append(
            {"op": "update_pod_status", "task": task.key, "conditions": rows, "nominated_node": nominated}
        )

    def take_effects(self, *, ordered: bool = True) -> Result:
        effects, self.effects = self.effects, []
        if not ordered:
            effects.sort(key=_sort_key)
        return {"effects": effects} if effects else {}

    # --- actions --------------------------------------------------------------------------------------------------

    def task(self, key: str) -> TaskInfo:
        task = actions.task_named(self.cache, key)
        if task is None:
            raise ActionRefused(f"failed to find task {key}")
        return task

    def node(self, name: str) -> NodeInfo:
        node = self.cache.nodes.get(name)
        if node is None:
            raise ActionRefused(f"failed to find node {name}")
        return node

    def job(self, key: str) -> JobInfo:
        job = self.cache.jobs.get(key)
        if job is None:
            raise ActionRefused(f"failed to find job {key}")
        return job

    def add_bind_task(self, step: Mapping[str, Any]) -> Result:
        task = self.task(step["task"])
        pod = self.pod_of(task)
        bind = actions.add_bind_task(self.cache, task, step["node"])
        self.binding.append((bind, pod, bool(step.get("with_volumes"))))
        return {}

    def process_binds(self, step: Mapping[str, Any]) -> Result:
        """BindTask: volumes one by one, then all binds, then what came of each."""
        actions.take_binds(self.cache)
        queued, self.binding = self.binding, []
        volume_errors, bind_errors = step.get("volume_errors") or {}, step.get("bind_errors") or {}
        bound = []
        for bind, pod, volumes in queued:
            key = bind.task.key
            self.effects.append(_effect("bind_volumes", key, volume_errors, had_volumes=volumes))
            if key in volume_errors:
                self.revert(bind.task, volumes)
            else:
                bound.append((bind, pod, volumes))
        for bind, _, _ in bound:
            self.effects.append(_effect("bind", bind.task.key, bind_errors, node=bind.node_name))
        for bind, pod, volumes in bound:
            key, node = bind.task.key, bind.node_name
            if key not in bind_errors:
                self.event("Pod", key, "Normal", "Scheduled", f"Successfully assigned {key} to {node}")
                continue
            message = f"failed to bind to node {node}: {bind_errors[key]}"
            self.unschedulable(bind.task, pod, "SchedulerError", message)
            self.revert(bind.task, volumes)
        return self.take_effects()

    def revert(self, task: TaskInfo, volumes: bool) -> None:
        self.effects.append({"op": "revert_volumes", "task": task.key, "had_volumes": volumes})
        actions.queue_resync(self.cache, task)

    def evict(self, step: Mapping[str, Any]) -> Result:
        task, reason = self.task(step["task"]), step["reason"]
        job = actions.evict(self.cache, task)
        errors = {step["task"]: step["error"]} if step.get("error") else {}
        self.effects.append(_effect("evict", step["task"], errors, reason=reason))
        if errors:
            actions.queue_resync(self.cache, task)
        if job.pod_group is None:
            error = f"the PodGroup of Job <{job.namespace}/{job.name}> is nil"
            return {**self.take_effects(ordered=False), "error": error}
        self.event("PodGroup", f"{job.namespace}/{job.name}", "Normal", "Evict", go_format(reason))
        return self.take_effects(ordered=False)

    def resync(self, step: Mapping[str, Any]) -> Result:
        for key in list(self.cache.pending_resync):
            task = actions.find_task(self.cache, key)
            pod = self.api.get(task.key) if task is not None else None
            if task is not None and step.get("api_error"):
                continue
            actions.resync(self.cache, key, pod)
            if pod is not None:
                self.note(pod)
        return {}

    def cleanup_jobs(self, step: Mapping[str, Any]) -> Result:
        actions.clean_up_jobs(self.cache)
        return {}

    def sync_nodes(self, step: Mapping[str, Any]) -> Result:
        return {"node_sync_error": True} if actions.sync_nodes(self.cache) else {}

    def api_set(self, step: Mapping[str, Any], pod: Pod) -> Result:
        self.api[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pod
        return {}

    def api_delete(self, step: Mapping[str, Any]) -> Result:
        self.api.pop(step["key"], None)
        return {}

    def assume(self, step: Mapping[str, Any]) -> Result:
        actions.assume(self.cache, self.task(step["task"]), step["node"], int(STATUS_BY_WORD[step["status"]]))
        return {}

    def unassume(self, step: Mapping[str, Any]) -> Result:
        actions.unassume(self.cache, self.task(step["task"]))
        return {}

    def set_status(self, step: Mapping[str, Any]) -> Result:
        actions.set_status(self.cache, self.task(step["task"]), int(STATUS_BY_WORD[step["status"]]))
        return {}

    def node_add_task(self, step: Mapping[str, Any]) -> Result:
        actions.node_put(self.cache, self.node(step["node"]), self.task(step["task"]))
        return {}

    def node_remove_task(self, step: Mapping[str, Any]) -> Result:
        actions.node_take(self.cache, self.node(step["node"]), self.task(step["task"]))
        return {}

    def snapshot(self, step: Mapping[str, Any]) -> Result:
        taken = actions.take_snapshot(self.cache)
        return {
            "snapshot": {
                "nodes": {name: node_json(node) for name, node in taken.nodes.items()},
                "jobs": {key: job_json(job) for key, job in taken.jobs.items()},
                "queues": {name: queue_json(self.cache.queues[name]) for name in taken.queues},
                "namespaces": taken.namespaces,
                "node_list": taken.node_list,
                "revocable_nodes": taken.revocable_nodes,
            }
        }

    # --- conditions -----------------------------------------------------------------------------------------------

    def set_job_fit_errors(self, step: Mapping[str, Any]) -> Result:
        actions.set_job_fit_errors(self.cache, self.job(step["job"]), step["message"])
        return {}

    def set_task_fit_error(self, step: Mapping[str, Any]) -> Result:
        """One node's reasons, as the scheduler words them for one unavailable node."""
        task = self.task(step["task"])
        reasons = ", ".join(f"1 {reason}" for reason in sorted(step["reasons"]))
        message = f"0/1 nodes are unavailable: {reasons}."
        actions.set_task_fit_error(self.cache, self.cache.jobs[task.job], task.uid, message)
        return {}

    def task_unschedulable(self, step: Mapping[str, Any]) -> Result:
        task = self.task(step["task"])
        nominated = step.get("nominated_node", "")
        self.unschedulable(task, self.pod_of(task), step["reason"], step["message"], nominated)
        return self.take_effects()

    def update_job_status(self, step: Mapping[str, Any]) -> Result:
        """UpdateJobStatus and RecordJobStatusEvent."""
        job = self.job(step["job"])
        group = job.pod_group
        key = f"{job.namespace}/{job.name}"
        if group is not None and step["update_pg"]:
            self.effects.append({"op": "update_podgroup", "podgroup": key, "phase": group.status.phase})
        error = fit_error(job)
        if group is not None and group.status.phase in _UNREADY_PHASES:
            pending = len(job.tasks_by_status.get(TaskStatus.PENDING, ()))
            message = f"{pending}/{len(job.tasks)} tasks in gang unschedulable: {error}"
            self.event("PodGroup", key, "Warning", "Unschedulable", go_format(message))
        elif group is not None and step["update_pg"]:
            self.event("PodGroup", key, "Normal", "Scheduled", "pod group is ready")
        for status in (TaskStatus.ALLOCATED, TaskStatus.PENDING, TaskStatus.PIPELINED):
            for _, task in sorted(job.tasks_by_status.get(status, {}).items()):
                if not task.gated:
                    reason, message = scheduling_reason(job, task)
                    self.unschedulable(task, self.pod_of(task), reason, message or job.job_fit_errors or error)
        return self.take_effects(ordered=False)


def _effect(op: str, key: str, errors: Mapping[str, str], **more: Any) -> Result:
    error = {"error": errors[key]} if key in errors else {}
    return {"op": op, "task": key, **more, **error}


def _sort_key(effect: Result) -> str:
    return json.dumps(effect, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def scheduling_reason(job: JobInfo, task: TaskInfo) -> tuple[str, str]:
    """JobInfo.TaskSchedulingReason: the condition's reason, and the message where the task has one of its own."""
    if task.status == TaskStatus.ALLOCATED:
        return "Schedulable", f"Pod {task.key} can possibly be assigned to {task.node_name}"
    if task.status == TaskStatus.PIPELINED:
        message = f"Pod {task.key} can possibly be assigned to {task.node_name}, once resource is released"
        return "Unschedulable", message
    if task.status == TaskStatus.PENDING:
        return "Unschedulable", job.nodes_fit_errors.get(task.uid) or job.job_fit_errors
    return STATUS_WORDS[task.status], job.job_fit_errors


def fit_error(job: JobInfo) -> str:
    """JobInfo.FitError: the tasks counted by status, the pending ones by reason, and the first reason known."""
    counts = {STATUS_WORDS[status]: len(index) for status, index in job.tasks_by_status.items()}
    message = f"pod group is not ready, {_histogram({**counts, 'minAvailable': job.min_available})}"
    reasons: dict[str, int] = {}
    for task in job.tasks_by_status.get(TaskStatus.PENDING, {}).values():
        reason = scheduling_reason(job, task)[0]
        reasons[reason] = reasons.get(reason, 0) + 1
    if reasons:
        message += f"; Pending: {_histogram(reasons)}"
    if job.job_fit_errors:
        return f"{message}. Origin reason is: {job.job_fit_errors}"
    for uid, task in sorted(job.tasks.items()):
        if uid in job.nodes_fit_errors:
            return f"{message}. Origin reason is {task.name}: {job.nodes_fit_errors[uid]}"
    return message


def _histogram(counts: Mapping[str, int]) -> str:
    return ", ".join(sorted(f"{count} {name}" for name, count in counts.items()))


__all__ = ["Harness", "fit_error", "go_format", "scheduling_reason"]
