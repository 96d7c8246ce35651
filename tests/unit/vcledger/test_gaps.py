"""What an answer about a moment has to warn of: gaps that lie around it or before it, kinds that were never looked at,
and a moment that the record does not reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventstore.types import NewEvent
from tests.unit.vcledger import build
from vcledger import codec, gaps
from vcledger.at import MICROS, format_time
from vcledger.ledger import Ledger
from volcano.events.base import DomainEvent, Subject
from volcano.events.observation import GapRecorded, ListCompleted, WatchFailed, WatchStarted


def micros(second: float) -> int:
    return build.START + int(second * MICROS)


def about(kind: str, event: DomainEvent, second: float, cluster: str = "c") -> NewEvent:
    """An event about a kind as a whole."""
    return codec.domain(cluster, Subject(kind=kind, namespace="", name="", uid=""), event, micros(second))


def gap(kind: str, start: float, end: float, *, to_version: str = "9", **counts: int) -> NewEvent:
    body = GapRecorded(
        resource=kind,
        from_time=micros(start),
        to_time=micros(end),
        from_resource_version="4",
        to_resource_version=to_version,
        reason="the recorder was stopped",
        **counts,
    )
    return about(kind, body, end)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """The record of `life` until second 9, then a gap until 30, in which the node was seen until 5; more at 31."""
    with Ledger.open(str(tmp_path / "ledger.db"), create=True) as opened:
        opened.store.append(build.life())
        opened.store.append([gap("Node", 5, 30), gap("Pod", 9, 30.4, added=2, deleted=1), gap("Queue", 5, 30.5)])
        opened.store.append([gap("PodGroup", 5, 30.6, to_version="4")])
        opened.store.append([build.seen("ADDED", build.node("n3", 20), 31)])
        yield opened


def test_a_gap_is_found_from_moments_before_the_relist_that_recorded_it(ledger: Ledger) -> None:
    asked = gaps.moment(ledger, format_time(micros(20)), "c")
    assert (asked.position, asked.time) == (9, micros(20))
    found = gaps.gaps_at(ledger, "c", asked.time)
    assert [(one.kind, one.inside) for one in found] == [("Node", True), ("Pod", True), ("Queue", True)]
    assert gaps.warnings(ledger, asked, "c") == [
        "gap in the record: Pod, Node, Queue: not recorded 03:00:09 to 03:00:30; this moment lies inside it"
    ]


@pytest.mark.parametrize(("second", "kinds"), [(5, []), (6, ["Node", "Queue"]), (9, ["Node", "Queue"]), (31, [])])
def test_the_last_that_was_recorded_is_still_covered(ledger: Ledger, second: float, kinds: list[str]) -> None:
    assert [one.kind for one in gaps.gaps_at(ledger, "c", micros(second))] == kinds


def test_gaps_of_a_range_are_those_that_reach_into_it(ledger: Ledger) -> None:
    assert [one.kind for one in gaps.gaps_between(ledger, "c")] == ["Node", "Pod", "Queue"]
    assert [one.kind for one in gaps.gaps_between(ledger, "c", micros(1), micros(8))] == ["Node", "Queue"]
    assert [one.kind for one in gaps.gaps_between(ledger, "c", micros(30.2), None)] == ["Pod", "Queue"]
    assert gaps.gaps_between(ledger, "c", micros(31), None) == []
    start, end = gaps.moment(ledger, "1", "c"), gaps.moment(ledger, None, "c")
    assert gaps.warnings_between(ledger, start, end, "c") == [
        "gap in the record: Pod, Node, Queue: not recorded 03:00:09 to 03:00:30; then 2 new, 1 gone"
    ]


def test_a_watch_that_ended_and_was_not_taken_up_again_is_a_gap_without_an_end(ledger: Ledger) -> None:
    ledger.store.append([about("Pod", WatchFailed(resource="pods", message="EOF"), 40)])
    assert [(one.kind, one.to_time) for one in gaps.gaps_at(ledger, "c", micros(41))] == [("Pod", None)]
    ledger.store.append([about("Pod", WatchStarted(resource="pods"), 42)])
    assert gaps.gaps_at(ledger, "c", micros(43)) == []


def test_a_kind_that_is_not_installed_is_neither_a_gap_nor_unknown(ledger: Ledger) -> None:
    ledger.store.append([about("PersistentVolume", WatchFailed(resource="persistentvolumes", code=404), 40)])
    assert gaps.gaps_at(ledger, "c", micros(41)) == []
    assert gaps.unwatched(ledger, "c", ["PersistentVolume"]) == []


def test_a_kind_that_is_recorded_by_namespaces_has_gaps_of_each(ledger: Ledger) -> None:
    def of(namespace: str, event: DomainEvent, second: float) -> NewEvent:
        return codec.domain("c", Subject(kind="Pod", namespace=namespace, name="", uid=""), event, micros(second))

    ledger.store.append(
        [
            of("a", WatchFailed(resource="pods", message="EOF"), 40),
            of("b", WatchFailed(resource="pods", message="EOF"), 41),
            of("a", WatchStarted(resource="pods"), 42),
        ]
    )
    (open_gap,) = gaps.gaps_at(ledger, "c", micros(50))
    assert (open_gap.kind, open_gap.from_micros) == ("Pod", micros(41))


def test_other_clusters_gaps_do_not_count(ledger: Ledger) -> None:
    ledger.store.append(build.life("d"))
    assert gaps.gaps_at(ledger, "d", micros(20)) == []


def test_kinds_that_were_never_looked_at(ledger: Ledger) -> None:
    wanted = ["Pod", "PersistentVolume", "PersistentVolumeClaim"]
    ledger.store.append([about("PersistentVolume", WatchFailed(resource="persistentvolumes", code=403), 40)])
    assert gaps.unwatched(ledger, "c", wanted) == ["PersistentVolume", "PersistentVolumeClaim"]
    ledger.store.append([about("PersistentVolume", ListCompleted(resource="persistentvolumes"), 41)])
    assert gaps.unwatched(ledger, "c", wanted) == ["PersistentVolumeClaim"]


def test_a_time_after_the_end_of_the_record_is_said(ledger: Ledger) -> None:
    late = gaps.moment(ledger, "2026-03-01T05:00:00Z", "c")
    assert gaps.record_notes(ledger, late, "c") == [
        "the record of c ends at 2026-03-01T03:00:31Z, before 2026-03-01T05:00:00Z: this is its end"
    ]
    assert gaps.record_notes(ledger, gaps.moment(ledger, None, "c"), "c") == []
    ledger.store.append(build.life("d"))
    assert gaps.record_notes(ledger, gaps.moment(ledger, "9", "d"), "d") == [
        "nothing of d is recorded up to position 9"
    ]


def test_the_time_of_a_state_is_that_of_its_own_cluster(ledger: Ledger) -> None:
    """Neither another cluster's event nor a late one at the position is the time of the state there."""
    ledger.store.append([build.seen("ADDED", build.node("x", 1), 50, "d")])
    other = ledger.store.head()
    ledger.store.append([build.seen("ADDED", build.pod("old", 3), 2)])
    late = ledger.store.head()
    assert late == other + 1
    assert ledger.observed_at(other, "c") == micros(31)
    assert ledger.observed_at(late, "c") == micros(31)
    assert ledger.observed_at(other, "d") == micros(50)
    assert ledger.observed_at(1, "d") is None
