"""The resync queue: a task whose bind or eviction went wrong is read again until the two sides agree.

Owns what follows from each answer of such a read, for a failure and for an answer that was lost, and the calls of the
task's own handler of bind errors. Must not know volumes. Called by `vcledger.scheduler.decide`.

Source: the seed's processResyncTask and syncTask. Unlike Volcano from v1.9 on, the handler belongs to the task across
re-reads and is called until it has succeeded.
"""

from __future__ import annotations

import msgspec

from vcledger.scheduler import binder, evictor
from vcledger.scheduler.decision import RECORDED, Failure, Hand, failure_of, ref_of
from vcledger.scheduler.eviction_steps import EvictPhase
from vcledger.scheduler.fold_resync import wants_handler
from vcledger.scheduler.fold_tasks import LOST, resync_key
from vcledger.scheduler.queues import backoff_microseconds
from vcledger.scheduler.requests import Answer, CallHandler, Get
from vcledger.scheduler.state import SECOND, Eviction, Flow, FlowTask, Intent
from vcledger.scheduler.transitions import Phase
from volcano.events.base import Subject
from volcano.events.observation import ObjectModified
from volcano.events.recovery import InDoubtResolved, Verdict
from volcano.events.resync import (
    BindErrorHandlerCalled,
    BindErrorHandlerSet,
    ResyncFailed,
    ResyncQueued,
    ResyncRequested,
    ResyncSucceeded,
)
from volcano.objects import kinds
from volcano.objects.core import Pod


def _subject(key: str) -> Subject:
    namespace, name, uid = key.split("/", 2)
    return Subject("Pod", namespace, name, uid)


def _job(flow: Flow, subject: Subject) -> str:
    task = flow.tasks.get(subject.uid)
    if task is not None:
        return task.job
    ref = flow.cache.pods.get(f"{subject.namespace}/{subject.name}")
    return ref.job if ref is not None and ref.uid == subject.uid else ""


def _attempt(flow: Flow, key: str) -> int:
    item = flow.resync.items.get(key)
    return item.attempt if item is not None else 1


def ask(hand: Hand, key: str) -> None:
    """The read, now that it is due."""
    flow = hand.flow
    subject = _subject(key)
    task = flow.tasks.get(subject.uid) or flow.evictions.get(subject.uid)
    event = ResyncRequested(job=_job(flow, subject), attempt=_attempt(flow, key))
    position = hand.add(subject, event, cause=task.cause if task is not None else None)
    hand.effect(position, Get("Pod", subject.namespace, subject.name))


def answered(hand: Hand, position: int, intent: Intent, answer: Answer) -> None:
    """What the API server holds now."""
    flow = hand.flow
    namespace, _, name = intent.key.partition("/")
    subject = Subject("Pod", namespace, name, intent.uid)
    task = flow.tasks.get(intent.uid)
    if answer.code == 404:
        _gone(hand, subject, task, position)
        return
    pod = _pod(answer)
    if pod is None:
        _failed(hand, subject, position, answer)
    elif pod.metadata.uid != intent.uid:
        _observe(hand, pod, answer.body)
        _gone(hand, subject, task, position, pod.metadata.uid)
    else:
        if not _known(flow, intent.key, pod):
            _observe(hand, pod, answer.body)
        _found(hand, subject, task, position, pod)


def _pod(answer: Answer) -> Pod | None:
    if not answer.ok:
        return None
    try:
        pod = kinds.decode("Pod", answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return pod if isinstance(pod, Pod) and pod.metadata.uid else None


def _known(flow: Flow, key: str, pod: Pod) -> bool:
    """Whether the cache holds this version of the pod, or a later one: a read may be stale."""
    ref = flow.cache.pods.get(key)
    version = pod.metadata.resource_version
    return ref is not None and ref.uid == pod.metadata.uid and version.isdecimal() and int(version) <= ref.version


def _observe(hand: Hand, pod: Pod, body: bytes) -> None:
    meta = pod.metadata
    subject = Subject("Pod", meta.namespace, meta.name, meta.uid)
    hand.observe(subject, ObjectModified(object=pod), body, "MODIFIED", meta.resource_version)


# --- outcomes -----------------------------------------------------------------------------------------------------


def _failed(hand: Hand, subject: Subject, position: int, answer: Answer) -> None:
    """The read itself failed: again, later."""
    flow = hand.flow
    failure = failure_of(answer.code, answer.body) if not answer.ok else Failure(0, "BadObject", "no pod")
    key = resync_key(subject.namespace, subject.name, subject.uid)
    attempt = _attempt(flow, key)
    job = _job(flow, subject)
    event = ResyncFailed(
        job=job, attempt=attempt, code=failure.code, reason=failure.reason, message=failure.message, requeued=True
    )
    cause = hand.add(subject, event, cause=position, known=RECORDED)
    _call_handler(hand, subject, cause)
    task, eviction = flow.tasks.get(subject.uid), flow.evictions.get(subject.uid)
    doubt = (task is not None and task.phase is Phase.DOUBT) or _in_doubt(eviction)
    reason = LOST if doubt else "ResyncFailed"
    _requeue(hand, subject, job, reason, attempt + 1, cause)


def _in_doubt(eviction: Eviction | None) -> bool:
    return eviction is not None and eviction.phase is EvictPhase.DOUBT


def _requeue(hand: Hand, subject: Subject, job: str, reason: str, attempt: int, cause: int) -> None:
    delay = backoff_microseconds(attempt, hand.flow.config.resync_base_microseconds)
    task = hand.flow.tasks.get(subject.uid) or hand.flow.evictions.get(subject.uid)
    node = task.node if task is not None else ""
    event = ResyncQueued(job=job, attempt=attempt, delay_seconds=delay / SECOND, reason=reason, node=node)
    hand.add(subject, event, cause=cause)


def _gone(hand: Hand, subject: Subject, task: FlowTask | None, position: int, other: str = "") -> None:
    """The pod is gone: the task is removed everywhere. `other`: the UID of the pod that has its name now."""
    flow = hand.flow
    job = _job(flow, subject)
    key = resync_key(subject.namespace, subject.name, subject.uid)
    attempt = _attempt(flow, key)
    cause = position
    ref = flow.cache.pods.get(f"{subject.namespace}/{subject.name}")
    told = (
        bool(other) and ref is not None and ref.uid == subject.uid
    )  # by the observation of the other, see lost_with_pod
    if task is not None and task.phase is Phase.DOUBT and not told:
        _resolve(hand, task, "object-gone", 404, "the pod is gone", position)
        failure = Failure(404, "NotFound", f'pods "{task.name}" not found')
        binder.fail_bind(hand, task, failure, intent=task.intent, cause=position, resynced=True)
    if not told:
        evictor.found_gone(hand, subject.uid, position)
    event = ResyncSucceeded(job=job, attempt=attempt, found=bool(other), pod_uid=other)
    cause = hand.add(subject, event, cause=position, known=RECORDED)
    _call_handler(hand, subject, cause)


def _resolve(hand: Hand, task: FlowTask, verdict: Verdict, code: int, said: str, cause: int, node: str = "") -> None:
    event = InDoubtResolved(
        intent=task.intent, intent_type="BindRequested", verdict=verdict, code=code, said=said, node=node
    )
    hand.add(Subject("Pod", task.namespace, task.name, task.uid), event, cause=cause, known=RECORDED)


def _found(hand: Hand, subject: Subject, task: FlowTask | None, position: int, pod: Pod) -> None:
    """The pod is there: what it says is the truth, for a bind in doubt too."""
    flow = hand.flow
    node = pod.spec.node_name
    if task is not None and task.phase is Phase.DOUBT and not _settled(hand, task, node, position):
        return
    eviction, what = flow.evictions.get(subject.uid), evictor.Found.SETTLED
    if eviction is not None and eviction.phase is EvictPhase.DOUBT:
        what = evictor.found(hand, eviction, pod, position)
    key = resync_key(subject.namespace, subject.name, subject.uid)
    event = ResyncSucceeded(
        job=_job(flow, subject),
        attempt=_attempt(flow, key),
        found=True,
        pod_uid=pod.metadata.uid,
        resource_version=pod.metadata.resource_version,
        node=node,
        phase=pod.status.phase,
    )
    cause = hand.add(subject, event, cause=position, known=RECORDED)
    _call_handler(hand, subject, cause)
    if eviction is not None and what is evictor.Found.ONCE_MORE:
        evictor.once_more(hand, eviction, cause)
    elif eviction is not None and what is evictor.Found.UNKNOWN:
        _requeue(hand, subject, eviction.job, LOST, _attempt(flow, key) + 1, cause)


def _settled(hand: Hand, task: FlowTask, node: str, position: int) -> bool:
    """What a read says of a bind in doubt. Bound to our node: done. Elsewhere: lost to another. Not bound: it is sent
    once more, and if that answer is lost too, read until no request can be on its way any more. False: not settled."""
    if node == task.node:
        _resolve(hand, task, "happened", 200, f"the pod is bound to {node}", position, node)
        binder.succeed(hand, ref_of(task), task, task.intent, code=200, lost=True, cause=position)
        return True
    if node:
        _resolve(hand, task, "lost-to-another", 200, f"the pod is bound to {node}", position, node)
        failure = Failure(409, "Conflict", f'pod {task.name} is already assigned to node "{node}"')
        binder.fail_bind(hand, task, failure, intent=task.intent, cause=position, bound_to=node, resynced=True)
        return True
    config = hand.flow.config
    if task.posts < config.posts_max and task.key in hand.flow.pods:
        _resolve(hand, task, "not-happened", 200, "the pod has no node", position)
        hand.add(
            Subject("Pod", task.namespace, task.name, task.uid),
            ResyncSucceeded(job=task.job, attempt=1, found=True, pod_uid=task.uid, phase="Pending"),
            cause=position,
            known=RECORDED,
        )
        binder.request(hand, task, position)
        return False
    if hand.now - task.post_at < config.settle_seconds * SECOND:
        key = resync_key(task.namespace, task.name, task.uid)
        attempt = _attempt(hand.flow, key) + 1
        _close_read(hand, task, position, attempt)
        return False
    _resolve(hand, task, "not-happened", 200, "the pod has no node", position)
    failure = Failure(0, "AnswerLost", "no answer came, and the pod has no node")
    binder.fail_bind(hand, task, failure, intent=task.intent, cause=position, resynced=True)
    return True


def _close_read(hand: Hand, task: FlowTask, position: int, attempt: int) -> None:
    """The pod has no node yet, but the request may still be on its way."""
    subject = Subject("Pod", task.namespace, task.name, task.uid)
    event = ResyncSucceeded(job=task.job, attempt=attempt - 1, found=True, pod_uid=task.uid, phase="Pending")
    cause = hand.add(subject, event, cause=position, known=RECORDED)
    _requeue(hand, subject, task.job, LOST, attempt, cause)


# --- the task's own handler ---------------------------------------------------------------------------------------


def set_handler(hand: Hand, key: str, handler: str) -> None:
    """A pod's own handler of bind errors."""
    ref = hand.flow.cache.pods.get(key)
    if ref is not None:
        event = BindErrorHandlerSet(job=ref.job, handler=handler)
        hand.add(Subject("Pod", ref.namespace, ref.name, ref.uid), event, cause=ref.position)


def _call_handler(hand: Hand, subject: Subject, position: int) -> None:
    """The call goes out with the read's outcome, if the task still wants it then."""
    flow = hand.flow
    handler, task = flow.handlers.get(subject.uid), flow.tasks.get(subject.uid)
    failing = task is not None and task.phase is Phase.DOUBT and any(
        draft.event.__class__.__name__ == "BindFailed" for draft in hand.events
    )  # fmt: skip
    if handler is not None and (wants_handler(flow, subject.uid) or (failing and not handler.succeeded)):
        node = task.node if task is not None else ""
        call = CallHandler(handler.name, subject.namespace, subject.name, subject.uid, node)
        hand.effect(position, call)


def handler_answered(hand: Hand, position: int, intent: Intent, request: CallHandler, answer: Answer) -> None:
    """The handler ran. One that failed queues the task again, unless it is queued."""
    flow = hand.flow
    subject = Subject("Pod", request.namespace, request.name, request.uid)
    key = resync_key(subject.namespace, subject.name, subject.uid)
    ref = flow.cache.pods.get(f"{request.namespace}/{request.name}")
    there = ref is not None and ref.uid == request.uid
    requeue = not answer.ok and there and key not in flow.resync
    job = _job(flow, subject)
    error = "" if answer.ok else answer.body.decode("utf-8", "replace") or failure_of(answer.code, b"").message
    event = BindErrorHandlerCalled(
        job=job, handler=request.handler, ok=answer.ok, error=error, requeued=requeue or key in flow.resync
    )
    cause = hand.add(subject, event, cause=position, known=RECORDED)
    if requeue:
        _requeue(hand, subject, job, "HandlerFailed", 1, cause)


__all__ = ["answered", "ask", "handler_answered", "set_handler"]
