"""API objects for the rows of an openb trace: what Volcano would have seen, as far as the trace tells it.

Owns the mapping (docs/importing.md has it in a table). Must not know files nor the log. Called by
`vcledger.sources.alibaba`.

The trace has no API objects, so all of them are inferred. Which node a pod went to it does not tell: a scheduled pod is
Running without a node, which Volcano's cache counts for the job and for no node. GPUs are whole or shared there.
Volcano has no resource for both that agree, so each GPU counts twice: as one `nvidia.com/gpu`, which pods with whole
GPUs ask for, and as 1,000 `volcano.sh/gpu-memory`, of which every pod with GPUs asks for its thousandths. The sum over
a node is kept; that the share of a pod lies on one GPU is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from eventstore.types import NewEvent
from vcledger.at import MICROS
from vcledger.sources import made
from vcledger.sources.made import CREATED, DEFAULT_QUEUE, DELETED, ENDED, GROUP_ANNOTATION, SCHEDULED, observed
from vcledger.sources.observe import Observer

EPOCH = 1_672_531_200 * MICROS
"""2023-01-01T00:00:00Z, the default for the trace's beginning. The trace is of 2023 and does not name the day."""

BEFORE = MICROS
"""Nodes and queues are there so long before the first pod can be."""

NAMESPACE = "default"
WHOLE_GPU, GPU_SHARE = "nvidia.com/gpu", "volcano.sh/gpu-memory"
MODEL_LABEL = "alibabacloud.com/gpu-card-model"
"""As the trace's own tools call it (pod_csv_to_yaml.py beside the data)."""
QOS_LABEL = "alibabacloud.com/qosClass"
PODS_MAX = "110"
"""Pods on a node, of which the trace says nothing: the kubelet's default."""

GPU_MILLI = 1_000


class NodeRow(NamedTuple):
    """A node: milli CPUs, MiB, GPUs and their model ('' for none)."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


class PodRow(NamedTuple):
    """A pod: milli CPUs, MiB, GPUs and thousandths of each, the models it may have, and its life in
    microseconds since the trace's beginning."""

    name: str
    cpu: int
    memory: int
    gpus: int
    share: int
    models: tuple[str, ...]
    qos: str
    phase: str
    created: int
    scheduled: int | None
    deleted: int | None

    @property
    def queue(self) -> str:
        """The queue of its quality of service."""
        return self.qos.lower() or DEFAULT_QUEUE


def node_events(observer: Observer, row: NodeRow, epoch: int) -> Iterator[NewEvent]:
    """A node, Ready, from just before the beginning on."""
    resources = {"cpu": f"{row.cpu}m", "memory": f"{row.memory}Mi", "pods": PODS_MAX}
    labels = {"kubernetes.io/hostname": row.name}
    if row.gpus:
        resources |= {WHOLE_GPU: str(row.gpus), GPU_SHARE: str(row.gpus * GPU_MILLI)}
    if row.model:
        labels[MODEL_LABEL] = row.model
    time = epoch - BEFORE
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": made.stamp(time)}
    node = {
        "metadata": made.meta(f"Node/{row.name}", row.name, time, 1) | {"labels": labels},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [ready]},
    }
    yield observed(observer, "Node", "ADDED", node, time)


class Lives:
    """The events of pods, their PodGroups (one each: the trace has no gangs) and queues."""

    def __init__(self, observer: Observer, epoch: int) -> None:
        self.observer, self.epoch = observer, epoch

    def queues(self, names: Iterable[str]) -> Iterator[NewEvent]:
        """Queues of equal weight, the default one among them."""
        time = self.epoch - BEFORE
        for name in dict.fromkeys((DEFAULT_QUEUE, *names)):
            yield made.queue(self.observer, name, time)

    def created(self, row: PodRow) -> Iterator[NewEvent]:
        """PodGroup and pod, Pending."""
        yield self._group(row, "ADDED", CREATED, row.created)
        yield self._pod(row, "ADDED", CREATED, row.created)

    def scheduled(self, row: PodRow) -> Iterator[NewEvent]:
        """Onto a node that the trace does not name; what the trace calls Pending has not begun to run then."""
        assert row.scheduled is not None
        yield self._pod(row, "MODIFIED", SCHEDULED, row.scheduled)
        yield self._group(row, "MODIFIED", SCHEDULED, row.scheduled)

    def deleted(self, row: PodRow) -> Iterator[NewEvent]:
        """When it succeeded or failed is not told: not later than it was deleted."""
        assert row.deleted is not None
        if row.phase in ("Succeeded", "Failed"):
            yield self._pod(row, "MODIFIED", ENDED, row.deleted)
        yield self._pod(row, "DELETED", DELETED, row.deleted)
        yield self._group(row, "DELETED", DELETED, row.deleted)

    def _group(self, row: PodRow, change: str, step: int, time: int) -> NewEvent:
        placed = row.scheduled is not None and step != CREATED
        status: dict[str, Any] = {"phase": "Running", "running": 1} if placed else {"phase": "Pending"}
        group = {
            "metadata": self._meta("PodGroup", row, step, time),
            "spec": {"minMember": 1, "queue": row.queue, "minResources": requests(row)},
            "status": status,
        }
        return observed(self.observer, "PodGroup", change, group, self.epoch + time)

    def _pod(self, row: PodRow, change: str, step: int, time: int) -> NewEvent:
        spec: dict[str, Any] = {
            "schedulerName": "volcano",
            "containers": [{"name": "main", "resources": {"requests": requests(row)}}],
        }
        if row.models:
            one_of = {"key": MODEL_LABEL, "operator": "In", "values": list(row.models)}
            terms = {"nodeSelectorTerms": [{"matchExpressions": [one_of]}]}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        meta = self._meta("Pod", row, step, time) | {"annotations": {GROUP_ANNOTATION: row.name}}
        if row.qos:
            meta["labels"] = {QOS_LABEL: row.qos}
        pod = {"metadata": meta, "spec": spec, "status": self._status(row, step)}
        return observed(self.observer, "Pod", change, pod, self.epoch + time)

    def _status(self, row: PodRow, step: int) -> dict[str, Any]:
        over = step >= ENDED and row.phase in ("Succeeded", "Failed")
        placed = row.scheduled is not None and step != CREATED
        phase = row.phase if over else "Running" if placed and row.phase != "Pending" else "Pending"
        if placed and row.scheduled is not None:
            return made.scheduled_status(phase, self.epoch + row.scheduled)
        return {"phase": phase}

    def _meta(self, kind: str, row: PodRow, step: int, time: int) -> dict[str, Any]:
        version = made.version_of(time, step)
        return made.meta(f"{kind}/{row.name}", row.name, self.epoch + row.created, version, NAMESPACE)


def requests(row: PodRow) -> dict[str, str]:
    """What a pod asks for. One with whole GPUs asks for their thousandths as well, so that it and the pods that share
    draw on the same."""
    found = {"cpu": f"{row.cpu}m", "memory": f"{row.memory}Mi"}
    if row.gpus:
        found[GPU_SHARE] = str(row.gpus * row.share)
        if row.share == GPU_MILLI:
            found[WHOLE_GPU] = str(row.gpus)
    return found
