"""What a shadow replay that was told to stop needs to go on: its tallies and what is open, beside the place where it
stands.

Owns that state's shape, and where it is kept: as a snapshot in the result ledger, at its head. A shadow that keeps no
result leaves a ledger with nothing else. Must not know how decisions are judged. Called by `vcledger.replay.shadowing`.

The cache is not in it: it is folded from the source again, and pods' objects are read from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from eventstore.types import Snapshot
from vcledger.errors import VcledgerError
from vcledger.replay.report import ReplayResult
from vcledger.replay.result import ResultLedger
from vcledger.replay.shadow import Asking

PROJECTION, VERSION = "shadow-replay", 3
"""2: evictions are judged too. 3: what is in mind and the tally apart."""


class StateMissing(VcledgerError):
    """The result ledger of a shadow replay does not say how to go on."""


class State(msgspec.Struct, frozen=True):
    """`copied` is the source's position up to which the record is in the result ledger, None where it is not copied;
    `asking` what the Shadow had in mind, `tally` that of the notes. With `result` the replay came to its end."""

    copied: int | None
    asking: Asking = msgspec.field(default_factory=Asking)
    tally: dict[str, Any] = {}
    result: ReplayResult | None = None


def save(state: State, result: ResultLedger) -> None:
    """Keeps the state at the head of the result ledger, in place of one that is there."""
    store = result.ledger.store
    snapshot = Snapshot(PROJECTION, VERSION, result.cluster, store.head(), None, msgspec.json.encode(state))
    store.save_snapshot(snapshot, replace=True)


def load(result: ResultLedger) -> State | None:
    """The state at the head of the result ledger; None when the ledger is empty. StateMissing when there is none."""
    store = result.ledger.store
    head = store.head()
    if not head:
        return None
    found = store.load_snapshots(PROJECTION, VERSION, result.cluster, head)
    if not found and any(store.load_snapshots(PROJECTION, older, result.cluster, head) for older in range(1, VERSION)):
        raise _another_version(result)
    if not found or found[-1].position != head:
        raise StateMissing(f"{result.path} was not stopped cleanly: a shadow replay begins anew, with another --out")
    try:
        return msgspec.json.decode(found[-1].payload, type=State)
    except msgspec.MsgspecError:
        raise _another_version(result) from None


def _another_version(result: ResultLedger) -> StateMissing:
    return StateMissing(f"{result.path} was left by another version: a shadow replay begins anew, with another --out")


def leave(state: State, begin: Callable[[ResultLedger], None], path: str, cluster: str) -> None:
    """Leaves a ledger at `path` with nothing but the plan and the state."""
    result = ResultLedger(path, cluster)
    try:
        begin(result)
        result.flush()
        save(state, result)
    finally:
        result.close()


__all__ = ["State", "StateMissing", "leave", "load", "save"]
