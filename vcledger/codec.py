"""Between the language and the log: events with their envelope in and out of the store's rows.

Owns that mapping, in both directions. Must not know databases nor folds. Called by `vcledger.ledger`,
`vcledger.sources` and, for the live loop, `vcledger.runtime`.

An observation's payload is the object's JSON bytes as given here (cleaning and redaction come before). Its stream is
(cluster, kind, namespace, name, uid); what is said of a kind as a whole (lists, watches, gaps) stands in the stream of
that kind with no name.
"""

from __future__ import annotations

import hashlib

import msgspec

from eventstore.types import RECOMPUTED, RECORDED, NewEvent, StoredEvent, StreamId
from vcledger.errors import UndecodableEvent, UnusableObject
from volcano.events import catalog
from volcano.events.base import DomainEvent, Recorded, Subject
from volcano.events.catalog import VocabularyError

OBSERVATION_TYPES: dict[str, str] = {"ADDED": "ObjectAdded", "MODIFIED": "ObjectModified", "DELETED": "ObjectDeleted"}
"""A watch line's type to the event's."""

OBJECT_TYPES: tuple[str, ...] = tuple(OBSERVATION_TYPES.values())
"""The events whose payload is an object."""

_RESOURCE_VERSION_MAX = 2**62


class _Reference(msgspec.Struct, gc=False):
    uid: str | None = None


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resource_version: str | None = None


class _Identity(msgspec.Struct, rename="camel", gc=False):
    metadata: _Meta | None = None
    involved_object: _Reference | None = None
    regarding: _Reference | None = None


_identity = msgspec.json.Decoder(_Identity)


def resource_version_key(text: str | None) -> int | None:
    """The number under which the log recognises an observation again. Decimal versions are themselves; any other text
    (the API calls them opaque) becomes a negative number made from its SHA-256, equal for equal text; None for none.
    It is never used to order anything."""
    if not text:
        return None
    if text.isascii() and text.isdigit() and (value := int(text)) < _RESOURCE_VERSION_MAX and str(value) == text:
        return value
    return -1 - int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:7], "big")


def observation(
    *,
    cluster: str,
    kind: str,
    change: str,
    payload: bytes,
    observed_at: int,
    known: int = RECORDED,
    namespace: str = "",
    name: str = "",
    uid: str = "",
    resource_version: str | None = None,
    about: str = "",
) -> NewEvent:
    """An Object event from what the caller has already read out of the object.

    `change` is the watch line's type (ADDED, MODIFIED, DELETED), `kind` our name of the kind, `payload` the object's
    JSON, `observed_at` in microseconds, `about` the uid that a core Event speaks of."""
    return NewEvent(
        StreamId(cluster, kind, namespace, name, uid),
        OBSERVATION_TYPES[change],
        "observation",
        observed_at,
        payload,
        1,
        known,
        resource_version_key(resource_version),
        change == "DELETED",
        False,
        about,
        None,
        None,
    )


def observation_of(
    *, cluster: str, kind: str, change: str, payload: bytes, observed_at: int, known: int = RECORDED
) -> NewEvent:
    """The same, reading name, uid, version and what it speaks of from the object. UnusableObject when the bytes are no
    JSON object, or without metadata, name or uid."""
    try:
        found = _identity.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableObject(f"{kind}: not an API object: {error}") from error
    meta = found.metadata
    if meta is None or not meta.name or not meta.uid:
        missing = "metadata" if meta is None else "metadata.name" if not meta.name else "metadata.uid"
        raise UnusableObject(f"{kind}{' ' + meta.name if meta and meta.name else ''}: the object has no {missing}")
    reference = found.involved_object or found.regarding
    return observation(
        cluster=cluster,
        kind=kind,
        change=change,
        payload=payload,
        observed_at=observed_at,
        known=known,
        namespace=meta.namespace or "",
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        about=(reference.uid or "") if reference is not None else "",
    )


def domain(
    cluster: str,
    subject: Subject,
    event: DomainEvent,
    observed_at: int,
    *,
    known: int = RECOMPUTED,
    about: str = "",
    causation: int | None = None,
    cycle: int | None = None,
) -> NewEvent:
    """Any other event, about `subject`. Decisions are RECOMPUTED, what an audit line proves is INFERRED, what an API
    answer or a watch said is RECORDED. Raises a VocabularyError for Object events and for what no catalog lists."""
    encoded = catalog.encode(event)
    return NewEvent(
        StreamId(cluster, subject.kind, subject.namespace, subject.name, subject.uid),
        encoded.type,
        encoded.family,
        observed_at,
        encoded.payload,
        encoded.schema,
        known,
        None,
        False,
        False,
        about,
        causation,
        cycle,
    )


def recorded(stored: StoredEvent) -> Recorded:
    """A stored event with its payload decoded. UndecodableEvent names the position and why."""
    try:
        event = catalog.decode(stored.type, stored.schema, stored.kind, stored.payload)
    except VocabularyError as error:
        raise UndecodableEvent(f"position {stored.position}: {error}") from error
    return Recorded(
        stored.position,
        stored.cluster,
        stored.kind,
        stored.namespace,
        stored.name,
        stored.uid,
        stored.observed_at,
        stored.known,
        stored.late,
        stored.resource_version,
        stored.causation,
        stored.cycle,
        event,
    )
