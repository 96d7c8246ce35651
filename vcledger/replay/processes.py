"""What processes that replay have in common: how often one looks at them, how many may die, and Ctrl-C.

Owns these rules. Must not know what the processes do. Called by `vcledger.replay.workers` (whole replays) and
`shadow_workers` (pieces of one).
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

POLL_SECONDS = 0.2
DEATHS_MAX = 3
"""So often processes may die, without anything coming to its end in between."""


@contextmanager
def deaf() -> Iterator[None]:
    """Processes that begin meanwhile never hear Ctrl-C, which a terminal sends to all of them: they are told to stop by
    the one that waits for them, which hears it at the end of this."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


__all__ = ["DEATHS_MAX", "POLL_SECONDS", "deaf"]
