"""The evictor: a task that a session has told to go, from the decision until the API server has taken it.

Owns the decisions about one eviction, and what follows from each answer. Must not know who chose the task. Called by
`vcledger.scheduler.cycle`, `decide`, `resyncer` and `housekeeping`.

Source: Volcano's SchedulerCache.Evict and defaultEvictor.Evict: an Event, the pod's conditions Ready (False) and
DisruptionTarget (True), then its deletion with the grace that its spec gives it; when either fails the task is read
again. Where Volcano is bettered: only the pod that was meant is deleted (its UID goes with the request), conditions
that are there already stop nothing, and a lost answer is no refusal.
"""

from __future__ import annotations

from enum import Enum

from vcledger.scheduler import volume_binder
from vcledger.scheduler.bodies import BY_SCHEDULER, DISRUPTION_TARGET, eviction_patch, sent_status
from vcledger.scheduler.decision import (
    RECORDED,
    UNANSWERED,
    Failure,
    Hand,
    failure_of,
    pod_subject,
    subject_at,
    wish_of,
)
from vcledger.scheduler.eviction_steps import EvictPhase
from vcledger.scheduler.fold_evictions import sentence, wants_mark
from vcledger.scheduler.fold_tasks import LOST
from vcledger.scheduler.inputs import Noticed
from vcledger.scheduler.queues import backoff_microseconds
from vcledger.scheduler.requests import Answer, Delete, Patch
from vcledger.scheduler.state import SECOND, Eviction, Flow, Intent
from volcano.events.base import Subject, TaskRef
from volcano.events.binding import PodConditionPatched, PodConditionPatchFailed
from volcano.events.eviction import EvictFailed, EvictRequested, EvictSucceeded
from volcano.events.recovery import InDoubtResolved, Verdict
from volcano.events.resync import ResyncQueued
from volcano.events.scheduling import TaskEvicted
from volcano.objects.core import Pod

OTHER_POD = "UID in the precondition"
"""What the API server says when another pod has the name by now."""

STAYS = "the pod is not being deleted"


# --- the decision -------------------------------------------------------------------------------------------------


def evict(hand: Hand, subject: Subject, event: TaskEvicted, group: Subject, cause: int | None) -> None:
    """A task is told to go. `group`: its PodGroup's stream."""
    position = hand.add(subject, event, cause=cause)
    ref, message = _ref(subject, event.node), sentence(event.reason)
    hand.tell(ref, position, "Evict", message, warning=True)
    hand.tell(group, position, "Evict", event.reason, warning=False)
    if wants_mark(hand.flow, subject.uid, event.reason):
        body = eviction_patch(subject.uid, message, hand.now)
        hand.effect(position, Patch("Pod", subject.namespace, subject.name, body, "status"))
    else:
        _request(hand, ref, event.job, position, position, event.action, 1)


def _ref(subject: Subject, node: str) -> TaskRef:
    return TaskRef(namespace=subject.namespace, name=subject.name, uid=subject.uid, node=node)


def _of(eviction: Eviction) -> TaskRef:
    return TaskRef(namespace=eviction.namespace, name=eviction.name, uid=eviction.uid, node=eviction.node)


def _request(hand: Hand, ref: TaskRef, job: str, decided: int, cause: int, action: str, attempt: int) -> None:
    """DELETE of the pod that is meant, with its own grace."""
    event = EvictRequested(job=job, node=ref.node, decided=decided, action=action, attempt=attempt)
    position = hand.add(pod_subject(ref), event, cause=cause)
    hand.effect(position, Delete("Pod", ref.namespace, ref.name, ref.uid))


# --- answers ------------------------------------------------------------------------------------------------------


def mark_answered(hand: Hand, position: int, intent: Intent, request: Patch, answer: Answer) -> None:
    """The pod's conditions: once they are written it is deleted."""
    subject = subject_at("Pod", intent.key, intent.uid)
    message = sent_status(request.body).conditions[0].message
    eviction = hand.flow.evictions.get(intent.uid)
    if eviction is not None and (eviction.phase is not EvictPhase.MARKING or eviction.decided != position):
        eviction = None
    if answer.ok:
        version = volume_binder.version_in(answer.body)
        event = PodConditionPatched(
            type=DISRUPTION_TARGET, status="True", reason=BY_SCHEDULER, message=message, new_resource_version=version
        )
        cause = hand.add(subject, event, cause=position, known=RECORDED)
        if eviction is not None:
            _request(hand, _of(eviction), eviction.job, position, cause, eviction.action, 1)
        return
    failure = failure_of(answer.code, answer.body)
    refused = PodConditionPatchFailed(
        type=DISRUPTION_TARGET,
        status="True",
        code=failure.code,
        error=failure.message,
        reason=BY_SCHEDULER,
        message=message,
    )
    cause = hand.add(subject, refused, cause=position, known=RECORDED)
    if eviction is not None and answer.code == 404:
        _succeed(hand, _of(eviction), eviction.job, None, cause, code=404, gone=True)
    elif eviction is not None:
        _fail(hand, eviction, failure, None, cause, wish_of(answer))


def answered(hand: Hand, position: int, intent: Intent, answer: Answer) -> None:
    """The answer to the deletion. The pod may have gone meanwhile, and its eviction with it."""
    eviction = hand.flow.evictions.get(intent.uid)
    if eviction is not None and eviction.intent != position:
        eviction = None
    subject = subject_at("Pod", intent.key, intent.uid)
    ref, job = (_of(eviction), eviction.job) if eviction is not None else (_ref(subject, ""), "")
    failure = failure_of(answer.code, answer.body) if not answer.ok else Failure(0)
    other = answer.code == 409 and OTHER_POD in failure.message
    if answer.ok or answer.code == 404 or other:
        _succeed(hand, ref, job, position, position, code=answer.code or 0, gone=not answer.ok)
    elif eviction is None or eviction.phase is EvictPhase.SEEN:
        lost = answer.code is None
        _succeed(hand, ref, job, position, position, code=0, gone=eviction is None, lost=lost)
    elif answer.code is None:
        _lost(hand, eviction, position)
    else:
        _fail(hand, eviction, failure, position, position, wish_of(answer))


def _succeed(
    hand: Hand, ref: TaskRef, job: str, intent: int | None, cause: int, *, code: int = 0, gone: bool = False,
    lost: bool = False,
) -> None:  # fmt: skip
    """The pod is going, or gone."""
    event = EvictSucceeded(job=job, node=ref.node, code=code, gone=gone, answer_lost=lost, intent=intent)
    hand.add(pod_subject(ref), event, cause=cause, known=RECORDED)


def _lost(hand: Hand, eviction: Eviction, position: int) -> None:
    """No answer: the task is taken to be going until the pod says otherwise."""
    event = EvictFailed(
        job=eviction.job,
        node=eviction.node,
        code=0,
        message="no answer came: the pod may have been deleted",
        attempt=eviction.posts,
        answer_lost=True,
        intent=position,
    )
    cause = hand.add(pod_subject(_of(eviction)), event, cause=position, known=RECORDED)
    queue_resync(hand, eviction, LOST, cause)


def _fail(
    hand: Hand, eviction: Eviction, failure: Failure, intent: int | None, cause: int, wish: float | None = None, *,
    resynced: bool = False,
) -> None:  # fmt: skip
    """The pod stays. It is read again, unless it has just been (`resynced`); then the task is what the pod says, and is
    left alone for a while."""
    event = EvictFailed(
        job=eviction.job,
        node=eviction.node,
        code=failure.code,
        reason=failure.reason,
        message=failure.message,
        attempt=max(1, eviction.posts),
        retry_after_seconds=wish,
        intent=intent,
    )
    position = hand.add(pod_subject(_of(eviction)), event, cause=cause, known=RECORDED)
    if not resynced:
        queue_resync(hand, eviction, "EvictFailed", position)


def queue_resync(hand: Hand, eviction: Eviction, reason: str, cause: int, attempt: int = 1) -> None:
    """Read the pod again, the later the more often it went wrong."""
    delay = backoff_microseconds(attempt, hand.flow.config.resync_base_microseconds)
    event = ResyncQueued(
        job=eviction.job, attempt=attempt, delay_seconds=delay / SECOND, reason=reason, node=eviction.node
    )
    hand.add(pod_subject(_of(eviction)), event, cause=cause)


# --- settled without an answer ------------------------------------------------------------------------------------


def _resolve(hand: Hand, ref: TaskRef, intent: int, verdict: Verdict, code: int, said: str, cause: int) -> int:
    event = InDoubtResolved(
        intent=intent, intent_type="EvictRequested", verdict=verdict, code=code, said=said, node=ref.node
    )
    return hand.add(pod_subject(ref), event, cause=cause, known=RECORDED)


def going(hand: Hand, notice: Noticed) -> None:
    """A pod that is to go was seen going: by somebody else's hand before it was asked for, or by ours, whose answer was
    lost."""
    eviction = hand.flow.evictions.get(notice.key)
    if eviction is not None and eviction.phase is EvictPhase.SEEN:
        settle_seen(hand, eviction, notice.position)


def settle_seen(hand: Hand, eviction: Eviction, cause: int) -> None:
    """That it is seen going is the truth."""
    ref, intent = _of(eviction), eviction.intent or None
    if intent is not None:
        cause = _resolve(hand, ref, intent, "happened", 0, "a watch shows the pod being deleted", cause)
    _succeed(hand, ref, eviction.job, intent, cause, lost=intent is not None)


def left(hand: Hand, notice: Noticed) -> None:
    """A pod went before it was asked to, or while that was in doubt."""
    intent, node, key, job = notice.detail.split(" ", 3)
    namespace, _, name = key.partition("/")
    ref, cause = TaskRef(namespace=namespace, name=name, uid=notice.key, node=node), notice.position
    if int(intent):
        cause = _resolve(hand, ref, int(intent), "object-gone", 0, "the pod is gone", cause)
    _succeed(hand, ref, job, int(intent) or None, cause, gone=True, lost=bool(int(intent)))


def found_gone(hand: Hand, uid: str, cause: int) -> None:
    """A read says that the pod of an eviction in doubt is gone."""
    eviction = hand.flow.evictions.get(uid)
    if eviction is not None and eviction.phase is EvictPhase.DOUBT:
        cause = _resolve(hand, _of(eviction), eviction.intent, "object-gone", 404, "the pod is gone", cause)
        _succeed(hand, _of(eviction), eviction.job, eviction.intent, cause, gone=True, lost=True)


class Found(Enum):
    """What a read of a pod in doubt has come to: it is settled; the request is to be sent once more; or the pod is to
    be read again."""

    SETTLED = 1
    ONCE_MORE = 2
    UNKNOWN = 3


def found(hand: Hand, eviction: Eviction, pod: Pod, position: int) -> Found:
    """What a read says of an eviction in doubt. The pod is going: done. It is not: the request is sent once more, and
    if that answer is lost too, the pod is read until no request can be on its way any more; then it has failed."""
    config, ref = hand.flow.config, _of(eviction)
    deleting = pod.metadata.deletion_timestamp is not None
    if deleting or pod.status.phase in ("Succeeded", "Failed"):
        said = "the pod is being deleted" if deleting else "the pod has ended"
        cause = _resolve(hand, ref, eviction.intent, "happened", 200, said, position)
        _succeed(hand, ref, eviction.job, eviction.intent, cause, lost=True)
        return Found.SETTLED
    if hand.now - eviction.post_at < config.settle_seconds * SECOND:
        if eviction.posts >= config.posts_max:
            return Found.UNKNOWN
        _resolve(hand, ref, eviction.intent, "not-happened", 200, STAYS, position)
        return Found.ONCE_MORE
    cause = _resolve(hand, ref, eviction.intent, "not-happened", 200, STAYS, position)
    failure = Failure(0, "AnswerLost", f"no answer came, and {STAYS}")
    _fail(hand, eviction, failure, eviction.intent, cause, resynced=True)
    return Found.SETTLED


def once_more(hand: Hand, eviction: Eviction, cause: int) -> None:
    """The request whose answer was lost, again."""
    _request(hand, _of(eviction), eviction.job, eviction.decided, cause, eviction.action, eviction.posts + 1)


# --- a restart ----------------------------------------------------------------------------------------------------


def in_flight(flow: Flow) -> list[int]:
    """The intents that are in doubt after a restart."""
    doubtful = (EvictPhase.DELETING, EvictPhase.DOUBT, EvictPhase.SEEN)
    return [one.intent for one in flow.evictions.values() if one.phase in doubtful and one.intent]


def restart(hand: Hand, started: int) -> None:
    """Nobody waits for answers any more: what was asked for is settled by a read, or by what was seen. A decision of
    which only the conditions were asked for is given up, as it may be an old one: the next cycle decides anew."""
    for eviction in hand.flow.evictions.values():
        if eviction.phase is EvictPhase.DELETING:
            queue_resync(hand, eviction, LOST, started)
        elif eviction.phase is EvictPhase.SEEN and eviction.intent:
            settle_seen(hand, eviction, started)
        elif eviction.phase is EvictPhase.MARKING:
            _fail(hand, eviction, Failure(0, "ProcessEnded", UNANSWERED), None, started)


def orphan(hand: Hand, position: int, intent: Intent) -> None:
    """After a restart, the outcome of what nobody will answer any more: conditions, and the deletion of a pod that is
    gone."""
    subject, eviction = subject_at("Pod", intent.key, intent.uid), hand.flow.evictions.get(intent.uid)
    if intent.kind == "mark":
        event = PodConditionPatchFailed(
            type=DISRUPTION_TARGET, status="True", code=0, error=UNANSWERED, reason=BY_SCHEDULER
        )
        hand.add(subject, event, cause=position)
    elif eviction is None or eviction.intent != position:
        _succeed(hand, _ref(subject, ""), "", position, position, gone=True, lost=True)


__all__ = [
    "Found",
    "answered",
    "evict",
    "found",
    "found_gone",
    "going",
    "in_flight",
    "left",
    "mark_answered",
    "once_more",
    "orphan",
    "queue_resync",
    "restart",
]
