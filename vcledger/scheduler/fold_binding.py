"""What the events of binding do to the flow: queued, sent, answered, and what the pod's condition then says.

Owns these changes, and when a condition is news. Must not know how a bind is sent. Called by
`vcledger.scheduler.fold_events`, by way of the table, and by the deciders for whether a condition is to be written.
"""

from __future__ import annotations

from vcledger.scheduler import bodies, charges, fold_evictions
from vcledger.scheduler.fold_tasks import Apply, close_intent, drop, micros
from vcledger.scheduler.inputs import Noticed
from vcledger.scheduler.state import Condition, Flow, FlowTask, Intent
from vcledger.scheduler.transitions import Phase, Step, after
from vcledger.scheduler.written import before, held_back
from volcano.events import binding
from volcano.events.base import DomainEvent, Recorded

SCHEDULER_ERROR = "SchedulerError"


def _queued(flow: Flow, at: Recorded, event: binding.BindQueued) -> None:
    task = flow.tasks[at.uid]
    task.phase = after(task.phase, Step.QUEUED)
    task.attempt, task.began, task.cause, task.posts = event.attempt, flow.now, at.position, 0
    flow.attempts[at.uid] = event.attempt
    charges.hold(flow, task)
    flow.bind_queue[at.uid] = flow.now
    if len(flow.bind_queue) == flow.config.batch_num:
        flow.notices.append(Noticed("flush", "", at.position))


def _bind_requested(flow: Flow, at: Recorded, event: binding.BindRequested) -> None:
    task = flow.tasks[at.uid]
    task.phase = after(task.phase, Step.BIND_REQUESTED)
    flow.bind_queue.pop(at.uid, None)
    task.posts += 1
    task.post_at, task.intent, task.cause = flow.now, at.position, at.position
    flow.batches = max(flow.batches, event.batch or 0)
    flow.intents[at.position] = Intent("bind", at.uid, task.key)


def _bind_succeeded(flow: Flow, at: Recorded, event: binding.BindSucceeded) -> None:
    close_intent(flow, event.intent)
    flow.attempts.pop(at.uid, None)
    task = flow.tasks.get(at.uid)
    if task is None or _of_another(task, event.intent):
        return
    task.phase = after(task.phase, Step.BIND_SUCCEEDED)
    task.cause = at.position
    if task.phase is Phase.OUT or task.bound_to:
        charges.release(flow, task)
        drop(flow, task)
    else:
        charges.hold(flow, task)


def _of_another(task: FlowTask, intent: int | None) -> bool:
    """Whether a binding is that of an earlier task of the pod, which had left the flow while its answer was out: a list
    had missed the pod, and it came back."""
    return intent is not None and intent != task.intent


def wants_condition(flow: Flow, uid: str, key: str, event: binding.BindFailed) -> bool:
    """Whether a failed bind is told in the pod's condition: not of a pod that is gone or bound elsewhere, not while the
    answer is only lost, and not where the cached pod says it already (fact 24)."""
    task = flow.tasks.get(uid)
    if task is None or event.answer_lost or event.code == 404 or event.bound_to or _of_another(task, event.intent):
        return False
    return condition_is_news(flow, uid, key, SCHEDULER_ERROR, failed_message(event), flow.now)


def condition_is_news(flow: Flow, uid: str, key: str, reason: str, message: str, now: int, node: str = "") -> bool:
    """Whether the pod, which waits for a node, does not say so already, nor will once what we wrote is seen; and may be
    told: not soon after a refusal, but for a failed bind, which comes with a back-off of its own. `node`: the one that
    is named for it; none takes nothing back."""
    pod = flow.pods.get(key)
    if pod is None or pod.metadata.uid != uid:
        return False
    written, seen = flow.conditions.get(uid), pod.metadata.resource_version
    same = written is not None and (written.reason, written.message) == (reason, message)
    same = same and (not node or (written is not None and written.node == node))
    if written is not None and written.code is not None:
        if reason != SCHEDULER_ERROR and held_back(written.code, written.until, now, other=not same):
            return False
    elif same and written is not None and (not written.version or before(seen, written.version)):
        return False
    named = bool(node) and pod.status.nominated_node_name != node
    return named or bodies.condition_differs(pod, "False", reason, message)


def failed_message(event: binding.BindFailed) -> str:
    """Volcano's sentence for it."""
    return f"failed to bind to node {event.node}: {event.message}"


def _bind_failed(flow: Flow, at: Recorded, event: binding.BindFailed) -> None:
    close_intent(flow, event.intent)
    if wants_condition(flow, at.uid, f"{at.namespace}/{at.name}", event):
        flow.intents[at.position] = Intent("condition", at.uid, f"{at.namespace}/{at.name}")
        flow.conditions[at.uid] = Condition(SCHEDULER_ERROR, failed_message(event))
    task = flow.tasks.get(at.uid)
    if task is None or task.phase is Phase.ENDED or _of_another(task, event.intent):
        return
    task.phase = after(task.phase, Step.ANSWER_LOST if event.answer_lost else Step.BIND_FAILED)
    task.reason, task.cause = event.message, at.position
    flow.bind_queue.pop(at.uid, None)


def _condition_patched(flow: Flow, at: Recorded, event: binding.PodConditionPatched) -> None:
    close_intent(flow, at.causation)
    if event.type == bodies.DISRUPTION_TARGET:
        fold_evictions.marked(flow, at, event)
    elif at.uid in flow.conditions:
        flow.conditions[at.uid] = Condition(
            event.reason, event.message, event.new_resource_version, event.nominated_node
        )


def _condition_refused(flow: Flow, at: Recorded, event: binding.PodConditionPatchFailed) -> None:
    """It is written again with the next failure to bind; or when the task is next tried once the time is over that the
    event says."""
    close_intent(flow, at.causation)
    held = flow.conditions.get(at.uid)
    if event.type == bodies.DISRUPTION_TARGET or held is None:
        return
    if event.reason == SCHEDULER_ERROR:
        del flow.conditions[at.uid]
    else:
        until = flow.now + micros(event.delay_seconds)
        flow.conditions[at.uid] = held._replace(failures=event.attempt, until=until, code=event.code)


APPLY: dict[type[DomainEvent], Apply] = {
    binding.BindQueued: _queued,
    binding.BindRequested: _bind_requested,
    binding.BindSucceeded: _bind_succeeded,
    binding.BindFailed: _bind_failed,
    binding.PodConditionPatched: _condition_patched,
    binding.PodConditionPatchFailed: _condition_refused,
}
"""Event to what it does."""
