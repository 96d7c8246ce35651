"""A small cluster's life as events, for the tests of the facade.

Owns the objects. Must not know the facade. Called by the tests of `vcledger`.
"""

from __future__ import annotations

import json
from typing import Any

from eventstore import EventStore
from eventstore.types import AppendResult, NewEvent
from vcledger import codec
from vcledger.at import MICROS, parse_time
from volcano.events.base import MARKERS
from volcano.events.observation import Marker

START = parse_time("2026-03-01T03:00:00Z")
"""Observed time of second 0."""


def node(name: str, version: int, *, cpu: str = "8") -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "uid": f"{name}-u", "resourceVersion": str(version)},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(
    name: str, version: int, *, node_name: str = "", phase: str = "Pending", cpu: str = "1", uid: str = ""
) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"{name}-u",
            "resourceVersion": str(version),
            "annotations": {"scheduling.k8s.io/group-name": "g"},
        },
        "spec": {
            "schedulerName": "volcano",
            **({"nodeName": node_name} if node_name else {}),
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
        },
        "status": {"phase": phase},
    }


def pod_group(name: str, version: int, *, min_member: int = 1) -> dict[str, Any]:
    return {
        "kind": "PodGroup",
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"{name}-u",
            "resourceVersion": str(version),
        },
        "spec": {"minMember": min_member, "queue": "default"},
        "status": {"phase": "Inqueue"},
    }


def seen(change: str, thing: dict[str, Any], second: float, cluster: str = "c") -> NewEvent:
    """An observation of `thing`, `second` seconds after START."""
    return codec.observation_of(
        cluster=cluster,
        kind=thing["kind"],
        change=change,
        payload=json.dumps(thing, separators=(",", ":")).encode(),
        observed_at=START + int(second * MICROS),
    )


def marked(name: str, second: float, *, file: str = "", label: str = "", cluster: str = "c") -> NewEvent:
    event = Marker(name=name, file=file, detail=json.dumps({"label": label}) if label else "")
    return codec.domain(cluster, MARKERS, event, START + int(second * MICROS))


def life(cluster: str = "c") -> list[NewEvent]:
    """Nine events, one a second: position p is observed at second p. Two nodes, a gang of one, three pods of which one
    runs, one is deleted, one waits; a marker at 6."""
    return [
        seen("ADDED", node("n1", 1), 1, cluster),
        seen("ADDED", node("n2", 2, cpu="4"), 2, cluster),
        seen("ADDED", pod_group("g", 3), 3, cluster),
        seen("ADDED", pod("a", 4), 4, cluster),
        seen("MODIFIED", pod("a", 5, node_name="n1", phase="Running", cpu="3"), 5, cluster),
        marked("volcano-cache-dump", 6, file="volcano-cache-dump-1-busy.json", label="busy", cluster=cluster),
        seen("ADDED", pod("b", 6, node_name="n2"), 7, cluster),
        seen("DELETED", pod("b", 7, node_name="n2"), 8, cluster),
        seen("ADDED", pod("w", 8, cpu="64"), 9, cluster),
    ]


def churn(count: int, cluster: str = "c", *, nodes: int = 5, live: int = 12) -> list[NewEvent]:
    """`count` events of pods that come, run, end and go on a few nodes, about `live` of them at once, in one PodGroup;
    names come back with new UIDs. Every call gives the same."""
    events = [seen("ADDED", node(f"n{i}", i + 1, cpu="64"), i * 0.001, cluster) for i in range(nodes)]
    events.append(seen("ADDED", pod_group("g", nodes + 1, min_member=2), nodes * 0.001, cluster))

    def tell(change: str, step: int, **fields: str) -> None:
        version = len(events) + 1
        thing = pod(f"p{step % (live + 3)}", version, uid=f"p{step}-u", **fields)
        events.append(seen(change, thing, len(events) * 0.001, cluster))

    step = 0
    while len(events) < count:
        on = f"n{step * 7 % nodes}"
        tell("ADDED", step)
        tell("MODIFIED", step, node_name=on, phase="Running")
        if step >= 5 and step % 3 == 0:
            tell("MODIFIED", step - 5, node_name=f"n{(step - 5) * 7 % nodes}", phase="Succeeded")
        if step >= live:
            tell("DELETED", step - live, node_name=f"n{(step - live) * 7 % nodes}", phase="Running")
        step += 1
    return events[:count]


def append(store: EventStore, events: list[NewEvent], batch: int = 1_000) -> list[AppendResult]:
    return [store.append(events[at : at + batch]) for at in range(0, len(events), batch)]
