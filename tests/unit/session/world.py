"""A cache and its mirror, filled with objects as the API server sends them.

Owns the harness of the session's tests. Must not know what is expected. Called by tests/unit/session and bench.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from projections.cache import Cache
from projections.cache.fold import Delivery, observe, tick
from projections.cache.state import PodRef
from vcledger.scheduler.session.conf import PluginConf, SessionConf
from vcledger.scheduler.session.mirror import Mirror
from volcano.objects import kinds
from volcano.objects.core import Pod
from volcano.objects.resource import ResourceInsufficient

Object = dict[str, Any]

CONF = SessionConf(
    actions=("enqueue", "allocate", "backfill"),
    tiers=(
        (PluginConf("priority"), PluginConf("gang")),
        (
            PluginConf("drf"),
            PluginConf("predicates"),
            PluginConf("proportion"),
            PluginConf("nodeorder"),
            PluginConf("binpack"),
        ),
    ),
)
"""Volcano's default one, with binpack."""

GROUP = "scheduling.k8s.io/group-name"


def node(name: str, *, cpu: str = "4", memory: str = "8Gi", **more: Any) -> Object:
    """A node; `labels`, `taints`, `unschedulable`, `pods`, `amounts` of other resources."""
    amounts = {"cpu": cpu, "memory": memory, "pods": more.get("pods", "110"), **more.get("amounts", {})}
    spec = {"taints": more.get("taints"), "unschedulable": more.get("unschedulable", False)}
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": f"{name}-u", "labels": more.get("labels", {})},
        "spec": spec,
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def queue(name: str = "default", **spec: Any) -> Object:
    return {
        "kind": "Queue",
        "metadata": {"name": name, "uid": f"{name}-q"},
        "spec": {"weight": 1, **spec},
        "status": {"state": "Open"},
    }


def group(name: str, least: int = 1, *, phase: str = "Inqueue", queue: str = "default", **spec: Any) -> Object:
    meta = {"name": name, "namespace": "d", "uid": f"{name}-g", "creationTimestamp": spec.pop("created", None)}
    return {
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": least, "queue": queue, **spec},
        "status": {"phase": phase},
    }


def pod(name: str, group: str = "", *, cpu: str = "1", on: str = "", phase: str = "", **more: Any) -> Object:
    """A pod; `role`, `memory`, `labels`, `priority`, `deleting`, and any field of its spec under `spec`."""
    annotations = {}
    if group:
        annotations[GROUP] = group
    if more.get("role"):
        annotations["volcano.sh/task-spec"] = more["role"]
    meta: Object = {
        "name": name,
        "namespace": "d",
        "uid": more.get("uid", f"{name}-u"),
        "annotations": annotations,
        "labels": more.get("labels", {}),
    }
    if more.get("deleting"):
        meta["deletionTimestamp"] = "2026-03-01T10:00:00Z"
    requests = {key: amount for key, amount in (("cpu", cpu), ("memory", more.get("memory"))) if amount}
    requests |= more.get("requests", {})
    spec: Object = {
        "schedulerName": "volcano",
        "nodeName": on,
        "priority": more.get("priority"),
        "containers": [{"name": "c", "resources": {"requests": requests}}],
        **more.get("spec", {}),
    }
    status = {"phase": phase or ("Running" if on else "Pending")}
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": status}


class World:
    """Objects go in with `see`, and the mirror is told."""

    def __init__(self, *objects: Object, model: str = "exact") -> None:
        self.cache = Cache(model)
        self.pods: dict[str, Pod] = {}
        self.position = 0
        self.mirror = Mirror(self.cache, self.pod_of)
        self.see(*objects)

    def pod_of(self, ref: PodRef) -> Pod | None:
        return self.pods.get(f"{ref.namespace}/{ref.name}")

    def see(self, *objects: Object) -> None:
        for one in objects:
            self._deliver(one, gone=False)

    def lose(self, *objects: Object) -> None:
        for one in objects:
            self._deliver(one, gone=True)

    def _deliver(self, one: Object, *, gone: bool) -> None:
        self.position += 1
        kind = one["kind"]
        meta = {**one["metadata"], "resourceVersion": str(self.position)}
        data = msgspec.json.encode({**one, "metadata": meta})
        obj = kinds.decode(kind, data)
        key = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]
        if kind == "Pod":
            if gone:
                self.pods.pop(key, None)
            else:
                self.pods[key] = obj
        self.cache.now = self.position * 1_000_000
        if self.cache.next_due <= self.cache.now:
            tick(self.cache)
        with suppress(ResourceInsufficient):  # the real cache panics, and what is left behind stays
            observe(self.cache, Delivery(kind, obj, gone=gone), self.position)
        self.cache.position = self.position
        self.mirror.touch(kind, meta.get("namespace", ""), meta["name"])


__all__ = ["CONF", "Object", "World", "group", "node", "pod", "queue"]
