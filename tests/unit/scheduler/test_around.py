"""What a session in the flow sees of the pods around: those on nodes, of which no whole object is kept, and those on
their way there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.scheduler.build import CONFIG, World, group, node, pod
from vcledger.scheduler.inputs import Allocate
from vcledger.scheduler.session.conf import default_conf
from volcano.events.scheduling import TaskAllocated

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
