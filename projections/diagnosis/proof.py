"""Whether a pod or group would run in a changed world: the proof of every change that `why` shows.

Owns the proof, in one place. Must not know how changes are found or told. Called by `projections.diagnosis.changes`;
whoever has a fuller evaluation (a scheduling session) gives it as another `Prover`.

It asks what the verdict asks, of the changed world: the pod's own obstacles, the gates of the queue, the gang's trial.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from projections.diagnosis import quotas
from projections.diagnosis.amounts import add, total
from projections.diagnosis.claims import fully_bound
from projections.diagnosis.gang import VALID, Trial, ready_count, scheduling_order, try_gang
from projections.diagnosis.nodes import Evaluation, refuses
from projections.diagnosis.queues import enqueue_gates, ghost_gate, queue_gate, share_lack
from projections.diagnosis.views import PLANNED_UID, Amounts, TaskView, claim_names
from projections.diagnosis.world import World
from volcano.objects.quotas import Exceeded


@dataclass(frozen=True, slots=True)
class Held:
    """Which rules count: `share` that of the queue's share (where it is what holds the subject, or did not hold it),
    `ghost` that of resources that no node has, `bound` that its claims have to be bound already, `group` that it has to
    be in a group."""

    share: bool = False
    ghost: bool = False
    bound: bool = False
    group: bool = True


Prover: TypeAlias = Callable[[World, Held], bool]


def runs(world: World, held: Held) -> bool:
    """Whether the pod (or the group's minimum) would be placed."""
    return obstacle(world, held) == ""


def obstacle(world: World, held: Held) -> str:
    """The first thing that keeps the subject from running, in the order of the verdicts; '' when nothing does."""
    return _own(world) or _group(world, held) or _queue(world, held) or _placing(world, held)


def _own(world: World) -> str:
    pod = world.task.pod if world.task is not None else None
    if pod is None:
        return ""
    if pod.spec.scheduler_name not in world.schedulers:
        return "scheduler"
    return "gates" if pod.spec.scheduling_gates else ""


def _group(world: World, held: Held) -> str:
    group = world.group
    if group is None or group.pod_group is None:
        return "group" if held.group else ""
    if unmade(world):
        return "quota"
    valid = [task for task in group.tasks if task.status in VALID]
    if len(valid) < group.min_member:
        return "members"
    minimums = group.pod_group.spec.min_task_member or {}
    if group.min_member >= sum(minimums.values()):
        for role, least in minimums.items():
            if sum(1 for task in valid if task.role == role) < least:
                return "members"
    return ""


def unmade(world: World) -> dict[str, list[Exceeded]]:
    """The quotas by which the pods that a job has yet to make would be refused."""
    group = world.group
    count = sum(1 for task in group.tasks if task.uid.startswith(PLANNED_UID)) if group is not None else 0
    if group is None or not count or not world.cluster.quotas:
        return {}
    return quotas.refusing(group, (), min(count, group.min_member or count), world.cluster)


def _queue(world: World, held: Held) -> str:
    group = world.group
    if group is None or group.pod_group is None:
        return ""
    name = group.pod_group.spec.queue
    if queue_gate(name, world.cluster) is not None:
        return "queue"
    if group.pod_group.status.phase in {"", "Pending"}:
        return "enqueue" if enqueue_gates(group, dict(world.asked_min), world.cluster) else ""
    if held.share and over_its_share(world, held.ghost):
        return "share"
    return "ghost" if held.ghost and ghost_gate(name, world.cluster) is not None else ""


def over_its_share(world: World, ghost: bool) -> Amounts:
    """What the queue would hold above its share with what has to be placed; nothing where it would not."""
    group = world.group
    if group is None or group.pod_group is None:
        return {}
    request = total(asked_of(task, ghost) for task in up_to(world))
    return share_lack(group.pod_group.spec.queue, request, world.cluster)


def up_to(world: World) -> list[TaskView]:
    """The pod asked about, and those of its mates that have to have their place with it or before it, as they take of
    the queue's share too; of a group as many as it lacks."""
    task, group = world.task, world.group
    if group is None:
        return [task] if task is not None else []
    order = scheduling_order([one for one in group.tasks if waits_for_a_node(one)])
    needed = max(0, group.min_member - ready_count(group))
    if task is None:
        return order[:needed]
    place = next((index for index, one in enumerate(order) if one.uid == task.uid), None)
    if place is None:  # what asks for nothing takes of no share: backfill asks no queue
        return order[:needed] if task.best_effort else [task]
    return order[: max(place + 1, needed)]


def waits_for_a_node(task: TaskView) -> bool:
    """Whether the allocate action tries a task."""
    return task.status == "Pending" and not task.gated and not task.best_effort


def asked_of(task: TaskView | None, ghost: bool) -> Amounts:
    """What the queue's share is compared with: attachments that no CSINode reports count only where they may have."""
    if task is None:
        return {}
    return add(task.request, task.unreported) if ghost else task.request


def _placing(world: World, held: Held) -> str:
    trial, task = trial_of(world), world.task
    if trial is not None and trial.short:
        return "gang"
    if task is not None and (trial is None or task.best_effort):
        if not fits_somewhere(world, task):
            return "nodes"
    elif task is not None and trial is not None and task.uid not in trial.placed:
        return "nodes"
    if held.bound and task is not None and not claims_bound(world, task):
        return "volumes"
    return ""


def trial_of(world: World, *, tables: bool = False) -> Trial | None:
    """The trial of the world's group; None without one."""
    group = world.group
    if group is None or group.pod_group is None or not group.tasks:
        return None
    return try_gang(group, world.cluster, tables=tables)


def fits_somewhere(world: World, task: TaskView) -> bool:
    """Whether some node takes the pod alone."""
    if task.pod is None:
        return False
    evaluation = Evaluation(task, task.pod, world.cluster)
    return any(not refuses(evaluation.on(node)) for node in world.cluster.schedulable_nodes())


def claims_bound(world: World, task: TaskView) -> bool:
    """Whether every claim of the pod has its volume."""
    names = claim_names(task.pod) if task.pod is not None else []
    found = [world.cluster.claims.get(f"{task.namespace}/{name}") for name, _ in names]
    return all(claim is not None and fully_bound(claim) for claim in found)
