"""What a shadow replay that was told to stop needs to go on: its tallies and what is open, beside the place where it
stands.

Owns that state's shape, and where it is kept: as a snapshot in the result ledger, at its head. A shadow that keeps no
result leaves a ledger with nothing else. Must not know how decisions are judged. Called by `vcledger.replay.shadowing`.

The cache is not in it: it is folded from the source again, and pods' objects are read from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from eventstore.types import Snapshot
from vcledger.errors import VcledgerError
from vcledger.ledger import Ledger
from vcledger.replay.report import Divergence, ReplayResult
from vcledger.replay.result import ResultLedger
from vcledger.replay.shadow import Answer, Open, Shadow

if TYPE_CHECKING:
    from vcledger.replay.shadowing import Sampler

PROJECTION, VERSION = "shadow-replay", 2
"""2: evictions are judged too."""

MADE_ANEW = ("cache", "period", "evolve", "decider", "outcomes", "_events", "_ahead", "_payloads")
"""What of a Shadow is not kept: it comes from the source and the plan."""

TYPES: dict[str, Any] = {
    "first": Divergence | None,
    "waited": list[tuple[str, int]],
    "_answers": dict[str, Answer],
    "_open": dict[str, Open],
    "evicted": dict[str, Open],
}
"""What of a Shadow is more than plain values."""

_AT_ONCE = 500


class StateMissing(VcledgerError):
    """The result ledger of a shadow replay does not say how to go on."""


class State(msgspec.Struct, frozen=True):
    """`copied` is the source's position up to which the record is in the result ledger, None where it is not copied.
    `pods` are the positions of the objects of waiting pods. With `result` the replay came to its end."""

    copied: int | None
    shadow: dict[str, Any] = {}
    pods: dict[str, int] = {}
    due: int = 0
    held: dict[str, float] = {}
    used: list[tuple[int, str, float]] = []
    room: list[tuple[int, str, float]] = []
    nodes: dict[str, dict[str, float]] = {}
    result: ReplayResult | None = None


def captured(shadow: Shadow, sampler: Sampler, copied: int | None) -> State:
    """The state between two steps."""
    fields = {name: value for name, value in vars(shadow).items() if name not in MADE_ANEW}
    return State(
        copied,
        msgspec.to_builtins(fields),
        {key: position for key, (position, _) in shadow._payloads.items()},
        sampler.due,
        sampler._held,
        sampler.meter.used,
        sampler.meter.room,
        {name: dict(amounts) for name, amounts in sampler.meter._nodes.items()},
    )


def restored(state: State, shadow: Shadow, sampler: Sampler, source: Ledger) -> None:
    """Puts a Shadow, over the events that follow, and its sampler where the state was."""
    for name, value in state.shadow.items():
        setattr(shadow, name, msgspec.convert(value, TYPES[name]) if name in TYPES else value)
    wanted = list(state.pods.items())
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        payloads = {stored.position: stored.payload for stored in source.store.get([at for _, at in some])}
        shadow._payloads.update({key: (at, payloads[at]) for key, at in some})
    sampler.due, sampler._held = state.due, state.held
    sampler.meter.used, sampler.meter.room = state.used, state.room
    sampler.meter._nodes = dict(state.nodes)


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


__all__ = ["State", "StateMissing", "captured", "leave", "load", "restored", "save"]
