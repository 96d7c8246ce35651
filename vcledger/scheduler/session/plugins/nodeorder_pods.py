"""nodeorder's scores that look at the pods on all nodes: preferred inter-pod affinity, and topology spread that may be
broken.

Owns these two. Must not know the session. Called by `nodeorder`.

Sources: kube-scheduler's InterPodAffinity (scoring.go) with Volcano's argument of 0 for required terms, and
PodTopologySpread (scoring.go). Spread that the cluster asks for by default (for pods of a Service) is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from projections.diagnosis.podaffinity import selects
from projections.diagnosis.spread import spread_selector
from projections.diagnosis.views import PlacedPod
from volcano.objects.core import Affinity, Node, Pod, PodAffinity, TopologySpreadConstraint, WeightedPodAffinityTerm
from volcano.objects.selectors import matches_labels, node_affinity_matches, untolerated_taints

SCORE_MAX = 100
HOSTNAME = "kubernetes.io/hostname"
ANYWAY = "ScheduleAnyway"

Whole: TypeAlias = NDArray[np.int64]
Nodes: TypeAlias = Sequence[Node | None]


def preferred_pods(affinity: Affinity | None) -> list[tuple[WeightedPodAffinityTerm, int]]:
    """The preferred terms of inter-pod affinity with 1, and of anti-affinity with -1."""
    if affinity is None:
        return []
    return [(term, 1) for term in _preferred(affinity.pod_affinity)] + [
        (term, -1) for term in _preferred(affinity.pod_anti_affinity)
    ]


def _preferred(part: PodAffinity | None) -> Sequence[WeightedPodAffinityTerm]:
    return (part.preferred_during_scheduling_ignored_during_execution or ()) if part is not None else ()


def soft_constraints(pod: Pod) -> list[TopologySpreadConstraint]:
    """The constraints of topology spread that only score."""
    return [one for one in pod.spec.topology_spread_constraints or () if one.when_unsatisfiable == ANYWAY]


# --- preferred inter-pod affinity -----------------------------------------------------------------------------------


def pod_affinity_scores(pod: PlacedPod, placed: Sequence[PlacedPod], everywhere: Nodes, nodes: Nodes) -> Whole:
    """For each of some nodes the weights of the pod's terms that select pods in the node's domains, and of those pods'
    terms that select it, scaled so that the best has 100 and the worst 0. `everywhere` are all nodes."""
    labels = {node.metadata.name: node.metadata.labels or {} for node in everywhere if node is not None}
    sums: dict[tuple[str, str], int] = {}
    own = preferred_pods(pod.affinity)

    def count(term: WeightedPodAffinityTerm, times: int, owner: PlacedPod, other: PlacedPod, node: str) -> None:
        inner = term.pod_affinity_term
        if inner is None or inner.topology_key not in labels.get(node, ()) or not selects(inner, owner, other):
            return
        pair = inner.topology_key, labels[node][inner.topology_key]
        sums[pair] = sums.get(pair, 0) + times * term.weight

    for there in placed:
        for term, times in own:
            count(term, times, pod, there, there.node)
        for term, times in preferred_pods(there.affinity):
            count(term, times, there, pod, there.node)
    found = np.array([_sum(sums, node) for node in nodes], dtype=np.int64)
    if not sums or not len(found):
        return np.zeros(len(found), dtype=np.int64)
    least, most = int(found.min()), int(found.max())
    if most == least:
        return np.zeros(len(found), dtype=np.int64)
    scaled: Whole = (SCORE_MAX * ((found - least) / (most - least))).astype(np.int64)
    return scaled


def _sum(sums: dict[tuple[str, str], int], node: Node | None) -> int:
    labels = (node.metadata.labels or {}) if node is not None else {}
    return sum(amount for (key, value), amount in sums.items() if labels.get(key) == value)


# --- topology spread ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Constraint:
    """One constraint with the pods that it counts, by domain; on hostnames by node."""

    constraint: TopologySpreadConstraint
    counts: dict[str, int] = field(default_factory=dict)
    weight: float = 0.0

    @property
    def key(self) -> str:
        return self.constraint.topology_key

    def score(self, count: int) -> float:
        return count * self.weight + (self.constraint.max_skew - 1)


def spread_scores(pod: Pod, placed: Sequence[PlacedPod], everywhere: Nodes, nodes: Nodes) -> Whole:
    """For each of some nodes how few pods that the constraints count are in its domains, the more domains there are the
    more each counts: 100 for the least crowded. A node that lacks a topology key has 0."""
    soft = [_Constraint(one) for one in soft_constraints(pod)]
    taking_part = [node for node in nodes if _has_keys(node, soft)]
    for one in soft:
        if one.key != HOSTNAME:
            one.counts = {_labels(node)[one.key]: 0 for node in taking_part}
        domains = len(one.counts) if one.key != HOSTNAME else len(taking_part)
        one.weight = log(domains + 2)
    _count(pod, soft, placed, everywhere)
    found = [_spread_score(node, soft) if _has_keys(node, soft) else None for node in nodes]
    scored = [score for score in found if score is not None]
    if not scored:
        return np.zeros(len(nodes), dtype=np.int64)
    least, most = min(scored), max(scored)
    return np.array(
        [
            0 if score is None else SCORE_MAX if most == 0 else SCORE_MAX * (most + least - score) // most
            for score in found
        ],
        dtype=np.int64,
    )


def _spread_score(node: Node | None, soft: Sequence[_Constraint]) -> int:
    labels = _labels(node)
    name = node.metadata.name if node is not None else ""
    parts = (one.score(one.counts.get(name if one.key == HOSTNAME else labels[one.key], 0)) for one in soft)
    return int(np.floor(sum(parts) + 0.5))


def _count(pod: Pod, soft: Sequence[_Constraint], placed: Sequence[PlacedPod], everywhere: Nodes) -> None:
    on: dict[str, list[PlacedPod]] = {}
    for other in placed:
        if other.namespace == pod.metadata.namespace and not other.deleting:
            on.setdefault(other.node, []).append(other)
    selectors = [spread_selector(one.constraint, pod) for one in soft]
    for node in everywhere:
        if node is None or node.metadata.name not in on or not _has_keys(node, soft):
            continue
        name = node.metadata.name
        for one, selector in zip(soft, selectors, strict=True):
            domain = name if one.key == HOSTNAME else _labels(node)[one.key]
            if one.key != HOSTNAME and (domain not in one.counts or not _counts_there(one.constraint, pod, node)):
                continue
            matching = sum(matches_labels(selector, other.labels) for other in on[name])
            one.counts[domain] = one.counts.get(domain, 0) + matching


def _counts_there(constraint: TopologySpreadConstraint, pod: Pod, node: Node) -> bool:
    """nodeAffinityPolicy is Honor by default, nodeTaintsPolicy Ignore."""
    spec, meta = pod.spec, node.metadata
    if constraint.node_affinity_policy != "Ignore" and not node_affinity_matches(
        spec.node_selector, spec.affinity, meta.labels or {}, meta.name
    ):
        return False
    return constraint.node_taints_policy != "Honor" or not untolerated_taints(node.spec.taints, spec.tolerations)


def _has_keys(node: Node | None, soft: Sequence[_Constraint]) -> bool:
    labels = _labels(node)
    return all(one.key in labels for one in soft)


def _labels(node: Node | None) -> dict[str, str]:
    return (node.metadata.labels or {}) if node is not None else {}


__all__ = ["pod_affinity_scores", "preferred_pods", "soft_constraints", "spread_scores"]
