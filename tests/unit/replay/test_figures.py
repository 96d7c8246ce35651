"""Waits, utilization and the words of a report."""

from __future__ import annotations

import pytest

from vcledger.replay.figures import STRETCHES, Meter, usage, wait_of, waits
from vcledger.replay.report import Counts, Divergence, ReplayResult, Side, Usage
from vcledger.replay.told import seconds, spark, told

SECOND = 1_000_000


def test_quantiles_are_of_the_nearest_rank() -> None:
    found = wait_of([SECOND * number for number in range(100, 0, -1)])
    assert (found.count, found.p50, found.p95, found.max) == (100, 50.0, 95.0, 100.0)
    assert wait_of([SECOND]).p50 == 1.0


def test_waits_are_told_by_queue_and_all_together() -> None:
    found = waits([("b", 2 * SECOND), ("a", 4 * SECOND), ("", 6 * SECOND)])
    assert {queue: (wait.count, wait.max) for queue, wait in found.items()} == {
        "": (3, 6.0),
        "a": (1, 4.0),
        "b": (1, 2.0),
    }


def test_utilization_is_what_is_held_of_what_there_is() -> None:
    meter = Meter()
    meter.node(0, "n0", {"cpu": 4.0})
    meter.take(0, {"cpu": 2.0})
    meter.node(30, "n1", {"cpu": 4.0})
    meter.take(30, {"cpu": 6.0})
    meter.give_back(45, {"cpu": 6.0})
    meter.node(45, "n1", {})
    found = usage(meter.used, meter.room, 0, 60)["cpu"]
    assert found.peak == 1.0
    assert found.mean == pytest.approx((2 * 30 + 8 * 15 + 2 * 15) / (4 * 30 + 8 * 15 + 4 * 15), abs=1e-4)
    assert [found.series[at] for at in (0, 29, 30, 44, 45, 59)] == [0.5, 0.5, 1.0, 1.0, 0.5, 0.5]
    assert len(found.series) == STRETCHES


def test_what_changes_within_a_stretch_counts_by_its_time() -> None:
    found = usage([(90, "cpu", 1.0), (120, "cpu", -1.0)], [(0, "cpu", 1.0)], 0, 6000)["cpu"]
    assert found.series[:3] == [0.1, 0.2, 0.0]


def test_a_moment_that_only_passes_is_no_peak() -> None:
    used = [(0, "cpu", 1.0), (10, "cpu", 1.0), (10, "cpu", -1.0)]
    assert usage(used, [(0, "cpu", 2.0)], 0, 60)["cpu"].peak == 0.5


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0s"),
        (59.94, "59.9s"),
        (60.0, "1m"),
        (89.1, "1m29s"),
        (3600.0, "1h"),
        (12_000.0, "3h20m"),
        (1e6, "11d13h"),
    ],
)
def test_spans_for_people(value: float, text: str) -> None:
    assert seconds(value) == text


def test_a_series_as_blocks() -> None:
    assert spark(Usage(0.5, 1.0, [0.0, 0.5, 0.99, 1.0])) == "▁▅██"


def test_the_report_tells_counts_divergence_and_notes() -> None:
    here, there = Side("n1", SECOND, "placed on n1"), Side("", None, "0/1 nodes are available")
    divergence = Divergence(5, "ns/p", "only_here", there, here)
    counts = Counts(only_here=1, same_node=2)
    result = ReplayResult(
        "free", "", "c", 0, 9, 0, counts=counts, divergence=divergence, divergences=1, notes=["something"]
    )
    lines = ["|".join(line.cells) for line in told(result)]
    assert "       2  same node" in lines
    assert "       1  placed here, pending there" in lines
    assert "first divergence, of 1: position 5, ns/p: placed here, pending there" in lines
    assert "  recorded  0/1 nodes are available" in lines
    assert "  here      1970-01-01T00:00:01Z: placed on n1" in lines
    assert lines[-1] == "note: something"
