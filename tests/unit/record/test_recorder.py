"""The recorder's guarantees on the simulated server: ordered, unique, reliable, resumable, bookmarkable; and what each
trouble leaves in the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eventstore import open_store
from eventstore.types import INFERRED, LedgerUnwritable
from tests.unit.record.runs import CLUSTER, NODES, Running, about, events, fast, live, same, types
from tests.unit.record.simulated import Server, eventually, failed, throttled
from vcledger import roles
from vcledger.ledger import Ledger
from vcledger.record.scope import Scope
from vcledger.roles import AlreadyRecorded
from vcledger.runtime.port import Answer
from vcledger.testing.invariants import broken_lines


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    fast(monkeypatch)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def versions(db: Path) -> list[int]:
    return [event.resource_version or 0 for event in events(db, kinds="Node", types=["ObjectAdded", "ObjectModified"])]


def test_ordered_and_unique_every_change_once_in_its_order(server: Server, db: Path) -> None:
    server.node("n1")
    with Running(db, server) as run:
        run.watching()
        for i in range(50):
            server.touch("n1", str(i))
        server.node("n2")
        server.delete("n1")
        eventually(lambda: same(db, server), "the same")
    found = versions(db)
    assert found == sorted(set(found)) and len(found) == 52
    assert [event.type for event in events(db, kinds="Node", name="n1")][-1] == "ObjectDeleted"
    with open_store(str(db)) as store:
        assert store.verify().ok
    assert run.outcome is not None and (run.outcome.problem, run.outcome.lost) == ("", 0)


def test_resumable_a_later_run_goes_on_from_the_version_of_the_last_and_lists_nothing(server: Server, db: Path) -> None:
    server.node("n1")
    with Running(db, server) as run:
        run.watching()
        server.touch("n1", "a")
        server.bookmark()
        eventually(lambda: "Bookmark" in types(db), "a bookmark")
    bookmark = str(server.api.version)
    server.touch("n1", "b")
    server.node("n2")
    server.asked.clear()
    with Running(db, server) as run:
        eventually(lambda: same(db, server), "the same")
    assert [(verb, asked.get("resource_version")) for verb, _, asked in server.asked] == [("watch", bookmark)]
    assert types(db) == ["ListStarted", "ListCompleted", "WatchStarted", "Bookmark", "WatchStarted"]
    assert len(versions(db)) == 4


def test_resumable_also_after_retention_has_dropped_all_but_the_newest(server: Server, db: Path) -> None:
    server.node("n1")
    with Running(db, server) as run:
        run.watching()
        for i in range(5):
            server.touch("n1", str(i))
        eventually(lambda: same(db, server), "the same")
    with Ledger.open(str(db)) as ledger:
        assert ledger.prune(ledger.store.head()).dropped > 3
    server.asked.clear()
    server.touch("n1", "after")
    with Running(db, server):
        eventually(lambda: same(db, server), "the same")
    assert [verb for verb, _, _ in server.asked] == ["watch"]
    with Ledger.open(str(db)) as ledger:
        assert list(ledger.cache(cluster=CLUSTER).nodes) == ["n1"] and ledger.store.verify().ok


def test_a_version_that_has_expired_while_it_was_away_is_a_gap_whose_changes_a_list_finds(
    server: Server, db: Path
) -> None:
    for name in ("stays", "changes", "goes"):
        server.node(name)
    with Running(db, server) as run:
        run.watching()
        server.bookmark()
        eventually(lambda: "Bookmark" in types(db), "a bookmark")
    server.touch("changes", "x")
    server.delete("goes")
    server.node("comes")
    server.compact()
    with Running(db, server) as run:
        eventually(lambda: types(db)[-1:] == ["WatchStarted"] and "GapRecorded" in types(db), "the gap")
    assert types(db)[4:] == [
        "WatchStarted",
        "WatchExpired",
        "ListStarted",
        "GapRecorded",
        "ListCompleted",
        "WatchStarted",
    ]
    gap = dict(about(db))["GapRecorded"]
    assert (gap["added"], gap["modified"], gap["deleted"]) == (1, 1, 1)
    assert live(db) == server.objects("Node")
    (gone,) = events(db, kinds="Node", name="goes", types="ObjectDeleted")
    assert (gone.known, b'"goes"' in gone.payload) == (INFERRED, True)


def test_a_list_that_was_cut_off_is_listed_again(server: Server, db: Path) -> None:
    for i in range(9):
        server.node(f"n{i}")
    server.refuse("list", "Node", *[failed(500)] * 100_000)
    with Running(db, server, page=4) as run:
        eventually(lambda: any(feed.counts.failures for feed in run.recorder.feeds), "a failed list")
    server.refusals.clear()
    with Running(db, server, page=4) as run:
        run.watching()
        eventually(lambda: same(db, server), "the same")
    assert types(db).count("ListStarted") == 2
    pages = [asked for verb, _, asked in server.asked if verb == "list"][-3:]
    assert [bool(asked["continue_"]) for asked in pages] == [False, True, True]


TROUBLES: dict[str, tuple[str, list[Answer], str]] = {
    "401": ("watch", [failed(401)] * 2, "WatchFailed"),
    "403": ("watch", [failed(403)], "WatchFailed"),
    "429": ("watch", [throttled(0)] * 2, "WatchFailed"),
    "500": ("list", [failed(500)] * 3, "WatchFailed"),
    "503": ("list", [Answer(503, b"upstream connect error", 0)], "WatchFailed"),
    "no answer": ("list", [Answer(None, b"ConnectTimeoutError: timed out")], "WatchFailed"),
    "410 of the answer": ("watch", [failed(410)], "WatchExpired"),
    "no list": ("list", [Answer(200, b"<html>login</html>"), Answer(200, b"")], "WatchFailed"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_reliable_whatever_the_server_answers_it_is_on_record_and_nothing_is_missing(
    trouble: str, server: Server, db: Path
) -> None:
    verb, answers, told = TROUBLES[trouble]
    server.node("n1")
    server.refuse(verb, "Node", *answers)
    with Running(db, server) as run:
        run.watching()
        server.touch("n1", "x")
        eventually(lambda: same(db, server), "the same")
    assert told in types(db)


def test_failures_that_go_on_are_told_ever_more_rarely(server: Server, db: Path) -> None:
    server.down = True
    with Running(db, server) as run:
        eventually(lambda: len(server.asked) > 9, "nine tries")
        server.down = False
        run.watching()
    messages = [fields["message"] for type_, fields in about(db) if type_ == "WatchFailed"]
    assert messages[:4] == [
        "NewConnectionError: [Errno 111] Connection refused",
        "NewConnectionError: [Errno 111] Connection refused (2 times in a row)",
        "NewConnectionError: [Errno 111] Connection refused (4 times in a row)",
        "NewConnectionError: [Errno 111] Connection refused (8 times in a row)",
    ]
    assert types(db).count("ListStarted") == 1


def test_a_silent_connection_is_given_up_and_what_it_held_back_is_there(server: Server, db: Path) -> None:
    server.node("n1")
    with Running(db, server, idle_seconds=0.4) as run:
        run.watching()
        server.streams[-1].silent = True
        server.touch("n1", "x")
        eventually(lambda: same(db, server), "the same")
    failures = [fields for type_, fields in about(db) if type_ == "WatchFailed"]
    assert failures[0]["message"] == "nothing was heard for 0.4 s"


def test_a_watch_without_bookmarks_is_asked_for_no_longer_than_silence_is_allowed(server: Server, db: Path) -> None:
    """The watch of Events gets none, however long it is open."""
    server.node("n1")
    with Running(db, server, idle_seconds=100.0) as run:
        run.watching()
        server.bookmark()
        eventually(lambda: "Bookmark" in types(db), "a bookmark")
        server.streams[-1].break_off("reset")
        eventually(lambda: len(server.streams) == 2, "a second watch")
    first, second = [asked["timeout_seconds"] for verb, _, asked in server.asked if verb == "watch"]
    assert 60 <= first <= 90 and 290 <= second <= 580


def test_a_broken_and_a_closed_stream_go_on_where_they_were(server: Server, db: Path) -> None:
    server.node("n1")
    with Running(db, server) as run:
        run.watching()
        server.streams[-1].break_off("ProtocolError: connection broken")
        server.touch("n1", "x")
        eventually(lambda: same(db, server), "the same after a reset")
        server.drop("Node")
        server.touch("n1", "y")
        eventually(lambda: same(db, server), "the same after a close")
    assert sum(verb == "list" for verb, _, _ in server.asked) == 1
    assert [fields["message"] for type_, fields in about(db) if type_ == "WatchFailed"] == [
        "ProtocolError: connection broken"
    ]


def test_watches_that_end_at_once_lead_to_a_list(server: Server, db: Path) -> None:
    server.node("n1")
    with Running(db, server) as run:
        run.watching()
        for _ in range(2):
            count = len(server.streams)
            server.drop("Node")
            eventually(lambda count=count: len(server.streams) > count, "a new watch")  # type: ignore[misc]
        eventually(lambda: types(db).count("ListCompleted") == 2, "a second list")
    assert "WatchFailed" in types(db)


def test_a_watch_that_was_away_leaves_a_gap_though_nothing_is_missing(
    server: Server, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcledger.record.feed.AWAY_MICROS", 0)
    server.node("n1")
    with Running(db, server) as run:
        run.watching()
        server.touch("n1", "seen")
        eventually(lambda: same(db, server), "the same")
        server.refuse("watch", "Node", *[failed(503)] * 6)
        server.streams[-1].break_off("reset")
        server.touch("n1", "away")
        eventually(lambda: same(db, server), "the same")
    (gap,) = [fields for type_, fields in about(db) if type_ == "GapRecorded"]
    assert gap["to_resource_version"] == "" and "it then went on" in gap["reason"]
    assert gap["to_time"] >= gap["from_time"]
    assert sum(verb == "list" for verb, _, _ in server.asked) == 1


def test_a_kind_that_is_not_installed_starts_when_it_is(server: Server, db: Path) -> None:
    server.missing.add("Queue")
    scopes = [*NODES, Scope("Queue")]
    with Running(db, server, scopes=scopes, absent_seconds=0.1) as run:
        eventually(lambda: run.recorder.standing().watching == 1, "nodes")
        eventually(lambda: "queues.scheduling.volcano.sh" in run.recorder.standing().problems, "the problem")
        server.missing.clear()
        run.watching()
        assert not run.recorder.standing().problems
    failures = [fields for type_, fields in about(db, "Queue") if type_ == "WatchFailed"]
    assert (failures[0]["code"], failures[0]["message"]) == (404, "404 page not found")


def test_namespaces_and_labels_are_asked_for_and_resumed_each_for_itself(server: Server, db: Path) -> None:
    scopes = [Scope("ResourceQuota", "a"), Scope("ResourceQuota", "b"), Scope("Node", "", "touched=x")]
    server.node("n1")
    with Running(db, server, scopes=scopes) as run:
        run.watching()
        server.touch("n1", "x")
        eventually(lambda: len(live(db)) == 1, "a node that is selected")
    asked = {(kind, asked["namespace"], asked["selector"]) for _, kind, asked in server.asked}
    assert asked == {tuple(scope) for scope in scopes}
    assert [type_ for type_, _ in about(db, "ResourceQuota", "b")] == ["ListStarted", "ListCompleted", "WatchStarted"]
    server.asked.clear()
    with Running(db, server, scopes=[scopes[0], Scope("Node", "", "touched=y")]) as run:
        run.watching()
    assert sorted({(verb, kind) for verb, kind, _ in server.asked if verb == "list"}) == [("list", "Node")]
    assert live(db) == {}  # it left the selection: gone from what is recorded


def test_what_cannot_be_used_is_counted_and_marked_and_stops_nothing(server: Server, db: Path) -> None:
    server.node("n1")
    with Running(db, server) as run:
        run.watching()
        bad: dict[str, Any] = {"metadata": {"name": "bad"}, "status": {"allocatable": {"cpu": "many"}}}
        with server.lock:
            server.api.create("Node", bad)
        server.node("n2")
        eventually(lambda: len(live(db)) == 2, "the good ones")
    (marker,) = events(db, kinds="Recording", name="markers")
    assert b"recorder-refused" in marker.payload and b"many" in marker.payload
    assert run.recorder.feeds[0].counts.refused == 1


def test_a_second_recorder_of_the_cluster_is_refused(server: Server, db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(roles, "RENEWALS", 100)
    with Running(db, server) as first:
        first.watching()
        second = Running(db, server)
        with pytest.raises(AlreadyRecorded, match="one recorder of a cluster"), second:
            eventually(lambda: second.error is not None, "the refusal")
        server.node("n1")
        eventually(lambda: same(db, server), "the first goes on")


def test_a_ledger_that_refuses_is_tried_until_it_works(
    server: Server, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vcledger.record import writer

    monkeypatch.setattr(writer, "RETRY_SECONDS", (0.05,))
    with Running(db, server) as run:
        run.watching()
        eventually(lambda: run.recorder.backlog.items == 0, "all stored")
        assert run.recorder._writer is not None
        store = run.recorder._writer.store
        whole = store.append

        def full(*args: Any, **options: Any) -> Any:
            raise LedgerUnwritable("the disk is full")

        monkeypatch.setattr(store, "append", full)
        server.node("n1")
        eventually(lambda: run.recorder.standing().problem == "the disk is full", "the problem")
        monkeypatch.setattr(store, "append", whole)
        eventually(lambda: same(db, server), "the same")
        eventually(lambda: run.recorder.standing().problem == "", "no problem any more")
    assert [line for line in run.lines if "ledger" in line] == [
        "the ledger refuses: the disk is full; trying on",
        "the ledger works again",
    ]


def test_what_is_selected_again_is_there_again(server: Server, db: Path) -> None:
    """A run with another selector records what it does not select as deleted. When a later run selects it again, the
    ledger has what the server has, though nothing about the objects has changed; and it sees them go."""
    server.node("n1")
    server.node("n2")
    for selector, there in (("", 2), ("touched=x", 0), ("", 2), ("touched=x", 0), ("", 2)):
        with Running(db, server, scopes=[Scope("Node", "", selector)]) as run:
            run.watching()
        assert len(live(db)) == there, selector
    server.delete("n1")
    with Running(db, server):
        eventually(lambda: list(live(db)) == list(server.objects("Node")), "it is seen to go")
    gaps = [fields for type_, fields in about(db) if type_ == "GapRecorded"]
    assert [(gap["added"], gap["modified"], gap["deleted"]) for gap in gaps] == [
        (0, 0, 2), (2, 0, 0), (0, 0, 2), (2, 0, 0)]  # fmt: skip
    assert [(e.type, e.known) for e in events(db, kinds="Node", name="n1")] == [
        ("ObjectAdded", 0), ("ObjectDeleted", 1), ("ObjectAdded", 0), ("ObjectDeleted", 1), ("ObjectAdded", 0),
        ("ObjectDeleted", 0),
    ]  # fmt: skip
    with Ledger.open(str(db)) as ledger:
        assert sorted(ledger.cache(cluster=CLUSTER).nodes) == ["n2"]
        assert ledger.store.verify().ok and broken_lines(ledger.store, CLUSTER) == []
