"""Watch lines as the API server sends them: {"type", "object"}, also as kubectl prints them.

Owns what each type of line means. Must not know files nor the log. Called by `vcledger.sources.reader` and
`vcledger.sources.recording`.

ADDED, MODIFIED and DELETED carry an object. BOOKMARK carries a kind and a version only, its containers null. ERROR
carries a Status, which is never an object: 410 says that the version to watch from is gone.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from eventstore.types import NewEvent
from vcledger.sources.items import Broke, Item
from vcledger.sources.observe import (
    Observer,
    Unusable,
    decoded,
    hash_key,
    kind_of_object,
    newest_time,
    shown,
)
from vcledger.sources.shape import Clock, Shape, said
from volcano.events.observation import Bookmark, WatchExpired, WatchFailed
from volcano.objects.kinds import Kind

CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
GONE = 410


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Status(msgspec.Struct, rename="camel"):
    """meta/v1 Status, or a bookmark: what of both is read."""

    code: int = 0
    reason: str = ""
    message: str = ""
    metadata: _Meta | None = None


_statuses = msgspec.json.Decoder(_Status)


def control(observer: Observer, kind: Kind, change: str, body: bytes, time: int, line: bytes) -> Iterator[Item]:
    """The events of a BOOKMARK or ERROR line of a kind's watch. Unusable for a type that no watch has."""
    if change not in ("BOOKMARK", "ERROR"):
        raise Unusable(f"no watch line has the type {shown(change)}")
    status = decoded(_statuses, body)
    version = status.metadata.resource_version if status.metadata else ""
    resource, key = kind.full_resource, hash_key(line.strip(), str(time))
    if change == "BOOKMARK":
        yield said(observer.cluster, kind.name, Bookmark(resource=resource, resource_version=version), time, key)
        return
    message = status.message or status.reason
    if status.code == GONE or status.reason in ("Expired", "Gone"):
        event: WatchExpired | WatchFailed = WatchExpired(resource=resource, resource_version=version, message=message)
    else:
        event = WatchFailed(resource=resource, code=status.code, message=message)
    yield Broke(time, kind.name, f"{status.code or 'error'}: {message}")
    yield said(observer.cluster, kind.name, event, time, key)


class WatchLines:
    """Reads raw watch lines. They have no time of receipt: `newest_time` of the object stands in for it."""

    def __init__(self, observer: Observer, clock: Clock) -> None:
        self.observer = observer
        self.clock = clock
        self._last_kind: Kind | None = None

    def line(self, shape: Shape, data: bytes) -> Iterator[Item]:
        """One line."""
        change, body = str(shape.type), bytes(shape.object)
        if change == "ERROR":
            if self._last_kind is None:
                raise Unusable("an ERROR line before any object: of what kind is not known")
            yield from control(self.observer, self._last_kind, change, body, self.clock.at(None), data)
            return
        kind = kind_of_object(body)
        self._last_kind = kind
        if change not in CHANGES:
            yield from control(self.observer, kind, change, body, self.clock.at(None), data)
            return
        yield self.change(kind, change, body)

    def change(self, kind: Kind, change: str, body: bytes) -> NewEvent:
        """The observation of an object that a line carries."""
        part = self.observer.read(kind, body)
        return self.observer.event(kind, change, part, body, self.clock.at(newest_time(part)))
