"""The facade over a small ledger: which cluster, which position, which object, which state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventstore.types import LedgerMissing
from projections.cache import Cache, CacheConfig
from tests.unit.vcledger import build
from vcledger import errors
from vcledger.at import MICROS, format_time
from vcledger.codec import domain
from vcledger.ledger import Ledger, cache_projection
from volcano.events.base import Subject
from volcano.events.binding import BindFailed
from volcano.events.observation import ObjectModified


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(str(tmp_path / "ledger.db"), create=True) as opened:
        opened.store.append(build.life())
        yield opened


def time_of(second: float) -> str:
    return format_time(build.START + int(second * MICROS))


def test_the_place_of_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VCLEDGER_DB", raising=False)
    with pytest.raises(LedgerMissing, match=r"vcledger\.db"):
        Ledger.open()
    Ledger.open(create=True).close()
    assert (tmp_path / "vcledger.db").exists()
    monkeypatch.setenv("VCLEDGER_DB", str(tmp_path / "named.db"))
    Ledger.open(create=True).close()
    assert (tmp_path / "named.db").exists()
    Ledger.open(str(tmp_path / "given.db"), create=True).close()
    assert (tmp_path / "given.db").exists()


# --- clusters -----------------------------------------------------------------------------------------------------


def test_the_only_cluster_needs_no_name(ledger: Ledger) -> None:
    assert ledger.cluster() == ledger.cluster("c") == "c"
    with pytest.raises(errors.UnknownCluster, match="no cluster 'x': it has c"):
        ledger.cluster("x")


def test_several_clusters_need_one(ledger: Ledger) -> None:
    ledger.store.append(build.life("d"))
    with pytest.raises(errors.ClusterNotNamed, match="name one of c, d"):
        ledger.cluster()
    with pytest.raises(errors.ClusterNotNamed):
        ledger.cache()
    assert ledger.cluster("d") == "d"
    assert ledger.clusters() == ["c", "d"]


def test_an_empty_ledger_says_what_to_do(tmp_path: Path) -> None:
    with Ledger.open(str(tmp_path / "empty.db"), create=True) as empty:
        assert empty.position() == 0
        with pytest.raises(errors.UnknownCluster, match="import"):
            empty.cluster()
        with pytest.raises(errors.UnknownCluster, match="empty"):
            empty.cluster("c")


# --- positions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "position"),
    [
        (None, 9),
        (4, 4),
        ("4", 4),
        ("0", 0),
        (time_of(4), 4),
        (time_of(4.999999), 4),
        (time_of(1000), 9),
        ("2026-03-01T08:30:05+05:30", 5),
        ("-0s", 9),
        ("-1s", 8),
        ("-4s", 5),
        ("-4500ms", 4),
        ("marker:busy", 6),
        ("marker:volcano-cache-dump", 6),
        ("marker:volcano-cache-dump-1-busy", 6),
        ("marker:volcano-cache-dump-1-busy.json", 6),
        ("marker:volcano-cache-dump-1-busy.json.zst", 6),
        ("marker:volcano-cache-dump-1-busy.txt", 6),
        ("marker:some/folder/volcano-cache-dump-1-busy.json", 6),
    ],
)
def test_moments(ledger: Ledger, at: str | int | None, position: int) -> None:
    assert ledger.position(at, "c") == ledger.position(at) == position


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("10", "ends at position 9"),
        (time_of(0.5), f"begins at {time_of(1)}"),
        ("-1h", "nothing was recorded at or before"),
        ("marker:idle", "it has volcano-cache-dump-1-busy.json"),
        ("yesterday", "no moment"),
    ],
)
def test_moments_that_are_not_there(ledger: Ledger, at: str, says: str) -> None:
    with pytest.raises(errors.BadTime, match=says):
        ledger.position(at)


def test_a_marker_that_is_not_the_only_one(ledger: Ledger) -> None:
    ledger.store.append([build.marked("volcano-cache-dump", 20, file="volcano-cache-dump-2-idle.json", label="idle")])
    assert ledger.position("marker:idle") == 10
    with pytest.raises(errors.UnknownMarker, match=r"2 markers .*6 \(2026-03-01T03:00:06Z\), 10 "):
        ledger.position("marker:volcano-cache-dump")


def test_moments_of_one_cluster_among_several(ledger: Ledger) -> None:
    ledger.store.append([build.seen("ADDED", build.node("far", 1), 100, cluster="d")])
    assert ledger.position("-0s", "c") == 9
    assert ledger.position("-0s", "d") == 10
    assert ledger.position("marker:busy", "c") == 6
    with pytest.raises(errors.UnknownMarker, match="it has none"):
        ledger.position("marker:busy", "d")


def test_late_events_are_no_moments_but_are_in_the_record(ledger: Ledger) -> None:
    failed = BindFailed(node="n1", code=500, message="injected")
    subject = Subject("Pod", "default", "a", "a-u")
    ledger.store.append([domain("c", subject, failed, build.START + int(4.5 * MICROS))])
    assert ledger.store.head() == 10
    assert ledger.position(time_of(4.7)) == 4
    assert ledger.position("-0s") == 9
    assert [event.late for event in ledger.recorded(types="BindFailed")] == [True]


# --- events and objects -------------------------------------------------------------------------------------------


def test_events_and_objects_by_position(ledger: Ledger) -> None:
    event = ledger.event(5)
    assert isinstance(event.event, ObjectModified)
    assert event.subject == Subject("Pod", "default", "a", "a-u")
    assert ledger.object("Pod", 5) == event.event.object
    assert json.loads(ledger.raw_object(5)) == build.pod("a", 5, node_name="n1", phase="Running", cpu="3")
    assert ledger.observed_at(5) == build.START + 5 * MICROS
    assert ledger.observed_at(10) is None
    assert [(p, o.metadata.name) for p, o in ledger.objects([5, 1, 6, 99]).items()] == [(5, "a"), (1, "n1")]
    assert ledger.objects([5])[5] is ledger.object("Pod", 5)


def test_objects_that_are_not_there(ledger: Ledger) -> None:
    for wrong in (lambda: ledger.object("Node", 5), lambda: ledger.object("Pod", 10), lambda: ledger.object("Pod", 6)):
        with pytest.raises(errors.NoSuchEvent):
            wrong()
    with pytest.raises(errors.NoSuchEvent, match="position 6 is a Marker"):
        ledger.raw_object(6)
    with pytest.raises(errors.NoSuchEvent, match="position 10"):
        ledger.event(10)


def test_an_object_as_of_a_position(ledger: Ledger) -> None:
    def phase(position: int | None) -> tuple[int, str] | None:
        found = ledger.object_as_of("Pod", "default", "a", position)
        return None if found is None else (found[0], found[1].status.phase)

    assert phase(3) is None
    assert phase(4) == (4, "Pending")
    assert phase(None) == phase(9) == (5, "Running")
    assert ledger.object_as_of("Pod", "default", "b", 7) is not None
    assert ledger.object_as_of("Pod", "default", "b", 8) is None
    assert ledger.object_as_of("Pod", "default", "b", 9) is None


def test_decoded_events_by_filter(ledger: Ledger) -> None:
    assert [event.position for event in ledger.recorded(kinds="Pod", name="b")] == [7, 8]


# --- state --------------------------------------------------------------------------------------------------------


def idle_cpu(cache: Cache, node: str) -> float:
    return float(cache.nodes[node].idle.milli_cpu)


def test_the_cache_at_each_position(ledger: Ledger) -> None:
    assert ledger.cache(0).nodes == {}
    assert sorted(ledger.cache(2).nodes) == ["n1", "n2"]
    assert idle_cpu(ledger.cache(4), "n1") == 8000
    assert idle_cpu(ledger.cache(5), "n1") == 5000
    assert idle_cpu(ledger.cache(7), "n2") == 3000
    assert idle_cpu(ledger.cache(8), "n2") == 4000
    end = ledger.cache()
    assert sorted(end.pods) == ["default/a", "default/w"]
    assert end.pods["default/a"].position == 5
    assert end.jobs["default/g"].min_available == 1


def test_the_same_moment_is_folded_once(ledger: Ledger) -> None:
    assert ledger.cache(5) is ledger.cache(5)
    assert ledger.cache(5) is not ledger.cache(5, model="exact")
    assert ledger.cache() is ledger.cache(9)
    before = idle_cpu(ledger.cache(4), "n1")
    ledger.cache(5)
    assert idle_cpu(ledger.cache(4), "n1") == before, "asking for a later moment leaves an earlier one as it was"


def test_caches_along_the_record_are_those_at_each_position(ledger: Ledger) -> None:
    projection = cache_projection()
    along = [(position, projection.digest(cache)) for position, cache in ledger.caches(range(10))]
    assert along == [(position, projection.digest(ledger.cache(position))) for position in range(10)]
    with pytest.raises(ValueError, match="rise"):
        list(ledger.caches([5, 4]))


def test_late_events_do_not_change_the_state(ledger: Ledger) -> None:
    digest = cache_projection().digest(ledger.cache())
    late = build.seen("ADDED", build.pod("z", 2, node_name="n1"), 3.5)
    assert ledger.store.append([late]).late == 1
    assert cache_projection().digest(ledger.cache()) == digest


def test_clusters_do_not_mix(ledger: Ledger) -> None:
    alone = cache_projection().digest(ledger.cache())
    ledger.store.append(build.churn(60, "d"))
    assert cache_projection().digest(ledger.cache(cluster="c")) == alone
    assert "n4" in ledger.cache(cluster="d").nodes


def test_configs_are_kept_apart(ledger: Ledger) -> None:
    other = CacheConfig(scheduler_names=("someone-else",))
    assert "g-u" not in ledger.cache(4, config=other).jobs
    assert ledger.cache(4).jobs["default/g"].tasks
    assert not ledger.cache(4, config=other).jobs["default/g"].tasks


def test_moments_without_a_state(ledger: Ledger) -> None:
    with pytest.raises(errors.UnknownModel, match=r"exact"):
        ledger.cache(model="volcano-9")
    with pytest.raises(errors.BadTime, match="ends at position 9"):
        ledger.cache(10)
    with pytest.raises(errors.BadTime, match="-1 is no position"):
        ledger.cache(-1)
