"""The way of a task through the bind flow, as a table.

Owns which step leads from where to where. Must not know what a step does to the books. Called by the fold, which takes
every step through it; the diagram in docs/bind-flow.md and the exhaustive test are made from it.

The shape follows h11's state tables. Steps carry the name of the event that makes them, except where one event can mean
two things (an answer that was lost) or where an observation does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Phase(StrEnum):
    """Where a task stands. OUT: the flow has nothing to do with it, its pod speaks for itself."""

    OUT = "out"
    ASSUMED = "assumed"
    QUEUED = "queued"
    UPDATING = "updating"
    WAITING = "waiting"
    READY = "ready"
    BINDING = "binding"
    DOUBT = "doubt"
    SEEN = "seen"
    FAILED = "failed"
    BOUND = "bound"
    ENDED = "ended"


class Step(StrEnum):
    """What moves a task on."""

    ALLOCATED = "TaskAllocated"
    DISCARDED = "AllocationDiscarded"
    QUEUED = "BindQueued"
    UPDATE_REQUESTED = "P*UpdateRequested"
    UPDATE_SUCCEEDED = "P*UpdateSucceeded"
    UPDATE_FAILED = "P*UpdateFailed"
    ALL_WRITTEN = "last update succeeded"
    CHECKED = "BindingChecked"
    VOLUMES_BOUND = "VolumesBound"
    VOLUMES_FAILED = "VolumeBindingFailed"
    BIND_REQUESTED = "BindRequested"
    BIND_SUCCEEDED = "BindSucceeded"
    BIND_FAILED = "BindFailed"
    ANSWER_LOST = "BindFailed, answer lost"
    IN_DOUBT = "ResyncQueued in doubt"
    RESYNCED = "ResyncSucceeded"
    SEEN_BOUND = "seen bound to our node"
    SEEN_ELSEWHERE = "seen bound to another node"
    ENDED = "seen gone, ended or being deleted"
    REVERTED = "VolumesReverted"


class IllegalTransition(Exception):
    """A step that the table does not have from where the task stands. Nothing was changed."""


_P, _S = Phase, Step

BEFORE_BINDING = (_P.ASSUMED, _P.QUEUED, _P.UPDATING, _P.WAITING, _P.READY)
"""Phases in which nothing has been asked of the API server about the pod itself."""

TRANSITIONS: dict[tuple[Phase, Step], Phase] = {
    (_P.OUT, _S.ALLOCATED): _P.ASSUMED,
    (_P.ASSUMED, _S.DISCARDED): _P.OUT,
    (_P.ASSUMED, _S.QUEUED): _P.QUEUED,
    (_P.QUEUED, _S.UPDATE_REQUESTED): _P.UPDATING,
    (_P.UPDATING, _S.UPDATE_REQUESTED): _P.UPDATING,
    (_P.UPDATING, _S.UPDATE_SUCCEEDED): _P.UPDATING,
    (_P.UPDATING, _S.UPDATE_FAILED): _P.UPDATING,
    (_P.UPDATING, _S.ALL_WRITTEN): _P.WAITING,
    (_P.QUEUED, _S.CHECKED): _P.WAITING,
    (_P.WAITING, _S.CHECKED): _P.WAITING,
    (_P.WAITING, _S.VOLUMES_BOUND): _P.READY,
    (_P.QUEUED, _S.VOLUMES_FAILED): _P.FAILED,
    (_P.UPDATING, _S.VOLUMES_FAILED): _P.FAILED,
    (_P.WAITING, _S.VOLUMES_FAILED): _P.FAILED,
    (_P.QUEUED, _S.BIND_REQUESTED): _P.BINDING,
    (_P.READY, _S.BIND_REQUESTED): _P.BINDING,
    (_P.QUEUED, _S.BIND_FAILED): _P.FAILED,
    (_P.READY, _S.BIND_FAILED): _P.FAILED,
    (_P.BINDING, _S.BIND_SUCCEEDED): _P.BOUND,
    (_P.BINDING, _S.BIND_FAILED): _P.FAILED,
    (_P.BINDING, _S.ANSWER_LOST): _P.DOUBT,
    (_P.BINDING, _S.IN_DOUBT): _P.DOUBT,
    (_P.DOUBT, _S.IN_DOUBT): _P.DOUBT,
    (_P.DOUBT, _S.BIND_REQUESTED): _P.BINDING,
    (_P.DOUBT, _S.BIND_SUCCEEDED): _P.BOUND,
    (_P.DOUBT, _S.BIND_FAILED): _P.FAILED,
    (_P.DOUBT, _S.RESYNCED): _P.DOUBT,
    (_P.BINDING, _S.SEEN_BOUND): _P.SEEN,
    (_P.DOUBT, _S.SEEN_BOUND): _P.SEEN,
    (_P.SEEN, _S.SEEN_BOUND): _P.SEEN,
    (_P.SEEN, _S.BIND_SUCCEEDED): _P.OUT,
    (_P.FAILED, _S.SEEN_BOUND): _P.FAILED,
    (_P.BOUND, _S.SEEN_BOUND): _P.OUT,
    (_P.BINDING, _S.SEEN_ELSEWHERE): _P.BINDING,
    (_P.DOUBT, _S.SEEN_ELSEWHERE): _P.DOUBT,
    (_P.FAILED, _S.SEEN_ELSEWHERE): _P.FAILED,
    (_P.BOUND, _S.SEEN_ELSEWHERE): _P.OUT,
    (_P.SEEN, _S.SEEN_ELSEWHERE): _P.OUT,
    (_P.FAILED, _S.RESYNCED): _P.OUT,
    (_P.BINDING, _S.ENDED): _P.BINDING,
    (_P.DOUBT, _S.ENDED): _P.DOUBT,
    (_P.SEEN, _S.ENDED): _P.SEEN,
    (_P.FAILED, _S.ENDED): _P.FAILED,
    (_P.BOUND, _S.ENDED): _P.BOUND,
    (_P.ENDED, _S.ENDED): _P.ENDED,
    (_P.ENDED, _S.SEEN_BOUND): _P.ENDED,
    (_P.ENDED, _S.SEEN_ELSEWHERE): _P.ENDED,
    (_P.ENDED, _S.REVERTED): _P.OUT,
    **{(phase, _S.ENDED): _P.ENDED for phase in BEFORE_BINDING},
    **{(phase, _S.SEEN_BOUND): _P.ENDED for phase in BEFORE_BINDING},
    **{(phase, _S.SEEN_ELSEWHERE): _P.ENDED for phase in BEFORE_BINDING},
}
"""(phase, step) to phase. What is not in it is refused. VolumesReverted moves nothing but a task that has ended: after
a failure it comes while the task waits for its resync. A pod that is gone takes its task out from anywhere."""


def after(phase: Phase, step: Step) -> Phase:
    """The phase that a step leads to. IllegalTransition when there is no such step from there."""
    found = TRANSITIONS.get((phase, step))
    if found is None:
        raise IllegalTransition(f"no {step.value} for a task that is {phase.value}")
    return found


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    return diagram_of(TRANSITIONS)


def diagram_of(table: Mapping[Any, StrEnum]) -> str:
    """A table as a Mermaid state diagram, steps between the same two phases on one arrow."""
    arrows: dict[tuple[StrEnum, StrEnum], list[str]] = {}
    for (before, step), then in table.items():
        if before is not then:
            arrows.setdefault((before, then), []).append(step.value)
    lines = ["stateDiagram-v2"]
    for (before, then), steps in arrows.items():
        lines.append(f"    {before.value} --> {then.value}: {', '.join(steps)}")
    return "\n".join(lines) + "\n"


__all__ = ["BEFORE_BINDING", "TRANSITIONS", "IllegalTransition", "Phase", "Step", "after", "diagram", "diagram_of"]
