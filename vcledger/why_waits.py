"""How long a pod or group has been waiting without a break, and for which ending pods.

Owns reading that from the log. Must not know verdicts. Called by `vcledger.why`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from projections.cache.state import Cache
from projections.diagnosis.case import Ending
from projections.diagnosis.views import GroupView
from vcledger.at import format_time
from vcledger.why_said import events_about
from volcano.events.base import Recorded
from volcano.events.observation import ObjectAdded, ObjectModified
from volcano.objects.core import Pod
from volcano.objects.status import TaskStatus

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

EVICTIONS = ("Evict", "Evicted", "Preempted")
"""Reasons of the Events that tell of an eviction."""

ENDING_MAX = 100


def pod_waits_since(told: Sequence[Recorded]) -> str | None:
    """Since when a pod (its observations, newest first) has been without a node and free of gates: when the gates were
    taken off, else when its condition turned False, else when it was created. None when it does not wait."""
    waiting: Pod | None = None
    earliest = 0
    for recorded in told:
        pod = _pod(recorded)
        if pod is None or pod.spec.node_name:
            break
        if pod.spec.scheduling_gates:
            return format_time(earliest) if waiting is not None else None
        waiting = waiting or pod
        earliest = recorded.observed_at
    if waiting is None:
        return None
    for condition in waiting.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False" and condition.last_transition_time:
            return condition.last_transition_time
    return waiting.metadata.creation_timestamp


def group_waits_since(group: GroupView | None) -> str | None:
    """Since when some member of the group, the same one, has waited; None when none does. A member that was placed in
    the meantime ends a wait, so the job's own age says nothing."""
    pending = [task.created for task in (group.tasks if group is not None else ()) if task.status == "Pending"]
    known = [created for created in pending if created]
    return min(known) if known else None


def ending_on(ledger: Ledger, cache: Cache, cluster: str, node: str, position: int, until: int | None) -> list[Ending]:
    """The pods that are being deleted on a node, with the evictions that Events or their conditions tell of, by
    name."""
    info = cache.nodes.get(node)
    tasks = [task for task in info.tasks.values() if task.status == TaskStatus.RELEASING] if info is not None else []
    tasks = sorted(tasks, key=lambda task: task.key)[:ENDING_MAX]
    events = events_about(ledger, cluster, position, [task.uid for task in tasks], until)
    found = []
    for task in tasks:
        ref = cache.pods.get(task.key)
        pod = ledger.objects([ref.position]).get(ref.position) if ref is not None else None
        position_seen = ref.position if ref is not None else 0
        said = _eviction(pod) if isinstance(pod, Pod) else ""
        told = [(one.message, one.position) for one in events.get(task.uid, ()) if one.reason in EVICTIONS]
        why, where = told[-1] if told else (said, position_seen if said else 0)
        found.append(
            Ending(
                key=task.key,
                position=position_seen,
                until=(pod.metadata.deletion_timestamp or "") if isinstance(pod, Pod) else "",
                evicted=why,
                evicted_position=where,
            )
        )
    return found


def _eviction(pod: Pod) -> str:
    """What the evictor wrote on the pod: Volcano marks it not Ready for an eviction, others as a disruption's
    target."""
    for condition in pod.status.conditions or ():
        if condition.reason in EVICTIONS or (condition.type == "DisruptionTarget" and condition.status == "True"):
            return condition.message or condition.reason
    return ""


def _pod(recorded: Recorded) -> Pod | None:
    event = recorded.event
    found = event.object if isinstance(event, ObjectAdded | ObjectModified) else None
    return found if isinstance(found, Pod) else None
