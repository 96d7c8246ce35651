"""The time for the loop: microseconds since 1970, UTC, that never go back.

Owns the wall clock's one reading. Must not know what time is for. Called by `vcledger.runtime.live`; the simulation and
the runner of scenarios have clocks of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """What tells the time."""

    def now(self) -> int:
        """Microseconds since 1970, never less than before."""
        ...


class SystemClock:
    """The machine's clock. Set back by somebody, it stands still until it has caught up."""

    def __init__(self, read: Callable[[], int] = time.time_ns) -> None:
        self._read = read
        self._last = 0

    def now(self) -> int:
        self._last = max(self._last, self._read() // 1_000)
        return self._last


__all__ = ["Clock", "SystemClock"]
