"""Shadow replay: which decisions are found, what is asked in which state, how answers are judged."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.unit.replay.fake import FirstFit
from tests.unit.replay.traces import Gang, Stage, group, ledger_of, member, queue
from tests.unit.vcledger.build import node, seen
from vcledger.ledger import Ledger
from vcledger.replay import shadow_pieces, shadowing
from vcledger.replay.engine import Job, ReplayPlan, ReplayResult, ShadowHasNoChanges, run_replay
from vcledger.replay.whatif import RemoveNodes
from vcledger.scheduler.session.outcome import Outcome

SAME = Stage((8, 8, 8, 8), (Gang(4, 4, 4, 0, 30), Gang(2, 2, 8, 5, 20)))
"""What the recorded scheduler of the traces does is what first-fit does."""


def shadow(source: Ledger, decider: Any = FirstFit, out: Path | None = None, **times: Any) -> ReplayResult:
    job = Job(source, ReplayPlan(), "c", times.get("first", 0), source.store.head(), decider, None, lambda: False)
    return shadowing.run_shadow(job, str(out) if out else None, resume=False)


def test_the_same_decisions_are_no_divergence(tmp_path: Path) -> None:
    with Ledger.open(ledger_of(SAME, tmp_path / "source.db"), read_only=True) as source:
        result = shadow(source)
    assert result.counts.same_node == result.placed_recorded == 6
    assert (result.divergence, result.divergences) == (None, 0)
    assert result.waits_recorded[""].count == 6
    assert result.usage_recorded["cpu"].peak > 0.4


def told(*more: Any) -> list[Any]:
    gang = Gang(1, 1, 4, 0, 10)
    return [
        seen("ADDED", queue("default", 1), 0),
        seen("ADDED", node("n0", 2, cpu="8"), 0),
        seen("ADDED", node("n1", 3, cpu="8"), 0),
        seen("ADDED", group(0, gang, 4), 1),
        seen("MODIFIED", {**group(0, gang, 5), "status": {"phase": "Inqueue"}}, 1),
        seen("ADDED", member(0, 0, gang, 6, "", "Pending"), 1),
        *more,
    ]


def ledger(path: Path, events: list[Any]) -> Ledger:
    made = Ledger.open(str(path), create=True)
    made.store.append(events)
    return made


def test_another_node_that_would_do_is_told_apart_from_one_that_would_not(tmp_path: Path) -> None:
    gang = Gang(1, 1, 4, 0, 10)
    events = told(seen("MODIFIED", member(0, 0, gang, 7, "n1", "Pending"), 2))
    with ledger(tmp_path / "other.db", events) as source:
        result = shadow(source)
    assert result.counts.other_node == 1
    assert result.divergence is not None
    assert (result.divergence.position, result.divergence.pod) == (7, "default/g0-0")
    assert result.divergence.recorded.node == "n1"
    assert result.divergence.replayed.reason == "would be placed on n0"
    events = told(seen("MODIFIED", member(0, 0, gang, 7, "n9", "Pending"), 2))
    with ledger(tmp_path / "infeasible.db", events) as source:
        result = shadow(source)
    assert result.counts.infeasible == 1
    assert result.divergence is not None
    assert result.divergence.recorded.reason == "placed on n9, which is refused here: no room"


def test_pods_that_only_one_side_places(tmp_path: Path) -> None:
    big, small = Gang(1, 1, 99, 0, 10), Gang(1, 1, 4, 0, 10)
    events = told(
        seen("ADDED", group(1, big, 8), 3),
        seen("MODIFIED", {**group(1, big, 9), "status": {"phase": "Inqueue"}}, 3),
        seen("ADDED", member(1, 0, big, 10, "", "Pending"), 3),
        seen("MODIFIED", member(1, 0, big, 11, "n0", "Pending"), 4),
        seen("DELETED", member(0, 0, small, 12, "", "Pending"), 60),
    )
    with ledger(tmp_path / "source.db", events) as source:
        result = shadow(source)
    assert result.counts.only_here == 1
    assert result.counts.infeasible == 1
    assert result.divergences == 2


def test_the_question_is_asked_in_the_state_before_the_decision(tmp_path: Path) -> None:
    asked: list[tuple[int, list[str]]] = []

    class Asked(FirstFit):
        def decide(self, now: int, cycle: int, only: Collection[str] | None = None) -> Outcome:
            bound = sorted(key for key, ref in self.cache.pods.items() if ref.node_name)
            asked.append((self.cache.position, bound))
            return super().decide(now, cycle, only)

    with Ledger.open(ledger_of(SAME, tmp_path / "source.db"), read_only=True) as source:
        first = next(stored.position for stored in source.store.read(kinds="Pod") if b"nodeName" in stored.payload)
        shadow(source, Asked)
    assert (first - 1, []) in asked
    assert len([bound for _, bound in asked if 0 < len(bound) < 4]) == 0  # one question for the whole gang


def evicted(gang: Gang, version: int) -> dict[str, Any]:
    """Pod g0-0, told to go as Volcano's evictor does."""
    pod = member(0, 0, gang, version, "n0", "Running")
    pod["metadata"]["deletionTimestamp"] = "2026-03-01T03:00:05Z"
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "Evict"}]
    return pod


def eviction(folder: Path, *victims: str) -> ReplayResult:
    """A record in which g0-0 is evicted at position 9, in shadow with a session that evicts these pods."""
    gang = Gang(2, 2, 4, 0, 10)
    events = told(
        seen("MODIFIED", member(0, 0, gang, 7, "n0", "Running"), 2),
        seen("ADDED", member(0, 1, gang, 8, "n0", "Running"), 3),
        seen("MODIFIED", evicted(gang, 9), 5),
        seen("DELETED", evicted(gang, 10), 6),
        seen("DELETED", member(0, 1, gang, 11, "n0", "Running"), 7),
    )
    with ledger(folder / "source.db", events) as source:
        return shadow(source, partial(FirstFit, evicts=victims))


def test_a_recorded_eviction_is_asked_about(tmp_path: Path) -> None:
    result = eviction(tmp_path, "default/g0-0")
    assert (result.evictions_recorded, result.evictions, result.counts.evicted_same) == (1, 1, 1)
    assert (result.divergence, result.divergences) == (None, 0)


def test_other_victims_are_told_from_both_sides(tmp_path: Path) -> None:
    result = eviction(tmp_path, "default/g0-1")
    counts = result.counts
    assert (counts.evicted_same, counts.evicted_only_there, counts.evicted_only_here) == (0, 1, 1)
    assert (result.evictions_recorded, result.evictions, result.divergences) == (1, 1, 2)
    assert result.divergence is not None
    assert (result.divergence.position, result.divergence.pod) == (9, "default/g0-0")


def test_a_session_that_evicts_nobody_differs(tmp_path: Path) -> None:
    result = eviction(tmp_path)
    assert (result.evictions, result.counts.evicted_only_there) == (0, 1)
    assert result.divergence is not None
    assert (result.divergence.position, result.divergence.kind) == (9, "evicted_only_there")
    assert (result.divergence.recorded.reason, result.divergence.replayed.reason) == ("evicted from n0", "left running")


def test_what_an_old_question_would_have_evicted_is_no_answer(tmp_path: Path) -> None:
    """The question about g1-0 evicts g0-0 at once; the whole cycle of the eviction, 50 minutes later, evicts nobody."""
    gang = Gang(2, 2, 4, 0, 10)
    events = told(
        seen("MODIFIED", member(0, 0, gang, 7, "n0", "Running"), 2),
        seen("ADDED", group(1, gang, 20), 3),
        seen("MODIFIED", {**group(1, gang, 21), "status": {"phase": "Inqueue"}}, 3),
        seen("ADDED", member(1, 0, gang, 22, "", "Pending"), 3),
        seen("MODIFIED", member(1, 0, gang, 23, "n1", "Running"), 10),
        seen("MODIFIED", evicted(gang, 29), 3000),
    )
    with ledger(tmp_path / "source.db", events) as source:
        counts = shadow(source, partial(FirstFit, evicts=("default/g0-0",))).counts
    assert (counts.evicted_same, counts.evicted_only_there, counts.evicted_only_here) == (0, 1, 1)


def test_a_pod_that_ended_by_itself_is_told_so(tmp_path: Path) -> None:
    gang = Gang(2, 2, 4, 0, 10)
    events = told(
        seen("MODIFIED", member(0, 0, gang, 7, "n0", "Running"), 2),
        seen("ADDED", member(0, 1, gang, 8, "", "Pending"), 3),
        seen("MODIFIED", member(0, 1, gang, 9, "n0", "Running"), 10),
        seen("DELETED", member(0, 0, gang, 10, "n0", "Running"), 3000),
    )
    with ledger(tmp_path / "source.db", events) as source:
        result = shadow(source, partial(FirstFit, evicts=("default/g0-0",)))
    assert (result.evictions_recorded, result.counts.evicted_only_here) == (0, 1)
    assert result.divergence is not None
    assert result.divergence.kind == "evicted_only_here"
    assert result.divergence.recorded.reason == "left running to its end"
    assert result.divergence.recorded.time is not None


@pytest.mark.parametrize(("least", "broken"), [(1, 1), (2, 0)])
def test_gangs_that_broke_in_the_record_are_counted(tmp_path: Path, least: int, broken: int) -> None:
    gang = Gang(2, least, 4, 0, 10)
    events = told(
        seen("MODIFIED", {**group(0, gang, 8), "status": {"phase": "Running"}}, 1),
        seen("MODIFIED", member(0, 0, gang, 9, "n0", "Running"), 2),
        seen("MODIFIED", evicted(gang, 10), 5),
    )
    with ledger(tmp_path / "source.db", events) as source:
        assert shadow(source).gangs_broken_recorded == broken


def test_a_gang_breaks_with_its_node_but_not_by_a_deletion(tmp_path: Path) -> None:
    gang = Gang(1, 1, 4, 0, 10)
    there = [seen("MODIFIED", member(0, 0, gang, 7, "n0", "Running"), 2)]
    goes = [seen("DELETED", member(0, 0, gang, 9, "n0", "Running"), 6)]
    with ledger(tmp_path / "deleted.db", told(*there, *goes)) as source:
        assert shadow(source).gangs_broken_recorded == 0
    lost = seen("DELETED", node("n0", 8, cpu="8"), 5)
    with ledger(tmp_path / "lost.db", told(*there, lost, *goes)) as source:
        assert shadow(source).gangs_broken_recorded == 1


def test_nothing_is_asked_of_a_record_that_names_no_nodes(tmp_path: Path) -> None:
    gang = Gang(1, 1, 4, 0, 10)
    waiting = [
        seen("ADDED", group(1, gang, 8), 3),
        seen("MODIFIED", {**group(1, gang, 9), "status": {"phase": "Inqueue"}}, 3),
        seen("ADDED", member(1, 0, gang, 10, "", "Pending"), 3),
        seen("ADDED", node("n2", 11, cpu="8"), 30),
        seen("ADDED", node("n3", 12, cpu="8"), 60),
    ]
    ran = seen("MODIFIED", member(0, 0, gang, 7, "", "Running"), 2)
    with ledger(tmp_path / "unknown.db", told(ran, *waiting)) as source:
        result = shadow(source)
    assert (result.cycles, result.counts.only_here, result.counts.unknown_node) == (0, 0, 1)
    named = seen("MODIFIED", member(0, 0, gang, 7, "n0", "Running"), 2)
    with ledger(tmp_path / "named.db", told(named, *waiting)) as source:
        assert shadow(source).counts.only_here == 1


def test_what_goes_back_in_time_is_told(tmp_path: Path) -> None:
    with ledger(tmp_path / "source.db", told(seen("ADDED", node("early", 9, cpu="8"), -60))) as source:
        assert "1 observation goes back in time (the record had got past it): left out" in shadow(source).notes


def test_a_pod_that_ran_nobody_knows_where_is_counted_apart(tmp_path: Path) -> None:
    gang = Gang(1, 1, 4, 0, 10)
    with ledger(tmp_path / "s.db", told(seen("MODIFIED", member(0, 0, gang, 7, "", "Running"), 2))) as source:
        result = shadow(source)
    assert result.counts.unknown_node == 1
    assert any("does not say on which node" in line for line in result.notes)


def test_a_result_has_the_record_and_what_was_said_of_it(tmp_path: Path) -> None:
    with Ledger.open(ledger_of(SAME, tmp_path / "source.db"), read_only=True) as source:
        shadow(source, out=tmp_path / "out.db")
        with Ledger.open(str(tmp_path / "out.db"), read_only=True) as result:
            there = [stored.payload for stored in source.store.read(kinds="Pod", types="ObjectModified")]
            here = [stored.payload for stored in result.store.read(kinds="Pod", types="ObjectModified")]
            assert here == there
            said = next(result.store.read(types="TaskAllocated"))
            bound = next(stored for stored in result.store.read(kinds="Pod") if b"nodeName" in stored.payload)
            assert said.position < bound.position
            assert result.store.verify().ok


def test_what_cannot_be_asked_for_is_refused(tmp_path: Path) -> None:
    path = ledger_of(SAME, tmp_path / "source.db")
    with Ledger.open(path, read_only=True) as source, pytest.raises(ShadowHasNoChanges, match="--mode free"):
        run_replay(source, ReplayPlan(changes=(RemoveNodes("--remove-node n0", "n0"),)))


def test_stops_when_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_pieces, "TOLD_EACH", 2)
    with Ledger.open(ledger_of(SAME, tmp_path / "source.db"), read_only=True) as source:
        job = Job(source, ReplayPlan(), "c", 0, source.store.head(), FirstFit, None, lambda: True)
        result = shadowing.run_shadow(job, None, resume=False)
    assert (result.finished, result.stopped_at) == (False, 2)
