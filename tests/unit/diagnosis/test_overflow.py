"""Requests beyond the scheduler's 64 bits are told with what it makes of them."""

from __future__ import annotations

from typing import Any

from projections.diagnosis.explain import explain
from projections.diagnosis.overflow import overflow_notes
from tests.unit.diagnosis.build import pod, task
from tests.unit.diagnosis.test_explain import GROUPED, case

HUGE = "100000000000000000000000"


def asking(**requests: str) -> Any:
    return pod(containers=[{"name": "c", "resources": {"requests": requests}}], **GROUPED)


def test_a_request_that_wraps_is_told_with_what_it_counts_as() -> None:
    subject = asking(cpu=HUGE)
    [note] = overflow_notes(task(subject, {"cpu": HUGE}))
    assert note.startswith(f"cpu {HUGE} is more than the scheduler's 64 bits hold: it counts as -")
    assert note.endswith("as if nothing were asked")
    assert note in explain(case(subject, {"cpu": HUGE})).notes


def test_what_fits_or_is_counted_as_it_was_written_is_not() -> None:
    assert overflow_notes(task(asking(cpu="100m", memory="1Gi"), {"cpu": "100m", "memory": "1Gi"})) == []
    exact = task(asking(cpu=HUGE), {"cpu": "1"})
    exact.request["cpu"] = 1e26
    assert overflow_notes(exact) == []
    assert overflow_notes(None) == []
