"""Nodes taken in, jobs cleaned up, doubts after a restart: the queues that keep the house.

Owns these decisions. Must not know binding. Called by `vcledger.scheduler.decide`.

Source: the seed's SyncNode and processCleanupJob. The fold keeps a node's books up to date as it is seen; what is
decided here says so in the log, and tries again what could not be read. A clean-up whose PodGroup has been made again
is over: Volcano's goes on being retried (fact 18), and its outcome is the same, as the job stays.
"""

from __future__ import annotations

from vcledger.scheduler import binder, evictor, first_queues, statuses
from vcledger.scheduler.decision import RECORDED, UNANSWERED, Hand, subject_at
from vcledger.scheduler.fold_tasks import LOST
from vcledger.scheduler.fold_upkeep import cleanup_key
from vcledger.scheduler.inputs import Noticed
from vcledger.scheduler.queues import MAX_MICROSECONDS, backoff_microseconds
from vcledger.scheduler.state import SECOND
from vcledger.scheduler.transitions import Phase
from vcledger.scheduler.volume_binder import KIND_OF, queue_doubt, type_of
from volcano.events.base import SCHEDULER, Subject, TaskRef
from volcano.events.binding import BindFailed, PodConditionPatchFailed
from volcano.events.cleanup import JobCleanupDropped, JobCleanupQueued, JobCleanupRetried, JobDeleted
from volcano.events.node_sync import NodeRemoved, NodeSynced, NodeSyncFailed
from volcano.events.recovery import InDoubtResolved, RecoveryCompleted, RecoveryStarted

LOOP = Subject(SCHEDULER, "", "loop")
"""The stream of the loop itself."""


# --- nodes --------------------------------------------------------------------------------------------------------


def sync_node(hand: Hand, name: str, before: str, cause: int | None) -> None:
    """A node is in the cache as the API server holds it, or is out of it; `before` as in Noticed."""
    cache = hand.flow.cache
    node, info = cache.node_objects.get(name), cache.nodes.get(name)
    if node is None:
        left = sorted(info.tasks.items()) if info is not None else []
        event: NodeSynced | NodeRemoved = NodeRemoved(
            node_uid=before,
            reason="the API server has it no more",
            tasks=tuple(TaskRef(namespace=task.namespace, name=task.name, uid=task.uid, node=name) for _, task in left),
        )
        hand.add(Subject("Node", "", name, before), event, cause=cause)
        return
    meta = node.metadata
    event = NodeSynced(
        node_uid=meta.uid,
        resource_version=meta.resource_version,
        added=before == "new",
        placeholder=before == "placeholder",
        csi_limits=dict(info.csi) if info is not None else {},
        images=sum(len(image.names or ()) for image in node.status.images or ()),
        numatopology=name in cache.numatopologies,
    )
    hand.add(Subject("Node", "", name, meta.uid), event, cause=cause)


def refuse_node(hand: Hand, notice: Noticed) -> None:
    """A node whose object can't be read: tried again, later and later."""
    item = hand.flow.node_sync.items.get(notice.key)
    attempt = item.attempt + 1 if item is not None else 1
    delay = backoff_microseconds(attempt) / SECOND
    node = hand.flow.cache.node_objects.get(notice.key)
    uid = node.metadata.uid if node is not None else ""
    event = NodeSyncFailed(error=notice.detail, attempt=attempt, delay_seconds=delay)
    hand.add(Subject("Node", "", notice.key, uid), event, cause=notice.position or None)


# --- jobs ---------------------------------------------------------------------------------------------------------


def queue_cleanup(hand: Hand, notice: Noticed) -> None:
    """A job lost its PodGroup, or its last task: looked at later."""
    flow = hand.flow
    if cleanup_key(notice.key, notice.detail) in flow.cleanup:
        return
    job = flow.cache.jobs.get(notice.key)
    gone = job is None or job.pod_group is None
    event = JobCleanupQueued(
        job=notice.key,
        podgroup_uid=notice.detail,
        delay_seconds=flow.config.cleanup_delay_seconds,
        reason="the PodGroup is gone" if gone else "the last task is gone",
    )
    hand.add(_group(notice.key, notice.detail), event, cause=notice.position)


def _group(job: str, uid: str) -> Subject:
    return subject_at("PodGroup", job, uid)


def clean_up(hand: Hand, key: str) -> None:
    """The queue hands a key out. A key that isn't queued any more asks for nothing."""
    flow = hand.flow
    item = flow.cleanup.items.get(key)
    if item is None:
        return
    name, _, uid = key.rpartition("/")
    subject, job = _group(name, uid), flow.cache.jobs.get(name)
    current = flow.podgroups.get(name, "")
    if job is None:
        hand.add(subject, JobCleanupDropped(job=name, reason="the job is gone already", podgroup_uid=uid), cause=None)
    elif current != uid or job.pod_group is not None:
        again = "the PodGroup was made again" if current != uid else "the PodGroup is there again"
        event = JobCleanupDropped(job=name, reason=again, podgroup_uid=uid, current_podgroup_uid=current)
        hand.add(subject, event, cause=job.position or None)
    elif job.terminated:
        hand.add(subject, JobDeleted(job=name, podgroup_uid=uid), cause=None)
    else:
        base = round(flow.config.cleanup_delay_seconds * SECOND)
        delay = backoff_microseconds(item.attempt + 1, base, MAX_MICROSECONDS)
        retried = JobCleanupRetried(
            job=name,
            podgroup_uid=uid,
            attempt=item.attempt + 1,
            delay_seconds=delay / SECOND,
            tasks=len(job.tasks),
            has_podgroup=False,
        )
        hand.add(subject, retried, cause=None)


# --- a restart ----------------------------------------------------------------------------------------------------


def restart(hand: Hand, snapshot: int | None = None) -> None:
    """What was in flight when the process died is in doubt: bindings and evictions are settled by a read of the pod,
    updates by a read of what they updated. Conditions are not sent again."""
    flow = hand.flow
    binds = [(task.intent, task) for task in flow.tasks.values() if task.phase in (Phase.BINDING, Phase.DOUBT)]
    seen = [(task.intent, task) for task in flow.tasks.values() if task.phase is Phase.SEEN]
    held = {position: intent for position, intent in flow.intents.items() if intent.kind in ("pv", "pvc")}
    known = [position for position, _ in (*binds, *seen)]
    updates = [doubt.intent for doubt in flow.doubts.values()]
    doubts = sorted({*known, *held, *updates, *evictor.in_flight(flow)})
    started = hand.add(LOOP, RecoveryStarted(head=flow.position, snapshot=snapshot, in_doubt=tuple(doubts)), cause=None)
    for _, task in binds:
        if task.phase is Phase.BINDING:
            binder.queue_resync(hand, task, LOST, started)
    for position, intent in held.items():
        namespace, _, name = intent.key.rpartition("/")
        store = flow.volumes if intent.kind == "pv" else flow.claims
        api = store.api.get(intent.key)
        uid = api.metadata.uid if api is not None else ""
        subject = Subject(KIND_OF[intent.kind], namespace, name, uid)
        queue_doubt(hand, subject, position, type_of(intent.kind), 1, started)
    for _, task in seen:
        binder.settle_seen(hand, task, started)
    evictor.restart(hand, started)
    _orphans(hand, known)


def _orphans(hand: Hand, known: list[int]) -> None:
    """Bindings of tasks that have left, conditions and statuses, whose answers will not come any more."""
    for position, intent in hand.flow.intents.items():
        subject = subject_at("Pod", intent.key, intent.uid)
        if intent.kind == "condition":
            said = hand.flow.conditions.get(intent.uid)
            event = PodConditionPatchFailed(
                type="PodScheduled",
                status="False",
                code=0,
                error=UNANSWERED,
                reason=said.reason if said is not None else "",
                message=said.message if said is not None else "",
                attempt=said.failures if said is not None else 0,
            )
            hand.add(subject, event, cause=position)
        elif intent.kind in ("group", "queue"):
            statuses.orphan(hand, position, intent)
        elif intent.kind == "make":
            first_queues.orphan(hand, position, intent)
        elif intent.kind == "bind" and position not in known:
            binder.orphan(hand, position, intent)
        elif intent.kind in ("mark", "evict"):
            evictor.orphan(hand, position, intent)


def lost_with_pod(hand: Hand, notice: Noticed) -> None:
    """A pod went while its bind was in doubt: it is in doubt no more."""
    intent, node, key = notice.detail.split(" ", 2)
    subject = subject_at("Pod", key, notice.key)
    resolved = InDoubtResolved(
        intent=int(intent), intent_type="BindRequested", verdict="object-gone", said="the pod is gone", node=node
    )
    cause = hand.add(subject, resolved, cause=notice.position, known=RECORDED)
    event = BindFailed(
        node=node, code=404, reason="NotFound", message=f'pods "{subject.name}" not found', intent=int(intent)
    )
    hand.add(subject, event, cause=cause, known=RECORDED)


def recovered(hand: Hand) -> None:
    """Nothing is in doubt any more."""
    going = hand.flow.recovery
    if going is None:
        return
    event = RecoveryCompleted(
        started=going.started,
        happened=going.verdicts.get("happened", 0),
        not_happened=going.verdicts.get("not-happened", 0),
        object_gone=going.verdicts.get("object-gone", 0),
        lost_to_another=going.verdicts.get("lost-to-another", 0),
    )
    hand.add(LOOP, event, cause=going.started)


__all__ = [
    "clean_up",
    "lost_with_pod",
    "queue_cleanup",
    "recovered",
    "refuse_node",
    "restart",
    "sync_node",
]
