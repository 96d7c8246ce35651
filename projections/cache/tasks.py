"""From a pod to what the cache makes of it: its request, its PodRef and its TaskInfo.

Owns the derivation. Must not know nodes, jobs or the order of events. Called by `projections.cache.pods` and
`projections.cache.actions`.

Source: Volcano's GetPodResourceRequest, NewTaskInfo, getJobID, getTaskRole, GetPodPreemptable, GetPodRevocableZone
(vectors 001 to 007, 027).
"""

from __future__ import annotations

from typing import Any

import msgspec

from projections.cache.brief import (
    GROUP_ANNOTATION,
    PREEMPTABLE_KEY,
    REVOCABLE_ZONE_KEY,
    Annotations,
    BriefContainer,
    BriefSpec,
    Labels,
    PodBrief,
)
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
from volcano.objects.meta import ResourceMap
from volcano.objects.quantity import QuantityInvalid
from volcano.objects.resource import EPSILON, PODS, Resource, new_resource
from volcano.objects.status import task_status

OWN_CLAIM = "="
"""Before the name of a claim that is made for the pod itself (a generic ephemeral volume)."""

_REQUESTS_MAX = 100_000
_NO_ANNOTATIONS, _NO_LABELS = Annotations(), Labels()
_decode_map = msgspec.json.Decoder(ResourceMap | None).decode


def pod_request(cache: Cache, spec: BriefSpec) -> Resource:
    """What a pod asks for, `pods` 1 included (fact 1). The same Resource for the same JSON: nobody changes it.
    Raises QuantityInvalid."""
    containers = spec.containers
    key: Any
    if spec.init_containers or spec.overhead or containers is None or len(containers) != 1:
        key = (
            tuple(map(_requests, containers or ())),
            tuple((_requests(c), c.restart_policy == "Always") for c in spec.init_containers or ()),
            tuple((spec.overhead or {}).items()),
        )
    else:
        resources = containers[0].resources
        key = b"" if resources is None else bytes(resources.requests)
    known = cache.requests.get(key)
    if known is None:
        known = _sum_requests(spec, exact=not cache.policy.float64)
        if len(cache.requests) >= _REQUESTS_MAX:
            cache.requests.clear()
        cache.requests[key] = known
    return known


def _requests(container: BriefContainer) -> bytes:
    return b"" if container.resources is None else bytes(container.resources.requests)


def _map(container: BriefContainer) -> ResourceMap | None:
    """Raises QuantityInvalid for what is no map of quantities."""
    raw = _requests(container)
    try:
        return _decode_map(raw) if raw else None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise QuantityInvalid(f"requests are no map of quantities: {error}") from None


def _sum_requests(spec: BriefSpec, *, exact: bool) -> Resource:
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


def pod_claims(pod: PodBrief) -> tuple[str, ...]:
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


def _flags(spec: BriefSpec) -> int:
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
        ports = container.ports
        if ports and (spec.host_network or any(port.host_port for port in ports)):
            flags |= HAS_HOST_PORTS
    return flags


def pod_ref(cache: Cache, pod: PodBrief, position: int) -> PodRef:
    """The store's entry for a pod. Raises QuantityInvalid."""
    meta, spec = pod.metadata, pod.spec
    namespace, annotations = meta.namespace, meta.annotations
    group = annotations.group if annotations is not None else None
    version = "" if cache.policy.applies_stale else meta.resource_version
    return PodRef(
        namespace,
        meta.name,
        meta.uid,
        spec.node_name,
        pod.status.phase,
        spec.scheduler_name,
        f"{namespace}/{group}" if group else "",
        meta.deletion_timestamp is not None,
        bool(spec.scheduling_gates),
        _flags(spec),
        pod_request(cache, spec),
        pod_claims(pod) if spec.volumes else (),
        int(version) if version.isdecimal() else 0,
        position,
    )


def new_task(pod: PodBrief, ref: PodRef) -> TaskInfo:
    """The task of a pod, volumes not yet counted."""
    meta, spec, request = pod.metadata, pod.spec, ref.request
    annotations, labels = meta.annotations or _NO_ANNOTATIONS, meta.labels or _NO_LABELS
    preemptable, zone = annotations.preemptable, ""
    if preemptable is not None or annotations.revocable_zone is not None:
        zone = _zone(annotations.revocable_zone, preemptable)
    if preemptable is None:
        preemptable = labels.preemptable
    priority = 1 if spec.priority is None else spec.priority
    if annotations.priority is not None:
        asked = parse_int32(annotations.priority)
        priority = priority if asked is None else asked
    init = spec.init_containers
    return TaskInfo(
        ref.uid,
        ref.job,
        ref.namespace,
        ref.name,
        annotations.role or labels.role or "",
        task_status(ref.phase, ref.deleting, ref.node_name),
        ref.node_name,
        priority,
        True if preemptable is None else bool(parse_bool(preemptable)),
        request.milli_cpu < EPSILON and request.is_empty(),
        bool(init) and any(container.restart_policy == "Always" for container in init or ()),
        ref.gated,
        zone,
        request,
    )


def revocable_zone(annotations: dict[str, str]) -> str:
    """'*' or '': the zone annotation decides, else whether the pod or PodGroup says that it is preemptable."""
    return _zone(annotations.get(REVOCABLE_ZONE_KEY), annotations.get(PREEMPTABLE_KEY))


def _zone(zone: str | None, preemptable: str | None) -> str:
    if zone is not None:
        return zone if zone == "*" else ""
    return "*" if parse_bool(preemptable or "") else ""


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
