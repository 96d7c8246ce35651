"""What a Volcano Job's policies make of a pod that is evicted in a free replay.

Owns reading the policies and what follows from them: who goes along, who is made again. Must not know the session nor
how events are written. Called by `vcledger.replay.world`.

Source: Volcano's pkg/controllers/job (applyPolicies: a task's policies come before the Job's, the first that names the
event counts; state/running.go and state/restarting.go: what an action kills, and when a restart is one too many). The
event of a pod that a scheduler evicted, or that went with its node, is PodEvicted. Without a policy for it the Job is
synced: the pod is made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vcledger.replay.living import Alive

if TYPE_CHECKING:
    from vcledger.replay.world import World

EVICTED, ANY, SYNC = "PodEvicted", "*", "SyncJob"
TASK = "volcano.sh/task-spec"
RETRIES = 3
"""maxRetry where the Job says none (Volcano's webhook puts it in)."""

ENDS: Mapping[str, str] = {"AbortJob": "Aborted", "TerminateJob": "Terminated", "CompleteJob": "Completed"}
"""Actions after which the Job's pods are not made again, and what the Job is then."""


def action_of(job: Mapping[str, Any], task: str, event: str) -> str:
    """What a Job (JSON object) does about an event of a pod of one of its tasks."""
    spec = job.get("spec") or {}
    own: Mapping[str, Any] = next((one for one in spec.get("tasks") or () if one.get("name") == task), {})
    for policy in (*(own.get("policies") or ()), *(spec.get("policies") or ())):
        events = (policy.get("event"), *(policy.get("events") or ()))
        if event in events or ANY in events:
            return str(policy.get("action") or SYNC)
    return SYNC


def made_again(world: World, pod: Alive, now: int) -> bool:
    """Whether a pod that was taken away is made again; what else its Job's policies do is planned."""
    owner = pod.course.owner
    job = world.jobs.get(owner)
    if owner in world.ended_jobs:
        return False
    if job is None or _restarts(world, owner):
        return True
    task = _task(pod)
    action = action_of(job, task, EVICTED)
    if action == "RestartJob":
        world.restarts[owner] = world.restarts.get(owner, 0) + 1
        if world.restarts[owner] >= ((job.get("spec") or {}).get("maxRetry") or RETRIES):
            _end(world, owner, "Failed", now)
            return False
        _restart(world, _others(world, owner), now)
    elif action == "RestartTask":
        _restart(world, [one for one in _others(world, owner) if _task(one) == task], now)
    elif action in ENDS:
        _end(world, owner, ENDS[action], now)
        return False
    return True


def _task(pod: Alive) -> str:
    return str((pod.obj["metadata"].get("annotations") or {}).get(TASK) or "")


def _others(world: World, owner: str) -> list[Alive]:
    """The Job's pods that are there and have not ended."""
    return [pod for pod in world.pods.values() if pod.course.owner == owner and pod.ended is None]


def _restarts(world: World, owner: str) -> bool:
    """Whether a restart is under way, to which what is evicted meanwhile adds nothing."""
    going = (world.pods[uid] for uid in world.to_restart if uid in world.pods)
    return any(pod.course.owner == owner and pod.ended is None for pod in going)


def _restart(world: World, pods: list[Alive], now: int) -> None:
    for pod in pods:
        world.to_restart[pod.uid] = None
        world.plan(now, "kill", pod.uid)


def _end(world: World, owner: str, phase: str, now: int) -> None:
    """The Job is at its end: its pods go, those that were still to come do not."""
    world.ended_jobs[owner] = phase
    for pod in _others(world, owner):
        world.plan(now, "kill", pod.uid)
    for course in world.courses.values():
        if course.owner == owner and course.uid not in world.came:
            world.close(course, now)


def settled(world: World, pod: Alive, now: int) -> None:
    """A pod is gone: a Job at its end loses its PodGroup with the last of its pods."""
    owner = pod.course.owner
    standing = world.group_at.get(pod.course.group)
    if owner in world.ended_jobs and standing is not None and not _others(world, owner):
        world.plan(now, "drop-group", standing.uid)


__all__ = ["ENDS", "action_of", "made_again", "settled"]
