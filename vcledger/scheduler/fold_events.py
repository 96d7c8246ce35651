"""What each event of the flow's own families does to the state.

Owns these changes and the table of them. Must not know observations nor decisions. Called by `vcledger.scheduler.fold`.

A function takes the state, the event with its envelope, and the event. A task moves only by the table of
`vcledger.scheduler.transitions`; where a task has left the flow already, its last answers only close their intents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from projections.cache import jobs, pods
from projections.diagnosis.views import PlacedPod
from vcledger.scheduler import bodies, charges, fold_evictions, fold_status
from vcledger.scheduler.assumed import Assumption
from vcledger.scheduler.inputs import Noticed
from vcledger.scheduler.state import Condition, Doubt, Flow, FlowTask, Handler, Intent, Recovery
from vcledger.scheduler.transitions import Phase, Step, after
from vcledger.scheduler.written import before, held_back
from volcano.events import binding, cleanup, eviction, node_sync, recovery, resync, scheduling, volume
from volcano.events.base import DomainEvent, Recorded
from volcano.events.observation import ListCompleted

Apply = Callable[[Flow, Recorded, Any], None]
SECOND = 1_000_000
LOST = "AnswerLost"
"""`ResyncQueued.reason` of a bind whose outcome is not known."""
SCHEDULER_ERROR = "SchedulerError"


def watch_key(kind: str, key: str) -> str:
    """The key of `Flow.watchers`."""
    return f"{kind}/{key}"


def micros(seconds: float) -> int:
    """Seconds as microseconds."""
    return round(seconds * SECOND)


# --- tasks that leave ---------------------------------------------------------------------------------------------


def _unwatch(flow: Flow, task: FlowTask) -> None:
    flow.waiting.pop(task.uid, None)
    for name in _watched(task):
        users = flow.watchers.get(name)
        if users is not None:
            users.pop(task.uid, None)
            if not users:
                del flow.watchers[name]


def _watched(task: FlowTask) -> list[str]:
    names = [watch_key("PersistentVolume", one.volume) for one in task.bindings]
    names += [watch_key("PersistentVolume", one.volume) for one in task.shared if one.volume]
    claims = [one.claim for some in (task.bindings, task.provisions, task.shared) for one in some]
    return names + [watch_key("PersistentVolumeClaim", claim) for claim in claims]


def drop(flow: Flow, task: FlowTask) -> None:
    """The flow has nothing more to do with the task."""
    flow.bind_queue.pop(task.uid, None)
    flow.coming.pop(task.key, None)
    _unwatch(flow, task)
    flow.tasks.pop(task.uid, None)
    forget_resync(flow, resync_key(task.namespace, task.name, task.uid))


def resync_key(namespace: str, name: str, uid: str) -> str:
    """The key of a resync: the pod's, with its UID, as another pod may get the name."""
    return f"{namespace}/{name}/{uid}"


def forget_resync(flow: Flow, key: str) -> None:
    """Take a resync out that nobody works on; one that is out ends with its answer."""
    item = flow.resync.items.get(key)
    if item is not None and not item.taken:
        flow.resync.forget(key)


def assumed_of(flow: Flow, task: FlowTask) -> tuple[list[str], list[str]]:
    """(volumes, claims) that are still assumed for the task, in the order in which they are written."""
    volumes = [one.volume for one in task.bindings if _is_for(flow.volumes.assumed.get(one.volume), task.uid)]
    claims = [one.claim for one in task.provisions if _is_for(flow.claims.assumed.get(one.claim), task.uid)]
    return volumes, claims


def _is_for(assumption: Assumption[Any] | None, uid: str) -> bool:
    return assumption is not None and assumption.uid == uid


def end(flow: Flow, task: FlowTask, position: int) -> None:
    """A task that is over: out of the queues, and out of the flow unless something is assumed for it."""
    flow.bind_queue.pop(task.uid, None)
    _unwatch(flow, task)
    if any(assumed_of(flow, task)):
        flow.notices.append(Noticed("ended", task.uid, position))
    else:
        drop(flow, task)


# --- scheduling ---------------------------------------------------------------------------------------------------


def _allocated(flow: Flow, at: Recorded, event: scheduling.TaskAllocated) -> None:
    phase = after(flow.tasks[at.uid].phase if at.uid in flow.tasks else Phase.OUT, Step.ALLOCATED)
    task = FlowTask(at.uid, at.namespace, at.name, event.job, event.node, phase, cause=at.position)
    flow.tasks[at.uid] = task
    flow.said.pop(at.uid, None)
    flow.said.pop(event.job, None)
    flow.promised.pop(at.uid, None)
    flow.nominated.pop(at.uid, None)
    pod = flow.pods.get(task.key)
    if pod is not None:
        flow.coming[task.key] = PlacedPod.of(pod, event.node)
    charges.hold(flow, task)


def _discarded(flow: Flow, at: Recorded, event: scheduling.AllocationDiscarded) -> None:
    flow.said[event.job] = event.message or event.reason
    for ref in event.tasks:
        task = flow.tasks.get(ref.uid)
        if task is not None:
            task.phase = after(task.phase, Step.DISCARDED)
            charges.release(flow, task)
            drop(flow, task)


def _unschedulable(flow: Flow, at: Recorded, event: scheduling.TaskUnschedulable) -> None:
    flow.said[at.uid] = event.message
    key = f"{at.namespace}/{at.name}"
    if condition_is_news(flow, at.uid, key, event.reason, event.message, flow.now, event.nominated_node):
        flow.intents[at.position] = Intent("condition", at.uid, key)
        earlier = flow.conditions.get(at.uid)
        failures = earlier.failures if earlier is not None else 0
        flow.conditions[at.uid] = Condition(event.reason, event.message, node=event.nominated_node, failures=failures)


def _cycle_started(flow: Flow, at: Recorded, event: scheduling.CycleStarted) -> None:
    flow.cycle = event.cycle


def _enqueued(flow: Flow, at: Recorded, event: scheduling.JobEnqueued) -> None:
    flow.admitted[event.job] = event.podgroup_uid


def _pipelined(flow: Flow, at: Recorded, event: scheduling.TaskPipelined) -> None:
    flow.promised[at.uid] = event.node
    if event.waits_for:
        flow.nominated[at.uid] = event.node


def _considered(flow: Flow, at: Recorded, event: scheduling.JobConsidered) -> None:
    flow.considered[event.job] = considered_words(event)


def considered_words(event: scheduling.JobConsidered) -> str:
    """What is said of a job, to tell news from what was said before."""
    return f"{event.outcome} {event.placed} {event.pipelined} {event.message}"


# --- volumes ------------------------------------------------------------------------------------------------------


def _assumed(flow: Flow, at: Recorded, event: volume.VolumesAssumed) -> None:
    task = flow.tasks[at.uid]
    task.bindings, task.provisions, task.cause = event.bindings, event.provisions, at.position
    task.shared = event.shared
    task.written, task.volumes_ready = 0, event.all_bound
    for one in event.bindings:
        made = bodies.volume_for_claim(flow.volumes.raw[one.volume], flow.claims.api[one.claim])
        based_on = flow.volumes.api[one.volume].metadata.resource_version
        flow.volumes.assume(one.volume, Assumption(at.uid, event.node, made[0], made[1], based_on))
    for provision in event.provisions:
        claim = bodies.claim_for_node(flow.claims.raw[provision.claim], event.node)
        based_on = flow.claims.api[provision.claim].metadata.resource_version
        flow.claims.assume(provision.claim, Assumption(at.uid, event.node, claim[0], claim[1], based_on))


Requested = volume.PVUpdateRequested | volume.PVCUpdateRequested
Succeeded = volume.PVUpdateSucceeded | volume.PVCUpdateSucceeded
Failed = volume.PVUpdateFailed | volume.PVCUpdateFailed


def _object_key(at: Recorded) -> str:
    return f"{at.namespace}/{at.name}" if at.namespace else at.name


def _update_requested(flow: Flow, at: Recorded, event: Requested) -> None:
    task = flow.tasks[event.pod.uid]
    task.phase = after(task.phase, Step.UPDATE_REQUESTED)
    task.cause = at.position
    flow.bind_queue.pop(task.uid, None)
    kind = "pv" if isinstance(event, volume.PVUpdateRequested) else "pvc"
    flow.intents[at.position] = Intent(kind, task.uid, _object_key(at))


def updating(flow: Flow, uid: str) -> FlowTask | None:
    """The task of that pod while its volumes' updates are sent, else None."""
    task = flow.tasks.get(uid)
    return task if task is not None and task.phase is Phase.UPDATING else None


def _update_succeeded(flow: Flow, at: Recorded, event: Succeeded) -> None:
    if event.intent is not None:
        flow.intents.pop(event.intent, None)
    task = updating(flow, event.pod.uid)
    if task is not None:
        task.phase = after(task.phase, Step.UPDATE_SUCCEEDED)
        _written(flow, task, at.kind, _object_key(at), event.new_resource_version)
        task.cause = at.position


def _written(flow: Flow, task: FlowTask, kind: str, key: str, version: str) -> None:
    """The API server has taken one more; with the last one the wait begins."""
    held = flow.volumes.assumed.get(key) if kind == "PersistentVolume" else flow.claims.assumed.get(key)
    if held is not None and held.uid == task.uid:
        held.written = version
    task.written += 1
    if task.written < len(task.bindings) + len(task.provisions):
        return
    task.phase = after(task.phase, Step.ALL_WRITTEN)
    _wait(flow, task)


def _wait(flow: Flow, task: FlowTask) -> None:
    """The wait for the task's volumes begins."""
    task.since, task.checks, task.waits = flow.now, 0, ()
    flow.waiting[task.uid] = flow.now
    for name in _watched(task):
        flow.watchers.setdefault(name, {})[task.uid] = None


def _update_failed(flow: Flow, at: Recorded, event: Failed) -> None:
    intent = flow.intents.pop(event.intent, None) if event.intent is not None else None
    task = updating(flow, event.pod.uid)
    if task is not None:
        task.phase = after(task.phase, Step.UPDATE_FAILED)
        task.cause = at.position
    if event.answer_lost and intent is not None and event.intent is not None:
        flow.doubts[str(event.intent)] = _doubt(event.intent, intent)


def _doubt(position: int, intent: Intent) -> Doubt:
    name = "PVUpdateRequested" if intent.kind == "pv" else "PVCUpdateRequested"
    return Doubt(position, name, intent.uid, intent.key)


def _checked(flow: Flow, at: Recorded, event: volume.BindingChecked) -> None:
    task = flow.tasks[at.uid]
    queued = task.phase is Phase.QUEUED
    task.phase = after(task.phase, Step.CHECKED)
    if queued:
        flow.bind_queue.pop(task.uid, None)
        _wait(flow, task)
    task.waits, task.checks, task.cause = event.waits, event.check, at.position


def _volumes_bound(flow: Flow, at: Recorded, event: volume.VolumesBound) -> None:
    task = flow.tasks[at.uid]
    task.phase = after(task.phase, Step.VOLUMES_BOUND)
    _unwatch(flow, task)
    for name in assumed_of(flow, task)[0]:
        flow.volumes.end(name, task.uid)
    for claim in assumed_of(flow, task)[1]:
        flow.claims.end(claim, task.uid)
    task.volumes_ready, task.cause = True, at.position


def _reverted(flow: Flow, at: Recorded, event: volume.VolumesReverted) -> None:
    for name in event.volumes:
        flow.volumes.end(name, at.uid)
    for claim in event.claims:
        flow.claims.end(claim, at.uid)
    task = flow.tasks.get(at.uid)
    if task is None:
        return
    task.volumes_ready, task.cause = False, at.position
    if task.phase is Phase.ENDED and not any(assumed_of(flow, task)):
        task.phase = after(task.phase, Step.REVERTED)
        drop(flow, task)


def _volumes_failed(flow: Flow, at: Recorded, event: volume.VolumeBindingFailed) -> None:
    task = flow.tasks[at.uid]
    task.phase = after(task.phase, Step.VOLUMES_FAILED)
    task.reason, task.cause = event.message, at.position
    flow.bind_queue.pop(at.uid, None)
    _unwatch(flow, task)


# --- binding ------------------------------------------------------------------------------------------------------


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


def _close(flow: Flow, intent: int | None) -> None:
    if intent is not None:
        flow.intents.pop(intent, None)


def _bind_succeeded(flow: Flow, at: Recorded, event: binding.BindSucceeded) -> None:
    _close(flow, event.intent)
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
    _close(flow, event.intent)
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
    _close(flow, at.causation)
    if event.type == bodies.DISRUPTION_TARGET:
        fold_evictions.marked(flow, at, event)
    elif at.uid in flow.conditions:
        flow.conditions[at.uid] = Condition(
            event.reason, event.message, event.new_resource_version, event.nominated_node
        )


def _condition_refused(flow: Flow, at: Recorded, event: binding.PodConditionPatchFailed) -> None:
    """It is written again with the next failure to bind; or when the task is next tried once the time is over that the
    event says."""
    _close(flow, at.causation)
    held = flow.conditions.get(at.uid)
    if event.type == bodies.DISRUPTION_TARGET or held is None:
        return
    if event.reason == SCHEDULER_ERROR:
        del flow.conditions[at.uid]
    else:
        until = flow.now + micros(event.delay_seconds)
        flow.conditions[at.uid] = held._replace(failures=event.attempt, until=until, code=event.code)


# --- resync -------------------------------------------------------------------------------------------------------


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
    _close(flow, at.causation)
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
    _close(flow, at.causation)
    _call_handler(flow, at)
    if not event.requeued:
        flow.resync.done(_resync_key(at))


def _handler_set(flow: Flow, at: Recorded, event: resync.BindErrorHandlerSet) -> None:
    if event.handler:
        flow.handlers[at.uid] = Handler(event.handler)
    else:
        flow.handlers.pop(at.uid, None)


def _handler_called(flow: Flow, at: Recorded, event: resync.BindErrorHandlerCalled) -> None:
    _close(flow, at.causation)
    handler = flow.handlers.get(at.uid)
    ref = flow.cache.pods.get(f"{at.namespace}/{at.name}")
    if ref is None or ref.uid != at.uid:
        flow.handlers.pop(at.uid, None)
    elif handler is not None and event.ok:
        handler.succeeded = True


# --- nodes and jobs -----------------------------------------------------------------------------------------------


def _node_done(flow: Flow, at: Recorded, event: DomainEvent) -> None:
    flow.node_sync.forget(at.name)


def _node_failed(flow: Flow, at: Recorded, event: node_sync.NodeSyncFailed) -> None:
    flow.node_sync.retry(at.name, flow.now + micros(event.delay_seconds), event.attempt)


def cleanup_key(job: str, podgroup_uid: str) -> str:
    """The key of a clean-up request."""
    return f"{job}/{podgroup_uid}"


def _cleanup_queued(flow: Flow, at: Recorded, event: cleanup.JobCleanupQueued) -> None:
    key = cleanup_key(event.job, event.podgroup_uid)
    flow.cleanup.add(key, flow.now + micros(event.delay_seconds))


def _cleanup_retried(flow: Flow, at: Recorded, event: cleanup.JobCleanupRetried) -> None:
    key = cleanup_key(event.job, event.podgroup_uid)
    flow.cleanup.retry(key, flow.now + micros(event.delay_seconds), event.attempt)


def _cleanup_dropped(flow: Flow, at: Recorded, event: cleanup.JobCleanupDropped) -> None:
    flow.cleanup.forget(cleanup_key(event.job, event.podgroup_uid))


def _job_deleted(flow: Flow, at: Recorded, event: cleanup.JobDeleted) -> None:
    flow.cleanup.forget(cleanup_key(event.job, event.podgroup_uid))
    job = flow.cache.jobs.get(event.job)
    if job is not None and job.terminated:
        jobs.drop_job(flow.cache, event.job)
    for store in (flow.podgroups, flow.said, flow.considered, flow.admitted):
        store.pop(event.job, None)


def _listed(flow: Flow, at: Recorded, event: ListCompleted) -> None:
    flow.listed[at.kind] = None


# --- recovery -----------------------------------------------------------------------------------------------------


def _recovery_started(flow: Flow, at: Recorded, event: recovery.RecoveryStarted) -> None:
    """Nobody works on anything any more. Reads are simply done again; updates and bindings stay until their doubt is
    queued."""
    for queue in (flow.resync, flow.cleanup, flow.node_sync, flow.doubt_queue):
        queue.give_back(flow.now)
    for position, intent in list(flow.intents.items()):
        if intent.kind in ("resync", "ask", "handler"):
            del flow.intents[position]
    flow.recovery = Recovery(at.position, dict.fromkeys(event.in_doubt))
    if not event.in_doubt:
        flow.notices.append(Noticed("recovered", "", at.position))


def _doubt_queued(flow: Flow, at: Recorded, event: recovery.InDoubtQueued) -> None:
    _close(flow, at.causation)
    key = str(event.intent)
    intent = flow.intents.pop(event.intent, None)
    if intent is not None:
        flow.doubts[key] = _doubt(event.intent, intent)
    flow.doubt_queue.retry(key, flow.now + micros(event.delay_seconds), event.attempt)


def _doubt_asked(flow: Flow, at: Recorded, event: recovery.InDoubtAsked) -> None:
    key = str(event.intent)
    flow.doubt_queue.take(key)
    flow.intents[at.position] = Intent("ask", flow.doubts[key].uid, key)


def _doubt_resolved(flow: Flow, at: Recorded, event: recovery.InDoubtResolved) -> None:
    key = str(event.intent)
    doubt = flow.doubts.pop(key, None)
    if doubt is not None:
        _close(flow, at.causation)
        flow.doubt_queue.forget(key)
        task = updating(flow, doubt.uid)
        if task is not None and event.verdict == "happened":
            _written(flow, task, at.kind, doubt.key, event.resource_version)
    going = flow.recovery
    if going is not None and event.intent in going.in_doubt:
        del going.in_doubt[event.intent]
        going.verdicts[event.verdict] = going.verdicts.get(event.verdict, 0) + 1
        if not going.in_doubt:
            flow.notices.append(Noticed("recovered", "", at.position))


def _recovery_completed(flow: Flow, at: Recorded, event: recovery.RecoveryCompleted) -> None:
    flow.recovery = None


APPLY: dict[type[DomainEvent], Apply] = {
    ListCompleted: _listed,
    scheduling.TaskAllocated: _allocated,
    scheduling.AllocationDiscarded: _discarded,
    scheduling.TaskUnschedulable: _unschedulable,
    scheduling.CycleStarted: _cycle_started,
    scheduling.JobEnqueued: _enqueued,
    scheduling.TaskPipelined: _pipelined,
    scheduling.JobConsidered: _considered,
    scheduling.TaskEvicted: fold_evictions.decided,
    volume.VolumesAssumed: _assumed,
    volume.PVUpdateRequested: _update_requested,
    volume.PVCUpdateRequested: _update_requested,
    volume.PVUpdateSucceeded: _update_succeeded,
    volume.PVCUpdateSucceeded: _update_succeeded,
    volume.PVUpdateFailed: _update_failed,
    volume.PVCUpdateFailed: _update_failed,
    volume.BindingChecked: _checked,
    volume.VolumesBound: _volumes_bound,
    volume.VolumesReverted: _reverted,
    volume.VolumeBindingFailed: _volumes_failed,
    binding.BindQueued: _queued,
    binding.BindRequested: _bind_requested,
    binding.BindSucceeded: _bind_succeeded,
    binding.BindFailed: _bind_failed,
    binding.PodConditionPatched: _condition_patched,
    binding.PodConditionPatchFailed: _condition_refused,
    eviction.EvictRequested: fold_evictions.requested,
    eviction.EvictSucceeded: fold_evictions.succeeded,
    eviction.EvictFailed: fold_evictions.failed,
    resync.ResyncQueued: _resync_queued,
    resync.ResyncRequested: _resync_requested,
    resync.ResyncSucceeded: _resync_succeeded,
    resync.ResyncFailed: _resync_failed,
    resync.BindErrorHandlerSet: _handler_set,
    resync.BindErrorHandlerCalled: _handler_called,
    node_sync.NodeSynced: _node_done,
    node_sync.NodeRemoved: _node_done,
    node_sync.NodeSyncFailed: _node_failed,
    cleanup.JobCleanupQueued: _cleanup_queued,
    cleanup.JobCleanupRetried: _cleanup_retried,
    cleanup.JobCleanupDropped: _cleanup_dropped,
    cleanup.JobDeleted: _job_deleted,
    recovery.RecoveryStarted: _recovery_started,
    recovery.InDoubtQueued: _doubt_queued,
    recovery.InDoubtAsked: _doubt_asked,
    recovery.InDoubtResolved: _doubt_resolved,
    recovery.RecoveryCompleted: _recovery_completed,
    **fold_status.APPLY,
}
"""Event to what it does. An event that is not here changes nothing of the flow."""


__all__ = [
    "APPLY",
    "LOST",
    "SCHEDULER_ERROR",
    "assumed_of",
    "cleanup_key",
    "condition_is_news",
    "considered_words",
    "drop",
    "end",
    "failed_message",
    "forget_resync",
    "micros",
    "resync_key",
    "updating",
    "wants_condition",
    "wants_handler",
    "watch_key",
]
