"""A pod's claims before any node is looked at: missing, lost, being deleted, unbound, of a missing class.

Owns what kube-scheduler's PreFilter steps refuse, in Volcano's wording. Must not know nodes. Called by
`projections.diagnosis.volumes` and the verdict.
Sources: VolumeZone.getPVbyPod, VolumeBinding.podHasPVCs and volumeBinder.GetPodVolumeClaims; Volcano runs VolumeZone's
step first and words a refusal as `plugin P pre-predicates failed …` on every node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from projections.diagnosis.views import ClusterView, claim_names
from volcano.objects.core import PersistentVolume, PersistentVolumeClaim, Pod
from volcano.objects.scheduling import StorageClass

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
DELAYED = "WaitForFirstConsumer"


class ClaimProblem(NamedTuple):
    """A claim for which no node can be right. `verdict` is the word of the verdict table, `text` what the scheduler
    prints on every node."""

    claim: str
    verdict: str
    text: str
    detail: str


@dataclass(frozen=True, slots=True)
class ClaimState:
    """A claim that a node can be right for. `volume` is the bound one; `delayed` that it waits for the pod's node;
    `selected_node` the node for which provisioning was asked."""

    key: str
    name: str
    claim: PersistentVolumeClaim
    storage_class: StorageClass | None
    volume: PersistentVolume | None
    bound: bool
    selected_node: str

    @property
    def delayed(self) -> bool:
        return not self.bound

    @property
    def provisioner(self) -> str:
        """Who makes a volume for it; '' when nobody does."""
        name = self.storage_class.provisioner if self.storage_class is not None else ""
        return "" if name == NO_PROVISIONER else name


class PodClaims(NamedTuple):
    """What became of each claim: `problems` first found first, `states` of those without one."""

    problems: list[ClaimProblem]
    states: list[ClaimState]


def class_name(claim: PersistentVolumeClaim) -> str:
    """The claim's class: the beta annotation wins over the field (GetPersistentVolumeClaimClass)."""
    annotations = claim.metadata.annotations or {}
    return annotations.get(BETA_CLASS) or claim.spec.storage_class_name or ""


def fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Bound for good: a volume's name and the controller's mark."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def selected_node(claim: PersistentVolumeClaim) -> str:
    """The node for which the scheduler asked the provisioner to make a volume; '' when it has not."""
    return (claim.metadata.annotations or {}).get(SELECTED_NODE, "")


def pod_claims(pod: Pod, cluster: ClusterView) -> PodClaims:
    """Every claim of the pod's volumes, in the volumes' order; of problems, those that an earlier step of the scheduler
    finds come first. VolumeZone does not look at the claims of ephemeral volumes."""
    found: list[tuple[int, ClaimProblem]] = []
    states: list[ClaimState] = []
    for name, ephemeral in claim_names(pod):
        key = f"{pod.metadata.namespace}/{name}"
        claim = cluster.claims.get(key)
        steps = (
            None if ephemeral else _zone_problem(key, name, claim, cluster),
            _binding_problem(key, name, claim, pod, ephemeral),
            _unbound_problem(key, name, claim, cluster) if claim is not None else None,
        )
        problem = next(((step, one) for step, one in enumerate(steps) if one is not None), None)
        if problem is not None:
            found.append(problem)
        elif claim is not None:
            states.append(
                ClaimState(
                    key=key,
                    name=name,
                    claim=claim,
                    storage_class=cluster.classes.get(class_name(claim)),
                    volume=cluster.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None,
                    bound=fully_bound(claim),
                    selected_node=selected_node(claim),
                )
            )
    return PodClaims([problem for _, problem in sorted(found, key=lambda one: one[0])], states)


def _zone(text: str) -> str:
    return f"plugin VolumeZone pre-predicates failed {text}"


def _binding(text: str) -> str:
    return f"plugin VolumeBinding pre-predicates failed {text}"


def _zone_problem(
    key: str, name: str, claim: PersistentVolumeClaim | None, cluster: ClusterView
) -> ClaimProblem | None:
    """What VolumeZone refuses while it looks for the claim's volume: no claim, no volume of that name, no class, or a
    claim that the volume controller has yet to bind."""
    if claim is None:
        text = _zone(f'persistentvolumeclaim "{name}" not found')
        return ClaimProblem(key, "pvc-missing", text, f"the claim {name} does not exist")
    volume = claim.spec.volume_name
    if volume:
        if volume in cluster.volumes:
            return None
        text = _zone(f'persistentvolume "{volume}" not found')
        return ClaimProblem(key, "pvc-lost", text, f"the claim {name} names volume {volume}, which does not exist")
    wanted = class_name(claim)
    if not wanted:
        text = _zone("PersistentVolumeClaim had no pv name and storageClass name")
        return ClaimProblem(key, "pvc-unbound", text, _no_class(name))
    storage_class = cluster.classes.get(wanted)
    if storage_class is None:
        return _class_missing(key, name, wanted, _zone)
    if storage_class.volume_binding_mode == DELAYED:
        return None
    return ClaimProblem(key, "pvc-unbound", _zone("PersistentVolume had no name"), _immediate(name, wanted, claim))


def _binding_problem(
    key: str, name: str, claim: PersistentVolumeClaim | None, pod: Pod, ephemeral: bool
) -> ClaimProblem | None:
    """What VolumeBinding refuses before it looks whether claims are bound: missing, lost, being deleted, another
    pod's."""
    if claim is None:
        text = _binding(
            f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            if ephemeral
            else f'persistentvolumeclaim "{name}" not found'
        )
        what = "the claim of an ephemeral volume, which the ephemeral controller makes," if ephemeral else "the claim"
        return ClaimProblem(key, "pvc-missing", text, f"{what} {name} does not exist")
    volume = claim.spec.volume_name
    if claim.status.phase == "Lost":
        text = _binding(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"')
        return ClaimProblem(key, "pvc-lost", text, f"the claim {name} has lost its volume {volume}")
    if claim.metadata.deletion_timestamp is not None:
        text = _binding(f'persistentvolumeclaim "{name}" is being deleted')
        return ClaimProblem(key, "pvc-deleting", text, f"the claim {name} is being deleted")
    if ephemeral and not any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references or ()):
        namespace = pod.metadata.namespace
        text = _binding(
            f"PVC {namespace}/{name} was not created for pod {namespace}/{pod.metadata.name} (pod is not owner)"
        )
        return ClaimProblem(key, "pvc-not-owned", text, f"the claim {name} was not made for this pod")
    return None


def _unbound_problem(key: str, name: str, claim: PersistentVolumeClaim, cluster: ClusterView) -> ClaimProblem | None:
    """What VolumeBinding refuses because only the volume controller may bind it. A bound claim of an ephemeral volume
    may lack its volume: then each node refuses for itself."""
    if fully_bound(claim):
        return None
    text = _binding("pod has unbound immediate PersistentVolumeClaims")
    volume, wanted = claim.spec.volume_name, class_name(claim)
    if volume:
        return ClaimProblem(key, "pvc-unbound", text, f"the claim {name} names volume {volume} but is not bound to it")
    if not wanted:
        return ClaimProblem(key, "pvc-unbound", text, _no_class(name))
    storage_class = cluster.classes.get(wanted)
    if storage_class is None:
        return _class_missing(key, name, wanted, _binding)
    if storage_class.volume_binding_mode == DELAYED:
        return None
    return ClaimProblem(key, "pvc-unbound", text, _immediate(name, wanted, claim))


def _class_missing(key: str, name: str, wanted: str, step: Callable[[str], str]) -> ClaimProblem:
    text = step(f'storageclass.storage.k8s.io "{wanted}" not found')
    detail = f"the claim {name} asks for class {wanted}, which does not exist"
    return ClaimProblem(key, "storageclass-missing", text, detail)


def _no_class(name: str) -> str:
    return f"the claim {name} has no class and no volume: only an administrator can bind it"


def _immediate(name: str, wanted: str, claim: PersistentVolumeClaim) -> str:
    return (
        f"the claim {name} (class {wanted}, binding mode Immediate) is {claim.status.phase or 'unbound'}: "
        "the volume controller has not bound it, and the scheduler waits for that"
    )
