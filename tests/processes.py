"""Children that hear SIGINT, whatever the tests themselves were started with.

Owns the one setting. Called by tests that interrupt a process.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hearing_interrupts() -> Iterator[None]:
    """Processes started inside hear SIGINT. A run in the background of a shell ignores it, and hands that on."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
