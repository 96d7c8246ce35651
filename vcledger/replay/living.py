"""What lives in the simulated cluster of a free replay, and what is said of it.

Owns the shapes of pods and PodGroups that are there, and how each course fared; what counts as said before; the pods
that a controller makes. Must not know the fold. Called by `vcledger.replay.world`, `free` and `freely`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vcledger.replay.courses import Course
from vcledger.replay.record import encode
from vcledger.replay.result import made_uid
from vcledger.replay.templates import pods_of
from volcano.events.base import DomainEvent, Subject
from volcano.events.scheduling import AllocationDiscarded, JobConsidered, TaskPipelined, TaskUnschedulable


@dataclass(slots=True)
class Alive:
    """A pod that is there. Times in microseconds, None: not yet. `binding` is the node that it is being bound to, until
    `bound_at` (None: that never ends)."""

    uid: str
    course: Course
    obj: dict[str, Any]
    created: int
    position: int = 0
    node: str = ""
    binding: str = ""
    bound_at: int | None = None
    placed: int | None = None
    running: int | None = None
    ended: int | None = None
    going: bool = False
    evicted: bool = False
    holds: dict[str, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.course.key


@dataclass(slots=True)
class Standing:
    """A PodGroup that is there."""

    uid: str
    key: str
    obj: dict[str, Any]
    let_in: int | None = None

    @property
    def phase(self) -> str:
        return str(self.obj["status"].get("phase") or "Pending")


@dataclass(slots=True)
class Placing:
    """How a course fared here: its first place, and its last word while it had none."""

    node: str = ""
    arrived: int | None = None
    placed: int | None = None
    position: int = 0
    queue: str = ""
    said: str = ""
    score: float | None = None


HELD_BACK = ("gated", "invalid", "overused")
"""Outcomes of a job that was not tried: why is said of the job; its pods only hear that it is not ready."""


def controlled(obj: dict[str, Any]) -> bool:
    """Whether somebody makes the pod again when it is gone."""
    return any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or ())


def templated(job: dict[str, Any], group: str, seed: int) -> list[Course]:
    """The pods that a Volcano Job's controller makes from its templates (the controller's createJobPod): names
    JOB-TASK-INDEX, the group and the task's name as annotations and labels."""
    meta = job["metadata"]
    made = []
    for name, body in pods_of(job, group.partition("/")[2]):
        uid = made_uid(seed, "made", meta.get("uid") or "", name)
        made.append(Course(uid, meta.get("namespace") or "", name, group, meta.get("uid") or "", body))
    return made


def repeatable(event: DomainEvent) -> str | None:
    """What an event says that a waiting job or task is told cycle by cycle; None for a decision."""
    if isinstance(event, TaskUnschedulable):
        return f"{event.reason} {event.message}"
    if isinstance(event, TaskPipelined):
        return f"pipelined {event.node}"
    if isinstance(event, JobConsidered | AllocationDiscarded):
        return encode(event).decode()
    return None


def key_of(subject: Subject, event: DomainEvent) -> str:
    """What an event speaks of, apart from its cycle: the same words about the same are not said again."""
    return f"{isinstance(event, JobConsidered)} {subject.kind}/{subject.namespace}/{subject.name}/{subject.uid}"


__all__ = ["HELD_BACK", "Alive", "Placing", "Standing", "controlled", "key_of", "repeatable", "templated"]
