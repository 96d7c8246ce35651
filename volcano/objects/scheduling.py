"""Volcano's and the storage and scheduling groups' kinds: PodGroup, Queue, Job, Numatopology, PriorityClass,
StorageClass, CSINode, CSIStorageCapacity.

Owns the partial structs of these kinds. Must not know what the cache makes of them. Called through
`volcano.objects.kinds`.
"""

from __future__ import annotations

import msgspec

from volcano.objects.core import NodeSelectorRequirement, PersistentVolumeClaimSpec, PodSpec
from volcano.objects.meta import LabelSelector, ObjectMeta, Part, Quantity, ResourceMap

# --- scheduling.volcano.sh/v1beta1 --------------------------------------------------------------------------------


class PodGroupSpec(Part, frozen=True):
    min_member: int = 0
    min_task_member: dict[str, int] | None = None
    queue: str = ""
    priority_class_name: str = ""
    min_resources: ResourceMap | None = None


class PodGroupCondition(Part, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    transition_id: str = msgspec.field(default="", name="transitionID")
    last_transition_time: str | None = None


class PodGroupStatus(Part, frozen=True):
    """phase is Pending, Inqueue, Running, Unknown or Completed."""

    phase: str = ""
    conditions: list[PodGroupCondition] | None = None
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class QueueSpec(Part, frozen=True):
    weight: int = 0
    capability: ResourceMap | None = None
    reclaimable: bool | None = None
    deserved: ResourceMap | None = None
    guarantee: QueueGuarantee | None = None
    parent: str = ""
    priority: int = 0


class QueueGuarantee(Part, frozen=True):
    resource: ResourceMap | None = None


class QueueStatus(Part, frozen=True):
    """state is Open, Closed, Closing or Unknown."""

    state: str = ""
    allocated: ResourceMap | None = None
    pending: int = 0
    running: int = 0
    inqueue: int = 0
    unknown: int = 0
    completed: int = 0


class Queue(Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


# --- batch.volcano.sh/v1alpha1 ------------------------------------------------------------------------------------


class PodTemplate(Part, frozen=True):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class TaskSpec(Part, frozen=True):
    name: str = ""
    replicas: int = 0
    min_available: int | None = None
    template: PodTemplate | None = None


class JobVolume(Part, frozen=True):
    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: PersistentVolumeClaimSpec | None = None


class VolcanoJobSpec(Part, frozen=True):
    scheduler_name: str = ""
    min_available: int = 0
    queue: str = ""
    priority_class_name: str = ""
    tasks: list[TaskSpec] | None = None
    volumes: list[JobVolume] | None = None
    max_retry: int = 0


class VolcanoJobState(Part, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class VolcanoJobStatus(Part, frozen=True):
    state: VolcanoJobState | None = None
    min_available: int = 0
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    retry_count: int = 0


class VolcanoJob(Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: VolcanoJobSpec = VolcanoJobSpec()
    status: VolcanoJobStatus = VolcanoJobStatus()


# --- nodeinfo.volcano.sh/v1alpha1 ---------------------------------------------------------------------------------


class NumaResource(Part, frozen=True):
    allocatable: str = ""
    capacity: int = 0


class NumatopologySpec(Part, frozen=True):
    policies: dict[str, str] | None = None
    res_reserved: dict[str, str] | None = None
    numares: dict[str, NumaResource] | None = None


class Numatopology(Part, frozen=True):
    """Cluster-scoped; its name is its node's."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NumatopologySpec = NumatopologySpec()


# --- scheduling.k8s.io/v1, storage.k8s.io/v1 ----------------------------------------------------------------------


class PriorityClass(Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class TopologySelectorRequirement(Part, frozen=True):
    key: str = ""
    values: list[str] | None = None


class TopologySelectorTerm(Part, frozen=True):
    match_label_expressions: list[TopologySelectorRequirement] | None = None


class StorageClass(Part, frozen=True):
    """volume_binding_mode None means Immediate."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    parameters: dict[str, str] | None = None
    volume_binding_mode: str | None = None
    reclaim_policy: str | None = None
    allow_volume_expansion: bool | None = None
    allowed_topologies: list[TopologySelectorTerm] | None = None


class VolumeNodeResources(Part, frozen=True):
    count: int | None = None


class CSINodeDriver(Part, frozen=True):
    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: list[str] | None = None
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Part, frozen=True):
    drivers: list[CSINodeDriver] | None = None


class CSINode(Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIStorageCapacity(Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None
    node_topology: LabelSelector | None = None


__all__ = [
    "CSINode",
    "CSINodeDriver",
    "CSIStorageCapacity",
    "NodeSelectorRequirement",
    "Numatopology",
    "PodGroup",
    "PriorityClass",
    "Queue",
    "StorageClass",
    "VolcanoJob",
]
