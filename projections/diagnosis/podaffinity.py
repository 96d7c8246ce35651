"""Inter-pod affinity and anti-affinity, of the pod itself and of the pods that are there already.

Owns this check. Must not know resources nor volumes. Called by `projections.diagnosis.nodes`.
Source: kube-scheduler's InterPodAffinity (PreFilter counts by topology, Filter in the order affinity, anti-affinity,
existing pods' anti-affinity).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from projections.diagnosis import reasons as texts
from projections.diagnosis.reasons import Reason
from projections.diagnosis.views import NodeView, PlacedPod
from volcano.objects.core import Affinity, PodAffinity, PodAffinityTerm
from volcano.objects.meta import LabelSelector, LabelSelectorRequirement
from volcano.objects.selectors import matches_labels

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label that every namespace has."""


def affinity_terms(affinity: Affinity | None) -> Sequence[PodAffinityTerm]:
    """The required affinity terms."""
    return _terms(affinity.pod_affinity) if affinity is not None else ()


def anti_affinity_terms(affinity: Affinity | None) -> Sequence[PodAffinityTerm]:
    """The required anti-affinity terms."""
    return _terms(affinity.pod_anti_affinity) if affinity is not None else ()


def _terms(part: PodAffinity | None) -> Sequence[PodAffinityTerm]:
    return (part.required_during_scheduling_ignored_during_execution or ()) if part is not None else ()


def with_label_keys(term: PodAffinityTerm, labels: Mapping[str, str]) -> LabelSelector | None:
    """The term's selector with matchLabelKeys and mismatchLabelKeys merged in. The API server does so itself when the
    pod is made, so adding them again changes nothing."""
    if term.label_selector is None or not (term.match_label_keys or term.mismatch_label_keys):
        return term.label_selector
    extra = [
        LabelSelectorRequirement(key=key, operator=operator, values=[labels[key]])
        for operator, keys in (("In", term.match_label_keys), ("NotIn", term.mismatch_label_keys))
        for key in keys or ()
        if key in labels
    ]
    old = term.label_selector
    return LabelSelector(match_labels=old.match_labels, match_expressions=[*(old.match_expressions or ()), *extra])


def selects(term: PodAffinityTerm, owner: PlacedPod, other: PlacedPod) -> bool:
    """Whether a term of `owner` selects `other`. Without namespaces and namespaceSelector it speaks of the owner's."""
    namespaces, selector = term.namespaces or (), term.namespace_selector
    default = () if namespaces or selector is not None else (owner.namespace,)
    if other.namespace not in (*namespaces, *default) and not _selects_namespace(selector, other.namespace):
        return False
    return matches_labels(with_label_keys(term, owner.labels), other.labels)


def _selects_namespace(selector: LabelSelector | None, namespace: str) -> bool:
    """Whether a namespaceSelector selects a namespace; an empty one selects all. The labels of namespaces are not in
    the log but for the one that the API server gives to each, its name: a selector that asks for any other selects
    none."""
    if selector is None:
        return False
    asked = [*(selector.match_labels or {}), *(one.key for one in selector.match_expressions or ())]
    return all(key == NAMESPACE_NAME for key in asked) and matches_labels(selector, {NAMESPACE_NAME: namespace})


def repelling(
    pod: PlacedPod, node: NodeView, nodes: Mapping[str, NodeView], placed: Iterable[PlacedPod]
) -> list[PlacedPod]:
    """The pods that keep a pod off a node: those that its own anti-affinity terms select there, and those whose terms
    select it. `nodes` by name; a term's topology may be wider than the node."""
    own = anti_affinity_terms(pod.affinity)
    found = []
    for other in placed:
        there = nodes.get(other.node)
        if there is None or other.uid == pod.uid:
            continue
        terms = [term for term in own if selects(term, pod, other)]
        terms += [term for term in anti_affinity_terms(other.affinity) if selects(term, other, pod)]
        if any(_same_place(term.topology_key, node, there) for term in terms):
            found.append(other)
    return found


def _same_place(key: str, node: NodeView, other: NodeView) -> bool:
    return key in node.labels and node.labels[key] == other.labels.get(key)


class InterPodAffinity:
    """The check for one pod: counted once over all pods, asked node by node."""

    def __init__(self, pod: PlacedPod, nodes: Sequence[NodeView], placed: Iterable[PlacedPod]) -> None:
        self.pod = pod
        self.affinity = affinity_terms(pod.affinity)
        self.anti_affinity = anti_affinity_terms(pod.affinity)
        self.matching: dict[tuple[str, str], int] = {}
        self.repelling: list[dict[str, str]] = [{} for _ in self.anti_affinity]
        self.existing: dict[tuple[str, str], str] = {}
        own = bool(self.affinity or self.anti_affinity)
        counted = [other for other in placed if own or (other.affinity and other.affinity.pod_anti_affinity)]
        labels = {node.name: node.labels for node in nodes} if counted else {}
        for other in counted:
            if other.node in labels:
                self._count(other, labels[other.node])
        self.existing_keys = tuple(dict.fromkeys(key for key, _ in self.existing))

    def _count(self, other: PlacedPod, labels: Mapping[str, str]) -> None:
        if self.affinity and all(selects(term, self.pod, other) for term in self.affinity):
            for term in self.affinity:
                if term.topology_key in labels:
                    key = (term.topology_key, labels[term.topology_key])
                    self.matching[key] = self.matching.get(key, 0) + 1
        for index, term in enumerate(self.anti_affinity):
            if term.topology_key in labels and selects(term, self.pod, other):
                self.repelling[index].setdefault(labels[term.topology_key], f"{other.namespace}/{other.name}")
        for term in anti_affinity_terms(other.affinity):
            if term.topology_key in labels and selects(term, other, self.pod):
                self.existing.setdefault(
                    (term.topology_key, labels[term.topology_key]), f"{other.namespace}/{other.name}"
                )

    @property
    def idle(self) -> bool:
        """Nothing to check on any node (PreFilter's Skip)."""
        return not self.affinity and not self.anti_affinity and not self.existing

    def check(self, node: NodeView) -> list[Reason]:
        """At most one reason, as the scheduler stops at the first of its three parts."""
        return self._affinity(node) or self._anti_affinity(node) or self._existing(node)

    def _affinity(self, node: NodeView) -> list[Reason]:
        missing = []
        for term in self.affinity:
            if term.topology_key not in node.labels:
                missing.append(f"the node has no label {term.topology_key}")
            elif not self.matching.get((term.topology_key, node.labels[term.topology_key])):
                missing.append(f"no matching pod where {term.topology_key} is {node.labels[term.topology_key]}")
        if not missing:
            return []
        if self._first_of_its_kind() and all(term.topology_key in node.labels for term in self.affinity):
            return []
        return [Reason("pod-affinity", texts.POD_AFFINITY, "; ".join(missing))]

    def _first_of_its_kind(self) -> bool:
        """A pod that its own affinity selects may be the first of a group, when no pod matches anywhere."""
        return not self.matching and all(selects(term, self.pod, self.pod) for term in self.affinity)

    def _anti_affinity(self, node: NodeView) -> list[Reason]:
        for index, term in enumerate(self.anti_affinity):
            value = node.labels.get(term.topology_key)
            if value is not None and value in self.repelling[index]:
                other = self.repelling[index][value]
                detail = f"{other} is where {term.topology_key} is {value}"
                return [Reason("pod-anti-affinity", texts.POD_ANTI_AFFINITY, detail, final=False)]
        return []

    def _existing(self, node: NodeView) -> list[Reason]:
        labels = node.labels
        for key in self.existing_keys:
            value = labels.get(key)
            other = self.existing.get((key, value)) if value is not None else None
            if other is not None:
                return [
                    Reason(
                        "pod-anti-affinity",
                        texts.EXISTING_ANTI_AFFINITY,
                        f"{other} keeps pods like this one away where {key} is {value}",
                        final=False,
                    )
                ]
        return []
