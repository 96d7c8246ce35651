"""Topology spread constraints with whenUnsatisfiable DoNotSchedule.

Owns this check. Must not know resources nor volumes. Called by `projections.diagnosis.nodes`.
Source: kube-scheduler's PodTopologySpread (calPreFilterState and Filter): matching pods are counted over the nodes that
have all topology keys and that the inclusion policies admit; skew is this domain's count, with the pod itself when it
matches, less the smallest domain's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from projections.diagnosis import reasons as texts
from projections.diagnosis.reasons import Reason
from projections.diagnosis.views import NodeView, PlacedPod
from volcano.objects.core import Pod, TopologySpreadConstraint
from volcano.objects.meta import LabelSelector, LabelSelectorRequirement
from volcano.objects.selectors import matches_labels, node_affinity_matches, untolerated_taints


def hard_constraints(pod: Pod) -> list[TopologySpreadConstraint]:
    """The constraints that keep a pod from being placed."""
    return [
        one for one in pod.spec.topology_spread_constraints or () if one.when_unsatisfiable in {"", "DoNotSchedule"}
    ]


def spread_selector(constraint: TopologySpreadConstraint, pod: Pod) -> LabelSelector | None:
    """The constraint's selector with matchLabelKeys merged in (keys that the pod lacks are left out)."""
    labels = pod.metadata.labels or {}
    keys = [key for key in constraint.match_label_keys or () if key in labels]
    if constraint.label_selector is None or not keys:
        return constraint.label_selector
    old = constraint.label_selector
    extra = [LabelSelectorRequirement(key=key, operator="In", values=[labels[key]]) for key in keys]
    return LabelSelector(match_labels=old.match_labels, match_expressions=[*(old.match_expressions or ()), *extra])


class TopologySpread:
    """The check for one pod: counted once, asked node by node."""

    def __init__(self, pod: Pod, nodes: Sequence[NodeView], placed: Iterable[PlacedPod]) -> None:
        self.pod = pod
        self.constraints = hard_constraints(pod)
        self.selectors = [spread_selector(one, pod) for one in self.constraints]
        self.counts: list[dict[str, int]] = [{} for _ in self.constraints]
        if self.constraints:
            self._count(nodes, placed)

    def _count(self, nodes: Sequence[NodeView], placed: Iterable[PlacedPod]) -> None:
        by_node: dict[str, list[PlacedPod]] = {}
        for other in placed:
            if other.namespace == self.pod.metadata.namespace and not other.deleting:
                by_node.setdefault(other.node, []).append(other)
        for node in nodes:
            if any(one.topology_key not in node.labels for one in self.constraints):
                continue
            for index, constraint in enumerate(self.constraints):
                if self._included(constraint, node):
                    value = node.labels[constraint.topology_key]
                    found = sum(matches_labels(self.selectors[index], pod.labels) for pod in by_node.get(node.name, ()))
                    self.counts[index][value] = self.counts[index].get(value, 0) + found

    def _included(self, constraint: TopologySpreadConstraint, node: NodeView) -> bool:
        """nodeAffinityPolicy is Honor by default, nodeTaintsPolicy Ignore."""
        if constraint.node_affinity_policy != "Ignore" and not node_affinity_matches(
            self.pod.spec.node_selector, self.pod.spec.affinity, node.labels, node.name
        ):
            return False
        if constraint.node_taints_policy != "Honor" or node.node is None:
            return True
        return not untolerated_taints(node.node.spec.taints, self.pod.spec.tolerations)

    @property
    def idle(self) -> bool:
        """Nothing to check on any node (PreFilter's Skip)."""
        return not self.constraints

    def check(self, node: NodeView) -> list[Reason]:
        """The first constraint that the node breaks."""
        labels = self.pod.metadata.labels or {}
        for index, constraint in enumerate(self.constraints):
            value = node.labels.get(constraint.topology_key)
            if value is None:
                return [Reason("spread", texts.SPREAD_LABEL, f"no label {constraint.topology_key}")]
            own = 1 if matches_labels(self.selectors[index], labels) else 0
            here = self.counts[index].get(value, 0)
            least = self._least(index, constraint)
            if here + own - least > constraint.max_skew:
                detail = (
                    f"{constraint.topology_key}={value} would have {here + own}, the smallest domain has {least}, "
                    f"maxSkew is {constraint.max_skew}"
                )
                return [Reason("spread", texts.SPREAD, detail, final=False)]
        return []

    def _least(self, index: int, constraint: TopologySpreadConstraint) -> int:
        """The smallest domain's count; 0 while there are fewer domains than minDomains."""
        counts = self.counts[index]
        if len(counts) < (constraint.min_domains or 1):
            return 0
        return min(counts.values())
