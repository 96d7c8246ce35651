"""What reading a task again does to the flow, and what its bind error handler's calls do.

Owns these changes, and when the handler is called. Must not know how a read is sent. Called by
`vcledger.scheduler.fold_events`, by way of the table, and by `vcledger.scheduler.resyncer`.
"""

from __future__ import annotations

from projections.cache import pods
from vcledger.scheduler import charges, fold_evictions
from vcledger.scheduler.fold_tasks import LOST, Apply, close_intent, drop, end, micros, resync_key
from vcledger.scheduler.inputs import Noticed
from vcledger.scheduler.state import Flow, Handler, Intent
from vcledger.scheduler.transitions import Phase, Step, after
from volcano.events import resync
from volcano.events.base import DomainEvent, Recorded


def _resync_key(at: Recorded) -> str:
    return resync_key(at.namespace, at.name, at.uid)


def _resync_queued(flow: Flow, at: Recorded, event: resync.ResyncQueued) -> None:
    task = flow.tasks.get(at.uid)
    if task is not None and event.reason == LOST and task.phase in (Phase.BINDING, Phase.DOUBT):
        task.phase = after(task.phase, Step.IN_DOUBT)
        flow.intents.pop(task.intent, None)
    if task is not None:
        task.cause = at.position
    if event.reason == LOST:
        fold_evictions.in_doubt(flow, at.uid)
    flow.resync.retry(_resync_key(at), flow.now + micros(event.delay_seconds), event.attempt)


def _resync_requested(flow: Flow, at: Recorded, event: resync.ResyncRequested) -> None:
    flow.resync.take(_resync_key(at))
    flow.intents[at.position] = Intent("resync", at.uid, f"{at.namespace}/{at.name}")


def wants_handler(flow: Flow, uid: str) -> bool:
    """Whether the task's own handler is to be called after this read: it has one that has not succeeded, and the bind
    did fail: its outcome is neither good nor still in doubt."""
    handler, task = flow.handlers.get(uid), flow.tasks.get(uid)
    if handler is None or handler.succeeded:
        return False
    return task is None or task.phase not in (Phase.BINDING, Phase.DOUBT, Phase.SEEN, Phase.BOUND)


def _call_handler(flow: Flow, at: Recorded) -> None:
    if wants_handler(flow, at.uid):
        flow.intents[at.position] = Intent("handler", at.uid, flow.handlers[at.uid].name)


def _resync_succeeded(flow: Flow, at: Recorded, event: resync.ResyncSucceeded) -> None:
    close_intent(flow, at.causation)
    _call_handler(flow, at)
    flow.resync.done(_resync_key(at))
    key = f"{at.namespace}/{at.name}"
    if not event.found:
        ref = flow.cache.pods.get(key)
        if ref is not None and ref.uid == at.uid:
            flow.pods.pop(key, None)
            pods.forget_missing_pod(flow.cache, key)
        _gone(flow, at)
        return
    fold_evictions.resynced(flow, at.uid)
    task = flow.tasks.get(at.uid)
    if task is not None and task.phase in (Phase.FAILED, Phase.DOUBT):
        task.phase = after(task.phase, Step.RESYNCED)
        if task.phase is Phase.OUT:
            charges.release(flow, task)
            drop(flow, task)


def _gone(flow: Flow, at: Recorded) -> None:
    """The pod is gone: the task leaves; a job that is over with it is noticed."""
    cache, task = flow.cache, flow.tasks.get(at.uid)
    for store in (flow.attempts, flow.said, flow.conditions, flow.promised):
        store.pop(at.uid, None)
    fold_evictions.gone(flow, at.uid, at.position)
    if task is not None:
        charges.release(flow, task)
        task.phase = Phase.ENDED
        end(flow, task, at.position)
    for job in cache.pending_cleanup:
        flow.notices.append(Noticed("job", job, at.position, flow.podgroups.get(job, "")))
    cache.pending_cleanup.clear()
    cache.next_due = 2**63


def _resync_failed(flow: Flow, at: Recorded, event: resync.ResyncFailed) -> None:
    close_intent(flow, at.causation)
    _call_handler(flow, at)
    if not event.requeued:
        flow.resync.done(_resync_key(at))


def _handler_set(flow: Flow, at: Recorded, event: resync.BindErrorHandlerSet) -> None:
    if event.handler:
        flow.handlers[at.uid] = Handler(event.handler)
    else:
        flow.handlers.pop(at.uid, None)


def _handler_called(flow: Flow, at: Recorded, event: resync.BindErrorHandlerCalled) -> None:
    close_intent(flow, at.causation)
    handler = flow.handlers.get(at.uid)
    ref = flow.cache.pods.get(f"{at.namespace}/{at.name}")
    if ref is None or ref.uid != at.uid:
        flow.handlers.pop(at.uid, None)
    elif handler is not None and event.ok:
        handler.succeeded = True


APPLY: dict[type[DomainEvent], Apply] = {
    resync.ResyncQueued: _resync_queued,
    resync.ResyncRequested: _resync_requested,
    resync.ResyncSucceeded: _resync_succeeded,
    resync.ResyncFailed: _resync_failed,
    resync.BindErrorHandlerSet: _handler_set,
    resync.BindErrorHandlerCalled: _handler_called,
}
"""Event to what it does."""
