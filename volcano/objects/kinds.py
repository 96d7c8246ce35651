"""The table of kinds: API group, version, kind, resource name, scope and struct.

Owns the one place where a kind is listed; decoding by kind starts here. Must not know the cache.
Called by `volcano.events`, `projections` and `vcledger.sources`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from volcano.objects import core, scheduling
from volcano.objects.meta import ObjectMeta, Part


class Kind(NamedTuple):
    """One kind: `name` is our name for it (VolcanoJob for batch.volcano.sh Job, so that batch/v1 Job stays apart),
    `api_kind` what the object's `kind` says, `resource` the plural that URLs and recordings use."""

    name: str
    group: str
    versions: tuple[str, ...]
    api_kind: str
    resource: str
    namespaced: bool
    struct: type[Part]

    @property
    def full_resource(self) -> str:
        """`pods`, or `podgroups.scheduling.volcano.sh` for a custom resource's group."""
        return f"{self.resource}.{self.group}" if self.group.endswith("volcano.sh") else self.resource


KINDS: tuple[Kind, ...] = (
    Kind("Pod", "", ("v1",), "Pod", "pods", True, core.Pod),
    Kind("Node", "", ("v1",), "Node", "nodes", False, core.Node),
    Kind("PodGroup", "scheduling.volcano.sh", ("v1beta1",), "PodGroup", "podgroups", True, scheduling.PodGroup),
    Kind("Queue", "scheduling.volcano.sh", ("v1beta1",), "Queue", "queues", False, scheduling.Queue),
    Kind("VolcanoJob", "batch.volcano.sh", ("v1alpha1",), "Job", "jobs", True, scheduling.VolcanoJob),
    Kind("PersistentVolume", "", ("v1",), "PersistentVolume", "persistentvolumes", False, core.PersistentVolume),
    Kind(
        "PersistentVolumeClaim",
        "",
        ("v1",),
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        True,
        core.PersistentVolumeClaim,
    ),
    Kind("StorageClass", "storage.k8s.io", ("v1",), "StorageClass", "storageclasses", False, scheduling.StorageClass),
    Kind("CSINode", "storage.k8s.io", ("v1",), "CSINode", "csinodes", False, scheduling.CSINode),
    Kind(
        "CSIStorageCapacity",
        "storage.k8s.io",
        ("v1",),
        "CSIStorageCapacity",
        "csistoragecapacities",
        True,
        scheduling.CSIStorageCapacity,
    ),
    Kind(
        "PriorityClass",
        "scheduling.k8s.io",
        ("v1",),
        "PriorityClass",
        "priorityclasses",
        False,
        scheduling.PriorityClass,
    ),
    Kind("ResourceQuota", "", ("v1",), "ResourceQuota", "resourcequotas", True, core.ResourceQuota),
    Kind("Event", "", ("v1",), "Event", "events", True, core.Event),
    Kind("Event", "events.k8s.io", ("v1",), "Event", "events", True, core.Event),
    Kind(
        "Numatopology",
        "nodeinfo.volcano.sh",
        ("v1alpha1",),
        "Numatopology",
        "numatopologies",
        False,
        scheduling.Numatopology,
    ),
)

BY_NAME: dict[str, Kind] = {kind.name: kind for kind in reversed(KINDS)}
"""Our kind name to Kind; core/v1 wins for Event."""

BY_GROUP_KIND: dict[tuple[str, str], Kind] = {(kind.group, kind.api_kind): kind for kind in KINDS}
"""(API group, the object's `kind`) to Kind."""

BY_RESOURCE: dict[str, Kind] = {kind.full_resource: kind for kind in reversed(KINDS)}
"""`pods`, `podgroups.scheduling.volcano.sh` to Kind."""

DECODERS: dict[str, msgspec.json.Decoder[Any]] = {kind.name: msgspec.json.Decoder(kind.struct) for kind in KINDS}
"""Our kind name to the decoder of its partial struct; raises msgspec.ValidationError or msgspec.DecodeError."""


def kind_of(api_version: str, api_kind: str) -> Kind | None:
    """The Kind for an object's `apiVersion` and `kind`, or None for one that the ledger does not keep."""
    group = api_version.rpartition("/")[0]
    return BY_GROUP_KIND.get((group, api_kind))


def decode(kind: str, data: bytes) -> Any:
    """The partial struct of an object of `kind` (our name) from its JSON bytes."""
    return DECODERS[kind].decode(data)


__all__ = ["BY_GROUP_KIND", "BY_NAME", "BY_RESOURCE", "DECODERS", "KINDS", "Kind", "ObjectMeta", "decode", "kind_of"]
