"""What a replay takes from the record: the observations of a cluster, decisions of the recorded scheduler apart, and
the changes that a what-if makes to them.

Owns the shapes `Input` and `Change`, and how a ledger's events become inputs. Must not know the simulation nor how a
change is written on a command line. Called by `vcledger.replay.engine`; changes are made by `vcledger.replay.whatif`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


class Input(NamedTuple):
    """One observation of the record. `time` in microseconds, never earlier than the input's before it; `change` is
    ADDED, MODIFIED or DELETED; `object` the JSON as it was sent, decoded; `listed` of what a list showed, so that its
    beginning was not seen."""

    position: int
    time: int
    kind: str
    change: str
    object: dict[str, Any]
    listed: bool = False


class Change(Protocol):
    """A difference between the record and what is replayed. Pure and picklable; must not keep state."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds whose objects `rewrite` wants to see; no other object is read for it."""
        ...

    def added(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """Objects (kind, JSON object) that are there from the replay's first moment on."""
        ...

    def rewrite(self, kind: str, obj: dict[str, Any]) -> dict[str, Any] | None:
        """The object as it is to be replayed, or None: it is left out, and its later observations too. Called for every
        observation of `kinds`, those of the state at the start as well. May change `obj` itself."""
        ...
