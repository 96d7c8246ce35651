"""checkBindings: are the claims of a task bound, on their way, or is the attempt lost?

Owns every condition of the seed's checkBindings, in its order, with its message. Must not know what follows. Called by
`vcledger.scheduler.volume_binder`.

Only what the API server said is looked at here, never an assumption. A volume of a driver of Kubernetes' own is looked
at as the CSI driver sees it that has taken it over on the node (`volcano.objects.intree`).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from projections.diagnosis.claims import SELECTED_NODE, fully_bound
from projections.diagnosis.volumes import on_node
from vcledger.scheduler.state import Flow, FlowTask
from volcano.events.volume import SharedClaim, VolumeWait
from volcano.objects import intree
from volcano.objects.core import Node, PersistentVolume, PersistentVolumeClaim


class Outcome(Enum):
    """What a check found."""

    DONE = "done"
    WAIT = "wait"
    FAILED = "failed"


class Found(NamedTuple):
    """The outcome, with the object (`kind`, `name`, a claim as namespace/name) and the words for it."""

    outcome: Outcome
    kind: str = ""
    name: str = ""
    message: str = ""

    @property
    def waits(self) -> tuple[VolumeWait, ...]:
        """What is waited for, as the event has it."""
        return (VolumeWait(kind=self.kind, name=self.name, why=self.message),)


DONE = Found(Outcome.DONE)
PV, PVC = "PersistentVolume", "PersistentVolumeClaim"
NOT_SEEN = "its update has not been seen yet"
NOT_BOUND = "is not bound yet"
NO_TERMS = "no matching NodeSelectorTerms"


def _wait(kind: str, name: str, why: str) -> Found:
    return Found(Outcome.WAIT, kind, name, why)


def _fail(kind: str, name: str, message: str) -> Found:
    return Found(Outcome.FAILED, kind, name, message)


def older(seen: str, written: str) -> bool:
    """Whether what the watch has shown is older than what the API server answered to our update. Versions that are no
    numbers can't be compared, and are taken as seen."""
    return written.isdecimal() and seen.isdecimal() and int(seen) < int(written)


def check_bindings(flow: Flow, task: FlowTask) -> Found:
    """The seed's checkBindings. An object that is older than what our own update was answered with makes it wait."""
    node = flow.cache.node_objects.get(task.node)
    if node is None:
        return _fail("Node", task.node, f'failed to get node "{task.node}": node "{task.node}" not found')
    ref = flow.cache.pods.get(task.key)
    if ref is None or ref.uid != task.uid:
        return _fail("Pod", task.key, f'pod does not exist any more: pod "{task.name}" not found')
    for one in task.bindings:
        found = _binding(flow, node, one.volume, one.claim)
        if found is not None:
            return found
    for provision in task.provisions:
        found = _provision(flow, task, node, provision.claim)
        if found is not None:
            return found
    for other in task.shared:
        found = _shared(flow, task, node, other)
        if found is not None:
            return found
    return DONE


def _binding(flow: Flow, node: Node, volume: str, claim: str) -> Found | None:
    """One claim that is to be bound to a volume that there is; None: it is."""
    pv = flow.volumes.api.get(volume)
    if pv is None:
        return _fail(PV, volume, f'failed to check binding: could not find v1.PersistentVolume "{volume}"')
    pvc = flow.claims.api.get(claim)
    if pvc is None:
        return _fail(PVC, claim, f'failed to check binding: could not find v1.PersistentVolumeClaim "{claim}"')
    held = flow.volumes.assumed.get(volume)
    if held is not None and older(pv.metadata.resource_version, held.written):
        return _wait(PV, volume, NOT_SEEN)
    away = _affinity(flow, pv, node)
    if away is not None:
        return away
    if pv.spec.claim_ref is None or not pv.spec.claim_ref.uid:
        return _fail(PV, volume, f'ClaimRef got reset for pv "{volume}"')
    return None if fully_bound(pvc) else _wait(PVC, claim, NOT_BOUND)


def _provision(flow: Flow, task: FlowTask, node: Node, claim: str) -> Found | None:
    """One claim for which a volume is to be made; None: it is bound."""
    pvc = flow.claims.api.get(claim)
    if pvc is None:
        message = f'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "{claim}"'
        return _fail(PVC, claim, message)
    held = flow.claims.assumed.get(claim)
    if held is not None and older(pvc.metadata.resource_version, held.written):
        return _wait(PVC, claim, NOT_SEEN)
    if pvc.metadata.annotations is None:
        return _fail(PVC, claim, f'selectedNode annotation reset for PVC "{pvc.metadata.name}"')
    if pvc.metadata.annotations.get(SELECTED_NODE, "") != task.node:
        return _fail(PVC, claim, f'provisioning failed for PVC "{pvc.metadata.name}"')
    if pvc.spec.volume_name:
        found = _provisioned(flow, node, pvc)
        if found is not None:
            return found
    return None if fully_bound(pvc) else _wait(PVC, claim, NOT_BOUND)


def _shared(flow: Flow, task: FlowTask, node: Node, one: SharedClaim) -> Found | None:
    """One claim that another task's binding is to bind; None: it is bound. When that binding has come to nothing, this
    one has too."""
    pvc = flow.claims.api.get(one.claim)
    if pvc is None or pvc.metadata.uid != one.claim_uid:
        return _fail(PVC, one.claim, f'failed to check binding: could not find v1.PersistentVolumeClaim "{one.claim}"')
    if pvc.spec.volume_name:
        away = _provisioned(flow, node, pvc)
        return away if away is not None else None if fully_bound(pvc) else _wait(PVC, one.claim, NOT_BOUND)
    if _on_its_way(flow, task, pvc, one):
        return _wait(PVC, one.claim, NOT_BOUND)
    return _fail(PVC, one.claim, f'PVC "{pvc.metadata.name}" is not on its way to be bound any more')


def _on_its_way(flow: Flow, task: FlowTask, claim: PersistentVolumeClaim, one: SharedClaim) -> bool:
    """Whether somebody still assumes the claim bound, or the API server has been told what to bind it to."""
    if not one.volume:
        assumed = flow.claims.assumed.get(one.claim)
        if assumed is not None:
            return assumed.node == task.node
        return (claim.metadata.annotations or {}).get(SELECTED_NODE, "") == task.node
    for volume in (flow.volumes.latest.get(one.volume), flow.volumes.api.get(one.volume)):
        if volume is not None and volume.spec.claim_ref is not None and volume.spec.claim_ref.uid == one.claim_uid:
            return True
    return False


def _provisioned(flow: Flow, node: Node, claim: PersistentVolumeClaim) -> Found | None:
    """The volume that was made for a claim. One that is not known yet may only be late, and is waited for; where no
    volumes are watched at all, none will come, and the claim's word is taken."""
    pv = flow.volumes.api.get(claim.spec.volume_name)
    if pv is not None:
        return _affinity(flow, pv, node)
    watched = bool(flow.volumes.api) or PV in flow.listed
    return _wait(PV, claim.spec.volume_name, "has not been seen yet") if watched else None


def _affinity(flow: Flow, pv: PersistentVolume, node: Node) -> Found | None:
    name, volume = node.metadata.name, pv.metadata.name
    try:
        seen = intree.translated(pv, intree.migrated_plugins(flow.cache.csi_nodes.get(name)))
    except intree.Untranslatable as error:
        return _fail(PV, volume, f"failed to translate pv to csi: {error}")
    if on_node(seen, node.metadata.labels or {}, name):
        return None
    return _fail(PV, volume, f'pv "{volume}" node affinity doesn\'t match node "{name}": {NO_TERMS}')


__all__ = ["DONE", "Found", "Outcome", "check_bindings", "older"]
