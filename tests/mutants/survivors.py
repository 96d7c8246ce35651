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
    (
        "vcledger/scheduler/binder.py",
        "if len(batch) < size and not whole:",
        "if len(batch) is not size and not whole:",
    ): "a batch is never longer than its size",
}
"""(file, line before, line after) to why."""
