"""A PodGroup's way into its queue, and its queue's share: missing, closed, over its capability, the cluster overused.

Owns these gates with their numbers. Must not know nodes' predicates. Called by the verdict.
Sources: Volcano's enqueue action with the overcommit plugin (factor 1.2 unless configured) and the proportion plugin
(JobEnqueueable, Overused, Allocatable, and the division of the cluster by weight in OnSessionOpen). Which plugins the
scheduler ran with is not in the log, so a gate that only one plugin knows is told as that plugin's rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from projections.diagnosis import quotas
from projections.diagnosis.amounts import add, exceeding_asked, less_equal, show, subtract, total
from projections.diagnosis.views import Amounts, ClusterView, GroupView, QueueView

INFINITE = float("inf")


class Gate(NamedTuple):
    """A gate that holds the group back. `text` is ours, with numbers; `said` what Volcano's event says."""

    verdict: str
    text: str
    said: str = ""


def cluster_total(cluster: ClusterView) -> Amounts:
    """All that the nodes of the scheduler's snapshot have."""
    return cluster.allocatable()


def cluster_used(cluster: ClusterView) -> Amounts:
    """All that is taken on them."""
    return subtract(cluster.allocatable(), cluster.idle())


def queue_gate(name: str, cluster: ClusterView) -> Gate | None:
    """The queue is not there or not open. A log without any queue says nothing about them."""
    known = cluster.known_queues()
    if not known:
        return None
    queue = known.get(name)
    if queue is None:
        return Gate("queue-missing", f"queue {name} does not exist")
    state = queue.status.state
    if state in {"Closed", "Closing", "Unknown"}:
        return Gate("queue-closed", f"queue {name} is {state}, and takes no new jobs")
    return None


def enqueue_gates(group: GroupView, asked: Amounts, cluster: ClusterView) -> list[Gate]:
    """Why a PodGroup in phase Pending is not taken into its queue: `asked` are its minResources."""
    name = group.pod_group.spec.queue if group.pod_group is not None else ""
    view = cluster.queues.get(name)
    gates = [_overcommit(asked, cluster)]
    if view is not None:
        gates.append(_capability(view, asked, cluster))
    gates.append(_quota(group, cluster))
    return [gate for gate in gates if gate is not None]


def _quota(group: GroupView, cluster: ClusterView) -> Gate | None:
    found = quotas.gate(group, cluster)
    return Gate("quota-exceeded", quotas.told(*found)) if found is not None else None


def _overcommit(asked: Amounts, cluster: ClusterView) -> Gate | None:
    factor = cluster.rules.overcommit
    if factor is None:
        return None
    everything, used = cluster_total(cluster), cluster_used(cluster)
    allowed = subtract({name: amount * factor for name, amount in everything.items()}, used)
    inqueue = total(queue.inqueue for queue in cluster.queues.values())
    over = exceeding_asked(add(inqueue, asked), allowed, asked)
    if not over:
        return None
    lines = [
        f"{name}: asks {show(name, asked[name])}"
        + (f" on top of {show(name, inqueue[name])} already admitted" if inqueue.get(name) else "")
        + f", {show(name, allowed.get(name, 0.0))} left (cluster {show(name, everything.get(name, 0.0))} x "
        f"{factor:g} - {show(name, used.get(name, 0.0))} used)"
        for name in over
    ]
    text = f"the cluster is overused for it: {'; '.join(lines)}"
    said = f"resource in cluster is overused: {', '.join(f'overused {name}' for name in over)}"
    return Gate("cluster-overused", text, said)


def _capability(view: QueueView, asked: Amounts, cluster: ClusterView) -> Gate | None:
    limit = real_capability(view, cluster)
    taken = subtract(add(view.allocated, view.inqueue), view.elastic)
    over = exceeding_asked(add(taken, asked), limit, asked)
    if not over:
        return None
    own = capability(view)
    lines = []
    for name in over:
        whose = "capability" if own.get(name, INFINITE) <= limit.get(name, 0.0) else "the cluster has"
        lines.append(
            f"{name}: asks {show(name, asked[name])} on top of {show(name, taken.get(name, 0.0))} allocated "
            f"or admitted, "
            f"{whose} {show(name, limit.get(name, 0.0))}"
        )
    said = f"queue resource quota insufficient: {', '.join(f'insufficient {name}' for name in over)}"
    return Gate("queue-over-capability", f"queue {view.name} is over its capability: {'; '.join(lines)}", said)


def amounts_of(text: Mapping[str, object] | None) -> Amounts:
    """A resource map of a queue or PodGroup in the scheduler's units; names that it does not count are left out."""
    from volcano.objects.resource import new_resource

    return new_resource(dict(text or {})).amounts() if text else {}  # type: ignore[arg-type]


def capability(view: QueueView) -> Amounts:
    """The queue's own limits; what it does not name has none (cpu and memory of 0 mean none too)."""
    stated = view.queue.spec.capability or {}
    return {name: amount for name, amount in amounts_of(stated).items() if name in stated and _limits(name, amount)}


def _limits(name: str, amount: float) -> bool:
    return amount > 0 or name not in {"cpu", "memory"}


def guarantee(view: QueueView) -> Amounts:
    """What the queue is guaranteed."""
    stated = view.queue.spec.guarantee
    return amounts_of(stated.resource if stated is not None else None)


def real_capability(view: QueueView, cluster: ClusterView) -> Amounts:
    """What the queue may reach at most: the cluster less the others' guarantees, and its own capability."""
    return _reach(view, guarantee(view), _not_guaranteed(cluster, map(guarantee, cluster.queues.values())))


def _not_guaranteed(cluster: ClusterView, guarantees: Iterable[Amounts]) -> Amounts:
    """What the cluster has above all guarantees."""
    left = subtract(cluster_total(cluster), total(guarantees))
    return {name: max(0.0, amount) for name, amount in left.items()}


def _reach(view: QueueView, guaranteed: Amounts, free: Amounts) -> Amounts:
    """What is free and what it is guaranteed, up to its own capability."""
    limit = add(free, guaranteed)
    for name, amount in capability(view).items():
        limit[name] = min(limit.get(name, INFINITE), amount)
    return limit


# --- the proportion plugin's shares -------------------------------------------------------------------------------


def deserved_shares(cluster: ClusterView) -> dict[str, Amounts]:
    """What each queue with jobs deserves: the cluster divided by weight, round after round, never more than a queue
    asks or may have, never less than it is guaranteed."""
    views = [view for view in sorted(cluster.queues.values(), key=lambda one: one.name) if view.has_jobs]
    guarantees = {name: guarantee(view) for name, view in cluster.queues.items()}
    free = _not_guaranteed(cluster, guarantees.values())
    limits = {view.name: _reach(view, guarantees[view.name], free) for view in views}
    deserved: dict[str, Amounts] = {view.name: {} for view in views}
    remaining, met = cluster_total(cluster), set[str]()
    for _ in range(len(views) + 32):
        open_views = [view for view in views if view.name not in met]
        weights = sum(max(view.queue.spec.weight, 0) for view in open_views)
        if not weights:
            break
        before, given = remaining, dict[str, float]()
        for view in open_views:
            old = deserved[view.name]
            wanted = add(old, _times(remaining, view.queue.spec.weight / weights))
            new = _share(view, wanted, limits[view.name], guarantees[view.name])
            deserved[view.name] = new
            if all(less_equal(amount, new.get(name, 0.0)) for name, amount in view.requested.items()) or new == old:
                met.add(view.name)
            given = add(given, subtract(new, old))
        remaining = {name: max(0.0, amount) for name, amount in subtract(remaining, given).items()}
        if all(amount < 0.1 for amount in remaining.values()) or remaining == before:
            break
    return deserved


def _times(amounts: Mapping[str, float], factor: float) -> Amounts:
    return {name: amount * factor for name, amount in amounts.items()}


def _share(view: QueueView, wanted: Amounts, limit: Amounts, guaranteed: Amounts) -> Amounts:
    capped = {
        name: min(amount, limit.get(name, INFINITE), view.requested.get(name, 0.0)) for name, amount in wanted.items()
    }
    for name, amount in guaranteed.items():
        capped[name] = max(capped.get(name, 0.0), amount)
    return capped


def share_lack(name: str, request: Amounts, cluster: ClusterView) -> Amounts:
    """What the queue would hold too much with the request, resource by resource; nothing where the request has its
    place in what the queue deserves."""
    found = _over_share(name, request, cluster)
    if found is None:
        return {}
    held, deserved, over = add(cluster.queues[name].allocated, request), found[0], found[1]
    return {key: held.get(key, 0.0) - deserved.get(key, 0.0) for key in over}


def _over_share(name: str, request: Amounts, cluster: ClusterView) -> tuple[Amounts, list[str]] | None:
    """What the queue deserves, and the resources of which it would hold more with the request; None where it would
    not, or where nothing is divided."""
    view, plugin = cluster.queues.get(name), cluster.rules.share
    if view is None or not view.has_jobs or not plugin:
        return None
    deserved = deserved_shares(cluster)[name] if plugin == "proportion" else real_capability(view, cluster)
    asked = {key: amount for key, amount in request.items() if amount > 0}
    over = exceeding_asked(add(view.allocated, asked), deserved, asked)
    return (deserved, over) if over else None


def share_gate(name: str, request: Amounts, cluster: ClusterView) -> Gate | None:
    """The queue holds what it deserves, so the proportion plugin passes it or the task over; the capacity plugin, where
    that is the one configured, goes by what the queue may hold at most."""
    found = _over_share(name, request, cluster)
    if found is None:
        return None
    (deserved, over), view, plugin = found, cluster.queues[name], cluster.rules.share
    others = [one.name for one in cluster.queues.values() if one.has_jobs and one.name != name]
    shown: Sequence[str] = [key for key in over if key != "pods"] or over
    numbers = "; ".join(
        f"{key}: deserves {show(key, deserved.get(key, 0.0))}, has {show(key, view.allocated.get(key, 0.0))}, "
        f"asks {show(key, request[key])}"
        for key in shown
    )
    beside = f" beside {', '.join(sorted(others))}" if others else ""
    how = f"proportion plugin, weight {view.queue.spec.weight}" if plugin == "proportion" else f"{plugin} plugin"
    return Gate("queue-overused", f"queue {name} is at its share{beside} ({how}): {numbers}")


def ghost_gate(name: str, cluster: ClusterView) -> Gate | None:
    """The queue's jobs ask for a resource of which the cluster has nothing, such as attachments of a CSI driver that no
    CSINode reports: what it deserves can then never cover what it asks (the default-queue trap)."""
    view = cluster.queues.get(name)
    if view is None or cluster.rules.share != "proportion":
        return None
    have = cluster_total(cluster)
    ghosts = sorted(key for key, amount in view.requested.items() if amount > 0 and have.get(key, 0.0) <= 0)
    if not ghosts:
        return None
    numbers = "; ".join(f"{key}: its jobs ask {show(key, view.requested[key])}, the cluster has 0" for key in ghosts)
    text = f"queue {name} asks for what no node has, so the proportion plugin counts it as overused: {numbers}"
    return Gate("queue-overused", text)
