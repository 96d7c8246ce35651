"""Predicates that look at one node alone: in the snapshot, requests against idle, pod count, unschedulable, node
affinity, taints, host ports.

Owns these checks. Must not know other pods' affinities nor volumes. Called by `projections.diagnosis.nodes`.
Sources: allocate's predicate (Resource.LessEqualWithResourcesName over FutureIdle), the predicates plugin's pod count,
and kube-scheduler's NodeUnschedulable, NodeAffinity, TaintToleration and NodePorts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from projections.diagnosis import reasons as texts
from projections.diagnosis.amounts import counted, exceeding, show
from projections.diagnosis.reasons import Reason
from projections.diagnosis.views import Amounts, HostPort, NodeView, PlacedPod
from volcano.objects.core import Pod, Taint, Toleration
from volcano.objects.selectors import (
    describe_required,
    describe_taint,
    node_affinity_matches,
    tolerates,
    untolerated_taints,
)

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""A pod that tolerates this taint may go to an unschedulable node."""

EVERY_ADDRESS = "0.0.0.0"


def readiness(node: NodeView, ignores_conditions: bool) -> list[Reason]:
    """Whether the scheduler's snapshot has the node, and its Ready condition. Volcano from 1.11 on does not go by the
    condition (vectors 035 to 038), so there it is only shown."""
    if not node.schedulable:
        detail = f"the cache holds it as NotReady ({node.phase_reason})" if node.phase_reason else "NotReady"
        text = texts.NOT_READY if node.node is not None else texts.NOT_IN_SNAPSHOT
        return [Reason("readiness", text, detail)]
    if node.node is None:
        return []
    for condition in node.node.status.conditions or ():
        if condition.type == "Ready" and condition.status != "True":
            detail = f"condition Ready is {condition.status}" + (f" ({condition.reason})" if condition.reason else "")
            return [Reason("readiness", texts.NOT_READY, detail, scheduler=not ignores_conditions)]
    return []


def resources(request: Amounts, best_effort: bool, node: NodeView, taken: Amounts | None = None) -> list[Reason]:
    """Requests against what is idle or being released. The scheduler names the first resource that is short; each has
    its own numbers here. A pod that asks for nothing is not checked (backfill). `taken` is what a trial has already
    put there."""
    if best_effort:
        return []
    available = node.future_idle
    if taken:
        available = {name: amount - taken.get(name, 0.0) for name, amount in available.items()}
        available.update({name: -amount for name, amount in taken.items() if name not in available})
    short = exceeding(request, available)
    if not short:
        return []
    return [
        Reason("resources", f"Insufficient {name}", _numbers(name, request, available, node), scheduler=index == 0)
        for index, name in enumerate(short)
    ]


def _numbers(name: str, request: Mapping[str, float], available: Mapping[str, float], node: NodeView) -> str:
    """`asks 6, idle 2 (of 8)`, with what is being released where that counts."""
    asked, idle = request.get(name, 0.0), available.get(name, 0.0)
    parts = [f"asks {show(name, asked)}, idle {show(name, idle)}"]
    if node.allocatable:
        parts.append(f"(of {show(name, node.allocatable.get(name, 0.0))})")
    if node.assumed:
        parts.append(f"with {counted(node.assumed, 'pod')} assumed there while a volume is made")
    if node.releasing.get(name):
        parts.append(f"with {show(name, node.releasing[name])} being released counted in")
    return " ".join(parts)


def pod_count(node: NodeView, extra: int = 0) -> list[Reason]:
    """The node's limit on the number of pods."""
    if node.pods_max is None or node.pods + extra < node.pods_max:
        return []
    return [Reason("pod-count", texts.POD_NUMBER, f"{node.pods + extra} of {node.pods_max} pods", final=False)]


def unschedulable(pod: Pod, node: NodeView) -> list[Reason]:
    """A cordoned node, unless the pod tolerates the taint of that name."""
    if node.node is None or not node.node.spec.unschedulable:
        return []
    if any(tolerates(one, UNSCHEDULABLE_TAINT) for one in pod.spec.tolerations or ()):
        return []
    return [Reason("unschedulable", texts.UNSCHEDULABLE, "cordoned (spec.unschedulable)")]


def node_affinity(pod: Pod, node: NodeView) -> list[Reason]:
    """nodeSelector and required node affinity."""
    if node_affinity_matches(pod.spec.node_selector, pod.spec.affinity, node.labels, node.name):
        return []
    asked = describe_required(pod.spec.node_selector, pod.spec.affinity)
    return [Reason("node-affinity", texts.NODE_AFFINITY, f"asks {asked}")]


def taints(pod: Pod, node: NodeView) -> list[Reason]:
    """NoSchedule and NoExecute taints that the pod does not tolerate."""
    if node.node is None or not node.node.spec.taints:
        return []
    missing = untolerated_taints(node.node.spec.taints, _tolerations(pod))
    if not missing:
        return []
    return [Reason("taints", texts.TAINTS, ", ".join(describe_taint(taint) for taint in missing))]


def _tolerations(pod: Pod) -> Sequence[Toleration]:
    return pod.spec.tolerations or ()


def ports_conflict(wanted: HostPort, used: HostPort) -> bool:
    """Whether two host ports collide: same protocol and port, and addresses that overlap."""
    if wanted.protocol != used.protocol or wanted.port != used.port:
        return False
    left, right = wanted.ip or EVERY_ADDRESS, used.ip or EVERY_ADDRESS
    return EVERY_ADDRESS in {left, right} or left == right


def ports(wanted: Sequence[HostPort], on_node: Sequence[PlacedPod]) -> list[Reason]:
    """Host ports that a pod on the node already has."""
    taken = [
        f"{port.protocol} {port.port} is taken by {pod.namespace}/{pod.name}"
        for port in wanted
        for pod in on_node
        if any(ports_conflict(port, used) for used in pod.host_ports)
    ]
    return [Reason("ports", texts.PORTS, "; ".join(taken), final=False)] if taken else []
