"""Inter-pod affinity and anti-affinity, and topology spread."""

from __future__ import annotations

from typing import Any

from projections.diagnosis.podaffinity import InterPodAffinity
from projections.diagnosis.reasons import (
    EXISTING_ANTI_AFFINITY,
    POD_AFFINITY,
    POD_ANTI_AFFINITY,
    SPREAD,
    SPREAD_LABEL,
)
from projections.diagnosis.spread import TopologySpread
from projections.diagnosis.views import NodeView, PlacedPod
from tests.unit.diagnosis.build import node, placed, pod

HOST, ZONE = "kubernetes.io/hostname", "zone"


def term(topology: str = HOST, **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": topology, **more}


def wants(part: str, *terms: dict[str, Any], **more: Any) -> Any:
    return pod(affinity={part: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}, **more)


def web(name: str, on: str, **more: Any) -> PlacedPod:
    return placed(pod(name, labels={"app": "web"}, **more), on)


def texts(subject: Any, nodes: list[NodeView], others: list[PlacedPod]) -> dict[str, list[str]]:
    check = InterPodAffinity(PlacedPod.of(subject), nodes, others)
    return {one.name: [reason.text for reason in check.check(one)] for one in nodes}


NODES = [node("a1", labels={ZONE: "a"}), node("a2", labels={ZONE: "a"}), node("b1", labels={ZONE: "b"})]


def test_affinity_wants_a_matching_pod_in_the_same_domain() -> None:
    subject = wants("podAffinity", term(ZONE))
    assert texts(subject, NODES, [web("w", "a1")]) == {"a1": [], "a2": [], "b1": [POD_AFFINITY]}


def test_a_node_without_the_topology_label_refuses_affinity() -> None:
    subject = wants("podAffinity", term("rack"))
    assert texts(subject, NODES[:1], [web("w", "a1")]) == {"a1": [POD_AFFINITY]}


def test_the_first_pod_of_its_kind_may_go_anywhere() -> None:
    subject = wants("podAffinity", term(ZONE), labels={"app": "web"})
    assert texts(subject, NODES, []) == {"a1": [], "a2": [], "b1": []}
    assert texts(subject, NODES, [web("w", "b1")]) == {"a1": [POD_AFFINITY], "a2": [POD_AFFINITY], "b1": []}


def test_all_terms_must_match_the_same_pod() -> None:
    other = {"labelSelector": {"matchLabels": {"tier": "db"}}, "topologyKey": ZONE}
    subject = wants("podAffinity", term(ZONE), other)
    apart = [web("w", "a1"), placed(pod("d", labels={"tier": "db"}), "a2")]
    assert texts(subject, NODES, apart)["a1"] == [POD_AFFINITY]
    together = [placed(pod("wd", labels={"app": "web", "tier": "db"}), "a1")]
    assert texts(subject, NODES, together)["a2"] == []


def test_anti_affinity_keeps_out_of_the_domain() -> None:
    subject = wants("podAntiAffinity", term(ZONE))
    assert texts(subject, NODES, [web("w", "a1")]) == {"a1": [POD_ANTI_AFFINITY], "a2": [POD_ANTI_AFFINITY], "b1": []}


def test_anti_affinity_does_not_bind_a_node_without_the_label() -> None:
    bare = [node("x")]
    assert texts(wants("podAntiAffinity", term(ZONE)), bare, [web("w", "x")]) == {"x": []}


def test_existing_pods_keep_others_away() -> None:
    guard = placed(wants("podAntiAffinity", term(ZONE), name="guard"), "a1")
    subject = pod("plain", labels={"app": "web"})
    assert texts(subject, NODES, [guard]) == {"a1": [EXISTING_ANTI_AFFINITY], "a2": [EXISTING_ANTI_AFFINITY], "b1": []}
    assert texts(pod("other", labels={"app": "x"}), NODES, [guard])["a1"] == []


def test_a_term_speaks_of_its_owners_namespace_unless_it_names_others() -> None:
    elsewhere = [web("w", "a1", namespace="prod")]
    assert texts(wants("podAntiAffinity", term()), NODES, elsewhere)["a1"] == []
    assert texts(wants("podAntiAffinity", term(namespaces=["prod"])), NODES, elsewhere)["a1"] == [POD_ANTI_AFFINITY]
    assert texts(wants("podAntiAffinity", term(namespaceSelector={})), NODES, elsewhere)["a1"] == [POD_ANTI_AFFINITY]


def test_match_label_keys_narrow_a_term() -> None:
    keyed = term(matchLabelKeys=["version"])
    subject = wants("podAntiAffinity", keyed, labels={"app": "web", "version": "2"})
    old = placed(pod("old", labels={"app": "web", "version": "1"}), "a1")
    new = placed(pod("new", labels={"app": "web", "version": "2"}), "b1")
    assert texts(subject, NODES, [old, new]) == {"a1": [], "a2": [], "b1": [POD_ANTI_AFFINITY]}


def test_pods_that_ask_for_nothing_are_not_checked() -> None:
    assert InterPodAffinity(PlacedPod.of(pod()), NODES, [web("w", "a1")]).idle


# --- topology spread ----------------------------------------------------------------------------------------------


def spread(constraint: dict[str, Any], others: list[PlacedPod], nodes: list[NodeView] = NODES, **more: Any) -> Any:
    base = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    subject = pod(labels={"app": "web"}, topologySpreadConstraints=[{**base, **constraint}], **more)
    check = TopologySpread(subject, nodes, others)
    return {one.name: [reason.text for reason in check.check(one)] for one in nodes}


def test_spread_refuses_the_fuller_domain() -> None:
    assert spread({}, [web("w", "a1")]) == {"a1": [SPREAD], "a2": [SPREAD], "b1": []}
    assert spread({"maxSkew": 2}, [web("w", "a1")]) == {"a1": [], "a2": [], "b1": []}


def test_spread_counts_its_own_namespace_and_no_ending_pods() -> None:
    ending = placed(pod("e", labels={"app": "web"}, meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), "a1")
    assert spread({}, [ending, web("w", "a2", namespace="prod")])["a1"] == []


def test_spread_needs_the_label_and_ignores_soft_constraints() -> None:
    nodes = [*NODES, node("x")]
    assert spread({}, [], nodes)["x"] == [SPREAD_LABEL]
    assert spread({"whenUnsatisfiable": "ScheduleAnyway"}, [web("w", "a1")])["a1"] == []


def test_fewer_domains_than_asked_count_as_an_empty_one() -> None:
    others = [web("w", "a1"), web("v", "b1")]
    assert spread({}, others)["a1"] == []
    assert spread({"minDomains": 3}, others)["a1"] == [SPREAD]


def test_domains_that_the_pod_cannot_use_do_not_count() -> None:
    """nodeAffinityPolicy Honor (the default) leaves zone b out, so zone a may be filled."""
    narrow = {"nodeSelector": {ZONE: "a"}}
    assert spread({}, [web("w", "a1")], **narrow)["a1"] == []
    assert spread({"nodeAffinityPolicy": "Ignore"}, [web("w", "a1")], **narrow)["a1"] == [SPREAD]


def test_taints_count_only_when_honoured() -> None:
    tainted = [*NODES[:2], node("b1", labels={ZONE: "b"}, taints=[{"key": "k", "effect": "NoSchedule"}])]
    assert spread({}, [web("w", "a1")], tainted)["a1"] == [SPREAD]
    assert spread({"nodeTaintsPolicy": "Honor"}, [web("w", "a1")], tainted)["a1"] == []
