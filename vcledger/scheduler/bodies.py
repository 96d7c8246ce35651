"""The objects as they are sent: a volume with its claim, a claim with its node, a condition, an Event.

Owns these edits of JSON. Must not know when they are sent. Called by the fold, which keeps them with the assumption,
and by the deciders.

Sources: Kubernetes' volume util GetBindVolumeToClaim and AssumePodVolumes; podutil.UpdatePodCondition; the event
recorder. An object is sent back whole, with every field that the log has of it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

import msgspec

from projections.diagnosis.claims import SELECTED_NODE
from volcano.objects import kinds
from volcano.objects.core import PersistentVolume, PersistentVolumeClaim, Pod

DISRUPTION_TARGET, BY_SCHEDULER = "DisruptionTarget", "PreemptionByScheduler"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017


def rfc3339(micros: int) -> str:
    """A time in whole seconds, as the API writes it."""
    return _second(micros // 1_000_000)


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _annotate(obj: dict[str, Any], name: str, value: str) -> None:
    metadata = obj.setdefault("metadata", {})
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {**annotations, name: value}


def volume_for_claim(raw: bytes, claim: PersistentVolumeClaim) -> tuple[PersistentVolume, bytes]:
    """The volume with its claimRef set to the claim. One that nobody had named before is marked as bound by us."""
    obj = msgspec.json.decode(raw, type=dict[str, Any])
    spec = obj.setdefault("spec", {})
    before = spec.get("claimRef")
    spec["claimRef"] = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
        "resourceVersion": claim.metadata.resource_version,
    }
    if not before:
        _annotate(obj, BOUND_BY_CONTROLLER, "yes")
    body = msgspec.json.encode(obj)
    return kinds.decode("PersistentVolume", body), body


def claim_for_node(raw: bytes, node: str) -> tuple[PersistentVolumeClaim, bytes]:
    """The claim with its selected-node annotation set."""
    obj = msgspec.json.decode(raw, type=dict[str, Any])
    _annotate(obj, SELECTED_NODE, node)
    body = msgspec.json.encode(obj)
    return kinds.decode("PersistentVolumeClaim", body), body


def condition_differs(pod: Pod, status: str, reason: str, message: str) -> bool:
    """Whether the pod's PodScheduled condition is not this one already (podConditionHaveUpdate)."""
    held = next((one for one in pod.status.conditions or () if one.type == "PodScheduled"), None)
    return held is None or (held.status, held.reason, held.message) != (status, reason, message)


def condition_patch(pod: Pod, status: str, reason: str, message: str, now: int, node: str = "") -> bytes:
    """A strategic merge patch of the pod's status; conditions merge by type. The time of the transition stays when the
    status does. `node`: the one that is named for the pod, '' to leave that as it is."""
    held = next((one for one in pod.status.conditions or () if one.type == "PodScheduled"), None)
    since = held.last_transition_time if held is not None and held.status == status else None
    condition = {
        "type": "PodScheduled",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since or rfc3339(now),
    }
    written: dict[str, Any] = {"conditions": [condition]}
    if node:
        written["nominatedNodeName"] = node
    return msgspec.json.encode({"metadata": {"uid": pod.metadata.uid}, "status": written})


def eviction_patch(uid: str, message: str, now: int) -> bytes:
    """A strategic merge patch of the status of a pod that is to go: not Ready, and a target of disruption (Volcano's
    defaultEvictor; the words of the second are kube-scheduler's, with Volcano's name)."""
    since = rfc3339(now)
    ready = {"type": "Ready", "status": "False", "reason": "Evict", "message": message, "lastTransitionTime": since}
    target = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": BY_SCHEDULER,
        "message": "volcano: preempting to accommodate a higher priority pod",
        "lastTransitionTime": since,
    }
    return msgspec.json.encode({"metadata": {"uid": uid}, "status": {"conditions": [ready, target]}})


def event_of(
    namespace: str, name: str, uid: str, *, reason: str, message: str, warning: bool, position: int, now: int,
    kind: str = "Pod",
) -> bytes:  # fmt: skip
    """A core Event about a pod, or an object of another kind. Its name is made from the position of what it tells, so
    it is the same when sent again."""
    found = kinds.BY_NAME[kind]
    version = f"{found.group}/{found.versions[0]}" if found.group else found.versions[0]
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{position:016x}", "namespace": namespace},
            "involvedObject": {
                "kind": found.api_kind,
                "apiVersion": version,
                "namespace": namespace,
                "name": name,
                "uid": uid,
            },
            "reason": reason,
            "message": message,
            "type": "Warning" if warning else "Normal",
            "firstTimestamp": rfc3339(now),
            "lastTimestamp": rfc3339(now),
            "count": 1,
            "source": {"component": "volcano"},
            "reportingComponent": "volcano",
            "reportingInstance": "",
        }
    )


class SentCondition(msgspec.Struct):
    """A condition of a patch that was sent."""

    reason: str = ""
    message: str = ""


class SentStatus(msgspec.Struct):
    """What a patch of a pod's status has set: its conditions, and the nominated node."""

    conditions: list[SentCondition]
    node: str = msgspec.field(default="", name="nominatedNodeName")


class _Sent(msgspec.Struct):
    status: SentStatus


_sent = msgspec.json.Decoder(_Sent)


def sent_status(body: bytes) -> SentStatus:
    """The status in the body of a patch that `condition_patch` or `eviction_patch` made."""
    return _sent.decode(body).status


__all__ = [
    "BY_SCHEDULER",
    "DISRUPTION_TARGET",
    "claim_for_node",
    "condition_differs",
    "condition_patch",
    "event_of",
    "eviction_patch",
    "rfc3339",
    "sent_status",
    "volume_for_claim",
]
