"""The checks that look at a node's object alone: unschedulable, node selector and affinity, taints.

Owns their columns, one set for each way in which pods pick nodes, made again only for nodes whose object changed. Must
not know amounts nor other pods. Called by `vcledger.scheduler.session.feasible`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from projections.diagnosis.basic import UNSCHEDULABLE_TAINT
from volcano.objects.core import Node, Pod
from volcano.objects.selectors import node_affinity_matches, tolerates, untolerated_taints

if TYPE_CHECKING:
    from vcledger.scheduler.session.mirror import Mirror
    from vcledger.scheduler.session.shape import Shape

NOTHING: frozenset[str] = frozenset()
FINE, UNSCHEDULABLE, AFFINITY, TAINTS = 0, 1, 2, 3
"""What refuses first, in the scheduler's order."""

_KEPT_MAX = 512


class Static:
    """`codes` has for each row what refuses first, `ok` that nothing does."""

    def __init__(self) -> None:
        self.epoch = -1
        self.seen = 0
        self.codes: NDArray[np.int8] = np.zeros(0, dtype=np.int8)
        self.ok: NDArray[np.bool_] = np.zeros(0, dtype=bool)


class Statics:
    """The columns by selector and by the checks that are on."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self._known: dict[tuple[bytes, frozenset[str]], Static] = {}
        self._objects: dict[str, Any] = {}
        self._labelled: tuple[tuple[int, int], dict[str, dict[str, list[int]]]] = ((-1, -1), {})

    def changed(self, name: str, node: Node | None) -> bool:
        """Whether a node's object is another than the one known, in what checks and scores look at; it is known from
        then on."""
        now = None
        if node is not None:
            now = (node.metadata.labels, node.spec.taints, node.spec.unschedulable, node.status.images)
        known = self._objects.get(name, self)
        if known == now:
            return False
        self._objects[name] = now
        return True

    def labelled(self, label: str) -> dict[str, list[int]]:
        """The rows of the nodes that have a label, by its value."""
        table = self.mirror.nodes
        version = table.objects_version
        if self._labelled[0] != version:
            self._labelled = version, {}
        found = self._labelled[1].get(label)
        if found is None:
            found = self._labelled[1][label] = {}
            for row, info in enumerate(table.infos):
                node = info.node if info is not None else None
                value = (node.metadata.labels or {}).get(label) if node is not None else None
                if value is not None:
                    found.setdefault(value, []).append(row)
        return found

    def of(self, shape: Shape, checks: frozenset[str]) -> Static:
        """The columns of a shape, up to date."""
        key = (shape.selector, checks)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _KEPT_MAX:
                del self._known[next(iter(self._known))]
            found = self._known[key] = Static()
        table = self.mirror.nodes
        if found.epoch != table.epoch:
            found.codes = np.zeros(len(table), dtype=np.int8)
            self._set(found, shape.pod, checks, range(len(table)))
        elif found.seen != table.object_changes:
            self._set(found, shape.pod, checks, table.objects_changed_since(found.seen).tolist())
        found.epoch, found.seen = table.objects_version
        return found

    def _set(self, found: Static, pod: Pod, checks: frozenset[str], rows: range | list[int]) -> None:
        spec, infos = pod.spec, self.mirror.nodes.infos
        picky = "node-affinity" in checks and bool(spec.node_selector or spec.affinity is not None)
        tolerations = spec.tolerations or ()
        cordoned = "unschedulable" in checks and not any(tolerates(one, UNSCHEDULABLE_TAINT) for one in tolerations)
        tainted = "taints" in checks
        for row in rows:
            info = infos[row]
            node = info.node if info is not None else None
            code = FINE
            if node is not None:
                if cordoned and node.spec.unschedulable:
                    code = UNSCHEDULABLE
                elif picky and not node_affinity_matches(
                    spec.node_selector, spec.affinity, node.metadata.labels or {}, node.metadata.name
                ):
                    code = AFFINITY
                elif tainted and node.spec.taints and untolerated_taints(node.spec.taints, tolerations):
                    code = TAINTS
            found.codes[row] = code
        found.ok = found.codes == FINE


__all__ = ["AFFINITY", "FINE", "NOTHING", "TAINTS", "UNSCHEDULABLE", "Static", "Statics"]
