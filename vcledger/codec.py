"""Between the language and the log: events with their envelope in and out of the store's rows.

Owns that mapping, in both directions. Must not know databases nor folds. Called by `vcledger.ledger`,
`vcledger.sources` and, for the live loop, `vcledger.runtime`.

An observation's payload is the object's JSON bytes as given here (cleaning and redaction come before). Its stream is
(cluster, kind, namespace, name, uid); what is said of a kind as a whole (lists, watches, gaps) stands in the stream of
that kind with no name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from eventstore.types import RECOMPUTED, RECORDED, RETURNED, NewEvent, StoredEvent, StreamId
from vcledger.errors import UndecodableEvent, UnusableObject
from volcano.events import catalog
from volcano.events.base import DomainEvent, Recorded, Subject, Unreadable
from volcano.events.catalog import BadPayload, UnknownKind, VocabularyError
from volcano.objects import kinds
from volcano.objects.meta import Part

if TYPE_CHECKING:
    from eventstore import EventStore

OBSERVATION_TYPES: dict[str, str] = {"ADDED": "ObjectAdded", "MODIFIED": "ObjectModified", "DELETED": "ObjectDeleted"}
"""A watch line's type to the event's."""

OBJECT_TYPES: tuple[str, ...] = tuple(OBSERVATION_TYPES.values())
"""The events whose payload is an object."""

FOLD_BATCH = 500
"""Rows that a fold reads at once: enough to make a query worth it, few enough to stay in the processor's cache."""

OPAQUE = RETURNED
"""From here up to KEYED lie the numbers of versions that are no numbers; real API servers count up from 1."""


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
    """The number under which the log recognises an observation again. Decimal versions below OPAQUE are themselves; any
    other text (the API calls them opaque) becomes a number in [OPAQUE, KEYED) made from its SHA-256, equal for equal
    text; None for none. It is never used to order anything."""
    if not text:
        return None
    if len(text) < 20 and text.isascii() and text.isdigit() and (value := int(text)) < OPAQUE and str(value) == text:
        return value
    return OPAQUE | int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big") >> 4


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
    """A stored event with its payload decoded; an observation whose object does not fit its kind comes as Unreadable.
    UndecodableEvent (the position, and why) for any other event that this version cannot read."""
    event = _event(stored.position, stored.type, stored.schema, stored.kind, stored.payload)
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


def _event(position: int, name: str, schema: int, kind: str, payload: bytes) -> DomainEvent:
    try:
        return catalog.decode(name, schema, kind, payload)
    except (BadPayload, UnknownKind) as error:
        if name in OBJECT_TYPES:
            return Unreadable(type=name, reason=str(error))
        raise UndecodableEvent(f"position {position}: {error}") from error
    except VocabularyError as error:
        raise UndecodableEvent(f"position {position}: {error}") from error


Decoders: TypeAlias = Mapping[str, Callable[[bytes], Any]]
"""A kind to what reads its objects."""

_WHOLE: Decoders = {kind: decoder.decode for kind, decoder in kinds.DECODERS.items()}


def fold_stream(
    store: EventStore, cluster: str, after: int, to: int, *, decoders: Decoders | None = None
) -> Iterator[Recorded]:
    """The events of a cluster after a position up to another, late ones left out, as a fold wants them. `decoders`:
    what reads the objects that the fold looks into, which may be less than the whole object (None: all, whole); those
    of other kinds come undecoded, as an empty Part.

    The same as `recorded` over `store.read`, on the way that makes the fewest objects: this and the fold itself are
    what a rebuild spends its time on. One event at a time, so that each is in the processor's cache while it is used,
    and freed before the next."""
    decode: dict[str, Callable[[bytes], Any]] = dict(_WHOLE)
    if decoders is not None:
        decode = {kind: decoders.get(kind, _undecoded) for kind in decode}
    today = {name: catalog.CATALOG[name].schema for name in OBJECT_TYPES}
    structs = {name: catalog.CATALOG[name].struct for name in OBJECT_TYPES}
    make = tuple.__new__
    for rows in store.read_raw(after, to, cluster, batch=FOLD_BATCH):
        for position, stream, name, schema, observed_at, known, late, version, causation, cycle, payload in rows:
            kind = stream[1]
            if today.get(name) == schema and kind in decode:
                try:
                    event = structs[name](object=decode[kind](payload))
                except (ValueError, RecursionError):
                    event = _event(position, name, schema, kind, payload)
            else:
                event = _event(position, name, schema, kind, payload)
            yield make(Recorded, (position, *stream, observed_at, known, late, version, causation, cycle, event))


_NOTHING = Part()


def _undecoded(payload: bytes) -> Part:
    return _NOTHING
