"""What goes into and comes out of list and watch, as values.

Owns the inputs (begin, an answer, a line, a time that has come) and the outputs (a change, what a list proves to be
gone, an event, what could not be used, what to ask next). Must not know what follows from what. Called by
`vcledger.sources.listwatch` and, by way of it, by whoever drives the machine.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from vcledger.sources.lists import Known, LastSeen
from volcano.events.base import DomainEvent

CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class Start(NamedTuple):
    """Begin, with a list. `since`: the last sign of life that the log has of an earlier watch; from then on until this
    list nobody was looking."""

    since: LastSeen | None = None


class Resume(NamedTuple):
    """Begin with a watch, from the version that an earlier one had got to. `since`: its last sign of life."""

    since: LastSeen


class AskRelist(NamedTuple):
    """Somebody doubts what is known: list anew."""

    reason: str = "a relist was asked for"


class Stop(NamedTuple):
    """End; an answer that is still to come must not be put in any more."""


class Due(NamedTuple):
    """The time that `ListWatch.due` names has come."""


class Answered(NamedTuple):
    """An HTTP answer to `Step.ask`: `code` None when none came, or when what was open is broken; `body` may say why. To
    a watch, 200 means that it is open. `retry_after` is the wait that the server asks for, in microseconds."""

    code: int | None
    body: bytes = b""
    retry_after: int = 0


class Line(NamedTuple):
    """A line of the watch."""

    type: str
    object: bytes


class Closed(NamedTuple):
    """The server ended the watch, as it does after a while. A connection that was lost is `Answered` without a code."""


Input: TypeAlias = Start | Resume | AskRelist | Stop | Due | Answered | Line | Closed


class AskList(NamedTuple):
    """GET the collection. `continue_`: the next page of the list that is in progress."""

    limit: int
    continue_: str = ""


class AskWatch(NamedTuple):
    """GET the collection with watch=1, allowWatchBookmarks=1 and this resourceVersion."""

    resource_version: str


class Change(NamedTuple):
    """An observation: `type` ADDED, MODIFIED or DELETED, and the object's JSON. `overtaken`: a state of the object from
    before the one that is known already, such as a watch shows that goes on from an earlier version."""

    type: str
    object: bytes
    overtaken: bool = False


class Inferred(NamedTuple):
    """An object that the list proves to be gone. Its last state is what the log has of it."""

    known: Known


class Tell(NamedTuple):
    """An event about the kind as a whole."""

    event: DomainEvent


class Refused(NamedTuple):
    """What could not be used, and why: to be counted and kept aside, never stored as an object."""

    reason: str
    data: bytes


Output: TypeAlias = Change | Inferred | Tell | Refused


class Step(NamedTuple):
    """What an input led to, in order, and what is to be asked now (None: nothing new; wait for lines or `due`)."""

    outputs: list[Output]
    ask: AskList | AskWatch | None = None
