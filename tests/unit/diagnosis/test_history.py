"""The states of a pod's life, read off what was written, and how a sentence changed."""

from __future__ import annotations

from typing import Any

import pytest

from projections.diagnosis.details import duration, history_lines, waited_line
from projections.diagnosis.history import (
    STATES,
    History,
    Passage,
    Seen,
    Span,
    Try,
    lasting,
    passages,
    reworded,
    said_state,
    time_in_states,
)
from tests.unit.diagnosis.build import claim, obj, pod

FIT = "0/3 nodes are unavailable: 1 Insufficient cpu, 2 node(s) had untolerated taint(s)."
GANG = "pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable"
SECOND = 1_000_000


@pytest.mark.parametrize(
    ("message", "state"),
    [
        ("", ""),
        ("something else", ""),
        (FIT, "nodes"),
        ("0/2 nodes are unavailable: 2 node(s) didn't find available persistent volumes to bind.", "volumes"),
        (
            "0/2 nodes are unavailable: 2 plugin VolumeZone pre-predicates failed PersistentVolume had no name.",
            "volumes",
        ),
        ("0/2 nodes are unavailable: 1 Insufficient cpu, 1 node(s) exceed max volume count.", "nodes"),
        (GANG, "queue"),
        (f"{GANG}. Origin reason is w-0: {FIT}", "gang"),
        (f"2/2 tasks in gang unschedulable: {GANG}. Origin reason is w-0: {FIT}", "gang"),
        (f"2/2 tasks in gang unschedulable: {GANG}", "queue"),
        ("Pod default/p can possibly be assigned to n1, once minAvailable is satisfied", "gang"),
        (
            "Pod default/p can possibly be assigned to n1, once resource is released and minAvailable is satisfied",
            "nodes",
        ),
        ("Task w-1 with role spec w has already predicated failed, skip", "nodes"),
        ("failed to bind to node n1: Internal error occurred: injected", "bind"),
        (
            "execute preBind for pod default/p failed: binding volumes: context deadline exceeded, resync the task",
            "volumes",
        ),
    ],
)
def test_a_sentence_tells_a_state(message: str, state: str) -> None:
    assert said_state(message) == state
    assert state in {"", *STATES}


def told(message: str, **more: Any) -> Any:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod(status={"phase": "Pending", "conditions": [condition]}, **more)


def group(phase: str) -> Any:
    return obj("PodGroup", metadata={"name": "g"}, spec={"minMember": 1}, status={"phase": phase})


def states(*seen: tuple[int, str, Any], of_group: bool = False) -> list[tuple[int, str]]:
    given = [Seen(second * SECOND, second, what, thing, "c") for second, what, thing in seen]
    return [(one.time // SECOND, one.state) for one in passages(given, of_group=of_group)]


def test_a_life_from_the_gate_to_the_end() -> None:
    found = states(
        (1, "group", group("Pending")),
        (2, "pod", pod(schedulingGates=[{"name": "wait"}])),
        (3, "pod", pod()),
        (4, "group", group("Inqueue")),
        (5, "pod", told(FIT)),
        (6, "pod", told(FIT)),
        (7, "pod", told("failed to bind to node n1: no")),
        (8, "pod", pod(nodeName="n1")),
        (9, "pod", pod(nodeName="n1", status={"phase": "Running"})),
        (12, "pod", pod(nodeName="n1", status={"phase": "Succeeded"})),
    )
    assert found == [
        (2, "gated"), (3, "queue"), (4, "first-try"), (5, "nodes"), (7, "bind"), (8, "starting"), (9, "running"),
        (12, ""),
    ]  # fmt: skip


def test_a_claim_with_its_node_chosen_waits_for_its_volume() -> None:
    chosen = claim("c", annotations={"volume.kubernetes.io/selected-node": "n1"})
    found = states(
        (1, "group", group("Inqueue")),
        (2, "claim", claim("c")),
        (3, "pod", pod()),
        (4, "claim", chosen),
        (6, "claim", claim("c", volume="v", annotations={"volume.kubernetes.io/selected-node": "n1"})),
        (7, "pod", None),
    )
    assert found == [(3, "first-try"), (4, "volumes"), (6, "first-try"), (7, "")]


def test_a_group_of_its_own() -> None:
    found = states(
        (1, "group", group("Pending")), (4, "group", group("Inqueue")), (6, "group", group("Running")), of_group=True
    )
    assert found == [(1, "queue"), (4, "first-try"), (6, "running")]
    assert states((1, "group", group("Pending"))) == [], "a pod's life begins with the pod"


def test_the_time_in_each_state_adds_up() -> None:
    found = [Passage(0, 1, "queue"), Passage(2 * SECOND, 2, "nodes"), Passage(5 * SECOND, 3, "queue")]
    spans = lasting(found, 9 * SECOND)
    assert [(one.state, end, seconds) for one, end, seconds in spans] == [
        ("queue", 2 * SECOND, 2.0), ("nodes", 5 * SECOND, 3.0), ("queue", None, 4.0),
    ]  # fmt: skip
    assert time_in_states(spans) == {"queue": 6.0, "nodes": 3.0}
    assert lasting([Passage(5, 1, "")], 9) == []


def test_how_a_sentence_changed() -> None:
    after = "0/4 nodes are unavailable: 3 Insufficient cpu, 1 node(s) were unschedulable."
    assert reworded(FIT, after) == (
        "4 nodes instead of 3, 3 instead of 1 Insufficient cpu, 0 instead of 2 node(s) had untolerated taint(s), "
        "1 instead of 0 node(s) were unschedulable"
    )
    assert reworded(GANG, FIT) == f"said before: {GANG}"
    assert reworded("", FIT) == "nothing was said before"


def test_the_lines_say_the_times_and_the_tries() -> None:
    past = History(
        spans=[Span(state="nodes", since="a", to=None, seconds=61.0, position=4)],
        tries=[
            Try(time="t", position=4, state="nodes", message=FIT, changed=["nodes added: n9"], verdict="gang-short")
        ],
        time_in_state_seconds={"queue": 1.25, "nodes": 7384.0},
        left_out=3,
    )
    texts = [line.text for line in history_lines(past)]
    assert texts[0] == "queue 1.2s, nodes 2h03m"
    assert texts[1] == "nodes since a and still is: it fits on no node"
    assert "[gang-short]" in texts[2] and texts[2].endswith("(nodes added: n9)")
    assert texts[3] == "3 tries in the middle left out"
    assert duration(61.0) == "1m01s"


def spent(*spans: tuple[str, float]) -> History:
    """A history of states and how long each lasted, at positions 10, 20, ..."""
    told = [
        Span(state=state, since="a", to="b", seconds=seconds, position=10 * (index + 1))
        for index, (state, seconds) in enumerate(spans)
    ]
    return History(spans=told, tries=[], time_in_state_seconds=dict(spans))


def test_a_wait_that_is_over_is_one_line_with_where_to_ask() -> None:
    past = spent(("first-try", 1.0), ("gang", 43.0), ("nodes", 0.0), ("starting", 90.0), ("running", 25.0))
    assert [line.text for line in waited_line(past)] == ["waited 44.0s: first-try 1.0s, gang 43.0s; why: --at 20"]
    assert waited_line(spent(("first-try", 1.0), ("running", 25.0))) == []
    assert waited_line(spent()) == []
