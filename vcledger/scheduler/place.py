"""Where a task may go: the predicates on the flow's state, and what its claims would take there.

Owns the adapter from the flow to `projections.diagnosis`, whose predicates and matching are the ones used, and the plan
of a placement. Must not know gangs. Called by `vcledger.scheduler.allocate` and `.decide`.

Volumes and claims are seen as assumed, nodes by what is idle now: what is being released is not given away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from projections.cache.state import NodeInfo, PodRef
from projections.diagnosis.claims import class_name
from projections.diagnosis.nodes import Evaluation, looks_at_pods, refuses, uses_volumes
from projections.diagnosis.reasons import VOLUME_BIND, Reason
from projections.diagnosis.views import ClusterView, NodeView, PlacedPod, TaskView
from projections.diagnosis.volumes import Chosen, VolumeBinding
from vcledger.scheduler.bodies import condition_patch
from vcledger.scheduler.decision import Hand
from vcledger.scheduler.fold_binding import condition_is_news
from vcledger.scheduler.requests import Patch
from vcledger.scheduler.state import Flow, HeldView
from vcledger.why_views import lone_task, reported_attachments, task_view
from volcano.events.base import Subject, TaskRef
from volcano.events.scheduling import FitErrors, TaskAllocated, TaskUnschedulable
from volcano.events.volume import Provision, SharedClaim, StaticBinding, VolumesAssumed
from volcano.objects.core import Pod


class Plan(NamedTuple):
    """A task on a node, with what its claims take there. `refused`: why it can't be."""

    task: TaskView
    node: str
    node_uid: str
    bindings: tuple[StaticBinding, ...] = ()
    provisions: tuple[Provision, ...] = ()
    shared: tuple[SharedClaim, ...] = ()
    claims: bool = False
    refused: tuple[Reason, ...] = ()


def idle_view(flow: Flow, name: str) -> NodeView:
    """A node by what is idle now; the same view as long as nothing of it has changed."""
    info = flow.cache.nodes[name]
    idle, allocatable = info.idle, info.allocatable
    held = flow.views.get(name)
    if (
        held is not None
        and held.node is info.node
        and held.allocatable is allocatable
        and (held.cpu, held.memory, held.pods) == (idle.milli_cpu, idle.memory, len(info.tasks))
        and held.scalars == idle.scalars
        and (held.view.position, held.view.phase_reason, held.view.schedulable)
        == (info.position, info.reason, info.ready)
    ):
        return held.view
    view = _idle_view(info)
    scalars = dict(idle.scalars) if idle.scalars is not None else None
    flow.views[name] = HeldView(view, info.node, allocatable, idle.milli_cpu, idle.memory, scalars, len(info.tasks))
    return view


def _idle_view(info: NodeInfo) -> NodeView:
    idle, allocatable = info.idle, info.allocatable
    return NodeView(
        name=info.name,
        node=info.node,
        allocatable={"cpu": allocatable.milli_cpu, "memory": allocatable.memory, **(allocatable.scalars or {})},
        idle={"cpu": idle.milli_cpu, "memory": idle.memory, **(idle.scalars or {})},
        pods=len(info.tasks),
        pods_max=allocatable.max_task_num or None,
        schedulable=info.ready,
        phase_reason=info.reason,
        position=info.position,
    )


def cluster_of(flow: Flow, pods: Iterable[Pod], nodes: Iterable[str] | None = None) -> ClusterView:
    """The cluster as far as these pods' predicates need it; `nodes`: only those."""
    cache = flow.cache
    names = sorted(cache.nodes) if nodes is None else list(nodes)
    return ClusterView(
        nodes=[idle_view(flow, name) for name in names],
        pods=placed_pods(flow, list(pods)),
        claims=flow.claims.latest,
        volumes=flow.volumes.latest,
        classes=cache.storage_classes,
        csi_nodes=cache.csi_nodes,
        capacities=cache.storage_capacities,
        queue_objects=cache.queues,
    )


def placed_pods(flow: Flow, asking: list[Pod]) -> list[PlacedPod]:
    """The pods on nodes, those on their way included, when one of ours looks at others, or at what volumes they have
    where nodes take only so many; else only those whose own anti-affinity concerns everybody."""
    placed, coming = flow.placed, flow.coming
    limited = bool(flow.cache.csi_nodes)
    if any(looks_at_pods(pod) or (limited and uses_volumes(pod)) for pod in asking):
        return [*placed.values(), *(one for key, one in coming.items() if key not in placed)]
    found = (placed.get(key) or coming.get(key) for key in flow.guarded)
    return [one for one in found if one is not None]


def view_of(flow: Flow, ref: PodRef, pod: Pod, reported: frozenset[str]) -> TaskView:
    """A pod as the predicates look at it: its job's task, or itself when it has no job."""
    job = flow.cache.jobs.get(ref.job) if ref.job else None
    task = job.tasks.get(ref.uid) if job is not None else None
    return lone_task(ref, pod) if task is None else task_view(task, pod, ref.position, reported)


def reported(flow: Flow) -> frozenset[str]:
    """The attach limits that some node has."""
    return reported_attachments(flow.cache) if flow.cache.csi_nodes else frozenset()


# --- planning -----------------------------------------------------------------------------------------------------


def plan_on(flow: Flow, evaluation: Evaluation, node: NodeView) -> Plan:
    """The task of an evaluation on a node."""
    found = evaluation.on(node)
    if refuses(found):
        return Plan(evaluation.task, node.name, _uid(node), refused=tuple(found))
    return claims_on(flow, evaluation.task, evaluation.volumes, node)


def _uid(node: NodeView) -> str:
    return node.node.metadata.uid if node.node is not None else ""


def claims_on(flow: Flow, task: TaskView, volumes: VolumeBinding | None, node: NodeView) -> Plan:
    """What the claims of a task take on a node that nothing else refuses. A claim that another task, in this decision
    or in flight, is about to have bound is waited for with it."""
    plan = Plan(task, node.name, _uid(node), claims=volumes is not None)
    bindings: list[StaticBinding] = []
    provisions: list[Provision] = []
    shared: list[SharedClaim] = []
    for state, candidate in volumes.plan(node) if volumes is not None else ():
        volume = candidate.volume.metadata if candidate is not None else None
        uid = state.claim.metadata.uid
        other = volumes.chosen.get(state.key) if volumes is not None else None
        other = other or _held_by_other(flow, task.uid, state.key, volume.name if volume else "")
        if other is not None:
            if not other.suits(node):
                detail = f"claim {state.name} is on its way for node {other.node}"
                return plan._replace(refused=(Reason("volumes", VOLUME_BIND, detail),))
            name = other.volume.metadata.name if other.volume is not None else ""
            shared.append(SharedClaim(claim=state.key, claim_uid=uid, volume=name))
        elif volume is not None:
            bindings.append(StaticBinding(volume=volume.name, claim=state.key, volume_uid=volume.uid, claim_uid=uid))
        else:
            provisions.append(
                Provision(
                    claim=state.key,
                    claim_uid=uid,
                    storage_class=class_name(state.claim),
                    provisioner=state.provisioner,
                )
            )
    return plan._replace(bindings=tuple(bindings), provisions=tuple(provisions), shared=tuple(shared))


def _held_by_other(flow: Flow, uid: str, claim: str, volume: str) -> Chosen | None:
    """What another pod's binding of the same claim, under way, has chosen; None when there is none."""
    made = flow.claims.assumed.get(claim)
    if made is not None and made.uid != uid:
        return Chosen(made.node)
    held = flow.volumes.assumed.get(volume)
    return Chosen(held.node, held.object) if held is not None and held.uid != uid else None


def plan_for(flow: Flow, key: str, node: str) -> Plan | None:
    """A pod (namespace/name) on one node; None when there is no such pod waiting, or no such node."""
    ref, pod = flow.cache.pods.get(key), flow.pods.get(key)
    if ref is None or pod is None or node not in flow.cache.nodes:
        return None
    cluster = cluster_of(flow, [pod], [node])
    evaluation = Evaluation(view_of(flow, ref, pod, reported(flow)), pod, cluster)
    return plan_on(flow, evaluation, cluster.nodes[0])


def plan_anywhere(flow: Flow, key: str) -> tuple[Plan | None, dict[str, list[Reason]]]:
    """A pod on the node that has the most of it idle, and the refusals of all others."""
    ref, pod = flow.cache.pods.get(key), flow.pods.get(key)
    if ref is None or pod is None:
        return None, {}
    cluster = cluster_of(flow, [pod])
    evaluation = Evaluation(view_of(flow, ref, pod, reported(flow)), pod, cluster)
    table: dict[str, list[Reason]] = {}
    for node in sorted(cluster.nodes, key=lambda one: (-one.idle.get("cpu", 0.0), one.name)):
        plan = plan_on(flow, evaluation, node)
        if not plan.refused:
            return plan, table
        table[node.name] = list(plan.refused)
    return None, table


# --- writing ------------------------------------------------------------------------------------------------------


def subject_of(task: TaskView) -> Subject:
    """The stream of the task's pod."""
    return Subject("Pod", task.namespace, task.name, task.uid)


def allocate(
    hand: Hand, plan: Plan, job: str, cause: int | None, *, ready: int = 0, needed: int = 0, score: float | None = None
) -> int:
    """The task gets its node, and its volumes are assumed; the position of the last event."""
    event = TaskAllocated(
        job=job,
        node=plan.node,
        node_uid=plan.node_uid,
        request=plan.task.request,
        score=score,
        gang_ready=ready,
        gang_needed=needed,
    )
    position = hand.add(subject_of(plan.task), event, cause=cause)
    if plan.claims:
        assumed = VolumesAssumed(
            node=plan.node,
            bindings=plan.bindings,
            provisions=plan.provisions,
            shared=plan.shared,
            all_bound=not (plan.bindings or plan.provisions or plan.shared),
        )
        position = hand.add(subject_of(plan.task), assumed, cause=position)
    return position


UNSCHEDULABLE, SCHEDULABLE = "Unschedulable", "Schedulable"
"""Reasons of a PodScheduled condition that is False: no node will do, or one would if the gang had them all."""


def unschedulable(
    hand: Hand, task: TaskView, job: str, message: str, table: Mapping[str, Iterable[Reason]],
    reason: str = UNSCHEDULABLE,
) -> None:  # fmt: skip
    """The task got no node: written when that is news, and into the pod's condition unless it says so already
    (taskUnschedulable)."""
    flow = hand.flow
    tell = condition_is_news(flow, task.uid, task.key, reason, message, hand.now)
    if flow.said.get(task.uid) == message and not tell:
        return
    groups: dict[tuple[str, ...], list[str]] = {}
    for node, reasons in table.items():
        groups.setdefault(tuple(one.line for one in reasons if one.scheduler), []).append(node)
    event = TaskUnschedulable(
        job=job,
        reason=reason,
        message=message,
        fit_errors=tuple(FitErrors(reasons=texts, nodes=tuple(names)) for texts, names in groups.items()),
        nodes_total=len(table),
    )
    position = hand.add(subject_of(task), event, cause=task.position or None)
    if tell:
        ref = TaskRef(namespace=task.namespace, name=task.name, uid=task.uid)
        hand.tell(ref, position, "FailedScheduling", message, warning=True)
        body = condition_patch(flow.pods[task.key], "False", reason, message, hand.now)
        hand.effect(position, Patch("Pod", task.namespace, task.name, body, "status"))


__all__ = [
    "SCHEDULABLE",
    "UNSCHEDULABLE",
    "Plan",
    "allocate",
    "claims_on",
    "cluster_of",
    "idle_view",
    "plan_anywhere",
    "plan_for",
    "plan_on",
    "reported",
    "unschedulable",
    "view_of",
]
