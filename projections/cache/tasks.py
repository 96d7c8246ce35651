"""From a pod to what the cache makes of it: its request, its PodRef and its TaskInfo.

Owns the derivation. Must not know nodes, jobs or the order of events. Called by `projections.cache.pods` and
`projections.cache.actions`.

Source: Volcano's GetPodResourceRequest, NewTaskInfo, getJobID, getTaskRole, GetPodPreemptable, GetPodRevocableZone
(vectors 001 to 007, 027).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from projections.cache.parsing import parse_bool, parse_int32
from projections.cache.state import (
    HAS_AFFINITY,
    HAS_ANTI_AFFINITY,
    HAS_HOST_PORTS,
    HAS_SPREAD,
    Cache,
    PodRef,
    TaskInfo,
)
from volcano.objects.core import Container, Pod, PodSpec
from volcano.objects.meta import ResourceMap
from volcano.objects.resource import PODS, Resource, new_resource
from volcano.objects.status import task_status

GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
ROLE_KEY = "volcano.sh/task-spec"
PREEMPTABLE_KEY = "volcano.sh/preemptable"
REVOCABLE_ZONE_KEY = "volcano.sh/revocable-zone"
PRIORITY_ANNOTATION = "volcano.sh/task-priority"
OWN_CLAIM = "="
"""Before the name of a claim that is made for the pod itself (a generic ephemeral volume)."""

_REQUESTS_MAX = 100_000
_NONE: dict[str, str] = {}


def pod_request(cache: Cache, spec: PodSpec) -> Resource:
    """What a pod asks for, `pods` 1 included (fact 1). The same Resource for the same maps: nobody changes it.
    Raises QuantityInvalid."""
    containers = spec.containers
    if spec.init_containers or spec.overhead or containers is None or len(containers) != 1:
        key: Any = (
            tuple(_requests(container) for container in containers or ()),
            tuple((_requests(c), c.restart_policy == "Always") for c in spec.init_containers or ()),
            tuple((spec.overhead or {}).items()),
        )
    else:
        key = _requests(containers[0])
    known = cache.requests.get(key)
    if known is None:
        known = _sum_requests(spec, exact=not cache.policy.float64)
        if len(cache.requests) >= _REQUESTS_MAX:
            cache.requests.clear()
        cache.requests[key] = known
    return known


def _requests(container: Container) -> tuple[tuple[str, Any], ...]:
    resources = container.resources
    return () if resources is None or not resources.requests else tuple(resources.requests.items())


def _map(container: Container) -> ResourceMap | None:
    return container.resources.requests if container.resources else None


def _sum_requests(spec: PodSpec, *, exact: bool) -> Resource:
    total = new_resource(None, exact=exact)
    for container in spec.containers or ():
        total.add(new_resource(_map(container), exact=exact))
    if spec.overhead:
        total.add(new_resource(spec.overhead, exact=exact))
    sidecars = new_resource(None, exact=exact)
    peak = new_resource(None, exact=exact)
    for container in spec.init_containers or ():
        request = new_resource(_map(container), exact=exact)
        if container.restart_policy == "Always":
            total.add(request)
            sidecars.add(request)
            peak.set_max(sidecars)
        else:
            request.add(sidecars)
            peak.set_max(request)
    total.set_max(peak)
    total.add_scalar(PODS, 1 if exact else 1.0)
    total.max_task_num = 0
    return total


def pod_claims(pod: Pod) -> tuple[str, ...]:
    """The names of the claims behind a pod's volumes, in order; '' for a volume whose claim has no name."""
    volumes = pod.spec.volumes
    if not volumes:
        return ()
    names = []
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{OWN_CLAIM}{pod.metadata.name}-{volume.name}")
    return tuple(names)


def _flags(spec: PodSpec) -> int:
    flags = 0
    affinity = spec.affinity
    if affinity is not None:
        if affinity.pod_affinity is not None or affinity.node_affinity is not None:
            flags |= HAS_AFFINITY
        if affinity.pod_anti_affinity is not None:
            flags |= HAS_ANTI_AFFINITY
    if spec.topology_spread_constraints:
        flags |= HAS_SPREAD
    for container in spec.containers or ():
        if container.ports and (spec.host_network or any(port.host_port for port in container.ports)):
            flags |= HAS_HOST_PORTS
    return flags


def pod_ref(cache: Cache, pod: Pod, position: int) -> PodRef:
    """The store's entry for a pod. Raises QuantityInvalid."""
    meta, spec = pod.metadata, pod.spec
    annotations = meta.annotations
    group = annotations.get(GROUP_ANNOTATION) if annotations else None
    version = "" if cache.policy.applies_stale else meta.resource_version
    return PodRef(
        meta.namespace,
        meta.name,
        meta.uid,
        spec.node_name,
        pod.status.phase,
        spec.scheduler_name,
        f"{meta.namespace}/{group}" if group else "",
        meta.deletion_timestamp is not None,
        bool(spec.scheduling_gates),
        _flags(spec),
        pod_request(cache, spec),
        pod_claims(pod) if spec.volumes else (),
        int(version) if version.isdecimal() else 0,
        position,
    )


def new_task(pod: Pod, ref: PodRef) -> TaskInfo:
    """The task of a pod, volumes not yet counted."""
    meta, spec = pod.metadata, pod.spec
    annotations, labels = meta.annotations or _NONE, meta.labels or _NONE
    preemptable = annotations.get(PREEMPTABLE_KEY)
    zone = revocable_zone(annotations) if preemptable is not None or REVOCABLE_ZONE_KEY in annotations else ""
    if preemptable is None:
        preemptable = labels.get(PREEMPTABLE_KEY)
    priority = 1 if spec.priority is None else spec.priority
    if PRIORITY_ANNOTATION in annotations:
        asked = parse_int32(annotations[PRIORITY_ANNOTATION])
        priority = priority if asked is None else asked
    init = spec.init_containers
    return TaskInfo(
        ref.uid,
        ref.job,
        ref.namespace,
        ref.name,
        annotations.get(ROLE_KEY) or labels.get(ROLE_KEY) or "",
        task_status(ref.phase, ref.deleting, ref.node_name),
        ref.node_name,
        priority,
        True if preemptable is None else bool(parse_bool(preemptable)),
        ref.request.is_empty(),
        bool(init) and _has_sidecar(init),
        ref.gated,
        zone,
        ref.request,
    )


def _has_sidecar(containers: Iterable[Container] | None) -> bool:
    return any(container.restart_policy == "Always" for container in containers or ())


def revocable_zone(annotations: dict[str, str]) -> str:
    """'*' or '': the zone annotation decides, else whether the pod or PodGroup says that it is preemptable."""
    zone = annotations.get(REVOCABLE_ZONE_KEY)
    if zone is not None:
        return zone if zone == "*" else ""
    return "*" if parse_bool(annotations.get(PREEMPTABLE_KEY, "")) else ""


__all__ = [
    "GROUP_ANNOTATION",
    "OWN_CLAIM",
    "PREEMPTABLE_KEY",
    "REVOCABLE_ZONE_KEY",
    "new_task",
    "pod_claims",
    "pod_ref",
    "pod_request",
    "revocable_zone",
]
