"""Scores that look at pods, by hand: preferred inter-pod affinity, and spread that may be broken."""

from __future__ import annotations

from math import log
from typing import Any

import msgspec

from projections.diagnosis.views import PlacedPod
from tests.unit.session.world import CONF, Object, World, group, node, pod, queue
from vcledger.scheduler.session.outcome import Placed
from vcledger.scheduler.session.plugins.nodeorder_pods import pod_affinity_scores, spread_scores
from vcledger.scheduler.session.run import run
from volcano.objects import kinds
from volcano.objects.core import Node, Pod

ZONE, HOST = "zone", "kubernetes.io/hostname"


def made(kind: str, one: Object) -> Any:
    return kinds.decode(kind, msgspec.json.encode(one))


def a_node(name: str, zone: str = "") -> Node:
    labels = {HOST: name, **({ZONE: zone} if zone else {})}
    found: Node = made("Node", node(name, labels=labels))
    return found


def a_pod(name: str, app: str = "", **spec: Any) -> Pod:
    found: Pod = made("Pod", pod(name, labels={"app": app} if app else {}, spec=spec))
    return found


def on(name: str, where: str, app: str, **more: Any) -> PlacedPod:
    return PlacedPod("d", name, name, where, {"app": app}, **more)


def preferring(app: str, weight: int, key: str = ZONE, *, anti: bool = False) -> Object:
    term = {"weight": weight, "podAffinityTerm": {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}}
    return {"podAntiAffinity" if anti else "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(key: str, skew: int = 1) -> Object:
    constraint = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "ScheduleAnyway"}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": {"app": "web"}}}]}


NODES = [a_node("a1", "a"), a_node("a2", "a"), a_node("b1", "b"), a_node("none")]


def test_affinity_counts_the_pods_of_each_domain() -> None:
    """Zone a has two of them (2 x 10), zone b one: 100, 50, and 0 where there is no zone."""
    mine = PlacedPod.of(a_pod("p", affinity=preferring("db", 10)))
    placed = [on("x", "a1", "db"), on("y", "a2", "db"), on("z", "b1", "db"), on("other", "b1", "web")]
    assert pod_affinity_scores(mine, placed, NODES, NODES).tolist() == [100, 100, 50, 0]


def test_anti_affinity_and_the_terms_of_pods_that_are_there() -> None:
    """a1: -10 for its own term. b1: a pod there would have such as this one beside it, +30."""
    mine = PlacedPod.of(a_pod("p", "web", affinity=preferring("db", 10, HOST, anti=True)))
    fond = a_pod("fond", affinity=preferring("web", 30, HOST)).spec.affinity
    placed = [on("x", "a1", "db"), on("y", "b1", "cache", affinity=fond)]
    assert pod_affinity_scores(mine, placed, NODES, NODES).tolist() == [0, 25, 100, 25]


def test_nothing_selected_means_no_opinion() -> None:
    mine = PlacedPod.of(a_pod("p", affinity=preferring("db", 10)))
    assert pod_affinity_scores(mine, [on("x", "a1", "web")], NODES, NODES).tolist() == [0, 0, 0, 0]
    assert pod_affinity_scores(mine, [on("x", "a1", "db")], NODES, NODES[:2]).tolist() == [0, 0], "all are alike"


def test_spread_over_zones_weighs_by_their_number() -> None:
    """Two zones weigh log 4 each: a has 3, b 1. 3 x 1.386 = 4, 1 x 1.386 = 1: (4+1-4)/4 and (4+1-1)/4 of 100."""
    assert round(3 * log(4)) == 4
    mine = a_pod("p", "web", **spread(ZONE))
    placed = [on("x", "a1", "web"), on("y", "a2", "web"), on("z", "a2", "web"), on("w", "b1", "web")]
    placed.append(on("going", "b1", "web", deleting=True))
    assert spread_scores(mine, placed, NODES, NODES).tolist() == [25, 25, 100, 0]


def test_spread_over_hosts_counts_each_node_and_skew_shifts_all() -> None:
    """Four nodes weigh log 6 = 1.79: 2 pods are 4, with a skew of 3 two more: 6; none are 2."""
    assert [round(2 * log(6) + 2), 2] == [6, 2]
    mine = a_pod("p", "web", **spread(HOST, 3))
    placed = [on("x", "a1", "web"), on("y", "a1", "web")]
    assert spread_scores(mine, placed, NODES, NODES).tolist() == [33, 100, 100, 100]


def test_an_empty_cluster_is_all_the_same() -> None:
    assert spread_scores(a_pod("p", "web", **spread(ZONE)), [], NODES, NODES).tolist() == [100, 100, 100, 0]


def test_a_session_spreads_the_pods_of_one_gang_as_it_places_them() -> None:
    """binpack and the rest would put all on one node; spread sees what the session itself has placed."""
    pods = [pod(f"p{number}", "web", labels={"app": "web"}, spec=spread(HOST)) for number in range(3)]
    nodes = [node(name, cpu="16", labels={HOST: name}) for name in ("a", "b", "c")]
    outcome = run(World(queue(), *nodes, group("web", 3), *pods).mirror, CONF, seed=3)
    assert sorted(one.node for one in outcome.decisions if isinstance(one, Placed)) == ["a", "b", "c"]
    plain = [pod(f"p{number}", "web", memory="1Gi") for number in range(3)]
    outcome = run(World(queue(), *nodes, group("web", 3), *plain).mirror, CONF, seed=3)
    assert len({one.node for one in outcome.decisions if isinstance(one, Placed)}) < 3
