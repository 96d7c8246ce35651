"""The loop under real time: steps when something has come in or a timer runs out, sleeps otherwise.

Owns the waiting. Must not know what is decided nor where inputs come from. Called by a process that runs the scheduler.
"""

from __future__ import annotations

import threading

from vcledger.runtime.clock import Clock
from vcledger.runtime.loop import Loop
from vcledger.scheduler.inputs import Input

SECOND = 1_000_000
IDLE_SECONDS = 0.5
"""How long it sleeps at most with nothing to wait for."""

REFUSED_SECONDS = 1.0
"""How long it waits before a log that refuses is tried again."""


class Live:
    """Runs a loop. `put` may be called from any thread; `run` returns after `stop`."""

    def __init__(self, loop: Loop, clock: Clock) -> None:
        self.loop, self.clock = loop, clock
        self._wake, self._stop = threading.Event(), threading.Event()

    def put(self, given: Input) -> None:
        """An input for the loop, which wakes for it."""
        self.loop.put(given)
        self._wake.set()

    def stop(self) -> None:
        """Lets `run` return after the step that it is in."""
        self._stop.set()
        self._wake.set()

    def run(self) -> None:
        """Recovers, then steps until it is stopped."""
        self.loop.recover(self.clock.now())
        while not self._stop.is_set():
            self._wake.clear()
            self.loop.step(self.clock.now())
            if not self.loop.waiting or self.loop.down is not None:
                self._wake.wait(self._pause())

    def _pause(self) -> float:
        if self.loop.down is not None:
            return REFUSED_SECONDS
        due = self.loop.next_due()
        if due is None:
            return IDLE_SECONDS
        return min(IDLE_SECONDS, max(0.0, (due - self.clock.now()) / SECOND))


__all__ = ["Live"]
