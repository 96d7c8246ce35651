"""From the cache and the log to the values that the diagnosis looks at.

Owns that adapter. Must not know verdicts nor wording. Called by `vcledger.why`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from projections.cache.jobs import priority_of
from projections.cache.state import (
    HAS_ANTI_AFFINITY,
    HAS_HOST_PORTS,
    Cache,
    JobInfo,
    NodeInfo,
    PodRef,
    TaskInfo,
)
from projections.diagnosis.amounts import subtract, total
from projections.diagnosis.claims import fully_bound, selected_node
from projections.diagnosis.nodes import is_interdependent
from projections.diagnosis.views import (
    INDEX_LABEL,
    ROLE_ANNOTATION,
    Amounts,
    ClusterView,
    GroupView,
    NodeView,
    Occupant,
    PlacedPod,
    Rules,
    TaskView,
)
from vcledger.why_planned import holders, occupants
from vcledger.why_queues import Queues, present, quick
from volcano.events.base import Recorded
from volcano.objects.core import Pod
from volcano.objects.resource import CSI_ATTACH_PREFIX, Resource
from volcano.objects.status import STATUS_WORDS, TaskStatus, task_status

if TYPE_CHECKING:
    from vcledger.ledger import Ledger


def node_view(info: NodeInfo, size: Amounts | None = None) -> NodeView:
    """A node of the cache. `size`: its allocatable, where it is made already."""
    return NodeView(
        info.name,
        info.node,
        quick(info.allocatable) if size is None else size,
        quick(info.idle),
        present(info.releasing),
        present(info.pipelined),
        info.task_count,
        info.allocatable.max_task_num or None,
        info.ready,
        info.reason,
        info.position,
    )


def reported_attachments(cache: Cache) -> frozenset[str]:
    """The attach resources of which some node has any."""
    return frozenset(
        name
        for info in cache.nodes.values()
        for name, amount in (info.allocatable.scalars or {}).items()
        if amount > 0 and name.startswith(CSI_ATTACH_PREFIX)
    )


def _parted(request: Resource, reported: frozenset[str]) -> tuple[Amounts, Amounts]:
    """A request, and what of it is for drivers that no CSINode reports."""
    everything = request.amounts()
    unreported = {
        name: amount
        for name, amount in everything.items()
        if name.startswith(CSI_ATTACH_PREFIX) and name not in reported
    }
    return {name: amount for name, amount in everything.items() if name not in unreported}, unreported


def task_view(task: TaskInfo, pod: Pod | None, position: int, reported: frozenset[str]) -> TaskView:
    """A task of a job."""
    request, unreported = _parted(task.resreq, reported)
    meta = pod.metadata if pod is not None else None
    return TaskView(
        namespace=task.namespace,
        name=task.name,
        uid=task.uid,
        status=STATUS_WORDS.get(task.status, "Unknown"),
        request=request,
        unreported=unreported,
        best_effort=task.best_effort,
        role=task.role or ((meta.annotations or {}).get(ROLE_ANNOTATION, "") if meta is not None else ""),
        index=_index(meta.labels if meta is not None else None),
        priority=task.priority,
        created=(meta.creation_timestamp or "") if meta is not None else "",
        node=task.node_name,
        gated=task.gated,
        pod=pod,
        position=position,
    )


def _index(labels: Mapping[str, str] | None) -> int | None:
    text = (labels or {}).get(INDEX_LABEL, "")
    return int(text) if text.isascii() and text.isdigit() else None


def lone_task(ref: PodRef, pod: Pod) -> TaskView:
    """A pod of no job as a task. Its request is what its containers ask for."""
    request = ref.request
    return TaskView(
        namespace=ref.namespace,
        name=ref.name,
        uid=ref.uid,
        status=STATUS_WORDS[task_status(ref.phase, ref.deleting, ref.node_name)],
        request=request.amounts(),
        best_effort=request.is_empty(),
        priority=pod.spec.priority or 0,
        created=pod.metadata.creation_timestamp or "",
        node=ref.node_name,
        gated=ref.gated,
        pod=pod,
        position=ref.position,
    )


def group_view(ledger: Ledger, cache: Cache, job: JobInfo, reported: frozenset[str]) -> GroupView:
    """A job of the cache with the pods of its pending tasks loaded. `reported`: the cache's `reported_attachments`."""
    pending = [task for task in job.tasks.values() if task.status == TaskStatus.PENDING]
    refs = {task.uid: cache.pods.get(task.key) for task in pending}
    positions = {uid: ref.position for uid, ref in refs.items() if ref is not None and ref.uid == uid}
    objects = ledger.objects(positions.values())
    tasks = [
        task_view(task, objects.get(positions.get(task.uid, 0)), positions.get(task.uid, 0), reported)
        for task in job.tasks.values()
    ]
    name = job.name or job.uid.partition("/")[2]
    return GroupView(
        namespace=job.namespace or job.uid.partition("/")[0],
        name=name,
        pod_group=job.pod_group,
        tasks=tasks,
        position=job.position,
        owner=_owner(job, tasks),
        priority=priority_of(cache, job),
    )


def _owner(job: JobInfo, tasks: Sequence[TaskView]) -> str:
    """Who should make the group's pods: the PodGroup's owner, else the owner of a pod."""
    metas: list[Any] = [job.pod_group.metadata] if job.pod_group is not None else []
    metas += [task.pod.metadata for task in tasks if task.pod is not None][:1]
    for meta in metas:
        for owner in meta.owner_references or ():
            return f"{owner.kind} {owner.name}"
    return ""


class Views:
    """What questions about one state of one ledger share: its nodes, queues and groups, looked at once. `free`: uids of
    pods that hold nothing although a volume was asked for them (see `assumed`); `in_flight`: node by uid of pods that
    hold their requests there although no watch shows it; `rules`: what is known of the scheduler's configuration."""

    def __init__(
        self,
        ledger: Ledger,
        cache: Cache,
        free: frozenset[str] = frozenset(),
        in_flight: Mapping[str, str] | None = None,
        rules: Rules | None = None,
    ) -> None:
        self.ledger, self.cache, self.free, self.in_flight = ledger, cache, free, in_flight or {}
        self.rules = rules or Rules()
        self._groups: dict[str, GroupView] = {}
        self._holders: dict[str, list[Occupant]] = {}
        self.late_groups: dict[tuple[int, int | None], tuple[list[Recorded], Recorded | None]] = {}

    @cached_property
    def reported(self) -> frozenset[str]:
        """See `reported_attachments`."""
        return reported_attachments(self.cache)

    @cached_property
    def nodes(self) -> list[NodeView]:
        """The nodes by name, with nothing assumed on them. Those that share their size in the cache share it here."""
        sizes: dict[int, Amounts] = {}
        found = []
        for _, info in sorted(self.cache.nodes.items()):
            size = sizes.get(id(info.allocatable))
            if size is None:
                size = sizes[id(info.allocatable)] = quick(info.allocatable)
            found.append(node_view(info, size))
        return found

    @cached_property
    def plain(self) -> ClusterView:
        """The cluster for pods to which no pod that is there matters."""
        return self._cluster(self.nodes, [])

    def group(self, job: JobInfo) -> GroupView:
        """See `group_view`."""
        if job.uid not in self._groups:
            self._groups[job.uid] = group_view(self.ledger, self.cache, job, self.reported)
        return self._groups[job.uid]

    def cluster(self, pods: Iterable[Pod], only: str = "") -> ClusterView:
        """The cluster as far as these pods' predicates need it. `only`: of the nodes just this one is asked about; the
        others are left out where no pod that is there matters."""
        asking = list(pods)
        held = self._held(frozenset(pod.metadata.uid for pod in asking))
        placed = placed_pods(self.ledger, self.cache, asking)
        nodes = self._only(only) if only and not placed else self.nodes
        if not held and not placed and nodes is self.nodes:
            return self.plain
        nodes = [holding(node, held.get(node.name, [])) for node in nodes] if held else nodes
        return self._cluster(nodes, placed)

    def _held(self, asking: frozenset[str]) -> dict[str, list[Amounts]]:
        """What pods hold by node without being there, those left out that ask."""
        held = assumed(self.cache, self.free | asking)
        for ref in self.cache.pods.values() if self.in_flight else ():
            if ref.uid in self.in_flight and not ref.node_name and ref.uid not in asking:
                held.setdefault(self.in_flight[ref.uid], []).append(ref.request.amounts())
        return held

    def _only(self, name: str) -> list[NodeView]:
        info = self.cache.nodes.get(name)
        return [node_view(info)] if info is not None else []

    def _cluster(self, nodes: list[NodeView], placed: list[PlacedPod]) -> ClusterView:
        cache = self.cache
        return ClusterView(
            nodes=nodes,
            pods=placed,
            claims=cache.claims,
            volumes=cache.volumes,
            classes=cache.storage_classes,
            csi_nodes=cache.csi_nodes,
            capacities=cache.storage_capacities if cache.policy.name == "exact" else {},
            queues=self.queues,
            queue_objects=cache.queues,
            quotas=cache.quotas,
            positions=cache.positions,
            ignores_conditions=not cache.policy.freezes_not_ready,
            ignores_access_modes=cache.policy.name != "exact",
            occupants=lambda name: occupants(cache, name),
            holders=self.holders,
            rules=self.rules,
        )

    def holders(self, queue: str) -> list[Occupant]:
        """See `vcledger.why_planned.holders`."""
        if queue not in self._holders:
            self._holders[queue] = holders(self.cache, queue)
        return self._holders[queue]

    @cached_property
    def queues(self) -> Queues:
        """The queues, with their jobs' sums."""
        return Queues(self.cache)


def assumed_on(cache: Cache, but: frozenset[str] = frozenset()) -> dict[str, tuple[PodRef, str]]:
    """By uid the pods that wait for a volume to be made, and the node for which it was asked (the claim's selected-node
    annotation): the scheduler counts them there from then on, though no watch shows it. `but`: uids of pods that are
    themselves being placed."""
    found: dict[str, tuple[PodRef, str]] = {}
    for ref in cache.pods.values():
        if ref.node_name or not ref.claims or ref.phase not in {"", "Pending"} or ref.uid in but or ref.deleting:
            continue
        for name in ref.claims:
            claim = cache.claims.get(f"{ref.namespace}/{name.removeprefix('=')}")
            if claim is not None and not fully_bound(claim) and selected_node(claim):
                found[ref.uid] = ref, selected_node(claim)
                break
    return found


def assumed(cache: Cache, but: frozenset[str]) -> dict[str, list[Amounts]]:
    """What those pods hold, by node."""
    held: dict[str, list[Amounts]] = {}
    for ref, node in assumed_on(cache, but).values():
        held.setdefault(node, []).append(ref.request.amounts())
    return held


def holding(node: NodeView, held: Sequence[Amounts]) -> NodeView:
    """A node with what is assumed on it taken off."""
    if not held:
        return node
    return replace(node, idle=subtract(node.idle, total(held)), pods=node.pods + len(held), assumed=len(held))


def placed_pods(ledger: Ledger, cache: Cache, pods: Sequence[Pod]) -> list[PlacedPod]:
    """The pods on nodes that can stand in these pods' way: always those with an anti-affinity of their own; all of them
    when one of ours looks at other pods' labels; those with host ports or claims when ours ask for such."""
    interdependent = [pod for pod in pods if is_interdependent(pod)]
    looks_at_labels = any(
        (pod.spec.affinity is not None and (pod.spec.affinity.pod_affinity or pod.spec.affinity.pod_anti_affinity))
        or pod.spec.topology_spread_constraints
        for pod in interdependent
    )
    wants_ports = any(container.ports for pod in interdependent for container in pod.spec.containers or ())
    wants_claims = any(pod.spec.volumes for pod in interdependent)
    refs = [
        ref
        for ref in cache.pods.values()
        if ref.node_name
        and ref.phase not in {"Succeeded", "Failed"}
        and (
            looks_at_labels
            or ref.flags & HAS_ANTI_AFFINITY
            or (wants_ports and ref.flags & HAS_HOST_PORTS)
            or (wants_claims and ref.claims)
        )
    ]
    objects = ledger.objects([ref.position for ref in refs])
    return [PlacedPod.of(objects[ref.position], ref.node_name) for ref in refs if ref.position in objects]
