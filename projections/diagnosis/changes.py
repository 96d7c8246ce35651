"""The smallest changes with which a pod or group would run: found on a part of the cluster, proven on the whole.

Owns the search and its bounds. Must not know how one refusal is lifted (`remedies`), what an edit does (`edits`), nor
how the proof is made (`proof`). Called by `projections.diagnosis.explain`.

The search follows the obstacles in the verdict's order: what lifts the first is tried, then what is in the way behind
it. Placing is searched on the nodes that come nearest, of each kind of refusal some. Whatever comes out is evaluated
again on the whole cluster, and only what runs there is given out, the smallest first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from projections.diagnosis import quotas
from projections.diagnosis.amounts import total
from projections.diagnosis.case import Case
from projections.diagnosis.claims import fully_bound
from projections.diagnosis.combined import Edits, applied, size_of, told_together
from projections.diagnosis.edits_group import AddVolume, LowerMinMember, MoreMembers
from projections.diagnosis.edits_pods import Ungate, UseScheduler
from projections.diagnosis.gang import VALID
from projections.diagnosis.model import Change
from projections.diagnosis.openings import ghost_attachments, queue_options, raising
from projections.diagnosis.placing import placings
from projections.diagnosis.proof import Held, Prover, obstacle, runs, unmade, up_to
from projections.diagnosis.queues import share_gate
from projections.diagnosis.views import Amounts, GroupView, TaskView, claim_names
from projections.diagnosis.world import World
from volcano.objects.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, VolcanoJob

SHOWN_MAX = 8
PROOFS_MAX, PROVEN_NODES_MAX = 24, 60_000
"""How many changes are proven at most, and on how many nodes in all."""

DEPTH_MAX = 4
"""How many obstacles in a row a change may lift."""

MEMBERS_ADDED_MAX = 1_000
"""So many members may be missing for their being made to be offered, as each is put to the gang's trial. A minMember
far beyond is a slip of whoever wrote it, and lowering it what helps."""


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
    for edits in sorted(_ways_on(world, subject, [], DEPTH_MAX), key=size_of):
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
        found.append(_change(edits, "; ".join(told_together(edits, world)), case, again is True))
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


def _change(edits: Edits, text: str, case: Case, again: bool) -> Change:
    whole = case.group is not None and case.group.min_member > 1
    proof = "queue gates and the gang's trial evaluated again" if whole else "every predicate evaluated again"
    return Change(
        text=text,
        steps=[edit.step() for edit in edits],
        size=sum(edit.touches for edit in edits),
        share=round(sum(edit.share for edit in edits), 4),
        proof=f"a scheduling session with it places it, or promises it a place; {proof}" if again else proof,
    )


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
        for more in placings(world, subject.held):
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
    if what == "quota":
        return [[raising(key, over) for key, over in unmade(world).items()]]
    if what == "volumes" and task is not None:
        return [_bound_volumes(world, task)]
    return queue_options(what, world, subject.held)


def _more_members(group: GroupView, world: World) -> list[Edits]:
    """A lower minimum, or the members that are missing where they can be tried on, with the room that quotas have not
    for them."""
    valid = sum(1 for task in group.tasks if task.status in VALID)
    if not 0 < valid < group.min_member:
        return []
    missing = group.min_member - valid
    lower: Edits = [LowerMinMember(group.key, group.min_member, valid)]
    if missing > MEMBERS_ADDED_MAX:
        return [lower]
    refusing = quotas.refusing(group, (), missing, world.cluster)
    made: Edits = [*(raising(key, over) for key, over in refusing.items()), MoreMembers(group.key, missing)]
    return [lower, made]


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


__all__ = ["smallest_changes", "world_of"]
