"""Hypothesis strategies for histories of a small cluster, as the API server could show them.

Owns the shapes. Must not know the cache. Called by the tests of the cache's laws.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st

from eventstore.types import NewEvent
from vcledger import codec
from volcano.events.base import DomainEvent, Recorded
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified
from volcano.objects.kinds import BY_NAME

NODES = ("n1", "n2")
GROUPS = ("g1", "g2")
CLAIMS = ("c1", "c2")
PODS = ("p1", "p2", "p3", "p4")

_amounts = st.sampled_from(("1", "500m", "2", "0", "0.0001"))
_memory = st.sampled_from(("1Gi", "512Mi", "1", "1.5Gi", "0"))


@st.composite
def _node(draw: st.DrawFn) -> dict[str, Any]:
    allocatable = {"cpu": draw(st.sampled_from(("2", "8"))), "memory": "32Gi"}
    if draw(st.booleans()):
        allocatable["pods"] = "110"
    if draw(st.booleans()):
        allocatable["nvidia.com/gpu"] = "4"
    meta: dict[str, Any] = {"name": draw(st.sampled_from(NODES))}
    if draw(st.booleans()):
        meta["annotations"] = {"volcano.sh/oversubscription-cpu": draw(st.sampled_from(("100", "250.5")))}
    images = [{"names": ["a:1", "b:1"], "sizeBytes": 7}] if draw(st.booleans()) else []
    ready = draw(st.sampled_from(("True", "True", "False", "Unknown")))
    status = {"allocatable": allocatable, "capacity": allocatable, "images": images}
    return {"metadata": meta, "status": {**status, "conditions": [{"type": "Ready", "status": ready}]}}


@st.composite
def _pod(draw: st.DrawFn) -> dict[str, Any]:
    requests = {"cpu": draw(_amounts), "memory": draw(_memory)}
    if draw(st.booleans()):
        requests["nvidia.com/gpu"] = "1"
    meta: dict[str, Any] = {"name": draw(st.sampled_from(PODS)), "namespace": "ns"}
    if draw(st.integers(0, 3)):
        meta["annotations"] = {"scheduling.k8s.io/group-name": draw(st.sampled_from(GROUPS))}
    if draw(st.integers(0, 4)) == 0:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec: dict[str, Any] = {
        "schedulerName": draw(st.sampled_from(("volcano", "volcano", "volcano", "other"))),
        "containers": [{"resources": {"requests": requests}}],
        "nodeName": draw(st.sampled_from(("", *NODES, "unknown"))),
    }
    if draw(st.integers(0, 2)) == 0:
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": draw(st.sampled_from(CLAIMS))}}]
    phase = draw(st.sampled_from(("Pending", "Running", "Running", "Succeeded", "Failed", "")))
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def _named(kind: str, names: tuple[str, ...], namespace: str, rest: st.SearchStrategy[dict[str, Any]]) -> Any:
    def build(pair: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
        meta = {"name": pair[0], **({"namespace": namespace} if namespace else {})}
        return kind, {"metadata": meta, **pair[1]}

    return st.tuples(st.sampled_from(names), rest).map(build)


_groups = st.fixed_dictionaries(
    {
        "spec": st.fixed_dictionaries(
            {
                "minMember": st.integers(0, 3),
                "queue": st.sampled_from(("", "q")),
                "priorityClassName": st.sampled_from(("", "high", "low")),
                "minTaskMember": st.sampled_from(({"a": 1}, {"a": 1, "b": 2}, {"b": 1})),
            }
        )
    }
)
_classes = st.fixed_dictionaries({"value": st.integers(0, 9), "globalDefault": st.booleans()})
_claims = st.fixed_dictionaries(
    {"spec": st.sampled_from(({"storageClassName": "s"}, {"storageClassName": ""}, {"volumeName": "v1"}))}
)
_volumes = st.just({"spec": {"csi": {"driver": "d2"}}})
_storage = st.sampled_from(({"provisioner": "d1"}, {"provisioner": "rancher.io/local-path"}))
_drivers = st.fixed_dictionaries(
    {"spec": st.sampled_from(({"drivers": [{"name": "d1", "allocatable": {"count": 3}}]}, {"drivers": []}))}
)

OBJECTS: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.one_of(
    _pod().map(lambda obj: ("Pod", obj)),
    _pod().map(lambda obj: ("Pod", obj)),
    _pod().map(lambda obj: ("Pod", obj)),
    _node().map(lambda obj: ("Node", obj)),
    _named("PodGroup", GROUPS, "ns", _groups),
    _named("Queue", ("q",), "", st.just({"spec": {"weight": 1}})),
    _named("PriorityClass", ("high", "low"), "", _classes),
    _named("PersistentVolumeClaim", CLAIMS, "ns", _claims),
    _named("PersistentVolume", ("v1",), "", _volumes),
    _named("StorageClass", ("s",), "", _storage),
    _named("CSINode", NODES, "", _drivers),
)

STEPS = st.lists(st.tuples(OBJECTS, st.integers(0, 3), st.integers(0, 9)), max_size=40)
"""(object, 0 to delete it instead if it is there, 0 to give it a new UID)."""


class Change(NamedTuple):
    """What a watch shows of an object. `number` is the step's: two changes of one step share it."""

    number: int
    kind: str
    word: str
    object: dict[str, Any]


def history(steps: list[Any]) -> tuple[list[Recorded], dict[tuple[str, str], Any]]:
    """The events that these steps make, and the objects that are live at the end."""
    shown, live = changes(steps)
    return [_event(*change) for change in shown], {key: _decode(key[0], obj) for key, obj in live.items()}


def appends(steps: list[Any], cluster: str = "c") -> list[NewEvent]:
    """The same events as a source hands them to the log."""
    return [
        codec.observation_of(
            cluster=cluster,
            kind=kind,
            change=word,
            payload=json.dumps(obj, separators=(",", ":")).encode(),
            observed_at=number * 1_000,
        )
        for number, kind, word, obj in changes(steps)[0]
    ]


def changes(steps: list[Any]) -> tuple[list[Change], dict[tuple[str, str], dict[str, Any]]]:
    """What a watch shows of these steps, and the objects that are live at the end. A pod keeps its UID, its request,
    its claims and its node until it is deleted, and a finished one stays finished: the API server allows nothing
    else."""
    live: dict[tuple[str, str], dict[str, Any]] = {}
    events: list[Change] = []
    uids = 0
    for number, ((kind, obj), fate, fresh) in enumerate(steps, 1):
        meta = obj["metadata"]
        key = (kind, f"{meta.get('namespace', '')}/{meta['name']}")
        known = live.get(key)
        if fate == 0 and known is not None:
            del live[key]
            events.append(Change(number, kind, "DELETED", known))
            continue
        if known is not None and fresh == 0:
            del live[key]
            events.append(Change(number, kind, "DELETED", known))
            known = None
        if known is None:
            uids += 1
        uid = known["metadata"]["uid"] if known else f"uid-{uids}"
        obj = {**obj, "metadata": {**meta, "uid": uid, "resourceVersion": str(number)}}
        if kind == "Pod" and known is not None:
            obj = _lawful(known, obj)
        live[key] = obj
        events.append(Change(number, kind, "MODIFIED" if known else "ADDED", obj))
    return events, live


def _lawful(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What of a pod's update the API server would let through."""
    spec = {**old["spec"], "nodeName": old["spec"]["nodeName"] or new["spec"]["nodeName"]}
    meta = dict(new["metadata"])
    if "deletionTimestamp" in old["metadata"]:
        meta["deletionTimestamp"] = old["metadata"]["deletionTimestamp"]
    finished = old["status"]["phase"] in ("Succeeded", "Failed")
    return {"metadata": meta, "spec": spec, "status": old["status"] if finished else new["status"]}


def _decode(kind: str, obj: dict[str, Any]) -> Any:
    return msgspec.convert(obj, BY_NAME[kind].struct)


_EVENTS: dict[str, type[DomainEvent]] = {"ADDED": ObjectAdded, "MODIFIED": ObjectModified, "DELETED": ObjectDeleted}


def _event(number: int, kind: str, word: str, obj: dict[str, Any]) -> Recorded:
    meta = obj["metadata"]
    event = _EVENTS[word](object=_decode(kind, obj))  # type: ignore[call-arg]
    where = (number, "c", kind, meta.get("namespace", ""), meta["name"], meta["uid"])
    return Recorded(*where, number * 1_000, 0, False, number, None, None, event)
