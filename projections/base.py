"""What a projection is: an initial state, a fold, a version, and a way to bytes and back.

Owns the protocol and the registry. Must not know the log. Called by `vcledger.ledger`, which feeds it, and by each
projection, which registers itself explicitly in `projections.registry`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from volcano.events.base import Recorded

S = TypeVar("S")


class Projection(Protocol[S]):
    """A named, versioned fold. `evolve` may change the state in place and returns it; the caller gives the old one up.
    A bump of `version` makes its snapshots void."""

    name: str
    version: int

    def initial(self) -> S:
        """The state before the first event."""
        ...

    def evolve(self, state: S, recorded: Recorded) -> S:
        """The state after one more event. Late events are not given to it."""
        ...

    def dump(self, state: S) -> bytes:
        """The whole state; also marks it as the base of the next `dump_changes`."""
        ...

    def dump_changes(self, state: S) -> bytes:
        """What changed since the last `dump` or `dump_changes` of this state, deletions included; marks it again."""
        ...

    def load(self, chain: Sequence[bytes]) -> S:
        """The state from a whole dump and the changes after it, oldest first. ValueError on bytes that are neither."""
        ...

    def digest(self, state: S) -> str:
        """SHA-256 over a canonical form of the state: equal states have equal digests, whatever way led to them."""
        ...
