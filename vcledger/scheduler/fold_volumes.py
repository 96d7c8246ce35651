"""What the events of volumes do to the flow: assumed, written, waited for, bound or reverted.

Owns these changes, and when the wait for a task's volumes begins. Must not know what is assumed and why. Called by
`vcledger.scheduler.fold_events`, by way of the table, and by `fold_recovery` for an update that has turned out to have
happened.
"""

from __future__ import annotations

from vcledger.scheduler import bodies
from vcledger.scheduler.assumed import Assumption
from vcledger.scheduler.fold_tasks import Apply, assumed_of, drop, unwatch, watched
from vcledger.scheduler.state import Doubt, Flow, FlowTask, Intent
from vcledger.scheduler.transitions import Phase, Step, after
from volcano.events import volume
from volcano.events.base import DomainEvent, Recorded


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
        one_written(flow, task, at.kind, _object_key(at), event.new_resource_version)
        task.cause = at.position


def one_written(flow: Flow, task: FlowTask, kind: str, key: str, version: str) -> None:
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
    for name in watched(task):
        flow.watchers.setdefault(name, {})[task.uid] = None


def _update_failed(flow: Flow, at: Recorded, event: Failed) -> None:
    intent = flow.intents.pop(event.intent, None) if event.intent is not None else None
    task = updating(flow, event.pod.uid)
    if task is not None:
        task.phase = after(task.phase, Step.UPDATE_FAILED)
        task.cause = at.position
    if event.answer_lost and intent is not None and event.intent is not None:
        flow.doubts[str(event.intent)] = doubt_of(event.intent, intent)


def doubt_of(position: int, intent: Intent) -> Doubt:
    """The doubt of an update that was sent at that position."""
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
    unwatch(flow, task)
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
    unwatch(flow, task)


APPLY: dict[type[DomainEvent], Apply] = {
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
}
"""Event to what it does."""
