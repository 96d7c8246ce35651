"""The table of all events: name, family, schema, struct and stream; encoding, decoding, and the way up from old ones.

Owns the one place where an event is listed, and `docs/events.md`, which `markdown()` makes from it. Must not know the
log (payloads are bytes here, labels are strings). Called by `vcledger.codec`, and by whoever asks what there is.

A payload is compact JSON of the struct, every field written out, so a changed default never changes an old event. The
payload of an Object event is the API object itself. Whenever a struct changes in a way that old payloads do not fit (a
field renamed, retyped, or added without a default), its schema goes up by one and UPCASTERS gets a function from the
old one; tests/unit/events/payloads.json keeps a payload of every schema there has been.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from volcano.events import (
    binding,
    cleanup,
    eviction,
    node_sync,
    observation,
    recovery,
    resync,
    scheduling,
    status,
    volume,
)
from volcano.events.base import RECORDING, SCHEDULER, DomainEvent
from volcano.objects import kinds

Upcaster: TypeAlias = Callable[[bytes], tuple[str, int, bytes]]
"""From a payload of one schema to (type, schema, payload) of a later one. Pure."""

ANY_KIND = "*"
"""`EventType.subject` of what may be about an object of any kind."""


class VocabularyError(ValueError):
    """Base of the catalog's errors. Its text is one line."""


class UnknownEvent(VocabularyError):
    """No event has that name."""


class UnknownKind(VocabularyError):
    """An Object event of a kind that is not in `volcano.objects.kinds`."""


class NewerSchema(VocabularyError):
    """The payload was written by a newer version of the program."""


class MissingUpcaster(VocabularyError):
    """The payload's schema is old and nothing leads up from it."""


class BadPayload(VocabularyError):
    """The bytes are not JSON, or not of the shape that their type and schema promise."""


class EventType(NamedTuple):
    """One event of the vocabulary. `subject` is the kind of the stream that it stands in (ANY_KIND: that of the object
    or resource); `schema` the version of the payloads that are written today."""

    name: str
    family: str
    schema: int
    struct: type[DomainEvent]
    subject: str

    @property
    def carries_object(self) -> bool:
        """The payload is an API object's own JSON."""
        return self.name in OBJECT_EVENTS

    @property
    def summary(self) -> str:
        """What the event says: the struct's docstring on one line."""
        return " ".join((self.struct.__doc__ or "").split())


OBJECT_EVENTS: dict[str, Callable[[Any], DomainEvent]] = {
    "ObjectAdded": lambda part: observation.ObjectAdded(object=part),
    "ObjectModified": lambda part: observation.ObjectModified(object=part),
    "ObjectDeleted": lambda part: observation.ObjectDeleted(object=part),
}
"""The events whose payload is an object's JSON, and how each is made from its partial struct."""


def _family(name: str, subject: str, *structs: type[DomainEvent]) -> tuple[EventType, ...]:
    return tuple(EventType(struct.__name__, name, 1, struct, subject) for struct in structs)


TYPES: tuple[EventType, ...] = (
    *_family(
        "observation",
        ANY_KIND,
        observation.ObjectAdded,
        observation.ObjectModified,
        observation.ObjectDeleted,
        observation.ListStarted,
        observation.ListCompleted,
        observation.WatchStarted,
        observation.WatchExpired,
        observation.WatchFailed,
        observation.Bookmark,
        observation.GapRecorded,
    ),
    *_family("observation", RECORDING, observation.Marker),
    *_family("scheduling", SCHEDULER, scheduling.CycleStarted),
    *_family("scheduling", "PodGroup", scheduling.JobEnqueued),
    *_family("scheduling", "Pod", scheduling.TaskAllocated, scheduling.TaskPipelined),
    *_family("scheduling", "PodGroup", scheduling.AllocationDiscarded),
    *_family("scheduling", "Pod", scheduling.TaskUnschedulable, scheduling.TaskEvicted),
    *_family("scheduling", "PodGroup", scheduling.JobConsidered),
    *_family("scheduling", SCHEDULER, scheduling.CycleEnded),
    *_family("volume", "Pod", volume.VolumesAssumed),
    *_family("volume", "PersistentVolume", volume.PVUpdateRequested, volume.PVUpdateSucceeded, volume.PVUpdateFailed),
    *_family(
        "volume", "PersistentVolumeClaim", volume.PVCUpdateRequested, volume.PVCUpdateSucceeded, volume.PVCUpdateFailed
    ),
    *_family(
        "volume",
        "Pod",
        volume.BindingChecked,
        volume.VolumesBound,
        volume.VolumesReverted,
        volume.VolumeBindingFailed,
    ),
    *_family(
        "binding",
        "Pod",
        binding.BindQueued,
        binding.BindRequested,
        binding.BindSucceeded,
        binding.BindFailed,
        binding.PodConditionPatched,
        binding.PodConditionPatchFailed,
    ),
    *_family("eviction", "Pod", eviction.EvictRequested, eviction.EvictSucceeded, eviction.EvictFailed),
    *_family(
        "status",
        "PodGroup",
        status.PodGroupUpdateRequested,
        status.PodGroupUpdateSucceeded,
        status.PodGroupUpdateFailed,
    ),
    *_family("status", "Queue", status.QueueUpdateRequested, status.QueueUpdateSucceeded, status.QueueUpdateFailed),
    *_family("status", "Scheduler", status.QueueCreateRequested, status.QueueCreateSucceeded, status.QueueCreateFailed),
    *_family(
        "resync",
        "Pod",
        resync.ResyncQueued,
        resync.ResyncRequested,
        resync.ResyncSucceeded,
        resync.ResyncFailed,
        resync.BindErrorHandlerSet,
        resync.BindErrorHandlerCalled,
    ),
    *_family("node-sync", "Node", node_sync.NodeSynced, node_sync.NodeSyncFailed, node_sync.NodeRemoved),
    *_family(
        "cleanup",
        "PodGroup",
        cleanup.JobCleanupQueued,
        cleanup.JobCleanupRetried,
        cleanup.JobCleanupDropped,
        cleanup.JobDeleted,
    ),
    *_family("recovery", SCHEDULER, recovery.RecoveryStarted),
    *_family("recovery", ANY_KIND, recovery.InDoubtQueued, recovery.InDoubtAsked, recovery.InDoubtResolved),
    *_family("recovery", SCHEDULER, recovery.RecoveryCompleted),
)
"""Every event, family by family, in the order in which things happen."""

UPCASTERS: dict[tuple[str, int], Upcaster] = {}
"""(type, schema of an old payload) to the step that leads up from it. Steps may change the type's name too. Empty as
long as every event is at its first schema."""


class Encoded(NamedTuple):
    """An event as the log takes it: type, family, schema and payload bytes."""

    type: str
    family: str
    schema: int
    payload: bytes


class Vocabulary:
    """A set of event types with the way up from their old schemas.

    The module's own is VOCABULARY; tests make others to prove what happens when a schema moves on.
    """

    def __init__(self, types: Iterable[EventType], upcasters: Mapping[tuple[str, int], Upcaster]) -> None:
        self.types: dict[str, EventType] = {}
        for event in types:
            if event.name in self.types:
                raise VocabularyError(f"two events are named {event.name}")
            self.types[event.name] = event
        self.upcasters = dict(upcasters)
        self._encoder = msgspec.json.Encoder()
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {
            name: msgspec.json.Decoder(event.struct) for name, event in self.types.items() if not event.carries_object
        }

    def encode(self, event: DomainEvent) -> Encoded:
        """Labels and payload bytes of an event. Not for Object events, whose payload is the bytes that were received:
        VocabularyError."""
        known = self.types.get(type(event).__name__)
        if known is None or known.struct is not type(event):
            raise UnknownEvent(f"{type(event).__name__} is not in the catalog")
        if known.carries_object:
            raise VocabularyError(f"{known.name}: store the object's own bytes, not an encoding of the partial struct")
        return Encoded(known.name, known.family, known.schema, self._encoder.encode(event))

    def upcast(self, name: str, schema: int, payload: bytes) -> tuple[str, bytes]:
        """Today's type name and payload of a payload of an older schema."""
        while True:
            step = self.upcasters.get((name, schema))
            if step is None:
                break
            try:
                name, schema, payload = step(payload)
            except (msgspec.DecodeError, ValueError, LookupError, TypeError, AttributeError) as error:
                raise BadPayload(f"{name}: not a payload of its schema {schema}: {error!r}") from error
        known = self.types.get(name)
        if known is None:
            raise UnknownEvent(f"no event is named {name}: was it written by a newer version?")
        if schema > known.schema:
            raise NewerSchema(f"{name} has schema {schema}, this version knows up to {known.schema}: update vcledger")
        if schema < known.schema:
            raise MissingUpcaster(f"{name}: nothing leads from schema {schema} to {known.schema}")
        return name, payload

    def decode(self, name: str, schema: int, kind: str, payload: bytes) -> DomainEvent:
        """The event of a stored payload. `kind` (our name, as in `volcano.objects.kinds`) matters to Object events
        only, whose `object` is the partial struct of that kind. Raises a VocabularyError of the fitting class."""
        name, payload = self.upcast(name, schema, payload)
        try:
            make = OBJECT_EVENTS.get(name)
            if make is None:
                event: DomainEvent = self._decoders[name].decode(payload)
                return event
            decoder = kinds.DECODERS.get(kind)
            if decoder is None:
                raise UnknownKind(f"{name}: no kind is named {kind!r}")
            return make(decoder.decode(payload))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadPayload(f"{name} of {kind or 'no kind'}: {error}") from error


VOCABULARY = Vocabulary(TYPES, UPCASTERS)
"""The events of this version."""

CATALOG: dict[str, EventType] = VOCABULARY.types
"""Event name to EventType."""

FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(event.family for event in TYPES))
"""The families in the order of the design's table."""

encode = VOCABULARY.encode
decode = VOCABULARY.decode


def family_of(name: str) -> str:
    """The family of an event. UnknownEvent when nothing has that name."""
    known = CATALOG.get(name)
    if known is None:
        raise UnknownEvent(f"no event is named {name}")
    return known.family


def types_of(family: str) -> tuple[EventType, ...]:
    """The events of a family, in the catalog's order; () when there is no such family."""
    return tuple(event for event in TYPES if event.family == family)


def json_upcaster(to_type: str, to_schema: int, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Upcaster:
    """An upcaster that works on the payload as a dict: `change` gets the old one and returns the new one."""

    def step(payload: bytes) -> tuple[str, int, bytes]:
        return to_type, to_schema, msgspec.json.encode(change(msgspec.json.decode(payload, type=dict[str, Any])))

    return step


# --- the page -----------------------------------------------------------------------------------------------------


def _type_name(hint: Any) -> str:
    """A field's type for people: `int`, `text`, `list of TaskRef`, with `or null` where it may be."""
    info = msgspec.inspect
    if isinstance(hint, info.UnionType):
        return " or ".join(_type_name(part) for part in hint.types)
    if isinstance(hint, info.CollectionType):
        return f"list of {_type_name(hint.item_type)}"
    if isinstance(hint, info.VarTupleType):
        return f"list of {_type_name(hint.item_type)}"
    if isinstance(hint, info.DictType):
        return f"map to {_type_name(hint.value_type)}"
    if isinstance(hint, info.StructType):
        return str(hint.cls.__name__)
    if isinstance(hint, info.LiteralType):
        return " / ".join(str(value) for value in hint.values)
    names = {"StrType": "text", "IntType": "int", "FloatType": "number", "BoolType": "yes/no", "NoneType": "null"}
    return names.get(type(hint).__name__, type(hint).__name__)


def _fields(event: EventType) -> str:
    if event.carries_object:
        return "the API object itself"
    found = msgspec.inspect.type_info(event.struct)
    assert isinstance(found, msgspec.inspect.StructType)
    return ", ".join(f"`{field.name}` {_type_name(field.type)}" for field in found.fields)


def markdown() -> str:
    """The page docs/events.md: one table a family, made from the catalog."""
    lines = [
        "# The events",
        "",
        "Made from `volcano/events/catalog.py` (`python -m volcano.events.catalog` prints it); a test holds the two",
        "equal. Beside the fields below each event has its position, stream, observed time, how it is known (recorded,",
        "inferred or recomputed), and, unless it is an observation, the position that caused it and its cycle.",
        "",
        "Units: `_seconds` are seconds, `_time` microseconds since 1970 (UTC), resource amounts are `cpu` in",
        "milli-cores, `memory` in bytes, `pods` and `attachable-volumes-*` in units, other scalars in thousandths.",
    ]
    for family in FAMILIES:
        lines += [
            "",
            f"## {family}",
            "",
            "| event | schema | stream | what it says | fields |",
            "|---|---|---|---|---|",
        ]
        for event in types_of(family):
            stream = "any kind" if event.subject == ANY_KIND else event.subject
            summary = event.summary.replace("|", "\\|")
            lines.append(f"| {event.name} | {event.schema} | {stream} | {summary} | {_fields(event)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
