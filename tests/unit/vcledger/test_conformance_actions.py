"""The harness's own words: Go's way with a message that it takes for a format."""

from __future__ import annotations

import pytest

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
