"""kube-scheduler-simulator: the lines of its recorder, and the snapshots that it exports.

Owns what both mean. Must not know files nor the log. Called by `vcledger.sources.reader`.

A record is what informers on a cluster saw: `{"time", "event": "Add" | "Update" | "Delete", "resource"}`, the object as
the API server sent it, but of a deletion only its kind and name. So a deletion shows the state before it, and is
inferred. A snapshot is one object with a list for each kind. Source: simulator/recorder and simulator/snapshot of
kubernetes-sigs/kube-scheduler-simulator.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from eventstore.types import NewEvent
from vcledger.sources.items import Item, Sighting, Vanished
from vcledger.sources.moments import Moments
from vcledger.sources.observe import Observer, Unusable, decoded, kind_of_object, shown
from vcledger.sources.redact import ABSENT, compact
from vcledger.sources.shape import deletion, time_of
from volcano.objects.kinds import BY_NAME

CHANGES = {"Add": "ADDED", "Update": "MODIFIED", "Delete": "DELETED"}
LISTS = {
    "nodes": "Node",
    "pvs": "PersistentVolume",
    "pvcs": "PersistentVolumeClaim",
    "storageClasses": "StorageClass",
    "priorityClasses": "PriorityClass",
    "pods": "Pod",
}
"""Lists of a snapshot, by kind of ours."""


KEPT_BYTES = 32 << 20
"""Bytes of last states that are kept for deletions; the ledger has the others."""


class _Record(msgspec.Struct):
    time: str = ""
    event: str = ""
    resource: msgspec.Raw = ABSENT


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_records = msgspec.json.Decoder(_Record)
_named = msgspec.json.Decoder(_Named)
_snapshots = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raw_items = msgspec.json.Decoder(list[msgspec.Raw] | None)


class Records:
    """Reads the lines of one record. It says who was deleted by name only: that is the object that had the name last,
    in this file or, when it begins after that, in what was imported before."""

    def __init__(self, observer: Observer, moments: Moments) -> None:
        self.observer, self.moments = observer, moments
        self._last: dict[tuple[str, str, str], NewEvent] = {}
        self._bytes = 0

    def line(self, data: bytes) -> Iterator[Item]:
        """One line. Unusable when it is broken, Unwanted when it is of no use."""
        record: _Record = decoded(_records, data)
        change = CHANGES.get(record.event)
        if change is None:
            raise Unusable(f"event {shown(record.event)} is none of Add, Update and Delete")
        moment = time_of(record.time, "time")
        body = bytes(record.resource)
        if b"\n" in body:
            body = compact(body)
        kind = kind_of_object(body)
        if change == "DELETED":
            about = decoded(_named, body).metadata
            yield self._deleted(kind.name, about, self.moments.clock.said(moment))
            return
        part = self.observer.read(kind, body)
        event = self.observer.event(kind, change, part, body, self.moments.clock.said(moment))
        self._keep(event)
        yield event

    def _deleted(self, kind: str, about: _Meta, time: int) -> Item:
        if not about.name:
            raise Unusable("a deletion without metadata.name")
        last = self._last.pop((kind, about.namespace, about.name), None)
        if last is None:
            return Vanished(time, kind, about.namespace, about.name, "")
        self._bytes -= len(last.payload)
        return deletion(last.stream, last.payload, last.resource_version, time)

    def _keep(self, event: NewEvent) -> None:
        """The last state of an object; of too many the oldest are let go."""
        key = event.stream.kind, event.stream.namespace, event.stream.name
        before = self._last.pop(key, None)
        self._last[key] = event
        self._bytes += len(event.payload) - (len(before.payload) if before is not None else 0)
        while self._bytes > KEPT_BYTES:
            oldest = self._last.pop(next(iter(self._last)))
            self._bytes -= len(oldest.payload)


def snapshot(data: bytes, observer: Observer, moments: Moments) -> Iterator[Item | Unusable]:
    """The objects in a snapshot, what its scheduler's configuration says left aside. A broken one comes as the reason
    why, so that the others are read."""
    lists = decoded(_snapshots, data)
    for name, kind_name in LISTS.items():
        if name not in lists:
            continue
        kind = BY_NAME[kind_name]
        for raw in decoded(_raw_items, lists[name]) or ():
            item = bytes(raw)
            try:
                part = observer.read(kind, item)
                event = observer.event(kind, "MODIFIED", part, item, moments.state(part))
            except Unusable as error:
                yield error
            else:
                yield Sighting(event.observed_at, event)
