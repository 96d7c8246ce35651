"""The catalog: complete, round-tripping, readable for ever, and printed as docs/events.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest

from tests.unit.events import samples
from volcano.events import catalog
from volcano.events.base import DomainEvent, Unreadable
from volcano.events.catalog import CATALOG, EventType, Vocabulary, json_upcaster
from volcano.objects import kinds

DESIGN: dict[str, str] = {
    "observation": "ObjectAdded ObjectModified ObjectDeleted ListStarted ListCompleted WatchStarted WatchExpired"
    " WatchFailed Bookmark GapRecorded",
    "scheduling": "CycleStarted JobEnqueued TaskAllocated TaskPipelined AllocationDiscarded TaskUnschedulable"
    " TaskEvicted JobConsidered CycleEnded",
    "volume": "VolumesAssumed PVUpdateRequested PVUpdateSucceeded PVUpdateFailed PVCUpdateRequested PVCUpdateSucceeded"
    " PVCUpdateFailed BindingChecked VolumesBound VolumesReverted VolumeBindingFailed",
    "binding": "BindQueued BindRequested BindSucceeded BindFailed PodConditionPatched PodConditionPatchFailed",
    "eviction": "EvictRequested EvictSucceeded EvictFailed",
    "status": "PodGroupUpdateRequested PodGroupUpdateSucceeded PodGroupUpdateFailed QueueUpdateRequested"
    " QueueUpdateSucceeded QueueUpdateFailed",
    "resync": "ResyncQueued ResyncSucceeded ResyncFailed BindErrorHandlerCalled",
    "node-sync": "NodeSynced NodeSyncFailed NodeRemoved",
    "cleanup": "JobCleanupQueued JobCleanupRetried JobDeleted",
    "recovery": "RecoveryStarted InDoubtResolved RecoveryCompleted",
}
"""The table of the design, section 4, and evictions and statuses, which it has no events of their own for."""

PAYLOADS = Path(__file__).with_name("payloads.json")
ROOT = Path(__file__).parents[3]
PLAIN = [event for event in CATALOG.values() if not event.carries_object]


@pytest.mark.parametrize("family", DESIGN)
def test_every_event_of_the_design_is_in_its_family(family: str) -> None:
    assert set(DESIGN[family].split()) <= {event.name for event in catalog.types_of(family)}


def test_families_are_those_of_the_design_in_its_order() -> None:
    assert list(catalog.FAMILIES) == list(DESIGN)


def test_every_event_struct_is_listed_once_under_its_own_name() -> None:
    defined = {
        name
        for module in list(sys.modules)
        if module.startswith("volcano.events.")
        for name, thing in vars(sys.modules[module]).items()
        if isinstance(thing, type) and issubclass(thing, DomainEvent) and thing not in (DomainEvent, Unreadable)
    }
    assert defined == set(CATALOG)
    assert all(name == event.struct.__name__ == event.name for name, event in CATALOG.items())


@pytest.mark.parametrize("event", CATALOG.values(), ids=lambda event: event.name)
def test_every_event_is_frozen_documented_and_about_a_kind(event: EventType) -> None:
    assert event.struct.__struct_config__.frozen
    assert event.summary, "a docstring says what the event means"
    assert event.subject in {catalog.ANY_KIND, "Scheduler", "Recording", *kinds.BY_NAME}
    assert catalog.family_of(event.name) == event.family


@pytest.mark.parametrize("event", PLAIN, ids=lambda event: event.name)
@pytest.mark.parametrize("make", [samples.full, samples.bare])
def test_round_trip(event: EventType, make: object) -> None:
    assert callable(make)
    made = make(event)
    encoded = catalog.encode(made)
    assert encoded[:3] == (event.name, event.family, event.schema)
    assert catalog.decode(encoded.type, encoded.schema, "", encoded.payload) == made
    written = json.loads(encoded.payload)
    assert set(written) == {field.name for field in msgspec.structs.fields(event.struct)}, "every field is written"


@pytest.mark.parametrize("name", sorted(catalog.OBJECT_EVENTS))
@pytest.mark.parametrize("kind", sorted(kinds.BY_NAME))
def test_object_events_carry_the_partial_struct_of_their_kind(name: str, kind: str) -> None:
    payload = b'{"kind":"x","metadata":{"name":"a","uid":"u","labels":null},"unknown":{"deep":[1,2]}}'
    event = catalog.decode(name, 1, kind, payload)
    assert type(event) is CATALOG[name].struct
    assert event.object == kinds.decode(kind, payload)  # type: ignore[attr-defined]
    assert event.object.metadata.uid == "u"  # type: ignore[attr-defined]


def test_object_events_are_not_encoded() -> None:
    event = catalog.decode("ObjectAdded", 1, "Pod", b'{"metadata":{"name":"a"}}')
    with pytest.raises(catalog.VocabularyError, match="own bytes"):
        catalog.encode(event)


def test_payloads_of_every_schema_there_has_been_are_still_read() -> None:
    """payloads.json only ever grows: a struct that stops reading an old payload needs a schema bump and an upcaster. A
    field that has come since has its default."""
    kept = json.loads(PAYLOADS.read_text())
    for label, written in kept.items():
        name, _, schema = label.partition("/")
        decoded = catalog.decode(name, int(schema), "", json.dumps(written["payload"]).encode())
        reads = json.loads(msgspec.json.encode(decoded))
        since = {
            one.name: one.default for one in msgspec.structs.fields(decoded) if one.name not in written["reads_as"]
        }
        assert reads == {**written["reads_as"], **since}, label
    missing = {f"{event.name}/{event.schema}" for event in PLAIN} - set(kept)
    assert not missing, "add them with: python -m tests.unit.events.keep_payloads"


def test_the_page_is_what_the_catalog_says() -> None:
    page = ROOT / "docs" / "events.md"
    assert page.read_text() == catalog.markdown(), "python -m volcano.events.catalog > docs/events.md"


# --- schemas that moved on ----------------------------------------------------------------------------------------


class Landed(DomainEvent, frozen=True):
    """Schema 3 of an event which was called Arrived with {"host"} first, then Landed with {"node"}."""

    node: str
    attempt: int


def _vocabulary() -> Vocabulary:
    return Vocabulary(
        [EventType("Landed", "test", 3, Landed, "Pod")],
        {
            ("Arrived", 1): json_upcaster("Landed", 2, lambda old: {"node": old["host"]}),
            ("Landed", 2): json_upcaster("Landed", 3, lambda old: {**old, "attempt": 1}),
        },
    )


@pytest.mark.parametrize(
    ("name", "schema", "payload"),
    [
        ("Arrived", 1, b'{"host":"n1"}'),
        ("Landed", 2, b'{"node":"n1"}'),
        ("Landed", 3, b'{"node":"n1","attempt":1}'),
    ],
)
def test_old_schemas_come_up_step_by_step(name: str, schema: int, payload: bytes) -> None:
    assert _vocabulary().decode(name, schema, "Pod", payload) == Landed(node="n1", attempt=1)


@pytest.mark.parametrize(
    ("name", "schema", "error"),
    [
        ("Landed", 4, catalog.NewerSchema),
        ("Landed", 1, catalog.MissingUpcaster),
        ("Flown", 1, catalog.UnknownEvent),
    ],
)
def test_schemas_that_nothing_reads(name: str, schema: int, error: type[Exception]) -> None:
    with pytest.raises(error, match=name):
        _vocabulary().decode(name, schema, "Pod", b"{}")


def test_a_broken_step_is_a_bad_payload() -> None:
    with pytest.raises(catalog.BadPayload, match="Arrived"):
        _vocabulary().decode("Arrived", 1, "Pod", b'{"hoost":"n1"}')


def test_names_are_unique() -> None:
    with pytest.raises(catalog.VocabularyError, match="two events"):
        Vocabulary([EventType("Landed", "test", 1, Landed, "Pod")] * 2, {})


# --- what is not an event -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"null", b'{"metadata":7}', b'{"metadata":{"name":"\xff"}}'])
def test_broken_objects_are_bad_payloads(payload: bytes) -> None:
    with pytest.raises(catalog.BadPayload, match="Pod"):
        catalog.decode("ObjectAdded", 1, "Pod", payload)


def test_an_object_of_no_kind() -> None:
    with pytest.raises(catalog.UnknownKind, match="Deployment"):
        catalog.decode("ObjectAdded", 1, "Deployment", b"{}")


def test_a_struct_that_is_not_listed() -> None:
    with pytest.raises(catalog.UnknownEvent, match="Landed"):
        catalog.encode(Landed(node="n", attempt=1))
    with pytest.raises(catalog.UnknownEvent, match="Landed"):
        catalog.family_of("Landed")
