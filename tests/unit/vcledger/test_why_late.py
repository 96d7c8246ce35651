"""Facts that came into the log late: `why` says what they say, and that its evaluation does not have them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from projections.diagnosis.model import Explanation
from projections.diagnosis.text import lines, plain
from tests.unit.vcledger import build
from vcledger.ledger import Ledger
from vcledger.why import pod_story, why

REFUSED = "0/2 nodes are unavailable: 2 Insufficient cpu."


def waiting(version: int, message: str = "", **more: Any) -> dict[str, Any]:
    """Pod w of `build.life`, with what the scheduler wrote on it."""
    thing = build.pod("w", version, cpu="64", **more)
    if message:
        refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        thing["status"]["conditions"] = [refusal]
    return thing


def told(message: str, count: int, version: int) -> dict[str, Any]:
    """An Event about pod w."""
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": "w.1", "namespace": "default", "uid": "e-u", "resourceVersion": str(version)},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "w", "uid": "w-u"},
        "reason": "FailedScheduling",
        "message": message,
        "count": count,
        "firstTimestamp": "2026-03-01T03:00:10Z",
        "lastTimestamp": f"2026-03-01T03:00:{10 + count}Z",
    }


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """`life`, then two observations of the node at second 20, position 10, and at 30."""
    with Ledger.open(str(tmp_path / "ledger.db"), create=True) as opened:
        opened.store.append(build.life())
        opened.store.append([build.seen("MODIFIED", build.node("n1", 20), 20)])
        opened.store.append([build.seen("MODIFIED", build.node("n1", 30), 30)])
        yield opened


def ask(ledger: Ledger) -> Explanation:
    return why(ledger, "default", "w", position=10)


def test_what_was_said_takes_in_a_late_condition_and_a_late_event(ledger: Ledger) -> None:
    assert ask(ledger).said == []
    ledger.store.append([build.seen("MODIFIED", waiting(12, REFUSED), 12)])
    ledger.store.append(
        [build.seen("ADDED", told(REFUSED, 1, 13), 11), build.seen("MODIFIED", told(REFUSED, 5, 14), 15)]
    )
    ledger.store.append([build.seen("MODIFIED", told(REFUSED, 9, 15), 25)])
    answer = ask(ledger)
    assert [(one.source, one.message, one.count, one.position) for one in answer.said] == [
        ("condition", REFUSED, 1, 12),
        ("event", REFUSED, 5, 14),
    ]
    assert answer.disagreements == []


def test_an_older_event_that_came_late_does_not_replace_a_newer_one(ledger: Ledger) -> None:
    ledger.store.append([build.seen("MODIFIED", told(REFUSED, 7, 40), 40)])
    ledger.store.append([build.seen("ADDED", told(REFUSED, 2, 13), 11)])
    answer = why(ledger, "default", "w")
    assert [one.count for one in answer.said] == [7]


def test_a_late_fact_that_the_evaluation_contradicts_is_said(ledger: Ledger) -> None:
    ledger.store.append([build.seen("MODIFIED", waiting(12, node_name="n2", phase="Running"), 12)])
    answer = ask(ledger)
    assert answer.verdict == "no-node-fits"
    assert answer.disagreements == [
        "Pod default/w was on node n2, in phase Running by 2026-03-01T03:00:12Z: position 12 says so, which came into "
        "the log late; the evaluation has it as without a node, in phase Pending"
    ]
    assert "Disagreement  Pod default/w was on node n2" in plain(lines(answer))


def test_a_late_deletion_and_the_next_pod_of_the_name_are_said(ledger: Ledger) -> None:
    ledger.store.append([build.seen("DELETED", waiting(12), 12)])
    ledger.store.append([build.seen("ADDED", build.pod("w", 14, uid="next-u"), 14)])
    found = ask(ledger).disagreements
    assert found[0].startswith("Pod default/w was gone by 2026-03-01T03:00:12Z")
    assert found[1].startswith("another Pod default/w (uid next-u) was without a node")


def test_the_time_of_the_answer_is_its_own_clusters(ledger: Ledger) -> None:
    """Neither another cluster's events nor late ones, which stand last in the log, move it."""
    ledger.store.append(build.life("d"))
    ledger.store.append([build.seen("MODIFIED", waiting(12, REFUSED), 12)])
    answer = why(ledger, "default", "w", position=ledger.store.head(), cluster="c")
    assert answer.time == "2026-03-01T03:00:30Z"
    assert why(ledger, "default", "w", position=ledger.store.head(), cluster="d").time == "2026-03-01T03:00:09Z"


def test_the_story_has_late_facts_up_to_the_time_asked_about(ledger: Ledger) -> None:
    """As those stand last in the log, its last event's time bounds nothing."""
    ledger.store.append([build.seen("MODIFIED", waiting(25, node_name="n2"), 25)])
    ledger.store.append([build.seen("MODIFIED", waiting(12, REFUSED), 12)])
    whole = why(ledger, "default", "w", position=ledger.store.head())
    assert "on node n2" in [line.text for line in pod_story(ledger, whole)]
    early = why(ledger, "default", "w", position=10, asked_at=build.START + 24_000_000)
    assert "on node n2" not in [line.text for line in pod_story(ledger, early)]
    later = why(ledger, "default", "w", position=10, asked_at=build.START + 26_000_000)
    assert "on node n2" in [line.text for line in pod_story(ledger, later)]
    assert later.disagreements[0].startswith("Pod default/w was on node n2 by 2026-03-01T03:00:25Z")


def test_what_came_later_or_is_older_than_the_last_that_is_known_changes_nothing(ledger: Ledger) -> None:
    before = ask(ledger)
    ledger.store.append([build.seen("MODIFIED", waiting(25, node_name="n2"), 25)])
    ledger.store.append([build.seen("MODIFIED", waiting(7, node_name="n1"), 8)])
    assert ask(ledger) == before
