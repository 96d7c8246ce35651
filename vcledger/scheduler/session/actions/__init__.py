"""The actions that a configuration may name, in whatever order it names them.

Owns the list. Must not know plugins. Called by `run`, and by whoever reads a configuration.
"""

from __future__ import annotations

from collections.abc import Callable

from vcledger.scheduler.session.actions import allocate, backfill, enqueue, preempt, reclaim
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.outcome import Outcome

ACTIONS: dict[str, Callable[[Session, Outcome], None]] = {
    "enqueue": enqueue.execute,
    "allocate": allocate.execute,
    "backfill": backfill.execute,
    "preempt": preempt.execute,
    "reclaim": reclaim.execute,
}

__all__ = ["ACTIONS"]
