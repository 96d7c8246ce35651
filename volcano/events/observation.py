"""The observation family: what a watch, a list or an API answer showed, and where the record has gaps.

Owns these events. Must not know where they are read from. Called through `volcano.events.catalog`.

The payload of the three Object events in the log is the object's JSON itself, as the API server sent it; the catalog
decodes it into the partial struct of its kind. All other events' payloads are the struct's own JSON.
"""

from __future__ import annotations

from volcano.events.base import DomainEvent
from volcano.objects.meta import Part


class ObjectAdded(DomainEvent, frozen=True):
    """An object seen for the first time (watch ADDED, or an item of a list)."""

    object: Part


class ObjectModified(DomainEvent, frozen=True):
    """An object seen changed."""

    object: Part


class ObjectDeleted(DomainEvent, frozen=True):
    """An object gone: `object` is its last state. Inferred (the envelope's `known`) when a relist found it missing."""

    object: Part


class ListStarted(DomainEvent, frozen=True):
    """A list or relist of a kind began. Until its ListCompleted the log has the kind between two states, and nothing
    may be resumed from the versions before it."""

    resource: str


class ListCompleted(DomainEvent, frozen=True):
    """A list or relist of a kind is whole: every item of it stands before this event."""

    resource: str
    resource_version: str = ""
    items: int = 0
    relist: bool = False


class WatchStarted(DomainEvent, frozen=True):
    """A watch began, after `resource_version`."""

    resource: str
    resource_version: str = ""


class WatchExpired(DomainEvent, frozen=True):
    """410 Gone, as an HTTP status or as an ERROR line in the stream."""

    resource: str
    resource_version: str = ""
    message: str = ""


class WatchFailed(DomainEvent, frozen=True):
    """A watch or list ended in an error other than 410; `code` 0 when no HTTP answer came."""

    resource: str
    code: int = 0
    message: str = ""


class Bookmark(DomainEvent, frozen=True):
    """The API server said: everything of this resource up to `resource_version` has been sent."""

    resource: str
    resource_version: str = ""


class GapRecorded(DomainEvent, frozen=True):
    """Between two moments the record of a kind may miss changes. Times in microseconds; the counts are what the relist
    that closed the gap found: objects new, changed and missing."""

    resource: str
    from_time: int | None = None
    to_time: int | None = None
    from_resource_version: str = ""
    to_resource_version: str = ""
    added: int = 0
    modified: int = 0
    deleted: int = 0
    reason: str = ""


class Marker(DomainEvent, frozen=True):
    """A named moment that a recording marks, such as a cache dump. `file` is the file it speaks of, `label` the
    recorder's word for the moment; `detail` is the rest of the line as JSON text."""

    name: str
    file: str = ""
    label: str = ""
    detail: str = ""
