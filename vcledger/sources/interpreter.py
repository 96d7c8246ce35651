"""How Python itself is set while an import runs.

Owns these settings, and that they are put back. Must not know what an import does. Called by
`vcledger.sources.pipeline`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from vcledger.sources.beside import GARBAGE_THRESHOLD

TURN_SECONDS = 0.0005


@contextmanager
def short_turns() -> Iterator[None]:
    """Threads of Python take turns of 5 ms by default: too long for the one that appends, which computes little between
    its waits for compression and the database."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Python looks for cycles among its objects after each 700 new ones by default. An import makes millions, and
    hardly any cycle; what it holds at a time is bounded all the same."""
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], GARBAGE_THRESHOLD), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
