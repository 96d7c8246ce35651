"""What the evaluation looks at, as plain values: nodes, pods on them, claims, volumes, groups, queues.

Owns the input shapes of the diagnosis. Must not know the cache's classes nor the log: `vcledger.why` fills them in.
Called by every module of `projections.diagnosis`.

Amounts are in the scheduler's own units (Volcano api.Resource): cpu in milli-cores, memory in bytes, `pods` and
`attachable-volumes-*` in units, every other resource in thousandths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import msgspec

from projections.diagnosis.unasked import ALL_ASKED, unasked
from volcano.objects.core import Affinity, Node, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota
from volcano.objects.intree import inline_attachment
from volcano.objects.scheduling import CSINode, CSIStorageCapacity, PodGroup, Queue, StorageClass

Amounts: TypeAlias = dict[str, float]
"""Resource name to amount, in the scheduler's units."""

GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""A pod's PodGroup stands under one of these annotations."""

PLANNED_UID = "planned-"
"""How the uid of a pod begins that its job has yet to make."""

ROLE_ANNOTATION = "volcano.sh/task-spec"
INDEX_LABEL = "volcano.sh/task-index"


class HostPort(NamedTuple):
    """A port that a pod takes on its node; ip '' or 0.0.0.0 means all addresses."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod on a node, as far as it matters to other pods. `attached` are volumes of its own, without a claim, that a
    CSI driver attaches: (in-tree plugin, driver, handle). `created` is its age among those that may have to go,
    `unasked` what it counts for beyond its request (milli-cores, bytes)."""

    namespace: str
    name: str
    uid: str
    node: str
    labels: Mapping[str, str]
    host_ports: tuple[HostPort, ...] = ()
    affinity: Affinity | None = None
    claims: tuple[str, ...] = ()
    attached: tuple[tuple[str, str, str], ...] = ()
    deleting: bool = False
    created: str = ""
    unasked: tuple[float, float] = ALL_ASKED

    @staticmethod
    def of(pod: Pod, node: str = "") -> PlacedPod:
        """From a pod object; `node` in place of its own for a pod that is only placed on trial."""
        meta = pod.metadata
        return PlacedPod(
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            node=node or pod.spec.node_name,
            labels=meta.labels or {},
            host_ports=host_ports(pod),
            affinity=pod.spec.affinity,
            claims=tuple(claim for claim, _ in claim_names(pod)),
            attached=attached_inline(pod),
            deleting=meta.deletion_timestamp is not None,
            created=meta.creation_timestamp or "",
            unasked=unasked(pod),
        )


class NodeView(msgspec.Struct, frozen=True):
    """A node at the position. `schedulable` says that the scheduler's snapshot has it (phase Ready); `position` is
    where the log last saw it. `pods` counts the tasks on it, with `assumed` ones that wait for a volume there and are
    not bound yet (taken off idle too)."""

    name: str
    node: Node | None
    allocatable: Amounts
    idle: Amounts
    releasing: Amounts = msgspec.field(default_factory=dict)
    pipelined: Amounts = msgspec.field(default_factory=dict)
    pods: int = 0
    pods_max: int | None = None
    schedulable: bool = True
    phase_reason: str = ""
    position: int = 0
    assumed: int = 0

    @property
    def labels(self) -> Mapping[str, str]:
        return (self.node.metadata.labels or {}) if self.node is not None else {}

    @property
    def future_idle(self) -> Amounts:
        """Idle plus what is being released minus what is promised (NodeInfo.FutureIdle)."""
        if not self.releasing and not self.pipelined:
            return self.idle
        future = dict(self.idle)
        for name, amount in self.releasing.items():
            future[name] = future.get(name, 0.0) + amount
        for name, amount in self.pipelined.items():
            future[name] = future.get(name, 0.0) - amount
        return future


@dataclass(frozen=True, slots=True)
class TaskView:
    """A member of a group. `status` is the cache's word (Pending, Running, …); `pod` is loaded for those whose
    placement is evaluated. `request` is the init request, `best_effort` that it asks for nothing but a pod's place.

    `unreported` is what the cache counts besides for claims whose driver no CSINode reports. A scheduler that was told
    to ignore their provisioner asks for none of it, and its arguments are not in the log, so it stays out of
    `request`."""

    namespace: str
    name: str
    uid: str
    status: str
    request: Amounts
    best_effort: bool = False
    role: str = ""
    index: int | None = None
    priority: int = 0
    created: str = ""
    node: str = ""
    gated: bool = False
    pod: Pod | None = None
    position: int = 0
    unreported: Amounts = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class GroupView:
    """A PodGroup and its tasks. `pod_group` is None when pods name a group that does not exist; `priority` is that of
    its job (its priority class's), None where it is not known."""

    namespace: str
    name: str
    pod_group: PodGroup | None
    tasks: Sequence[TaskView]
    position: int = 0
    owner: str = ""
    priority: int | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def min_member(self) -> int:
        return self.pod_group.spec.min_member if self.pod_group is not None else 0


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue with what its jobs hold and ask: `allocated` of running and bound tasks, `requested` that plus pending
    tasks, `inqueue` the minResources of admitted jobs that hold less, `elastic` what jobs hold above their minimum."""

    name: str
    queue: Queue
    allocated: Amounts
    requested: Amounts
    inqueue: Amounts
    elastic: Amounts = field(default_factory=dict)
    has_jobs: bool = True
    position: int = 0


@dataclass(frozen=True, slots=True)
class Occupant:
    """A pod on a node, as far as it matters who could make room. `job` is its job's key, '' for a pod of no job;
    `queue` and `job_priority` are that job's, `spare` how many members that holds above minMember; `ours`: the
    scheduler looks after it; `critical`: the conformance plugin shields it (kube-system, or a system-critical
    priority)."""

    key: str
    uid: str
    node: str
    status: str
    request: Amounts
    priority: int = 0
    preemptable: bool = True
    best_effort: bool = False
    job: str = ""
    queue: str = ""
    job_priority: int = 0
    spare: int = 0
    ours: bool = True
    critical: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """What of the scheduler's configuration the answer rests on; Volcano's own defaults where it is not known
    (`actions` is then None). `overcommit` None: no such plugin, so the cluster gates nothing. `quota`: ResourceQuotas
    do too (the resourcequota plugin). `share` is the plugin that divides the cluster among queues: proportion, capacity
    or ''. `keepers` are the plugins that may spare a victim of preempt, `reclaim_keepers` one of reclaim."""

    actions: tuple[str, ...] | None = None
    overcommit: float | None = 1.2
    quota: bool = False
    share: str = "proportion"
    keepers: tuple[str, ...] = ("priority", "gang", "conformance")
    reclaim_keepers: tuple[str, ...] = ("gang", "conformance", "proportion")


@dataclass(slots=True)
class ClusterView:
    """Everything else at the position. `pods` holds only what the pod's own constraints need (see
    `nodes.is_interdependent`); keys of claims are `namespace/name`. `capacities`: what drivers say that they have room
    for, where the scheduler goes by that. `ignores_access_modes`: the scheduler does not run
    VolumeRestrictions, as Volcano does not. `occupants` gives the pods on a node, by its name, `holders` those of a
    queue that are on nodes; `rules` what is known of the scheduler's configuration. `memo` is what questions
    about it share: the node tables of pods that are alike, the trials of groups."""

    nodes: Sequence[NodeView]
    pods: Sequence[PlacedPod] = ()
    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)
    csi_nodes: Mapping[str, CSINode] = field(default_factory=dict)
    capacities: Mapping[str, CSIStorageCapacity] = field(default_factory=dict)
    queues: Mapping[str, QueueView] = field(default_factory=dict)
    queue_objects: Mapping[str, Queue] | None = None
    quotas: Mapping[str, ResourceQuota] = field(default_factory=dict)
    positions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    ignores_conditions: bool = True
    ignores_access_modes: bool = False
    occupants: Callable[[str], Sequence[Occupant]] | None = None
    holders: Callable[[str], Sequence[Occupant]] | None = None
    rules: Rules = Rules()
    memo: dict[object, Any] = field(default_factory=dict)
    _sums: dict[str, Amounts] = field(default_factory=dict)

    def allocatable(self) -> Amounts:
        """All that the nodes of the scheduler's snapshot have; added up once."""
        return self._sum("allocatable", lambda node: node.allocatable)

    def idle(self) -> Amounts:
        """All that is idle on them."""
        return self._sum("idle", lambda node: node.idle)

    def sums_with(self, come: Sequence[NodeView], gone: Sequence[NodeView]) -> dict[str, Amounts]:
        """The sums that are known, once some nodes have come and others gone."""
        sums = {name: dict(amounts) for name, amounts in self._sums.items()}
        for nodes, sign in ((come, 1.0), (gone, -1.0)):
            for node in nodes if sums else ():
                for name, part in (("allocatable", node.allocatable), ("idle", node.idle)) if node.schedulable else ():
                    for resource, amount in part.items() if name in sums else ():
                        sums[name][resource] = sums[name].get(resource, 0.0) + sign * amount
        return sums

    def _sum(self, name: str, part: Callable[[NodeView], Amounts]) -> Amounts:
        if name not in self._sums:
            added: Amounts = {}
            for node in self.schedulable_nodes():
                for resource, amount in part(node).items():
                    added[resource] = added.get(resource, 0.0) + amount
            self._sums[name] = added
        return self._sums[name]

    def schedulable_nodes(self) -> list[NodeView]:
        """The nodes of the scheduler's snapshot, sought once; nobody changes the list."""
        of, found = self.memo.get("schedulable", (None, []))
        if of is not self.nodes:
            found = [node for node in self.nodes if node.schedulable]
            self.memo["schedulable"] = self.nodes, found
        known: list[NodeView] = found
        return known

    def by_name(self) -> Mapping[str, NodeView]:
        """Every node by its name, put together once."""
        of, found = self.memo.get("by-name", (None, {}))
        if of is not self.nodes:
            found = {node.name: node for node in self.nodes}
            self.memo["by-name"] = self.nodes, found
        known: Mapping[str, NodeView] = found
        return known

    def named(self, prefix: str) -> int:
        """How many nodes have a name that begins so, counted once."""
        of, found = self.memo.get(("named", prefix), (None, 0))
        if of is not self.nodes:
            found = sum(node.name.startswith(prefix) for node in self.nodes)
            self.memo["named", prefix] = self.nodes, found
        number: int = found
        return number

    def known_queues(self) -> Mapping[str, Queue]:
        """The queue objects by name, without their sums where those are only made when asked for."""
        if self.queue_objects is not None:
            return self.queue_objects
        return {name: view.queue for name, view in self.queues.items()}


def group_name(pod: Pod) -> str:
    """The name of the pod's PodGroup, '' without an annotation (Volcano getJobID)."""
    annotations = pod.metadata.annotations or {}
    for name in GROUP_ANNOTATIONS:
        if annotations.get(name):
            return annotations[name]
    return ""


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The ports that the pod's containers take on the node, sidecars (restartable init containers) among them."""
    sidecars = [one for one in pod.spec.init_containers or () if one.restart_policy == "Always"]
    return tuple(
        HostPort(port.host_ip, port.protocol or "TCP", port.host_port)
        for container in [*(pod.spec.containers or ()), *sidecars]
        for port in container.ports or ()
        if port.host_port > 0
    )


def attached_inline(pod: Pod) -> tuple[tuple[str, str, str], ...]:
    """The pod's own volumes that a CSI driver attaches, as in PlacedPod."""
    found = [inline_attachment(volume) for volume in pod.spec.volumes or () if volume.persistent_volume_claim is None]
    return tuple(one for one in found if one is not None)


def claim_names(pod: Pod) -> list[tuple[str, bool]]:
    """The claims of the pod's volumes as (name, is ephemeral); an ephemeral volume's claim is `POD-VOLUME`."""
    names = []
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            names.append((volume.persistent_volume_claim.claim_name, False))
        elif volume.ephemeral is not None:
            names.append((f"{pod.metadata.name}-{volume.name}", True))
    return names
