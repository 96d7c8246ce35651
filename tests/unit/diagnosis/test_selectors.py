"""Selectors, taints and tolerations, against Kubernetes' documented semantics."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.objects.core import Affinity, NodeSelector, NodeSelectorTerm, Taint, Toleration
from volcano.objects.meta import LabelSelector
from volcano.objects.scheduling import TopologySelectorTerm
from volcano.objects.selectors import (
    describe_required,
    describe_taint,
    matches_labels,
    node_affinity_matches,
    node_selector_matches,
    node_selector_term_matches,
    tolerates,
    topology_terms_match,
    untolerated_taints,
)

LABELS = {"app": "web", "tier": "front", "n": "5"}


def selector(**parts: object) -> LabelSelector:
    return msgspec.convert(parts, LabelSelector)


def term(*expressions: dict[str, object], fields: list[dict[str, object]] | None = None) -> NodeSelectorTerm:
    return msgspec.convert({"matchExpressions": list(expressions), "matchFields": fields}, NodeSelectorTerm)


def expression(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"key": key, "operator": operator, "values": list(values) or None}


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not matches_labels(None, LABELS)
    assert matches_labels(LabelSelector(), LABELS)
    assert matches_labels(LabelSelector(), {})


@pytest.mark.parametrize(
    ("expressions", "matches"),
    [
        ([expression("app", "In", "web", "db")], True),
        ([expression("app", "In", "db")], False),
        ([expression("missing", "In", "x")], False),
        ([expression("app", "In")], False),
        ([expression("app", "NotIn", "db")], True),
        ([expression("app", "NotIn", "web")], False),
        ([expression("missing", "NotIn", "x")], True),
        ([expression("app", "Exists")], True),
        ([expression("missing", "Exists")], False),
        ([expression("missing", "DoesNotExist")], True),
        ([expression("app", "DoesNotExist")], False),
        ([expression("app", "Like", "w")], False),
        ([expression("app", "Exists"), expression("tier", "In", "back")], False),
    ],
)
def test_label_expressions(expressions: list[dict[str, object]], matches: bool) -> None:
    assert matches_labels(selector(matchExpressions=expressions), LABELS) is matches


def test_labels_and_expressions_must_both_hold() -> None:
    both = selector(matchLabels={"app": "web"}, matchExpressions=[expression("tier", "In", "front")])
    assert matches_labels(both, LABELS)
    assert not matches_labels(both, {**LABELS, "tier": "back"})
    assert not matches_labels(both, {**LABELS, "app": "db"})


@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz")), st.sampled_from("abc"), st.sampled_from("xyz"))
def test_in_and_not_in_are_opposites(labels: dict[str, str], key: str, value: str) -> None:
    inside = matches_labels(selector(matchExpressions=[expression(key, "In", value)]), labels)
    outside = matches_labels(selector(matchExpressions=[expression(key, "NotIn", value)]), labels)
    assert inside is not outside


@pytest.mark.parametrize(
    ("operator", "value", "matches"),
    [
        ("Gt", "4", True),
        ("Gt", "5", False),
        ("Lt", "6", True),
        ("Lt", "5", False),
        ("Gt", "x", False),
        ("Gt", "1.5", False),
    ],
)
def test_numbers_are_compared_as_whole_numbers(operator: str, value: str, matches: bool) -> None:
    assert node_selector_term_matches(term(expression("n", operator, value)), LABELS, "n1") is matches


def test_a_label_that_is_no_number_is_neither_above_nor_below() -> None:
    assert not node_selector_term_matches(term(expression("app", "Gt", "1")), LABELS, "n1")
    assert not node_selector_term_matches(term(expression("app", "Lt", "1")), LABELS, "n1")
    huge = str(2**63)
    assert not node_selector_term_matches(term(expression("n", "Gt", "1")), {"n": huge}, "n1")


def test_an_empty_term_and_an_empty_list_of_terms_match_nothing() -> None:
    assert not node_selector_term_matches(term(), LABELS, "n1")
    assert not node_selector_matches(NodeSelector(), LABELS, "n1")
    assert not node_selector_matches(NodeSelector(node_selector_terms=[term()]), LABELS, "n1")


def test_terms_are_alternatives() -> None:
    either = NodeSelector(node_selector_terms=[term(expression("app", "In", "db")), term(expression("tier", "Exists"))])
    assert node_selector_matches(either, LABELS, "n1")


def test_match_fields_know_the_name_only() -> None:
    assert node_selector_term_matches(term(fields=[expression("metadata.name", "In", "n1")]), {}, "n1")
    assert not node_selector_term_matches(term(fields=[expression("metadata.name", "In", "n2")]), {}, "n1")
    assert node_selector_term_matches(term(fields=[expression("metadata.name", "NotIn", "n2")]), {}, "n1")
    assert not node_selector_term_matches(term(fields=[expression("spec.unschedulable", "In", "n1")]), {}, "n1")


def affinity(**required: object) -> Affinity:
    return msgspec.convert({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}, Affinity)


def test_node_selector_and_affinity_must_both_hold() -> None:
    asked = affinity(nodeSelectorTerms=[{"matchExpressions": [expression("tier", "Exists")]}])
    assert node_affinity_matches({"app": "web"}, asked, LABELS, "n1")
    assert not node_affinity_matches({"app": "db"}, asked, LABELS, "n1")
    assert not node_affinity_matches({"app": "web"}, asked, {"app": "web"}, "n1")


def test_affinity_without_a_required_part_asks_nothing_and_with_empty_terms_excludes_all() -> None:
    assert node_affinity_matches(None, msgspec.convert({"nodeAffinity": {}}, Affinity), {}, "n1")
    assert node_affinity_matches(None, None, {}, "n1")
    assert not node_affinity_matches(None, affinity(nodeSelectorTerms=[]), LABELS, "n1")


def test_what_a_pod_asks_is_told_in_one_line() -> None:
    asked = affinity(nodeSelectorTerms=[{"matchExpressions": [expression("zone", "In", "a", "b")]}])
    assert describe_required({"gpu": "yes"}, asked) == "nodeSelector gpu=yes; node affinity zone In [a b]"
    assert describe_required(None, None) == ""


TAINT = Taint(key="gpu", value="true", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        ({"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "true"}, True),
        ({"key": "gpu", "value": "false"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "operator": "Wrong", "value": "true"}, False),
    ],
)
def test_tolerations(toleration: dict[str, str], covers: bool) -> None:
    assert tolerates(msgspec.convert(toleration, Toleration), TAINT) is covers


def test_numeric_tolerations_compare_the_taint_with_the_toleration() -> None:
    level = Taint(key="level", value="5", effect="NoSchedule")
    assert tolerates(Toleration(key="level", operator="Lt", value="6"), level)
    assert tolerates(Toleration(key="level", operator="Gt", value="4"), level)
    assert not tolerates(Toleration(key="level", operator="Lt", value="5"), level)
    assert not tolerates(Toleration(key="level", operator="Lt", value="x"), level)


def test_prefer_no_schedule_keeps_nobody_away() -> None:
    soft, hard = Taint(key="a", effect="PreferNoSchedule"), Taint(key="b", effect="NoExecute")
    assert untolerated_taints([soft, hard, TAINT], []) == [hard, TAINT]
    assert untolerated_taints([soft, hard, TAINT], [Toleration(operator="Exists")]) == []
    assert untolerated_taints(None, None) == []
    assert describe_taint(TAINT) == "gpu=true:NoSchedule"
    assert describe_taint(hard) == "b:NoExecute"


def test_allowed_topologies() -> None:
    terms = [msgspec.convert({"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}, TopologySelectorTerm)]
    assert topology_terms_match(terms, {"zone": "a"})
    assert not topology_terms_match(terms, {"zone": "c"})
    assert not topology_terms_match(terms, {})
    assert topology_terms_match([], {})
    assert not topology_terms_match([TopologySelectorTerm()], {"zone": "a"})
