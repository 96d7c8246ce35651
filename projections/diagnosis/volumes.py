"""A pod's claims against a node: bound volumes' node affinity and zone, matching volumes for claims that wait for their
first consumer, dynamic provisioning, attach limits.

Owns these checks. Must not know resources. Called by `projections.diagnosis.nodes`.
Sources: kube-scheduler's volumeBinder.FindPodVolumes, component-helpers' FindMatchingVolume, VolumeZone and CSILimits.
As there, bound volumes and attach limits are looked at as the node's CSI drivers see them (`volcano.objects.intree`),
volumes that are still to be matched as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from projections.diagnosis import reasons as texts
from projections.diagnosis.amounts import show_bytes
from projections.diagnosis.claims import ClaimState, PodClaims, class_name, selected_node
from projections.diagnosis.reasons import Reason
from projections.diagnosis.views import ClusterView, NodeView
from volcano.objects import intree
from volcano.objects.core import PersistentVolume, PersistentVolumeClaim
from volcano.objects.meta import Quantity
from volcano.objects.quantity import QuantityInvalid, exact_value
from volcano.objects.scheduling import CSIStorageCapacity
from volcano.objects.selectors import (
    describe_node_selector,
    matches_labels,
    node_selector_matches,
    topology_terms_match,
)

ZONE_LABELS = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
_STABLE = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}


def _zones(label: str) -> list[str]:
    """The zones that a volume's label names, parted by `__`; none where a part is empty, as such a label is passed over
    (LabelZonesToSet)."""
    parts = [part.strip() for part in label.split("__")]
    return parts if all(parts) else []


class Candidate(NamedTuple):
    """A volume that a claim may take, as far as the node does not matter. `prebound`: it already names the claim."""

    volume: PersistentVolume
    size_bytes: float
    prebound: bool


class Chosen(NamedTuple):
    """What a waiting claim is to be bound to by another pod that uses it too: `volume`, or one that is to be made for
    `node`."""

    node: str
    volume: PersistentVolume | None = None

    def suits(self, node: NodeView) -> bool:
        """Whether a pod on that node could use it."""
        return self.node == node.name if self.volume is None else on_node(self.volume, node.labels, node.name)


class Search(NamedTuple):
    """The volumes for one waiting claim: those that may do, and the ones of its class that can't, with why."""

    candidates: list[Candidate]
    rejected: list[tuple[str, str]]


def on_node(volume: PersistentVolume, labels: Mapping[str, str], name: str) -> bool:
    """Whether a volume's node affinity admits a node."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return node_selector_matches(affinity.required, labels, name)


def place_of(volume: PersistentVolume) -> str:
    """Where a volume may be used, for people."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return "any node"
    return describe_node_selector(affinity.required)


def storage_asked(claim: PersistentVolumeClaim) -> float:
    """Bytes that the claim asks for."""
    requests = (claim.spec.resources.requests if claim.spec.resources is not None else None) or {}
    return _bytes(requests.get("storage", 0))


def storage_of(volume: PersistentVolume) -> float:
    """Bytes that the volume has."""
    return _bytes((volume.spec.capacity or {}).get("storage", 0))


def _bytes(amount: Quantity) -> float:
    """A storage quantity in bytes; what is no quantity counts as nothing, as the API server stores none."""
    try:
        return float(exact_value(amount))
    except QuantityInvalid:
        return 0.0


def unfit(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why a volume can never serve a claim, wherever the pod runs; '' when it can. The order is
    FindMatchingVolume's."""
    if (volume.spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem"):
        return f"volume mode {volume.spec.volume_mode or 'Filesystem'}, asked {claim.spec.volume_mode or 'Filesystem'}"
    if storage_of(volume) < storage_asked(claim):
        return f"{show_bytes(storage_of(volume))} is less than the {show_bytes(storage_asked(claim))} asked"
    mine = prebound_to(volume, claim)
    if volume.spec.claim_ref is not None and not mine:
        other = f"{volume.spec.claim_ref.namespace}/{volume.spec.claim_ref.name}"
        return f"belongs to {other}" + (f" ({volume.status.phase})" if volume.status.phase else "")
    given, asked = volume.spec.volume_attributes_class_name or "", claim.spec.volume_attributes_class_name or ""
    if given != asked:
        return f"volume attributes class {given or 'none'}, asked {asked or 'none'}"
    if volume.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if mine:
        return ""
    if volume.status.phase != "Available":
        return f"is {volume.status.phase}" if volume.status.phase else "was not looked at by the volume controller yet"
    if claim.spec.selector is not None and not matches_labels(claim.spec.selector, volume.metadata.labels or {}):
        return "its labels do not match the claim's selector"
    missing = [mode for mode in claim.spec.access_modes or () if mode not in (volume.spec.access_modes or ())]
    return f"lacks access mode {', '.join(missing)}" if missing else ""


def prebound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume's claimRef names this claim (IsVolumeBoundToClaim)."""
    reference = volume.spec.claim_ref
    if reference is None:
        return False
    if (reference.namespace, reference.name) != (claim.metadata.namespace, claim.metadata.name):
        return False
    return not reference.uid or reference.uid == claim.metadata.uid


def search(claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> Search:
    """All volumes of the claim's class, parted into those that may do (smallest first) and those that can't."""
    wanted = class_name(claim)
    found: list[Candidate] = []
    rejected: list[tuple[str, str]] = []
    for volume in volumes:
        if volume.spec.storage_class_name != wanted:
            continue
        why = unfit(volume, claim)
        if why:
            rejected.append((volume.metadata.name, why))
        else:
            found.append(Candidate(volume, storage_of(volume), prebound_to(volume, claim)))
    found.sort(key=lambda one: (not one.prebound, one.size_bytes, one.volume.metadata.name))
    return Search(found, sorted(rejected))


def said_of(capacities: Iterable[CSIStorageCapacity], state: ClaimState) -> list[CSIStorageCapacity]:
    """What is said of room for volumes of a claim's class. Nothing: its driver needs no such check, as that of an
    in-tree plugin never does. Which drivers do is in CSIDriver objects, which nobody records, so one that does and has
    yet to say anything is taken for one that does not."""
    if state.provisioner in intree.BY_PLUGIN:
        return []
    wanted = class_name(state.claim)
    return [one for one in capacities if one.storage_class_name == wanted]


def has_room(said: Iterable[CSIStorageCapacity], claim: PersistentVolumeClaim, labels: Mapping[str, str]) -> bool:
    """Whether one of them has room for the claim and is for a node of these labels (hasEnoughCapacity)."""
    size = storage_asked(claim)
    for one in said:
        amount = one.maximum_volume_size if one.maximum_volume_size is not None else one.capacity
        if amount is not None and _bytes(amount) >= size and matches_labels(one.node_topology, labels):
            return True
    return False


class VolumeBinding:
    """The check for one pod's claims: volumes sorted out once, asked node by node."""

    def __init__(
        self,
        claims: PodClaims,
        cluster: ClusterView,
        reserved: Iterable[str] = (),
        chosen: Mapping[str, Chosen] | None = None,
    ) -> None:
        self.chosen: Mapping[str, Chosen] = chosen or {}
        self.bound = [state for state in claims.states if state.bound]
        self.waiting = sorted((s for s in claims.states if s.delayed), key=lambda s: (storage_asked(s.claim), s.key))
        self.reserved = frozenset(reserved)
        self.csi_nodes = cluster.csi_nodes
        self.room = {state.key: said_of(cluster.capacities.values(), state) for state in self.waiting}
        volumes = [volume for name, volume in sorted(cluster.volumes.items()) if name not in self.reserved]
        self.searches = {state.key: search(state.claim, volumes) for state in self.waiting if not state.selected_node}

    @property
    def anywhere(self) -> bool:
        """No node can refuse the claims: none is bound, on its way or being made for one node, and for each a volume
        can be made wherever its pod goes, as far as its driver says."""
        return not self.bound and all(
            state.key not in self.chosen
            and not state.selected_node
            and bool(state.provisioner)
            and not self.room[state.key]
            and (state.storage_class is None or not state.storage_class.allowed_topologies)
            for state in self.waiting
        )

    def zone(self, node: NodeView) -> list[Reason]:
        """Zone and region labels of bound volumes; a node without any such label is not checked."""
        if not any(label in node.labels for label in ZONE_LABELS):
            return []
        for state in self.bound:
            labels = (state.volume.metadata.labels or {}) if state.volume is not None else {}
            for key in ZONE_LABELS:
                zones = _zones(labels.get(key, ""))
                value = node.labels.get(key, node.labels.get(_STABLE.get(key, key)))
                if zones and value not in zones:
                    detail = f"volume {state.claim.spec.volume_name} of claim {state.name} is in {key}={labels[key]}"
                    return [Reason("volume-zone", texts.VOLUME_ZONE, detail)]
        return []

    def check(self, node: NodeView) -> list[Reason]:
        """Bound volumes' node affinity, then the waiting claims; one reason that names both where both refuse, in
        FindPodVolumes' order."""
        found: list[tuple[str, str]] = []
        for state in self.bound:
            volume = state.volume
            if volume is None:
                found.append((texts.VOLUME_GONE, f"claim {state.name}: {state.claim.spec.volume_name}"))
                break
            refused = self._elsewhere(state, volume, node)
            if refused is not None and refused.text != texts.VOLUME_AFFINITY:
                return [refused]
            if refused is not None:
                found.append((refused.text, refused.detail))
                break
        unmet = self._unmet(node)
        if unmet is not None:
            gone = bool(found) and found[0][0] == texts.VOLUME_GONE
            found.insert(0 if gone else len(found), unmet)
        if not found:
            return []
        return [Reason("volumes", ", ".join(text for text, _ in found), "; ".join(detail for _, detail in found))]

    def _elsewhere(self, state: ClaimState, volume: PersistentVolume, node: NodeView) -> Reason | None:
        """Why a bound volume can't be used on the node; None when it can."""
        name = volume.metadata.name
        try:
            volume = intree.translated(volume, intree.migrated_plugins(self.csi_nodes.get(node.name)))
        except intree.Untranslatable as error:
            return Reason("volumes", f"could not translate pv to csi: {error}", f"volume {name} of claim {state.name}")
        if on_node(volume, node.labels, node.name):
            return None
        detail = f"volume {name} of claim {state.name} is only for {place_of(volume)}"
        return Reason("volumes", texts.VOLUME_AFFINITY, detail)

    def take(self, node: NodeView) -> list[str]:
        """The names of the volumes that the claims would take on a node that `check` lets through."""
        return [candidate.volume.metadata.name for _, candidate in self.plan(node) if candidate is not None]

    def plan(self, node: NodeView) -> list[tuple[ClaimState, Candidate | None]]:
        """Each waiting claim with the volume that it would take on such a node; None: one has to be made for it."""
        taken: list[str] = []
        planned: list[tuple[ClaimState, Candidate | None]] = []
        for state in self.waiting:
            candidate = self._match(state, node, taken) if state.key not in self.chosen else None
            if candidate is not None:
                taken.append(candidate.volume.metadata.name)
            planned.append((state, candidate))
        return planned

    def picks(self, node: NodeView) -> dict[str, Chosen]:
        """The same, as those see it who share the claims. What others had chosen is theirs."""
        return {
            state.key: Chosen(node.name, candidate.volume if candidate is not None else None)
            for state, candidate in self.plan(node)
            if state.key not in self.chosen
        }

    def _match(self, state: ClaimState, node: NodeView, taken: Sequence[str]) -> Candidate | None:
        found = self.searches.get(state.key)
        for candidate in found.candidates if found is not None else ():
            fits = on_node(candidate.volume, node.labels, node.name)
            if candidate.prebound:
                # Its volume has been chosen: where that can't be used, no other is taken (FindMatchingVolume).
                return candidate if fits else None
            if fits and candidate.volume.metadata.name not in taken:
                return candidate
        return None

    def _unmet(self, node: NodeView) -> tuple[str, str] | None:
        """Why a waiting claim cannot be served on the node, in the scheduler's words and in detail; None when all can.
        As in checkVolumeProvisions the first that cannot be made says it."""
        taken: list[str] = []
        made: list[ClaimState] = []
        for state in self.waiting:
            picked = self.chosen.get(state.key)
            if picked is not None:
                if not picked.suits(node):
                    return texts.VOLUME_BIND, f"claim {state.name} is on its way for node {picked.node}"
                continue
            if state.selected_node and state.selected_node != node.name:
                return texts.VOLUME_BIND, f"claim {state.name} is being provisioned for node {state.selected_node}"
            candidate = None if state.selected_node else self._match(state, node, taken)
            if candidate is not None:
                taken.append(candidate.volume.metadata.name)
            else:
                made.append(state)
        made.sort(key=lambda state: not state.selected_node)
        return next((why for state in made if (why := self._unprovisionable(state, node)) is not None), None)

    def _unprovisionable(self, state: ClaimState, node: NodeView) -> tuple[str, str] | None:
        """Why no volume can be made for the claim on that node; None when one can."""
        name, head = class_name(state.claim), f"claim {state.name}:"
        if not state.provisioner:
            detail = f"{head} no volume of class {name} fits here, and the class has no provisioner"
            return texts.VOLUME_BIND, detail
        terms = state.storage_class.allowed_topologies if state.storage_class is not None else None
        if not topology_terms_match(terms, node.labels):
            return texts.VOLUME_BIND, f"{head} class {name} may not provision here (allowedTopologies)"
        room = self.room[state.key]
        if room and not has_room(room, state.claim, node.labels):
            asked = show_bytes(storage_asked(state.claim))
            return texts.VOLUME_SPACE, f"{head} the driver has no room for {asked} of class {name} here"
        return None

    def story(self, state: ClaimState, nodes: Sequence[NodeView]) -> str:
        """What there is for a waiting claim in the whole cluster, for people: every volume of its class and why not."""
        head = f"claim {state.name} (class {class_name(state.claim)}, {show_bytes(storage_asked(state.claim))})"
        found = self.searches.get(state.key)
        if found is None:
            who = intree.provisioner_of(state.claim, state.provisioner) or "nobody"
            return f"{head} is being provisioned by {who} for node {state.selected_node}"
        parts = [f"{name} {why}" for name, why in found.rejected[:5]]
        if len(found.rejected) > 5:
            parts.append(f"{len(found.rejected) - 5} more")
        for candidate in found.candidates[:5]:
            if not any(on_node(candidate.volume, node.labels, node.name) for node in nodes):
                name, place = candidate.volume.metadata.name, place_of(candidate.volume)
                parts.append(f"{name} is only for {place}, and there is no such node")
        what = "; ".join(parts) or ("no volume of that class" if not found.candidates else "")
        return f"{head}: {what}" if what else head


__all__ = ["Chosen", "VolumeBinding", "selected_node"]
