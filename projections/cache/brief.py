"""A pod with only what the fold reads of it: a leaner struct than `volcano.objects.core.Pod`, so decoded in less time.

Owns the struct and the way to it. Must not know what the fold makes of it. Called by `projections.cache.fold`,
`.tasks`, `.pods` and `.actions`; whoever decodes for the fold may decode into it straight away.

Of the annotations and labels it names the few that count, and a container's requests stay raw JSON: the same text
gives the same Resource, so most are never parsed (`tasks.pod_request`). Readers of the whole pod load it by its
position. What is skipped is not checked: a malformed toleration is refused in a `Pod`, not in a `PodBrief`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from volcano.objects.core import ClaimVolumeSource, Pod
from volcano.objects.meta import Part, ResourceMap

GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
ROLE_KEY = "volcano.sh/task-spec"
PREEMPTABLE_KEY = "volcano.sh/preemptable"
REVOCABLE_ZONE_KEY = "volcano.sh/revocable-zone"
PRIORITY_ANNOTATION = "volcano.sh/task-priority"


class Present(Part, frozen=True):
    """Something of which only counts that it is there."""


class Annotations(Part, frozen=True):
    """None: the pod has no such annotation."""

    group: str | None = msgspec.field(default=None, name=GROUP_ANNOTATION)
    role: str | None = msgspec.field(default=None, name=ROLE_KEY)
    preemptable: str | None = msgspec.field(default=None, name=PREEMPTABLE_KEY)
    revocable_zone: str | None = msgspec.field(default=None, name=REVOCABLE_ZONE_KEY)
    priority: str | None = msgspec.field(default=None, name=PRIORITY_ANNOTATION)


class Labels(Part, frozen=True):
    """None: the pod has no such label."""

    role: str | None = msgspec.field(default=None, name=ROLE_KEY)
    preemptable: str | None = msgspec.field(default=None, name=PREEMPTABLE_KEY)


class BriefMeta(Part, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: Labels | None = None
    annotations: Annotations | None = None


class BriefPort(Part, frozen=True):
    host_port: int = 0


class BriefResources(Part, frozen=True):
    """`requests` is the map's JSON, empty or `null` for none."""

    requests: msgspec.Raw = msgspec.Raw()


class BriefContainer(Part, frozen=True):
    resources: BriefResources | None = None
    ports: list[BriefPort] | None = None
    restart_policy: str | None = None


class BriefAffinity(Part, frozen=True):
    node_affinity: Present | None = None
    pod_affinity: Present | None = None
    pod_anti_affinity: Present | None = None


class BriefVolume(Part, frozen=True):
    name: str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None
    ephemeral: Present | None = None


class BriefSpec(Part, frozen=True):
    volumes: list[BriefVolume] | None = None
    init_containers: list[BriefContainer] | None = None
    containers: list[BriefContainer] | None = None
    node_name: str = ""
    scheduler_name: str = ""
    affinity: BriefAffinity | None = None
    priority: int | None = None
    host_network: bool = False
    overhead: ResourceMap | None = None
    scheduling_gates: list[Present] | None = None
    topology_spread_constraints: list[Present] | None = None


class BriefStatus(Part, frozen=True):
    phase: str = ""


class PodBrief(Part, frozen=True):
    metadata: BriefMeta = BriefMeta()
    spec: BriefSpec = BriefSpec()
    status: BriefStatus = BriefStatus()


decode_brief = msgspec.json.Decoder(PodBrief).decode
"""A pod's JSON to its brief; raises msgspec.ValidationError or msgspec.DecodeError."""


def brief_of(pod: Pod | PodBrief | Any) -> PodBrief:
    """The brief of a pod that was decoded whole, by way of its JSON, so that both ways give the same."""
    return pod if type(pod) is PodBrief else decode_brief(msgspec.json.encode(pod))


__all__ = [
    "GROUP_ANNOTATION",
    "PREEMPTABLE_KEY",
    "PRIORITY_ANNOTATION",
    "REVOCABLE_ZONE_KEY",
    "ROLE_KEY",
    "Annotations",
    "BriefContainer",
    "BriefSpec",
    "Labels",
    "PodBrief",
    "brief_of",
    "decode_brief",
]
