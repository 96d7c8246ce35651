"""Who could be evicted for whom: by the rules of Volcano's preempt and reclaim actions, pod by pod.

Owns those rules. Must not know what an eviction is for, nor whether the actions are configured. Called by
`projections.diagnosis.combined`, `projections.diagnosis.evicting` and `projections.diagnosis.preemption`. Sources: the
preempt action (victims of the same queue and another job, or of the same job) with the priority plugin's order; the
reclaim action (victims of other, reclaimable queues); the conformance plugin (kube-system and system-critical classes);
the gang plugin (a job keeps its minimum).
"""

from __future__ import annotations

from typing import NamedTuple

from projections.diagnosis.amounts import exceeding_asked
from projections.diagnosis.queues import deserved_shares
from projections.diagnosis.views import ClusterView, Occupant, TaskView
from projections.diagnosis.world import World

SYSTEM_PRIORITY = 2_000_000_000
"""Priority of the class system-cluster-critical; users' own classes end at half of it."""


BY_HAND = "by hand"


class Rights(NamedTuple):
    """Whether the scheduler could evict a pod for another: `how` it would (preempt, reclaim), else by hand; `why` it
    could not."""

    allowed: bool
    how: str
    why: str = ""


def rights(victim: Occupant, task: TaskView, world: World) -> Rights:
    """What the actions say of one pod. Whether they are configured is not looked at."""
    group = world.group
    queue = group.pod_group.spec.queue if group is not None and group.pod_group is not None else ""
    job = group.key if group is not None else ""
    why = _shielded(victim)
    if why:
        return Rights(False, BY_HAND, why)
    if victim.queue == queue:
        return _preempt(victim, task, job, world)
    return _reclaim(victim, queue, world)


def _shielded(victim: Occupant) -> str:
    """What keeps a pod from both actions."""
    if victim.critical:
        return "system-critical (conformance)"
    if not victim.job or not victim.ours:
        return "not of a job that the scheduler looks after"
    if victim.status != "Running":
        return f"{victim.status}, not Running"
    return "" if victim.preemptable else "not preemptable"


def _preempt(victim: Occupant, task: TaskView, job: str, world: World) -> Rights:
    never = task.pod is not None and task.pod.spec.preemption_policy == "Never"
    if never:
        return Rights(False, BY_HAND, "the pod's preemptionPolicy is Never")
    if task.best_effort and not victim.best_effort:
        return Rights(False, BY_HAND, "a best-effort pod preempts only such")
    if victim.job == job:
        if victim.priority < task.priority:
            return Rights(True, "preempt")
        return Rights(False, BY_HAND, f"of the same job, priority {victim.priority} is not below {task.priority}")
    group = world.group
    ours = group.priority if group is not None and group.priority is not None else task.priority
    keepers = world.cluster.rules.keepers
    if "priority" in keepers and victim.job_priority >= ours:
        return Rights(False, BY_HAND, f"its job's priority {victim.job_priority} is not below {ours}")
    return _gang(victim, "preempt") if "gang" in keepers else Rights(True, "preempt")


def _reclaim(victim: Occupant, queue: str, world: World) -> Rights:
    view = world.cluster.queues.get(victim.queue)
    if view is None:
        return Rights(False, BY_HAND, f"its queue {victim.queue} does not exist")
    if view.queue.spec.reclaimable is False:
        return Rights(False, BY_HAND, f"queue {victim.queue} is not reclaimable")
    over, keepers = over_share(world.cluster), world.cluster.rules.reclaim_keepers
    if "proportion" in keepers and victim.queue not in over:
        return Rights(False, BY_HAND, f"queue {victim.queue} holds no more than it deserves")
    if queue in over:
        return Rights(False, BY_HAND, f"queue {queue} itself holds more than it deserves")
    return _gang(victim, "reclaim") if "gang" in keepers else Rights(True, "reclaim")


def over_share(cluster: ClusterView) -> tuple[str, ...]:
    """The queues that hold more of something than the proportion plugin says they deserve."""
    key = "over-share"
    if key not in cluster.memo:
        deserved = deserved_shares(cluster)
        cluster.memo[key] = tuple(
            name
            for name in sorted(deserved)
            if exceeding_asked(cluster.queues[name].allocated, deserved[name], cluster.queues[name].allocated)
        )
    found: tuple[str, ...] = cluster.memo[key]
    return found


def _gang(victim: Occupant, how: str) -> Rights:
    if victim.spare <= 0:
        return Rights(False, BY_HAND, f"its job {victim.job} holds no more than its minimum (gang)")
    return Rights(True, how)
