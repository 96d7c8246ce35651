"""The same random requests to the simulated API server and to a real one: they must answer alike, and tell the same.

What is compared is what a scheduler reads: codes, reasons and texts of refusals, whether a version moved, metadata,
the fields of spec and status that are its business, and every line of the watches. Names, requests and their order are
drawn from the seed that the test is named after; UIDs, versions and times are each server's own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from tests.kube.control_plane import ControlPlane
from vcledger.runtime.port import Answer, ApiPort, WatchStream
from vcledger.scheduler.requests import Bind, Create, Delete, Get, Patch, Request, Update
from vcledger.sim.server import SimulatedApi
from vcledger.testing.port_contract import claim, group, node, pod, volcano_queue, volume

SEEDS = range(12)
STEPS = 120
KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "Pod": pod,
    "PersistentVolume": volume,
    "PersistentVolumeClaim": claim,
    "Node": node,
    "PodGroup": group,
    "Queue": volcano_queue,
}
NAMED_OFTEN = ("Pod", "Pod", "Pod", "PersistentVolume", "PersistentVolumeClaim", "PodGroup", "Queue", "Node")
NAMESPACED = ("Pod", "PersistentVolumeClaim", "PodGroup")
WAIT_SECONDS_MAX = 120.0

SPEC = ("nodeName", "schedulingGates", "volumeName", "claimRef", "minMember", "weight", "storageClassName", "queue")
STATUS = ("phase", "nominatedNodeName", "state", "allocatable")
META = ("name", "namespace", "labels", "annotations", "finalizers", "deletionGracePeriodSeconds")


class Side:
    """One server, and what it has told so far: each object's bodies by kind and name, oldest first."""

    def __init__(self, port: ApiPort, prefix: str) -> None:
        self.port, self.prefix = port, prefix
        self.bodies: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.uids: dict[str, str] = {}
        self.watches: dict[str, WatchStream] = {}
        self.lines: dict[str, list[Any]] = {kind: [] for kind in KINDS}
        for kind in KINDS:
            version = msgspec.json.decode(port.list(kind, limit=1).body)["metadata"]["resourceVersion"]
            opened = port.watch(kind, resource_version=version, bookmarks=False)
            assert not isinstance(opened, Answer), opened
            self.watches[kind] = opened

    def do(self, request: Request) -> Any:
        """What came of a request, in words that both servers share."""
        answer = self.port.do(request)
        body = msgspec.json.decode(answer.body)
        if body.get("kind") == "Status" and body.get("apiVersion") == "v1":
            details = body.get("details") or {}
            return (answer.code, body.get("reason"), self.plain(body.get("message", "")), details.get("kind"))
        moved = self.seen(body)
        return (answer.code, moved, self.view(body))

    def seen(self, body: dict[str, Any]) -> bool:
        """Keeps an object; whether its version is another than the last one."""
        meta = body["metadata"]
        self.uids.setdefault(meta["uid"], f"<uid {len(self.uids)}>")
        known = self.bodies.setdefault((body["kind"], meta["name"]), [])
        moved = not known or known[-1]["metadata"]["resourceVersion"] != meta["resourceVersion"]
        if moved:
            known.append(body)
        return moved

    def plain(self, text: str) -> str:
        """A text without this server's own identifiers, and without the picture of the difference that the real one
        adds to what is forbidden."""
        for uid, name in self.uids.items():
            text = text.replace(uid, name)
        return re.sub(r"(Forbidden: ).*", r"\1", text, flags=re.DOTALL)

    def view(self, body: dict[str, Any]) -> dict[str, Any]:
        """What is compared of an object; what is empty is as if it were not there."""
        meta, spec, state = body["metadata"], body.get("spec") or {}, body.get("status") or {}
        conditions = [
            {field: one[field] for field in ("type", "status", "reason", "message") if one.get(field)}
            for one in state.get("conditions") or ()
        ]
        found = {
            "kind": body["kind"],
            "uid": self.uids.setdefault(meta["uid"], f"<uid {len(self.uids)}>"),
            "deleted": bool(meta.get("deletionTimestamp")),
            "conditions": conditions,
            **{f"meta.{field}": meta.get(field) for field in META},
            **{f"spec.{field}": spec.get(field) for field in SPEC},
            **{f"status.{field}": state.get(field) for field in STATUS},
        }
        return {field: value for field, value in found.items() if value not in (None, "", {}, [])}

    def told(self, counts: dict[str, int] | None = None) -> dict[str, list[Any]]:
        """The watches' lines so far, by kind; waits for as many as `counts` says."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            for kind, watch in self.watches.items():
                for line in watch.take():
                    body = msgspec.json.decode(line.object)
                    if body["metadata"].get("name", "").startswith(self.prefix):
                        self.lines[kind].append((line.type, self.view(body)))
            short = counts is not None and any(len(self.lines[kind]) < count for kind, count in counts.items())
            if not short or time.monotonic() > deadline:
                return self.lines
            time.sleep(0.01)


class Drawer:
    """Draws requests. What depends on what a server told (versions, UIDs) is put in for each side, by which of the
    bodies that both have seen."""

    def __init__(self, seed: int, prefix: str) -> None:
        self.chance, self.prefix = Random(seed), prefix

    def draw(self) -> tuple[str, Callable[[Side], Request]]:
        """A step's name, and its request for a side."""
        kind = self.chance.choice(NAMED_OFTEN)
        name = f"{self.prefix}-{self.chance.choice('abc')}"
        step = self.chance.choice(STEPS_OF[kind])
        return f"{step} {kind} {name}", getattr(self, f"_{step}")(kind, name)

    def _namespace(self, kind: str) -> str:
        return "default" if kind in NAMESPACED else ""

    def _create(self, kind: str, name: str) -> Callable[[Side], Request]:
        item = KINDS[kind](name)
        if self.chance.random() < 0.3:
            item["metadata"]["finalizers"] = ["example.com/held"]
        if self.chance.random() < 0.3:
            item["metadata"]["labels"] = {"made": "1"}
        if kind == "Pod" and self.chance.random() < 0.15:
            item["spec"]["schedulingGates"] = [{"name": "example.com/hold"}]
        return lambda side: Create(kind, self._namespace(kind), msgspec.json.encode(item))

    def _get(self, kind: str, name: str) -> Callable[[Side], Request]:
        return lambda side: Get(kind, self._namespace(kind), name)

    def _changed(self, kind: str, name: str, change: Callable[[dict[str, Any]], None]) -> Callable[[Side], bytes]:
        """The body of an update: one that was told, newest most often, with its version or without, changed."""
        back = self.chance.choice((1, 1, 1, 2))
        version = self.chance.choice(("as told", "as told", "as told", "none"))
        uid = self.chance.choice(("as told", "as told", "as told", "none", "another"))

        def make(side: Side) -> bytes:
            known = side.bodies.get((kind, name)) or []
            item = msgspec.json.decode(msgspec.json.encode(known[-back])) if len(known) >= back else KINDS[kind](name)
            meta = item["metadata"]
            meta.pop("managedFields", None)  # the simulated server has none
            if version == "none":
                meta.pop("resourceVersion", None)
            if uid == "none":
                meta.pop("uid", None)
            elif uid == "another":
                meta["uid"] = "another-uid"
            change(item)
            return msgspec.json.encode(item)

        return make

    def _update(self, kind: str, name: str) -> Callable[[Side], Request]:
        number = str(self.chance.randrange(3))
        changes: list[Callable[[dict[str, Any]], None]] = [
            lambda item: item["metadata"].update(labels={"l": number}),
            lambda item: item["metadata"].update(annotations={"a": number}),
            lambda item: item["metadata"].pop("finalizers", None),
            lambda item: item["metadata"].update(finalizers=["example.com/more"]),
            lambda item: None,
        ]
        if kind == "Pod":
            changes.append(lambda item: item["spec"].update(nodeName=f"n{number}"))
        if kind == "PersistentVolumeClaim":
            changes += [lambda item: item["spec"].update(volumeName=f"v{number}")] * 2
        if kind == "PersistentVolume":
            reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": "c"}
            changes += [lambda item: item["spec"].update(claimRef=reference)] * 2
        if kind == "PodGroup":
            changes.append(lambda item: item["spec"].update(minMember=int(number) + 1))
            changes.append(lambda item: item.update(status={"phase": f"Phase{number}"}))
        if kind == "Queue":
            changes.append(lambda item: item["spec"].update(weight=int(number) + 1))
            changes.append(lambda item: item.update(status={"state": "Open", "allocated": {}}))
        make = self._changed(kind, name, self.chance.choice(changes))
        return lambda side: Update(kind, self._namespace(kind), name, make(side))

    def _status(self, kind: str, name: str) -> Callable[[Side], Request]:
        number = self.chance.randrange(3)
        wanted: dict[str, Any] = {
            "Pod": {"phase": ("Pending", "Running", "Succeeded")[number]},
            "PersistentVolume": {"phase": ("Available", "Bound", "Released")[number]},
            "PersistentVolumeClaim": {"phase": ("Pending", "Bound", "Lost")[number]},
            "Node": {"allocatable": {"cpu": str(number + 1)}, "capacity": {"cpu": "4"}},
            "PodGroup": {"phase": f"Phase{number}"},
            "Queue": {"state": f"State{number}", "allocated": {}},
        }[kind]
        labels = {"by-status": str(number)} if self.chance.random() < 0.3 else None

        def change(item: dict[str, Any]) -> None:
            item["status"] = {**(item.get("status") or {}), **wanted}
            if labels:
                item["metadata"]["labels"] = labels

        make = self._changed(kind, name, change)
        return lambda side: Update(kind, self._namespace(kind), name, make(side), "status")

    def _patch(self, kind: str, name: str) -> Callable[[Side], Request]:
        number = str(self.chance.randrange(3))
        patch: dict[str, Any] = self.chance.choice(
            [
                {"metadata": {"labels": {"l": number}}},
                {"metadata": {"labels": {"l": None, "m": number}}},
                {"metadata": {"annotations": {"a": number, "b": None}}},
                {"metadata": {"annotations": None}},
                {"metadata": {"finalizers": ["example.com/added"]}},
                {"metadata": {"finalizers": None}},
                {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/held"]}},
                {},
            ]
        )
        body = msgspec.json.encode(patch)
        return lambda side: Patch(kind, self._namespace(kind), name, body)

    def _condition(self, kind: str, name: str) -> Callable[[Side], Request]:
        condition = {
            "type": self.chance.choice(("PodScheduled", "Ready")),
            "status": self.chance.choice(("True", "False")),
            "reason": self.chance.choice(("Unschedulable", "SchedulerError")),
            "message": f"message {self.chance.randrange(2)}",
        }
        status = {"conditions": [condition], **({"nominatedNodeName": "n1"} if self.chance.random() < 0.2 else {})}
        body = msgspec.json.encode({"status": status})
        return lambda side: Patch(kind, "default", name, body, "status")

    def _bind(self, kind: str, name: str) -> Callable[[Side], Request]:
        whose = self.chance.choice(("right", "right", "right", "another", ""))
        target = self.chance.choice(("n1", "n1", "n2", ""))
        annotations = {"bound": "yes"} if self.chance.random() < 0.5 else {}

        def make(side: Side) -> Request:
            known = side.bodies.get(("Pod", name))
            uid = {"right": known[-1]["metadata"]["uid"] if known else "", "another": "another-uid", "": ""}[whose]
            return Bind("default", name, uid, target, annotations)

        return make

    def _delete(self, kind: str, name: str) -> Callable[[Side], Request]:
        whose = self.chance.choice(("", "", "right", "another"))
        grace = self.chance.choice((None, None, 0, 5, 60))

        def make(side: Side) -> Request:
            known = side.bodies.get((kind, name))
            uid = {"right": known[-1]["metadata"]["uid"] if known else "", "another": "another-uid", "": ""}[whose]
            return Delete(kind, self._namespace(kind), name, uid=uid, grace_seconds=grace)

        return make


ALL = ("create", "create", "create", "get", "update", "update", "delete")
STEPS_OF = {
    "Pod": (*ALL, "patch", "status", "condition", "condition", "bind", "bind", "bind"),
    "PersistentVolume": (*ALL, "patch", "status"),
    "PersistentVolumeClaim": (*ALL, "patch", "status"),
    "Node": (*ALL, "patch", "status"),
    "PodGroup": (*ALL, "patch", "status"),
    "Queue": (*ALL, "patch", "status"),
}


@pytest.mark.parametrize("seed", SEEDS)
def test_both_servers_answer_alike(control_plane: ControlPlane, seed: int) -> None:
    prefix = f"side-{seed}-{control_plane.namespace()}"
    port = control_plane.connect()
    real, simulated = Side(port, prefix), Side(SimulatedApi(lambda: time.time_ns() // 1000), prefix)
    drawer = Drawer(seed, prefix)
    try:
        for number in range(STEPS):
            step, make = drawer.draw()
            wanted, found = real.do(make(real)), simulated.do(make(simulated))
            assert found == wanted, f"seed {seed}, step {number}: {step}"
        told = simulated.told()
        counts = {kind: len(lines) for kind, lines in told.items()}
        assert told == real.told(counts), f"seed {seed}: the watches differ"
    finally:
        for watch in real.watches.values():
            watch.close()  # type: ignore[attr-defined]
        port.close()
