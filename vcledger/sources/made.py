"""API objects that an importer makes, for traces that have none or only parts of them.

Owns what such objects have in common: uids and versions that are the same in each import, and their observation. Must
not know any trace. Called by `vcledger.sources.alibaba_objects` and `vcledger.sources.simkube_pods`.

All of it is inferred: no API server has sent these objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from uuid import UUID, uuid5

import msgspec

from eventstore.types import INFERRED, NewEvent
from vcledger.at import MICROS, format_time
from vcledger.sources.observe import Observer, Unusable
from volcano.objects import quantity
from volcano.objects.kinds import BY_NAME, Kind

GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
DEFAULT_QUEUE = "default"
_UIDS = UUID("6f1c5a3e-52b2-5c0e-9f0b-6f70656e6221")

CREATED, SCHEDULED, ENDED, DELETED = range(4)
"""The steps of a pod's life. A resourceVersion is made from when it happened and which it is."""


def version_of(time: int, step: int) -> int:
    """The resourceVersion of an object's step at a time (microseconds), from 1 on, rising within a life."""
    return time // 1_000 * 4 + step + 1


def meta(identity: str, name: str, created: int, version: int, namespace: str = "") -> dict[str, Any]:
    """Metadata of an object; its uid comes from `identity`, created in microseconds."""
    found = {
        "name": name,
        "uid": uid_of(identity),
        "resourceVersion": str(version),
        "creationTimestamp": stamp(created),
    }
    return found | ({"namespace": namespace} if namespace else {})


@lru_cache(1 << 14)
def uid_of(identity: str) -> str:
    """The uid of what is called so."""
    return str(uuid5(_UIDS, identity))


@lru_cache(1 << 14)
def stamp(time: int) -> str:
    """Whole seconds, as the API server writes them."""
    return format_time(time - time % MICROS)


def observed(observer: Observer, kind_name: str, change: str, built: Mapping[str, Any], time: int) -> NewEvent:
    """The observation of an object of one of our kinds. Unusable when the folds could not read it."""
    kind: Kind = BY_NAME[kind_name]
    api_version = f"{kind.group}/{kind.versions[0]}" if kind.group else kind.versions[0]
    try:
        data = msgspec.json.encode({"kind": kind.api_kind, "apiVersion": api_version, **built})
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise Unusable(f"{kind.api_kind}: {error}") from error
    return observer.event(kind, change, observer.read(kind, data), data, time, INFERRED)


def queue(observer: Observer, name: str, time: int) -> NewEvent:
    """An open queue of weight 1."""
    built = {
        "metadata": meta(f"Queue/{name}", name, time, 1),
        "spec": {"weight": 1, "reclaimable": True},
        "status": {"state": "Open"},
    }
    return observed(observer, "Queue", "ADDED", built, time)


def scheduled_status(phase: str, since: int) -> dict[str, Any]:
    """The status of a pod that was scheduled, nobody says where."""
    at = stamp(since)
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
    return {"phase": phase, "conditions": [condition], "startTime": at}


def requests_of(spec: Any) -> dict[str, str]:
    """What the containers of a pod's spec ask for together; sidecars and init containers left aside. Unusable when an
    amount is none."""
    found: dict[str, int] = {}
    for container in each(spec, "containers"):
        resources = container.get("resources")
        asked = resources.get("requests") if isinstance(resources, dict) else None
        for name, amount in (asked if isinstance(asked, dict) else {}).items():
            try:
                found[name] = found.get(name, 0) + quantity.milli_value(amount)
            except (ValueError, OverflowError, TypeError, AttributeError) as error:
                raise Unusable(f"request of {name}: {error}") from error
    return {name: f"{milli}m" if milli % 1_000 else str(milli // 1_000) for name, milli in found.items()}


def each(value: Any, key: str) -> list[dict[str, Any]]:
    """The objects in a list of an object; none where there is no such thing."""
    items = value.get(key) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
