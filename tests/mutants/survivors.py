"""Generated mutants that survived, and why nothing can notice them.

Owns these explanations. Must not know how they were found. Called by `tests.mutants.more`.
"""

from __future__ import annotations

EXPLAINED: dict[tuple[str, str, str], str] = {}
"""(file, line before, line after) to why."""
