"""What was said: Events of every form with their logical count and times."""

from __future__ import annotations

import json
from typing import Any

import pytest

from projections.diagnosis.text import say
from tests.unit.diagnosis.build import obj, pod
from vcledger.why_said import event_count, event_times, said_event, simulated

ABOUT = {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"}
T1, T2, T3 = "2026-03-01T10:00:00Z", "2026-03-01T10:01:00Z", "2026-03-01T10:02:00.5Z"


@pytest.mark.parametrize(
    ("fields", "count", "times"),
    [
        ({"count": 600, "firstTimestamp": T1, "lastTimestamp": T2}, 600, (T1, T2)),
        ({"count": None, "eventTime": T3, "firstTimestamp": None}, 1, (T3, T3)),
        ({"count": 0, "eventTime": T1, "series": {"count": 5, "lastObservedTime": T2}}, 5, (T1, T2)),
        ({"deprecatedCount": 25, "deprecatedFirstTimestamp": T1, "deprecatedLastTimestamp": T2}, 25, (T1, T2)),
        ({}, 1, (T1, T1)),
    ],
)
def test_counts_and_times_stand_in_four_places(fields: dict[str, Any], count: int, times: tuple[str, str]) -> None:
    event = obj("Event", metadata={"name": "e", "uid": "e", "creationTimestamp": T1}, involvedObject=ABOUT, **fields)
    assert event_count(event) == count
    assert event_times(event) == times


def test_both_apis_name_the_same_things() -> None:
    core = obj(
        "Event", metadata={"name": "e"}, involvedObject=ABOUT, message="m", reason="R", source={"component": "volcano"}
    )
    new = obj("Event", metadata={"name": "e"}, regarding=ABOUT, note="m", reason="R", reportingController="volcano")
    left, right = said_event(core, 3, 0), said_event(new, 3, 0)
    assert (left.about, left.message, left.reason, left.by) == ("Pod default/p", "m", "R", "volcano")
    assert (right.about, right.message, right.reason, right.by) == (left.about, left.message, left.reason, left.by)
    assert left.known == "recorded"


def test_an_event_about_nothing_is_no_error() -> None:
    assert said_event(obj("Event", metadata={"name": "e"}), 3, 1).about == ""


@pytest.mark.parametrize(
    "name", ["kube-scheduler-simulator.sigs.k8s.io/filter-result", "scheduler-simulator/filter-result"]
)
def test_what_the_simulator_wrote_is_summed_up(name: str) -> None:
    """Nodes by the first plugin that refused them."""
    fit = "Insufficient cpu"
    results = {
        "n1": {"NodeName": "passed", "NodeResourcesFit": fit},
        "n2": {"NodeName": "passed", "NodeResourcesFit": fit},
        "n3": {"NodeName": "passed", "NodeResourcesFit": "passed"},
    }
    [said] = simulated(pod(annotations={name: json.dumps(results)}), 7)
    assert said.message == f"of 3 nodes 2 NodeResourcesFit: {fit}; 1 passed every filter"
    assert (said.source, said.by, said.position) == ("annotation", "kube-scheduler-simulator", 7)
    assert say(said).startswith("[7] Pod default/p: kube-scheduler-simulator wrote filter-result: of 3 nodes")


@pytest.mark.parametrize("written", ["", "{", "[]", '{"n1": 5}', "{}"])
def test_an_annotation_that_says_nothing_is_passed_over(written: str) -> None:
    assert simulated(pod(annotations={"scheduler-simulator/filter-result": written}), 7) == []
