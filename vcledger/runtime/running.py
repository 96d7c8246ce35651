"""What a process that runs until it is told to end has: a way to end it, a clock, threads, and what went wrong.

Owns these. Must not know what the threads do. Called by `vcledger.record.recorder` and `vcledger.schedule.scheduler`,
which are such runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from vcledger.runtime.clock import Clock, SystemClock


class Running:
    """A run. `title` begins its threads' names; `_stop` is set when it is to end, `_why` says who wanted it, `_problem`
    what ended it ('' for nothing)."""

    title = "run"

    def __init__(self, clock: Clock | None) -> None:
        self.clock = clock or SystemClock()
        self._stop = threading.Event()
        self._why = ""
        self._problem = ""
        self._now_lock = threading.Lock()

    def stop(self, why: str = "") -> None:
        """Ends the run, from any thread or a signal's handler: it returns when what it had begun is done."""
        self._why = self._why or why
        self._stop.set()

    def wait(self, seconds: float) -> bool:
        """Waits so long, or until the run is to stop: whether it is."""
        return self._stop.wait(seconds)

    def now(self) -> int:
        """The time, in microseconds; it never goes back, whichever thread asks."""
        with self._now_lock:
            return self.clock.now()

    def _fail(self, problem: str) -> None:
        """Something after which there is no going on."""
        self._problem = self._problem or problem
        self.stop()

    def _thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=target, name=f"{self.title} {name}", daemon=True)
        thread.start()
        return thread


__all__ = ["Running"]
