"""The numbers behind the verdict: the queue's way in, the gang member by member, each node's predicates.

Owns making them presentable. Must not know which verdict holds. Called by `projections.diagnosis.explain`, and for a
queue by `vcledger.why_queue`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from projections.diagnosis.amounts import exceeding_asked, show
from projections.diagnosis.case import Case
from projections.diagnosis.gang import READY, Trial
from projections.diagnosis.model import Member, QueueNumbers, ResourceNumbers
from projections.diagnosis.nodes import asked
from projections.diagnosis.queues import (
    capability,
    cluster_total,
    cluster_used,
    deserved_shares,
    enqueue_gates,
    guarantee,
    queue_gate,
    real_capability,
)
from projections.diagnosis.reasons import Reason
from projections.diagnosis.views import ClusterView, QueueView, TaskView


def queue_numbers(case: Case) -> QueueNumbers | None:
    """The numbers at the queue of the case's group; None without a group that is known."""
    group = case.group
    if group is None or group.pod_group is None:
        return None
    name, phase = group.pod_group.spec.queue, group.pod_group.status.phase
    view, gate = case.cluster.queues.get(name), queue_gate(name, case.cluster)
    gates = [gate.text] if gate is not None else []
    enqueued = phase not in {"", "Pending"}
    least = dict(case.asked_min)
    if not enqueued:
        gates += [one.text for one in enqueue_gates(group, least, case.cluster)]
    if view is None:
        return QueueNumbers(queue=name, state="", weight=0, enqueued=enqueued, gates=gates, resources=[])
    wanted = case.task.request if enqueued and case.task is not None else least
    return QueueNumbers(
        queue=name,
        state=view.queue.status.state,
        weight=view.queue.spec.weight,
        enqueued=enqueued,
        gates=gates,
        resources=resource_numbers(view, case.cluster, wanted),
    )


def resource_numbers(view: QueueView, cluster: ClusterView, wanted: Mapping[str, float]) -> list[ResourceNumbers]:
    """The numbers of each resource that the queue's jobs hold or ask, or that it limits."""
    limits, sure = capability(view), guarantee(view)
    deserved = deserved_shares(cluster).get(view.name, {}) if view.has_jobs else {}
    everything, used = cluster_total(cluster), cluster_used(cluster)
    named = {**view.requested, **view.allocated, **limits, **sure, **{k: v for k, v in wanted.items() if v}}
    others = sorted(name for name, amount in named.items() if amount and name not in {"cpu", "memory"})
    return [
        ResourceNumbers(
            resource=name,
            asked=_shown(name, wanted),
            allocated=show(name, view.allocated.get(name, 0.0)),
            admitted=show(name, view.inqueue.get(name, 0.0)),
            requested=show(name, view.requested.get(name, 0.0)),
            deserved=show(name, deserved.get(name, 0.0)) if view.has_jobs else "",
            capability=_shown(name, limits),
            guarantee=_shown(name, sure),
            cluster=show(name, everything.get(name, 0.0)),
            cluster_used=show(name, used.get(name, 0.0)),
        )
        for name in [*(name for name in ("cpu", "memory") if named.get(name)), *others]
    ]


def _shown(name: str, amounts: Mapping[str, float]) -> str:
    return show(name, amounts[name]) if name in amounts else ""


def over_limit(view: QueueView, cluster: ClusterView) -> list[str]:
    """The resources of which the queue holds more than it may."""
    return exceeding_asked(view.allocated, real_capability(view, cluster), view.allocated)


# --- the gang -----------------------------------------------------------------------------------------------------


def members(case: Case) -> list[Member]:
    """Every member of the gang with its state, in the scheduler's order: those that hold a place first."""
    group, trial = case.group, case.trial
    if group is None:
        return []
    order = {task.uid: place for place, task in enumerate(trial.order if trial is not None else ())}
    tasks = sorted(group.tasks, key=lambda task: (task.status == "Pending", order.get(task.uid, 0), task.name))
    return [
        Member(name=task.name, role=task.role, status=task.status, node=task.node, trial=_on_trial(task, trial))
        for task in tasks
    ]


def _on_trial(task: TaskView, trial: Trial | None) -> str:
    """What the trial makes of a member."""
    if task.status in READY:
        return "holds its place"
    if task.status != "Pending":
        return f"does not count ({task.status})"
    if task.gated:
        return "has scheduling gates"
    if task.best_effort:
        refused = trial is not None and task.uid in trial.unfilled
        return "asks for nothing, and fits on no node" if refused else "asks for nothing: placed by backfill"
    if trial is None:
        return "not tried"
    if task.uid in trial.placed:
        return f"could go to {trial.placed[task.uid]}"
    if task.uid in trial.failed:
        return "fits on no node at its turn"
    if task.uid in trial.skipped:
        return f"passed over: {trial.skipped[task.uid]} of its role fits nowhere"
    return "not tried any more"


# --- predicates ---------------------------------------------------------------------------------------------------


class Verdicts:
    """The verdict of each predicate on a node, from its refusals; nodes with the same refusals share one."""

    def __init__(self, case: Case) -> None:
        self.names = asked(case.evaluation) if case.evaluation is not None else ()
        self._known: dict[tuple[str, ...], dict[str, bool]] = {}

    def of(self, found: Sequence[Reason]) -> dict[str, bool]:
        """Which predicates let the pod through."""
        key = tuple([reason.family for reason in found if reason.scheduler])
        known = self._known.get(key)
        if known is None:
            names = dict.fromkeys([*self.names, *key])
            known = self._known[key] = {name: name not in key for name in names}
        return known
