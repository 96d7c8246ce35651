"""`why` and a session look at the same state by code of their own, and say the same of it, to the last character.

Owns the drawing of small worlds: nodes with pods on them, and a pod that waits. Must not know predicates. Each world
is drawn from its number, so it is the same in every run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from projections.cache.state import Cache
from tests.unit.vcledger.build import node, pod, pod_group, seen
from vcledger.ledger import Ledger
from vcledger.scheduler.session.conf import default_conf
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.session.outcome import Outcome, Placed
from vcledger.scheduler.session.run import run
from vcledger.why import why

WORLDS = 24
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
SELECTORS: list[Any] = [
    {"matchLabels": {"app": "a"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]},
    {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
    {},
    None,
]
QUEUE = {
    "kind": "Queue",
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "metadata": {"name": "default", "uid": "queue-u", "resourceVersion": "1"},
    "spec": {"weight": 1},
    "status": {"state": "Open"},
}


class World:
    """Objects drawn from a number."""

    def __init__(self, number: int) -> None:
        self.dice, self.version = random.Random(number), 10
        self.names = [f"n{index}" for index in range(self.dice.randint(1, 3))]
        placed = [self.placed(f"r{index}") for index in range(self.dice.randint(0, 4))]
        self.objects = [QUEUE, *map(self.node, self.names), *placed, pod_group("g", self.next()), self.pod("x")]

    def next(self) -> int:
        self.version += 1
        return self.version

    def rarely(self, *found: Any) -> Any:
        return self.dice.choice([None, None, *found])

    def node(self, name: str) -> dict[str, Any]:
        made = node(name, self.next(), cpu=self.dice.choice(["2", "4", "8"]))
        made["status"]["allocatable"]["pods"] = self.dice.choice(["1", "3", "110"])
        labels = {HOST: name, ZONE: self.dice.choice(["a", "b"]), "app": self.dice.choice(["a", "b"])}
        made["metadata"]["labels"] = {key: value for key, value in labels.items() if self.dice.random() < 0.8}
        taint = {"key": "gpu", "value": "true", "effect": self.dice.choice(["NoSchedule", "PreferNoSchedule"])}
        made["spec"] = {"taints": self.rarely([taint]), "unschedulable": self.dice.random() < 0.2}
        return made

    def placed(self, name: str) -> dict[str, Any]:
        made = self.pod(name)
        made["spec"]["nodeName"], made["status"]["phase"] = self.dice.choice(self.names), "Running"
        made["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "r"}
        return made

    def pod(self, name: str) -> dict[str, Any]:
        made = pod(name, self.next(), cpu=self.dice.choice(["500m", "1", "3"]))
        container, spec = made["spec"]["containers"][0], made["spec"]
        if self.dice.random() < 0.3:
            container["resources"] = {}
        if self.dice.random() < 0.2:
            container["ports"] = [{"hostPort": self.dice.choice([80, 8080]), "containerPort": 80}]
        made["metadata"]["labels"] = self.rarely({"app": "a"}, {"app": "b"})
        spec["nodeSelector"] = self.rarely({"app": "a"})
        spec["tolerations"] = self.rarely([{"key": "gpu", "operator": "Exists"}])
        spec["affinity"] = {
            key: self.affinity() for key in ("podAffinity", "podAntiAffinity") if self.dice.random() < 0.2
        }
        if self.dice.random() < 0.2:
            unmet = {"whenUnsatisfiable": self.dice.choice(["DoNotSchedule", "ScheduleAnyway"])}
            key = {"topologyKey": self.dice.choice([HOST, ZONE])}
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 1, "labelSelector": self.dice.choice(SELECTORS), **key, **unmet}
            ]
        return made

    def affinity(self) -> dict[str, Any]:
        term = {"labelSelector": self.dice.choice(SELECTORS), "topologyKey": self.dice.choice([HOST, ZONE])}
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def session_on(ledger: Ledger, cache: Cache) -> Outcome:
    mirror = Mirror(cache, lambda ref: ledger.objects([ref.position]).get(ref.position))
    mirror.refresh()
    return run(mirror, default_conf(), seed=1)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """All worlds, each a cluster."""
    path: Path = tmp_path_factory.mktemp("worlds") / "worlds.db"
    with Ledger.open(str(path), create=True) as made:
        for number in range(WORLDS):
            objects = World(number).objects
            made.store.append([seen("ADDED", thing, at, f"w{number}") for at, thing in enumerate(objects)])
        yield made


def test_of_a_pod_that_waits_both_say_the_same(ledger: Ledger) -> None:
    """What a session places fits, on that node; what it does not has the same sentence."""
    compared = {"placed": 0, "refused": 0}
    for number in range(WORLDS):
        cluster = f"w{number}"
        outcome = session_on(ledger, ledger.cache(cluster=cluster))
        answer = why(ledger, "default", "x", cluster=cluster, changes=False)
        placed = [one.node for one in outcome.decisions if isinstance(one, Placed) and one.task.key == "default/x"]
        if placed:
            compared["placed"] += 1
            assert (answer.verdict, placed[0] in answer.fits_on) == ("schedulable", True), (number, answer)
        else:
            compared["refused"] += 1
            assert answer.message == outcome.unfit["x-u"].message, (number, answer)
    assert min(compared.values()) > 5, compared
