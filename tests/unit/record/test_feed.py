"""A feed without threads: what becomes an event, in which order, and what is told how often."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from eventstore.types import KEYED, NewEvent, StreamId
from vcledger.record.feed import REFUSED, Feed, Gone, Item, Origin, told_again
from vcledger.record.scope import Scope
from vcledger.record.telling import Telling
from vcledger.sources.lists import Known, LastSeen
from vcledger.sources.listwatch import Answered, AskList, AskWatch, Closed, Due
from vcledger.sources.observe import Observer
from vcledger.sources.redact import StorageOptions

SECOND = 1_000_000


def pod(name: str, version: int, **extra: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", "uid": f"u-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"containers": []}, **extra}


def listed(version: int, *items: dict[str, Any], more: str = "") -> Answered:
    meta = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    return Answered(200, json.dumps({"kind": "PodList", "metadata": meta, "items": items}).encode())


def line(type_: str, item: dict[str, Any]) -> tuple[str, bytes]:
    return type_, json.dumps({"kind": "Pod", "apiVersion": "v1", **item}).encode()


def feed(scope: Scope | None = None, **options: Any) -> Feed:
    return Feed(scope or Scope("Pod"), Origin("c", "run", 7), Observer("c", StorageOptions()), **options)


def watching(*items: dict[str, Any]) -> Feed:
    made = feed()
    made.begin(0)
    made.take(listed(100, *items), 0)
    made.take(Answered(200), 0)
    return made


def told(items: list[Item]) -> list[str]:
    """`ADDED p1 101` of objects, the type of other events, `gone p1` of what a list found missing."""
    found = []
    for item in items:
        if isinstance(item, Gone):
            found.append(f"gone {item.stream.name}")
        elif item.stream.name and item.family == "observation" and item.type != "Marker":
            found.append(f"{item.type} {item.stream.name} {item.resource_version}{' late' if item.late else ''}")
        else:
            found.append(item.type)
    return found


def body(item: Item) -> Any:
    assert isinstance(item, NewEvent)
    return msgspec.json.decode(item.payload)


def test_a_list_is_told_before_its_first_item_and_after_its_last() -> None:
    made = feed(page=1)
    first = made.begin(0)
    assert (told(first.items), first.ask) == (["ListStarted"], AskList(1))
    page = made.take(listed(90, pod("a", 50), more="x"), 1)
    assert (told(page.items), page.ask) == (["ObjectAdded a 50"], AskList(1, "x"))
    assert not made.listed
    last = made.take(listed(90, pod("b", 60)), 2)
    assert (told(last.items), last.ask) == (["ObjectAdded b 60", "ListCompleted"], AskWatch("90"))
    assert made.listed and not made.watching
    assert told(made.take(Answered(200), 3).items) == ["WatchStarted"]


def test_items_of_a_list_get_the_kind_that_they_lack() -> None:
    made = feed()
    made.begin(0)
    (event, _) = made.take(listed(90, pod("a", 50)), 1).items
    assert {"kind": "Pod", "apiVersion": "v1"}.items() <= body(event).items()


def test_what_is_said_of_the_kind_has_a_key_and_the_run_as_its_cause() -> None:
    made = watching()
    keys = set()
    for i in range(3):
        (event,) = made.lines([("BOOKMARK", json.dumps({"metadata": {"resourceVersion": "200"}}).encode())], i).items
        assert isinstance(event, NewEvent)
        assert (event.stream, event.causation) == (StreamId("c", "Pod", "", "", ""), 7)
        assert event.resource_version is not None and event.resource_version >= KEYED
        keys.add(event.resource_version)
    assert len(keys) == 3  # three bookmarks of one version are three events, and each is stored once


def test_a_relist_tells_what_is_new_changed_and_gone_and_nothing_that_is_the_same() -> None:
    known = [Known("ns", name, f"u-{name}", version, 0) for name, version in (("a", 1), ("b", 2), ("c", 3))]
    made = feed(known=known, since=LastSeen(5 * SECOND, "80"))
    made.begin(60 * SECOND)
    turn = made.take(listed(90, pod("a", 1), pod("b", 82), pod("d", 85)), 61 * SECOND)
    assert told(turn.items) == ["ObjectModified b 82", "ObjectAdded d 85", "gone c", "GapRecorded", "ListCompleted"]
    gap = body(turn.items[3])
    assert (gap["from_time"], gap["from_resource_version"], gap["to_resource_version"]) == (5 * SECOND, "80", "90")
    assert (made.counts.inferred, made.counts.gaps, made.counts.lists) == (1, 1, 1)


def test_an_older_state_than_the_known_one_is_late() -> None:
    made = feed(known=[Known("ns", "a", "u-a", 90, 0)], since=LastSeen(0, "80"), resume=True)
    assert made.begin(0).ask == AskWatch("80")
    made.take(Answered(200), 0)
    turn = made.lines([line("MODIFIED", pod("a", 85)), line("MODIFIED", pod("a", 95))], 1)
    assert told(turn.items) == ["ObjectModified a 85 late", "ObjectModified a 95"]


def test_lines_after_the_end_of_the_watch_are_left() -> None:
    made = watching()
    expired = json.dumps({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}).encode()
    turn = made.lines([line("ADDED", pod("a", 101)), ("ERROR", expired), line("ADDED", pod("b", 102))], 1)
    assert told(turn.items) == ["ObjectAdded a 101", "WatchExpired", "ListStarted"]
    assert turn.ask == AskList(500)


def test_a_failure_that_goes_on_is_told_ever_more_rarely_and_anew_after_it_was_over() -> None:
    assert [times for times in range(1, 20) if told_again(times)] == [1, 2, 4, 8, 16]
    made = feed()
    made.begin(0)
    messages = []
    for _ in range(5):
        turn = made.take(Answered(None, b"refused"), 0)
        messages += [body(item)["message"] for item in turn.items]
        made.take(Due(), 0)
    assert messages == ["refused", "refused (2 times in a row)", "refused (4 times in a row)"]
    assert made.problem == "refused"
    other = made.take(Answered(503, b"busy"), 0)
    assert [body(item)["message"] for item in other.items] == ["busy"]
    made.take(Due(), 0)
    made.take(listed(90), 0)
    assert made.problem == "" and told(made.take(Answered(None, b"refused"), 0).items) == ["WatchFailed"]


def test_a_watch_that_was_away_for_long_leaves_a_gap_at_its_first_line() -> None:
    made = watching()
    made.take(Answered(None, b"reset"), 10 * SECOND)
    made.take(Due(), 12 * SECOND)
    made.take(Answered(503, b"busy"), 13 * SECOND)
    made.take(Due(), 40 * SECOND)
    assert told(made.take(Answered(200), 41 * SECOND).items) == ["WatchStarted"]
    turn = made.lines([line("ADDED", pod("a", 101)), line("ADDED", pod("b", 102))], 50 * SECOND)
    assert told(turn.items) == ["GapRecorded", "ObjectAdded a 101", "ObjectAdded b 102"]
    gap = body(turn.items[0])
    assert (gap["from_time"], gap["to_time"], gap["to_resource_version"]) == (10 * SECOND, 41 * SECOND, "")


def test_a_watch_that_is_opened_anew_at_once_leaves_none() -> None:
    made = watching()
    made.take(Closed(), 300 * SECOND)
    made.take(Answered(200), 301 * SECOND)
    assert told(made.lines([line("ADDED", pod("a", 101))], 400 * SECOND).items) == ["ObjectAdded a 101"]


def test_what_cannot_be_used_leaves_a_marker_without_its_bytes() -> None:
    made = watching()
    bad = pod("a", 101, spec={"containers": [{"name": "m", "env": [{"value": "secret"}], "resources": {"requests": {
        "cpu": "many"}}}]})  # fmt: skip
    turn = made.lines([line("ADDED", bad), line("MODIFIED", bad), line("MODIFIED", bad)], 1)
    assert told(turn.items) == ["Marker", "Marker"] and made.counts.refused == 3
    marker = body(turn.items[0])
    assert marker["name"] == REFUSED and "Pod a" in marker["label"] and "secret" not in str(marker)


def test_a_namespace_has_a_stream_of_its_own() -> None:
    made = feed(Scope("Pod", "team-a"))
    (event,) = made.begin(0).items
    assert isinstance(event, NewEvent) and event.stream == StreamId("c", "Pod", "team-a", "", "")


def test_lines_for_people() -> None:
    lines: list[str] = []
    telling = Telling(lines.append)
    made = feed(Scope("Pod", "team-a"))
    items = [*made.begin(0).items, *made.take(listed(90, pod("a", 50)), SECOND).items]
    items += made.take(Answered(200), 2 * SECOND).items
    made.take(Closed(), 3 * SECOND)
    items += made.take(Answered(200), 3 * SECOND).items
    for position, item in enumerate(items, 1):
        assert isinstance(item, NewEvent)
        telling.durable(item, position)
    telling.trouble("the disk is full")
    telling.trouble("")
    assert lines == [
        "1970-01-01T00:00:01Z pods in team-a: listed, 1 at version 90 (position 3)",
        "1970-01-01T00:00:02Z pods in team-a: watching from version 90 (position 4)",
        "the ledger refuses: the disk is full; trying on",
        "the ledger works again",
    ]
