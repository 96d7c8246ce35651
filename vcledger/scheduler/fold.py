"""The fold of the flow: one recorded event after the other changes the state.

Owns the dispatch, and what an observation means to tasks on their way. Must not know what is decided. Called by the
loop, live and when it rebuilds: the same events give the same state, to the byte.
"""

from __future__ import annotations

from typing import Any

from projections.cache.fold import evolve as evolve_cache
from projections.cache.state import HAS_ANTI_AFFINITY, PodRef
from projections.diagnosis.views import PlacedPod
from vcledger.codec import OPAQUE
from vcledger.scheduler import charges, fold_evictions, fold_status
from vcledger.scheduler.fold_events import APPLY
from vcledger.scheduler.fold_tasks import drop, end, forget_resync, resync_key, watch_key
from vcledger.scheduler.inputs import Noticed
from vcledger.scheduler.session.actions.preempt import makes_way
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.session.plugins.conformance import is_critical
from vcledger.scheduler.state import Flow, FlowTask
from vcledger.scheduler.transitions import BEFORE_BINDING, Phase, Step, after
from volcano.events.base import Recorded
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified
from volcano.events.recovery import RecoveryStarted
from volcano.events.volume import VolumesAssumed, VolumesBound, VolumesReverted
from volcano.objects.core import Pod
from volcano.objects.scheduling import PodGroup, VolcanoJob

Change = ObjectAdded | ObjectModified | ObjectDeleted
SENT_BACK = frozenset({"PersistentVolume", "PersistentVolumeClaim"})
"""Kinds whose objects are kept whole, as they are sent back when they are updated."""
ABOUT_VOLUMES = (VolumesAssumed, VolumesBound, VolumesReverted)
_OVER = ("Succeeded", "Failed")
INFERRED = 1
"""`Recorded.known` of what a list implies."""


def _came_back(number: int, event: Change) -> bool:
    """Whether an observation is stored under a version not its object's own, see `vcledger.runtime.standing`."""
    held: Any = event.object
    return number >= OPAQUE and str(held.metadata.resource_version).isdecimal()


def evolve(flow: Flow, recorded: Recorded, raw: bytes | None = None) -> Flow:
    """The state after one more event, changed in place. `raw`: an observation's JSON, needed of PersistentVolumes and
    claims, which are sent back whole. Raises IllegalTransition before anything is changed."""
    if not recorded.late:
        flow.now = max(flow.now, recorded.observed_at)
        event = recorded.event
        if isinstance(event, Change):
            number = recorded.resource_version
            if number is not None and number > flow.versions.get(recorded.kind, -1) and not _came_back(number, event):
                flow.versions[recorded.kind] = number
            _observe(flow, recorded, event, raw)
        else:
            apply = APPLY.get(type(event))
            if apply is not None:
                apply(flow, recorded, event)
            if isinstance(event, RecoveryStarted):
                fold_status.begin(flow)
        if flow.mirror is not None:
            _mirror(flow.mirror, recorded)
    flow.position = recorded.position
    return flow


def _mirror(mirror: Mirror, recorded: Recorded) -> None:
    """Word to the session's data of what may have changed. With an event about volumes what is assumed of them may
    have, which is the claims' own affair, and the mirror's revision of them."""
    mirror.touch(recorded.kind, recorded.namespace, recorded.name)
    if isinstance(recorded.event, ABOUT_VOLUMES):
        mirror.touch("CSIStorageCapacity", "", "")


def _observe(flow: Flow, recorded: Recorded, event: Change, raw: bytes | None) -> None:
    kind = recorded.kind
    if kind == "Pod" and isinstance(event.object, Pod):
        _observe_pod(flow, recorded, event.object)
        return
    cache, name = flow.cache, recorded.name
    known = cache.nodes.get(name) if kind in ("Node", "CSINode") else None
    before = "new" if known is None else "placeholder" if known.node is None else "known"
    evolve_cache(cache, recorded)
    if kind in ("Node", "CSINode"):
        if recorded.position in cache.refused:
            flow.unreadable[name] = cache.refused[recorded.position]
            flow.notices.append(Noticed("refused", name, recorded.position, cache.refused[recorded.position]))
        elif name in cache.node_objects:
            flow.unreadable.pop(name, None)
            flow.notices.append(Noticed("node", name, recorded.position, before))
        elif kind == "Node":
            flow.unreadable.pop(name, None)
            fold_evictions.node_gone(flow, name)
            flow.notices.append(Noticed("node", name, recorded.position, recorded.uid))
    elif kind == "PodGroup" and isinstance(event.object, PodGroup) and not isinstance(event, ObjectDeleted):
        flow.podgroups[f"{recorded.namespace}/{name}"] = event.object.metadata.uid
    elif kind == "PersistentVolume":
        _keep_raw(flow, name, recorded, raw)
    elif kind == "PersistentVolumeClaim":
        _keep_raw(flow, f"{recorded.namespace}/{name}", recorded, raw)
    elif kind == "VolcanoJob" and isinstance(event.object, VolcanoJob):
        fold_status.see_job(flow, recorded.uid, None if isinstance(event, ObjectDeleted) else event.object)
    if kind in ("PodGroup", "Queue") and isinstance(event, ObjectDeleted):
        key = f"{recorded.namespace}/{name}" if recorded.namespace else name
        fold_status.object_gone(flow, kind, key, recorded.uid, seen=recorded.known != INFERRED)
    if flow.evictions:
        fold_evictions.still_leaving(flow)
    _jobs_over(flow, recorded.position)


def _keep_raw(flow: Flow, key: str, recorded: Recorded, raw: bytes | None) -> None:
    """The JSON of what the store now holds, and word to the tasks that wait for it. A claim that comes or goes changes
    what its pods ask for, so what is held for them is looked at again."""
    cache = flow.volumes if recorded.kind == "PersistentVolume" else flow.claims
    held = cache.api.get(key)
    if held is None:
        cache.raw.pop(key, None)
    elif raw is not None and held is getattr(recorded.event, "object", None):
        cache.raw[key] = raw
    for uid in flow.watchers.get(watch_key(recorded.kind, key), ()):
        flow.notices.append(Noticed("changed", uid, recorded.position))
    for user in list(flow.cache.claim_users.get(key, ())) if cache is flow.claims else ():
        ref = flow.cache.pods.get(user)
        task = flow.tasks.get(ref.uid) if ref is not None else None
        if ref is not None and task is not None and task.phase is not Phase.ENDED and not ref.node_name:
            charges.keep(flow, task, ended=_ends(ref))


def _jobs_over(flow: Flow, position: int) -> None:
    """Clean-ups that the cache would queue are the flow's to queue."""
    cache = flow.cache
    if not cache.pending_cleanup:
        return
    for job in cache.pending_cleanup:
        flow.notices.append(Noticed("job", job, position, flow.podgroups.get(job, "")))
    cache.pending_cleanup.clear()
    cache.next_due = 2**63


# --- pods ---------------------------------------------------------------------------------------------------------


def _ends(ref: PodRef) -> bool:
    return ref.deleting or ref.phase in _OVER


def _observe_pod(flow: Flow, recorded: Recorded, pod: Pod) -> None:
    cache, key = flow.cache, f"{recorded.namespace}/{recorded.name}"
    old = cache.pods.get(key)
    evolve_cache(cache, recorded)
    ref = cache.pods.get(key)
    fold_status.see_stranger(flow, key, old, ref)
    if ref is not None and ref.position == recorded.position:
        _keep_pod(flow, key, ref, pod)
    elif ref is None:
        flow.pods.pop(key, None)
        flow.placed.pop(key, None)
        flow.guarded.pop(key, None)
        flow.noted.pop(key, None)
    if old is not None and (ref is None or ref.uid != old.uid):
        pod_gone(flow, old.namespace, old.name, old.uid, recorded.position)
    task = flow.tasks.get(ref.uid) if ref is not None else None
    if ref is not None and task is not None:
        _follow(flow, task, ref, recorded.position)
    if ref is not None and flow.evictions:
        fold_evictions.seen(flow, ref, recorded.position)
    _jobs_over(flow, recorded.position)


def _keep_pod(flow: Flow, key: str, ref: PodRef, pod: Pod) -> None:
    """Of a pod that waits for us the whole object, of one on a node what can stand in another's way."""
    if not ref.node_name and ref.scheduler_name in flow.config.cache.scheduler_names:
        flow.pods[key] = pod
    else:
        flow.pods.pop(key, None)
    if ref.node_name and ref.phase not in _OVER:
        flow.placed[key] = PlacedPod.of(pod)
    else:
        flow.placed.pop(key, None)
    if ref.flags & HAS_ANTI_AFFINITY and ref.phase not in _OVER:
        flow.guarded[key] = None
    else:
        flow.guarded.pop(key, None)
    if ref.node_name and ref.phase not in _OVER and (is_critical(pod) or makes_way(pod)):
        flow.noted[key] = pod
    else:
        flow.noted.pop(key, None)


def pod_gone(flow: Flow, namespace: str, name: str, uid: str, position: int) -> None:
    """A pod is no more: its task leaves the flow from wherever it is, once nothing is assumed for it."""
    for store in (flow.attempts, flow.handlers, flow.said, flow.conditions, flow.promised):
        store.pop(uid, None)
    forget_resync(flow, resync_key(namespace, name, uid))
    fold_evictions.gone(flow, uid, position)
    task = flow.tasks.get(uid)
    if task is not None:
        if task.phase is Phase.DOUBT:
            detail = f"{task.intent} {task.node} {task.key}"
            flow.notices.append(Noticed("lost", uid, position, detail))
        charges.release(flow, task)
        task.phase = Phase.ENDED
        end(flow, task, position)


def _follow(flow: Flow, task: FlowTask, ref: PodRef, position: int) -> None:
    """What an observation of a task's pod means to the task."""
    if ref.node_name:
        _seen_bound(flow, task, ref, position)
        return
    over = _ends(ref)
    if over:
        phase = after(task.phase, Step.ENDED)
        if phase is Phase.ENDED:
            if task.phase in BEFORE_BINDING:
                task.phase = phase
                charges.release(flow, task)
                end(flow, task, position)
            return
    charges.keep(flow, task, ended=over)


def _seen_bound(flow: Flow, task: FlowTask, ref: PodRef, position: int) -> None:
    before, task.bound_to = task.phase, ref.node_name
    task.phase = after(before, Step.SEEN_BOUND if ref.node_name == task.node else Step.SEEN_ELSEWHERE)
    charges.release(flow, task)
    if task.phase is Phase.OUT:
        drop(flow, task)
    elif task.phase is Phase.ENDED and before is not Phase.ENDED:
        end(flow, task, position)
    elif task.phase is Phase.SEEN and before is Phase.DOUBT:
        flow.notices.append(Noticed("seen", task.uid, position))


__all__ = ["SENT_BACK", "Change", "evolve", "pod_gone"]
