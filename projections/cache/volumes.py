"""How many attachable volumes a pod uses, by CSI driver, from its claims, their volumes and their classes.

Owns this reading of the claim, volume and class stores. Must not know nodes nor jobs. Called by
`projections.cache.pods`.

Source: Volcano's getPodCSIVolumes and getCSIDriverInfo, Kubernetes' GetPersistentVolumeClaimClass and
GetCSIAttachLimitKey (vectors 050 to 052, 115).
"""

from __future__ import annotations

import hashlib

from projections.cache.state import Cache, PodRef
from projections.cache.tasks import OWN_CLAIM
from volcano.objects.core import PersistentVolumeClaim
from volcano.objects.meta import ObjectMeta
from volcano.objects.resource import CSI_ATTACH_PREFIX, Resource

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
DRIVER_PARAMETER = "csi.storage.k8s.io/csi-driver-name"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
_NAME_LENGTH_MAX = 63


class ClaimMissing(Exception):
    """A claim that the pod uses isn't known, has no name, or belongs to another pod."""


def attach_limit_name(driver: str) -> str:
    """The name of a driver's attach limit as a resource; long ones are shortened with a hash, as Kubernetes does."""
    if len(CSI_ATTACH_PREFIX) + len(driver) >= _NAME_LENGTH_MAX:
        digest = hashlib.sha1(driver.encode(), usedforsecurity=False).hexdigest()
        return f"{CSI_ATTACH_PREFIX}{driver[:23]}{digest[:16]}"
    return CSI_ATTACH_PREFIX + driver


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The class of a claim: the old annotation before the field."""
    annotations = claim.metadata.annotations
    if annotations and CLASS_ANNOTATION in annotations:
        return annotations[CLASS_ANNOTATION]
    return claim.spec.storage_class_name or ""


def _driver(cache: Cache, claim: PersistentVolumeClaim) -> str:
    volume = cache.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is not None:
        return volume.spec.csi.driver if volume.spec.csi else ""
    name = claim_class(claim)
    storage_class = cache.storage_classes.get(name) if name else None
    if storage_class is None:
        return ""
    parameters = storage_class.parameters
    if parameters and DRIVER_PARAMETER in parameters:
        return parameters[DRIVER_PARAMETER]
    return storage_class.provisioner


def claim_key(ref: PodRef, name: str) -> str:
    """'namespace/name' of a claim in a pod's list."""
    return f"{ref.namespace}/{name.removeprefix(OWN_CLAIM)}"


def _owned(meta: ObjectMeta, uid: str) -> bool:
    return any(owner.controller and owner.uid == uid for owner in meta.owner_references or ())


def volume_counts(cache: Cache, ref: PodRef) -> dict[str, int]:
    """Resource name of each attach limit to the number of volumes that the pod uses of it.

    Raises ClaimMissing at the first claim that is missing where the model counts nothing then; the others leave such a
    claim out until it comes.
    """
    counts: dict[str, int] = {}
    for name in ref.claims:
        claim = cache.claims.get(claim_key(ref, name)) if name else None
        if claim is None or (name.startswith(OWN_CLAIM) and not _owned(claim.metadata, ref.uid)):
            if cache.policy.defers_claims:
                raise ClaimMissing(name)
            continue
        driver = _driver(cache, claim)
        if driver == NO_PROVISIONER and not cache.policy.counts_unprovisioned:
            continue
        if driver and driver not in cache.config.ignored_provisioners:
            key = attach_limit_name(driver)
            counts[key] = counts.get(key, 0) + 1
    return counts


def store_claim(cache: Cache, key: str, claim: PersistentVolumeClaim | None) -> None:
    """Put a claim into its store, or with None take it out, and keep the index by volume."""
    old = cache.claims.pop(key, None)
    if old is not None and old.spec.volume_name:
        named = cache.claims_by_volume.get(old.spec.volume_name, {})
        named.pop(key, None)
        if not named:
            cache.claims_by_volume.pop(old.spec.volume_name, None)
    if claim is not None:
        cache.claims[key] = claim
        if claim.spec.volume_name:
            cache.claims_by_volume.setdefault(claim.spec.volume_name, {})[key] = None


def with_volumes(cache: Cache, ref: PodRef) -> Resource:
    """The pod's request with its volumes counted; the shared one when it has none. Raises ClaimMissing."""
    if not ref.claims:
        return ref.request
    counts = volume_counts(cache, ref)
    if not counts:
        return ref.request
    resource = ref.request.clone()
    for name, number in counts.items():
        resource.add_scalar(name, float(number) if cache.policy.float64 else number)
    return resource


__all__ = [
    "ClaimMissing",
    "attach_limit_name",
    "claim_class",
    "claim_key",
    "store_claim",
    "volume_counts",
    "with_volumes",
]
