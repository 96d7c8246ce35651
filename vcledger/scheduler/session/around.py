"""Inter-pod affinity, anti-affinity and topology spread of one shape over all nodes, as counts by topology domain.

Owns these counts, kept up by the changes of a `Crowd`, and the nodes that they let through. Must not know sessions.
Called by `vcledger.scheduler.session.feasible`.

The rules are those of `projections.diagnosis.podaffinity` and `spread` (kube-scheduler's InterPodAffinity and
PodTopologySpread), which count anew for each pod and give the words; here a placed pod adds one to its domain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from projections.diagnosis.podaffinity import affinity_terms, anti_affinity_terms, selects
from projections.diagnosis.spread import hard_constraints, spread_selector
from projections.diagnosis.views import NodeView, PlacedPod
from vcledger.scheduler.session.columns import Mask
from vcledger.scheduler.session.crowd import Change, Crowd, Kind
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.shape import Shape
from vcledger.scheduler.session.statics import Statics
from volcano.objects.core import Pod, TopologySpreadConstraint
from volcano.objects.selectors import matches_labels, node_affinity_matches, untolerated_taints

if TYPE_CHECKING:
    from vcledger.scheduler.session.mirror import Mirror

_KEPT_MAX = 512


class Domains:
    """The domains of a topology key: `of` has for each row the number of its domain, -1 without the label."""

    def __init__(self, rows: Mapping[str, Sequence[int]], count: int) -> None:
        self.number = {value: index for index, value in enumerate(rows)}
        self.of = np.full(count, -1, dtype=np.intp)
        for index, found in enumerate(rows.values()):
            self.of[found] = index
        self.labelled: Mask = self.of >= 0


@dataclass(slots=True)
class Count:
    """Pods by domain of a key. With `included` only those on some rows are counted."""

    domains: Domains
    included: Mask | None = None
    pods: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.pods = np.zeros(len(self.domains.number) + 1, dtype=np.int64)

    def add(self, row: int, times: int) -> bool:
        """Whether the row is in a domain."""
        domain = self.domains.of[row]
        if domain < 0 or not (self.included is None or self.included[row]):
            return False
        self.pods[domain] += times
        return True

    def on_rows(self) -> NDArray[np.int64]:
        """The pods of each row's domain; 0 without the label, for which the last place stands."""
        return self.pods.take(self.domains.of, mode="wrap")


class Spread:
    """One constraint of topology spread."""

    def __init__(self, constraint: TopologySpreadConstraint, pod: Pod, count: Count) -> None:
        self.constraint, self.count = constraint, count
        self.selector = spread_selector(constraint, pod)
        self.own = int(matches_labels(self.selector, pod.metadata.labels or {}))
        assert count.included is not None
        self.in_play = np.unique(count.domains.of[count.included & count.domains.labelled])

    def allowed(self) -> Mask:
        """Where the constraint lets the pod go."""
        least = 0
        if len(self.in_play) >= (self.constraint.min_domains or 1):
            least = int(self.count.pods[self.in_play].min())
        skew = self.count.on_rows() + (self.own - least)
        allowed: Mask = self.count.domains.labelled & (skew <= self.constraint.max_skew)
        return allowed


class Around:
    """What is around the nodes for the pods of a shape."""

    def __init__(self, shape: Shape, views: Sequence[NodeView], domains: Callable[[str], Domains]) -> None:
        pod = shape.pod
        self.pod = PlacedPod.of(pod)
        self._rows = {view.name: row for row, view in enumerate(views)}
        self._domains = domains
        affinity, apart = affinity_terms(pod.spec.affinity), anti_affinity_terms(pod.spec.affinity)
        self.affinity = [(term, Count(domains(term.topology_key))) for term in affinity]
        self.apart = [(term, Count(domains(term.topology_key))) for term in apart]
        self.guarded: dict[str, Count] = {}
        constraints = hard_constraints(pod)
        labelled = np.ones(len(views), dtype=bool)
        for one in constraints:
            labelled = labelled & domains(one.topology_key).labelled
        self.spreads = [
            Spread(one, pod, Count(domains(one.topology_key), labelled & _included(one, pod, views)))
            for one in constraints
        ]
        self.matching = 0
        self.first_of_its_kind = all(selects(term, self.pod, self.pod) for term in affinity)
        self.seen = -1
        self._known: dict[int, tuple[list[Count], list[Count], list[Count]]] = {}

    def follow(self, crowd: Crowd) -> None:
        """Counts what the crowd has, or from then on what has changed in it."""
        changes: Sequence[Change]
        if self.seen < 0:
            changes = [Change(kind, node, times) for kind, on in crowd.on.items() for node, times in on.items()]
        else:
            changes = crowd.journal[self.seen :]
        self.seen = len(crowd.journal)
        for kind, node, times in changes:
            row = self._rows.get(node)
            if row is None:
                continue
            near, others, guards = self._counted_by(kind)
            for count in near:
                self.matching += times * count.add(row, times)
            for count in (*others, *guards):
                count.add(row, times)

    def _counted_by(self, kind: Kind) -> tuple[list[Count], list[Count], list[Count]]:
        """The counts that a kind of pods counts in: those of affinity, of anti-affinity and spread, and of the terms
        with which it keeps pods of this shape away."""
        found = self._known.get(kind.number)
        if found is None:
            other = kind.sample
            near = all(selects(term, self.pod, other) for term, _ in self.affinity)
            others = [count for term, count in self.apart if selects(term, self.pod, other)]
            if other.namespace == self.pod.namespace and not other.deleting:
                others += [one.count for one in self.spreads if matches_labels(one.selector, other.labels)]
            keys = [term.topology_key for term in anti_affinity_terms(other.affinity) if selects(term, other, self.pod)]
            guards = [self._guard(key) for key in keys]
            found = self._known[kind.number] = [count for _, count in self.affinity] if near else [], others, guards
        return found

    def _guard(self, key: str) -> Count:
        found = self.guarded.get(key)
        if found is None:
            found = self.guarded[key] = Count(self._domains(key))
        return found

    def mask(self, checks: frozenset[str]) -> Mask:
        """The nodes that pass, as far as the checks are on."""
        allowed = np.ones(len(self._rows), dtype=bool)
        if "pod-affinity" in checks:
            allowed = self._near()
            for count in (*(count for _, count in self.apart), *self.guarded.values()):
                allowed = allowed & ~(count.domains.labelled & (count.on_rows() > 0))
        if "spread" in checks:
            for one in self.spreads:
                allowed = allowed & one.allowed()
        return allowed

    def _near(self) -> Mask:
        """Where all terms of affinity have a pod, or could have their first."""
        first = not self.matching and self.first_of_its_kind
        allowed = np.ones(len(self._rows), dtype=bool)
        for _, count in self.affinity:
            allowed = allowed & count.domains.labelled
            if not first:
                allowed = allowed & (count.on_rows() > 0)
        return allowed


def _included(constraint: TopologySpreadConstraint, pod: Pod, views: Sequence[NodeView]) -> Mask:
    """The nodes whose pods a constraint counts: nodeAffinityPolicy is Honor by default, nodeTaintsPolicy Ignore."""
    spec, found = pod.spec, np.ones(len(views), dtype=bool)
    picky = constraint.node_affinity_policy != "Ignore" and bool(spec.node_selector or spec.affinity is not None)
    honest = constraint.node_taints_policy == "Honor"
    for row, view in enumerate(views) if picky or honest else ():
        if picky:
            found[row] = node_affinity_matches(spec.node_selector, spec.affinity, view.labels, view.name)
        if honest and view.node is not None and untolerated_taints(view.node.spec.taints, spec.tolerations):
            found[row] = False
    return found


class Arounds:
    """What is around, by shape; `crowd` are the pods as the session has them."""

    def __init__(self, mirror: Mirror, statics: Statics) -> None:
        self.mirror, self.statics = mirror, statics
        self.crowd = Crowd(mirror.placed)
        self._known: dict[Shape, Around] = {}
        self._domains: dict[str, Domains] = {}
        self._version: tuple[int, ...] = ()

    def forget(self) -> None:
        """Lets go of what is kept for shapes."""
        self._known.clear()

    def mask(self, task: SessionTask, views: Sequence[NodeView], checks: frozenset[str]) -> Mask | None:
        """The nodes whose pods let a task there; None where that cannot be told by counts."""
        shape: Shape = task.like
        if not shape.countable:
            return None
        self.crowd.catch_up()
        own = self.mirror.all_placed().get(task.key)
        if self.crowd.by_index or (own is not None and own.uid == task.uid) or self.crowd.came(task.uid):
            return None
        return self._of(shape, views).mask(checks)

    def _of(self, shape: Shape, views: Sequence[NodeView]) -> Around:
        version = (*self.mirror.nodes.objects_version, self.crowd.epoch)
        if version != self._version or len(self._known) > _KEPT_MAX:
            self._known, self._domains, self._version = {}, {}, version
        found = self._known.get(shape)
        if found is None:
            found = self._known[shape] = Around(shape, views, self._domains_of)
        found.follow(self.crowd)
        return found

    def _domains_of(self, key: str) -> Domains:
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = Domains(self.statics.labelled(key), len(self.mirror.nodes))
        return found


__all__ = ["Around", "Arounds", "Domains"]
