"""The nodeorder plugin: kube-scheduler's scores, weighted and added up.

Two kinds: what a node has, which changes with each task placed there (`node_order`), and what holds for the task while
the set of nodes stays the same, as it is scaled to the best among them (`batch_node_order`).

Sources: Volcano's pkg/scheduler/plugins/nodeorder/nodeorder.go, and Kubernetes' scheduler plugins (1.35 and later)
noderesources (least_allocated.go, most_allocated.go, balanced_allocation.go), nodeaffinity, tainttoleration,
imagelocality, and helper.DefaultNormalizeScore. The scores that look at pods are in `nodeorder_pods`; preferred terms
of pods that are there count for a task that has such terms itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from projections.diagnosis.views import PlacedPod
from vcledger.scheduler.session.conf import Argument
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.nodes import NodeTable
from vcledger.scheduler.session.plugins.common import CPU, MEMORY
from vcledger.scheduler.session.plugins.nodeorder_pods import (
    pod_affinity_scores,
    preferred_pods,
    soft_constraints,
    spread_scores,
)
from volcano.objects.core import Node, Pod, PreferredSchedulingTerm
from volcano.objects.selectors import node_selector_term_matches, tolerates
from volcano.objects.status import TaskStatus

SCORE_MAX = 100
GPU = "nvidia.com/gpu"
PREFER_NO_SCHEDULE = "PreferNoSchedule"

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

UNASKED = {CPU: 100, MEMORY: 200 * 1024 * 1024}
"""What a pod counts for that asks for none (kube-scheduler's DefaultMilliCPURequest, DefaultMemoryRequest)."""

IMAGE_LEAST, IMAGE_MOST = 23 * 1024 * 1024, 1000 * 1024 * 1024
"""Between these bytes (the latter for each container) images that are there already raise a node's score."""

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

    def on_open(self, ssn: Session) -> None:
        self.ssn, self.gone = ssn, {}
        ssn.add("node_order", self.name, self.by_room)
        ssn.add("batch_node_order", self.name, self.by_kind)
        ssn.on_change(lambda task: self._evicted(task, -1), lambda task: self._evicted(task, 1))

    def on_close(self, ssn: Session) -> None:
        """Nothing is kept."""

    def _evicted(self, task: SessionTask, times: int) -> None:
        """kube-scheduler's picture of a node has no more room for a pod that this session has told to go."""
        if task.status == TaskStatus.RELEASING or (times < 0 and task.status in _RUNNING):
            row = self.ssn.nodes.row[task.node]
            self.gone[row] = self.gone.get(row, np.zeros(len(task.request))) + times * task.request

    # --- what a node has ------------------------------------------------------------------------------------------

    def by_room(self, task: SessionTask, rows: Rows) -> Scores:
        """The scores of least and most requested, of balance, and of images."""
        total, weights = self.by_image(task, rows), self.weights
        if weights["leastrequested.weight"]:
            total += weights["leastrequested.weight"] * self.least_requested(task, rows)
        if weights["mostrequested.weight"]:
            total += weights["mostrequested.weight"] * self.most_requested(task, rows)
        if weights["balancedresource.weight"]:
            total += weights["balancedresource.weight"] * self.balanced(task, rows)
        return total

    def least_requested(self, task: SessionTask, rows: Rows) -> Whole:
        """The mean of what of cpu and memory would be left, in whole parts of a hundred."""
        return self._mean(task, rows, lambda asked, have: (have - asked) * SCORE_MAX // np.maximum(have, 1))

    def most_requested(self, task: SessionTask, rows: Rows) -> Whole:
        """The mean of what would be taken."""
        return self._mean(task, rows, lambda asked, have: asked * SCORE_MAX // np.maximum(have, 1))

    def _mean(self, task: SessionTask, rows: Rows, score: Any) -> Whole:
        added, weight = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        requested = self._requested(rows)
        for column in (CPU, MEMORY):
            have = self.ssn.nodes.allocatable[rows, column].astype(np.int64)
            asked = (requested[:, column] + (task.request[column] or UNASKED[column])).astype(np.int64)
            scored: Whole = score(np.minimum(asked, have), have)
            added += np.where(have > 0, scored, 0)
            weight += have > 0
        found: Whole = added // np.maximum(weight, 1)
        return found

    def balanced(self, task: SessionTask, rows: Rows) -> Whole:
        """How much more even the use of cpu, memory and GPUs becomes with the task: 75 when it stays as it is. A task
        that asks for none of them has no opinion."""
        names = self.ssn.resources.column
        columns = [CPU, MEMORY]
        gpu = names.get(GPU)
        if gpu is not None and task.request[gpu]:
            columns.append(gpu)
        if not any(task.request[column] for column in columns):
            return np.zeros(len(rows), dtype=np.int64)
        before, have = self._requested(rows)[:, columns], self.ssn.nodes.allocatable[rows][:, columns]
        with_it = _evenness(before + task.request[columns], have)
        change = with_it - _evenness(before, have)
        half = SCORE_MAX // 2
        found: Whole = half + np.trunc((half + change) / 2).astype(np.int64)
        return found

    def _requested(self, rows: Rows) -> Scores:
        nodes = self.ssn.nodes
        found: Scores = nodes.used[rows] + nodes.pipelined[rows]
        for row, amount in self.gone.items():
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


_TRAITS: WeakKeyDictionary[NodeTable, _Traits] = WeakKeyDictionary()
"""Kept until a node's object changes: a session with little to do must not look at all of them."""


def _traits(nodes: NodeTable) -> _Traits:
    version = nodes.epoch, len(nodes.object_log)
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


def _evenness(used: Scores, have: Scores) -> Whole:
    """100 less the standard deviation of the parts in use, in whole parts of a hundred; what a node has none of is left
    out."""
    has = have > 0
    if used.shape[1] == 2 and has.all():
        two = np.minimum(used / have, 1.0)
        even: Whole = ((1 - np.abs(two[:, 0] - two[:, 1]) / 2) * SCORE_MAX).astype(np.int64)
        return even
    parts = np.minimum(np.divide(used, have, out=np.zeros_like(used), where=has), 1.0)
    number = has.sum(axis=1)
    mean = np.divide(parts.sum(axis=1), number, out=np.zeros(len(used)), where=number > 0)
    spread = np.where(has, (parts - mean[:, None]) ** 2, 0.0).sum(axis=1)
    deviation = np.sqrt(np.divide(spread, number, out=np.zeros(len(used)), where=number > 0))
    if used.shape[1] == 2:
        deviation = np.where(number == 2, np.abs(parts[:, 0] - parts[:, 1]) / 2, deviation)
    found: Whole = ((1 - deviation) * SCORE_MAX).astype(np.int64)
    return found


def normalized(scores: Whole, *, reverse: bool = False) -> Whole:
    """Scaled so that the largest becomes 100; `reverse` so that 0 does."""
    most = int(scores.max(initial=0))
    if most == 0:
        return np.full(len(scores), SCORE_MAX if reverse else 0, dtype=np.int64)
    scaled = SCORE_MAX * scores // most
    return SCORE_MAX - scaled if reverse else scaled


def taint_scores(pod: Pod, nodes: list[Node | None]) -> Whole:
    """The fewer PreferNoSchedule taints that the pod doesn't tolerate, the better."""
    tolerations = [one for one in pod.spec.tolerations or () if one.effect in {"", PREFER_NO_SCHEDULE}]
    counts = [
        sum(
            1
            for taint in (node.spec.taints or () if node is not None else ())
            if taint.effect == PREFER_NO_SCHEDULE and not any(tolerates(one, taint) for one in tolerations)
        )
        for node in nodes
    ]
    return normalized(np.array(counts, dtype=np.int64), reverse=True)


def preferred_terms(pod: Pod) -> Sequence[PreferredSchedulingTerm]:
    """The pod's preferred terms of node affinity."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    return (affinity.preferred_during_scheduling_ignored_during_execution or ()) if affinity is not None else ()


def affinity_scores(terms: Sequence[PreferredSchedulingTerm], nodes: list[Node | None]) -> Whole:
    """The weights of the preferred terms of node affinity that each node matches."""
    weights = [
        sum(
            term.weight
            for term in terms
            if node is not None
            and term.preference is not None
            and node_selector_term_matches(term.preference, node.metadata.labels or {}, node.metadata.name)
        )
        for node in nodes
    ]
    return normalized(np.array(weights, dtype=np.int64))


def image_scores(pod: Pod, images: list[Mapping[str, tuple[int, int]]], nodes_count: int) -> Whole:
    """How much of the pod's images each node has already, each image weighted by the part of the nodes that have it."""
    containers = [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]
    names = [name if ":" in name.rsplit("/", 1)[-1] else f"{name}:latest" for name in (c.image for c in containers)]
    if not names or not any(images):
        return np.zeros(len(images), dtype=np.int64)
    most = IMAGE_MOST * len(names)
    sums = []
    for held in images:
        found = [held[name] for name in names if name in held]
        sums.append(sum(int(size * (count / max(nodes_count, 1))) for size, count in found))
    scores = np.clip(np.array(sums, dtype=np.int64), IMAGE_LEAST, most)
    scaled: Whole = SCORE_MAX * (scores - IMAGE_LEAST) // (most - IMAGE_LEAST)
    return scaled


__all__ = [
    "DEFAULT_WEIGHTS",
    "SCORE_MAX",
    "NodeOrder",
    "affinity_scores",
    "image_scores",
    "normalized",
    "preferred_terms",
    "taint_scores",
]
