"""The recovery family: what a restart found in doubt, and how asking the API server settled it.

Owns these events. Must not know how a process recovers. Called through `volcano.events.catalog`.

RecoveryStarted and RecoveryCompleted stand in the scheduler's own stream, InDoubt… in the stream of their intent.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from volcano.events.base import DomainEvent

Verdict: TypeAlias = Literal["happened", "not-happened", "object-gone", "lost-to-another"]
"""What the API server's state says of an intent whose outcome was never recorded."""


class RecoveryStarted(DomainEvent, frozen=True):
    """A process took the ledger up at `head`, from the snapshot at `snapshot` (None: from the start). `in_doubt` are
    the positions of intents without an outcome, oldest first."""

    head: int
    snapshot: int | None = None
    in_doubt: tuple[int, ...] = ()


class InDoubtQueued(DomainEvent, frozen=True):
    """No answer came to the intent at position `intent`, or the process died before it. The API server is to be asked
    what became of it after `delay_seconds`, the `attempt`-th time."""

    intent: int
    intent_type: str
    attempt: int = 1
    delay_seconds: float = 0.0


class InDoubtAsked(DomainEvent, frozen=True):
    """Intent: GET of the object that the intent at position `intent` was about."""

    intent: int
    intent_type: str
    attempt: int = 1


class InDoubtResolved(DomainEvent, frozen=True):
    """The intent at position `intent` is settled. `said`: the API server's answer in a line; `code` its HTTP status;
    `node` where the pod is bound, or the claim's selected node; `resource_version` of the object it showed."""

    intent: int
    intent_type: str
    verdict: Verdict
    code: int = 0
    said: str = ""
    node: str = ""
    resource_version: str = ""


class RecoveryCompleted(DomainEvent, frozen=True):
    """Nothing is in doubt any more. `started` is the position of its RecoveryStarted; counts of the verdicts."""

    started: int
    happened: int = 0
    not_happened: int = 0
    object_gone: int = 0
    lost_to_another: int = 0
