"""core/v1: Pod, Node, ResourceQuota, PersistentVolume, PersistentVolumeClaim, Event (and events.k8s.io/v1).

Owns the partial structs of these kinds. Must not know what the cache makes of them. Called through
`volcano.objects.kinds`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from volcano.objects.meta import (
    LabelSelector,
    ObjectMeta,
    ObjectReference,
    Part,
    ResourceMap,
)

# --- selectors on nodes -------------------------------------------------------------------------------------------


class NodeSelectorRequirement(Part, frozen=True):
    """operator is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(Part, frozen=True):
    """All requirements of a term must hold; a term without any matches nothing."""

    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Part, frozen=True):
    """One of the terms must hold."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(Part, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Part, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(Part, frozen=True):
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Part, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(Part, frozen=True):
    """Serves both podAffinity and podAntiAffinity, which have the same shape."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class Affinity(Part, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


# --- Pod ----------------------------------------------------------------------------------------------------------


class ResourceRequirements(Part, frozen=True):
    requests: ResourceMap | None = None
    limits: ResourceMap | None = None


class ContainerPort(Part, frozen=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Part, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None


class Toleration(Part, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodSchedulingGate(Part, frozen=True):
    name: str = ""


class TopologySpreadConstraint(Part, frozen=True):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class ClaimVolumeSource(Part, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class ClaimTemplate(Part, frozen=True):
    metadata: ObjectMeta | None = None
    spec: PersistentVolumeClaimSpec | None = None


class EphemeralVolumeSource(Part, frozen=True):
    volume_claim_template: ClaimTemplate | None = None


class CSIInlineSource(Part, frozen=True):
    driver: str = ""


class InTreeSource(Part, frozen=True):
    """A volume source of a driver of Kubernetes' own: what names the volume, under each driver's word for it."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    pd_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    volume_path: str = ""
    share_name: str = ""
    secret_name: str = ""


class Volume(Part, frozen=True):
    """Of all sources only those that the scheduler reads."""

    name: str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CSIInlineSource | None = None
    aws_elastic_block_store: InTreeSource | None = None
    gce_persistent_disk: InTreeSource | None = None
    azure_disk: InTreeSource | None = None
    cinder: InTreeSource | None = None
    portworx_volume: InTreeSource | None = None


class PodSpec(Part, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: ResourceMap | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    volumes: list[Volume] | None = None
    scheduling_gates: list[PodSchedulingGate] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    host_network: bool = False
    restart_policy: str = ""


class PodCondition(Part, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None


class PodStatus(Part, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[PodCondition] | None = None
    nominated_node_name: str = ""
    start_time: str | None = None


class Pod(Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# --- Node ---------------------------------------------------------------------------------------------------------


class Taint(Part, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Part, frozen=True):
    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeCondition(Part, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerImage(Part, frozen=True):
    names: list[str] | None = None
    size_bytes: int = 0


class NodeStatus(Part, frozen=True):
    allocatable: ResourceMap | None = None
    capacity: ResourceMap | None = None
    conditions: list[NodeCondition] | None = None
    images: list[ContainerImage] | None = None
    volumes_in_use: list[str] | None = None


class Node(Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# --- ResourceQuota ------------------------------------------------------------------------------------------------


class ResourceQuotaSpec(Part, frozen=True):
    hard: ResourceMap | None = None
    scopes: list[str] | None = None
    scope_selector: dict[str, Any] | None = None


class ResourceQuotaStatus(Part, frozen=True):
    hard: ResourceMap | None = None
    used: ResourceMap | None = None


class ResourceQuota(Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


# --- PersistentVolume and PersistentVolumeClaim -------------------------------------------------------------------


class CSIVolumeSource(Part, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Part, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Part, frozen=True):
    """`csi` and the in-tree sources that are translated to CSI (`volcano.objects.intree`); of the latter only what
    names the volume."""

    capacity: ResourceMap | None = None
    access_modes: list[str] | None = None
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIVolumeSource | None = None
    aws_elastic_block_store: InTreeSource | None = None
    gce_persistent_disk: InTreeSource | None = None
    azure_disk: InTreeSource | None = None
    azure_file: InTreeSource | None = None
    cinder: InTreeSource | None = None
    vsphere_volume: InTreeSource | None = None
    portworx_volume: InTreeSource | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeStatus(Part, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""


class PersistentVolume(Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimSpec(Part, frozen=True):
    """`storage_class_name` None (dynamic default) differs from '' (no class)."""

    access_modes: list[str] | None = None
    selector: LabelSelector | None = None
    resources: ResourceRequirements | None = None
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Part, frozen=True):
    phase: str = ""
    capacity: ResourceMap | None = None


class PersistentVolumeClaim(Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


# --- Event --------------------------------------------------------------------------------------------------------


class EventSource(Part, frozen=True):
    component: str = ""
    host: str = ""


class EventSeries(Part, frozen=True):
    count: int | None = None
    last_observed_time: str | None = None


class Event(Part, frozen=True):
    """core/v1 Event and events.k8s.io/v1 Event in one struct: both names of each field are read.

    core: involvedObject, message, count, firstTimestamp, lastTimestamp, source, reportingComponent.
    events.k8s.io: regarding, note, deprecatedCount, deprecatedFirstTimestamp, deprecatedLastTimestamp,
    reportingController, series. Times may be null, and counts stand in four places.
    """

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference | None = None
    regarding: ObjectReference | None = None
    reason: str = ""
    message: str = ""
    note: str = ""
    type: str = ""
    action: str = ""
    count: int | None = None
    deprecated_count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None
    source: EventSource | None = None
    deprecated_source: EventSource | None = None
    reporting_component: str = ""
    reporting_controller: str = ""
