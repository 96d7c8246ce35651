"""What of a pod the predicates and scores look at: pods of one shape are alike to them.

Owns when two pods are alike. Must not know nodes. Made by `mirror`, used by `feasible` and, as `SessionTask.like`, by
whoever keeps something for tasks that are alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from projections.diagnosis.nodes import looks_at_pods, uses_volumes
from projections.diagnosis.podaffinity import anti_affinity_terms
from projections.diagnosis.unasked import ALL_ASKED, unasked
from projections.diagnosis.views import INDEX_LABEL, host_ports
from vcledger.scheduler.session.model import Resources, Vector
from vcledger.scheduler.session.nodes import Rows
from volcano.objects.core import Pod
from volcano.objects.resource import Resource

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(slots=True, eq=False)
class Shape:
    """`pod` is one of those that have it. `selector` is the key of what picks nodes by their objects (selector, node
    affinity, tolerations); `columns` are the resources that are compared with what a node has: cpu and memory always,
    others when they are asked. `looks` says that it matters which pods are where, `volumes` that it has some, `repels`
    that it keeps others away; `unasked` is what it counts for beyond its request. `countable`: where it may go follows
    from how many pods of which labels are in a topology domain."""

    pod: Pod
    request: Vector
    columns: Rows
    best_effort: bool
    selector: bytes
    looks: bool = False
    volumes: bool = False
    repels: bool = False
    unasked: tuple[float, float] = ALL_ASKED
    countable: bool = False

    @property
    def plain(self) -> bool:
        """Nothing but room and the nodes' objects counts."""
        return not self.looks and not self.volumes


class Shapes:
    """All shapes that were met; the same object for pods that are alike. Their images count (`by_images`) once some
    node says which it has."""

    def __init__(self, resources: Resources, *, by_images: bool = True) -> None:
        self.resources, self.by_images = resources, by_images
        self._known: dict[Any, Shape] = {}

    def of(self, pod: Pod, resource: Resource, request: Vector, best_effort: bool) -> Shape:
        """The shape of a pod that asks for `resource`."""
        spec = pod.spec
        selector = _encode((spec.node_selector, spec.affinity, spec.tolerations))
        looks, volumes = looks_at_pods(pod), uses_volumes(pod)
        images: tuple[str, ...] = ()
        if self.by_images:
            images = tuple(one.image for one in (*(spec.containers or ()), *(spec.init_containers or ())))
        beyond = unasked(pod)
        key: Any = (request.tobytes(), best_effort, selector, images, looks, volumes, beyond)
        if looks or volumes:
            key = (*key, self._own(pod))
        found = self._known.get(key)
        if found is None:
            names = ["cpu", "memory", *sorted(resource.scalars or {})]
            known = self.resources.column
            columns = np.array([known[name] for name in names if name in known], dtype=np.intp)
            repels = bool(anti_affinity_terms(spec.affinity))
            found = Shape(pod, request, columns, best_effort, selector, looks, volumes, repels, beyond)
            found.countable = looks and not volumes and _is_countable(pod)
            self._known[key] = found
        return found

    def _own(self, pod: Pod) -> Any:
        """What tells pods apart that look at other pods or have volumes."""
        spec, meta = pod.spec, pod.metadata
        labels = {name: text for name, text in (meta.labels or {}).items() if name != INDEX_LABEL}
        ports = [(one.ports, one.restart_policy) for one in (*(spec.containers or ()), *(spec.init_containers or ()))]
        return meta.namespace, _encode((labels, spec.topology_spread_constraints, ports, spec.volumes))

    def keep(self, used: set[int]) -> None:
        """Forgets the shapes whose id is not among those used."""
        self._known = {key: shape for key, shape in self._known.items() if id(shape) in used}

    def __len__(self) -> int:
        return len(self._known)


def _is_countable(pod: Pod) -> bool:
    """Whether a pod that looks at others does so by labels that all pods of its shape share, and not at ports."""
    spec = pod.spec
    return not host_ports(pod) and INDEX_LABEL.encode() not in _encode(
        (spec.affinity, spec.topology_spread_constraints)
    )


__all__ = ["Shape", "Shapes"]
