"""A list or watch of one namespace or of some labels, on the simulated server: what comes in is added, what leaves is
told as deleted."""

from __future__ import annotations

from typing import Any

import msgspec

from vcledger.runtime.port import Answer, WatchStream
from vcledger.scheduler.requests import Delete, Patch
from vcledger.sim.server import SimulatedApi


def claim(api: SimulatedApi, name: str, namespace: str = "a", **labels: str) -> None:
    item: dict[str, Any] = {"metadata": {"name": name, "namespace": namespace, "labels": labels}}
    item["spec"] = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    api.create("PersistentVolumeClaim", item)


def label(api: SimulatedApi, name: str, value: str) -> None:
    patch = {"metadata": {"labels": {"team": value}}}
    assert api.do(Patch("PersistentVolumeClaim", "a", name, msgspec.json.encode(patch))).ok


def told(stream: WatchStream | Answer) -> list[tuple[str, str, str]]:
    assert not isinstance(stream, Answer)
    found = []
    for line in stream.take():
        item = msgspec.json.decode(line.object)
        found.append((line.type, item["metadata"]["name"], item["metadata"]["labels"].get("team", "")))
    return found


def names(answer: Answer) -> list[str]:
    return [item["metadata"]["name"] for item in msgspec.json.decode(answer.body)["items"]]


def test_only_the_namespace_and_the_labels_are_listed() -> None:
    api = SimulatedApi()
    claim(api, "one", team="x")
    claim(api, "two", team="y")
    claim(api, "three", "b", team="x")
    assert names(api.list("PersistentVolumeClaim", namespace="a")) == ["one", "two"]
    assert names(api.list("PersistentVolumeClaim", selector="team=x")) == ["one", "three"]
    assert names(api.list("PersistentVolumeClaim", namespace="a", selector="team=x")) == ["one"]
    assert api.list("PersistentVolumeClaim", selector="team in (x)").code == 400


def test_what_comes_into_a_selection_is_added_and_what_leaves_it_is_deleted() -> None:
    api = SimulatedApi()
    claim(api, "one", team="x")
    stream = api.watch("PersistentVolumeClaim", resource_version=str(api.version), selector="team=x")
    label(api, "one", "y")
    label(api, "one", "z")
    label(api, "one", "x")
    claim(api, "two", team="y")
    claim(api, "three", "b", team="x")
    assert api.do(Delete("PersistentVolumeClaim", "a", "two")).ok
    assert api.do(Delete("PersistentVolumeClaim", "b", "three")).ok
    assert told(stream) == [
        ("DELETED", "one", "x"),
        ("ADDED", "one", "x"),
        ("ADDED", "three", "x"),
        ("MODIFIED", "three", "x"),  # its finalizer holds it
    ]
