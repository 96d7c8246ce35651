"""The real cache's rate-limited queues, with time as data.

Owns when a request is tried next. Must not know what a request does. Called by the handlers of `projections.cache`.

Source: client-go's ItemExponentialFailureRateLimiter as Volcano sets it up: 5 ms, doubled each time, at most 1,000 s.
"""

from __future__ import annotations

from projections.cache.state import NEVER, Cache, Retry

BASE_MICROSECONDS = 5_000
MAX_MICROSECONDS = 1_000_000_000


def put_off(cache: Cache, queue: dict[str, Retry], key: str) -> None:
    """Queue a request that isn't queued yet."""
    if key in queue:
        return
    queue[key] = Retry(cache.now + BASE_MICROSECONDS, 0)
    cache.next_due = min(cache.next_due, queue[key].due)
    cache.touched.rest = True


def try_again(cache: Cache, queue: dict[str, Retry], key: str) -> None:
    """Put a request that failed back, further off than before."""
    attempts = queue[key].attempts + 1
    delay = min(BASE_MICROSECONDS << min(attempts, 40), MAX_MICROSECONDS)
    queue[key] = Retry(cache.now + delay, attempts)
    cache.touched.rest = True


def settle(cache: Cache, queue: dict[str, Retry], key: str) -> None:
    """Take a request out that is done with."""
    del queue[key]
    set_next_due(cache)
    cache.touched.rest = True


def set_next_due(cache: Cache) -> None:
    """Find the earliest due time again. Node syncs are left out: what they wait for comes as an event."""
    dues = [retry.due for queue in (cache.pending_cleanup, cache.pending_resync) for retry in queue.values()]
    cache.next_due = min(dues, default=NEVER)


__all__ = ["BASE_MICROSECONDS", "MAX_MICROSECONDS", "put_off", "set_next_due", "settle", "try_again"]
