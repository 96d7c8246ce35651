"""Where a task may go: every predicate for a task over the nodes' columns.

Owns the columns of each shape (see `shape`), kept up by the changes of rows, and the refusals in the scheduler's words.
Must not know gangs, queues nor scores. Called by the actions; held by `mirror` from cycle to cycle, opened for a
session by `run`.

The checks of one node alone are columns: requests against idle and future idle, pod count, unschedulable, node selector
and affinity, taints. Those that look at other pods or at volumes are the parts of `projections.diagnosis.nodes`, asked
on the nodes that the columns let through. Order and words are those of `Evaluation`, whose table this agrees with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from projections.diagnosis.nodes import Evaluation, refuses
from projections.diagnosis.podaffinity import InterPodAffinity
from projections.diagnosis.views import ClusterView, NodeView, PlacedPod
from projections.diagnosis.volumes import Chosen
from vcledger.scheduler.session.around import Arounds
from vcledger.scheduler.session.columns import POD_COUNT, KeptColumns, Mask, ShapeColumns
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.nodes import NodeTable, Rows
from vcledger.scheduler.session.refusals import (
    AskedNodes,
    Refusals,
    Texts,
    problem_of,
    refusals_of,
    refuses_nowhere,
    special_reasons,
)
from vcledger.scheduler.session.shape import Shape
from vcledger.scheduler.session.statics import NOTHING, Statics
from vcledger.why_views import lone_task
from volcano.objects.core import Node, Pod

if TYPE_CHECKING:
    from vcledger.scheduler.session.mirror import Mirror

Room = Literal["idle", "future", "none"]

ALL_CHECKS = frozenset(
    {
        POD_COUNT, "unschedulable", "node-affinity", "taints", "ports", "pod-affinity", "volume-limits", "volume-zone",
        "spread", "volumes",
    }
)  # fmt: skip
"""The families of predicates that the predicates plugin may switch on (`Session.checks`): those of the reasons that
they give; pod-affinity covers anti-affinity, volumes claims and their access modes."""

_REFUSALS_MAX = 1024


class Feasible:
    """The answers. What a session has done to pods and volumes is in `coming` (tasks that were given a node, with its
    name; `repelling` keep others away), `leaving` (evicted ones) and `chosen` (what their claims take)."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.statics = Statics(mirror)
        self.kept = KeptColumns(mirror, self.statics)
        self.arounds = Arounds(mirror, self.statics)
        self.checks: frozenset[str] = ALL_CHECKS
        self.predicates: Sequence[Callable[[SessionTask], Mask | None]] = ()
        self.coming: dict[str, tuple[SessionTask, str]] = {}
        self.leaving: dict[str, SessionTask] = {}
        self.chosen: dict[str, tuple[SessionTask, dict[str, Chosen], list[str]]] = {}
        self.repelling: dict[str, None] = {}
        self._away: dict[Any, Mask] = {}
        self._came: dict[str, PlacedPod] = {}
        self._there: dict[bool, list[PlacedPod]] = {}
        self._evaluated: tuple[str, Evaluation] | None = None
        self._refusals: dict[Shape, tuple[Any, Refusals]] = {}
        self._views: tuple[tuple[int, int, int], list[NodeView]] | None = None

    @property
    def table(self) -> NodeTable:
        return self.mirror.nodes

    def forget(self) -> None:
        """Lets go of what is kept for shapes."""
        self.kept.forget()
        self.arounds.forget()
        self._refusals.clear()

    def object_changed(self, row: int, node: Node | None) -> bool:
        """Whether a node's object differs from the one that the columns know, in what predicates and scores look at."""
        return self.statics.changed(self.table.names[row], node)

    def open(self, ssn: Session) -> None:
        """A session begins, its plugins have said which checks are on."""
        self.checks = frozenset(ssn.checks) if ssn.checks is not None else NOTHING
        self.predicates = ssn.functions("predicate")
        self.coming.clear()
        self.repelling.clear()
        self._away.clear()
        self.leaving.clear()
        self.chosen.clear()
        self._came.clear()
        self.arounds.crowd.undo_all()
        self._there.clear()
        self._evaluated = None

    # --- what a session does to pods ----------------------------------------------------------------------------------

    def come(self, task: SessionTask, node: str) -> None:
        """A task was given a node."""
        self.coming[task.uid] = (task, node)
        self._count(task, node)
        if task.like is not None and task.like.repels:
            self.repelling[task.uid] = None
            self._away.clear()

    def go_back(self, task: SessionTask) -> None:
        """The reverse; volumes that it would take are free again."""
        self.coming.pop(task.uid, None)
        if self.repelling.pop(task.uid, self) is None:
            self._away.clear()
        self.chosen.pop(task.uid, None)
        self.arounds.crowd.undo(task.uid)
        self._came.pop(task.uid, None)

    def leave(self, task: SessionTask) -> None:
        """A task was told to go."""
        self.leaving[task.uid] = task
        if self.arounds.crowd.used:
            self.arounds.crowd.leave(task.key, task.uid)
        self._away.clear()

    def stay(self, task: SessionTask) -> None:
        """The reverse."""
        self.leaving.pop(task.uid, None)
        self.arounds.crowd.undo(task.uid)
        self._away.clear()

    def _count(self, task: SessionTask, node: str) -> None:
        one = self._came_to(task, node) if self.arounds.crowd.used else None
        if one is not None:
            self.arounds.crowd.come(one)

    def _came_to(self, task: SessionTask, node: str) -> PlacedPod | None:
        """A task as a pod on the node that the session gave it; None when its pod is unknown."""
        came = self._came.get(task.uid)
        if came is None or came.node != node:
            pod = self.mirror.pod(task)
            if pod is None:
                return None
            came = self._came[task.uid] = PlacedPod.of(pod, node)
        return came

    def take_volumes(self, task: SessionTask, row: int) -> None:
        """What the claims of a task take on its node is not there for others."""
        if task.like is None or not task.like.volumes:
            return
        known, self._evaluated = self._evaluated, None
        evaluation = known[1] if known is not None and known[0] == task.uid else self.evaluation(task)
        if evaluation is not None and evaluation.volumes is not None:
            view = self.views()[row]
            self.chosen[task.uid] = task, evaluation.volumes.picks(view), evaluation.volumes.take(view)

    def columns(self, shape: Shape) -> ShapeColumns:
        """The columns of a shape, up to date."""
        return self.kept.of(shape, self.checks)

    # --- answers ------------------------------------------------------------------------------------------------------

    def mask(self, task: SessionTask, room: Room = "future") -> Mask:
        """The nodes that pass every check: with the request fitting into what is idle and will be ("idle"), into what
        will be ("future", as the allocate action asks), or whatever there is and however many pods ("none")."""
        shape: Shape | None = task.like
        if shape is None:
            return np.zeros(len(self.table), dtype=bool)
        columns = self.columns(shape)
        if room == "idle":
            mask = columns.now
        elif room == "future":
            mask = columns.now | columns.later
        else:
            mask = self.statics.of(shape, self.checks).ok
        return self.narrowed(task, mask)

    def narrowed(self, task: SessionTask, mask: Mask) -> Mask:
        """A mask without the nodes that pods, volumes or a plugin's predicate rule out."""
        ruled = self.ruled(task)
        if ruled is not None:
            mask = mask & ruled
        away = self.kept_away(task)
        if away is not None:
            return mask & ~away
        if not self.special(task) or not mask.any():
            return mask
        around = self.around(task)
        if around is not None:
            return mask & around
        evaluation = self.evaluation(task)
        if evaluation is None or problem_of(evaluation, self.checks):
            return np.zeros(len(mask), dtype=bool)
        self._evaluated = task.uid, evaluation
        if refuses_nowhere(evaluation):
            return mask
        mask = mask.copy()
        asked = AskedNodes(evaluation, self.views(), self.checks)
        for row in np.flatnonzero(mask).tolist():
            mask[row] = not refuses(asked.on(row))
        return mask

    def around(self, task: SessionTask) -> Mask | None:
        """The nodes whose pods let a task there that looks at others; None where each has to be asked."""
        if self.mirror.pod(task) is None or task.key not in self.mirror.cache.pods:
            return np.zeros(len(self.table), dtype=bool)
        if not task.like.countable:
            return None
        crowd = self.arounds.crowd
        if not crowd.used:
            crowd.catch_up()
            for other, node in self.coming.values():
                self._count(other, node)
            for gone in self.leaving.values():
                crowd.leave(gone.key, gone.uid)
        return self.arounds.mask(task, self.views(), self.checks)

    def kept_away(self, task: SessionTask) -> Mask | None:
        """The nodes from which pods that are there keep a task that itself looks at none; None for none of them."""
        mirror = self.mirror
        if not (mirror.guarded or self.repelling) or not task.like.plain or "pod-affinity" not in self.checks:
            return None
        pod = mirror.pod(task)
        if pod is None:
            return None
        key = (task.namespace, tuple(sorted((pod.metadata.labels or {}).items())))
        known = self._away.get(key)
        if known is None:
            known = self._away[key] = self._keep_away(pod)
        return known

    def _keep_away(self, pod: Pod) -> Mask:
        table, views = self.table, self.views()
        guards = self._as_in_session(self.mirror.guarded, everyone=False)
        there = dict.fromkeys(one.node for one in guards if one.node in table.row)
        check = InterPodAffinity(PlacedPod.of(pod), [views[table.row[name]] for name in there], guards)
        away = np.zeros(len(table), dtype=bool)
        for label, value in check.existing:
            away[self.statics.labelled(label).get(value, [])] = True
        return away

    def ruled(self, task: SessionTask) -> Mask | None:
        """The nodes that all plugins' own predicates let through; None when none has an opinion."""
        allowed: Mask | None = None
        for predicate in self.predicates:
            found: Mask | None = predicate(task)
            if found is not None:
                allowed = found if allowed is None else allowed & found
        return allowed

    def resolvable(self, task: SessionTask) -> Rows:
        """The nodes where nothing stands in the way but what evictions could change: room, pods, ports."""
        shape: Shape | None = task.like
        if shape is None:
            return np.zeros(0, dtype=np.intp)
        ok, ruled = self.statics.of(shape, self.checks).ok, self.ruled(task)
        rows = np.flatnonzero(ok if ruled is None else ok & ruled)
        if not shape.volumes:
            return rows
        evaluation, views = self.evaluation(task), self.views()
        if evaluation is None or problem_of(evaluation, self.checks):
            return np.zeros(0, dtype=np.intp)
        lasting = {"volume-zone", "volumes"}
        return np.array(
            [
                row
                for row in rows
                if not any(one.family in lasting for one in special_reasons(evaluation, views[row], self.checks))
            ],
            dtype=np.intp,
        )

    def fits_now(self, task: SessionTask, row: int) -> bool:
        """Whether every check but that of the request lets the task onto a node as things are in the session."""
        shape: Shape | None = task.like
        if shape is None:
            return False
        columns = self.columns(shape)
        if not (columns.counts[row] and self.statics.of(shape, self.checks).ok[row]):
            return False
        ruled, away = self.ruled(task), self.kept_away(task)
        if (ruled is not None and not ruled[row]) or (away is not None and away[row]):
            return False
        if not self.special(task):
            return True
        around = self.around(task)
        if around is not None:
            return bool(around[row])
        evaluation = self.evaluation(task)
        if evaluation is None or problem_of(evaluation, self.checks):
            return False
        return not refuses(special_reasons(evaluation, self.views()[row], self.checks))

    def special(self, task: SessionTask) -> bool:
        """Whether more than columns has to be asked: the pod looks at others or has volumes."""
        return bool(self.checks) and not task.like.plain

    def more(self, task: SessionTask) -> bool:
        """Whether the columns do not say all: `narrowed` may rule out nodes that they let through."""
        return bool(self.special(task) or self.predicates or self.mirror.guarded or self.repelling)

    def refusals(self, task: SessionTask, remembered: Mapping[int, Texts] = MappingProxyType({})) -> Refusals:
        """Why each node refuses the task, as things are now; the same for tasks of a shape until something changes.
        `remembered`: what nodes say still, as they have said it before, by row."""
        shape: Shape = task.like
        if remembered or self.more(task):
            return refusals_of(self, task, remembered)
        version = (*self.table.version, self.checks)
        known = self._refusals.get(shape)
        if known is None or known[0] != version:
            if len(self._refusals) >= _REFUSALS_MAX:
                self._refusals.clear()
            known = self._refusals[shape] = version, refusals_of(self, task)
        return known[1]

    # --- the parts that look at pods and volumes ----------------------------------------------------------------------

    def evaluation(self, task: SessionTask) -> Evaluation | None:
        """The task against the pods and volumes as they are in the session; None when its pod is unknown."""
        mirror = self.mirror
        pod, ref = mirror.pod(task), mirror.cache.pods.get(task.key)
        if pod is None or ref is None:
            return None
        reserved = [name for other, _, names in self.chosen.values() if other.uid != task.uid for name in names]
        chosen: dict[str, Chosen] = {}
        for other, picks, _ in self.chosen.values():
            if other.uid != task.uid:
                chosen.update(picks)
        return Evaluation(lone_task(ref, pod), pod, self.cluster(task.like), (), None, reserved, chosen)

    def cluster(self, shape: Shape) -> ClusterView:
        """The cluster as far as a shape's checks need it."""
        mirror, cache = self.mirror, self.mirror.cache
        return ClusterView(
            nodes=self.views(),
            pods=self._placed(shape),
            claims=mirror.claims,
            volumes=mirror.volumes,
            classes=cache.storage_classes,
            csi_nodes=cache.csi_nodes,
            capacities=cache.storage_capacities if mirror.exact else {},
            queue_objects=cache.queues,
            ignores_conditions=not cache.policy.freezes_not_ready,
            ignores_access_modes=mirror.ignores_access_modes,
        )

    def placed(self) -> Sequence[PlacedPod]:
        """Every pod on a node, as the session has them: without those that it told to go, with those that it placed."""
        return self._as_in_session(self.mirror.all_placed(), everyone=True)

    def _placed(self, shape: Shape) -> Sequence[PlacedPod]:
        everyone = shape.looks or shape.volumes
        return self._as_in_session(self.mirror.all_placed() if everyone else self.mirror.guarded, everyone=everyone)

    def _as_in_session(self, there: Mapping[str, PlacedPod], *, everyone: bool) -> Sequence[PlacedPod]:
        known = self._there.get(everyone)
        if known is None:
            known = self._there[everyone] = [one for _, one in sorted(there.items())]
        gone = {task.uid for task in self.leaving.values()}
        placed = [one for one in known if one.uid not in gone] if gone else list(known)
        for task, node in self.coming.values():
            if everyone or (task.like is not None and task.like.repels):
                came = self._came_to(task, node)
                if came is not None:
                    placed.append(came)
        return placed

    def views(self) -> list[NodeView]:
        """The nodes' objects, as the parts look at them: no amounts."""
        table = self.table
        version = (*table.objects_version, self.mirror.revision)
        if self._views is None or self._views[0] != version:
            views = [
                NodeView(name=name, node=info.node if info is not None else None, allocatable={}, idle={})
                for name, info in zip(table.names, table.infos, strict=True)
            ]
            self._views = version, views
        return self._views[1]


__all__ = ["ALL_CHECKS", "Feasible", "Mask", "Room", "ShapeColumns"]
