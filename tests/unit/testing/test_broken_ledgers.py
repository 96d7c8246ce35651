"""Each of the twelve broken on purpose in a ledger on a disk, found where it was; what a prune leaves of a check."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from eventstore.types import Snapshot
from tests.unit.testing.test_invariants import (
    BIND,
    BIND_FAILED,
    BIND_OK,
    BOUND,
    BROKEN,
    LISTED_ONE,
    RESYNC,
    TICK,
    History,
    claim,
    group,
    h,
    node,
    pod,
)
from vcledger.ledger import Ledger, cache_projection
from vcledger.sim import plan as plans
from vcledger.testing.cluster import SimCluster
from vcledger.testing.invariants import INVARIANTS, Verdict, check_ledger, limits
from volcano.events import binding, cleanup, scheduling
from volcano.objects.resource import new_resource


def of(ledger: Ledger, number: int, position: int | None = None) -> Verdict:
    """What came of one invariant."""
    return check_ledger(ledger, position=position)[number - 1]


@pytest.mark.parametrize("name", BROKEN)
def test_a_breach_in_a_ledger_is_found_at_its_position_and_not_before(name: str, ledger: Ledger) -> None:
    number, position, history = BROKEN[name]
    history.append_to(ledger)
    verdict = of(ledger, number)
    assert (verdict.outcome, verdict.position) == ("broken", position), verdict
    if position > 1:
        assert of(ledger, number, position - 1).outcome != "broken"


# --- those that no event can break: the state and the log themselves ------------------------------------------------


def running() -> History:
    """A node with a pod, and a second pod later."""
    return h().see(node(), "Node").see(pod(node="n", phase="Running")).see(pod("v", "q", "n", "Running")).add(TICK)


def wrong_snapshot(ledger: Ledger, position: int) -> None:
    """A snapshot in which the node's books are not its tasks' sum."""
    projection = cache_projection("exact")
    state = projection.load([projection.dump(ledger.folder.at(projection, "c", position))])
    state.nodes["n"].used.add(new_resource({"cpu": "1"}, exact=True))
    whole = projection.dump(state)
    ledger.store.save_snapshot(Snapshot(projection.name, projection.version, "c", position, None, whole), replace=True)


def test_1_books_that_a_snapshot_has_wrong(tmp_path: Path) -> None:
    with Ledger.open(str(tmp_path / "one.db"), create=True) as ledger:
        running().append_to(ledger)
        assert of(ledger, 1).outcome == "held"
        ledger.prune(3)
        assert (ledger.store.first(), of(ledger, 1).outcome) == (3, "held")
        wrong_snapshot(ledger, 2)
    with Ledger.open(str(tmp_path / "one.db")) as ledger:
        verdict = of(ledger, 1)
        assert (verdict.outcome, verdict.position) == ("broken", 2)
        assert verdict.text.startswith("node n: used is ")


def test_9_a_snapshot_that_is_not_what_the_events_give(tmp_path: Path) -> None:
    with Ledger.open(str(tmp_path / "nine.db"), create=True) as ledger:
        running().append_to(ledger)
        wrong_snapshot(ledger, 3)
    with Ledger.open(str(tmp_path / "nine.db")) as ledger:
        verdict = of(ledger, 9)
        assert (verdict.outcome, verdict.position) == ("broken", 3)
        assert "the snapshot is not what the events give" in verdict.text
        assert of(ledger, 9, 2).outcome == "held"


TAMPERED: dict[str, str] = {
    "an event that is not there any more": "DELETE FROM events WHERE position = 3",
    "a version that is left out": "UPDATE events SET version = version + 1 WHERE position = 3",
    "another payload": "UPDATE events SET payload = x'00' WHERE position = 3",
}


@pytest.mark.parametrize("name", TAMPERED)
def test_10_a_log_that_somebody_changed(name: str, tmp_path: Path) -> None:
    path = tmp_path / "ten.db"
    with Ledger.open(str(path), create=True) as ledger:
        h().see(pod()).see(pod(), change="Modified").see(pod(), change="Modified").add(TICK).append_to(ledger)
        assert of(ledger, 10).outcome == "held"
    with sqlite3.connect(path) as connection:
        connection.execute(TAMPERED[name])
    connection.close()
    with Ledger.open(str(path)) as ledger:
        verdict = of(ledger, 10)
        assert (verdict.outcome, verdict.position) == ("broken", 3), verdict
        assert of(ledger, 10, 2).outcome == "held"


def test_what_stands_after_an_event_that_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "unread.db"
    with Ledger.open(str(path), create=True) as ledger:
        h().add(BIND_OK).add(BIND_OK).add(TICK).add(TICK).append_to(ledger)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE events SET payload = x'00' WHERE position = 3")
    connection.close()
    with Ledger.open(str(path)) as ledger:
        verdicts = check_ledger(ledger)
        assert [(one.invariant.number, one.position) for one in verdicts if one.broken] == [(4, 2), (10, 3)]
        assert all("cannot be read on" in one.text for one in verdicts if not one.broken)


def test_each_of_the_twelve_is_broken_somewhere() -> None:
    assert {number for number, _, _ in BROKEN.values()} | {1, 9, 10} == {one.number for one in INVARIANTS}


# --- a pruned ledger ----------------------------------------------------------------------------------------------


PRUNED: dict[str, tuple[int, int, History]] = {
    "assumed before the cut": (2, 3, h().see(pod()).add(TICK).add(BOUND).add(BIND).add(BIND_OK)),
    "claims bound before": (3, 3, h().see(claim("a", "pv"), "PersistentVolumeClaim").add(TICK).add(TICK)),
    "listed before": (6, 3, h().see(pod()).add(TICK).add(LISTED_ONE, "Pod", "", "", namespace="")),
    "a gang half placed before": (
        8,
        4,
        h()
        .see(group(), "PodGroup")
        .see(pod(group="g"))
        .see(pod("v", "q", group="g"))
        .add(scheduling.TaskAllocated(job="ns/g", node="n", gang_needed=2), "Pod", "q", "v")
        .wait(1)
        .add(TICK),
    ),
}


@pytest.mark.parametrize("name", PRUNED)
def test_what_only_the_pruned_part_explains_breaks_nothing(name: str, ledger: Ledger) -> None:
    number, cut, history = PRUNED[name]
    history.append_to(ledger)
    ledger.prune(cut)
    assert ledger.store.first() == cut
    assert of(ledger, number).outcome != "broken", of(ledger, number)


STILL: dict[str, tuple[int, int, int, History]] = {
    "a second claim": (
        3,
        3,
        3,
        h()
        .see(claim("a", "pv"), "PersistentVolumeClaim")
        .add(TICK)
        .see(claim("b", "pv"), "PersistentVolumeClaim")
        .wait(2)
        .add(TICK),
    ),
    "another node": (4, 3, 3, h().see(pod(node="n")).add(TICK).see(pod(node="m"), change="Modified")),
    "a list with fewer": (
        6,
        4,
        4,
        h().see(pod()).see(pod("v", "q")).add(TICK).add(LISTED_ONE, "Pod", "", "", namespace=""),
    ),
    "a job with its group": (
        7,
        3,
        3,
        h().see(group(), "PodGroup").add(TICK).add(cleanup.JobDeleted(job="ns/g"), "PodGroup", "g"),
    ),
    "a bind without a resync": (5, 2, 2, h().see(pod()).add(BIND_FAILED).wait(2).add(TICK)),
    "bound twice": (4, 2, 3, h().see(pod()).add(BIND_OK).add(binding.BindSucceeded(node="n"))),
}


@pytest.mark.parametrize("name", STILL)
def test_what_the_state_at_the_cut_shows_is_found(name: str, ledger: Ledger) -> None:
    number, cut, position, history = STILL[name]
    history.append_to(ledger)
    ledger.prune(cut)
    verdict = of(ledger, number)
    assert (verdict.outcome, verdict.position) == ("broken", position), verdict


def test_a_schedulers_pruned_ledger_is_checked_from_its_own_state(ledger: Ledger) -> None:
    """A gang that is placed on both sides of the cut, and volumes that are assumed there, are judged like any other."""
    cluster = SimCluster(ledger)
    for doing in plans.draw(5, 30, (), tight=False).doings:
        if doing.do in ("create", "run") and doing.object is not None and doing.kind != "Queue":
            cluster.create(doing.kind, doing.object)
    cluster.run(seconds=1.5)
    middle = ledger.store.head()
    loop = cluster.simulation.loop
    assert loop is not None and loop.save()
    cluster.rest()
    ledger.prune(middle)
    assert ledger.store.first() > middle // 2
    assert "nothing is known" not in limits(ledger, cluster.name)[0]
    verdicts = check_ledger(ledger)
    assert [one for one in verdicts if one.broken] == []
    assert verdicts[7].outcome == "held"


@pytest.mark.parametrize(
    ("make", "said"),
    [(running, False), (lambda: h().see(pod()).add(BIND_FAILED).add(RESYNC).add(BIND), True)],
)
def test_what_cannot_be_looked_at_is_said(make: Callable[[], History], said: bool, ledger: Ledger) -> None:
    make().append_to(ledger)
    assert limits(ledger, "c") == []
    ledger.prune(3)
    (text,) = limits(ledger, "c")
    assert text.startswith("the record was pruned up to position 2: checked from the state there on")
    assert ("what the scheduler itself had on its way" in text) == said
