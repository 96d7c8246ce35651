"""Whether our predicates let through what the real scheduler did: each node that it gave to a pod, judged.

Owns the choice of the state in which a bind is judged. Must not know a single predicate. Called by `vcledger.proof`.

A bind is judged in the state just before it was observed, as if it were decided then. The scheduler decides a whole
cycle on the state that it began with and on what it has itself decided since, and its binds go out side by side; so a
bind may be observed before that of the pod which its affinity follows, or after a change that its decision did not
know. One that is refused at once is therefore judged in every state between a period before its cycle's first write and
half a period after its last, the pod itself taken out and the binds in flight put in: those of its cycle that were
observed before it and that the state does not show yet. It is refused for good when no state lets it through. What
rests on an object that the record never has is no refusal; whatever else refuses it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from projections.cache.state import Cache, CacheConfig
from projections.cache.tasks import OWN_CLAIM
from projections.diagnosis.amounts import add, exceeding
from projections.diagnosis.nodes import Evaluation
from projections.diagnosis.reasons import VOLUME_FAMILIES, Reason
from projections.diagnosis.views import Amounts, PlacedPod, TaskView
from vcledger import codec
from vcledger.proof_log import Cycle, Placement
from vcledger.why_views import Views, lone_task, task_view
from volcano.objects.core import Pod

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

AT_ONCE, IN_ITS_CYCLE, REFUSED, UNSEEN = "at once", "in its cycle", "refused", "unseen"
HOWS = (AT_ONCE, IN_ITS_CYCLE, REFUSED, UNSEEN)
"""How a bind came out: let through in the state before it, or in another of its cycle's; refused in all; or there is
nothing to judge, as the record has the pod only from when it had its node, or nowhere has the node, a claim of the pod
or the volume of one, and nothing else refuses it."""

NO_NODE = "node"
"""The family of the refusal by a node that the state does not have."""


class Judged(NamedTuple):
    """A bind, how it came out, and why it was refused in the state before it."""

    placement: Placement
    how: str
    reasons: tuple[str, ...] = ()


class _Where(NamedTuple):
    """Where the log is to be looked at."""

    ledger: Ledger
    cluster: str
    model: str
    config: CacheConfig


def judge_binds(
    ledger: Ledger, cluster: str, parts: Sequence[Cycle], model: str, config: CacheConfig, period_micros: int
) -> list[Judged]:
    """Every bind of the cycles, in the order of the log."""
    where = _Where(ledger, cluster, model, config)
    binds = [one for part in parts for one in part.placements]
    judged: dict[int, Judged] = {}
    excused: dict[int, Collection[str]] = {}
    states = ledger.caches([one.position - 1 for one in binds], cluster=cluster, model=model, config=config)
    for one, (_, cache) in zip(binds, states, strict=True):
        refusals = _refusals(ledger, cache, one) if one.seen else None
        if refusals is None:
            judged[one.position] = Judged(one, UNSEEN)
        else:
            lines = tuple([reason.line for reason in refusals])
            judged[one.position] = Judged(one, REFUSED if refusals else AT_ONCE, lines)
        if refusals:
            excused[one.position] = _excused(where, cache, one)
    for part in parts:
        again = [one for one in part.placements if judged[one.position].how == REFUSED]
        for position in _let_through(where, part, again, period_micros, {}) if again else ():
            judged[position] = judged[position]._replace(how=IN_ITS_CYCLE)
        again = [one for one in again if judged[one.position].how == REFUSED and excused[one.position]]
        for position in _let_through(where, part, again, period_micros, excused) if again else ():
            judged[position] = judged[position]._replace(how=UNSEEN)
    return [judged[one.position] for one in binds]


def _excused(where: _Where, cache: Cache, placed: Placement) -> Collection[str]:
    """The families of refusals that say nothing, as they rest on what the record, up to the bind, never has: its node,
    a claim of its pod, or the volume that one is bound to. Records of some kinds only lack them, or one that begins
    without a list. A refusal of another family stands."""
    ref = cache.pods.get(placed.key)
    keys = [(placed.namespace, name.removeprefix(OWN_CLAIM)) for name in ref.claims] if ref is not None else []
    claims = [cache.claims.get(f"{namespace}/{name}") for namespace, name in keys]
    volumes = [claim.spec.volume_name for claim in claims if claim is not None and claim.spec.volume_name]
    rests_on = [("PersistentVolumeClaim", namespace, name) for namespace, name in keys]
    rests_on += [("PersistentVolume", "", name) for name in volumes]
    found = [NO_NODE] if _is_unseen(where, "Node", "", placed.node, placed.position) else []
    if any(_is_unseen(where, kind, namespace, name, placed.position) for kind, namespace, name in rests_on):
        found += VOLUME_FAMILIES
    return found


def _is_unseen(where: _Where, kind: str, namespace: str, name: str, position: int) -> bool:
    found = where.ledger.store.read(
        to=position,
        cluster=where.cluster,
        kinds=kind,
        namespace=namespace,
        name=name,
        types=codec.OBJECT_TYPES,
        limit=1,
    )
    return next(iter(found), None) is None


def _let_through(
    where: _Where,
    part: Cycle,
    binds: Sequence[Placement],
    period_micros: int,
    excused: Mapping[int, Collection[str]],
) -> list[int]:
    """The positions of those binds that some state of their cycle lets through, but for refusals of the families that
    are excused, by the bind's position."""
    ledger, cluster = where.ledger, where.cluster
    changes = ledger.store.read(
        cluster=cluster,
        types=codec.OBJECT_TYPES,
        late=False,
        observed_from=part.first_at - period_micros,
        observed_to=part.last_at + period_micros // 2,
    )
    changed = [stored.position for stored in changes]
    before = [one.position - 1 for one in binds] if excused else []
    positions = sorted({changed[0] - 1 if changed else part.start, part.start, *changed, *before})
    waiting = {one.position: one for one in binds}
    found = []
    for at, cache in ledger.caches(positions, cluster=cluster, model=where.model, config=where.config):
        through = []
        for position, one in waiting.items():
            flying = [two for two in part.placements if at < two.position < position]
            refusals = _refusals(ledger, cache, one, flying)
            if refusals is not None and all(two.family in excused.get(position, ()) for two in refusals):
                through.append(position)
        for position in through:
            found.append(position)
            del waiting[position]
        if not waiting:
            break
    return found


class _Asked(NamedTuple):
    """A pod of a state, and what it asks."""

    pod: Pod
    task: TaskView
    node: str


def _asked(ledger: Ledger, views: Views, placed: Placement) -> _Asked | None:
    """The pod that was placed, as the state has it; None where it has no such pod."""
    cache = views.cache
    ref = cache.pods.get(placed.key)
    if ref is None or ref.uid != placed.uid:
        return None
    pod = ledger.objects([ref.position]).get(ref.position)
    if not isinstance(pod, Pod):
        return None
    job = cache.jobs.get(ref.job)
    held = job.tasks.get(ref.uid) if job is not None else None
    task = task_view(held, pod, ref.position, views.reported) if held is not None else lone_task(ref, pod)
    return _Asked(pod, task, ref.node_name)


def _refusals(
    ledger: Ledger, cache: Cache, placed: Placement, in_flight: Sequence[Placement] = ()
) -> list[Reason] | None:
    """Why the node refuses the pod in this state, the pod itself taken out; None where the state has no such pod."""
    views = Views(ledger, cache)
    asked = _asked(ledger, views, placed)
    if asked is None:
        return None
    pod, task, on = asked
    cluster = views.cluster([pod], only=placed.node)
    node = next((one for one in cluster.nodes if one.name == placed.node), None)
    if node is None:
        return [Reason(NO_NODE, f"there is no node {placed.node}")]
    if on == placed.node:
        node = replace(node, idle=add(node.idle, task.request), pods=node.pods - 1)
    extra: list[PlacedPod] = []
    taken: Amounts = {}
    for one in in_flight:
        other = _asked(ledger, views, one)
        if other is not None and not other.node:
            extra.append(PlacedPod.of(other.pod, one.node))
            taken = add(taken, other.task.request) if one.node == placed.node else taken
    found = Evaluation(task, pod, cluster, extra, {placed.node: taken}).on(node)
    reasons = [reason for reason in found if reason.scheduler]
    told = task.best_effort or any(reason.family not in VOLUME_FAMILIES for reason in reasons)
    short = [] if told else exceeding(add(task.request, taken), node.idle)
    lines = [f"Insufficient {name} now, though not once pods are gone" for name in short]
    return reasons + [Reason("resources", line) for line in lines]


__all__ = ["AT_ONCE", "HOWS", "IN_ITS_CYCLE", "REFUSED", "UNSEEN", "Judged", "judge_binds"]
