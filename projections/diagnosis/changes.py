"""The smallest changes with which a pod or group would run: found on a part of the cluster, proven on the whole.

Owns the search and its bounds. Must not know how one refusal is lifted (`remedies`), what an edit does (`edits`), nor
how the proof is made (`proof`). Called by `projections.diagnosis.explain`.

The search follows the obstacles in the verdict's order: what lifts the first is tried, then what is in the way behind
it. Placing is searched on the nodes that come nearest, of each kind of refusal some. Whatever comes out is evaluated
again on the whole cluster, and only what runs there is given out, the smallest first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from projections.diagnosis import quotas
from projections.diagnosis.amounts import total
from projections.diagnosis.case import Case
from projections.diagnosis.claims import fully_bound
from projections.diagnosis.edits import AskLess, Edit, Evict, Room, Ungate, UseScheduler
from projections.diagnosis.edits_group import AddVolume, LowerMinMember, MoreMembers
from projections.diagnosis.evicting import Turn
from projections.diagnosis.gang import Trial, try_gang
from projections.diagnosis.model import Change
from projections.diagnosis.nodes import Evaluation
from projections.diagnosis.openings import ghost_attachments, more_nodes, queue_options, raising
from projections.diagnosis.proof import VALID, Held, Prover, obstacle, runs, up_to
from projections.diagnosis.queues import share_gate
from projections.diagnosis.reasons import Reason
from projections.diagnosis.remedies import WAYS, Way, differs, remedy
from projections.diagnosis.victims import BY_HAND
from projections.diagnosis.views import Amounts, ClusterView, GroupView, NodeView, TaskView, claim_names
from projections.diagnosis.words import counted, some
from projections.diagnosis.world import World, roomier
from volcano.objects.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, VolcanoJob

SHOWN_MAX = 8
PROOFS_MAX, PROVEN_NODES_MAX = 24, 60_000
"""How many changes are proven at most, and on how many nodes in all."""

KINDS_MAX, NEAREST_MAX, SINGLE_NODES = 5, 8, 3
"""Of how many kinds of refusal, and how many nodes of each, the search looks; how many nodes are told one by one."""

STEPS_MAX, DEPTH_MAX = 32, 4
"""How many members' placing a change may mend, and how many obstacles in a row."""

Edits = list[Edit]


class Subject(NamedTuple):
    """What the search keeps in mind: the rules that hold the subject, and how it is proven."""

    held: Held
    prove: Prover


def smallest_changes(case: Case, verdict: str, prove: Prover = runs) -> list[Change]:
    """The proven changes, the smallest first; none for what does not wait, or what nothing in the state holds back."""
    if case.group is None and case.task is None and not case.planned:
        return []
    world = world_of(case)
    subject = Subject(held_by(case, verdict, world), prove)
    if world.group is case.group and case.group is not None:
        case.cluster.memo["trial-of", case.group.key] = case.group, case.trial
    found: list[Change] = []
    proven: list[Edits] = []
    proofs = min(PROOFS_MAX, max(2, PROVEN_NODES_MAX // max(1, len(case.cluster.nodes))))
    for edits in sorted(_ways_on(world, subject, [], DEPTH_MAX), key=_size):
        if not edits or any(all(edit in edits for edit in smaller) for smaller in proven):
            continue
        if len(found) == SHOWN_MAX or proofs == 0:
            break
        proofs -= 1
        then = applied(world, edits)
        if not subject.prove(then, subject.held):
            continue
        again = _again(case, then, world, subject.held)
        if again is False:
            continue
        proven.append(edits)
        found.append(_change(edits, "; ".join(told_together(edits)), case, again is True))
    return found


def _again(case: Case, then: World, world: World, held: Held) -> bool | None:
    """The second proof. Attachments that no node reports are left out of it, as they are of the first, where they are
    not what the verdict rests on."""
    if case.again is None:
        return None
    return case.again(then if held.ghost else replace(then, ignored=ghost_attachments(world.cluster)), world)


def world_of(case: Case) -> World:
    """The world as it is. A job that has no pods yet has those of its templates; one whose gang is short is asked about
    as a whole, else the member that stands for it."""
    whole = case.is_job and (case.trial is None or case.trial.short > 0)
    group, task = case.group, None if whole else case.task
    asked = case.asked_min
    if group is None and case.job is not None and case.planned:
        group, asked = _planned_group(case, case.job)
    elif group is not None and not group.tasks and case.planned:
        group = replace(group, tasks=list(case.planned))
    world = World(case.cluster, group, task, asked, case.scheduler_names)
    return world.asking_more(case.planned) if group is not case.group else world


def _planned_group(case: Case, job: VolcanoJob) -> tuple[GroupView, Amounts]:
    """The PodGroup that the job controller would make, with what it would ask at least."""
    minimum = job.spec.min_available or len(case.planned)
    spec = PodGroupSpec(min_member=minimum, queue=job.spec.queue)
    made = PodGroup(metadata=job.metadata, spec=spec, status=PodGroupStatus(phase="Pending"))
    asked = total(task.request for task in case.planned[:minimum])
    return GroupView(case.namespace, case.name, made, list(case.planned)), asked


def held_by(case: Case, verdict: str, world: World) -> Held:
    """The rules that count. The queue's share does where it is what the verdict rests on, or is not reached: where the
    scheduler has evidently passed over that, it does not go by it."""
    over = verdict == "queue-overused"
    share = over or not _at_share(case, world)
    bound = verdict in {"provisioning", "provisioning-failed", "volume-bind-timeout"}
    grouped = (case.group is not None and case.group.pod_group is not None) or case.is_job
    return Held(share=share, ghost=over, bound=bound, group=grouped or verdict == "podgroup-missing")


def _at_share(case: Case, world: World) -> bool:
    """Whether the queue's share would refuse the case's pod alone."""
    group, task = world.group, case.task or next(iter(up_to(world)), None)
    if group is None or group.pod_group is None or task is None:
        return False
    return share_gate(group.pod_group.spec.queue, task.request, world.cluster) is not None


def applied(world: World, edits: Sequence[Edit]) -> World:
    """The world with all of them; what only makes room is done at once."""
    rooms = {edit.node: edit for edit in merged(edits) if isinstance(edit, Room)}
    if rooms:
        nodes = world.cluster.by_name()
        world = world.with_nodes(
            {name: roomier(nodes[name], one.amounts) for name, one in rooms.items() if name in nodes}
        )
    gone = [one for edit in edits if isinstance(edit, Evict) for one in edit.pods]
    world = world.without(gone) if gone else world
    for edit in edits:
        if not isinstance(edit, Room | Evict):
            world = edit.apply(world)
    return world


def _size(edits: Edits) -> tuple[int, float, int, str]:
    """Few objects first, then little of what is asked, then what is done lightly."""
    share, rank = sum(edit.share for edit in edits), max((edit.rank for edit in edits), default=0)
    return sum(edit.touches for edit in edits), round(share, 6), rank, "; ".join(edit.text() for edit in edits)


def _change(edits: Edits, text: str, case: Case, again: bool) -> Change:
    whole = case.group is not None and case.group.min_member > 1
    proof = "queue gates and the gang's trial evaluated again" if whole else "every predicate evaluated again"
    return Change(
        text=text,
        steps=[edit.step() for edit in edits],
        size=sum(edit.touches for edit in edits),
        share=round(sum(edit.share for edit in edits), 4),
        proof=f"a scheduling session with it places it; {proof}" if again else proof,
    )


def told_together(edits: Sequence[Edit]) -> list[str]:
    """The edits in words: nodes that lack the same in one, all evictions in one."""
    rooms: dict[str, list[str]] = {}
    for edit in edits:
        if isinstance(edit, Room):
            rooms.setdefault(edit.text().partition(": ")[2], []).append(edit.node)
    told = [f"{some(nodes)}{', each' if len(nodes) > 1 else ''}: {what}" for what, nodes in rooms.items()]
    evictions = [edit for edit in edits if isinstance(edit, Evict)]
    if evictions:
        pods = [f"{one.key} on {edit.node} (priority {one.priority})" for edit in evictions for one in edit.pods]
        hows = {edit.how for edit in evictions}
        how = f" by {hows.pop()}" if len(hows) == 1 and BY_HAND not in hows else ""
        told.append(f"evict {counted(len(pods), 'pod')}{how}: {some(pods)}")
    return told + [edit.text() for edit in edits if not isinstance(edit, Room | Evict)]


# --- obstacle by obstacle -----------------------------------------------------------------------------------------


def _ways_on(world: World, subject: Subject, edits: Edits, depth: int) -> Iterator[Edits]:
    """Every choice of edits that should do, going on from those made already."""
    what = obstacle(world, subject.held)
    if not what:
        yield edits
        return
    if depth == 0:
        return
    if what in {"gang", "nodes"}:
        for more in _placings(world, subject):
            yield [*edits, *more]
        return
    for more in _openings(what, world, subject):
        yield from _ways_on(applied(world, more), subject, [*edits, *more], depth - 1)


def _openings(what: str, world: World, subject: Subject) -> list[Edits]:
    """What lifts an obstacle before any node is looked at."""
    task = world.task
    if what == "scheduler" and task is not None:
        return [[UseScheduler(task, world.schedulers[0])]]
    if what == "gates" and task is not None:
        return [[Ungate(task)]]
    if what == "members" and world.group is not None:
        return _more_members(world.group, world)
    if what == "volumes" and task is not None:
        return [_bound_volumes(world, task)]
    return queue_options(what, world, subject.held)


def _more_members(group: GroupView, world: World) -> list[Edits]:
    """A lower minimum, or the members that are missing, with the room that quotas have not for them."""
    valid = sum(1 for task in group.tasks if task.status in VALID)
    if not 0 < valid < group.min_member:
        return []
    missing = group.min_member - valid
    refusing = quotas.refusing(group, (), missing, world.cluster)
    made: Edits = [*(raising(key, over) for key, over in refusing.items()), MoreMembers(group.key, missing)]
    return [[LowerMinMember(group.key, group.min_member, valid)], made]


def _bound_volumes(world: World, task: TaskView) -> Edits:
    """A ready volume for each claim that waits for one to be made."""
    from projections.diagnosis.claims import class_name
    from projections.diagnosis.volumes import storage_asked

    edits: Edits = []
    for name, _ in claim_names(task.pod) if task.pod is not None else ():
        claim = world.cluster.claims.get(f"{task.namespace}/{name}")
        if claim is not None and not fully_bound(claim):
            edits.append(AddVolume(task, name, claim, "", class_name(claim), storage_asked(claim), True))
    return edits


# --- placing ------------------------------------------------------------------------------------------------------


def _placings(world: World, subject: Subject) -> Iterator[Edits]:
    """What makes room, or makes the task take the room that there is."""
    trial, failed = _turn_of(world)
    if failed is None:
        return
    task, table = failed
    groups = nearest_by_kind(table, task, world, trial)
    singles = SINGLE_NODES if trial is None or trial.short <= 1 else 1
    for way in WAYS:
        for names in groups:
            if not differs(way, table.get(names[0], ())):
                continue
            yield from _on_nodes(world, subject, way, names, singles if names is groups[0] else 1)
    if trial is not None:
        yield from _fewer(world, trial)
    yield from more_nodes(world, task, subject.held, _small(world, trial, [name for names in groups for name in names]))
    yield from _less(world, task)


def _turn_of(world: World) -> tuple[Trial | None, tuple[TaskView, Mapping[str, Sequence[Reason]]] | None]:
    """The trial, and the task that has to be mended with its table: the one asked about, or whoever breaks the gang."""
    task = world.task
    trial = _trial(world.group, world.cluster)
    if trial is None or (task is not None and task.best_effort and not trial.short):
        return trial, (task, _table(task, world)) if task is not None and task.pod is not None else None
    breaker = trial.breaker
    if trial.short == 0 and task is not None and task.uid in trial.failed:
        breaker = task
    if breaker is None:
        return trial, None
    return trial, (breaker, trial.failed[breaker.uid])


def _trial(group: GroupView | None, cluster: ClusterView) -> Trial | None:
    """The trial of a group; the last one of each group is kept beside the cluster that it was made on."""
    if group is None or group.pod_group is None or not group.tasks:
        return None
    key = ("trial-of", group.key)
    of, found = cluster.memo.get(key, (None, None))
    if of is not group:
        found = try_gang(group, cluster)
        cluster.memo[key] = group, found
    trial: Trial = found
    return trial


def _table(task: TaskView, world: World) -> Mapping[str, Sequence[Reason]]:
    assert task.pod is not None
    return Evaluation(task, task.pod, world.cluster).table()


def nearest_by_kind(
    table: Mapping[str, Sequence[Reason]], task: TaskView, world: World, trial: Trial | None
) -> list[list[str]]:
    """The nodes that come nearest to taking the task, of each kind of refusal (its families) some: few families first,
    then how much is missing."""
    key = ("nearest", task.uid, id(table))
    known: tuple[object, list[list[str]]] = world.cluster.memo.get(key, (None, []))
    if known[0] is table:
        return known[1]
    turn = Turn(task, trial.taken if trial is not None else {})
    kinds: dict[tuple[str, ...], list[tuple[float, str]]] = {}
    alike: dict[object, tuple[float, list[tuple[float, str]]]] = {}
    asked = tuple(task.request)
    for node in world.cluster.schedulable_nodes():
        found = table.get(node.name)
        if found is None:
            continue
        like = (id(found), *map(node.future_idle.get, asked), node.name if node.name in turn.taken else "")
        known_like = alike.get(like)
        if known_like is None:
            families = tuple(dict.fromkeys([reason.family for reason in found if reason.scheduler]))
            missing = _missing(turn, node) if "resources" in families else 0.0
            known_like = alike[like] = missing, kinds.setdefault(families, [])
        known_like[1].append((known_like[0], node.name))
    ranked = sorted(kinds.items(), key=lambda item: (len(item[0]), min(item[1]), item[0]))
    nearest = [[name for _, name in heapq.nsmallest(NEAREST_MAX, pairs)] for _, pairs in ranked[:KINDS_MAX]]
    world.cluster.memo[key] = table, nearest
    return nearest


def _missing(turn: Turn, node: NodeView) -> float:
    """How much of what is asked the node lacks, added up over the resources."""
    idle, taken = node.future_idle, turn.taken.get(node.name, {})
    missing = 0.0
    for name, amount in turn.task.request.items():
        short = amount - idle.get(name, 0.0) + taken.get(name, 0.0)
        if short > 0 and amount > 0:
            missing += short / amount
    return missing


def _on_nodes(world: World, subject: Subject, way: Way, names: Sequence[str], singles: int) -> Iterator[Edits]:
    """Mending on nodes of one kind: from the nearest one on, and from each of some others alone."""
    trial = _turn_of(world)[0]
    small = _small(world, trial, names)
    for first in names[:singles]:
        edits = _accumulated(small, subject, way, names, first)
        if edits is not None:
            yield edits


def _small(world: World, trial: Trial | None, names: Sequence[str]) -> World:
    """The world with only some nodes: those, and the ones where the trial has placed somebody. Where pods look at other
    nodes' pods it stays whole."""
    if world.cluster.pods or len(world.cluster.nodes) <= NEAREST_MAX * KINDS_MAX:
        return world
    world.cluster.allocatable()  # the share goes by the whole cluster
    kept = {*names, *(trial.placed.values() if trial is not None else ())}
    nodes = [node for node in world.cluster.nodes if node.name in kept]
    return replace(world, cluster=replace(world.cluster, nodes=nodes, memo={}, _sums=dict(world.cluster._sums)))


def _accumulated(world: World, subject: Subject, way: Way, names: Sequence[str], first: str) -> Edits | None:
    """Mends the task that fits nowhere, one after the other, each on the node where that is smallest."""
    edits: Edits = []
    for _ in range(STEPS_MAX):
        trial, failed = _turn_of(world)
        if edits and _placed(trial, world.task):
            return edits if not obstacle(world, subject.held) else None
        if failed is None:
            return None
        task, table = failed
        turn = Turn(task, trial.taken if trial is not None else {})
        more = _best(turn, table, world, way, [first] if not edits else names)
        if not more:
            return None
        world, edits = applied(world, more), merged([*edits, *more])
    return None


def _placed(trial: Trial | None, task: TaskView | None) -> bool:
    """Whether the trial has placed what is asked about; True where only the whole check can tell."""
    if trial is None or (task is not None and task.best_effort):
        return True
    return not trial.short and (task is None or task.uid in trial.placed)


def _best(
    turn: Turn, table: Mapping[str, Sequence[Reason]], world: World, way: Way, names: Sequence[str]
) -> Edits | None:
    nodes = world.cluster.by_name()
    found = []
    for name in names:
        edits = remedy(turn, nodes[name], table.get(name, ()), world, way)
        if edits:
            found.append(edits)
    return min(found, key=_size) if found else None


def merged(edits: Sequence[Edit]) -> Edits:
    """Room on the same node in one, each other edit once."""
    rooms: dict[str, Room] = {}
    rest: Edits = []
    for edit in edits:
        if isinstance(edit, Room):
            before = rooms.get(edit.node)
            amounts: Amounts = dict(before.amounts) if before is not None else {}
            for name, amount in edit.amounts.items():
                amounts[name] = amounts.get(name, 0.0) + amount
            rooms[edit.node] = Room(edit.node, amounts, edit.asked)
        elif edit not in rest:
            rest.append(edit)
    return [*rooms.values(), *rest]


def _fewer(world: World, trial: Trial) -> Iterator[Edits]:
    """A gang content with those that have a place."""
    group, reached = world.group, trial.ready + len(trial.placed)
    if group is not None and trial.short and reached > 0:
        yield [LowerMinMember(group.key, group.min_member, reached)]


def _less(world: World, task: TaskView) -> Iterator[Edits]:
    """The task asks for no more than some node could ever give: only where none has that much even when empty."""
    nodes = world.cluster.schedulable_nodes()
    best: dict[str, float] = {}
    sizes = {id(node.allocatable): node.allocatable for node in nodes}
    for name, amount in task.request.items():
        most = max((size.get(name, 0.0) for size in sizes.values()), default=0.0)
        if amount > most > 0 and name != "pods":
            best[name] = _largest_idle(world.cluster, name, most)
    if best and all(amount > 0 for amount in best.values()):
        yield [AskLess(task, best)]


def _largest_idle(cluster: ClusterView, name: str, most: float) -> float:
    """The most of a resource that is idle on one node."""
    return min(most, max((node.future_idle.get(name, 0.0) for node in cluster.schedulable_nodes()), default=0.0))


__all__ = ["smallest_changes", "world_of"]
