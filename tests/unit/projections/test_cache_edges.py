"""What only a bug on purpose showed to be untested: see docs/mutants.md."""

from __future__ import annotations

from projections.cache import digest
from tests.unit.projections.test_cache_time import POD, events, fold


def test_what_a_queue_holds_is_part_of_the_digest() -> None:
    """Two caches that will go different ways are not the same, though they show the same."""
    waiting = fold("volcano-1.11", events(("Pod", POD, 1), ("Pod", POD, 0)))
    before = digest(waiting)
    retry = waiting.pending_cleanup.pop("ns/g")
    assert digest(waiting) != before
    waiting.pending_cleanup["ns/g"] = retry._replace(attempts=retry.attempts + 1)
    assert digest(waiting) != before
    waiting.pending_cleanup["ns/g"] = retry
    assert digest(waiting) == before
