"""Who holds a queue at a moment, and what holds its waiting jobs back.

Owns the gathering. Must not know how the answer is told (`projections.diagnosis.holders`). Called by `cli.why` and
users' code: `why_queue(ledger, "research", position=...)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from projections.cache.state import Cache, JobInfo
from projections.diagnosis.amounts import exceeding_asked, show
from projections.diagnosis.edits import amounts_text
from projections.diagnosis.holders import HeldBack, Holder, QueueAnswer, by_verdict
from projections.diagnosis.model import RECOMPUTED, Evidence
from projections.diagnosis.numbers import over_limit, resource_numbers
from projections.diagnosis.queues import deserved_shares, ghost_gate, queue_gate
from projections.diagnosis.views import Amounts, ClusterView, QueueView
from projections.diagnosis.words import counted
from vcledger.folding import collector_paused
from vcledger.ledger import Ledger
from vcledger.why import NoSuchPod, near_of, why_job
from vcledger.why_asked import Asked, Looked, look
from vcledger.why_queues import min_resources
from vcledger.why_views import Views
from volcano.objects.scheduling import VolcanoJob
from volcano.objects.status import ALLOCATED_STATUSES, TaskStatus

ASKED_MAX = 40
"""About how many of a queue's waiting jobs `why` is asked."""


class NoSuchQueue(NoSuchPod):
    """The log has no queue of that name at that position; the text names near ones."""


@collector_paused()
def why_queue(ledger: Ledger, name: str, **asked: Unpack[Asked]) -> QueueAnswer:
    """The answer about a queue, also about one that does not exist and that jobs name. NoSuchQueue when there is none
    of that name, and nobody names it."""
    looked = look(ledger, asked)
    asked_at = asked.get("asked_at")
    chosen, at, _, views = looked
    cache = views.cache
    view = views.queues.get(name)
    if view is None:
        return _missing(ledger, looked, name, asked_at)
    jobs = [job for _, job in sorted(cache.jobs.items()) if job.queue == name and job.held is not None]
    waiting = [job for job in jobs if waits(job)]
    held_back = _held_back(ledger, views, [job.uid for job in waiting[:ASKED_MAX]], at, chosen, asked_at)
    verdict, summary = _verdict(view, views.plain, waiting, held_back)
    least = _sum([min_resources(job) for job in waiting])
    return QueueAnswer(
        subject=f"Queue {name}",
        name=name,
        at=at,
        time=looked.time,
        asked=looked.asked(asked_at),
        verdict=verdict,
        summary=summary,
        state=view.queue.status.state,
        weight=view.queue.spec.weight,
        resources=resource_numbers(view, views.plain, least),
        holders=_holders(jobs, view),
        held_back=held_back,
        waiting=min(len(waiting), ASKED_MAX),
        waiting_total=len(waiting),
        evidence=_evidence(view, at),
        notes=_left_out(len(waiting)),
    )


def _left_out(waiting: int) -> list[str]:
    return [f"of {waiting} jobs that wait, {ASKED_MAX} were asked about"] if waiting > ASKED_MAX else []


def _missing(ledger: Ledger, looked: Looked, name: str, asked_at: int | None) -> QueueAnswer:
    """The answer about a queue that does not exist, for who names it all the same."""
    views, at = looked.views, looked.position
    naming = _naming(ledger, views.cache, name)
    near = near_of(list(views.cache.queues), name)
    if not naming:
        raise NoSuchQueue(f"no queue {name} up to position {at}{near}")
    what = f"no Queue {name} up to here"
    return QueueAnswer(
        subject=f"Queue {name}",
        name=name,
        at=at,
        time=looked.time,
        asked=looked.asked(asked_at),
        verdict="queue-missing",
        summary=f"queue {name} does not exist; {counted(len(naming), 'job')} {'names' if len(naming) == 1 else 'name'} "
        f"it{near}",
        state="",
        weight=0,
        resources=[],
        holders=[],
        held_back=_held_back(ledger, views, naming[:ASKED_MAX], at, looked.cluster, asked_at),
        waiting=min(len(naming), ASKED_MAX),
        waiting_total=len(naming),
        evidence=[Evidence(position=at, what=what, proves="it does not exist", known=RECOMPUTED)],
        notes=_left_out(len(naming)),
    )


def _naming(ledger: Ledger, cache: Cache, queue: str) -> list[str]:
    """The jobs that name a queue, by namespace and name: PodGroups, and Volcano Jobs for which none was made."""
    groups = [job for _, job in sorted(cache.jobs.items()) if job.queue == queue and job.held is not None]
    owners = {
        (job.namespace, owner.name)
        for job in groups
        for owner in (job.pod_group.metadata.owner_references if job.pod_group is not None else None) or ()
    }
    places = {key: at for (kind, key), at in sorted(cache.positions.items()) if kind == "VolcanoJob"}
    bodies = ledger.objects(places.values())
    alone = [
        key
        for key, at in places.items()
        if isinstance(job := bodies.get(at), VolcanoJob)
        and job.spec.queue == queue
        and (job.metadata.namespace, job.metadata.name) not in owners
    ]
    return [*(job.uid for job in groups if waits(job)), *alone]


def waits(job: JobInfo) -> bool:
    """Whether a job waits for anything: it is not in its queue yet, or has pods without a node."""
    group = job.pod_group
    if group is None or group.status.phase == "Completed":
        return False
    return group.status.phase in {"", "Pending"} or job.count_of({int(TaskStatus.PENDING)}) > 0


def _sum(parts: Sequence[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _holders(jobs: Sequence[JobInfo], view: QueueView) -> list[Holder]:
    """The jobs that hold something, the largest share first."""
    found = []
    for job in jobs:
        held = {name: amount for name, amount in job.allocated.amounts().items() if amount > 0}
        held.pop("pods", None)
        shares = [amount / view.allocated[name] for name, amount in held.items() if view.allocated.get(name)]
        if held:
            phase = job.pod_group.status.phase if job.pod_group is not None else ""
            pods = job.count_of(ALLOCATED_STATUSES)
            amounts = amounts_text(held)
            found.append(
                Holder(job=job.uid, phase=phase, pods=pods, amounts=amounts, share=round(max(shares, default=0.0), 4))
            )
    return sorted(found, key=lambda one: (-one.share, one.job))


def _held_back(
    ledger: Ledger, views: Views, waiting: Sequence[str], at: int, cluster: str, asked_at: int | None
) -> list[HeldBack]:
    """The verdict of each waiting job, those that are alike together, the most first."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for key in waiting:
        namespace, _, name = key.partition("/")
        try:
            answer = why_job(
                ledger, namespace, name, position=at, cluster=cluster, asked_at=asked_at, views=views, changes=False
            )
        except NoSuchPod:  # its observation was pruned, or cannot be read
            continue
        if answer.verdict not in {"running", "finished"}:
            groups.setdefault(answer.verdict, []).append((key, answer.summary))
    return by_verdict(groups)


def _verdict(
    view: QueueView, cluster: ClusterView, waiting: Sequence[JobInfo], held_back: Sequence[HeldBack]
) -> tuple[str, str]:
    """The first of QUEUE_VERDICTS that holds, with its numbers."""
    gate = queue_gate(view.name, cluster)
    if gate is not None:
        return "queue-closed", gate.text
    words = {one.verdict: one.summary for one in held_back}
    over = over_limit(view, cluster)
    if over or "queue-over-capability" in words:
        return "queue-over-capability", words.get("queue-over-capability") or _numbers(view, over)
    trap = ghost_gate(view.name, cluster) if waiting else None
    if "queue-overused" in words or (trap is not None and not words):
        return "queue-overused", words.get("queue-overused") or (trap.text if trap is not None else "")
    if waiting:
        counts = ", ".join(f"{one.count} {one.verdict}" for one in held_back)
        return "held-back", f"{len(waiting)} of its jobs wait{f': {counts}' if counts else ''}"
    return "nothing-waits", _share(view, cluster)


def _numbers(view: QueueView, over: Sequence[str]) -> str:
    return "; ".join(f"it holds {show(name, view.allocated.get(name, 0.0))} {name}, more than it may" for name in over)


def _share(view: QueueView, cluster: ClusterView) -> str:
    """What it holds beside what it deserves."""
    deserved = deserved_shares(cluster).get(view.name, {})
    held = {name: amount for name, amount in amounts_text(view.allocated).items() if name != "pods"}
    above = exceeding_asked(view.allocated, deserved, view.allocated) if deserved else []
    told = ", ".join(f"{name} {amount}" for name, amount in held.items()) or "nothing"
    more = f", more than it deserves of {', '.join(above)}" if above else ""
    return f"no job of it waits; it holds {told}{more}"


def _evidence(view: QueueView, at: int) -> list[Evidence]:
    found = []
    if view.position:
        what = f"Queue {view.name} as last seen"
        found.append(Evidence(position=view.position, what=what, proves="its state, weight and capability"))
    proves = "what its jobs hold and ask, and what the nodes have"
    return [*found, Evidence(position=at, what="the cache folded up to here", proves=proves, known=RECOMPUTED)]


__all__ = ["NoSuchQueue", "waits", "why_queue"]
