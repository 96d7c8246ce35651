"""A tiny reader of recordings for tests of the fold: watch lines as Recorded, dumps as parsed JSON.

Owns just that. Must not be taken for the importer, which is `vcledger.sources`. Called by the tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import zstandard

from volcano.events.base import DomainEvent, Recorded
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified
from volcano.objects.kinds import BY_RESOURCE, KINDS, decode

_RESOURCES = {kind.resource: kind.name for kind in reversed(KINDS)} | {key: k.name for key, k in BY_RESOURCE.items()}
_CHANGES: dict[str, type[DomainEvent]] = {"ADDED": ObjectAdded, "MODIFIED": ObjectModified, "DELETED": ObjectDeleted}


def read_text(path: Path) -> str:
    """A file's text, unpacked if its name ends in .zst or only such a one is there."""
    if not path.exists():
        path = path.with_name(path.name + ".zst")
    data = path.read_bytes()
    return (zstandard.decompress(data) if path.suffix == ".zst" else data).decode()


def watch_lines(folder: Path) -> Iterator[Recorded | dict[str, Any]]:
    """A recording's lines in order: observations as Recorded, markers as they are. Where a relist finds an object
    missing, its inferred deletion comes after the list's last item. Positions count what is given out."""
    reader = _Reader()
    for line in _lines(folder / "watch.jsonl.zst"):
        data = json.loads(line)
        if "marker" in data:
            yield data
            if data["marker"] == "list":
                yield from reader.begin_list(data)
        elif data["type"] in _CHANGES and _RESOURCES.get(data["resource"], "Event") != "Event":
            yield from reader.item(data)


class _Reader:
    """What is live, by resource, and the list that is being read of each."""

    def __init__(self) -> None:
        self.position = 0
        self.live: dict[str, dict[str, Any]] = {}
        self.lists: dict[str, tuple[int, set[str]]] = {}

    def begin_list(self, marker: dict[str, Any]) -> Iterator[Recorded]:
        self.lists[marker["resource"]] = (marker["items"], set())
        yield from self.end_list(marker)

    def item(self, data: dict[str, Any]) -> Iterator[Recorded]:
        resource, kind = data["resource"], _RESOURCES[data["resource"]]
        obj = decode(kind, json.dumps(data["object"]).encode())
        key = f"{obj.metadata.namespace}/{obj.metadata.name}"
        live = self.live.setdefault(resource, {})
        if data["type"] == "DELETED":
            live.pop(key, None)
        else:
            live[key] = obj
        yield self.recorded(data, kind, obj, _CHANGES[data["type"]], 0)
        if data.get("initialList"):
            self.lists[resource][1].add(key)
            yield from self.end_list(data)

    def end_list(self, data: dict[str, Any]) -> Iterator[Recorded]:
        resource = data["resource"]
        count, seen = self.lists[resource]
        if len(seen) == count:
            for key in [key for key in self.live.get(resource, {}) if key not in seen]:
                yield self.recorded(data, _RESOURCES[resource], self.live[resource].pop(key), ObjectDeleted, 1)

    def recorded(self, data: dict[str, Any], kind: str, obj: Any, change: type[DomainEvent], known: int) -> Recorded:
        self.position += 1
        meta = obj.metadata
        moment = datetime.fromisoformat(data["recordedAt"][:26].rstrip("Z") + "+00:00")
        micros = int(moment.timestamp() * 1_000_000)
        version = int(meta.resource_version or 0)
        event = change(object=obj)  # type: ignore[call-arg]
        where = (self.position, "recorded", kind, meta.namespace, meta.name, meta.uid)
        return Recorded(*where, micros, known, False, version, None, None, event)


def observations(folder: Path) -> list[Recorded]:
    """All observations of a recording."""
    return [line for line in watch_lines(folder) if isinstance(line, Recorded)]


def _lines(path: Path) -> Iterator[bytes]:
    yield from zstandard.decompress(path.read_bytes(), max_output_size=1 << 30).splitlines()


def documents(text: str) -> list[Any]:
    """The concatenated JSON documents of a cache dump."""
    decoder, at, found = json.JSONDecoder(), 0, []
    text = text.strip()
    while at < len(text):
        document, at = decoder.raw_decode(text, at)
        found.append(document)
        while at < len(text) and text[at].isspace():
            at += 1
    return found
