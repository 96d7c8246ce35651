"""What a decider gives: events to append, effects to carry out, inputs to take next; and the hand that writes it.

Owns these shapes and how positions are told before there are any. Must not know what is decided. Called by all deciders
and by the loop.

A batch is appended by one writer, so the events of a decision stand at the positions after `Flow.position`, and an
event or effect can name another of the same decision.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from vcledger.scheduler.bodies import event_of
from vcledger.scheduler.inputs import Effect, Input
from vcledger.scheduler.requests import Answer, Create, Request
from vcledger.scheduler.state import Flow, FlowTask
from volcano.events.base import DomainEvent, Subject, TaskRef

RECORDED, INFERRED, RECOMPUTED = 0, 1, 2
"""`Draft.known`: an API answer or a watch said so; a relist implied it; it is our own decision."""

UNANSWERED = "the process ended before an answer came"
"""What is written, after a restart, of an effect whose answer will not come any more."""


class Draft(NamedTuple):
    """An event that is to be appended. An observation has the object's JSON in `payload`, and `change` as a watch line
    has it; of all others `payload` is empty."""

    subject: Subject
    event: DomainEvent
    known: int = RECOMPUTED
    causation: int | None = None
    cycle: int | None = None
    payload: bytes = b""
    change: str = ""
    resource_version: str = ""
    about: str = ""


class Decision(NamedTuple):
    """Events to append, in order; effects for after the commit; `then`, inputs to decide on next, on the new state."""

    events: list[Draft]
    effects: list[Effect]
    then: list[Input]


class Failure(msgspec.Struct, frozen=True):
    """What a Status says: HTTP `code` (0: no answer came), `reason` and `message`."""

    code: int
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    retry_after_seconds: float | None = msgspec.field(default=None, name="retryAfterSeconds")


class _Status(msgspec.Struct):
    reason: str | None = ""
    message: str | None = ""
    details: _Details | None = None


_status = msgspec.json.Decoder(_Status)


def status_of(body: bytes) -> _Status:
    """The Status in an answer's body; an empty one where there is none."""
    try:
        return _status.decode(body) if body else _Status()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Status(message=body[:200].decode("utf-8", "replace"))


def failure_of(code: int | None, body: bytes) -> Failure:
    """An answer that is no success."""
    if code is None:
        return Failure(0, "", "no answer came")
    status = status_of(body)
    return Failure(code, status.reason or "", status.message or f"the API server answered {code}")


def wish_of(answer: Answer) -> float | None:
    """How many seconds the server asks to be left alone, in the Status or in a header; None when it does not."""
    details = status_of(answer.body).details
    said = details.retry_after_seconds if details is not None else None
    return said if said is not None else answer.retry_after_seconds or None


class Hand:
    """Writes a decision. `cycle`: the position of the CycleStarted that its events belong to."""

    def __init__(self, flow: Flow, now: int) -> None:
        self.flow, self.now = flow, now
        self.events: list[Draft] = []
        self.effects: list[Effect] = []
        self.then: list[Input] = []
        self.cycle: int | None = None

    def add(self, subject: Subject, event: DomainEvent, *, cause: int | None, known: int = RECOMPUTED) -> int:
        """One more event; the position that it will have."""
        self.events.append(Draft(subject, event, known, cause, self.cycle))
        return self.flow.position + len(self.events)

    def observe(self, subject: Subject, event: DomainEvent, payload: bytes, change: str, version: str) -> int:
        """An observation that an answer brought."""
        self.events.append(Draft(subject, event, RECORDED, None, None, payload, change, version))
        return self.flow.position + len(self.events)

    def effect(self, intent: int, request: Request) -> None:
        """A request for after the commit."""
        self.effects.append(Effect(intent, request))

    def tell(self, about: TaskRef | Subject, position: int, reason: str, message: str, *, warning: bool) -> None:
        """A core Event about a pod, or whatever the stream is of, for people. Nothing waits for its answer."""
        body = event_of(
            about.namespace,
            about.name,
            about.uid,
            reason=reason,
            message=message,
            warning=warning,
            position=position,
            now=self.now,
            kind=about.kind if isinstance(about, Subject) else "Pod",
        )
        self.effect(position, Create("Event", about.namespace, body))

    def decision(self) -> Decision:
        return Decision(self.events, self.effects, self.then)


NOTHING = Decision([], [], [])


def subject_at(kind: str, key: str, uid: str) -> Subject:
    """The stream of the object of a kind whose key is NS/NAME."""
    namespace, _, name = key.partition("/")
    return Subject(kind, namespace, name, uid)


def pod_subject(task: FlowTask | TaskRef) -> Subject:
    """The stream of a task's pod."""
    return Subject("Pod", task.namespace, task.name, task.uid)


def ref_of(task: FlowTask) -> TaskRef:
    """A task as events name it."""
    return TaskRef(namespace=task.namespace, name=task.name, uid=task.uid, node=task.node)


__all__ = [
    "INFERRED",
    "NOTHING",
    "RECOMPUTED",
    "RECORDED",
    "UNANSWERED",
    "Decision",
    "Draft",
    "Failure",
    "Hand",
    "failure_of",
    "pod_subject",
    "ref_of",
    "status_of",
    "subject_at",
    "wish_of",
]
