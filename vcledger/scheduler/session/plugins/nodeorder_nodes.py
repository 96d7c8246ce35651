"""nodeorder's scores of nodes from what they are and have: evenness, taints, node affinity, images.

Owns these, as functions of numbers and objects. Must not know the session. Called by `nodeorder`.

Sources: kube-scheduler's noderesources (balanced_allocation.go), tainttoleration, nodeaffinity, imagelocality and
helper.DefaultNormalizeScore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcano.objects.core import Node, Pod, PreferredSchedulingTerm
from volcano.objects.selectors import node_selector_term_matches, tolerates

SCORE_MAX = 100
PREFER_NO_SCHEDULE = "PreferNoSchedule"

IMAGE_LEAST, IMAGE_MOST = 23 * 1024 * 1024, 1000 * 1024 * 1024
"""Between these bytes (the latter for each container) images that are there already raise a node's score."""

Scores: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]


def even_use(parts: Sequence[tuple[float, float]]) -> int:
    """`evenness` of one node, from what is used and what there is of each."""
    shares = [min(used / have, 1.0) for used, have in parts if have > 0]
    if len(shares) == 2:
        return int((1 - abs(shares[0] - shares[1]) / 2) * SCORE_MAX) if len(parts) == 2 else _spread(shares)
    return _spread(shares) if shares else SCORE_MAX


def _spread(shares: Sequence[float]) -> int:
    mean = sum(shares) / len(shares)
    return int((1 - sqrt(sum((one - mean) * (one - mean) for one in shares) / len(shares))) * SCORE_MAX)


def evenness(used: Scores, have: Scores) -> Whole:
    """100 less the standard deviation of the parts in use, in whole parts of a hundred; what a node has none of is left
    out."""
    has = have > 0
    if used.shape[1] == 2 and has.all():
        one, other = (np.minimum(used[:, column] / have[:, column], 1.0) for column in (0, 1))
        even: Whole = ((1 - np.abs(one - other) / 2) * SCORE_MAX).astype(np.int64)
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
