"""The recordings' watch.jsonl: watch lines with the time of receipt, lists item by item, and markers.

Owns what each of its lines means. Must not know files nor the log. Called by `vcledger.sources.reader`.

    {"recordedAt", "resource", "type", "object"}                       a watch line
    {"recordedAt", "resource", "type", "initialList": true, "object"}  an item of a list, "relist": true of a later one
    {"recordedAt", "marker": NAME, ...}                                list, watch-start, watch-end, recorder-retry,
                                                                       recorder-stop, and any other named moment
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from eventstore.types import RECORDED, StreamId
from vcledger.sources import watchlines
from vcledger.sources.items import Broke, Item, ListBegun, ListItem
from vcledger.sources.observe import Observer, Unusable, Unwanted, decoded, hash_key, kind_of_object, shown
from vcledger.sources.packing import Packing
from vcledger.sources.redact import DECODERS
from vcledger.sources.shape import Clock, Shape, json_text, keyed, said, time_of
from vcledger.sources.times import micros_of
from volcano.events.base import MARKERS
from volcano.events.observation import Marker, WatchFailed, WatchStarted
from volcano.objects.kinds import BY_RESOURCE, Kind

ALL_STOP = frozenset({"recorder-stop", "recorder-stopping"})
"""Markers after which nothing is watched."""

ON_THE_WAY = frozenset({"watch-end"})
"""Markers that say nothing which the next marker does not say as well."""

PACKED = Broke(0, "", "packed")
"""In place of an item that went into the packing."""

_HEAD = b'{"recordedAt":"'
_OBJECT = b'"object":'


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _MarkerLine(msgspec.Struct, rename="camel"):
    """The fields of all markers that mean something to us."""

    marker: str
    resource: str = ""
    list_metadata: _ListMeta | None = None
    items: int = 0
    relist: bool = False
    resource_version: str = ""
    error: str = ""
    file: str = ""
    label: str = ""


_markers = msgspec.json.Decoder(_MarkerLine)
_any = msgspec.json.Decoder(dict[str, Any])


class Recording:
    """Reads the lines of one recording."""

    def __init__(self, observer: Observer, clock: Clock, packing: Packing | None = None) -> None:
        self.observer = observer
        self.clock = clock
        self.packing = packing
        self._fast: dict[bytes, tuple[Kind, str, bool]] = {}

    def fast(self, line: bytes) -> Item | None:
        """A line in the recorder's own layout (time, resource, type, the object last) as an item, or PACKED when it
        went into the packing; None for any other line, which `line` then takes. One decoding of the object, no copy of
        the rest."""
        if not line.startswith(_HEAD):
            return None
        quote = line.find(b'"', 15, 64)
        start = line.find(_OBJECT, quote, quote + 160) + 9
        found = self._fast.get(line[quote:start])
        if found is None:
            return None
        kind, change, listed = found
        time = micros_of(line[15:quote])
        data = line[start:-1]
        part = self.observer.read(kind, data)
        if part.kind and (part.kind != kind.api_kind or not part.api_version.startswith(kind.group)):
            return None
        if line[-1] != 0x7D:
            return None
        clock = self.clock
        if time < clock.now:
            return None
        clock.now = time
        packing = self.packing
        if packing and not listed and packing.observed(self.observer, kind, change, part, data, clock.now):
            return PACKED
        event = self.observer.event(kind, change, part, data, clock.now)
        return ListItem(clock.now, event) if listed else event

    def line(self, shape: Shape, data: bytes) -> Iterator[Item]:
        """Any line of a recording."""
        time = time_of(shape.recorded_at, "recordedAt")
        if shape.marker is not None:
            yield from self._marker(decoded(_markers, data), data, self.clock.said(time))
            return
        if shape.type is None or not bytes(shape.object):
            raise Unusable("a recording's line without marker, or without type and object")
        body = bytes(shape.object)
        kind = self._kind(shape, body)
        if shape.type not in watchlines.CHANGES:
            yield from watchlines.control(self.observer, kind, shape.type, body, self.clock.said(time), data)
            return
        part = self.observer.read(kind, body)
        event = self.observer.event(kind, shape.type, part, body, self.clock.said(time))
        self._learn(data, shape, kind)
        yield ListItem(event.observed_at, event) if shape.initial_list else event

    def _kind(self, shape: Shape, body: bytes) -> Kind:
        """By the object's own word, or, as the items of lists lack it, by the resource."""
        by_resource = BY_RESOURCE.get(shape.resource_name)
        if shape.type == "ERROR" or shape.initial_list:
            if by_resource is None:
                raise Unwanted(f"resource {shown(shape.resource_name)}")
            return by_resource
        return kind_of_object(body)

    def _learn(self, data: bytes, shape: Shape, kind: Kind) -> None:
        """Remembers what stands between the time and the object, so that the next such line is read fast."""
        if not data.startswith(_HEAD) or BY_RESOURCE.get(shape.resource_name) is not kind:
            return
        quote = data.find(b'"', 15, 64)
        start = data.find(_OBJECT, quote, quote + 160) + 9
        between = data[quote:start]
        if start > 9 and bytes(shape.object) == data[start:-1] and kind.name in DECODERS and len(self._fast) < 1_000:
            self._fast[between] = (kind, str(shape.type), shape.initial_list)

    def _marker(self, marker: _MarkerLine, data: bytes, time: int) -> Iterator[Item]:
        cluster, key = self.observer.cluster, hash_key(data.strip())
        kind = BY_RESOURCE.get(marker.resource)
        if marker.marker in ("list", "watch-start", "recorder-retry"):
            if kind is None:
                raise Unwanted(f"resource {shown(marker.resource)}")
            yield from self._of_a_watch(marker, kind, time, key)
            return
        if marker.marker in ON_THE_WAY:
            raise Unwanted(f"marker {marker.marker}, which only says that a watch goes on")
        rest = {
            name: value
            for name, value in _any.decode(data).items()
            if name not in ("marker", "recordedAt", "file", "label")
        }
        event = Marker(name=marker.marker, file=marker.file, label=marker.label, detail=json_text(rest) if rest else "")
        if marker.marker in ALL_STOP:
            yield Broke(time, "", "the recorder was stopped")
        stream = StreamId(cluster, MARKERS.kind, MARKERS.namespace, MARKERS.name, MARKERS.uid)
        yield keyed(stream, event, time, key, RECORDED)

    def _of_a_watch(self, marker: _MarkerLine, kind: Kind, time: int, key: int) -> Iterator[Item]:
        cluster, resource = self.observer.cluster, marker.resource
        if marker.marker == "list":
            version = marker.list_metadata.resource_version if marker.list_metadata else ""
            yield ListBegun(time, kind.name, resource, version, marker.items, marker.relist, key)
        elif marker.marker == "watch-start":
            event = WatchStarted(resource=resource, resource_version=marker.resource_version)
            yield said(cluster, kind.name, event, time, key)
        else:
            yield Broke(time, kind.name, marker.error)
            yield said(cluster, kind.name, WatchFailed(resource=resource, message=marker.error), time, key)
