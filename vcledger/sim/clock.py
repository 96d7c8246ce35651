"""Simulated time: integer microseconds, and a heap of what is to happen when.

Owns the order of things: by time, then by the order in which they were planned. Must not know the real clock. Called by
every actor of the simulated world.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

SECOND = 1_000_000
MILLISECOND = 1_000

START = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z, when every simulated world begins."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(now: int) -> str:
    """Microseconds since 1970 as the API server writes times: whole seconds, UTC."""
    return _written(now // SECOND)


@lru_cache(maxsize=64)
def _written(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def micros(time: str) -> int:
    """The other way round."""
    return int((datetime.strptime(time, "%Y-%m-%dT%H:%M:%S%z") - _EPOCH).total_seconds()) * SECOND


class Timeline:
    """What is to happen, and the time that it is now."""

    def __init__(self, now: int = START) -> None:
        self.now = now
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._planned = 0

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Plans an action; one that is late happens at once, after what was planned before it."""
        self._planned += 1
        heapq.heappush(self._heap, (max(time, self.now), self._planned, action))

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Plans an action in `delay` microseconds."""
        self.at(self.now + delay, action)

    @property
    def next(self) -> int | None:
        """When the next action is due."""
        return self._heap[0][0] if self._heap else None

    def run_next(self) -> None:
        """Moves the time to the next action and does it."""
        time, _, action = heapq.heappop(self._heap)
        self.now = time
        action()

    def run_until(self, time: int) -> None:
        """Does all that is due up to a time, and moves to it."""
        while self._heap and self._heap[0][0] <= time:
            self.run_next()
        self.now = max(self.now, time)
