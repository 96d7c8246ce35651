"""Generated mutants that survived, and why nothing can notice them.

Owns these explanations. Must not know how they were found. Called by `tests.mutants.more`.
"""

from __future__ import annotations

EXPLAINED: dict[tuple[str, str, str], str] = {
    (
        "eventstore/accept.py",
        "if revision <= head.highest:",
        "if revision is not head.highest:",
    ): "the run is taken one event at a time then, to the same end",
}
"""(file, line before, line after) to why."""
