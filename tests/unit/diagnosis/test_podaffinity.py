"""Inter-pod affinity and anti-affinity, and topology spread."""

from __future__ import annotations

from typing import Any

from projections.diagnosis.nodes import Evaluation
from projections.diagnosis.podaffinity import InterPodAffinity
from projections.diagnosis.reasons import (
    EXISTING_ANTI_AFFINITY,
    POD_AFFINITY,
    POD_ANTI_AFFINITY,
    SPREAD,
    SPREAD_LABEL,
    scheduler_reasons,
)
from projections.diagnosis.spread import TopologySpread
from projections.diagnosis.views import NodeView, PlacedPod
from tests.unit.diagnosis.build import cluster, node, placed, pod, task

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


def test_a_namespace_selector_knows_the_label_that_every_namespace_has() -> None:
    name = "kubernetes.io/metadata.name"
    others = [web("w", "a1", namespace="other")]

    def where(selector: dict[str, Any], **more: Any) -> list[str]:
        subject = wants("podAntiAffinity", term(namespaceSelector=selector, **more))
        return texts(subject, NODES, others)["a1"]

    assert where({}) == [POD_ANTI_AFFINITY]
    assert where({"matchLabels": {name: "other"}}) == [POD_ANTI_AFFINITY]
    assert where({"matchLabels": {name: "default"}}) == []
    assert where({"matchExpressions": [{"key": name, "operator": "In", "values": ["x", "other"]}]}) == [
        POD_ANTI_AFFINITY
    ]
    assert where({"matchExpressions": [{"key": name, "operator": "NotIn", "values": ["other"]}]}) == []
    assert where({"matchLabels": {"team": "a"}}) == []
    assert where({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}) == []
    assert where({"matchLabels": {"team": "a"}}, namespaces=["other"]) == [POD_ANTI_AFFINITY]


def test_with_a_namespace_selector_the_owners_namespace_is_not_meant() -> None:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "other"}}
    subject = wants("podAntiAffinity", term(namespaceSelector=selector))
    assert texts(subject, NODES[:1], [web("w", "a1")]) == {"a1": []}


def test_mismatch_label_keys_leave_out_pods_with_the_same_value() -> None:
    subject = wants("podAntiAffinity", term(mismatchLabelKeys=["tenant"]), labels={"tenant": "one"})
    same, other = {"app": "web", "tenant": "one"}, {"app": "web", "tenant": "two"}
    assert texts(subject, NODES[:1], [placed(pod("w", labels=same), "a1")]) == {"a1": []}
    assert texts(subject, NODES[:1], [placed(pod("w", labels=other), "a1")]) == {"a1": [POD_ANTI_AFFINITY]}


def test_match_label_keys_of_existing_pods_take_their_own_value() -> None:
    there = wants("podAntiAffinity", term(matchLabelKeys=["tenant"]), name="there", labels={"tenant": "one"})
    for tenant, expected in (("one", [EXISTING_ANTI_AFFINITY]), ("two", [])):
        subject = pod(labels={"app": "web", "tenant": tenant})
        assert texts(subject, NODES[:1], [placed(there, "a1")]) == {"a1": expected}


def test_ending_pods_still_repel() -> None:
    ending = web("w", "a1", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert texts(wants("podAntiAffinity", term()), NODES[:1], [ending]) == {"a1": [POD_ANTI_AFFINITY]}


def test_the_three_parts_of_inter_pod_affinity_are_looked_at_in_their_order() -> None:
    keeps_away = wants("podAntiAffinity", term(ZONE), name="there", labels={"app": "web"})
    both = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term("rack")]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(ZONE)]},
    }
    others = [placed(keeps_away, "a1")]
    assert texts(pod(labels={"app": "web"}, affinity=both), NODES[:1], others) == {"a1": [POD_AFFINITY]}
    both.pop("podAffinity")
    assert texts(pod(labels={"app": "web"}, affinity=both), NODES[:1], others) == {"a1": [POD_ANTI_AFFINITY]}
    assert texts(pod(labels={"app": "web"}), NODES[:1], others) == {"a1": [EXISTING_ANTI_AFFINITY]}


def test_spread_with_match_label_keys_counts_pods_of_the_same_value() -> None:
    others = [placed(pod("w", labels={"app": "web", "hash": "old"}), "a1")]
    check: dict[str, Any] = {"matchLabelKeys": ["hash", "missing"]}
    subject = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **check}
    subject["labelSelector"] = {"matchLabels": {"app": "web"}}
    for value, expected in (("old", [SPREAD]), ("new", [])):
        new = pod(labels={"app": "web", "hash": value}, topologySpreadConstraints=[subject])
        found = TopologySpread(new, NODES, others).check(NODES[0])
        assert [reason.text for reason in found] == expected


def test_only_nodes_with_every_topology_key_are_domains() -> None:
    """b1 has no rack, so it is no domain of the zone constraint either, and a is the only one."""
    nodes = [node("a1", labels={ZONE: "a", "rack": "1"}), node("b1", labels={ZONE: "b"})]
    rack = {"maxSkew": 9, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    zone = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    subject = pod(topologySpreadConstraints=[zone, rack])
    check = TopologySpread(subject, nodes, [web("w", "a1")])
    assert [reason.text for one in nodes for reason in check.check(one)] == [SPREAD_LABEL]


def test_a_pod_that_its_own_constraint_does_not_select_adds_nothing() -> None:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    constraint["labelSelector"] = {"matchLabels": {"app": "web"}}
    subject = pod(labels={"app": "other"}, topologySpreadConstraints=[constraint])
    assert TopologySpread(subject, NODES, [web("w", "a1")]).check(NODES[0]) == []


def test_after_anti_affinity_the_scheduler_looks_on_and_after_affinity_it_does_not() -> None:
    """InterPodAffinity's refusals for repelled pods can be mended by preemption, so Volcano goes on to the next
    predicate and counts its reason too."""
    spread_too = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    spread_too["labelSelector"] = {"matchLabels": {"app": "web"}}
    for part, expected in (("podAntiAffinity", [POD_ANTI_AFFINITY, SPREAD]), ("podAffinity", [POD_AFFINITY])):
        asked = term(ZONE) if part == "podAntiAffinity" else term("rack")
        affinity = {part: {"requiredDuringSchedulingIgnoredDuringExecution": [asked]}}
        subject = pod(labels={"app": "web"}, affinity=affinity, topologySpreadConstraints=[spread_too])
        where = cluster(NODES, pods=[web("w", "a1")])
        assert scheduler_reasons(Evaluation(task(subject), subject, where).on(NODES[0])) == expected
