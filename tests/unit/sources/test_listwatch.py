"""The list+watch machine: its table in full, and what each report about watches asks of it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from vcledger.sources import listwatch as lw
from vcledger.sources.lists import Known, LastSeen
from vcledger.sources.listwatch import (
    Answered,
    AskList,
    AskRelist,
    AskWatch,
    Change,
    Closed,
    Due,
    Inferred,
    Line,
    ListWatch,
    Refused,
    Resume,
    Said,
    Start,
    State,
    Stop,
    Tell,
)
from volcano.events.observation import Bookmark, GapRecorded, ListCompleted, WatchExpired, WatchFailed, WatchStarted

SECOND = 1_000_000


def pod(name: str, version: str, uid: str = "") -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "uid": uid or name, "resourceVersion": version},
    }


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


def listed(version: str, *items: dict[str, Any], more: str = "") -> Answered:
    meta = {"resourceVersion": version, **({"continue": more} if more else {})}
    return Answered(200, raw({"kind": "PodList", "metadata": meta, "items": list(items)}))


def status(code: int, reason: str = "", message: str = "no") -> bytes:
    meta: dict[str, Any] = {}
    return raw(
        {"kind": "Status", "metadata": meta, "status": "Failure", "message": message, "reason": reason, "code": code}
    )


def line(kind: str, obj: dict[str, Any]) -> Line:
    return Line(kind, raw(obj))


def watching(*pods: dict[str, Any], version: str = "100") -> ListWatch:
    machine = ListWatch("Pod")
    machine.take(Start(), 0)
    machine.take(listed(version, *pods), 0)
    machine.take(Answered(200), 0)
    return machine


def events(step: lw.Step) -> list[Any]:
    return [one.event for one in step.outputs if isinstance(one, Tell)]


# --- the table ----------------------------------------------------------------------------------------------------

PATHS: dict[State, list[tuple[lw.Input, int]]] = {
    State.STOPPED: [],
    State.LISTING: [(Start(), 0)],
    State.OPENING: [(Start(), 0), (listed("5"), 0)],
    State.WATCHING: [(Start(), 0), (listed("5"), 0), (Answered(200), 0), (line("BOOKMARK", pod("", "6")), 0)],
    State.LIST_LATER: [(Start(), 0), (Answered(500), 0)],
    State.WATCH_LATER: [(Start(), 0), (listed("5"), 0), (Answered(500), 0)],
}

MEANS: dict[Said, tuple[lw.Input, ...]] = {
    Said.START: (Start(), Start(LastSeen(3, "4"))),
    Said.RESUME: (Resume(LastSeen(3, "4")),),
    Said.RELIST: (AskRelist(),),
    Said.STOP: (Stop(),),
    Said.DUE: (Due(),),
    Said.PAGE: (listed("7", more="x"),),
    Said.LAST_PAGE: (listed("7"),),
    Said.LIST_EXPIRED: (Answered(410, status(410, "Expired")),),
    Said.LIST_FAILED: (Answered(None), Answered(503, b"gateway"), Answered(200, b"{"), listed(""), listed("None")),
    Said.OPENED: (Answered(200),),
    Said.CHANGE: (line("ADDED", pod("a", "8")), line("DELETED", pod("a", "8"))),
    Said.BOOKMARK: (line("BOOKMARK", pod("", "9")),),
    Said.UNUSABLE: (
        Line("ADDED", status(410)),
        Line("ADDED", b"null"),
        Line("BOOKMARK", raw({"kind": "Pod", "metadata": {"resourceVersion": None}})),
        Line("SYNC", raw(pod("a", "8"))),
    ),
    Said.EXPIRED: (Answered(410, status(410)), Line("ERROR", status(410)), Line("ERROR", status(0, "Expired"))),
    Said.FAILED: (Answered(500, status(500)), Line("ERROR", status(500)), Line("ERROR", b"?")),
    Said.CLOSED: (Closed(),),
}
"""Inputs that come to each meaning; those that count repetitions are left to their own tests."""


def at(state: State) -> ListWatch:
    machine = ListWatch("Pod")
    for heard, now in PATHS[state]:
        machine.take(heard, now)
    assert machine.state is state
    return machine


LIST_ANSWERS = frozenset({Said.PAGE, Said.LAST_PAGE, Said.LIST_EXPIRED, Said.LIST_FAILED})


def means_that(state: State, said: Said, heard: lw.Input) -> bool:
    """An HTTP answer means one thing to a list and another to a watch."""
    return not isinstance(heard, Answered) or (said in LIST_ANSWERS) == (state is State.LISTING)


CASES = [
    (state, said, heard)
    for state, said in itertools.product(State, MEANS)
    for heard in MEANS[said]
    if means_that(state, said, heard)
]


@pytest.mark.parametrize(("state", "said", "heard"), CASES)
def test_every_step_of_the_table_and_nothing_else(state: State, said: Said, heard: lw.Input) -> None:
    machine = at(state)
    if (after := lw.TRANSITIONS.get((state, said))) is None:
        kept = machine.state, machine.version, machine.due, dict(machine.known)
        with pytest.raises(lw.NotNow):
            machine.take(heard, 0)
        assert (machine.state, machine.version, machine.due, machine.known) == kept
        return
    step = machine.take(heard, 0)
    assert machine.state is after
    assert (machine.due is not None) == (after in (State.LIST_LATER, State.WATCH_LATER))
    asks = {State.LISTING: AskList, State.OPENING: AskWatch}
    if after in asks:
        assert isinstance(step.ask, asks[after])
    else:
        assert step.ask is None
    assert not any(b'"Status"' in one.object for one in step.outputs if isinstance(one, Change))


def test_every_state_can_be_reached_and_left() -> None:
    reached = {after for (before, _), after in lw.TRANSITIONS.items() if before is not after}
    assert reached == set(State)
    assert {before for (before, _), after in lw.TRANSITIONS.items() if before is not after} == set(State)
    assert {said for _, said in lw.TRANSITIONS} == set(Said)


# --- what it goes on from -----------------------------------------------------------------------------------------


def test_it_watches_from_the_list_never_from_an_item() -> None:
    machine = ListWatch("Pod")
    assert machine.take(Start(), 0).ask == AskList(500)
    step = machine.take(listed("5000", pod("a", "4100"), pod("b", "9000")), 0)
    assert step.ask == AskWatch("5000")
    assert [one.type for one in step.outputs if isinstance(one, Change)] == ["ADDED", "ADDED"]
    assert events(step) == [ListCompleted(resource="pods", resource_version="5000", items=2, relist=False)]


def test_it_resumes_from_the_last_line_or_bookmark() -> None:
    machine = watching()
    machine.take(line("ADDED", pod("a", "120")), SECOND)
    assert machine.take(Closed(), 2 * SECOND).ask == AskWatch("120")
    assert events(machine.take(Answered(200), 2 * SECOND)) == [WatchStarted(resource="pods", resource_version="120")]
    marked = machine.take(line("BOOKMARK", {"metadata": {"resourceVersion": "777"}, "spec": {"containers": None}}), 0)
    assert events(marked) == [Bookmark(resource="pods", resource_version="777")]
    assert machine.take(Closed(), 9 * SECOND).ask == AskWatch("777")


@pytest.mark.parametrize("empty", ["", "0", "None", "null"])
def test_what_is_no_version_is_never_gone_on_from(empty: str) -> None:
    machine = watching()
    machine.take(line("ADDED", pod("a", empty)), 0)
    machine.take(line("BOOKMARK", pod("", empty)), 0)
    assert machine.take(Closed(), 9 * SECOND).ask == AskWatch("100")


def test_without_any_version_it_lists() -> None:
    machine = ListWatch("Pod")
    machine.watching("", 0)
    assert machine.take(Closed(), 9 * SECOND).ask == AskList(500)


@pytest.mark.parametrize("expired", [Answered(410, status(410)), Line("ERROR", status(410, "Expired", "too old"))])
def test_410_leads_to_a_list_a_gap_and_inferred_deletions(expired: lw.Input) -> None:
    machine = watching(pod("stays", "50"), pod("goes", "60"), pod("again", "70"))
    machine.take(line("MODIFIED", pod("goes", "130")), 5 * SECOND)
    if isinstance(expired, Answered):
        machine.take(Closed(), 6 * SECOND)
    step = machine.take(expired, 7 * SECOND)
    assert step.ask == AskList(500)
    assert [type(one) for one in events(step)] == [WatchExpired]
    step = machine.take(
        listed("5000", pod("stays", "50"), pod("again", "4000", uid="other"), pod("new", "4999")), 9 * SECOND
    )
    assert step.ask == AskWatch("5000")
    told = [(type(one).__name__, getattr(one, "known", None) and one.known.uid) for one in step.outputs]  # type: ignore[union-attr]
    assert told == [
        ("Inferred", "again"),
        ("Change", None),
        ("Change", None),
        ("Inferred", "goes"),
        *[("Tell", None)] * 2,
    ]
    gap = events(step)[0]
    assert isinstance(gap, GapRecorded)
    assert (gap.from_resource_version, gap.to_resource_version) == ("130", "5000")
    since = 6 if isinstance(expired, Answered) else 5  # until the server ended it, the watch was whole
    assert (gap.from_time, gap.to_time) == (since * SECOND, 9 * SECOND)
    assert (gap.added, gap.modified, gap.deleted) == (2, 0, 2)
    assert events(step)[1] == ListCompleted(resource="pods", resource_version="5000", items=3, relist=True)
    assert sorted(machine.known) == ["new", "other", "stays"]


def test_a_list_in_pages_is_one_list() -> None:
    machine = watching(pod("a", "1"), pod("b", "2"), pod("c", "3"))
    machine.take(Line("ERROR", status(410)), 0)
    first = machine.take(listed("200", pod("a", "1"), more="token"), 0)
    assert (first.ask, first.outputs) == (AskList(500, "token"), [])
    last = machine.take(listed("200", pod("c", "30")), 0)
    assert [one for one in last.outputs if isinstance(one, Change)] == [Change("MODIFIED", raw(pod("c", "30")))]
    assert [one.known.uid for one in last.outputs if isinstance(one, Inferred)] == ["b"]
    assert events(last)[-1] == ListCompleted(resource="pods", resource_version="200", items=2, relist=True)


def test_a_page_that_expires_begins_the_list_anew_and_infers_nothing_from_half() -> None:
    machine = watching(pod("a", "1"), pod("b", "2"))
    machine.take(Line("ERROR", status(410)), 0)
    machine.take(listed("200", pod("a", "1"), more="token"), 0)
    step = machine.take(Answered(410, status(410)), 0)
    assert not any(isinstance(one, Inferred) for one in step.outputs)
    assert (machine.state, machine.due) == (State.LIST_LATER, lw.DELAY_MIN)
    assert machine.take(Due(), lw.DELAY_MIN).ask == AskList(500)
    step = machine.take(listed("300", pod("b", "2")), 2 * SECOND)
    assert [one.known.uid for one in step.outputs if isinstance(one, Inferred)] == ["a"]
    gaps = [one for one in events(step) if isinstance(one, GapRecorded)]
    assert [(one.from_resource_version, one.to_resource_version) for one in gaps] == [("100", "300")]
    assert "410" in gaps[0].reason


def test_a_stale_event_watch_that_answers_with_nothing_ends_in_a_list() -> None:
    machine = watching()
    step = machine.take(Closed(), 1)
    assert (step.ask, machine.state) == (None, State.WATCH_LATER)
    assert machine.take(Due(), SECOND).ask == AskWatch("100")
    machine.take(Answered(200), SECOND)
    assert machine.take(Closed(), SECOND + 1).ask == AskList(500)
    gap = events(machine.take(listed("900"), 2 * SECOND))[0]
    assert isinstance(gap, GapRecorded)
    assert (gap.from_resource_version, gap.to_resource_version) == ("100", "900")


def test_a_long_quiet_watch_is_no_empty_one() -> None:
    machine = watching()
    for round_ in range(1, 10):
        now = round_ * 300 * SECOND
        assert machine.take(Closed(), now).ask == AskWatch("100")
        machine.take(Answered(200), now)


def test_a_version_that_only_fails_is_given_up() -> None:
    machine = watching()
    machine.take(Line("ERROR", status(500)), 0)
    for _ in range(lw.FAILED_MAX - 2):
        assert machine.take(Due(), 0).ask == AskWatch("100")
        machine.take(Answered(500, status(500)), 0)
        assert machine.state is State.WATCH_LATER
    machine.take(Due(), 0)
    step = machine.take(Answered(500, status(500)), 0)
    assert isinstance(events(step)[0], WatchFailed)
    assert machine.state is State.LIST_LATER
    assert machine.take(Due(), 0).ask == AskList(500)


def test_the_delay_doubles_up_to_a_bound_and_luck_is_a_value() -> None:
    machine = ListWatch("Pod")
    machine.take(Start(), 0)
    delays = []
    for _ in range(8):
        machine.take(Answered(503), 0)
        delays.append(machine.due)
        machine.take(Due(), 0)
    assert delays == [800_000, 1_600_000, 3_200_000, 6_400_000, 12_800_000, 25_600_000, 30_000_000, 30_000_000]
    machine.take(Answered(503), 0, luck=0.5)
    assert machine.due == 45_000_000
    machine.take(Due(), 0)
    machine.take(listed("1"), 0)
    machine.take(Answered(None), 0)
    assert machine.due == lw.DELAY_MIN


def test_a_status_is_never_an_object() -> None:
    machine = watching()
    step = machine.take(Line("ADDED", status(410, "Expired")), 0)
    assert [type(one) for one in step.outputs] == [Refused]
    assert machine.known == {}
    machine.take(AskRelist(), 0)
    step = machine.take(listed("9", {"kind": "Status", "metadata": {"name": "x", "uid": "y"}}), 0)
    assert isinstance(step.outputs[0], Refused)


def test_a_watch_that_ends_and_resumes_leaves_no_gap() -> None:
    machine = watching(pod("a", "1"))
    machine.take(Line("ERROR", status(500)), 0)
    machine.take(Due(), SECOND)
    machine.take(Answered(200), SECOND)
    machine.take(line("MODIFIED", pod("a", "120")), 2 * SECOND)
    step = machine.take(AskRelist("a doubt"), 3 * SECOND)
    assert step.ask == AskList(500)
    gap = events(machine.take(listed("121", pod("a", "120")), 4 * SECOND))[0]
    assert isinstance(gap, GapRecorded)
    assert (gap.from_resource_version, gap.reason) == ("120", "a doubt")


# --- going on after a restart -------------------------------------------------------------------------------------

SINCE = LastSeen(7 * SECOND, "100")
HAS = [Known("ns", "a", "a", 90, 0), Known("ns", "b", "b", 95, 0)]


def test_a_restart_goes_on_from_the_version_of_the_log_and_nothing_was_missed() -> None:
    machine = ListWatch("Pod", known=HAS)
    assert machine.take(Resume(SINCE), 20 * SECOND).ask == AskWatch("100")
    opened = machine.take(Answered(200), 21 * SECOND)
    assert events(opened) == [WatchStarted(resource="pods", resource_version="100")]
    assert machine.take(line("MODIFIED", pod("a", "101")), 21 * SECOND).outputs == [
        Change("MODIFIED", raw(pod("a", "101")))
    ]


def test_a_restart_after_which_the_version_is_gone_records_the_gap_since_the_last_sign_of_life() -> None:
    machine = ListWatch("Pod", known=HAS)
    machine.take(Resume(SINCE), 20 * SECOND)
    machine.take(Answered(200), 20 * SECOND)
    assert isinstance(machine.take(Line("ERROR", status(410, "Expired")), 21 * SECOND).ask, AskList)
    found = machine.take(listed("200", pod("b", "150"), pod("c", "160")), 22 * SECOND)
    assert [one for one in found.outputs if isinstance(one, Inferred)] == [Inferred(HAS[0])]
    gap, done = events(found)
    assert (gap.from_time, gap.to_time, gap.from_resource_version, gap.to_resource_version) == (
        7 * SECOND, 22 * SECOND, "100", "200")  # fmt: skip
    assert (gap.added, gap.modified, gap.deleted) == (1, 1, 1)
    assert done.relist


def test_a_restart_that_has_to_list_says_since_when_nobody_looked() -> None:
    machine = ListWatch("Pod", known=HAS)
    machine.take(Start(SINCE), 20 * SECOND)
    gap = events(machine.take(listed("200"), 22 * SECOND))[0]
    assert (gap.from_time, gap.deleted, gap.reason) == (7 * SECOND, 2, "the recorder was started again")


def test_a_state_from_before_the_known_one_is_said_to_be_overtaken() -> None:
    machine = ListWatch("Pod", known=HAS)
    machine.take(Resume(LastSeen(0, "80")), 0)
    machine.take(Answered(200), 0)
    lines = [("MODIFIED", "85"), ("MODIFIED", "90"), ("MODIFIED", "96"), ("DELETED", "97")]
    found = [machine.take(line(change, pod("a", version)), 0).outputs[0] for change, version in lines]
    assert [one.overtaken for one in found if isinstance(one, Change)] == [True, False, False, False]
    assert list(machine.known) == ["b"]
    opaque = machine.take(line("MODIFIED", pod("b", "x7")), 0).outputs[0]
    assert isinstance(opaque, Change) and not opaque.overtaken


# --- how long it waits --------------------------------------------------------------------------------------------


def test_it_waits_as_long_as_the_server_asks_for() -> None:
    machine = ListWatch("Pod")
    machine.take(Start(), 0)
    machine.take(Answered(429, b"Too many requests", 7 * SECOND), 0, 0.5)
    assert machine.due == int(7 * SECOND * 1.5)
    assert machine.state is State.LIST_LATER


@pytest.mark.parametrize("code", [403, 404])
def test_a_kind_that_is_not_there_is_looked_for_slowly_and_starts_when_it_is(code: int) -> None:
    machine = ListWatch("Queue", absent=40 * SECOND)
    machine.take(Start(), 0)
    told = machine.take(Answered(code, status(code, "NotFound")), 0, 0.25)
    assert (machine.due, events(told)[0].code) == (50 * SECOND, code)
    assert isinstance(machine.take(Due(), 50 * SECOND).ask, AskList)
    assert isinstance(machine.take(listed("9"), 50 * SECOND).ask, AskWatch)


def test_a_watch_that_only_says_nonsense_is_an_empty_one() -> None:
    machine = watching()
    machine.take(Line("SYNC", b"null"), 10)
    step = machine.take(Closed(), 20)
    assert machine.state is State.WATCH_LATER
    assert [(one.code, one.message) for one in events(step)] == [(200, Said.EMPTY.value)]


def test_a_broken_stream_is_a_failed_watch_with_its_reason() -> None:
    machine = watching(pod("a", "90"))
    step = machine.take(Answered(None, b"nothing was heard for 150 s"), 10)
    assert events(step) == [WatchFailed(resource="pods", code=0, message="nothing was heard for 150 s")]
    assert machine.state is State.WATCH_LATER


@pytest.mark.parametrize("code", [None, 401, 429, 503])
def test_a_server_that_is_away_for_long_does_not_cost_the_version(code: int | None) -> None:
    machine = watching(pod("a", "90"))
    machine.take(Closed(), 10 * SECOND)
    for i in range(20):
        machine.take(Answered(code, status(code or 0)), i * SECOND)
        assert machine.state is State.WATCH_LATER
        assert machine.take(Due(), 100 * SECOND).ask == AskWatch("100")


def test_a_quiet_watch_that_the_server_ended_was_no_gap_until_then() -> None:
    """Events get no bookmarks: their version grows old though the watch is fine."""
    machine = watching(pod("a", "90"))
    machine.take(Closed(), 600 * SECOND)
    machine.take(Answered(200), 600 * SECOND)
    machine.take(Line("ERROR", status(410, "Expired")), 601 * SECOND)
    gap = events(machine.take(listed("900", pod("a", "90")), 602 * SECOND))[0]
    assert (gap.from_time, gap.to_time, gap.from_resource_version) == (600 * SECOND, 602 * SECOND, "100")


def test_what_a_list_found_that_was_cut_off_counts_for_the_gap() -> None:
    machine = watching(pod("a", "90"), pod("b", "91"), pod("c", "92"))
    machine.take(Line("ERROR", status(410, "Expired")), SECOND)
    machine.take(listed("200", pod("a", "150"), pod("new", "151"), more="x"), 2 * SECOND)
    machine.take(Answered(410, status(410, "Expired")), 3 * SECOND)
    machine.take(Due(), 9 * SECOND)
    step = machine.take(listed("300", pod("a", "150"), pod("b", "91"), pod("new", "160")), 10 * SECOND)
    gap = events(step)[0]
    assert (gap.added, gap.modified, gap.deleted) == (1, 2, 1)
