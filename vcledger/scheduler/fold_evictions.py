"""What evictions do to the state: the events of their own, and what is seen meanwhile of the pods that are to go.

Owns these changes. Must not know why a task is chosen. Called by `vcledger.scheduler.fold` and `fold_events`.

A task is Releasing from the decision on, as in Volcano's Evict, and stays so until its pod is seen going, whatever is
seen of it in between. (Volcano takes it back with the next update, such as that of the conditions that it has just
written: fact 25, vector 103.) When the eviction has failed it stays so until the pod was read, as there (101).
"""

from __future__ import annotations

from projections.cache.state import PodRef
from vcledger.scheduler import charges
from vcledger.scheduler.eviction_steps import EvictPhase, EvictStep, after
from vcledger.scheduler.fold_tasks import Apply
from vcledger.scheduler.inputs import Noticed
from vcledger.scheduler.queues import backoff_microseconds
from vcledger.scheduler.state import SECOND, Eviction, Flow, Intent, Refusal
from volcano.events.base import DomainEvent, Recorded
from volcano.events.binding import PodConditionPatched
from volcano.events.eviction import EvictFailed, EvictRequested, EvictSucceeded
from volcano.events.scheduling import TaskEvicted

_OVER = ("Succeeded", "Failed")


def sentence(reason: str) -> str:
    """What a pod's Ready condition and its Event say of its eviction."""
    return f"Pod is evicted, because of {reason}"


def wants_mark(flow: Flow, uid: str, reason: str) -> bool:
    """Whether the conditions are to be written: not again when they were for an eviction that failed."""
    refused = flow.refused.get(uid)
    return refused is None or refused.marked != sentence(reason)


def ends(ref: PodRef) -> bool:
    """The pod is being deleted, or has ended: nothing needs to be asked for any more."""
    return ref.deleting or ref.phase in _OVER


# --- events -------------------------------------------------------------------------------------------------------


def decided(flow: Flow, at: Recorded, event: TaskEvicted) -> None:
    ref = flow.cache.pods.get(f"{at.namespace}/{at.name}")
    if ref is None or ref.uid != at.uid or ends(ref) or at.uid in flow.evictions:
        return
    phase = after(EvictPhase.OUT, EvictStep.DECIDED)
    eviction = Eviction(at.uid, at.namespace, at.name, event.job, event.node, phase, at.position, event.action)
    eviction.cause = at.position
    eviction.preemptor = event.preemptor.uid if event.preemptor is not None else ""
    if wants_mark(flow, at.uid, event.reason):
        flow.intents[at.position] = Intent("mark", at.uid, eviction.key)
    else:
        eviction.marked = sentence(event.reason)
    flow.evictions[at.uid] = eviction
    charges.leave(flow, eviction)


def marked(flow: Flow, at: Recorded, event: PodConditionPatched) -> None:
    eviction = flow.evictions.get(at.uid)
    if eviction is not None and eviction.decided == at.causation:
        eviction.marked, eviction.cause = event.message, at.position


def requested(flow: Flow, at: Recorded, event: EvictRequested) -> None:
    eviction = flow.evictions[at.uid]
    eviction.phase = after(eviction.phase, EvictStep.REQUESTED)
    eviction.posts += 1
    eviction.post_at, eviction.intent, eviction.cause = flow.now, at.position, at.position
    flow.intents[at.position] = Intent("evict", at.uid, eviction.key)


def succeeded(flow: Flow, at: Recorded, event: EvictSucceeded) -> None:
    flow.intents.pop(event.intent or 0, None)
    flow.refused.pop(at.uid, None)
    eviction = flow.evictions.get(at.uid)
    if eviction is not None and not _of_another(eviction, event.intent):
        _step(flow, eviction, EvictStep.SUCCEEDED)
        eviction.cause = at.position


def failed(flow: Flow, at: Recorded, event: EvictFailed) -> None:
    flow.intents.pop(event.intent or 0, None)
    eviction = flow.evictions.get(at.uid)
    if eviction is None or _of_another(eviction, event.intent):
        return
    _step(flow, eviction, EvictStep.ANSWER_LOST if event.answer_lost else EvictStep.FAILED)
    eviction.cause = at.position
    if not event.answer_lost:
        before = flow.refused.get(at.uid)
        count = before.times + 1 if before is not None else 1
        flow.nominated.pop(eviction.preemptor, None)
        wait = max(backoff_microseconds(count, SECOND), round((event.retry_after_seconds or 0) * SECOND))
        flow.refused[at.uid] = Refusal(count, flow.now + wait, eviction.marked)


def in_doubt(flow: Flow, uid: str) -> None:
    """No answer will come, or none has: the pod is to be read."""
    eviction = flow.evictions.get(uid)
    if eviction is not None and eviction.phase in (EvictPhase.DELETING, EvictPhase.DOUBT):
        _step(flow, eviction, EvictStep.IN_DOUBT)
        flow.intents.pop(eviction.intent, None)


def resynced(flow: Flow, uid: str) -> None:
    """The pod was read and is there."""
    eviction = flow.evictions.get(uid)
    if eviction is not None and eviction.phase in (EvictPhase.FAILED, EvictPhase.DOUBT):
        _step(flow, eviction, EvictStep.RESYNCED)


def _of_another(eviction: Eviction, intent: int | None) -> bool:
    """Whether an outcome is that of an earlier eviction of the pod, which was over while its answer was out."""
    return intent is not None and intent != eviction.intent


def _step(flow: Flow, eviction: Eviction, step: EvictStep) -> None:
    eviction.phase = after(eviction.phase, step)
    if eviction.phase is EvictPhase.OUT:
        del flow.evictions[eviction.uid]
        charges.stay(flow, eviction)


# --- what is seen -------------------------------------------------------------------------------------------------


def seen(flow: Flow, ref: PodRef, position: int) -> None:
    """A pod, which may be one that is to go."""
    eviction = flow.evictions.get(ref.uid)
    if eviction is None:
        return
    if not ends(ref):
        charges.leave(flow, eviction)
        return
    before = eviction.phase
    _step(flow, eviction, EvictStep.SEEN_GOING)
    if eviction.phase is EvictPhase.SEEN and before in (EvictPhase.MARKING, EvictPhase.DOUBT):
        flow.notices.append(Noticed("going", ref.uid, position, "asked" if before is EvictPhase.DOUBT else ""))


def still_leaving(flow: Flow) -> None:
    """Nodes or claims have changed, with which tasks may have been counted anew: those that are to go are Releasing."""
    for eviction in flow.evictions.values():
        ref = flow.cache.pods.get(eviction.key)
        if ref is not None and ref.uid == eviction.uid and not ends(ref):
            charges.leave(flow, eviction)


def node_gone(flow: Flow, name: str) -> None:
    """Nobody is promised anything on a node that is gone."""
    for uid in [uid for uid, node in flow.nominated.items() if node == name]:
        del flow.nominated[uid]


def gone(flow: Flow, uid: str, position: int) -> None:
    """A pod is no more. What its eviction has come to is to be told, unless an answer is still to come, or was told."""
    flow.refused.pop(uid, None)
    flow.nominated.pop(uid, None)
    eviction = flow.evictions.pop(uid, None)
    if eviction is None:
        return
    if eviction.phase in (EvictPhase.MARKING, EvictPhase.DOUBT):
        intent = eviction.intent if eviction.phase is EvictPhase.DOUBT else 0
        flow.notices.append(Noticed("left", uid, position, f"{intent} {eviction.node} {eviction.key} {eviction.job}"))


APPLY: dict[type[DomainEvent], Apply] = {
    TaskEvicted: decided,
    EvictRequested: requested,
    EvictSucceeded: succeeded,
    EvictFailed: failed,
}
"""Event to what it does. The other functions are parts of what other events do."""


__all__ = [
    "APPLY",
    "decided",
    "ends",
    "failed",
    "gone",
    "in_doubt",
    "marked",
    "node_gone",
    "requested",
    "resynced",
    "seen",
    "sentence",
    "still_leaving",
    "succeeded",
    "wants_mark",
]
