"""What all events share: the base struct, the parts that several families use, and the envelope a fold receives.

Owns DomainEvent, Value and its shared subclasses, Subject and Recorded. Must not know any family. Called by the modules
of the families, by projections and by the deciders.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

SCHEDULER = "Scheduler"
"""Stream kind of what is about the scheduler as a whole: cycles and recoveries."""

RECORDING = "Recording"
"""Stream kind of what is about the recording itself: its markers."""

Amounts: TypeAlias = dict[str, float]
"""Resource name to amount in the cache's own units: `cpu` in milli-cores, `memory` in bytes, `pods` and
`attachable-volumes-*` in units, every other scalar in milli-units (Volcano's api.Resource; facts 2 and 4)."""


class DomainEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of every event of the vocabulary. Field names are snake_case on the wire too."""


class Unreadable(DomainEvent, frozen=True):
    """Stands in a fold or a listing where an observation's payload cannot be read as an object of its kind. Not in the
    catalog: it is never written. A fold notes it and goes on, as the observation says nothing that it could use."""

    type: str
    reason: str


class Value(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of what is nested in an event."""


class TaskRef(Value, frozen=True):
    """A pod as a task of a job, and the node it was meant for ('' when none)."""

    namespace: str
    name: str
    uid: str
    node: str = ""


class Subject(NamedTuple):
    """What an event is about: with the cluster, the stream it stands in. namespace, name and uid may be ''."""

    kind: str
    namespace: str = ""
    name: str = ""
    uid: str = ""


MARKERS = Subject(RECORDING, "", "markers")
"""The stream of a cluster's markers."""


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

    @property
    def subject(self) -> Subject:
        return Subject(self.kind, self.namespace, self.name, self.uid)
