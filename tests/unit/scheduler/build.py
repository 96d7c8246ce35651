"""A small world around the loop: objects as JSON, an API server whose answers a test says, simulated time.

Owns the harness of the flow's unit tests. Must not know what is expected. Called by tests/unit/scheduler and
tests/unit/runtime.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eventstore import open_store
from vcledger import codec
from vcledger.runtime.loop import Loop
from vcledger.scheduler.inputs import Answered, AssumeTask, BindTask, Effect, Input, Observed
from vcledger.scheduler.requests import Answer, Bind, Create, Get, Patch, Update
from vcledger.scheduler.state import FlowConfig
from volcano.events.base import DomainEvent

SECOND = 1_000_000
START = 1_790_000_000 * SECOND
CONFIG = FlowConfig(bind_timeout_seconds=10, batch_num=3)


def pod(name: str, version: int = 100, *, node: str = "", phase: str = "Pending", **more: Any) -> dict[str, Any]:
    """A pod of 1 cpu; `group`, `claims`, `uid`, `deleting`, `conditions`, `cpu`, `selector`."""
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "d",
        "uid": more.get("uid", f"{name}-u"),
        "resourceVersion": str(version),
        "annotations": {"kept": "yes"},
    }
    if more.get("group"):
        meta["annotations"]["scheduling.k8s.io/group-name"] = more["group"]
    if more.get("deleting"):
        meta["deletionTimestamp"] = "2026-03-01T10:00:00Z"
    spec: dict[str, Any] = {
        "schedulerName": "volcano",
        "containers": [{"name": "m", "resources": {"requests": {"cpu": more.get("cpu", "1")}}}],
    }
    if node:
        spec["nodeName"] = node
    if more.get("selector"):
        spec["nodeSelector"] = more["selector"]
    if more.get("claims"):
        spec["volumes"] = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in more["claims"]]
    status: dict[str, Any] = {"phase": phase}
    if more.get("conditions"):
        status["conditions"] = more["conditions"]
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec, "status": status}


def node(name: str, version: int = 10, cpu: str = "4", labels: dict[str, str] | None = None) -> dict[str, Any]:
    amounts = {"cpu": cpu, "pods": "110"}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "uid": f"{name}-u", "resourceVersion": str(version), "labels": labels or {}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def claim(name: str, version: int = 50, *, cls: str = "wait", volume: str = "", **more: Any) -> dict[str, Any]:
    """A claim of 5Gi; `selected` node, `completed`, `phase`, `annotations`, `spec` on top of its own."""
    annotations = dict(more.get("annotations") or {})
    if more.get("selected"):
        annotations["volume.kubernetes.io/selected-node"] = more["selected"]
    if more.get("completed"):
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    meta: dict[str, Any] = {"name": name, "namespace": "d", "uid": f"{name}-u", "resourceVersion": str(version)}
    if annotations:
        meta["annotations"] = annotations
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": cls,
        "resources": {"requests": {"storage": "5Gi"}},
    }
    if volume:
        spec["volumeName"] = volume
    spec.update(more.get("spec") or {})
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": more.get("phase", "Bound" if volume else "Pending")},
    }


def volume(name: str, version: int = 60, *, size: str = "5Gi", cls: str = "local", **more: Any) -> dict[str, Any]:
    """A volume; `node` that it is on, `ref` (claim name) that it belongs to, `phase`, `labels`, `spec`."""
    spec: dict[str, Any] = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": cls}
    if more.get("node"):
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [more["node"]]}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if more.get("ref"):
        uid = more.get("ref_uid", f"{more['ref']}-u")
        spec["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": "d", "name": more["ref"], "uid": uid}
    spec.update(more.get("spec") or {})
    return {
        "kind": "PersistentVolume",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "uid": f"{name}-u",
            "resourceVersion": str(version),
            "labels": more.get("labels") or {},
        },
        "spec": spec,
        "status": {"phase": more.get("phase", "Available")},
    }


def storage_class(name: str, provisioner: str = "csi.example.com", **more: Any) -> dict[str, Any]:
    return {
        "kind": "StorageClass",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": name, "uid": f"{name}-u", "resourceVersion": "5"},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }


def group(name: str, least: int, version: int = 20, uid: str = "") -> dict[str, Any]:
    return {
        "kind": "PodGroup",
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "metadata": {
            "name": name,
            "namespace": "d",
            "uid": uid or f"{name}-u",
            "resourceVersion": str(version),
        },
        "spec": {"minMember": least, "queue": "default"},
        "status": {"phase": "Inqueue"},
    }


def status(code: int, message: str, reason: str = "") -> Answer:
    return Answer(code, json.dumps({"kind": "Status", "code": code, "message": message, "reason": reason}).encode())


def said(obj: dict[str, Any], code: int = 200) -> Answer:
    return Answer(code, json.dumps(obj).encode())


LOST = Answer(None)


class World:
    """The loop with its ledger. `out` are the effects that nobody has answered."""

    def __init__(self, folder: Path, config: FlowConfig = CONFIG, *, create: bool = True) -> None:
        self.path = folder / "flow.db"
        self.store = open_store(str(self.path), create=create)
        self.config = config
        self.now = START
        self.out: list[Effect] = []
        self.loop = self._loop()
        self.loop.recover(self.now)

    def _loop(self) -> Loop:
        return Loop(self.store, "c", carry_out=self.out.append, config=self.config)

    @property
    def flow(self) -> Any:
        return self.loop.flow

    def see(self, *objects: dict[str, Any], change: str = "MODIFIED") -> None:
        """Watch lines, then a step."""
        for obj in objects:
            self.loop.put(Observed(obj["kind"], change, json.dumps(obj).encode()))
        self.loop.step(self.now)

    def do(self, *inputs: Input) -> None:
        """Inputs one after the other, each in a step of its own."""
        for given in inputs:
            self.loop.put(given)
            self.loop.step(self.now)

    def tick(self, seconds: float) -> None:
        """Time passes, timer by timer."""
        end = self.now + round(seconds * SECOND)
        while True:
            due = self.loop.next_due()
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self.loop.step(self.now)
        self.now = end
        self.loop.step(end)

    def bind(self, name: str, on: str = "n1") -> None:
        """Assume, queue and flush one pod."""
        self.do(AssumeTask(f"d/{name}", on), BindTask(f"d/{name}", on))
        self.tick(0.02)

    def take(self, kind: type, name: str = "") -> Effect:
        """The oldest effect of that request that is out, and not out any more."""
        for effect in self.out:
            request = effect.request
            if isinstance(request, kind) and (not name or getattr(request, "name", "") == name):
                self.out.remove(effect)
                return effect
        raise AssertionError(f"no {kind.__name__} {name} in {self.out}")

    def answer(self, kind: type, answer: Answer, name: str = "") -> Effect:
        """The answer to it, then a step."""
        effect = self.take(kind, name)
        self.do(Answered(effect, answer))
        return effect

    def asked(self, kind: type) -> list[str]:
        """Names of what is out, Events apart."""
        return [effect.request.name for effect in self.out if isinstance(effect.request, kind)]

    def reasons(self) -> list[str]:
        """The reasons of the Events written so far for people."""
        return [json.loads(one.request.body)["reason"] for one in self.out if isinstance(one.request, Create)]

    def events(self, kind: type[DomainEvent] | None = None, name: str = "") -> list[Any]:
        """The events of the log, of one type and about one name when given."""
        found = []
        for stored in self.store.read(cluster="c"):
            event = codec.recorded(stored).event
            if (kind is None or type(event) is kind) and (not name or stored.name == name):
                found.append(event)
        return found

    def recorded(self, kind: type[DomainEvent]) -> list[Any]:
        """The events of a type with their envelopes."""
        found = (codec.recorded(stored) for stored in self.store.read(cluster="c"))
        return [one for one in found if type(one.event) is kind]

    def names(self, name: str) -> list[str]:
        """Names of the events about a name, observations apart."""
        return [type(one).__name__ for one in self.events(None, name) if not type(one).__name__.startswith("Object")]

    def crash(self) -> None:
        """The process dies; another begins on the ledger."""
        self.out.clear()
        self.loop = self._loop()
        self.loop.recover(self.now)
        self.loop.step(self.now)

    def idle_cpu(self, name: str = "n1") -> float:
        return float(self.flow.cache.nodes[name].idle.milli_cpu) / 1000

    def settled(self) -> None:
        """The state is what the log gives, and nothing is left over."""
        digest = self.flow.digest()
        assert self.loop.rebuild(snapshots=False).digest() == digest
        assert self.loop.rebuild().digest() == digest


__all__ = [
    "CONFIG",
    "LOST",
    "SECOND",
    "START",
    "Answer",
    "Bind",
    "Create",
    "Effect",
    "Get",
    "Patch",
    "Update",
    "World",
    "claim",
    "group",
    "node",
    "pod",
    "said",
    "status",
    "storage_class",
    "volume",
]
