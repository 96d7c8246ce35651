"""The node table: every predicate for one pod on every node, in the scheduler's order.

Owns the order of the predicates and what they share for one pod. Must not know groups or queues. Called by the verdict
and by the gang's trial.
Order (Volcano allocate, then the predicates plugin): requests against future idle; pod count; unschedulable; node
affinity; taints; host ports; inter-pod affinity; attach limits; volume zone; topology spread; volume binding. Volcano
leaves VolumeRestrictions out; it stands where kube-scheduler has it, before the attach limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from projections.diagnosis import basic
from projections.diagnosis.accessmodes import AccessModes
from projections.diagnosis.amounts import ALWAYS
from projections.diagnosis.attachlimits import AttachLimits
from projections.diagnosis.claims import ClaimProblem, PodClaims, pod_claims
from projections.diagnosis.podaffinity import InterPodAffinity, affinity_terms, anti_affinity_terms
from projections.diagnosis.reasons import VOLUME_FAMILIES, Reason
from projections.diagnosis.spread import TopologySpread, hard_constraints
from projections.diagnosis.views import Amounts, ClusterView, NodeView, PlacedPod, TaskView, attached_inline, host_ports
from projections.diagnosis.volumes import Chosen, VolumeBinding
from volcano.objects.core import Pod

PREDICATES = (
    "readiness", "claims", "resources", "pod-count", "unschedulable", "node-affinity", "taints", "ports",
    "pod-affinity", "pod-anti-affinity", "volume-limits", "volume-zone", "spread", "volumes",
)  # fmt: skip
"""The families of reasons, in the order in which they are asked."""


class Evaluation:
    """One pod against the cluster. `extra` are pods that a trial has placed, `taken` what they use by node, `reserved`
    the volumes that their claims took, `chosen` the claims that they were the first to use."""

    def __init__(
        self,
        task: TaskView,
        pod: Pod,
        cluster: ClusterView,
        extra: Sequence[PlacedPod] = (),
        taken: Mapping[str, Amounts] | None = None,
        reserved: Sequence[str] = (),
        chosen: Mapping[str, Chosen] | None = None,
    ) -> None:
        self.task, self.pod, self.cluster = task, pod, cluster
        self.taken = taken or {}
        self.claims: PodClaims = pod_claims(pod, cluster)
        placed = [one for one in (*cluster.pods, *extra) if one.uid != pod.metadata.uid]
        self.extra_count: dict[str, int] = {}
        for one in extra:
            self.extra_count[one.node] = self.extra_count.get(one.node, 0) + 1
        self.picky = bool(pod.spec.node_selector) or pod.spec.affinity is not None
        self.ports = host_ports(pod)
        self.by_node: dict[str, list[PlacedPod]] = {}
        if self.ports:
            for one in placed:
                if one.host_ports:
                    self.by_node.setdefault(one.node, []).append(one)
        self.affinity = InterPodAffinity(PlacedPod.of(pod), cluster.nodes, placed)
        self.spread = TopologySpread(pod, cluster.schedulable_nodes(), placed)
        self.access = AccessModes(self.claims, cluster, placed) if self.claims.states else None
        self.volumes = VolumeBinding(self.claims, cluster, reserved, chosen) if self.claims.states else None
        own = attached_inline(pod)
        self.limits = AttachLimits(self.claims, cluster, placed, own) if self.claims.states or own else None

    @property
    def problem(self) -> ClaimProblem | None:
        """The claim for which no node can be right, if there is one."""
        return self.claims.problems[0] if self.claims.problems else None

    def on(self, node: NodeView) -> list[Reason]:
        """Every refusal on a node, the one that the scheduler names first coming first. Empty: it fits.

        A claim that is wrong for every node refuses before anything else is looked at (the pre-predicates)."""
        found = basic.readiness(node, self.cluster.ignores_conditions)
        if self.problem is not None:
            found.append(Reason("claims", self.problem.text, self.problem.detail))
        found += basic.resources(self.task.request, self.task.best_effort, node, self.taken.get(node.name))
        found += basic.pod_count(node, self.extra_count.get(node.name, 0))
        found += basic.unschedulable(self.pod, node)
        if self.picky:
            found += basic.node_affinity(self.pod, node)
        found += basic.taints(self.pod, node)
        if self.ports:
            found += basic.ports(self.ports, self.by_node.get(node.name, ()))
        if not self.affinity.idle:
            found += self.affinity.check(node)
        if self.access is not None:
            found += self.access.check()
        if self.limits is not None:
            found += self.limits.check(node)
        if self.volumes is not None:
            found += self.volumes.zone(node)
        if not self.spread.idle:
            found += self.spread.check(node)
        if self.volumes is not None:
            found += self.volumes.check(node)
        return found

    def table(self) -> dict[str, list[Reason]]:
        """The refusals on every node of the cluster, by name in order. Nodes that are alike share one list of them,
        which nobody changes."""
        if not self._by_kind:
            return {node.name: self.on(node) for node in self.cluster.nodes}
        found, known = {}, dict[object, list[Reason]]()
        names = tuple(dict.fromkeys((*ALWAYS, *self.task.request)))
        for node in self.cluster.nodes:
            kind = self._kind(node, names)
            if kind is None:
                found[node.name] = self.on(node)
                continue
            reasons = known.get(kind)
            if reasons is None:
                reasons = known[kind] = self.on(node)
            found[node.name] = reasons
        return found

    @property
    def _by_kind(self) -> bool:
        """Whether nothing counts but what the nodes themselves are and have, so that equal nodes refuse alike."""
        return (
            not self.ports
            and self.affinity.idle
            and self.spread.idle
            and self.access is None
            and self.limits is None
            and self.volumes is None
        )

    def _kind(self, node: NodeView, names: Sequence[str]) -> object | None:
        """What the refusals on a node come from; None for one that is looked at by itself: not ready, full of pods, or
        with something under way on it. `names`: the resources that count."""
        body = node.node
        if body is None or node.releasing or node.pipelined or node.assumed or node.name in self.taken:
            return None
        if basic.readiness(node, self.cluster.ignores_conditions):
            return None
        if node.pods_max is not None and node.pods + self.extra_count.get(node.name, 0) >= node.pods_max:
            return None
        idle, size, spec = node.idle.get, node.allocatable.get, body.spec
        taints = tuple([(one.key, one.value, one.effect) for one in spec.taints]) if spec.taints else ()
        matches = not self.picky or not basic.node_affinity(self.pod, node)
        amounts = [*map(idle, names), *map(size, names)]
        return (*amounts, bool(node.allocatable), spec.unschedulable, taints, matches)


def asked(evaluation: Evaluation) -> tuple[str, ...]:
    """The predicates that the pod is put to, in order; the others let everything through."""
    optional = {
        "claims": bool(evaluation.claims.problems or evaluation.claims.states),
        "node-affinity": evaluation.picky,
        "ports": bool(evaluation.ports),
        "pod-affinity": not evaluation.affinity.idle,
        "pod-anti-affinity": not evaluation.affinity.idle,
        "volume-limits": evaluation.limits is not None,
        "volume-zone": evaluation.volumes is not None,
        "spread": not evaluation.spread.idle,
        "volumes": evaluation.volumes is not None,
    }
    return tuple(name for name in PREDICATES if optional.get(name, True))


def refuses(reasons: Sequence[Reason]) -> bool:
    """Whether the scheduler would pass the node over."""
    return any(reason.scheduler for reason in reasons)


def fits_but_for_volumes(table: Mapping[str, Sequence[Reason]]) -> list[str]:
    """Nodes that only reasons about volumes rule out."""
    lists = {id(found): found for found in table.values()}
    only = {
        key
        for key, found in lists.items()
        if refuses(found) and all(one.family in VOLUME_FAMILIES for one in found if one.scheduler)
    }
    return [name for name, found in table.items() if id(found) in only] if only else []


def table_key(task: TaskView, pod: Pod, cluster: ClusterView) -> object | None:
    """Pods with equal keys have the same table; None for a pod that has its own: where pods on nodes count."""
    if cluster.pods or is_interdependent(pod):
        return None
    spec = pod.spec
    asked = (task.best_effort, tuple(sorted(task.request.items())))
    return ("table", asked, repr(spec.node_selector), repr(spec.affinity), repr(spec.tolerations))


def is_interdependent(pod: Pod) -> bool:
    """Whether placing one pod changes where the next of its kind may go, other than by what it takes: ports, affinity,
    spread or volumes."""
    return looks_at_pods(pod) or uses_volumes(pod)


def looks_at_pods(pod: Pod) -> bool:
    """Whether it matters to the pod which pods are where: ports, affinity or spread."""
    return bool(
        host_ports(pod)
        or affinity_terms(pod.spec.affinity)
        or anti_affinity_terms(pod.spec.affinity)
        or hard_constraints(pod)
    )


def uses_volumes(pod: Pod) -> bool:
    """Whether it has claims, or volumes of its own that a driver attaches."""
    claims = any(one.persistent_volume_claim or one.ephemeral for one in pod.spec.volumes or ())
    return claims or bool(attached_inline(pod))
