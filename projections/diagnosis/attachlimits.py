"""How many volumes of a CSI driver a node takes.

Owns this check. Must not know how claims are matched to volumes. Called by `projections.diagnosis.nodes`. Source:
kube-scheduler's NodeVolumeLimits (CSINode's allocatable count; a volume that two pods use counts once; in-tree volumes
count at the driver that they are migrated to).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from projections.diagnosis import reasons as texts
from projections.diagnosis.claims import NO_PROVISIONER, PodClaims, class_name
from projections.diagnosis.reasons import Reason
from projections.diagnosis.views import ClusterView, NodeView, PlacedPod
from volcano.objects import intree
from volcano.objects.core import PersistentVolume, PersistentVolumeClaim


class Attachment(NamedTuple):
    """A volume that takes a place at a CSI driver: `handle` tells it from others there. `plugin`: it takes one only on
    nodes that have given this in-tree plugin over; '' for all others."""

    driver: str
    handle: str
    plugin: str = ""


class AttachLimits:
    """How many volumes of a CSI driver a node takes (CSINode's allocatable count)."""

    def __init__(
        self,
        claims: PodClaims,
        cluster: ClusterView,
        placed: Sequence[PlacedPod],
        own: Iterable[tuple[str, str, str]] = (),
    ) -> None:
        self.cluster = cluster
        self.wanted = [Attachment(driver, handle, plugin) for plugin, driver, handle in own]
        for state in claims.states:
            attachment = _attachment(state.key, state.claim, state.volume, _provisioner(cluster, state.claim))
            if attachment is not None:
                self.wanted.append(attachment)
        self.placed = placed
        self._on_node: dict[str, list[PlacedPod]] | None = None

    def check(self, node: NodeView) -> list[Reason]:
        """The first driver whose limit would be passed."""
        found = self._passed(node)
        if found is None:
            return []
        driver, attached, new, limit = found
        detail = f"{driver}: {len(attached)} attached and {new} more asked, limit {limit}"
        return [Reason("volume-limits", texts.VOLUME_LIMIT, detail, final=False)]

    def too_many(self, node: NodeView) -> tuple[int, dict[str, frozenset[str]]]:
        """How many attachments have to go from a node for the first limit to be kept, and which ones of that driver
        each pod there has, by its uid."""
        found = self._passed(node)
        if found is None:
            return 0, {}
        driver, attached, new, limit = found
        migrated = intree.migrated_plugins(self.cluster.csi_nodes.get(node.name))
        by_pod = {
            pod.uid: frozenset(self._handles([pod], driver, migrated)) for pod in self.on_node().get(node.name, ())
        }
        return len(attached) + new - limit, {uid: handles for uid, handles in by_pod.items() if handles}

    def _passed(self, node: NodeView) -> tuple[str, dict[str, None], int, int] | None:
        """The first driver whose limit would be passed, what it has attached there, how many more are asked, and the
        limit."""
        csi_node = self.cluster.csi_nodes.get(node.name) if self.wanted else None
        drivers = (csi_node.spec.drivers if csi_node is not None else None) or ()
        if not drivers:
            return None
        limits = {one.name: one.allocatable.count for one in drivers if one.allocatable is not None}
        migrated = intree.migrated_plugins(csi_node)
        wanted: dict[str, dict[str, None]] = {}
        for one in self.wanted:
            if not one.plugin or one.plugin in migrated:
                wanted.setdefault(one.driver, {})[one.handle] = None
        for driver, limit in limits.items():
            if limit is None or driver not in wanted:
                continue
            attached = self._handles(self.on_node().get(node.name, ()), driver, migrated)
            new = [handle for handle in wanted[driver] if handle not in attached]
            if new and len(attached) + len(new) > limit:
                return driver, attached, len(new), limit
        return None

    def on_node(self) -> dict[str, list[PlacedPod]]:
        """The pods with volumes by node; put together when the first limit is looked at, as many clusters have none."""
        if self._on_node is None:
            self._on_node = {}
            for pod in self.placed:
                if pod.claims or pod.attached:
                    self._on_node.setdefault(pod.node, []).append(pod)
        return self._on_node

    def _handles(self, pods: Sequence[PlacedPod], driver: str, migrated: frozenset[str]) -> dict[str, None]:
        """Handles of the driver's volumes that some pods use."""
        attached: dict[str, None] = {}
        for pod in pods:
            found = [Attachment(name, handle, plugin) for plugin, name, handle in pod.attached]
            for name in pod.claims:
                key = f"{pod.namespace}/{name}"
                claim = self.cluster.claims.get(key)
                if claim is not None:
                    volume = self.cluster.volumes.get(claim.spec.volume_name)
                    one = _attachment(key, claim, volume, _provisioner(self.cluster, claim))
                    found += [one] if one is not None else []
            for one in found:
                if one.driver == driver and (not one.plugin or one.plugin in migrated):
                    attached[one.handle] = None
        return attached


def _provisioner(cluster: ClusterView, claim: PersistentVolumeClaim) -> str:
    storage_class = cluster.classes.get(class_name(claim))
    return storage_class.provisioner if storage_class is not None else ""


def _attachment(
    key: str, claim: PersistentVolumeClaim, volume: PersistentVolume | None, provisioner: str
) -> Attachment | None:
    """What a claim attaches. One without a volume that is known counts under its class's provisioner, by its own
    name."""
    if volume is not None and volume.spec.csi is not None:
        return Attachment(volume.spec.csi.driver, volume.spec.csi.volume_handle or volume.metadata.name)
    if volume is not None:
        plugin = intree.plugin_of(volume.spec)
        try:
            csi = intree.translated(volume, frozenset({plugin.name})).spec.csi if plugin is not None else None
        except intree.Untranslatable:
            csi = None
        return Attachment(csi.driver, csi.volume_handle, plugin.name) if csi is not None and plugin else None
    plugin = intree.BY_PLUGIN.get(provisioner)
    if plugin is not None:
        return Attachment(plugin.driver, f"claim {key}", plugin.name) if plugin.scheduled else None
    return Attachment(provisioner, f"claim {key}") if provisioner and provisioner != NO_PROVISIONER else None


__all__ = ["AttachLimits", "Attachment"]
