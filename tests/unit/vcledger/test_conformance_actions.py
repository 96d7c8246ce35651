"""The harness's own words: Go's way with a message that it takes for a format."""

from __future__ import annotations

from typing import Any

import pytest

from projections.cache import Cache
from vcledger.conformance import VectorRunner
from vcledger.conformance_actions import go_format


@pytest.mark.parametrize(
    ("message", "formatted"),
    [
        ("plain", "plain"),
        ("disk 95%d full 100%", "disk 95%!d(MISSING) full 100%!(NOVERB)"),
        ("100% sure", "100%!s(MISSING)ure"),
        ("100%%", "100%"),
        ("%5.2f", "%!f(MISSING)"),
    ],
)
def test_a_message_taken_for_a_format(message: str, formatted: str) -> None:
    """Vectors 096 and 103."""
    assert go_format(message) == formatted


@pytest.mark.parametrize(
    "step",
    [
        {"action": "node_add_task", "task": "ns/p", "node": "nowhere"},
        {"action": "node_remove_task", "task": "ns/p", "node": "nowhere"},
        {"action": "set_job_fit_errors", "job": "ns/none", "message": "m"},
        {"action": "update_job_status", "job": "ns/none", "update_pg": True},
        {"action": "evict", "task": "ns/none", "reason": "r"},
    ],
)
def test_an_action_on_what_is_not_there_is_refused(step: dict[str, Any]) -> None:
    runner = VectorRunner(Cache("volcano-1.11"))
    assert "failed to find" in runner.run(step)["error"]
