"""The way of an eviction, as a table.

Owns which step leads from where to where. Must not know what a step does to the books. Called by
`vcledger.scheduler.fold_evictions`, which takes every step through it; the diagram in docs/bind-flow.md and the
exhaustive test are made from it.
"""

from __future__ import annotations

from enum import StrEnum

from vcledger.scheduler.transitions import IllegalTransition, diagram_of


class EvictPhase(StrEnum):
    """Where an eviction stands. OUT: there is none, the pod speaks for itself."""

    OUT = "out"
    MARKING = "marking"
    DELETING = "deleting"
    DOUBT = "doubt"
    SEEN = "seen"
    GOING = "going"
    FAILED = "failed"


class EvictStep(StrEnum):
    """What moves an eviction on. Steps carry the name of the event that makes them, as those of a task do."""

    DECIDED = "TaskEvicted"
    REQUESTED = "EvictRequested"
    SUCCEEDED = "EvictSucceeded"
    FAILED = "EvictFailed"
    ANSWER_LOST = "EvictFailed, answer lost"
    IN_DOUBT = "ResyncQueued in doubt"
    RESYNCED = "ResyncSucceeded"
    SEEN_GOING = "seen being deleted or ended"


_P, _S = EvictPhase, EvictStep

EVICTIONS: dict[tuple[EvictPhase, EvictStep], EvictPhase] = {
    (_P.OUT, _S.DECIDED): _P.MARKING,
    (_P.MARKING, _S.REQUESTED): _P.DELETING,
    (_P.MARKING, _S.FAILED): _P.FAILED,
    (_P.MARKING, _S.SUCCEEDED): _P.GOING,
    (_P.MARKING, _S.SEEN_GOING): _P.SEEN,
    (_P.DELETING, _S.SUCCEEDED): _P.GOING,
    (_P.DELETING, _S.FAILED): _P.FAILED,
    (_P.DELETING, _S.ANSWER_LOST): _P.DOUBT,
    (_P.DELETING, _S.IN_DOUBT): _P.DOUBT,
    (_P.DELETING, _S.SEEN_GOING): _P.SEEN,
    (_P.DOUBT, _S.IN_DOUBT): _P.DOUBT,
    (_P.DOUBT, _S.RESYNCED): _P.DOUBT,
    (_P.DOUBT, _S.REQUESTED): _P.DELETING,
    (_P.DOUBT, _S.SUCCEEDED): _P.GOING,
    (_P.DOUBT, _S.FAILED): _P.FAILED,
    (_P.DOUBT, _S.SEEN_GOING): _P.SEEN,
    (_P.SEEN, _S.SEEN_GOING): _P.SEEN,
    (_P.SEEN, _S.SUCCEEDED): _P.OUT,
    (_P.GOING, _S.SEEN_GOING): _P.OUT,
    (_P.FAILED, _S.SEEN_GOING): _P.OUT,
    (_P.FAILED, _S.RESYNCED): _P.OUT,
}
"""(phase, step) to phase. What is not in it is refused. A pod that is gone takes its eviction out from anywhere."""


def after(phase: EvictPhase, step: EvictStep) -> EvictPhase:
    """The phase that a step leads to. IllegalTransition when there is no such step from there."""
    found = EVICTIONS.get((phase, step))
    if found is None:
        raise IllegalTransition(f"no {step.value} for an eviction that is {phase.value}")
    return found


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    return diagram_of(EVICTIONS)


__all__ = ["EVICTIONS", "EvictPhase", "EvictStep", "after", "diagram"]
