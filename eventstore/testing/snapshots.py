"""What must hold of snapshots.

Owns these tests. Must not know a database. Called by `eventstore.testing`, as part of `EventStoreConformance`.
"""

from __future__ import annotations

import pytest

from eventstore.testing.build import Opener, observation
from eventstore.types import Snapshot, SnapshotMissing


def _snapshot(position: int, base: int | None = None, payload: bytes = b"state", **more: object) -> Snapshot:
    return Snapshot("cache", 3, "one", position, base, payload)._replace(**more)  # type: ignore[arg-type]


class SnapshotConformance:
    """Needs the fixture `opener`."""

    def test_a_chain_is_loaded_from_its_whole_one_on(self, opener: Opener) -> None:
        store = opener()
        store.append([observation(revision=i) for i in range(1, 41)])
        links = [(10, None), (15, 10), (20, 15), (30, None), (35, 30)]
        for position, base in links:
            store.save_snapshot(_snapshot(position, base, bytes([position]) * 1000))
        again = opener()
        for at, wanted in ((9, []), (10, [10]), (14, [10]), (29, [10, 15, 20]), (30, [30]), (34, [30]), (99, [30, 35])):
            chain = again.load_snapshots("cache", 3, "one", at)
            assert [link.position for link in chain] == wanted
            assert all(link.payload == bytes([link.position]) * 1000 for link in chain)
        assert store.verify().snapshots == 5
        assert store.verify().ok

    def test_another_version_projection_or_cluster_has_none(self, opener: Opener) -> None:
        store = opener()
        store.append([observation()])
        store.save_snapshot(_snapshot(1))
        assert store.load_snapshots("cache", 4, "one", 1) == []
        assert store.load_snapshots("cache", 3, "two", 1) == []
        assert store.load_snapshots("other", 3, "one", 1) == []
        assert len(store.load_snapshots("cache", 3, "one", 1)) == 1

    def test_a_base_that_is_not_there_is_refused(self, opener: Opener) -> None:
        store = opener()
        store.append([observation(revision=i) for i in range(1, 10)])
        store.save_snapshot(_snapshot(4))
        for wrong in (_snapshot(7, 3), _snapshot(4, 4), _snapshot(3, 4), _snapshot(7, 4, version=2)):
            if wrong.position != 4:
                with pytest.raises(SnapshotMissing):
                    store.save_snapshot(wrong)
        assert [info.position for info in store.snapshots()] == [4]

    def test_saving_again_changes_nothing(self, opener: Opener) -> None:
        store = opener()
        store.append([observation()])
        store.save_snapshot(_snapshot(1, payload=b"first"))
        opener().save_snapshot(_snapshot(1, payload=b"second"))
        assert [link.payload for link in store.load_snapshots("cache", 3, "one", 1)] == [b"first"]

    def test_the_list_has_sizes_and_no_payloads(self, opener: Opener) -> None:
        store = opener()
        store.append([observation(), observation("x", cluster="two")])
        store.save_snapshot(_snapshot(1, payload=b"a" * 10_000))
        store.save_snapshot(_snapshot(2, cluster="two", payload=b""))
        assert [(info.cluster, info.position, info.size) for info in store.snapshots()] == [
            ("one", 1, 10_000),
            ("two", 2, 0),
        ]
        assert store.snapshots(cluster="one")[0].stored_size < 1_000
        assert store.snapshots(projection="none") == []
        assert store.stats().snapshots == 2
