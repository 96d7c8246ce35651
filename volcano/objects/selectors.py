"""Label selectors, node selectors, taints and tolerations, with Kubernetes' exact semantics.

Owns the matching rules. Must not know nodes' resources, the cache nor the log. Called by `projections.diagnosis` and by
the deciders. Sources: meta/v1 LabelSelectorAsSelector, component-helpers' nodeaffinity and corev1 helpers of
Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from volcano.objects.core import Affinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration
from volcano.objects.meta import LabelSelector
from volcano.objects.scheduling import TopologySelectorTerm

NO_SCHEDULE_EFFECTS = ("NoSchedule", "NoExecute")
"""Effects that keep a pod from being placed; PreferNoSchedule only lowers the score."""


def matches_labels(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether `labels` satisfy a meta/v1 LabelSelector. None selects nothing, an empty selector everything.

    A requirement that the API server would refuse (unknown operator, In without values) matches nothing."""
    if selector is None:
        return False
    for key, value in (selector.match_labels or {}).items():
        if labels.get(key) != value:
            return False
    return all(
        _requirement_holds(requirement.operator, requirement.key, requirement.values or (), labels)
        for requirement in selector.match_expressions or ()
    )


def _requirement_holds(operator: str, key: str, values: Sequence[str], labels: Mapping[str, str]) -> bool:
    """One requirement of a label or node selector. NotIn also holds where the key is missing."""
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return bool(values) and (key not in labels or labels[key] not in values)
    if operator == "Exists":
        return not values and key in labels
    if operator == "DoesNotExist":
        return not values and key not in labels
    if operator in {"Gt", "Lt"}:
        return _compares(operator, key, values, labels)
    return False


def _compares(operator: str, key: str, values: Sequence[str], labels: Mapping[str, str]) -> bool:
    """Gt and Lt compare whole numbers of 64 bits; anything else on either side matches nothing."""
    if key not in labels or len(values) != 1:
        return False
    left, right = _int64(labels[key]), _int64(values[0])
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right


def _int64(text: str) -> int | None:
    """strconv.ParseInt(text, 10, 64): a sign and ASCII digits only."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not digits or not digits.isascii() or not digits.isdigit():
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def node_selector_term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node matches one term; a term without any requirement matches nothing. The only field is metadata.name,
    with In or NotIn and one value."""
    if not term.match_expressions and not term.match_fields:
        return False
    for requirement in term.match_expressions or ():
        if not _requirement_holds(requirement.operator, requirement.key, requirement.values or (), labels):
            return False
    return all(_field_holds(requirement, name) for requirement in term.match_fields or ())


def _field_holds(requirement: NodeSelectorRequirement, name: str) -> bool:
    values = requirement.values or ()
    if requirement.key != "metadata.name" or len(values) != 1:
        return False
    if requirement.operator == "In":
        return name == values[0]
    if requirement.operator == "NotIn":
        return name != values[0]
    return False


def node_selector_matches(selector: NodeSelector, labels: Mapping[str, str], name: str) -> bool:
    """Whether any term of a node selector matches; one without terms matches nothing."""
    return any(node_selector_term_matches(term, labels, name) for term in selector.node_selector_terms or ())


def node_affinity_matches(
    node_selector: Mapping[str, str] | None, affinity: Affinity | None, labels: Mapping[str, str], name: str
) -> bool:
    """Whether a node satisfies a pod's nodeSelector and its required node affinity (both must hold).

    As GetRequiredNodeAffinity does: an affinity without the required part imposes nothing, one with an empty list of
    terms matches no node."""
    for key, value in (node_selector or {}).items():
        if labels.get(key) != value:
            return False
    required = _required(affinity)
    return required is None or node_selector_matches(required, labels, name)


def _required(affinity: Affinity | None) -> NodeSelector | None:
    if affinity is None or affinity.node_affinity is None:
        return None
    return affinity.node_affinity.required_during_scheduling_ignored_during_execution


def describe_node_selector(selector: NodeSelector) -> str:
    """A node selector as one line: `zone In [a b], gpu Exists; metadata.name In [n1]` (`;` parts the terms)."""
    terms = []
    for term in selector.node_selector_terms or ():
        parts = [*(term.match_expressions or ()), *(term.match_fields or ())]
        terms.append(", ".join(_describe(part) for part in parts) or "(an empty term, which matches nothing)")
    return "; ".join(terms) or "(no terms, which match nothing)"


def _describe(requirement: NodeSelectorRequirement) -> str:
    values = f" [{' '.join(requirement.values)}]" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"


def describe_required(node_selector: Mapping[str, str] | None, affinity: Affinity | None) -> str:
    """What a pod asks of a node's labels, as one line; '' when nothing."""
    parts = [f"nodeSelector {key}={value}" for key, value in sorted((node_selector or {}).items())]
    required = _required(affinity)
    if required is not None:
        parts.append(f"node affinity {describe_node_selector(required)}")
    return "; ".join(parts)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint (core/v1 Toleration.ToleratesTaint).

    An empty effect covers all effects, an empty key (with Exists) all keys; the operator is Equal when left out. Lt and
    Gt compare whole numbers: the taint's value with the toleration's."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    if toleration.operator == "Exists":
        return True
    if toleration.operator in {"Lt", "Gt"}:
        left, right = _int64(taint.value), _int64(toleration.value)
        if left is None or right is None:
            return False
        return left < right if toleration.operator == "Lt" else left > right
    return False


def untolerated_taints(taints: Sequence[Taint] | None, tolerations: Sequence[Toleration] | None) -> list[Taint]:
    """The NoSchedule and NoExecute taints that no toleration covers, in the node's order."""
    return [
        taint
        for taint in taints or ()
        if taint.effect in NO_SCHEDULE_EFFECTS and not any(tolerates(one, taint) for one in tolerations or ())
    ]


def describe_taint(taint: Taint) -> str:
    """`gpu=true:NoSchedule`, or `gpu:NoSchedule` without a value."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def topology_terms_match(terms: Sequence[TopologySelectorTerm] | None, labels: Mapping[str, str]) -> bool:
    """Whether a node's labels satisfy a StorageClass's allowedTopologies (MatchTopologySelectorTerms): none at all
    allows every node; within a term all requirements must hold, and an empty term matches nothing."""
    if not terms:
        return True
    return any(
        bool(term.match_label_expressions)
        and all(labels.get(one.key) in (one.values or ()) for one in term.match_label_expressions or ())
        for term in terms
    )
