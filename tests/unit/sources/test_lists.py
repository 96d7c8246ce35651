"""What lists prove: deletions that nobody saw, gaps, and nothing twice.

Owns the list's state machine and its effect on a ledger. Must not test formats.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from eventstore.types import INFERRED, RECORDED, AppendResult, NewEvent
from tests.data import recording, recordings
from tests.unit.sources.given import (
    NO_SNAPSHOTS,
    events,
    imported,
    ledger,
    listed,
    marker,
    pod,
    recorded,
    watch_line,
    watch_of,
    written,
)
from vcledger.sources import ImportOptions, import_paths
from vcledger.sources.lists import CHANGED, NEW, SAME, Known, LastSeen, Relist, Watches
from volcano.events.observation import GapRecorded


def known(name: str, uid: str, version: int = 1) -> Known:
    return Known("ns", name, uid, version, 10 + version)


def test_a_relist_tells_new_changed_same_replaced_and_missing() -> None:
    relist = Relist(
        [known("same", "u1"), known("changed", "u2"), known("again", "u3"), known("z", "u4"), known("b", "u5")]
    )
    assert relist.item("ns", "same", "u1", 1) == (SAME, None)
    assert relist.item("ns", "changed", "u2", 5) == (CHANGED, None)
    assert relist.item("ns", "again", "u9", 6) == (NEW, known("again", "u3"))
    assert relist.item("ns", "new", "u8", 7) == (NEW, None)
    assert [one.name for one in relist.missing()] == ["b", "z"]
    assert relist.missing() == []
    assert (relist.added, relist.changed, relist.same, relist.deleted) == (2, 1, 1, 3)


def test_an_outage_begins_at_the_last_sign_of_life_and_keeps_its_first_reason() -> None:
    watches = Watches()
    assert watches.listed("Pod", None, False) is None
    watches.broke("Pod", LastSeen(5, "50"), "reset")
    watches.broke("Pod", LastSeen(9, "50"), "refused")
    outage = watches.listed("Pod", LastSeen(9, "50"), True)
    assert outage is not None and outage.since == LastSeen(5, "50") and outage.reason == "reset"
    watches.broke("Pod", LastSeen(20, "60"), "closed")
    watches.resumed("Pod")
    again = watches.listed("Pod", LastSeen(30, "70"), True)
    assert again is not None and again.since == LastSeen(30, "70")


FIRST = listed([pod("a", 10), pod("b", 11)], 0, "20") + recorded("ADDED", pod("c", 21), 5)
SECOND = listed([pod("b", 11), pod("c", 30), pod("d", 31), pod("a", 40, uid="another")], 60, "50", relist=True)


def test_a_relist_infers_deletions_in_order_and_records_the_gap(tmp_path: Path) -> None:
    report = imported(
        tmp_path, written(tmp_path, "w", FIRST, marker("recorder-retry", 6, resource="pods", error="reset"), SECOND)
    )
    found = events(tmp_path)
    assert [(one.type, one.name, one.uid, one.resource_version, one.known) for one in found[4:] if one.name] == [
        ("ObjectModified", "c", "uid-of-c", 30, RECORDED),
        ("ObjectAdded", "d", "uid-of-d", 31, RECORDED),
        # Deleted and made again under its name: the old one goes first.
        ("ObjectDeleted", "a", "uid-of-a", 10, INFERRED),
        ("ObjectAdded", "a", "another", 40, RECORDED),
    ]
    with ledger(tmp_path) as opened:
        gaps = [one.event for one in opened.recorded(types="GapRecorded")]
    assert gaps == [
        GapRecorded(
            resource="pods",
            from_time=found[3].observed_at,
            to_time=found[-1].observed_at,
            from_resource_version="21",
            to_resource_version="50",
            added=2,
            modified=1,
            deleted=1,
            reason="reset",
        )
    ]
    assert found[-1].type == "ListCompleted" and found[-2].type == "GapRecorded"
    # b had not changed: it is there already.
    assert (report.already, len(report.gaps)) == (1, 1)


def test_missing_objects_are_deleted_with_their_last_state_after_the_items(tmp_path: Path) -> None:
    last = pod("c", 25, labels={"last": "state"})
    data = FIRST + recorded("MODIFIED", last, 6) + listed([pod("z", 60)], 60, "70", relist=True)
    imported(tmp_path, written(tmp_path, "w", data))
    gone = [one for one in events(tmp_path) if one.gone]
    assert [one.name for one in gone] == ["a", "b", "c"]
    assert json.loads(gone[2].payload) == last and gone[2].resource_version == 25
    order = [one.type for one in events(tmp_path)][-6:]
    assert order == ["ObjectAdded", *["ObjectDeleted"] * 3, "GapRecorded", "ListCompleted"]


def test_a_list_in_a_later_file_knows_what_the_ledger_has(tmp_path: Path) -> None:
    imported(tmp_path, written(tmp_path, "first", FIRST))
    report = imported(tmp_path, written(tmp_path, "second", SECOND))
    assert [(one.name, one.uid) for one in events(tmp_path) if one.gone] == [("a", "uid-of-a")]
    assert [(gap.kind, gap.added, gap.modified, gap.deleted) for gap in report.gaps] == [("Pod", 2, 1, 1)]


def test_the_two_gaps_of_recording_07(tmp_path: Path) -> None:
    """notes.md: the API server is killed; later the recorder stops, and meanwhile two jobs and nine pods go, node n7
    and job same-name are made again."""
    report = imported(tmp_path, recording("07") / "watch.jsonl.zst")
    first, second = [gap for gap in report.gaps if gap.kind == "Pod"]
    assert (first.added, first.modified, first.deleted) == (0, 0, 0)
    assert "ClientPayloadError" in first.reason and second.reason == "the recorder was stopped"
    assert (second.added, second.modified, second.deleted) == (2, 1, 9)
    node = next(gap for gap in report.gaps if gap.kind == "Node" and gap.deleted)
    assert (node.added, node.deleted) == (1, 1)
    inferred = Counter(one.kind for one in events(tmp_path) if one.gone)
    assert inferred == {"Pod": 9, "Node": 1, "PodGroup": 3, "VolcanoJob": 3}
    assert all(one.known == INFERRED for one in events(tmp_path) if one.gone)
    n7 = [one.type for one in events(tmp_path, kinds=["Node"], name="n7")][-2:]
    assert n7 == ["ObjectDeleted", "ObjectAdded"]


def test_a_list_with_broken_items_infers_nothing(tmp_path: Path) -> None:
    second = SECOND.replace(b'"requests":{"cpu":"1"}', b'"requests":{"cpu":"one"}', 1)
    report = imported(tmp_path, written(tmp_path, "w", FIRST, second))
    assert report.broken_count == 1 and "'one' is no quantity" in report.broken[0].reason
    assert any("lacks 1 of its 4 items" in note for note in report.notes)
    # a was seen to be replaced; of what is merely missing nothing is said, and the list does not count as whole.
    assert [one.name for one in events(tmp_path) if one.gone] == ["a"]
    assert [one.type for one in events(tmp_path)].count("ListCompleted") == 1


def test_410_in_the_stream_is_an_event_and_no_object(tmp_path: Path) -> None:
    """Report R1: the ERROR line carries a Status, and the list after it closes the gap from the last version seen."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "too old",
        "code": 410,
    }
    lines = (
        watch_line("ADDED", pod("p1", 100)),
        watch_line("ERROR", status),
        watch_line(
            "LIST",
            {
                "kind": "PodList",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": "5000"},
                "items": [pod("p2", 4000)],
            },
        ),
        watch_line("ADDED", pod("p3", 5001)),
    )
    report = imported(tmp_path, written(tmp_path, "w", *lines))
    assert report.broken_count == 0
    types = [(one.type, one.name) for one in events(tmp_path)]
    assert types == [
        ("ObjectAdded", "p1"),
        ("WatchExpired", ""),
        ("ObjectAdded", "p2"),
        ("ObjectDeleted", "p1"),
        ("GapRecorded", ""),
        ("ListCompleted", ""),
        ("ObjectAdded", "p3"),
    ]
    with ledger(tmp_path) as opened:
        gap = next(iter(opened.recorded(types="GapRecorded"))).event
    assert isinstance(gap, GapRecorded)
    assert (gap.from_resource_version, gap.to_resource_version, gap.reason) == ("100", "5000", "410: too old")


def test_bookmarks_with_null_containers_are_bookmarks(tmp_path: Path) -> None:
    """Report R2."""
    mark = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "777", "creationTimestamp": None},
        "spec": {"containers": None},
        "status": {},
    }
    report = imported(tmp_path, written(tmp_path, "w", watch_line("ADDED", pod()), watch_line("BOOKMARK", mark)))
    assert report.broken_count == 0
    assert [(one.type, one.kind) for one in events(tmp_path)] == [("ObjectAdded", "Pod"), ("Bookmark", "Pod")]


@pytest.mark.slow
@pytest.mark.parametrize("folder", recordings()[:4], ids=lambda folder: folder.name[:2])
def test_importing_a_recording_again_adds_nothing(tmp_path: Path, folder: Path) -> None:
    first = imported(tmp_path, folder)
    before = [(one.position, one.type, one.observed_at) for one in events(tmp_path)]
    again = imported(tmp_path, folder)
    assert first.stored == len(before) and again.stored == 0
    assert [(one.position, one.type, one.observed_at) for one in events(tmp_path)] == before


@pytest.mark.slow
@pytest.mark.parametrize("cut", [0.1, 0.5, 0.8, 0.95])
def test_a_recording_that_has_grown_adds_what_is_new(tmp_path: Path, cut: float) -> None:
    """Recording 07 has lists in the middle; cut within lines, between them, and in the gap."""
    data = watch_of("07")
    imported(tmp_path, written(tmp_path, "whole", data), db="whole.db")
    part = data[: data.rindex(b"\n", 0, int(len(data) * cut)) + 1]
    imported(tmp_path, written(tmp_path, "w", part))
    imported(tmp_path, written(tmp_path, "w", data))
    columns = ("type", "kind", "name", "uid", "resource_version", "gone", "observed_at", "late")
    grown, whole = (
        [tuple(getattr(one, column) for column in columns) for one in events(tmp_path, db)]
        for db in ("test.db", "whole.db")
    )
    assert [one for one in grown if one[0].startswith("Object")] == [
        one for one in whole if one[0].startswith("Object")
    ]
    assert [one[0] for one in grown if one[0] == "ListCompleted"] == [
        one[0] for one in whole if one[0] == "ListCompleted"
    ]


def test_small_batches_give_the_same_log(tmp_path: Path) -> None:
    path = recording("07") / "watch.jsonl.zst"
    imported(tmp_path, path, db="one.db")
    with ledger(tmp_path, "many.db") as opened:
        import_paths(opened, [path], options=ImportOptions(snapshots=False, batch=7))
    one, many = (
        [(e.type, e.uid, e.observed_at, e.payload) for e in events(tmp_path, db)] for db in ("one.db", "many.db")
    )
    assert one == many


def test_two_clusters_in_one_ledger_do_not_mix(tmp_path: Path) -> None:
    path = written(tmp_path, "w", FIRST)
    assert imported(tmp_path, path, cluster="north").stored == imported(tmp_path, path, cluster="south").stored == 4
    with ledger(tmp_path) as opened:
        assert opened.clusters() == ["north", "south"]
        assert import_paths(opened, [path], cluster="north", options=NO_SNAPSHOTS).stored == 0


@pytest.mark.parametrize("appends", [1, 4, 9, 14])
def test_an_import_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, appends: int) -> None:
    """The append after so many batches never returns; the next import gives what an undisturbed one gives."""
    path = recording("07") / "watch.jsonl.zst"
    imported(tmp_path, path, db="whole.db")
    with ledger(tmp_path) as opened:
        append, left = opened.store.append, iter(range(appends))

        def killed(batch: Sequence[NewEvent]) -> AppendResult:
            if next(left, None) is None:
                raise KeyboardInterrupt
            return append(batch)

        monkeypatch.setattr(opened.store, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            import_paths(opened, [path], options=ImportOptions(snapshots=False, batch=40))
    assert 0 < len(events(tmp_path)) < 700
    imported(tmp_path, path)
    resumed, whole = (
        [(one.type, one.kind, one.uid, one.payload, one.observed_at, one.late) for one in events(tmp_path, db)]
        for db in ("test.db", "whole.db")
    )
    assert resumed == whole
