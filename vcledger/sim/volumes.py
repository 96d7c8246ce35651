"""The simulated PV controller, the provisioner of each storage class, and the protection of volumes in use.

Owns what they do. Must not know the scheduler. Called by `vcledger.sim.world` through the API server's writes.

After kubernetes pkg/controller/volume/persistentvolume (syncClaim, syncVolume, bind in four writes, unbindVolume,
reclaimVolume), pkg/controller/volume/{pvcprotection,pvprotection} and the external provisioner, which takes the
selected node away when it fails so that the pod is scheduled anew.
"""

from __future__ import annotations

from typing import Any

import msgspec

from vcledger.sim.actors import (
    Actor,
    World,
    annotation,
    key_in_store,
    with_annotations,
    with_spec,
    with_status,
    without_finalizer,
)
from vcledger.sim.clock import MILLISECOND, rfc3339
from vcledger.sim.mvcc import Object, Revision
from vcledger.sim.writes import PROTECTION
from volcano.objects.meta import LabelSelector
from volcano.objects.quantity import value
from volcano.objects.selectors import matches_labels

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
HOSTNAME = "kubernetes.io/hostname"

PV, PVC = "PersistentVolume", "PersistentVolumeClaim"


class VolumeController(Actor):
    """Binds claims and volumes, in four writes, and takes apart what does not belong together.

    `undoing`: so many times, a volume that somebody gave to a claim is taken back before the claim is bound."""

    kinds = (PV, PVC, "Pod")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.undoing = 0

    def changed(self, revision: Revision) -> None:
        item = revision.stored.object
        if revision.kind == "Pod":
            if revision.change == "DELETED":
                for claim in claims_of(item):
                    self.soon(PVC, claim)
            return
        self.soon(revision.kind, revision.key)
        if revision.kind == PVC:
            if name := (item.get("spec") or {}).get("volumeName"):
                self.soon(PV, name)
            for volume in self.api.objects(PV):
                if claim_key(volume) == revision.key:
                    self.soon(PV, volume["metadata"]["name"])
        elif key := claim_key(item):
            self.soon(PVC, key)
        else:
            for other in self.api.objects(PVC):
                if not other["spec"].get("volumeName") and not delayed(self.api, other):
                    self.soon(PVC, key_in_store(PVC, other))

    def look(self, kind: str, key: str) -> None:
        item = self.object(kind, key)
        if item is None:
            return
        if item["metadata"].get("deletionTimestamp"):
            if not self._protection(kind, key, item) and kind == PV:
                self._volume(item)
        elif kind == PVC:
            self._claim(key, item)
        else:
            self._volume(item)

    # --- claims ---------------------------------------------------------------------------------------------------

    def _claim(self, key: str, claim: Object) -> None:
        name = claim["spec"].get("volumeName") or ""
        if annotation(claim, BIND_COMPLETED):
            volume = self.object(PV, name)
            if volume is None or not belongs(volume, claim):
                if claim["status"].get("phase") != "Lost":
                    self.world.put(PVC, with_status(claim, phase="Lost"), "status")
            else:
                self._bind(volume, claim)
            return
        volume = self.object(PV, name) if name else self._prebound(key, claim)
        if volume is None and not name and not delayed(self.api, claim):
            volume = self._best(claim)
        if volume is not None and (belongs(volume, claim) or self._may_take(volume, claim, named=bool(name))):
            self._bind(volume, claim)

    def _may_take(self, volume: Object, claim: Object, *, named: bool) -> bool:
        """Whether a volume that is given to nobody is for the claim. One that the claim names has to satisfy it; of
        others that has been looked at (checkVolumeSatisfyClaim)."""
        return not claim_key(volume) and (not named or (same_class(volume, claim) and suits(volume, claim)))

    def _prebound(self, key: str, claim: Object) -> Object | None:
        """A volume that somebody has given to the claim; its class and phase do not matter (FindMatchingVolume)."""
        return next(
            (v for v in self.api.objects(PV) if claim_key(v) == key and belongs(v, claim) and suits(v, claim)),
            None,
        )

    def _best(self, claim: Object) -> Object | None:
        """The smallest free volume of the claim's class that does for it."""
        fitting = [v for v in self.api.objects(PV) if not claim_key(v) and free(v) and fits(v, claim)]
        return min(fitting, key=lambda v: (capacity(v), v["metadata"]["name"]), default=None)

    def _bind(self, volume: Object, claim: Object) -> None:
        """The next of the four writes that bind: the volume's reference, its phase, the claim's volume, its phase."""
        name, uid = volume["metadata"]["name"], claim["metadata"]["uid"]
        reference = volume["spec"].get("claimRef") or {}
        if reference.get("uid") != uid:
            whole = {**claim_reference(claim), "uid": uid}
            bound = with_spec(volume, claimRef=whole)
            if not reference:
                bound = with_annotations(bound, {BOUND_BY_CONTROLLER: "yes"})
            self.world.put(PV, bound)
        elif (volume.get("status") or {}).get("phase") != "Bound":
            self.world.put(PV, with_status(volume, phase="Bound"), "status")
        elif claim["spec"].get("volumeName") != name or not annotation(claim, BIND_COMPLETED):
            marks: dict[str, str | None] = {BIND_COMPLETED: "yes"}
            if not claim["spec"].get("volumeName"):
                marks[BOUND_BY_CONTROLLER] = "yes"
            self.world.put(PVC, with_annotations(with_spec(claim, volumeName=name), marks))
        elif claim["status"].get("phase") != "Bound":
            fields = {"accessModes": volume["spec"].get("accessModes"), "capacity": volume["spec"].get("capacity")}
            self.world.put(PVC, with_status(claim, phase="Bound", **fields), "status")

    # --- volumes --------------------------------------------------------------------------------------------------

    def _volume(self, volume: Object) -> None:
        key = claim_key(volume)
        uid = (volume["spec"].get("claimRef") or {}).get("uid") or ""
        if not key or not uid:
            self._phase(volume, "Available")
            if key:
                self.soon(PVC, key)
            return
        claim = self.object(PVC, key)
        if claim is None or claim["metadata"]["uid"] != uid:
            self._release(volume)
        elif not claim["spec"].get("volumeName"):
            if self.undoing and annotation(volume, BOUND_BY_CONTROLLER):
                self.undoing -= 1
                self._unbind(volume)
            else:
                self.soon(PVC, key)
        elif claim["spec"]["volumeName"] == volume["metadata"]["name"]:
            self._phase(volume, "Bound")
        elif annotation(volume, PROVISIONED_BY) and policy(volume) == "Delete":
            self._release(volume)
        else:
            self._unbind(volume)

    def _release(self, volume: Object) -> None:
        if (volume.get("status") or {}).get("phase") != "Released":
            self._phase(volume, "Released")
        elif policy(volume) == "Delete":
            self.world.delete(PV, volume)

    def _unbind(self, volume: Object) -> None:
        """Takes the claim's reference away; of a volume that a user had given to it only the UID."""
        if annotation(volume, BOUND_BY_CONTROLLER):
            free = with_annotations(with_spec(volume, claimRef=None), {BOUND_BY_CONTROLLER: None})
        else:
            free = with_spec(volume, claimRef={**volume["spec"]["claimRef"], "uid": None})
        self.world.put(PV, free)

    def _phase(self, volume: Object, phase: str) -> None:
        if (volume.get("status") or {}).get("phase") != phase:
            self.world.put(PV, with_status(volume, phase=phase), "status")

    # --- protection -----------------------------------------------------------------------------------------------

    def _protection(self, kind: str, key: str, item: Object) -> bool:
        """Lets a claim go that no pod with a node uses, whether that has ended or not, and a volume that is not bound;
        whether it did."""
        if kind == PVC:
            if any(key in claims_of(pod) and pod["spec"].get("nodeName") for pod in self.api.objects("Pod")):
                return False
        elif (item.get("status") or {}).get("phase") == "Bound":
            return False
        if PROTECTION[kind] in (item["metadata"].get("finalizers") or ()):
            self.world.put(kind, without_finalizer(item, PROTECTION[kind]))
        return True


class Provisioner(Actor):
    """Makes volumes for claims whose class names a provisioner.

    `stuck`: classes for which nothing ever comes. `failing`: class to how many times it fails before it works; each
    failure is told as an event, and takes the selected node away. `speed`: least and most milliseconds for a volume."""

    kinds = (PVC,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.stuck: dict[str, int] = {}
        self.failing: dict[str, int] = {}
        self.speed = (200, 3000)
        self._working: dict[str, str] = {}
        self._events = 0

    def look(self, kind: str, key: str) -> None:
        claim = self.object(kind, key)
        if claim is None or claim["metadata"].get("deletionTimestamp") or claim["spec"].get("volumeName"):
            return
        found = storage_class(self.api, claim)
        if found is None or found.get("provisioner", NO_PROVISIONER) == NO_PROVISIONER:
            return
        node = annotation(claim, SELECTED_NODE)
        if not node and delayed(self.api, claim):
            return
        uid = claim["metadata"]["uid"]
        if self.object(PV, f"pvc-{uid}") is not None:
            return
        if not annotation(claim, PROVISIONER):
            self.world.put(PVC, with_annotations(claim, {PROVISIONER: found["provisioner"]}))
            return
        until = self.stuck.get(found["metadata"]["name"], 0)
        if until > self.world.timeline.now:
            self.later(PVC, key, until - self.world.timeline.now)
            return
        attempt = f"{uid} {node}"
        if self._working.get(key) != attempt:
            self._working[key] = attempt
            self.world.timeline.after(self.world.between(*self.speed), lambda: self._finish(key, attempt))

    def _finish(self, key: str, attempt: str) -> None:
        """The storage system's answer, to the claim as it is by then."""
        if self._working.get(key) != attempt:
            return
        del self._working[key]
        claim = self.object(PVC, key)
        if claim is None or f"{claim['metadata']['uid']} {annotation(claim, SELECTED_NODE)}" != attempt:
            return
        found = storage_class(self.api, claim)
        if found is None or claim["spec"].get("volumeName"):
            return
        name = found["metadata"]["name"]
        node_name = annotation(claim, SELECTED_NODE)
        node = self.api.object("Node", "", node_name) if node_name else None
        if self.failing.get(name, 0) > 0 or (node_name and node is None):
            self.failing[name] = max(self.failing.get(name, 0) - 1, 0)
            self._fail(claim, "the backend has no capacity left" if node else f'node "{node_name}" not found')
            return
        self._make(claim, found, node)

    def _fail(self, claim: Object, why: str) -> None:
        self._events += 1
        now = rfc3339(self.world.timeline.now)
        meta = claim["metadata"]
        about = {"kind": PVC, "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
        event = {
            "metadata": {"name": f"{meta['name']}.{self._events}", "namespace": meta["namespace"]},
            "involvedObject": about,
            "reason": "ProvisioningFailed",
            "message": f"failed to provision volume: {why}",
            "type": "Warning",
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
        self.api.create("Event", event)
        if annotation(claim, SELECTED_NODE):
            self.world.put(PVC, with_annotations(claim, {SELECTED_NODE: None}))
        else:
            self.later(PVC, key_in_store(PVC, claim), 1000 * MILLISECOND)

    def _make(self, claim: Object, found: Object, node: Object | None) -> None:
        meta = claim["metadata"]
        spec: dict[str, Any] = {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": found["metadata"]["name"],
            "persistentVolumeReclaimPolicy": found.get("reclaimPolicy", "Delete"),
            "claimRef": {**claim_reference(claim), "uid": meta["uid"]},
            "csi": {"driver": found["provisioner"], "volumeHandle": f"pvc-{meta['uid']}"},
        }
        if claim["spec"].get("volumeMode"):
            spec["volumeMode"] = claim["spec"]["volumeMode"]
        if node is not None:
            host = (node["metadata"].get("labels") or {}).get(HOSTNAME, node["metadata"]["name"])
            spec["nodeAffinity"] = on_host(host)
        volume = {
            "metadata": {"name": f"pvc-{meta['uid']}", "annotations": {PROVISIONED_BY: found["provisioner"]}},
            "spec": spec,
        }
        self.api.create(PV, volume)


# --- reading volumes, claims and pods -----------------------------------------------------------------------------


def on_host(host: str) -> Object:
    """A volume's node affinity to one host."""
    expression = {"key": HOSTNAME, "operator": "In", "values": [host]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def claims_of(pod: Object) -> list[str]:
    """The claims (namespace/name) that a pod's volumes use."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    names = [volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume]
    return [f"{pod['metadata']['namespace']}/{name}" for name in names]


def ended(pod: Object) -> bool:
    """Whether the pod runs no more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def claim_key(volume: Object) -> str:
    """The claim (namespace/name) that a volume is given to, '' when to none."""
    reference = volume["spec"].get("claimRef") or {}
    return f"{reference['namespace']}/{reference['name']}" if reference else ""


def claim_reference(claim: Object) -> Object:
    """A reference to a claim, without its UID."""
    meta = claim["metadata"]
    return {"kind": PVC, "apiVersion": "v1", "namespace": meta["namespace"], "name": meta["name"]}


def belongs(volume: Object, claim: Object) -> bool:
    """Whether the volume is given to this claim; one without a UID is given to whoever has the name."""
    if claim_key(volume) != key_in_store(PVC, claim):
        return False
    uid: str = claim["metadata"]["uid"]
    return (volume["spec"]["claimRef"].get("uid") or uid) == uid


def free(volume: Object) -> bool:
    """Whether the controller has found it to be for anybody."""
    return (volume.get("status") or {}).get("phase") == "Available"


def suits(volume: Object, claim: Object) -> bool:
    """What every claim asks of its volume: size, modes, attributes class; and it must not be on its way out."""
    wanted, given = claim["spec"], volume["spec"]
    return (
        not volume["metadata"].get("deletionTimestamp")
        and capacity(volume) >= value(wanted["resources"]["requests"]["storage"])
        and all(mode in given["accessModes"] for mode in wanted["accessModes"])
        and (given.get("volumeMode") or "Filesystem") == (wanted.get("volumeMode") or "Filesystem")
        and (given.get("volumeAttributesClassName") or "") == (wanted.get("volumeAttributesClassName") or "")
    )


def same_class(volume: Object, claim: Object) -> bool:
    """Whether they are of one storage class."""
    return (volume["spec"].get("storageClassName") or "") == (claim["spec"].get("storageClassName") or "")


def fits(volume: Object, claim: Object) -> bool:
    """Class and selector, and what every claim asks."""
    selector = claim["spec"].get("selector")
    return (
        same_class(volume, claim)
        and suits(volume, claim)
        and (
            selector is None
            or matches_labels(msgspec.convert(selector, LabelSelector), volume["metadata"].get("labels") or {})
        )
    )


def capacity(volume: Object) -> int:
    """The size of a volume in bytes."""
    return value(volume["spec"]["capacity"]["storage"])


def policy(volume: Object) -> str:
    """The reclaim policy."""
    return str(volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain")


def storage_class(api: Any, claim: Object) -> Object | None:
    """The claim's class."""
    name = claim["spec"].get("storageClassName") or ""
    found: Object | None = api.object("StorageClass", "", name) if name else None
    return found


def delayed(api: Any, claim: Object) -> bool:
    """Whether the claim's class waits for the first pod."""
    found = storage_class(api, claim)
    return found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"
