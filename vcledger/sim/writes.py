"""What the API server makes of each write: the rules by kind and verb.

Owns the rules. Must not know who asks, nor faults. Called by `vcledger.sim.server`.

After apiserver's pkg/registry/generic/registry/store.go, pkg/registry/rest/{create,update,delete}.go and the strategies
and subresources of pkg/registry/core/{pod,node,persistentvolume,persistentvolumeclaim}, less what no scheduler meets:
admission (but the protection finalizers), defaulting, generation, quotas, managed fields, and that namespaces exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from vcledger.runtime.port import Answer
from vcledger.scheduler.requests import Bind, Create, Delete, Patch, Update
from vcledger.sim import status
from vcledger.sim.clock import SECOND, micros, rfc3339
from vcledger.sim.merge import BadPatch, merged, plainly_merged
from vcledger.sim.mvcc import Object, Stored, VersionedStore
from volcano.objects.kinds import BY_NAME, Kind

STATUS_APART: tuple[str, ...] = (
    "Pod",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ResourceQuota",
    "Queue",
    "VolcanoJob",
)
"""Kinds whose status is written through the status subresource only. PodGroup's definition has none: a PUT of the whole
object writes its status."""

DELETED_IS_RETURNED: tuple[str, ...] = ("Pod", "PersistentVolume", "PersistentVolumeClaim", "ResourceQuota")
"""Kinds whose delete answers with the object rather than with a Status (ReturnDeletedObject)."""

PROTECTION: dict[str, str] = {
    "PersistentVolume": "kubernetes.io/pv-protection",
    "PersistentVolumeClaim": "kubernetes.io/pvc-protection",
}
"""The finalizer that the StorageObjectInUseProtection admission adds."""

DEFAULT_GRACE_SECONDS = 30


def key_of(kind: Kind, namespace: str, name: str) -> str:
    """The key of an object in the store."""
    return f"{namespace}/{name}" if kind.namespaced else name


def is_custom(kind: Kind) -> bool:
    """Whether a CustomResourceDefinition serves the kind."""
    return kind.group.endswith("volcano.sh")


class Writes:
    """The writing verbs on a store. `clock` gives the time in microseconds; `uid` makes the next UID."""

    def __init__(self, store: VersionedStore, clock: Callable[[], int], uid: Callable[[], str]) -> None:
        self.store = store
        self.clock = clock
        self.uid = uid
        self._unwritten: dict[str, str] = {}

    # --- create ---------------------------------------------------------------------------------------------------

    def create(self, request: Create) -> Answer:
        """POST: 201 with the object; 409 when the name is taken."""
        kind = BY_NAME[request.kind]
        item = _object(kind, request.body)
        meta = dict(item.get("metadata") or {})
        name = meta.get("name") or ""
        if not name and meta.get("generateName"):
            name = f"{meta['generateName']}{self.uid()[-5:]}"
        if not name:
            raise status.invalid(
                kind,
                "",
                "metadata.name",
                "Required value: name or generateName is required",
                reason="FieldValueRequired",
            )
        if kind.namespaced and (meta.get("namespace") or request.namespace) != request.namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        key = key_of(kind, request.namespace, name)
        if meta.get("resourceVersion"):
            raise status.nameless("resourceVersion should not be set on objects to be created")
        if (there := self.store.get(kind.name, key)) is not None:
            raise status.already_exists(kind, name, going=bool(there.object["metadata"].get("deletionTimestamp")))
        meta |= {"name": name, "uid": self.uid(), "creationTimestamp": rfc3339(self.clock())}
        if kind.namespaced:
            meta["namespace"] = request.namespace
        for stale in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
            meta.pop(stale, None)
        if kind.name in PROTECTION:
            meta["finalizers"] = list(dict.fromkeys([*(meta.get("finalizers") or ()), PROTECTION[kind.name]]))
        stored = self.store.put(kind.name, key, self._first(kind, {**item, "metadata": meta}))
        if kind.name == "PersistentVolumeClaim":
            self._unwritten[f"{kind.name}/{key}"] = meta["uid"]
        return Answer(201, stored.body)

    def _first(self, kind: Kind, item: Object) -> Object:
        """A new object with the fields that are the server's to set."""
        version = f"{kind.group}/{kind.versions[0]}" if kind.group else kind.versions[0]
        item = {"kind": kind.api_kind, "apiVersion": version, **item}
        if kind.name == "Pod":
            spec = item.get("spec") or {}
            state: dict[str, Any] = {"phase": "Pending", "qosClass": "Burstable"}
            if spec.get("schedulingGates"):
                state["conditions"] = [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "SchedulingGated",
                        "message": "Scheduling is blocked due to non-empty scheduling gates",
                        "lastTransitionTime": None,
                    }
                ]
            return {**item, "status": state}
        if kind.name in ("PersistentVolume", "PersistentVolumeClaim"):
            return {**item, "status": {"phase": "Pending"}}
        if kind.name in STATUS_APART and kind.name != "Node":
            item.pop("status", None)
        return item

    # --- update and patch -----------------------------------------------------------------------------------------

    def update(self, request: Update) -> Answer:
        """PUT of an object or its status: 200 with the object; 404, 409 (version or UID), 422."""
        kind = BY_NAME[request.kind]
        item = _object(kind, request.body)
        meta = item.get("metadata") or {}
        if meta.get("name", request.name) != request.name:
            raise status.bad_request(
                f"the name of the object ({meta.get('name')}) does not match the name on the URL ({request.name})"
            )
        if kind.namespaced and (meta.get("namespace") or request.namespace) != request.namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        self._subresource(kind, request.name, request.subresource)
        key, stored = self._found(kind, request.namespace, request.name)
        found = stored.object["metadata"]
        wanted = meta.get("uid") or ""
        if wanted and wanted != found["uid"]:
            raise status.uid_precondition(kind, key, request.name, wanted, found["uid"])
        version = meta.get("resourceVersion") or ""
        if not version and is_custom(kind):
            raise status.no_version(kind, request.name)
        if version and version != found["resourceVersion"]:
            raise status.conflict(kind, request.name, status.MODIFIED)
        return self._written(kind, key, stored, item, request.subresource)

    def patch(self, request: Patch) -> Answer:
        """PATCH by strategic merge, or plainly: 200 with the object. A resourceVersion in it makes it conditional
        (409); a uid that is another object's is a change of an immutable field (422, on which controllers rely)."""
        kind = BY_NAME[request.kind]
        if is_custom(kind) and not request.plain:
            raise status.unsupported_patch()
        patch = _patch(request.body)
        self._subresource(kind, request.name, request.subresource)
        key, stored = self._found(kind, request.namespace, request.name)
        found = stored.object["metadata"]
        meta = patch.get("metadata") or {}
        if (version := meta.get("resourceVersion")) and version != found["resourceVersion"]:
            raise status.conflict(kind, request.name, status.MODIFIED)
        if (wanted := meta.get("uid")) and wanted != found["uid"]:
            raise status.invalid(kind, request.name, "metadata.uid", f'Invalid value: "{wanted}": field is immutable')
        try:
            item = plainly_merged(stored.object, patch) if request.plain else merged(stored.object, patch)
        except BadPatch as error:
            raise status.nameless(str(error)) from error
        return self._written(kind, key, stored, item, request.subresource)

    def _written(self, kind: Kind, key: str, stored: Stored, item: Object, subresource: str) -> Answer:
        """Writes what a PUT or PATCH wants, within what it may change. What changes nothing is not written, but for the
        first write of a new claim, whose stored form then changes; an object that is being deleted goes with its last
        finalizer, and the answer has the version that it had."""
        after = _allowed(kind, stored.object, item, subresource)
        _immutable(kind, stored.object, after)
        first = self._unwritten.pop(f"{kind.name}/{key}", "") == stored.object["metadata"]["uid"]
        if after == stored.object and not first:
            return Answer(200, stored.body)
        meta = after["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds"):
            self.store.remove(kind.name, key)
            return Answer(200, msgspec.json.encode(after))
        return Answer(200, self.store.put(kind.name, key, after).body)

    # --- binding --------------------------------------------------------------------------------------------------

    def bind(self, request: Bind) -> Answer:
        """POST pods/binding: 201 with a Status. 404 without the pod; 409 when the UID is another's, or the pod is being
        deleted, has a node, or has gates. That the node exists is not checked, as in the real one."""
        kind = BY_NAME["Pod"]
        if not request.node:
            raise status.nameless("target.name: Required value")
        key, stored = self._found(kind, request.namespace, request.name)
        pod = stored.object
        meta, spec = pod["metadata"], pod.get("spec") or {}
        if request.uid and request.uid != meta["uid"]:
            raise status.uid_precondition(kind, key, request.name, request.uid, meta["uid"])
        why = ""
        if meta.get("deletionTimestamp"):
            why = f"pod {request.name} is being deleted, cannot be assigned to a host"
        elif spec.get("nodeName"):
            why = f'pod {request.name} is already assigned to node "{spec["nodeName"]}"'
        elif spec.get("schedulingGates"):
            why = f"pod {request.name} has non-empty .spec.schedulingGates"
        if why:
            raise status.conflict(kind, request.name, why, shown="pods/binding")
        annotations = {**(meta.get("annotations") or {}), **request.annotations}
        meta = {**meta, "annotations": annotations} if annotations else meta
        state = {**(pod.get("status") or {})}
        state.pop("nominatedNodeName", None)
        state["conditions"] = self._scheduled(state.get("conditions") or [])
        after = {**pod, "metadata": meta, "spec": {**spec, "nodeName": request.node}, "status": state}
        self.store.put("Pod", key, after)
        return status.success(201)

    def _scheduled(self, conditions: list[Any]) -> list[Any]:
        """The conditions with PodScheduled true (podutil.UpdatePodCondition)."""
        now = rfc3339(self.clock())
        true = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
        at = next((at for at, one in enumerate(conditions) if one.get("type") == "PodScheduled"), len(conditions))
        if at < len(conditions) and conditions[at].get("status") == "True":
            true["lastTransitionTime"] = conditions[at].get("lastTransitionTime")
        return [*conditions[:at], true, *conditions[at + 1 :]]

    # --- delete ---------------------------------------------------------------------------------------------------

    def delete(self, request: Delete) -> Answer:
        """DELETE: 200 with the object or a Status. A pod with a node gets its grace, and every pod is marked before it
        goes, which is a write of its own; an object with finalizers is marked and stays until they are gone; 409 when
        the UID is another's."""
        kind = BY_NAME[request.kind]
        key, stored = self._found(kind, request.namespace, request.name)
        meta = stored.object["metadata"]
        if request.uid and request.uid != meta["uid"]:
            raise status.uid_of_delete(kind, request.name, request.uid, meta["uid"])
        grace = self._grace(kind, stored.object, request.grace_seconds)
        if meta.get("deletionTimestamp"):
            left = meta.get("deletionGracePeriodSeconds") or 0
            if left and grace >= left:
                return Answer(200, stored.body)
            if not left and meta.get("finalizers"):
                return Answer(200, stored.body)
        pod = kind.name == "Pod"
        if grace or meta.get("finalizers") or (pod and meta.get("deletionGracePeriodSeconds") != 0):
            self._unwritten.pop(f"{kind.name}/{key}", None)
            marked = {**meta, "deletionTimestamp": self._due(meta, grace), "deletionGracePeriodSeconds": grace}
            stored = self.store.put(kind.name, key, {**stored.object, "metadata": marked})
            if grace or meta.get("finalizers"):
                return Answer(200, stored.body)
        gone = self.store.remove(kind.name, key)
        if kind.name in DELETED_IS_RETURNED:
            return Answer(200, gone.body)
        details = {"name": request.name, "group": kind.group, "kind": kind.resource, "uid": meta["uid"]}
        return status.success(200, {field: value for field, value in details.items() if value})

    def _due(self, meta: Object, grace: int) -> str:
        """When the grace ends: a shortened one counts from when the deletion was asked for, and never ends before now
        (rest.BeforeDelete)."""
        now = self.clock()
        if not meta.get("deletionTimestamp"):
            return rfc3339(now + grace * SECOND)
        less = (meta.get("deletionGracePeriodSeconds") or 0) - grace
        return rfc3339(max(now, micros(meta["deletionTimestamp"]) - less * SECOND))

    def _grace(self, kind: Kind, item: Object, wanted: int | None) -> int:
        """Seconds: what was asked for, or what the pod's spec says; none for a pod without a node or that has ended
        (podStrategy.CheckGracefulDelete), nor for any other kind."""
        if kind.name != "Pod":
            return 0
        spec = item.get("spec") or {}
        if not spec.get("nodeName") or (item.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        if wanted is not None:
            return max(wanted, 0)
        marked = item["metadata"].get("deletionGracePeriodSeconds")
        grace = marked if marked is not None else spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
        return int(grace)

    # --- parts ----------------------------------------------------------------------------------------------------

    def _found(self, kind: Kind, namespace: str, name: str) -> tuple[str, Stored]:
        key = key_of(kind, namespace, name)
        stored = self.store.get(kind.name, key)
        if stored is None:
            raise status.not_found(kind, name)
        return key, stored

    def _subresource(self, kind: Kind, name: str, subresource: str) -> None:
        if subresource in ("", "status") and (not subresource or kind.name in STATUS_APART):
            return
        raise status.not_found(kind, name) if is_custom(kind) else status.unknown_path()


def _object(kind: Kind, body: bytes) -> Object:
    """The object in a body. One of a custom resource must say its kind; others are taken for what the path says."""
    said = f"the object provided is unrecognized (must be of type {kind.api_kind}): "
    try:
        item = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise status.bad_request(f"{said}couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(item, dict):
        raise status.bad_request(f"{said}couldn't get version/kind; json parse error: not a JSON object")
    if is_custom(kind) and not item.get("kind"):
        raise status.bad_request(f"{said}Object 'Kind' is missing in '{body.decode()}'")
    return item


def _patch(body: bytes) -> Object:
    try:
        patch = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise status.bad_request(f"json: {error}") from error
    if not isinstance(patch, dict):
        raise status.bad_request("json: cannot unmarshal it into Go value of type map[string]interface {}")
    return patch


def _allowed(kind: Kind, before: Object, item: Object, subresource: str) -> Object:
    """The object as a write may leave it: a write of the status changes nothing else but labels, annotations and
    finalizers, and those not of a custom resource; a write of the rest does not change the status; the server's own
    metadata stays as it was."""
    old, new = before["metadata"], item.get("metadata") or {}
    if subresource == "status" and is_custom(kind):
        return {**before, "status": item.get("status") or {}}
    if subresource == "status":
        item = {**before, "metadata": _with_owners_of(old, new), "status": item.get("status") or {}}
        new = item["metadata"]
    meta = {field: value for field, value in new.items() if value is not None and value not in ({}, [])}
    for field in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        meta.pop(field, None)
    meta.pop("resourceVersion", None)
    fixed = {field: old[field] for field in old if field in _SERVERS}
    after = {**item, "kind": before["kind"], "apiVersion": before["apiVersion"], "metadata": {**fixed, **meta}}
    if kind.name in STATUS_APART and subresource != "status":
        after["status"] = before.get("status")
        if after["status"] is None:
            del after["status"]
    return after


def _with_owners_of(old: Object, new: Object) -> Object:
    meta = {field: value for field, value in new.items() if field != "ownerReferences"}
    return {**meta, "ownerReferences": old["ownerReferences"]} if "ownerReferences" in old else meta


_SERVERS = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def _immutable(kind: Kind, before: Object, after: Object) -> None:
    """Refuses the changes that no update may make to what a scheduler handles."""
    if found := [*_late_finalizers(before, after), *_forbidden(kind, before, after)]:
        raise status.all_invalid(
            kind,
            before["metadata"]["name"],
            [(field, f"Forbidden: {why}", "FieldValueForbidden") for field, why in found],
        )


def _late_finalizers(before: Object, after: Object) -> Iterator[tuple[str, str]]:
    old = before["metadata"].get("finalizers") or []
    added = [item for item in after["metadata"].get("finalizers") or () if item not in old]
    if before["metadata"].get("deletionTimestamp") and added:
        shown = ", ".join(msgspec.json.encode(item).decode() for item in added)
        why = "no new finalizers can be added if the object is being deleted, found new finalizers []string"
        yield "metadata.finalizers", f"{why}{{{shown}}}"


def _forbidden(kind: Kind, before: Object, after: Object) -> Iterator[tuple[str, str]]:
    """Fields and why they may not change so."""
    old, new = before.get("spec") or {}, after.get("spec") or {}
    if kind.name == "Pod":
        if old.get("nodeName") and (after.get("status") or {}).get("nominatedNodeName"):
            yield "status.nominatedNodeName", "may not be set on pods that are already bound to a node"
        if old.get("nodeName", "") != new.get("nodeName", ""):
            yield "spec", "pod updates may not change fields other than `spec.containers[*].image`, `spec.tolerations`"
    if kind.name == "PersistentVolumeClaim" and _claim_fixed(old) != _claim_fixed(new, old.get("volumeName") or ""):
        yield "spec", "spec is immutable after creation except resources.requests for bound claims"
    if kind.name == "PersistentVolume" and old.get("csi") != new.get("csi"):
        yield "spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"


def _claim_fixed(spec: Object, was_bound_to: str | None = None) -> Object:
    """What of a claim's spec may not change; its volume may be set once."""
    fixed = {field: value for field, value in spec.items() if field != "resources" and value not in (None, "")}
    if was_bound_to == "":
        fixed.pop("volumeName", None)
    return fixed
