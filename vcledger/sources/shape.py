"""The outer form of a JSON value: a recording's line, a watch line, an audit event, a list, or an object.

Owns the struct that reads just enough to tell, and small helpers of all readers. Must not know what follows from it.
Called by the readers of `vcledger.sources`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from eventstore.types import INFERRED, RECORDED, NewEvent, StreamId
from vcledger.errors import BadTime
from vcledger.sources.observe import Unusable
from vcledger.sources.redact import ABSENT
from vcledger.sources.times import micros
from volcano.events import catalog
from volcano.events.base import DomainEvent


class Shape(msgspec.Struct, rename="camel", gc=False):
    """Every key at the top of a value that some format is told by."""

    recorded_at: str | None = None
    marker: str | None = None
    resource: str | dict[str, msgspec.Raw] = ""
    type: str | None = None
    object: msgspec.Raw = ABSENT
    initial_list: bool = False
    relist: bool = False
    kind: str | None = None
    api_version: str | None = None
    items: msgspec.Raw = ABSENT
    level: str | None = None
    metadata: msgspec.Raw = ABSENT
    involved_object: msgspec.Raw = ABSENT
    event: msgspec.Raw = ABSENT
    pvs: msgspec.Raw = ABSENT
    pvcs: msgspec.Raw = ABSENT

    @property
    def resource_name(self) -> str:
        """A recording's resource; a simulator's record has an object under that key."""
        return self.resource if isinstance(self.resource, str) else ""


shapes = msgspec.json.Decoder(Shape)

AUDIT_GROUP = "audit.k8s.io/"


def is_audit(shape: Shape) -> bool:
    """An event of an API server's audit log, of any version."""
    return shape.kind == "Event" and (shape.api_version or "").startswith(AUDIT_GROUP)


def is_list(shape: Shape) -> bool:
    """A List, PodList, EventList ... : an envelope of items."""
    return (shape.kind or "").endswith("List") and bool(shape.api_version)


class Clock:
    """The time of observation within a file: it never goes back. `line` is the one at hand; those whose own time goes
    back are counted."""

    def __init__(self) -> None:
        self.now = self.line = 0
        self.back = self.first_line = self.furthest = 0

    def at(self, time: int | None) -> int:
        """The time, or that of the piece before when it is earlier or there is none."""
        if time is not None and time > self.now:
            self.now = time
        return self.now

    def said(self, time: int, grace: int = 0) -> int:
        """The same of a time at which the file itself says that a line was observed; `grace` is how much earlier it may
        be without a word."""
        if time < self.now - grace:
            self.back += 1
            self.first_line = self.first_line or self.line
            self.furthest = max(self.furthest, self.now - time)
        return self.at(time)

    def note(self, name: str, unit: str = "line") -> str | None:
        """What is to be said of lines, or other units, that go back in time; None when there were none."""
        if not self.back:
            return None
        by, first = span(self.furthest), f"line {self.first_line}"
        if self.back == 1:
            what = first if self.first_line else f"1 {unit}"
            return f"{name}: {what} goes back in time, by {by}: the time of what is before it stands"
        by += f" at most, the first at {first}" if self.first_line else " at most"
        return f"{name}: {self.back:,} {unit}s go back in time, by {by}: the time of what is before them stands"


def span(micros: int) -> str:
    """A length of time to read, in its largest unit: `365 d`, `2.5 s`."""
    for unit, size in (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000)):
        if micros >= size:
            return f"{micros // size:,} {unit}"
    return f"{micros / 1_000_000:.6g} s"


def time_of(text: str | None, what: str) -> int:
    """A time that a format demands. Unusable when there is none."""
    try:
        return micros(text or "")
    except BadTime as error:
        raise Unusable(f"{what}: {error}") from error


def said(cluster: str, kind: str, event: DomainEvent, observed_at: int, key: int, known: int = RECORDED) -> NewEvent:
    """An event about a kind as a whole, or about the recording, stored once under `key`."""
    return keyed(StreamId(cluster, kind, "", "", ""), event, observed_at, key, known)


def keyed(stream: StreamId, event: DomainEvent, observed_at: int, key: int, known: int) -> NewEvent:
    """An event that is no observation, stored once under `key` in its stream."""
    encoded = catalog.encode(event)
    return NewEvent(
        stream, encoded.type, encoded.family, observed_at, encoded.payload, encoded.schema, known, key, False
    )


def deletion(stream: StreamId, payload: bytes, version: int | None, time: int) -> NewEvent:
    """An object's deletion of which the last state was not seen: the state before stands in for it."""
    return NewEvent(stream, "ObjectDeleted", "observation", time, payload, 1, INFERRED, version, True)


def json_text(value: Any) -> str:
    """Compact JSON text."""
    return msgspec.json.encode(value).decode()
