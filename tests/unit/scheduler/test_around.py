"""What a session in the flow sees of the pods around: those on nodes, of which no whole object is kept, and those on
their way there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from projections.cache.state import PodRef
from tests.unit.scheduler.build import CONFIG, World, group, node, pod
from vcledger.scheduler.inputs import Allocate
from vcledger.scheduler.session.conf import default_conf
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.session.outcome import Placed
from vcledger.scheduler.session.run import run
from volcano.events.scheduling import TaskAllocated
from volcano.objects import kinds
from volcano.objects.core import Pod

HOST = "kubernetes.io/hostname"
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": HOST}
        ]
    }
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, msgspec.structs.replace(CONFIG, session=default_conf(), seed=7))
    meta = {"name": "default", "uid": "default-u", "resourceVersion": "3"}
    made.see({"kind": "Queue", "apiVersion": "x/v1", "metadata": meta, "spec": {"weight": 1}})
    made.see(*(node(name, 10 + at, labels={HOST: name}) for at, name in enumerate(("n1", "n2"))))
    yield made
    made.store.close()


def labelled(made: dict[str, Any], affinity: dict[str, Any] | None = None) -> dict[str, Any]:
    made["metadata"]["labels"] = {"app": "x"}
    if affinity is not None:
        made["spec"]["affinity"] = affinity
    return made


def allocated(world: World) -> dict[str, str]:
    return {one.name: one.event.node for one in world.recorded(TaskAllocated)}


@pytest.mark.parametrize("whose", ["theirs", "its own"])
def test_an_anti_affinity_between_it_and_a_pod_that_runs(world: World, whose: str) -> None:
    there, new = (APART, None) if whose == "theirs" else (None, APART)
    for at, name in enumerate(("r1", "r2")):
        world.see(labelled(pod(name, 90 + at, node=f"n{at + 1}", phase="Running", cpu="100m"), there))
    world.see(group("g", 1), labelled(pod("a", 101, group="g"), new))
    world.do(Allocate())
    assert allocated(world) == {}
    world.see(labelled(pod("r2", 95, node="n2", phase="Running", cpu="100m"), there), change="DELETED")
    world.do(Allocate())
    assert allocated(world) == {"a": "n2"}
    world.settled()


def test_an_anti_affinity_of_a_pod_on_its_way(world: World) -> None:
    world.see(node("n2", 20, labels={HOST: "n2"}), change="DELETED")
    world.see(group("g", 1), labelled(pod("a", 101, group="g", cpu="100m"), APART))
    world.do(Allocate())
    assert allocated(world) == {"a": "n1"}
    world.see(group("h", 1, 21), labelled(pod("b", 102, group="h", cpu="100m")))
    world.do(Allocate())
    assert allocated(world) == {"a": "n1"}
    world.settled()


def test_a_port_that_a_running_pod_has(world: World) -> None:
    taken, wants = pod("r", 90, node="n1", phase="Running"), pod("a", 101, group="g")
    for one in (taken, wants):
        one["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    world.see(node("n2", 20, labels={HOST: "n2"}), change="DELETED")
    world.see(taken, group("g", 1), wants)
    world.do(Allocate())
    assert allocated(world) == {}


@pytest.mark.parametrize("stated", [{}, {"cpu": "200m"}, {"memory": "1Gi"}])
def test_pods_that_ask_for_nothing_count_as_they_do_where_their_objects_are_known(
    world: World, stated: dict[str, str]
) -> None:
    """The flow keeps no objects of pods on nodes; a replay has them. Both have the same scores."""
    for name in ("n1", "n2"):
        sized = node(name, 30, labels={HOST: name})
        sized["status"]["allocatable"]["memory"] = sized["status"]["capacity"]["memory"] = "8Gi"
        world.see(sized)
    objects: dict[str, Pod] = {}
    for at, (name, where) in enumerate({"r1": "n1", "r2": "n1", "r3": "n1", "r4": "n2"}.items()):
        there = pod(name, 90 + at, node=where, phase="Running", group="old")
        there["spec"]["containers"][0]["resources"] = {"requests": stated}
        objects[name] = kinds.decode("Pod", json.dumps(there).encode())
        world.see(there)
    new = pod("a", 101, group="g")
    objects["a"] = kinds.decode("Pod", json.dumps(new).encode())
    world.see(group("old", 1), group("g", 1, 21), new)

    def replayed(pod_of: Callable[[PodRef], Pod | None]) -> Placed:
        flow = world.flow
        outcome = run(Mirror(flow.cache, pod_of), flow.config.session, seed=flow.config.seed, cycle=flow.cycle + 1)
        (placed,) = (one for one in outcome.decisions if isinstance(one, Placed))
        return placed

    known = replayed(lambda ref: objects[ref.name])
    blind = replayed(lambda ref: objects["a"] if ref.name == "a" else None)
    world.do(Allocate())
    (done,) = world.recorded(TaskAllocated)
    assert (done.name, done.event.node, done.event.score) == ("a", known.node, known.score)
    assert done.event.score != blind.score
