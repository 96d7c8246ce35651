"""The nodeorder plugin: kube-scheduler's scores, weighted and added up.

Owns the weights and the sum. Must not know the actions. Called by the registry beside it (`plugins`), then at its
extension points.

Two kinds: what a node has, which changes with each task placed there (`node_order`), and what holds for the task while
the set of nodes stays the same, as it is scaled to the best among them (`batch_node_order`).

Sources: Volcano's pkg/scheduler/plugins/nodeorder/nodeorder.go, and Kubernetes' scheduler plugins (1.35 and later)
noderesources (least_allocated.go, most_allocated.go, balanced_allocation.go), nodeaffinity, tainttoleration,
imagelocality, and helper.DefaultNormalizeScore. The scores as functions are in `nodeorder_nodes`
and `nodeorder_pods`; preferred terms of pods that are there count for a task that has such terms itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from projections.diagnosis.unasked import ALL_ASKED, UNASKED, unasked
from projections.diagnosis.views import PlacedPod
from vcledger.scheduler.session.conf import Argument
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.nodes import NodeTable
from vcledger.scheduler.session.plugins.common import CPU, MEMORY
from vcledger.scheduler.session.plugins.nodeorder_nodes import (
    PREFER_NO_SCHEDULE,
    SCORE_MAX,
    affinity_scores,
    even_use,
    evenness,
    image_scores,
    preferred_terms,
    taint_scores,
)
from vcledger.scheduler.session.plugins.nodeorder_pods import (
    pod_affinity_scores,
    preferred_pods,
    soft_constraints,
    spread_scores,
)
from vcledger.scheduler.session.shape import Shape
from volcano.objects.core import Node
from volcano.objects.status import TaskStatus

HALF = 50
FEW = 16
"""So many rows are scored number by number."""

KNOWN_MAX = 50_000
"""Of so many pods on nodes it is kept what they do not ask."""

GPU = "nvidia.com/gpu"

DEFAULT_WEIGHTS = {
    "leastrequested.weight": 1,
    "mostrequested.weight": 0,
    "nodeaffinity.weight": 2,
    "podaffinity.weight": 2,
    "balancedresource.weight": 1,
    "tainttoleration.weight": 3,
    "imagelocality.weight": 1,
    "podtopologyspread.weight": 2,
}

Rows: TypeAlias = NDArray[np.intp]
Scores: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]


class NodeOrder:
    """Arguments: the weights of DEFAULT_WEIGHTS."""

    name = "nodeorder"
    ARGUMENTS = tuple(Argument(name, int) for name in DEFAULT_WEIGHTS)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.weights: dict[str, int] = {name: arguments.get(name, weight) for name, weight in DEFAULT_WEIGHTS.items()}
        self.gone: dict[int, NDArray[np.float64]] = {}
        self.gone_unasked: dict[int, NDArray[np.float64]] = {}

    def on_open(self, ssn: Session) -> None:
        self.ssn, self.gone, self.gone_unasked = ssn, {}, {}
        ssn.add("node_order", self.name, self.by_room)
        ssn.add("batch_node_order", self.name, self.by_kind)
        ssn.on_change(lambda task: self._evicted(task, -1), lambda task: self._evicted(task, 1))

    def on_close(self, ssn: Session) -> None:
        """Nothing is kept."""

    def _evicted(self, task: SessionTask, times: int) -> None:
        """kube-scheduler's picture of a node has no more room for a pod that this session has told to go."""
        if task.status == TaskStatus.RELEASING or (times < 0 and task.status in _RUNNING):
            row = self.ssn.nodes.row[task.node]
            self.gone[row] = self.gone.get(row, 0.0) + times * task.request
            self.gone_unasked[row] = self.gone_unasked.get(row, 0.0) + times * np.array(_unasked(task, self.ssn))

    # --- what a node has ------------------------------------------------------------------------------------------

    def by_room(self, task: SessionTask, rows: Rows) -> Scores:
        """The scores of least and most requested, of balance, and of images."""
        if len(rows) <= FEW and not _traits(self.ssn.nodes).images:
            extra, own = _unasked_on(self.ssn), _unasked(task, self.ssn)
            return np.array([self._at(task, row, extra, own) for row in rows.tolist()])
        total, weights, there = self.by_image(task, rows), self.weights, self._requested(rows)
        if weights["leastrequested.weight"]:
            total += weights["leastrequested.weight"] * self.least_requested(task, rows, there)
        if weights["mostrequested.weight"]:
            total += weights["mostrequested.weight"] * self.most_requested(task, rows, there)
        if weights["balancedresource.weight"]:
            total += weights["balancedresource.weight"] * self.balanced(task, rows, there)
        return total

    def _at(self, task: SessionTask, row: int, unasked: Scores, beyond: tuple[float, float]) -> float:
        """The same for one node without images, number by number: columns cost more than they save there."""
        nodes, weights, nothing = self.ssn.nodes, self.weights, (0.0,) * len(task.request)
        request, gone = task.request.tolist(), self.gone.get(row, nothing)
        used, promised = nodes.used[row].tolist(), nodes.pipelined[row].tolist()
        have, there = nodes.allocatable[row].tolist(), [a + b - c for a, b, c in zip(used, promised, gone, strict=True)]
        total = 0.0 if _traits(nodes).taints else float(SCORE_MAX * weights["tainttoleration.weight"])
        extra, less = unasked[row].tolist(), self.gone_unasked.get(row, (0.0, 0.0))
        left = taken = number = 0
        for column in (CPU, MEMORY):
            whole = int(have[column])
            if whole <= 0:
                continue
            own = request[column] + beyond[column]
            asked = min(int(there[column] + (extra[column] - less[column]) + own), whole)
            left += (whole - asked) * SCORE_MAX // whole
            taken += asked * SCORE_MAX // whole
            number += 1
        number = max(number, 1)
        total += weights["leastrequested.weight"] * (left // number)
        total += weights["mostrequested.weight"] * (taken // number)
        columns = self._balanced_columns(task)
        if weights["balancedresource.weight"] and columns:
            with_it = even_use([(there[column] + request[column], have[column]) for column in columns])
            change = with_it - even_use([(there[column], have[column]) for column in columns])
            total += weights["balancedresource.weight"] * (HALF + int((HALF + change) / 2))
        return total

    def least_requested(self, task: SessionTask, rows: Rows, there: Scores | None = None) -> Whole:
        """The mean of what of cpu and memory would be left, in whole parts of a hundred. `there` is what is requested
        on the rows, if that is known."""
        return self._mean(task, rows, there, lambda asked, have: (have - asked) * SCORE_MAX // np.maximum(have, 1))

    def most_requested(self, task: SessionTask, rows: Rows, there: Scores | None = None) -> Whole:
        """The mean of what would be taken."""
        return self._mean(task, rows, there, lambda asked, have: asked * SCORE_MAX // np.maximum(have, 1))

    def _mean(self, task: SessionTask, rows: Rows, there: Scores | None, score: Any) -> Whole:
        there = self._requested(rows) if there is None else there
        added, weight = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        requested = there[:, :2] + self._unasked(rows) + task.request[:2] + np.array(_unasked(task, self.ssn))
        for column in (CPU, MEMORY):
            have = self.ssn.nodes.allocatable[:, column].take(rows).astype(np.int64)
            asked = requested[:, column].astype(np.int64)
            scored: Whole = score(np.minimum(asked, have), have)
            added += np.where(have > 0, scored, 0)
            weight += have > 0
        found: Whole = added // np.maximum(weight, 1)
        return found

    def balanced(self, task: SessionTask, rows: Rows, there: Scores | None = None) -> Whole:
        """How much more even the use of cpu, memory and GPUs becomes with the task: 75 when it stays as it is. A task
        that asks for none of them has no opinion."""
        columns = self._balanced_columns(task)
        if not columns:
            return np.zeros(len(rows), dtype=np.int64)
        before = (self._requested(rows) if there is None else there)[:, columns]
        have = self.ssn.nodes.allocatable.take(rows, axis=0)[:, columns]
        with_it = evenness(before + task.request[columns], have)
        change = with_it - evenness(before, have)
        found: Whole = HALF + np.trunc((HALF + change) / 2).astype(np.int64)
        return found

    def _balanced_columns(self, task: SessionTask) -> list[int]:
        """The columns that are to be even; none for a task that asks for none of them."""
        gpu = self.ssn.resources.column.get(GPU)
        columns = [CPU, MEMORY] if gpu is None or not task.request[gpu] else [CPU, MEMORY, gpu]
        return columns if any(task.request[column] for column in columns) else []

    def _requested(self, rows: Rows) -> Scores:
        nodes = self.ssn.nodes
        found: Scores = nodes.used.take(rows, axis=0) + nodes.pipelined.take(rows, axis=0)
        for row, amount in self.gone.items():
            found[rows == row] -= amount
        return found

    def _unasked(self, rows: Rows) -> Scores:
        """What pods there count for beyond what they ask, cpu and memory."""
        found = _unasked_on(self.ssn).take(rows, axis=0)
        for row, amount in self.gone_unasked.items():
            found[rows == row] -= amount
        return found

    # --- what holds for the task --------------------------------------------------------------------------------

    def by_image(self, task: SessionTask, rows: Rows) -> Scores:
        """The score of images. With it the score of taints, as long as no node has any of those that count."""
        nodes, weight = self.ssn.nodes, self.weights["imagelocality.weight"]
        traits = _traits(nodes)
        total = np.full(len(rows), 0.0 if traits.taints else float(SCORE_MAX * self.weights["tainttoleration.weight"]))
        pod = self.ssn.pod_of(task) if weight and traits.images else None
        if pod is not None:
            images = [info.images if info is not None else {} for info in (nodes.infos[row] for row in rows)]
            total += weight * image_scores(pod, images, len(nodes))
        return total

    def by_kind(self, task: SessionTask, rows: Rows) -> Scores | None:
        """The scores of taints, preferred node affinity, preferred inter-pod affinity and spread that may be broken;
        None when they tell no node from another."""
        pod, weights, ssn = self.ssn.pod_of(task), self.weights, self.ssn
        if pod is None:
            return None
        tainted = bool(weights["tainttoleration.weight"]) and _traits(ssn.nodes).taints
        terms = preferred_terms(pod) if weights["nodeaffinity.weight"] else ()
        by_pods = bool(weights["podaffinity.weight"]) and bool(preferred_pods(pod.spec.affinity))
        spread = bool(weights["podtopologyspread.weight"]) and bool(soft_constraints(pod))
        if not (tainted or terms or by_pods or spread):
            return None
        everywhere = [_node(info) for info in ssn.nodes.infos]
        nodes = [everywhere[row] for row in rows]
        total = np.zeros(len(rows))
        if tainted:
            total += weights["tainttoleration.weight"] * taint_scores(pod, nodes)
        if terms:
            total += weights["nodeaffinity.weight"] * affinity_scores(terms, nodes)
        if by_pods or spread:
            placed = ssn.feasible.placed()
            if by_pods:
                scored = pod_affinity_scores(PlacedPod.of(pod), placed, everywhere, nodes)
                total += weights["podaffinity.weight"] * scored
            if spread:
                total += weights["podtopologyspread.weight"] * spread_scores(pod, placed, everywhere, nodes)
        return total


class _Traits(NamedTuple):
    """What any node has: taints that would rather not have a pod, images that are listed."""

    version: tuple[int, int]
    taints: bool
    images: bool


def _unasked(task: SessionTask, ssn: Session) -> tuple[float, float]:
    """What a task counts for beyond what it asks, cpu and memory. Of those on nodes only the ones that ask for nothing
    of either are looked up."""
    if isinstance(task.like, Shape):
        return task.like.unasked
    if task.request.item(CPU) and task.request.item(MEMORY):
        return ALL_ASKED
    pod = ssn.pod_of(task)
    if pod is not None:
        return unasked(pod)
    kept = ssn.kept_of(task)
    return kept.unasked if kept is not None else ALL_ASKED


@dataclass(slots=True)
class _Unasked:
    """The sums of that by row, as of a place in the table's log; and the tasks that were looked up: by uid, with the
    position at which that was. At `KNOWN_MAX` of them it begins anew."""

    epoch: int
    seen: int
    amounts: Scores
    known: dict[str, tuple[int, tuple[float, float]]] = field(default_factory=dict)

    def on(self, tasks: Iterable[SessionTask], ssn: Session) -> list[tuple[float, float]]:
        found = []
        for task in tasks:
            if isinstance(task.like, Shape):
                if task.like.unasked != ALL_ASKED:
                    found.append(task.like.unasked)
            elif not (task.request.item(CPU) and task.request.item(MEMORY)):
                known = self.known.get(task.uid)
                if known is None or known[0] != task.position:
                    if len(self.known) >= KNOWN_MAX:
                        self.known.clear()
                    known = self.known[task.uid] = task.position, _unasked(task, ssn)
                found.append(known[1])
        return found


_UNASKED: WeakKeyDictionary[NodeTable, _Unasked] = WeakKeyDictionary()


def _unasked_on(ssn: Session) -> Scores:
    """The sums for all rows; only rows that changed are looked at again."""
    nodes = ssn.nodes
    known = _UNASKED.get(nodes)
    if known is None or known.epoch != nodes.epoch:
        known = _UNASKED[nodes] = _Unasked(nodes.epoch, 0, np.zeros((len(nodes), len(UNASKED))))
        changed: Iterable[int] = range(len(nodes))
    else:
        changed = nodes.changed_since(known.seen).tolist()
    for row in changed:
        amounts = known.on(nodes.tasks[row].values(), ssn)
        known.amounts[row] = np.sum(amounts, axis=0) if amounts else 0.0
    known.seen = nodes.changes
    return known.amounts


_TRAITS: WeakKeyDictionary[NodeTable, _Traits] = WeakKeyDictionary()
"""Kept until a node's object changes: a session with little to do must not look at all of them."""


def _traits(nodes: NodeTable) -> _Traits:
    version = nodes.objects_version
    found = _TRAITS.get(nodes)
    if found is None or found.version != version:
        taints = any(
            taint.effect == PREFER_NO_SCHEDULE
            for node in map(_node, nodes.infos)
            if node is not None
            for taint in node.spec.taints or ()
        )
        images = any(info.images for info in nodes.infos if info is not None)
        found = _TRAITS[nodes] = _Traits(version, taints, images)
    return found


_RUNNING = tuple(int(status) for status in (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING))


def _node(info: Any) -> Node | None:
    return info.node if info is not None else None
