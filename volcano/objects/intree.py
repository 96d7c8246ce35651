"""Volumes of Kubernetes' own, old drivers as the CSI drivers that have taken them over see them.

Owns the table of those drivers, and the translation of a volume: its driver and handle, and the zone in its node
affinity. Must not know which node is looked at: the caller says which plugins that has given over. Called by
`projections.diagnosis` and by `vcledger.scheduler.checks`.

Sources: Kubernetes' csi-translation-lib (names, handles, topology), kube-scheduler's volume binder and CSILimits, which
translate for five of the plugins only (`scheduled`): of the others a volume has neither zone nor attach limit. Classes
are not translated, as the scheduler looks at their allowedTopologies as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from volcano.objects.core import (
    CSIVolumeSource,
    InTreeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    Volume,
    VolumeNodeAffinity,
)
from volcano.objects.scheduling import CSINode

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotation of a CSINode: the plugins that this node has given over to their CSI drivers, with commas between."""

MIGRATED_TO = "pv.kubernetes.io/migrated-to"
"""Annotation of a volume or claim: the CSI driver that looks after it in place of its plugin."""

STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
"""Annotations of a claim: who is to make its volume, as the volume controller has decided."""

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ZONES_BETWEEN = "__"
"""What stands between the zones in a volume's label."""

UNSPECIFIED = "UNSPECIFIED"
NO_PLUGINS: frozenset[str] = frozenset()


class Untranslatable(ValueError):
    """A volume whose source doesn't name what its driver needs. The message is the scheduler's."""


class Plugin(NamedTuple):
    """An in-tree plugin. `source` is its field in a volume's spec; `handle` makes the CSI volume's handle; `zone` is
    the driver's topology key, '' where a volume's zone is left as it is; `scheduled`: the scheduler translates it."""

    name: str
    driver: str
    source: str
    handle: Callable[[InTreeSource, Mapping[str, str], Mapping[str, str]], str]
    zone: str = ""
    scheduled: bool = True


# --- handles ------------------------------------------------------------------------------------------------------

_EBS = re.compile(r"vol-[^/]*")
_SECRET = re.compile(r"azure-storage-account-(.+)-secret")


def _ebs(source: InTreeSource, labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """`vol-1` or `aws://ZONE/vol-1`."""
    if not source.volume_id.startswith("aws://"):
        return source.volume_id
    name = source.volume_id.removeprefix("aws://").partition("/")[2].strip("/")
    if not _EBS.fullmatch(name):
        raise Untranslatable(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({source.volume_id})"
        )
    return name


def _gce(source: InTreeSource, labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Of one zone, or of a region when the volume's label names more; the project is not known."""
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE) or UNSPECIFIED).split(ZONES_BETWEEN)
    if len(zones) == 1:
        return f"projects/{UNSPECIFIED}/zones/{zones[0]}/disks/{source.pd_name}"
    return f"projects/{UNSPECIFIED}/regions/{_region(zones)}/disks/{source.pd_name}"


def _region(zones: list[str]) -> str:
    """`us-central1` of `us-central1-a` and its like."""
    regions: dict[str, None] = {}
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise Untranslatable(
                "failed to get region from zones: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions["-".join(parts[:2])] = None
    if len(regions) != 1:
        raise Untranslatable(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: {', '.join(regions)}"
        )
    return next(iter(regions))


def _azure_file(source: InTreeSource, labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Resource group, storage account and share. An account is told by its secret's name."""
    named = _SECRET.search(source.secret_name)
    group = annotations.get("kubernetes.io/azure-file-resource-group", "")
    account = str(named[1]) if named is not None else source.secret_name
    return f"{group}#{account}#{source.share_name}#"


def _disk_uri(source: InTreeSource, labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    return source.disk_uri


def _volume_path(source: InTreeSource, labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    return source.volume_path


def _volume_id(source: InTreeSource, labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    return source.volume_id


PLUGINS: tuple[Plugin, ...] = (
    Plugin(
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
        "aws_elastic_block_store",
        _ebs,
        "topology.ebs.csi.aws.com/zone",
    ),
    Plugin(
        "kubernetes.io/gce-pd",
        "pd.csi.storage.gke.io",
        "gce_persistent_disk",
        _gce,
        "topology.gke.io/zone",
    ),
    Plugin("kubernetes.io/azure-disk", "disk.csi.azure.com", "azure_disk", _disk_uri),
    Plugin(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "cinder",
        _volume_id,
        "topology.cinder.csi.openstack.org/zone",
    ),
    Plugin("kubernetes.io/portworx-volume", "pxd.portworx.com", "portworx_volume", _volume_id),
    Plugin("kubernetes.io/azure-file", "file.csi.azure.com", "azure_file", _azure_file, scheduled=False),
    Plugin("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", "vsphere_volume", _volume_path, scheduled=False),
)
"""Every plugin that has a driver. Ceph RBD and CephFS had one, or were to, and were removed with Kubernetes 1.31."""

BY_PLUGIN: dict[str, Plugin] = {plugin.name: plugin for plugin in PLUGINS}


# --- which is it --------------------------------------------------------------------------------------------------


def migrated_plugins(node: CSINode | None) -> frozenset[str]:
    """The plugins that a node has given over; none when it has no CSINode, or that says nothing."""
    text = ((node.metadata.annotations or {}) if node is not None else {}).get(MIGRATED_PLUGINS, "")
    return frozenset(text.split(",")) if text else NO_PLUGINS


def plugin_of(source: Any) -> Plugin | None:
    """The plugin of a volume's spec, or of a pod's own volume; None for CSI and all else."""
    return next((plugin for plugin in PLUGINS if getattr(source, plugin.source, None) is not None), None)


def driver_of(provisioner: str) -> str:
    """The CSI driver behind a class's provisioner: itself unless that is an in-tree plugin with a driver."""
    plugin = BY_PLUGIN.get(provisioner)
    return plugin.driver if plugin is not None else provisioner


def provisioner_of(claim: PersistentVolumeClaim, provisioner: str) -> str:
    """Who makes the claim's volume: whom the volume controller has asked, else the class's provisioner."""
    annotations = claim.metadata.annotations or {}
    for name in (MIGRATED_TO, STORAGE_PROVISIONER, BETA_STORAGE_PROVISIONER):
        if annotations.get(name):
            return driver_of(annotations[name]) if name == MIGRATED_TO else annotations[name]
    return provisioner


def inline_attachment(volume: Volume) -> tuple[str, str, str] | None:
    """(plugin, driver, handle) of a pod's own volume; None for one that the scheduler doesn't translate."""
    plugin = plugin_of(volume)
    if plugin is None or not plugin.scheduled:
        return None
    try:
        return plugin.name, plugin.driver, plugin.handle(getattr(volume, plugin.source), {}, {})
    except Untranslatable:
        return None


# --- translation --------------------------------------------------------------------------------------------------


def translated(volume: PersistentVolume, migrated: frozenset[str]) -> PersistentVolume:
    """The volume as it is for a node that has given these plugins over: with a CSI source, and its zone under the
    driver's key. Any other volume comes back as it is. Raises Untranslatable."""
    if not migrated or volume.spec.csi is not None:
        return volume
    plugin = plugin_of(volume.spec)
    if plugin is None or not plugin.scheduled or plugin.name not in migrated:
        return volume
    meta, spec = volume.metadata, volume.spec
    handle = plugin.handle(getattr(spec, plugin.source), meta.labels or {}, meta.annotations or {})
    changes: dict[str, Any] = {
        plugin.source: None,
        "csi": CSIVolumeSource(driver=plugin.driver, volume_handle=handle),
    }
    if plugin.zone:
        changes["node_affinity"] = _with_driver_zone(volume, plugin.zone)
    return msgspec.structs.replace(volume, spec=msgspec.structs.replace(spec, **changes))


def _terms(affinity: VolumeNodeAffinity | None) -> list[NodeSelectorTerm]:
    required = affinity.required if affinity is not None else None
    return list(required.node_selector_terms or ()) if required is not None else []


def _keys(terms: list[NodeSelectorTerm]) -> list[str]:
    return [one.key for term in terms for one in term.match_expressions or ()]


def _zone_and_region(volume: PersistentVolume, keys: list[str]) -> tuple[str, str]:
    """The labels by which the volume speaks of zones and regions: those in its affinity before those on it."""
    for held in (keys, volume.metadata.labels or {}):
        if ZONE in held:
            return ZONE, REGION
        if BETA_ZONE in held:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _with_driver_zone(volume: PersistentVolume, key: str) -> VolumeNodeAffinity | None:
    """The volume's affinity with its zone under the driver's key. Where it names none, the volume's label is added to
    each term; a beta region becomes the stable one."""
    terms = _terms(volume.spec.node_affinity)
    zone, region = _zone_and_region(volume, _keys(terms))
    if any(one.values for term in terms for one in term.match_expressions or () if one.key == zone):
        terms = _renamed(terms, zone, key)
    elif zone in (volume.metadata.labels or {}):
        terms = _with_zones(terms, key, (volume.metadata.labels or {})[zone])
    if region == BETA_REGION:
        terms = _renamed(terms, BETA_REGION, REGION)
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms)) if terms else volume.spec.node_affinity


def _renamed(terms: list[NodeSelectorTerm], old: str, new: str) -> list[NodeSelectorTerm]:
    return [
        msgspec.structs.replace(
            term,
            match_expressions=[
                msgspec.structs.replace(one, key=new) if one.key == old else one for one in term.match_expressions or ()
            ],
        )
        for term in terms
    ]


def _with_zones(terms: list[NodeSelectorTerm], key: str, label: str) -> list[NodeSelectorTerm]:
    zones = sorted({zone.strip() for zone in label.split(ZONES_BETWEEN)} - {""})
    if not zones:
        return terms
    wanted = NodeSelectorRequirement(key=key, operator="In", values=zones)
    return [
        msgspec.structs.replace(term, match_expressions=[*(term.match_expressions or ()), wanted])
        for term in terms or [NodeSelectorTerm()]
    ]


__all__ = [
    "BY_PLUGIN",
    "MIGRATED_PLUGINS",
    "MIGRATED_TO",
    "NO_PLUGINS",
    "PLUGINS",
    "STORAGE_PROVISIONER",
    "Plugin",
    "Untranslatable",
    "driver_of",
    "inline_attachment",
    "migrated_plugins",
    "plugin_of",
    "provisioner_of",
    "translated",
]
