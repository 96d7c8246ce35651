"""The server as the scheduler reaches it: with the faults of a plan in between.

Owns how a fault on a request comes about: whatever the server answers is what it really would, as somebody else writes,
binds or deletes just before, or the answer is lost. Must not know when faults are due. Called by `vcledger.sim.world`.
"""

from __future__ import annotations

from random import Random

import msgspec

from vcledger.runtime.port import Answer
from vcledger.scheduler.requests import Bind, CallHandler, Create, Delete, Get, Patch, Request, Update
from vcledger.sim import status
from vcledger.sim.faults import Fault
from vcledger.sim.server import SimulatedApi

FOREIGN = "example.com/edited-by"


class FaultyPort:
    """Requests on their way to the server. `armed` are the faults that hold now, each for `count` requests; `hits`
    counts what they hit; `foreign` are the pods (UIDs) that another scheduler has bound; `misled`: a read was stale."""

    def __init__(self, api: SimulatedApi, chance: Random) -> None:
        self.api = api
        self.chance = chance
        self.armed: list[Fault] = []
        self.hits: dict[str, int] = {}
        self.foreign: dict[str, str] = {}
        self.misled = False

    def arm(self, fault: Fault) -> None:
        """The fault holds from now on."""
        self.armed.append(fault)

    def do(self, request: Request) -> Answer:
        """Carries a request out, with the first fault that is for it."""
        if isinstance(request, CallHandler):
            return Answer(200)
        fault = next((fault for fault in self.armed if matches(fault, request)), None)
        if fault is None:
            return self.api.do(request)
        self._used(fault)
        match fault.fault:
            case "timeout-before":
                return Answer(None)
            case "timeout-after":
                self.api.do(request)
                return Answer(None)
            case "server-error":
                return Answer(500, msgspec.json.encode(status.internal("rpc error: code = Unavailable")))
            case "error-after":
                self.api.do(request)
                return Answer(500, msgspec.json.encode(status.internal("etcdserver: request timed out")))
            case "throttled":
                return Answer(429, msgspec.json.encode(status.throttled(1)))
            case "read-stale":
                return self._earlier(request, fault.pick)
            case "conflict":
                self._edit(request)
            case "lost-to-another":
                self._bind_elsewhere(request, fault.pick)
            case "gone-before":
                self._delete_pod(request)
        return self.api.do(request)

    def _used(self, fault: Fault) -> None:
        self.hits[fault.fault] = self.hits.get(fault.fault, 0) + 1
        at = self.armed.index(fault)
        if fault.count > 1:
            self.armed[at] = msgspec.structs.replace(fault, count=fault.count - 1)
        else:
            del self.armed[at]

    def _earlier(self, request: Request, pick: int) -> Answer:
        """What a read would have been answered some writes ago."""
        assert isinstance(request, Get)
        self.misled = True
        return self.api.get_at(request, self.api.version - 1 - pick % 20)

    def _edit(self, request: Request) -> None:
        """Somebody else writes the object that is to be updated."""
        assert isinstance(request, Update)
        item = self.api.object(request.kind, request.namespace, request.name)
        if item is None:
            return
        meta = item["metadata"]
        annotations = {**(meta.get("annotations") or {}), FOREIGN: f"stranger-{self.api.version}"}
        body = msgspec.json.encode({**item, "metadata": {**meta, "annotations": annotations}})
        self.api.do(Update(request.kind, request.namespace, request.name, body))

    def _bind_elsewhere(self, request: Request, pick: int) -> None:
        """Another scheduler binds the pod, to any node there is."""
        assert isinstance(request, Bind)
        nodes = [node["metadata"]["name"] for node in self.api.objects("Node")]
        if nodes:
            node = nodes[pick % len(nodes)]
            if self.api.do(Bind(request.namespace, request.name, request.uid, node)).ok:
                self.foreign[request.uid] = node

    def _delete_pod(self, request: Request) -> None:
        """The pod that is asked for, or one that uses the claim, is deleted and gone."""
        namespace, name = _target(request)
        if isinstance(request, Update) and request.kind == "PersistentVolumeClaim":
            name = name.rpartition("-data-")[0]
        self.api.do(Delete("Pod", namespace, name, grace_seconds=0))


def _target(request: Request) -> tuple[str, str]:
    assert isinstance(request, Get | Update | Patch | Bind | Delete)
    return request.namespace, request.name


def matches(fault: Fault, request: Request) -> bool:
    """Whether the fault is for this request."""
    known = Get | Update | Patch | Delete
    kind = "Pod" if isinstance(request, Bind) else request.kind if isinstance(request, known) else ""
    return (
        fault.kind == kind
        and fault.verb == request.verb
        and not isinstance(request, Create)
        and (fault.fault != "lost-to-another" or isinstance(request, Bind))
    )
