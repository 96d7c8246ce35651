"""The binder: tasks out of the bind queue, volumes first, then the binding, and what follows from each answer.

Owns the decisions about one task's binding, and the way of a failure. Must not know sessions. Called by
`vcledger.scheduler.decide`.

Source: the seed's processBindTask, BindTask and Bind; Volcano's AddBindTask, DefaultBinder.Bind, taskUnschedulable.
Where Volcano is bettered (`exact`): a lost answer is not taken for a refusal, a task's failure concerns that task only,
and nothing is written to a pod that is gone or bound elsewhere.
"""

from __future__ import annotations

import re

import msgspec

from vcledger.scheduler import volume_binder
from vcledger.scheduler.bodies import condition_patch, sent_status
from vcledger.scheduler.decision import (
    RECORDED,
    UNANSWERED,
    Failure,
    Hand,
    failure_of,
    pod_subject,
    ref_of,
    status_of,
    wish_of,
)
from vcledger.scheduler.fold_binding import SCHEDULER_ERROR, failed_message, wants_condition
from vcledger.scheduler.fold_tasks import LOST, assumed_of, resync_key
from vcledger.scheduler.queues import backoff_microseconds
from vcledger.scheduler.requests import Answer, Bind, Patch
from vcledger.scheduler.state import SECOND, Flow, FlowTask, Intent
from vcledger.scheduler.transitions import Phase
from vcledger.scheduler.written import wait_seconds
from volcano.events.base import TaskRef
from volcano.events.binding import (
    BindFailed,
    BindQueued,
    BindRequested,
    BindSucceeded,
    PodConditionPatched,
    PodConditionPatchFailed,
)
from volcano.events.recovery import InDoubtResolved
from volcano.events.resync import ResyncQueued, ResyncSucceeded
from volcano.events.volume import VolumesReverted

_ASSIGNED = re.compile(r'already assigned to node "([^"]+)"')


# --- into the queue and out of it -----------------------------------------------------------------------------------


def queue(hand: Hand, task: FlowTask, before: int = 0) -> None:
    """Hand an assumed task to the bind flow, `before` others having gone in by the same decision."""
    flow = hand.flow
    attempt = flow.attempts.get(task.uid, 0) + 1
    event = BindQueued(
        job=task.job,
        node=task.node,
        request=request_of(flow, task),
        attempt=attempt,
        queued=len(flow.bind_queue) + before + 1,
    )
    hand.add(pod_subject(task), event, cause=task.cause)


def request_of(flow: Flow, task: FlowTask) -> dict[str, float]:
    """What the task holds of its node."""
    node = flow.cache.nodes.get(task.node)
    copy = node.tasks.get(task.key) if node is not None else None
    return copy.resreq.amounts() if copy is not None else {}


def flush(hand: Hand, *, whole: bool) -> None:
    """Batches out of the queue: the full ones, or with `whole` the rest too."""
    flow = hand.flow
    waiting, size = list(flow.bind_queue), flow.config.batch_num
    for number, first in enumerate(range(0, len(waiting), size)):
        batch = waiting[first : first + size]
        if len(batch) < size and not whole:
            return
        for uid in batch:
            task = flow.tasks[uid]
            if task.phase is Phase.QUEUED:
                start(hand, task, flow.batches + number + 1)


def start(hand: Hand, task: FlowTask, batch: int | None = None) -> None:
    """The task's volumes if they are not ready, else its binding."""
    if task.has_volume_work and not (task.bindings or task.provisions):
        volume_binder.wait(hand, task)
    elif task.has_volume_work:
        volume_binder.request_next(hand, task)
    else:
        request(hand, task, task.cause, batch)


def request(hand: Hand, task: FlowTask, cause: int, batch: int | None = None) -> None:
    """POST pods/binding; never to a node that is not there any more."""
    flow = hand.flow
    node = flow.cache.node_objects.get(task.node)
    if node is None:
        failure = Failure(0, "NodeGone", f'node "{task.node}" not found')
        fail_bind(hand, task, failure, intent=None, cause=cause)
        return
    pod = flow.pods.get(task.key)
    event = BindRequested(node=task.node, job=task.job, attempt=task.attempt, batch=batch)
    position = hand.add(pod_subject(task), event, cause=cause)
    annotations = (pod.metadata.annotations or {}) if pod is not None else {}
    hand.effect(position, Bind(task.namespace, task.name, task.uid, task.node, annotations))


# --- answers ------------------------------------------------------------------------------------------------------


def answered(hand: Hand, position: int, intent: Intent, answer: Answer, node: str) -> None:
    """The answer to a binding. The task may have left the flow meanwhile; then only the outcome is written."""
    flow = hand.flow
    task = flow.tasks.get(intent.uid)
    if answer.ok:
        succeed(hand, _ref(intent, node), task, position, code=answer.code or 0)
    elif task is not None and task.phase is Phase.SEEN:
        succeed(hand, ref_of(task), task, position, code=answer.code or 0, lost=True)
    elif answer.code is None:
        lost(hand, task, position, intent, node)
    else:
        failure = failure_of(answer.code, answer.body)
        found = _ASSIGNED.search(failure.message) if answer.code == 409 else None
        bound_to = found[1] if found is not None else task.bound_to if task is not None else ""
        if task is not None and bound_to == task.node:
            lost(hand, task, position, intent, node, failure)
            return
        details = status_of(answer.body).details
        wish = details.retry_after_seconds if details is not None else None
        if task is None:
            event = _failed(node, failure, 1, position, bound_to, wish)
            hand.add(pod_subject(_ref(intent, node)), event, cause=position, known=RECORDED)
            return
        fail_bind(hand, task, failure, intent=position, cause=position, bound_to=bound_to, wish=wish)


def _ref(intent: Intent, node: str) -> TaskRef:
    namespace, _, name = intent.key.partition("/")
    return TaskRef(namespace=namespace, name=name, uid=intent.uid, node=node)


def _failed(
    node: str, failure: Failure, attempt: int, intent: int | None, bound_to: str = "", wish: float | None = None
) -> BindFailed:
    return BindFailed(
        node=node,
        code=failure.code,
        reason=failure.reason,
        message=failure.message,
        attempt=attempt,
        bound_to=bound_to,
        retry_after_seconds=wish,
        intent=intent,
    )


def succeed(
    hand: Hand, ref: TaskRef, task: FlowTask | None, intent: int, *, code: int = 201, lost: bool = False,
    cause: int | None = None,
) -> None:  # fmt: skip
    """The pod has its node."""
    attempt = task.attempt if task is not None else 1
    event = BindSucceeded(node=ref.node, code=code, attempt=attempt, answer_lost=lost, intent=intent)
    position = hand.add(pod_subject(ref), event, cause=intent if cause is None else cause, known=RECORDED)
    message = f"Successfully assigned {ref.namespace}/{ref.name} to {ref.node}"
    hand.tell(ref, position, "Scheduled", message, warning=False)


def lost(
    hand: Hand, task: FlowTask | None, position: int, intent: Intent, node: str, failure: Failure | None = None
) -> None:
    """No answer, or one that says that the pod is bound where we wanted it: the truth is read, and until then the task
    keeps what it holds."""
    code = failure.code if failure is not None else 0
    event = BindFailed(
        node=node,
        code=code,
        reason=failure.reason if failure is not None else "",
        message=failure.message if failure is not None else "no answer came: the binding may have happened",
        attempt=task.attempt if task is not None else 1,
        answer_lost=True,
        bound_to=node if failure is not None else "",
        intent=position,
    )
    ref = ref_of(task) if task is not None else _ref(intent, node)
    cause = hand.add(pod_subject(ref), event, cause=position, known=RECORDED)
    if task is not None:
        queue_resync(hand, task, LOST, cause)


# --- failures -----------------------------------------------------------------------------------------------------


def fail_bind(
    hand: Hand, task: FlowTask, failure: Failure, *, intent: int | None, cause: int, bound_to: str = "",
    wish: float | None = None, resynced: bool = False,
) -> None:  # fmt: skip
    """A bind that failed: told in an Event and, once, in the pod's condition; volumes reverted; the task read again.
    `resynced`: it has just been read."""
    event = _failed(task.node, failure, task.attempt, intent, bound_to, wish)
    position = hand.add(pod_subject(task), event, cause=cause, known=RECORDED)
    message = failed_message(event)
    wanted = wants_condition(hand.flow, task.uid, task.key, event)
    if wanted or bound_to:
        hand.tell(ref_of(task), position, "FailedScheduling", message, warning=True)
    if wanted:
        body = condition_patch(hand.flow.pods[task.key], "False", SCHEDULER_ERROR, message, hand.now)
        hand.effect(position, Patch("Pod", task.namespace, task.name, body, "status"))
    cause = revert(hand, task, "BindFailed", message, position)
    if not resynced:
        queue_resync(hand, task, "BindFailed", cause)


def revert(hand: Hand, task: FlowTask, reason: str, message: str, cause: int) -> int:
    """Drop what is still assumed for the task; the position of the last event of the chain."""
    volumes, claims = assumed_of(hand.flow, task)
    if not volumes and not claims:
        return cause
    return hand.add(
        pod_subject(task),
        VolumesReverted(
            reason=reason,
            message=message,
            node=task.node,
            volumes=tuple(volumes),
            claims=volume_binder.claims_with(task, volumes, claims),
            written=volume_binder.written_names(hand.flow, volumes, claims),
        ),
        cause=cause,
    )


def queue_resync(hand: Hand, task: FlowTask, reason: str, cause: int, attempt: int = 1) -> None:
    """Read the task again, the later the more often it went wrong. It waits for that once; a read that has just been
    answered, in this very decision, is over and doesn't count."""
    waits = resync_key(task.namespace, task.name, task.uid) in hand.flow.resync
    answered = any(isinstance(one.event, ResyncSucceeded) and one.subject.uid == task.uid for one in hand.events)
    if attempt == 1 and waits and not answered and reason != LOST:
        return
    delay = backoff_microseconds(attempt, hand.flow.config.resync_base_microseconds)
    event = ResyncQueued(job=task.job, attempt=attempt, delay_seconds=delay / SECOND, reason=reason, node=task.node)
    hand.add(pod_subject(task), event, cause=cause)


# --- conditions ---------------------------------------------------------------------------------------------------


def condition_answered(hand: Hand, position: int, intent: Intent, request: Patch, answer: Answer) -> None:
    """The outcome of the condition's patch. That of a failed bind is not sent again: the next failure has its own."""
    written = sent_status(request.body)
    sent = written.conditions[0]
    ref = _ref(intent, "")
    if answer.ok:
        event: PodConditionPatched | PodConditionPatchFailed = PodConditionPatched(
            type="PodScheduled",
            status="False",
            reason=sent.reason,
            message=sent.message,
            nominated_node=written.node,
            new_resource_version=volume_binder.version_in(answer.body),
        )
    else:
        failure = failure_of(answer.code, answer.body)
        event = PodConditionPatchFailed(
            type="PodScheduled",
            status="False",
            code=failure.code,
            error=failure.message,
            reason=sent.reason,
            message=sent.message,
            nominated_node=written.node,
        )
        if sent.reason != SCHEDULER_ERROR:
            held = hand.flow.conditions.get(intent.uid)
            times, wish = (held.failures if held is not None else 0) + 1, wish_of(answer)
            event = msgspec.structs.replace(
                event, attempt=times, delay_seconds=wait_seconds(times, wish), retry_after_seconds=wish
            )
    hand.add(pod_subject(ref), event, cause=position, known=RECORDED)


# --- settled without an answer --------------------------------------------------------------------------------------


def settle_seen(hand: Hand, task: FlowTask, cause: int) -> None:
    """A bind whose answer was lost has been seen done by a watch: that is the truth."""
    event = InDoubtResolved(
        intent=task.intent,
        intent_type="BindRequested",
        verdict="happened",
        said=f"a watch shows the pod bound to {task.node}",
        node=task.node,
    )
    position = hand.add(pod_subject(task), event, cause=cause, known=RECORDED)
    succeed(hand, ref_of(task), task, task.intent, code=0, lost=True, cause=position)


def orphan(hand: Hand, position: int, intent: Intent) -> None:
    """After a restart: the outcome of a bind whose task has left the flow will not be told any more. Of a pod that is
    there all the same (a list had missed it) it is read."""
    pod = hand.flow.cache.pods.get(intent.key)
    there = pod is not None and pod.uid == intent.uid
    why = "its task had left" if there else "the pod is gone"
    message = f"{UNANSWERED}, and {why}"
    event = BindFailed(node="", code=0, message=message, answer_lost=there, intent=position)
    subject = pod_subject(_ref(intent, ""))
    cause = hand.add(subject, event, cause=position)
    if pod is not None and there and resync_key(pod.namespace, pod.name, pod.uid) not in hand.flow.resync:
        queued = ResyncQueued(job=pod.job, attempt=1, delay_seconds=0.0, reason="BindFailed", node="")
        hand.add(subject, queued, cause=cause)
