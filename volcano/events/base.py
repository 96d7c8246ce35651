"""What all events share: the base struct, and the envelope in which a fold receives one.

Owns Event and Recorded. Must not know any family. Called by the modules of the families and by projections.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class DomainEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of every event of the vocabulary. Field names are snake_case on the wire too."""


class Recorded(NamedTuple):
    """An event with its envelope, as a fold receives it. Times are microseconds since 1970, UTC."""

    position: int
    cluster: str
    kind: str
    namespace: str
    name: str
    uid: str
    observed_at: int
    known: int
    late: bool
    resource_version: int | None
    causation: int | None
    cycle: int | None
    event: DomainEvent
