"""What must hold of retention: nothing goes that no snapshot covers, and what stays stays verifiable.

Owns these tests. Must not know a database. Called by `eventstore.testing`, as part of `EventStoreConformance`.
"""

from __future__ import annotations

import pytest

from eventstore.store import EventStore
from eventstore.testing.build import SECOND, START, Opener, observation, payload_like
from eventstore.types import KEYED, Snapshot, SnapshotMissing


def _fill(store: EventStore, cluster: str = "one") -> None:
    """100 events in batches of 10: pods 0 to 9, each seen 10 times, pods 0 to 4 gone at the end of batch 6."""
    for batch in range(10):
        store.append(
            [
                observation(
                    f"pod-{i}",
                    batch * 10 + i + 1,
                    cluster=cluster,
                    gone=batch == 5 and i < 5,
                    payload=payload_like(batch * 10 + i),
                )
                for i in range(10)
                if batch <= 5 or i >= 5 or batch == 8
            ]
        )


def _cover(store: EventStore, position: int, cluster: str = "one", base: int | None = None) -> None:
    store.save_snapshot(Snapshot("cache", 1, cluster, position, base, b"state at %d" % position))


class RetentionConformance:
    """Needs the fixture `opener`."""

    def test_nothing_goes_without_a_snapshot(self, opener: Opener) -> None:
        store = opener()
        _fill(store)
        with pytest.raises(SnapshotMissing):
            store.prune(before_position=50)
        _cover(store, 60)
        with pytest.raises(SnapshotMissing):
            store.prune(before_position=50)
        with pytest.raises(SnapshotMissing):
            store.prune(before_position=70, projections=[("cache", 1), ("other", 1)])
        assert store.first() == 1
        assert sum(1 for _ in store.read()) == store.head()

    def test_what_goes_and_what_stays(self, opener: Opener) -> None:
        store = opener()
        _fill(store)
        head = store.head()
        everything = list(store.read())
        _cover(store, 63)
        report = store.prune(before_position=64)
        assert report.cut == 60
        assert report.kept == 5
        assert report.dropped == 55
        assert store.first() == 61
        kept = [event for event in store.read() if event.position <= 60]
        assert kept == [event for event in everything if 55 < event.position <= 60]
        assert list(store.read(after=60)) == everything[60:]
        assert store.get([56, 55, 61]) == [everything[55], everything[60]]
        found = store.verify()
        assert found.findings == []
        assert (found.pruned_to, found.kept) == (60, 5)
        assert store.stats().events == head - 55
        # The ledger lives on: versions, observations and positions know what there was.
        again = opener()
        gone, alive = observation("pod-0", 900), observation("pod-7", 901)
        assert again.append([gone, alive], expected={alive.stream: 10}).positions == [head + 1, head + 2]
        assert again.append([everything[-1]._replace() and alive]).already == 1
        assert again.verify().ok

    def test_by_time_and_again(self, opener: Opener) -> None:
        store = opener()
        _fill(store)
        _cover(store, 25)
        _cover(store, 40, base=25)
        _cover(store, 70)
        report = store.prune(before_time=START + 45 * SECOND)
        assert report.cut == 40
        assert [link.position for link in store.load_snapshots("cache", 1, "one", 45)] == [25, 40]
        assert store.prune(before_position=30) == (0, 0, 0, 0, 0, report.size_after, report.size_after)
        second = store.prune(before_position=72)
        assert second.cut == 70
        assert second.snapshots == 2
        assert store.load_snapshots("cache", 1, "one", 69) == []
        assert [link.position for link in store.load_snapshots("cache", 1, "one", 99)] == [70]
        found = store.verify()
        assert found.findings == []
        assert found.pruned_to == 70
        assert store.position_at(START + 85 * SECOND) == opener().position_at(START + 85 * SECOND) == 75

    def test_streams_that_are_gone_go_with_their_events(self, opener: Opener) -> None:
        store = opener()
        names = [f"job-{i}" for i in range(50)]
        store.append([observation(name, 1, at=START) for name in names])
        store.append([observation(name, 2, at=START, gone=True) for name in names])
        store.append([observation("alive", 3, at=START)])
        _cover(store, 101)
        report = store.prune(before_position=102)
        assert (report.cut, report.dropped, report.kept, report.streams) == (101, 100, 1, 50)
        assert store.stream_head(observation("job-3").stream) is None
        assert store.verify().ok
        assert [head.stream.name for head in opener().live("one", "Pod")] == ["alive"]
        assert store.append([observation("job-3", 9, at=START)], expected={observation("job-3").stream: 0}).stored == 1
        assert store.verify().ok

    def test_the_last_observation_stays_whatever_was_said_after_it(self, opener: Opener) -> None:
        store = opener()
        store.append([observation(name, 1, at=START) for name in ("bound", "gone", "told")])
        store.append([observation("bound", 2, at=START), observation("gone", 2, gone=True, at=START)])
        store.append([observation(name, KEYED | 7, at=START) for name in ("bound", "gone", "marker")])
        store.append([observation("told", None, at=START), observation("new", 9, at=START)])
        _cover(store, 10)
        assert store.prune(before_position=11).cut == 10
        kept = [(event.stream.name, event.position) for event in store.read()]
        assert kept == [("told", 3), ("bound", 4), ("bound", 6), ("marker", 8), ("told", 9), ("new", 10)]
        live = {head.stream.name: head.position for head in store.live("one", "Pod")}
        assert live == {"told": 3, "bound": 4, "new": 10}
        assert {event.position for event in store.get(list(live.values()))} == {3, 4, 10}
        assert store.stream_head(observation("gone").stream) is None
        assert store.append([observation("marker", KEYED | 7, at=START)]).already == 1
        assert store.verify().findings == []

    def test_an_object_told_gone_again_after_its_versions_were_dropped(self, opener: Opener) -> None:
        store = opener()
        store.append([observation("a", 5, at=START, gone=True), observation("b", 6, at=START)])
        store.append([observation("a", None, at=START)])
        _cover(store, 2)
        assert store.prune(before_position=3).cut == 2
        store.append([observation("a", None, at=START, gone=True)])
        head = store.stream_head(observation("a").stream)
        assert head is not None
        assert (head.version, head.resource_version, head.gone) == (3, None, True)
        assert store.verify().findings == []

    def test_all_clusters_must_be_covered(self, opener: Opener) -> None:
        store = opener()
        for batch in range(5):
            store.append([observation(f"p{i}", batch + 1, cluster=("one", "two")[i % 2], at=START) for i in range(10)])
        _cover(store, 40, "one")
        with pytest.raises(SnapshotMissing, match="two"):
            store.prune(before_position=45)
        _cover(store, 23, "two")
        assert store.prune(before_position=45).cut == 20
        assert store.verify().ok

    def test_late_events_go_too(self, opener: Opener) -> None:
        store = opener()
        store.append(
            [observation(revision=5, at=START), observation(revision=4, at=START - 5), observation("x", 9, at=START)]
        )
        store.append([observation(revision=3, at=START - 9), observation("x", 10, at=START)])
        store.append([observation(revision=6, at=START)])
        _cover(store, 5)
        assert store.prune(before_position=6).dropped == 3
        assert [event.position for event in store.read()] == [1, 5, 6]
        assert store.append([observation(revision=8, at=START)]).stored == 1
        assert [event.version for event in store.read(name="pod-0")] == [1, 4, 5]
        assert store.verify().findings == []

    def test_room_is_given_back(self, opener: Opener) -> None:
        store = opener()
        for batch in range(5):
            store.append(
                [
                    observation(f"p-{i % 10}", batch * 400 + i, payload=bytes((i * j) % 251 for j in range(3_000)))
                    for i in range(1, 401)
                ]
            )
        _cover(store, 1_600)
        report = store.prune(before_position=1_601)
        assert report.cut == 1_600
        assert report.size_after < report.size_before
        assert store.verify().ok
