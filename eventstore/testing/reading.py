"""What must hold of reads: filters, order, heads, times, following.

Owns these tests. Must not know a database. Called by `eventstore.testing`, as part of `EventStoreConformance`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from eventstore.store import EventStore
from eventstore.testing.build import SECOND, START, Opener, observation
from eventstore.types import NewEvent, StoredEvent, StreamId
from eventstore.upcast import Upcasters


def _world() -> list[NewEvent]:
    """Three clusters' worth of events in which every filter has something to find."""
    events = []
    for i in range(120):
        events.append(
            observation(
                f"pod-{i % 9}",
                i + 1,
                at=START + i * SECOND,
                kind=("Pod", "Node", "PodGroup")[i % 3],
                cluster=("one", "two")[i % 2],
                namespace=f"ns-{i % 4}",
                type_=("ObjectAdded", "ObjectModified")[i % 5 > 0],
                about=f"uid-{i % 6}" if i % 4 == 0 else "",
                late=i % 11 == 10,
                payload=str(i).encode(),
            )._replace(family=("observation", "binding")[i % 7 == 0])
        )
    return events


FILTERS: list[tuple[dict[str, Any], Callable[[StoredEvent], bool]]] = [
    ({}, lambda e: True),
    ({"cluster": "one"}, lambda e: e.cluster == "one"),
    ({"cluster": ["one", "two"]}, lambda e: True),
    ({"cluster": "nowhere"}, lambda e: False),
    ({"kinds": "Pod"}, lambda e: e.kind == "Pod"),
    ({"kinds": ("Pod", "Node", "Gone")}, lambda e: e.kind in ("Pod", "Node")),
    ({"kinds": []}, lambda e: False),
    ({"types": "ObjectAdded"}, lambda e: e.type == "ObjectAdded"),
    ({"families": ["binding"]}, lambda e: e.family == "binding"),
    ({"types": "ObjectAdded", "families": "binding"}, lambda e: e.type == "ObjectAdded" and e.family == "binding"),
    ({"namespace": "ns-1"}, lambda e: e.namespace == "ns-1"),
    ({"namespace": "ns-1", "name": "pod-3"}, lambda e: e.namespace == "ns-1" and e.name == "pod-3"),
    ({"name": ["pod-3", "pod-4"]}, lambda e: e.name in ("pod-3", "pod-4")),
    ({"name": "a\0b"}, lambda e: False),
    ({"uid": "\ud800"}, lambda e: False),
    ({"uid": "uid-of-pod-2"}, lambda e: e.uid == "uid-of-pod-2"),
    ({"about": "uid-2"}, lambda e: e.about == "uid-2"),
    ({"about": ["uid-2", "uid-4"], "cluster": "one"}, lambda e: e.about in ("uid-2", "uid-4") and e.cluster == "one"),
    ({"late": True}, lambda e: e.late),
    ({"late": False}, lambda e: not e.late),
    ({"observed_from": START + 50 * SECOND}, lambda e: e.observed_at >= START + 50 * SECOND),
    ({"observed_to": START + 50 * SECOND}, lambda e: e.observed_at <= START + 50 * SECOND),
    (
        {"cluster": "one", "late": False, "observed_from": START + 20 * SECOND, "observed_to": START + 41 * SECOND},
        lambda e: e.cluster == "one" and not e.late and START + 20 * SECOND <= e.observed_at <= START + 41 * SECOND,
    ),
    ({"after": 37, "to": 80, "kinds": "Pod"}, lambda e: 37 < e.position <= 80 and e.kind == "Pod"),
    ({"after": 37, "to": 80, "name": "pod-3"}, lambda e: 37 < e.position <= 80 and e.name == "pod-3"),
    ({"after": 119}, lambda e: e.position > 119),
    ({"after": 500}, lambda e: False),
    ({"to": 0}, lambda e: False),
]


class ReadConformance:
    """Needs the fixture `opener`."""

    @pytest.fixture
    def world(self, opener: Opener) -> EventStore:
        store = opener()
        events = _world()
        for start in range(0, len(events), 17):
            store.append(events[start : start + 17])
        return store

    def test_filters(self, world: EventStore) -> None:
        everything = list(world.read())
        assert [event.position for event in everything] == list(range(1, 121))
        for filters, holds in FILTERS:
            wanted = [event for event in everything if holds(event)]
            for batch in (7, 2000):
                assert list(world.read(**filters, batch=batch)) == wanted, filters
                assert list(world.read(**filters, batch=batch, reverse=True)) == wanted[::-1], filters
                assert list(world.read(**filters, batch=batch, limit=3)) == wanted[:3], filters
                assert list(world.read(**filters, batch=batch, limit=3, reverse=True)) == wanted[::-1][:3], filters
            assert list(world.read(**filters, limit=0)) == []

    def test_a_read_ends_at_the_head_as_it_was(self, world: EventStore) -> None:
        reading = world.read(batch=10)
        next(reading)
        world.append([observation("new", 1, at=START + 1000 * SECOND)])
        assert sum(1 for _ in reading) == 119
        assert sum(1 for _ in world.read()) == 121

    def test_get_keeps_the_order_and_leaves_out_what_is_not_there(self, world: EventStore) -> None:
        found = world.get([50, 3, 999, 3, 0, 120, -1])
        assert [event.position for event in found] == [50, 3, 3, 120]
        assert found[0].payload == b"49"
        assert world.get([]) == []

    def test_the_fast_path_says_the_same(self, world: EventStore) -> None:
        for cluster in (None, "one", "two", "nowhere"):
            for late in (False, True):
                wanted = [
                    (e.position, e.stream, e.type, e.schema, e.observed_at, e.known, e.late, e.resource_version,
                     e.causation, e.cycle, e.payload)
                    for e in world.read(cluster=cluster, late=None if late else False, after=5, to=110)
                ]  # fmt: skip
                found = [row for rows in world.read_raw(5, 110, cluster, late=late, batch=13) for row in rows]
                assert found == wanted

    def test_heads(self, world: EventStore) -> None:
        last: dict[StreamId, StoredEvent] = {}
        versions: dict[StreamId, int] = {}
        for event in world.read():
            versions[event.stream] = event.version
            if not event.late:
                last[event.stream] = event
        for stream, version in versions.items():
            head = world.stream_head(stream)
            assert head is not None
            assert head.version == version
            if stream in last:
                assert (head.position, head.resource_version) == (last[stream].position, last[stream].resource_version)
            else:
                assert (head.position, head.resource_version) == (0, None)
        assert world.stream_head(observation("never").stream) is None
        assert world.clusters() == ["one", "two"]

    def test_live_leaves_out_what_is_gone(self, opener: Opener) -> None:
        store = opener()
        store.append([observation(f"pod-{i}", i + 1) for i in range(5)])
        store.append(
            [observation("pod-1", 10, gone=True), observation("pod-3", 11, gone=True), observation("n", kind="Node")]
        )
        assert [head.stream.name for head in store.live("one", "Pod")] == ["pod-0", "pod-2", "pod-4"]
        store.append([observation("pod-1", 12)])
        assert [(head.stream.name, head.resource_version) for head in store.live("one", "Pod")][-1] == ("pod-1", 12)
        store.append([observation("pod-2", None, at=START + 20 * SECOND)])
        head = store.stream_head(observation("pod-2").stream)
        assert head is not None
        assert (head.version, head.resource_version, head.gone) == (2, 3, False)
        assert store.live("one", "Nothing") == store.live("nowhere", "Pod") == []
        assert store.has_live("one", "Pod")
        assert not store.has_live("one", "Nothing") and not store.has_live("nowhere", "Pod")
        store.append([observation("n", 20, kind="Node", gone=True), observation("", None, kind="Queue")])
        assert store.live("one", "Node") == [] and not store.has_live("one", "Node")
        assert not store.has_live("one", "Queue"), "what is said of the kind as a whole is no object"

    def test_position_at_is_the_last_one_in_time(self, world: EventStore) -> None:
        events = [event for event in world.read() if not event.late]
        for time in range(START - SECOND, START + 130 * SECOND, SECOND // 2):
            for cluster in (None, "one", "two"):
                wanted = max(
                    (e.position for e in events if e.observed_at <= time and cluster in (None, e.cluster)), default=0
                )
                assert world.position_at(time, cluster) == wanted
        assert world.position_at(START, "nowhere") == 0
        assert world.high_water("one") == max(event.observed_at for event in events if event.cluster == "one")
        assert world.high_water("nowhere") is None

    def test_an_empty_ledger(self, opener: Opener) -> None:
        store = opener()
        assert (store.head(), store.first(), store.clusters(), list(store.read())) == (0, 1, [], [])
        assert store.position_at(START) == 0
        assert list(store.read_raw()) == []
        assert store.verify().ok

    def test_upcasters_are_applied_on_the_way_out(self, opener: Opener) -> None:
        store = opener()
        store.append([observation(payload=b"old"), observation("pod-1", payload=b"new", schema=2)])
        upcasters = Upcasters({("ObjectModified", 1): lambda payload: ("ObjectModified", 2, payload + b" made new")})
        assert [(e.schema, e.payload) for e in store.read(upcasters=upcasters)] == [(2, b"old made new"), (2, b"new")]
        assert [(e.schema, e.payload) for e in store.read()] == [(1, b"old"), (2, b"new")]

    def test_following_gives_what_is_there_and_what_comes(self, opener: Opener) -> None:
        store, writer = opener(), opener()
        writer.append([observation(revision=i) for i in range(1, 4)])
        seen: list[int] = []
        done = threading.Event()

        def run() -> None:
            for events in store.follow(1, stop=done.is_set, poll_seconds=0.05, kinds="Pod"):
                assert events
                seen.extend(event.position for event in events)
                if seen[-1] >= 10:
                    done.set()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            for revision in range(4, 8):
                writer.append([observation(revision=revision)])
                writer.append([observation("n", revision, kind="Node", at=START + revision * SECOND)])
            thread.join(120)
        finally:
            done.set()
            thread.join(120)
        assert seen == [position for position in range(2, 11) if position not in (5, 7, 9, 11)]
