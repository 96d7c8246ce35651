"""From the cache's tasks and amounts to the session's.

Owns that reading: a pod's object is read for tasks that wait, and once. Must not know jobs nor queues. Called by
`vcledger.scheduler.session.mirror`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from projections.cache.state import PodRef, TaskInfo
from projections.cache.tasks import OWN_CLAIM
from projections.diagnosis.claims import fully_bound, selected_node
from projections.diagnosis.views import INDEX_LABEL, PlacedPod
from vcledger.scheduler.session.model import PENDING, Resources, SessionTask, Vector
from vcledger.scheduler.session.shape import Shapes
from volcano.objects.core import Pod
from volcano.objects.resource import CSI_ATTACH_PREFIX, Resource
from volcano.objects.status import TaskStatus

if TYPE_CHECKING:
    from vcledger.scheduler.session.mirror import Mirror

_BINDING = int(TaskStatus.BINDING)
_VECTORS_MAX = 100_000


class Reader:
    """`missing` are the names of resources that were met and have no column yet."""

    def __init__(self, mirror: Mirror, resources: Resources) -> None:
        self.mirror, self.resources = mirror, resources
        self.shapes = Shapes(resources, by_images=mirror.by_images)
        self.missing: dict[str, None] = {}
        self._scalars = resources.names[2:]
        self._pods: dict[str, Pod] = {}
        self._vectors: dict[int, tuple[Resource, Vector]] = {}

    def made(self, info: TaskInfo, ref: PodRef | None) -> SessionTask:
        """A task of the cache; `ref` is its pod, None when that is not known."""
        request = self.shared(info.resreq)
        task = SessionTask(
            uid=info.uid,
            namespace=info.namespace,
            name=info.name,
            job=info.job,
            status=int(info.status),
            node=info.node_name,
            request=request,
            role=info.role,
            priority=info.priority,
            preemptable=info.preemptable,
            best_effort=info.best_effort,
            gated=info.gated,
            position=ref.position if ref is not None else 0,
            unread=True,
        )
        mirror = self.mirror
        place = self._assumed(ref) if mirror.infers_assumed and task.status == PENDING and ref is not None else ""
        if place:
            task.status, task.node = _BINDING, place
        elif task.status == PENDING:
            self.read(task)
        return task

    def _assumed(self, ref: PodRef) -> str:
        """The node for which a volume of a pod is being made; '' for none."""
        if ref.deleting or ref.node_name:
            return ""
        for name in ref.claims:
            claim = self.mirror.claims.get(f"{ref.namespace}/{name.removeprefix(OWN_CLAIM)}")
            if claim is not None and not fully_bound(claim) and selected_node(claim):
                return selected_node(claim)
        return ""

    def pod(self, task: SessionTask) -> Pod | None:
        """The task's object; None when the cache has another pod of that name, or none."""
        known = self._pods.get(task.uid)
        if known is not None:
            return known
        ref = self.mirror.cache.pods.get(task.key)
        return self.mirror.pod_of(ref) if ref is not None and ref.uid == task.uid else None

    def kept(self, task: SessionTask) -> PlacedPod | None:
        """What is kept of a task's pod on a node, or on its way there, where its object is not."""
        known = self.mirror.known(task.key)
        return known if known is not None and known.uid == task.uid else None

    def read(self, task: SessionTask) -> None:
        """Fills in what follows from the pod's object; its age and index from what is kept of it, where that is all."""
        task.unread = False
        pod = self.pod(task)
        if pod is None:
            kept = self.kept(task)
            if kept is not None:
                task.created, task.index = kept.created, _index(kept.labels)
            return
        if task.status == PENDING:
            self._pods[task.uid] = pod
        task.created = pod.metadata.creation_timestamp or ""
        task.nominated = self.mirror.nominated.get(task.uid) or pod.status.nominated_node_name
        task.index = _index(pod.metadata.labels or {})
        info = self.mirror.cache.jobs[task.job].tasks.get(task.uid) if task.job in self.mirror.cache.jobs else None
        if info is not None:
            task.like = self.shapes.of(pod, info.resreq, task.request, task.best_effort)

    def forget(self, task: SessionTask) -> None:
        """A task is no longer, or is made anew."""
        self._pods.pop(task.uid, None)

    def shared(self, resource: Resource) -> Vector:
        """The vector of a request, which nobody changes in place: made once."""
        known = self._vectors.get(id(resource))
        if known is not None:
            return known[1]
        if len(self._vectors) >= _VECTORS_MAX:
            self._vectors.clear()
        made = self.amounts(resource)
        self._vectors[id(resource)] = (resource, made)
        return made

    def amounts(self, resource: Resource, *, reported: bool = False) -> Vector:
        """An amount as a vector. A name without a column is noted, and gets one before the refresh is over. Under
        `exact` the attachments of a driver count only where some node says how many it takes (`reported`): nothing else
        limits them, neither on a node nor in a queue."""
        return np.array(self.listed(resource, reported=reported), dtype=np.float64)

    def listed(self, resource: Resource, *, reported: bool = False) -> list[float]:
        """The same as a list."""
        scalars = resource.scalars
        if not scalars:
            return [resource.milli_cpu, resource.memory, *[0.0] * len(self._scalars)]
        if not scalars.keys() <= self.resources.column.keys():
            self._miss(scalars, reported)
        amount = scalars.get
        return [resource.milli_cpu, resource.memory, *[amount(name, 0.0) for name in self._scalars]]

    def _miss(self, scalars: dict[str, float], reported: bool) -> None:
        for name, amount in scalars.items():
            if name in self.resources.column or not amount:
                continue
            if reported or not self.mirror.exact or not name.startswith(CSI_ATTACH_PREFIX):
                self.missing[name] = None


def _index(labels: Mapping[str, str]) -> int:
    """The number of a task in its job; 0 where the label is none."""
    label = labels.get(INDEX_LABEL, "")
    return int(label) if label.isascii() and label.isdigit() else 0


__all__ = ["Reader"]
