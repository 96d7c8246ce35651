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
from vcledger.sources.moments import Moments, Unsure
from vcledger.sources.observe import Observer, Unusable, decoded, hash_key, kind_of_object, shown
from vcledger.sources.shape import Shape, said
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


def control(
    observer: Observer, kind: Kind, change: str, body: bytes, time: int, line: bytes, after: str = ""
) -> Iterator[Item]:
    """The events of a BOOKMARK or ERROR line of a kind's watch. Unusable for a type that no watch has. `after` is what
    stood before it, by which a line that has no time of its own is told from another of the same text."""
    if change not in ("BOOKMARK", "ERROR"):
        raise Unusable(f"no watch line has the type {shown(change)}")
    status = decoded(_statuses, body)
    version = status.metadata.resource_version if status.metadata else ""
    resource, key = kind.full_resource, hash_key(line.strip(), after or str(time))
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
    """Reads raw watch lines. They have no time of receipt: `Moments` has the rule for that."""

    def __init__(self, observer: Observer, moments: Moments) -> None:
        self.observer = observer
        self.moments = moments
        self._last_kind: Kind | None = None
        self._last = ""
        self._since = 0

    def line(self, shape: Shape, data: bytes) -> Iterator[Item | Unsure]:
        """One line."""
        change, body = str(shape.type), bytes(shape.object)
        if change == "ERROR":
            if self._last_kind is None:
                raise Unusable("an ERROR line before any object: of what kind is not known")
            yield from self._control(self._last_kind, change, body, data)
            return
        kind = kind_of_object(body)
        self._last_kind = kind
        if change not in CHANGES:
            yield from self._control(kind, change, body, data)
            return
        yield self.change(kind, change, body)

    def place(self) -> str:
        """Where in the watch the next line stands that has no version of its own: after which object, and how
        many such lines after it. The same for the same input, whenever it is imported."""
        self._since += 1
        return f"{self._last} {self._since}"

    def _control(self, kind: Kind, change: str, body: bytes, data: bytes) -> Iterator[Item]:
        return control(self.observer, kind, change, body, self.moments.bare(), data, self.place())

    def change(self, kind: Kind, change: str, body: bytes) -> NewEvent | Unsure:
        """The observation of an object that a line carries."""
        part = self.observer.read(kind, body)
        time, newer = self.moments.change(part, body)
        event = self.observer.event(kind, change, part, body, time)
        self._last, self._since = f"{part.metadata.uid} {part.metadata.resource_version}", 0
        return event if newer or change == "ADDED" else Unsure(time, event)
