"""Binds of a free replay that take their time, as they did in the record: pods that have a node and are not bound yet.

Owns how long a bind takes, and what the cache knows meanwhile. Must not know the session nor how events are written.
Called by `vcledger.replay.world` and `free`.

A bind takes as long as it failed in the record, and as the pod's claims took to get their volumes there, counted from
the moment at which a node was named for them. Meanwhile the pod is pending and its node charged, as by Volcano's
AddBindTask; most binds take no time that is worth telling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.cache.actions import ActionRefused, add_bind_task, resync, take_binds
from vcledger.replay.living import Alive

if TYPE_CHECKING:
    from vcledger.replay.world import World


def span(world: World, pod: Alive) -> int | None:
    """How long the bind of a pod takes that begins now, in microseconds; None: it never goes through."""
    course = pod.course
    if course.provision == 0:
        return course.failing
    ref = world.cache.pods.get(pod.key)
    claims = [world.cache.claims.get(f"{ref.namespace}/{name.lstrip('=')}") for name in ref.claims] if ref else []
    if all(claim is not None and claim.status.phase == "Bound" for claim in claims):
        return course.failing
    if course.provision is None or course.failing is None:
        return None
    return max(course.provision, course.failing)


def begin(world: World, pod: Alive, node: str, now: int) -> None:
    """A pod has been given a node. Where its bind takes time, the node is charged now, and it is bound later."""
    if pod.placed is not None or pod.binding or (pod.course.provision == 0 and pod.course.failing == 0):
        return
    takes = span(world, pod)
    job = world.cache.jobs.get(pod.course.group)
    task = job.tasks.get(pod.uid) if job is not None else None
    if takes == 0 or task is None:
        return
    try:
        add_bind_task(world.cache, task, node)
    except ActionRefused:
        return
    take_binds(world.cache)
    pod.binding = node
    world.binding[pod.uid] = pod
    world.unplaced.pop(pod.uid, None)
    world.touch("Pod", pod.course.namespace, pod.course.name)
    world.changed_jobs[pod.course.group] = None
    if takes is not None:
        pod.bound_at = now + takes
        world.plan(pod.bound_at, "bind", pod.uid)


def over(world: World, pod: Alive) -> None:
    """The bind is over: the pod has its node, or it is gone."""
    world.binding.pop(pod.uid, None)
    pod.binding, pod.bound_at = "", None


def lost(world: World, node: str) -> None:
    """A node is gone: who was to be bound there waits again, as after Volcano's resync of a failed bind."""
    for pod in [pod for pod in world.binding.values() if pod.binding == node]:
        over(world, pod)
        ref = world.cache.pods.get(pod.key)
        job = world.cache.jobs.get(pod.course.group)
        if ref is not None and job is not None and pod.uid in job.tasks:
            resync(world.cache, f"{job.uid}/{pod.uid}", world.pod_of(ref))
        world.unplaced[pod.uid] = None
        world.touch("Pod", pod.course.namespace, pod.course.name)


__all__ = ["begin", "lost", "over", "span"]
