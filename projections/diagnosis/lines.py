"""A line of an answer for people, before it is laid out.

Owns its shape. Must not know what is told. Called by whoever tells something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """A line: `role` says what it is (head, verdict, cause, also, node, said, proof, note), for whoever colours it."""

    role: str
    text: str


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines with columns that stand under each other; no rows give no lines."""
    if not rows:
        return []
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in [head, *rows]
    ]
