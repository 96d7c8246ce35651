"""The real cache's retry queues with time as data, and what the fold notes of trouble."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from projections.cache import Cache, CacheConfig, CacheProjection, SnapshotInvalid
from projections.cache.parsing import parse_bool, parse_duration_seconds, parse_float, parse_int32
from projections.registry import find
from tests.stateful.histories import history
from volcano.events.base import Recorded
from volcano.events.observation import Bookmark, ObjectAdded
from volcano.objects.meta import ObjectMeta

POD: dict[str, Any] = {
    "metadata": {"name": "p1", "namespace": "ns", "annotations": {"scheduling.k8s.io/group-name": "g"}},
    "spec": {
        "schedulerName": "volcano",
        "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        "volumes": [{"persistentVolumeClaim": {"claimName": "c"}}],
        "nodeName": "",
    },
    "status": {"phase": "Pending"},
}
CLAIM = {"metadata": {"name": "c", "namespace": "ns"}, "spec": {"storageClassName": "s"}}
CLASS = {"metadata": {"name": "s"}, "provisioner": "d"}
QUEUE = {"metadata": {"name": "q"}}


def events(*steps: tuple[str, dict[str, Any], int], every: int = 1_000) -> list[Recorded]:
    """Each (kind, object, fate): 0 deletes. One event each `every` microseconds."""
    made, _ = history([((kind, obj), fate, 1) for kind, obj, fate in steps])
    return [event._replace(observed_at=number * every) for number, event in enumerate(made, 1)]


def fold(model: str, recorded: list[Recorded]) -> Cache:
    projection = CacheProjection(model)
    cache = projection.initial()
    for event in recorded:
        cache = projection.evolve(cache, event)
    return cache


def test_a_job_without_pods_goes_after_its_delay() -> None:
    steps = [("Pod", POD, 1), ("Pod", POD, 0), ("Queue", QUEUE, 1)]
    assert "ns/g" in fold("volcano-1.11", events(*steps)).jobs
    assert fold("volcano-1.11", events(*steps, every=5_000)).jobs == {}
    assert fold("exact", events(*steps)).jobs == {}


def test_a_clean_up_that_fails_is_put_off_twice_as_long_each_time() -> None:
    again = [("Pod", POD, 1), ("Pod", POD, 0), ("Pod", POD, 1)]
    later = [("Queue", {"metadata": {"name": f"q{n}"}}, 1) for n in range(40)]
    cache = fold("volcano-1.11", events(*again, *later, every=4_000))
    retry = cache.pending_cleanup["ns/g"]
    assert retry.attempts == 5
    assert retry.due - cache.now <= 5_000 << 5
    assert cache.next_due == retry.due


def test_a_claim_that_comes_late_is_counted_by_the_next_resync() -> None:
    key = "attachable-volumes-csi-d"
    steps = [("StorageClass", CLASS, 1), ("Pod", POD, 1), ("PersistentVolumeClaim", CLAIM, 1), ("Queue", QUEUE, 1)]
    early = fold("volcano-1.11", events(*steps))
    assert early.pending_resync and key not in early.jobs["ns/g"].total_request.amounts()
    late = fold("volcano-1.11", events(*steps, ("Queue", QUEUE, 1), ("Queue", QUEUE, 1), every=6_000))
    assert late.pending_resync == {}
    assert late.jobs["ns/g"].total_request.amounts()[key] == 1
    exact = fold("exact", events(*steps))
    assert exact.jobs["ns/g"].total_request.amounts()[key] == 1


def test_a_topology_that_goes_makes_no_node() -> None:
    topology, node = {"metadata": {"name": "n"}}, {"metadata": {"name": "n"}}
    steps = [("Numatopology", topology, 1), ("Node", node, 1), ("Node", node, 0), ("Numatopology", topology, 0)]
    for model in ("volcano-1.10", "volcano-1.11", "exact"):
        seen = [sorted(fold(model, events(*steps[:count])).nodes) for count in range(1, 5)]
        assert seen == [[] if model == "exact" else ["n"], ["n"], [], []]


def test_events_that_are_no_observation_change_nothing() -> None:
    projection = CacheProjection()
    cache = fold("volcano-1.11", events(("Queue", QUEUE, 1)))
    before = projection.digest(cache)
    recorded = events(("Queue", QUEUE, 1))[0]._replace(event=Bookmark(resource="queues"), position=7)
    assert projection.digest(projection.evolve(cache, recorded)) == before


def test_an_unknown_kind_is_left_alone() -> None:
    projection = CacheProjection()
    recorded = events(("Queue", QUEUE, 1))[0]._replace(kind="Event")
    cache = projection.evolve(projection.initial(), recorded)
    assert cache.queues == {} and cache.positions == {}


def test_other_options_have_snapshots_of_their_own() -> None:
    default, other = CacheProjection(), CacheProjection(config=CacheConfig(scheduler_names=("mine",)))
    assert default.name == "cache/volcano-1.11"
    assert other.name.startswith("cache/volcano-1.11/") and len(other.name) > len(default.name) + 8
    assert find(default.name, default.version) is not None
    assert find(default.name, default.version + 1) is None
    assert find(other.name, other.version) is None


def test_what_is_no_snapshot_is_refused() -> None:
    projection, exact = CacheProjection(), CacheProjection("exact")
    whole = projection.dump(fold("volcano-1.11", events(("Queue", QUEUE, 1))))
    changes = projection.dump_changes(projection.load([whole]))
    for chain in ([], [b""], [b"\x93\x01\x02\x03"], [changes], [whole, whole], [whole[:-4]], [whole, b"x"]):
        with pytest.raises(SnapshotInvalid):
            projection.load(chain)
    with pytest.raises(SnapshotInvalid, match="under exact"):
        exact.load([exact_bytes(whole)])


def test_changes_need_a_whole_snapshot_first() -> None:
    with pytest.raises(ValueError, match="follow a whole snapshot"):
        CacheProjection().dump_changes(CacheProjection().initial())


def test_a_long_fold_without_snapshots_keeps_no_list_of_changes() -> None:
    projection = CacheProjection()
    cache = projection.initial()
    (event,) = events(("Queue", QUEUE, 1))
    for number in range(1, 9_000):
        obj = msgspec.structs.replace(event.event.object, metadata=_named(f"q{number}"))  # type: ignore[attr-defined]
        cache = projection.evolve(cache, event._replace(position=number, event=ObjectAdded(object=obj)))
    assert len(cache.queues) == 8_999 and len(cache.touched.objects) < 1_000


def _named(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, resource_version=name[1:])


def exact_bytes(whole: bytes) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.decode(whole))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h2m", 3720),
        ("90s", 90),
        ("-5m", -300),
        ("+1.5h", 5400),
        ("100ms", 0.1),
        (".5s", 0.5),
        ("0", 0),
        ("soon", None),
        ("5", None),
        ("", None),
        ("1h 2m", None),
        ("1d", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_duration_seconds(text) == (None if seconds is None else pytest.approx(seconds))


def test_go_readings_of_small_texts() -> None:
    assert [parse_bool(text) for text in ("T", "true", "0", "F", "yes", "TRue", "")] == [True, True, False, False] + [
        None
    ] * 3
    assert [parse_int32(text) for text in ("7", "-7", "+7", "2147483648", "1_0", "1.0", " 1")] == [7, -7, 7] + [
        None
    ] * 4
    assert [parse_float(text) for text in ("1.5", "1e3", "x", "1_0", "inf", " 1")] == [1.5, 1000.0, 0, 0, 0, 0]


@pytest.mark.parametrize("model", ["volcano-1.10", "volcano-1.11", "exact"])
@pytest.mark.parametrize("memory", [10**30, "9E", "20E", "1e30", "8Ei", "-1e30"])
def test_amounts_beyond_64_bits_are_kept(model: str, memory: str | int) -> None:
    def pod(name: str) -> dict[str, Any]:
        requests = {"cpu": memory, "memory": memory, "ephemeral-storage": memory}
        return {
            "metadata": {"name": name, "namespace": "ns", "annotations": {"scheduling.k8s.io/group-name": "g"}},
            "spec": {
                "schedulerName": "volcano",
                "nodeName": "n",
                "containers": [{"resources": {"requests": requests}}],
            },
            "status": {"phase": "Running"},
        }

    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"memory": memory, "pods": "9E"}}}
    steps: list[tuple[str, dict[str, Any], int]] = [("Node", node, 1)]
    steps += [("Pod", pod(f"p{number}"), 1) for number in range(4)]
    projection = CacheProjection(model)
    cache = fold(model, events(*steps))
    assert projection.digest(projection.load([projection.dump(cache)])) == projection.digest(cache)
    cache = projection.evolve(cache, events(*steps, ("Pod", pod("p1"), 0))[-1]._replace(position=50))
    assert projection.digest(projection.load([projection.dump(cache)])) == projection.digest(cache)
