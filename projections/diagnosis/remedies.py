"""What would make one node take one task: from each refusal to the edits that lift it.

Owns that mapping. Must not know gangs, whom to evict (`evicting`), nor what is shown. Called by
`projections.diagnosis.placing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from projections.diagnosis.claims import class_name, fully_bound
from projections.diagnosis.edits import Edit, Label, Room, Uncordon, Untaint
from projections.diagnosis.edits_group import AddVolume
from projections.diagnosis.edits_pods import DropAffinity, DropSelector, DropSpread, Tolerate
from projections.diagnosis.evicting import Turn, evictions, lacking
from projections.diagnosis.reasons import Reason
from projections.diagnosis.views import NodeView, TaskView, claim_names
from projections.diagnosis.volumes import storage_asked
from projections.diagnosis.world import World
from volcano.objects.selectors import node_affinity_matches, untolerated_taints

FIXED_LABELS = ("kubernetes.io/", "topology.kubernetes.io/", "node.kubernetes.io/", "failure-domain.beta.")
"""How labels begin that say what a node is; nobody gives it others."""


ROOM = ("resources", "pod-count")
OTHERS_PODS = ("ports", "pod-anti-affinity", "volume-limits")
"""Families of refusals for room, and of those for pods that are there."""


class Way(NamedTuple):
    """How refusals are lifted: room by evictions (or just found), constraints on the pod (or on the node)."""

    evicting: bool
    on_pod: bool


WAYS = (Way(False, True), Way(True, True), Way(False, False), Way(True, False))


def differs(way: Way, found: Sequence[Reason]) -> bool:
    """Whether a way lifts some of the refusals otherwise than the plainest does."""
    families = {reason.family for reason in found if reason.scheduler}
    if way.evicting and not families & {*ROOM, *OTHERS_PODS}:
        return False
    return way.on_pod or bool(families & {"taints", "node-affinity"})


def remedy(turn: Turn, node: NodeView, found: Sequence[Reason], world: World, way: Way) -> list[Edit] | None:
    """The edits with which the node should take the task; None where none is known for a refusal. Whether they do is
    for the proof to say."""
    edits: list[Edit] = []
    evicting = False
    for reason in found:
        if not reason.scheduler:
            continue
        if reason.family in ROOM or (reason.family in OTHERS_PODS and way.evicting):
            if way.evicting:
                evicting = True
            elif not any(isinstance(edit, Room) for edit in edits):
                edits.append(Room(node.name, lacking(turn, node), turn.task.request))
            continue
        more = _lifting(reason.family, turn, node, world, way)
        if not more:
            return None
        edits += [edit for edit in more if edit not in edits]
    if evicting:
        evicted = evictions(turn, node, world, found)
        if evicted is None:
            return None
        edits = [*evicted, *edits]
    return edits


def _lifting(family: str, turn: Turn, node: NodeView, world: World, way: Way) -> list[Edit]:
    """The edits against one refusal that is not about room; none where none is known."""
    task = turn.task
    if family == "unschedulable":
        return [Uncordon(node.name)]
    if family == "taints" and node.node is not None and task.pod is not None:
        taints = untolerated_taints(node.node.spec.taints, task.pod.spec.tolerations)
        return [Tolerate(task, one) if way.on_pod else Untaint(node.name, one) for one in taints]
    if family == "node-affinity":
        return _labels(task, node, way)
    if family == "pod-affinity":
        return [DropAffinity(task, "pod")]
    if family == "pod-anti-affinity":
        return [DropAffinity(task, "pod-anti")]
    if family == "spread":
        return [DropSpread(task)]
    if family in {"claims", "volumes", "volume-zone"}:
        return _volumes(task, node, world)
    return []


def _labels(task: TaskView, node: NodeView, way: Way) -> list[Edit]:
    """The labels that the pod asks for and the node has not: asked no more, or given to the node; its required node
    affinity where that is what does not match."""
    if task.pod is None:
        return []
    spec = task.pod.spec
    unmet = tuple(key for key, value in sorted((spec.node_selector or {}).items()) if node.labels.get(key) != value)
    edits: list[Edit] = []
    if unmet and way.on_pod:
        edits.append(DropSelector(task, unmet))
    elif unmet:
        if any(key.startswith(FIXED_LABELS) for key in unmet):
            return []
        edits.append(Label(node.name, tuple((key, (spec.node_selector or {})[key]) for key in unmet)))
    if not node_affinity_matches(None, spec.affinity, node.labels, node.name):
        edits.append(DropAffinity(task, "node"))
    return edits


def _volumes(task: TaskView, node: NodeView, world: World) -> list[Edit]:
    """A volume for each claim that has none, bound where the scheduler may not bind it itself. A claim whose volume
    lies elsewhere has none of this."""
    edits: list[Edit] = []
    for name, _ in claim_names(task.pod) if task.pod is not None else ():
        claim = world.cluster.claims.get(f"{task.namespace}/{name}")
        if claim is not None and claim.metadata.deletion_timestamp is not None:
            return []
        if claim is not None and fully_bound(claim) and claim.spec.volume_name in world.cluster.volumes:
            continue
        wanted = class_name(claim) if claim is not None else ""
        known = world.cluster.classes.get(wanted)
        delayed = known is not None and known.volume_binding_mode == "WaitForFirstConsumer"
        bound = claim is None or not delayed or bool(claim.spec.volume_name)
        size = storage_asked(claim) if claim is not None else 0.0
        edits.append(AddVolume(task, name, claim, "" if bound else node.name, wanted, size, bound))
    return edits
