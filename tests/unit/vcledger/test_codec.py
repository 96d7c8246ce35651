"""Events with their envelope, in and out of the log's rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import EventStore, open_store
from eventstore.types import INFERRED, KEYED, RECOMPUTED, NewEvent, StreamId
from tests.unit.events import samples
from tests.unit.vcledger import build
from vcledger import codec
from vcledger.errors import UndecodableEvent, UnusableObject
from volcano.events.base import Subject, Unreadable
from volcano.events.binding import BindFailed
from volcano.events.catalog import CATALOG
from volcano.events.observation import ObjectDeleted, ObjectModified
from volcano.objects import kinds
from volcano.objects.core import Pod

POD = json.dumps(build.pod("a", 5)).encode()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    with open_store(str(tmp_path / "ledger.db"), create=True) as opened:
        yield opened


def test_an_observation_is_read_out_of_its_object() -> None:
    event = codec.observation_of(cluster="c", kind="Pod", change="DELETED", payload=POD, observed_at=7, known=INFERRED)
    assert event.stream == StreamId("c", "Pod", "default", "a", "a-u")
    assert (event.type, event.family, event.schema) == ("ObjectDeleted", "observation", 1)
    assert (event.resource_version, event.gone, event.known, event.observed_at) == (5, True, INFERRED, 7)
    assert event.payload == POD


@pytest.mark.parametrize("field", ["involvedObject", "regarding"])
def test_an_event_names_what_it_is_about(field: str) -> None:
    payload = json.dumps({"metadata": {"name": "e", "uid": "e-u"}, field: {"kind": "Pod", "uid": "a-u"}}).encode()
    event = codec.observation_of(cluster="c", kind="Event", change="ADDED", payload=payload, observed_at=7)
    assert event.about == "a-u"
    assert event.resource_version is None


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b"", "not an API object"),
        (b"[]", "not an API object"),
        (b'{"metadata":{"name":"\xff","uid":"u"}}', "not an API object"),
        (b"{}", "no metadata"),
        (b'{"metadata":{"uid":"u"}}', "no metadata.name"),
        (b'{"metadata":{"name":"n"}}', "Pod n: the object has no metadata.uid"),
    ],
)
def test_what_is_no_object_is_refused(payload: bytes, says: str) -> None:
    with pytest.raises(UnusableObject, match=says):
        codec.observation_of(cluster="c", kind="Pod", change="ADDED", payload=payload, observed_at=7)


@given(st.integers(0, codec.OPAQUE - 1))
def test_decimal_versions_are_themselves(version: int) -> None:
    assert codec.resource_version_key(str(version)) == version


@given(st.text(min_size=1), st.text(min_size=1))
def test_other_versions_are_equal_exactly_when_their_text_is(one: str, other: str) -> None:
    left, right = codec.resource_version_key(one), codec.resource_version_key(other)
    assert (left == right) == (one == other)
    assert left is not None
    assert 0 <= left < KEYED


@pytest.mark.parametrize("text", ["01", "+1", "1.0", "a", "９", str(codec.OPAQUE), "9" * 5_000])
def test_versions_that_only_look_decimal(text: str) -> None:
    found = codec.resource_version_key(text)
    assert found is not None
    assert codec.OPAQUE <= found < KEYED


def test_no_version() -> None:
    assert codec.resource_version_key(None) is None
    assert codec.resource_version_key("") is None


def test_every_domain_event_comes_back_from_the_log(store: EventStore) -> None:
    subject = Subject("Pod", "ns", "p", "u")
    made = [samples.full(event) for event in CATALOG.values() if not event.carries_object]
    store.append([codec.domain("c", subject, event, 12, cycle=4) for event in made])
    back = [codec.recorded(stored) for stored in store.read()]
    assert [one.event for one in back] == made
    assert {one.subject for one in back} == {subject}
    assert {(one.observed_at, one.known, one.cycle, one.causation) for one in back} == {(12, RECOMPUTED, 4, None)}


def test_both_ways_of_reading_give_the_same(store: EventStore) -> None:
    failed = BindFailed(node="n1", code=409, reason="Conflict", message="taken")
    events = [*build.life(), codec.domain("c", Subject("Pod", "default", "a", "a-u"), failed, build.START + 10**7)]
    store.append(events)
    store.append([build.seen("ADDED", build.pod("x", 1), 30, cluster="other")])
    short = list(codec.fold_stream(store, "c", 0, store.head()))
    assert short == [codec.recorded(stored) for stored in store.read(cluster="c", late=False)]
    assert [one.position for one in short] == list(range(1, 11))
    assert isinstance(short[7].event, ObjectDeleted)
    bound = short[4].event
    assert isinstance(bound, ObjectModified)
    assert isinstance(bound.object, Pod)
    assert bound.object.spec.node_name == "n1"


def test_kinds_that_a_fold_does_not_look_into_are_not_decoded(store: EventStore) -> None:
    store.append(build.life())
    read = list(codec.fold_stream(store, "c", 0, 9, decoders={"Pod": kinds.DECODERS["Pod"].decode}))
    whole = list(codec.fold_stream(store, "c", 0, 9))
    assert [one[:-1] for one in read] == [one[:-1] for one in whole]
    assert [type(one.event) for one in read] == [type(one.event) for one in whole]
    assert [a == b for a, b in zip(read, whole, strict=True)] == [one.kind in ("Pod", "Recording") for one in whole]


def test_a_fold_may_read_its_own_way(store: EventStore) -> None:
    store.append(build.life())
    read = list(codec.fold_stream(store, "c", 0, 9, decoders={"Pod": len}))
    sizes = [event.event.object for event in read if event.kind == "Pod"]  # type: ignore[attr-defined]
    assert sizes == [len(stored.payload) for stored in store.read(kinds="Pod")]


def _raw(kind: str, type_: str, payload: bytes, schema: int = 1) -> NewEvent:
    return NewEvent(StreamId("c", kind, "ns", "n", "u"), type_, "observation", 5, payload, schema, 0, 1)


@pytest.mark.parametrize(
    "event",
    [
        _raw("Pod", "ObjectAdded", b'{"metadata":{"labels":7}}'),
        _raw("Pod", "ObjectAdded", b'{"metadata":{"name":"\\ud800"}}'),
        _raw("Pod", "ObjectAdded", b"not json"),
        _raw("Pod", "ObjectAdded", b'{"a":' * 5_000 + b"1" + b"}" * 5_000),
        _raw("Deployment", "ObjectAdded", b"{}"),
    ],
)
def test_an_object_that_does_not_fit_its_kind_does_not_stop_a_fold(event: NewEvent, store: EventStore) -> None:
    store.append([event])
    (one,) = codec.fold_stream(store, "c", 0, 1)
    assert isinstance(one.event, Unreadable)
    assert one.event.type == "ObjectAdded"
    assert one.event.reason
    assert one == codec.recorded(store.get([1])[0])
    assert store.get([1])[0].payload == event.payload


@pytest.mark.parametrize(
    "event",
    [
        _raw("Pod", "ObjectAdded", b"{}", schema=2),
        _raw("Pod", "FromTheFuture", b"{}"),
        _raw("Pod", "BindFailed", b'{"node":1}'),
    ],
)
def test_what_only_a_newer_version_reads_stops_it_with_the_position(event: NewEvent, store: EventStore) -> None:
    store.append([event])
    with pytest.raises(UndecodableEvent, match="position 1: "):
        list(codec.fold_stream(store, "c", 0, 1))
    with pytest.raises(UndecodableEvent, match="position 1: "):
        codec.recorded(store.get([1])[0])
