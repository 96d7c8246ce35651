"""The simulated PV controller beside the real one: the same claims and volumes, the same pods, and in the end the same.

Of classes with an external provisioner only what the controller itself does is compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.kube.control_plane import ControlPlane
from vcledger.runtime.port import ApiPort
from vcledger.scheduler.requests import Bind, Create, Delete, Get, Patch, Update
from vcledger.sim.actors import World
from vcledger.sim.clock import SECOND, Timeline
from vcledger.sim.server import SimulatedApi
from vcledger.sim.volumes import VolumeController

SETTLE_SECONDS = 60
WAIT_SECONDS_MAX = 120.0
KEPT = ("pv.kubernetes.io/bound-by-controller", "pv.kubernetes.io/bind-completed")

Object = dict[str, Any]


class Side:
    """One server with its controller, and what is done to it. Volumes and classes get names of their own by `mark`."""

    def __init__(self, port: ApiPort, namespace: str, mark: str, settle: Callable[[], None]) -> None:
        self.port, self.namespace, self.mark, self.settle = port, namespace, mark, settle
        self.claims: list[str] = []
        self.volumes: list[str] = []

    def named(self, name: str) -> str:
        return f"{self.mark}-{name}"

    def create(self, kind: str, namespace: str, item: Object) -> Object:
        answer = self.port.do(Create(kind, namespace, msgspec.json.encode(item)))
        assert answer.code == 201, answer
        made: Object = msgspec.json.decode(answer.body)
        return made

    def storage_class(self, name: str, mode: str = "Immediate") -> None:
        item = {"metadata": {"name": self.named(name)}, "provisioner": "kubernetes.io/no-provisioner"}
        self.create("StorageClass", "", {**item, "volumeBindingMode": mode, "reclaimPolicy": "Retain"})

    def claim(self, name: str, kind: str = "c", size: str = "1Gi", volume: str = "", **more: Any) -> Object:
        spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **more}
        spec["storageClassName"] = self.named(kind)
        if volume:
            spec["volumeName"] = self.named(volume)
        if name not in self.claims:
            self.claims.append(name)
        return self.create("PersistentVolumeClaim", self.namespace, {"metadata": {"name": name}, "spec": spec})

    def volume(
        self, name: str, kind: str = "c", size: str = "1Gi", to: str = "", uid: str = "", labels: Any = None,
        **more: Any,
    ) -> Object:  # fmt: skip
        spec: Object = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": self.named(kind),
            "csi": {"driver": "csi.example.com", "volumeHandle": self.named(name)},
            **more,
        }
        if to:
            spec["claimRef"] = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": self.namespace}
            spec["claimRef"] |= {"name": to, **({"uid": uid} if uid else {})}
        if name not in self.volumes:
            self.volumes.append(name)
        return self.create(
            "PersistentVolume", "", {"metadata": {"name": self.named(name), "labels": labels or {}}, "spec": spec}
        )

    def pod(self, name: str, claim: str, node: str = "") -> Object:
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
        spec = {"containers": [{"name": "main", "image": "example.com/i:1"}], "volumes": volumes}
        made = self.create("Pod", self.namespace, {"metadata": {"name": name}, "spec": spec})
        if node:
            assert self.port.do(Bind(self.namespace, name, made["metadata"]["uid"], node)).code == 201
        return made

    def finish(self, pod: str) -> None:
        body = b'{"status":{"phase":"Succeeded"}}'
        assert self.port.do(Patch("Pod", self.namespace, pod, body, "status")).code == 200

    def give(self, volume: str, claim: str) -> None:
        """What a scheduler writes for a static binding (AssumePodVolumes, bindAPIUpdate)."""
        found, item = self.get("PersistentVolume", volume), self.get("PersistentVolumeClaim", claim)
        assert found is not None and item is not None
        meta = item["metadata"]
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": self.namespace}
        found["spec"]["claimRef"] = {**reference, "name": claim, "uid": meta["uid"]}
        annotations = found["metadata"].get("annotations") or {}
        found["metadata"]["annotations"] = {**annotations, "pv.kubernetes.io/bound-by-controller": "yes"}
        body = msgspec.json.encode(found)
        assert self.port.do(Update("PersistentVolume", "", self.named(volume), body)).code == 200

    def delete(self, kind: str, name: str) -> None:
        where, name = (self.namespace, name) if kind != "PersistentVolume" else ("", self.named(name))
        assert self.port.do(Delete(kind, where, name, grace_seconds=0)).code == 200

    def let_go(self, volume: str) -> None:
        """Takes a volume's finalizers away."""
        body = b'{"metadata":{"finalizers":null}}'
        assert self.port.do(Patch("PersistentVolume", "", self.named(volume), body)).code == 200

    def get(self, kind: str, name: str) -> Object | None:
        where, name = (self.namespace, name) if kind != "PersistentVolume" else ("", self.named(name))
        answer = self.port.do(Get(kind, where, name))
        found: Object | None = msgspec.json.decode(answer.body) if answer.code == 200 else None
        return found

    def standing(self) -> dict[str, Any]:
        """How claims and volumes stand, without what is this server's own."""
        uids: dict[str, str] = {}
        found: dict[str, Any] = {}
        for name in self.claims:
            item = self.get("PersistentVolumeClaim", name)
            if item is not None:
                uids[item["metadata"]["uid"]] = name
            found[f"claim {name}"] = self._of_claim(item)
        for name in self.volumes:
            found[f"volume {name}"] = self._of_volume(self.get("PersistentVolume", name), uids)
        return found

    def _of_claim(self, item: Object | None) -> Any:
        if item is None:
            return "gone"
        volume = (item["spec"].get("volumeName") or "").removeprefix(f"{self.mark}-")
        return (item["status"].get("phase"), volume, *_marks(item["metadata"]))

    def _of_volume(self, item: Object | None, uids: dict[str, str]) -> Any:
        if item is None:
            return "gone"
        reference = item["spec"].get("claimRef") or {}
        whose = uids.get(reference["uid"], "one that is gone") if reference.get("uid") else ""
        return (item["status"].get("phase"), reference.get("name"), whose, *_marks(item["metadata"]))


def _marks(meta: Object) -> tuple[Any, ...]:
    annotations = [name for name in KEPT if name in (meta.get("annotations") or {})]
    return (annotations, sorted(meta.get("finalizers") or ()), bool(meta.get("deletionTimestamp")))


class Case(NamedTuple):
    """What is done, step by step; both sides are compared after each."""

    name: str
    steps: tuple[Callable[[Side], Any], ...]


CASES = (
    Case("a claim and a volume", (lambda s: s.claim("a"), lambda s: s.volume("v"))),
    Case("a volume and a claim", (lambda s: s.volume("v"), lambda s: s.claim("a"))),
    Case("a volume that is given to a name", (lambda s: s.volume("v", to="a"), lambda s: s.claim("a"))),
    Case("a volume that is given to another", (lambda s: s.volume("v", to="a", uid="nobody"), lambda s: s.claim("a"))),
    Case("a claim that names its volume", (lambda s: s.volume("v"), lambda s: s.claim("a", volume="v"))),
    Case("a claim that names a volume to come", (lambda s: s.claim("a", volume="v"), lambda s: s.volume("v"))),
    Case(
        "the smallest that is large enough",
        (lambda s: [s.volume(f"v{size}", size=f"{size}Gi") for size in (5, 1, 3)], lambda s: s.claim("a", size="2Gi")),
    ),
    Case("too small", (lambda s: s.volume("v"), lambda s: s.claim("a", size="2Gi"))),
    Case("another mode", (lambda s: s.volume("v", volumeMode="Block"), lambda s: s.claim("a"))),
    Case("not its access mode", (lambda s: s.volume("v", accessModes=["ReadOnlyMany"]), lambda s: s.claim("a"))),
    Case(
        "another attributes class",
        (
            lambda s: s.volume("v", volumeAttributesClassName="fast"),
            lambda s: s.claim("a"),
            lambda s: s.claim("b", volumeAttributesClassName="fast"),
        ),
    ),
    Case(
        "a selector",
        (
            lambda s: [s.volume("v"), s.volume("w", size="5Gi", labels={"disk": "ssd"})],
            lambda s: s.claim("a", selector={"matchLabels": {"disk": "ssd"}}),
        ),
    ),
    Case(
        "a claim that names a volume of another class",
        (lambda s: s.volume("v", kind="w"), lambda s: s.claim("a", volume="v")),
    ),
    Case(
        "a claim that names a volume that is too small",
        (lambda s: s.volume("v"), lambda s: s.claim("a", size="2Gi", volume="v")),
    ),
    Case(
        "a volume of another class that is given to a name",
        (lambda s: s.volume("v", kind="w", to="a"), lambda s: s.claim("a")),
    ),
    Case(
        "a volume that is given to a name and too small",
        (lambda s: [s.volume("v", to="a"), s.volume("w", size="3Gi")], lambda s: s.claim("a", size="2Gi")),
    ),
    Case("another class", (lambda s: s.volume("v", kind="w"), lambda s: s.claim("a"))),
    Case(
        "two claims name one volume",
        (lambda s: s.volume("v"), lambda s: s.claim("a", volume="v"), lambda s: s.claim("b", volume="v")),
    ),
    Case(
        "one that waits is given a volume by a scheduler",
        (lambda s: s.volume("v", kind="w"), lambda s: s.claim("a", kind="w"), lambda s: s.give("v", "a")),
    ),
    Case(
        "a bound claim is deleted, and made again",
        (
            lambda s: [s.volume("v"), s.claim("a")],
            lambda s: s.delete("PersistentVolumeClaim", "a"),
            lambda s: s.claim("a"),
        ),
    ),
    Case(
        "a bound volume is deleted, then its claim",
        (
            lambda s: [s.volume("v"), s.claim("a")],
            lambda s: s.delete("PersistentVolume", "v"),
            lambda s: s.delete("PersistentVolumeClaim", "a"),
        ),
    ),
    Case(
        "a bound volume vanishes",
        (
            lambda s: [s.volume("v"), s.claim("a")],
            lambda s: s.delete("PersistentVolume", "v"),
            lambda s: s.let_go("v"),
        ),
    ),
    Case(
        "a claim in use is deleted",
        (
            lambda s: [s.volume("v"), s.claim("a"), s.pod("p", "a", "n1")],
            lambda s: s.delete("PersistentVolumeClaim", "a"),
            lambda s: s.delete("Pod", "p"),
        ),
    ),
    Case(
        "a claim of a pod without a node is deleted",
        (lambda s: [s.volume("v"), s.claim("a"), s.pod("p", "a")], lambda s: s.delete("PersistentVolumeClaim", "a")),
    ),
    Case(
        "a claim of a pod that has ended is deleted",
        (
            lambda s: [s.volume("v"), s.claim("a"), s.pod("p", "a", "n1"), s.finish("p")],
            lambda s: s.delete("PersistentVolumeClaim", "a"),
            lambda s: s.delete("Pod", "p"),
        ),
    ),
    Case("a free volume is deleted", (lambda s: s.volume("v"), lambda s: s.delete("PersistentVolume", "v"))),
)


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    with control_plane.controllers():
        yield control_plane


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_controllers_come_to_the_same(plane: ControlPlane, case: Case) -> None:
    mark = plane.namespace()
    timeline = Timeline()
    api = SimulatedApi(lambda: timeline.now)
    VolumeController(World(api, timeline, Random(1)))
    simulated = Side(api, mark, mark, lambda: timeline.run_until(timeline.now + SETTLE_SECONDS * SECOND))
    real = Side(plane.port, mark, mark, lambda: None)
    for side in (real, simulated):
        side.storage_class("c")
        side.storage_class("w", "WaitForFirstConsumer")
    for number, step in enumerate(case.steps):
        for side in (simulated, real):
            step(side)
        simulated.settle()
        wanted = simulated.standing()
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while (found := real.standing()) != wanted and time.monotonic() < deadline:
            time.sleep(0.1)
        assert found == wanted, f"after step {number}"
