"""The leader lock's thread: asks for the lock, keeps it, gives it up.

Owns the thread and what people are told of the lock. Must not know the protocol (`vcledger.schedule.election`) nor what
is done under the lock. Called by `vcledger.schedule.scheduler`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from vcledger.schedule.election import Election, Standing
from vcledger.scheduler.requests import Answer

PAUSE_SECONDS_MIN = 0.05
JOIN_SECONDS = 15.0


class LockPort(Protocol):
    """The way to the Lease: a request, its answer. Its answers must come, or be given up, well within the time after
    which a lock counts as lost."""

    def raw(self, verb: str, path: str, body: bytes | None = None, type_: str = "application/json") -> Answer: ...


class LeaderLock:
    """A candidate that runs. `leading` is set once the lock is ours; `lost` is called, from the lock's thread, when it
    is ours no more."""

    def __init__(
        self,
        election: Election,
        port: LockPort,
        *,
        now: Callable[[], int],
        told: Callable[[str], None],
        lost: Callable[[str], None],
    ) -> None:
        self.election, self.leading = election, threading.Event()
        self._port, self._now, self._told, self._lost = port, now, told, lost
        self._over = threading.Event()
        self._said = ""
        self._thread = threading.Thread(target=self._run, name="leader lock", daemon=True)

    def begin(self) -> None:
        """Starts to ask for it."""
        self._thread.start()

    def end(self) -> None:
        """Gives the lock up: only when nothing is done under it any more."""
        self._over.set()
        self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        election = self.election
        while not self._over.is_set():
            while (ask := election.ask(self._now())) is not None:
                election.take(self._port.raw(ask.verb, ask.path, ask.body or None), self._now())
            self._tell()
            if election.standing is Standing.LOST:
                self._lost(election.problem)
                return
            if election.standing is Standing.LEADING:
                self.leading.set()
            self._over.wait(max(PAUSE_SECONDS_MIN, (election.due - self._now()) / 1_000_000))
        if (last := election.release(self._now())) is not None:
            self._port.raw(last.verb, last.path, last.body)

    def _tell(self) -> None:
        """What has changed about the lock, once."""
        election = self.election
        leads = election.standing is Standing.LEADING
        line = f"lock {election.namespace}/{election.name}: "
        line += "leading" if leads else f"waiting for {election.holder or 'it'}"
        if election.problem:
            line += f" ({election.problem})"
        if line != self._said:
            self._said = line
            self._told(line)


__all__ = ["LeaderLock", "LockPort"]
