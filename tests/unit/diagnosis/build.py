"""Small builders of the diagnosis's inputs, so that a test names only what it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from projections.diagnosis.views import ClusterView, NodeView, PlacedPod, TaskView
from volcano.objects.kinds import decode
from volcano.objects.resource import new_resource

GI = float(1 << 30)


def obj(kind: str, **parts: Any) -> Any:
    """An object of a kind from the JSON that the API would send."""
    return decode(kind, msgspec.json.encode(parts))


def pod(name: str = "p", namespace: str = "default", uid: str = "", **spec: Any) -> Any:
    """A pod; `labels`, `annotations`, `status` and `meta` go where they belong, the rest is its spec."""
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "labels": spec.pop("labels", {}),
        "annotations": spec.pop("annotations", {}),
        **spec.pop("meta", {}),
    }
    status = spec.pop("status", {"phase": "Pending"})
    return obj("Pod", metadata=meta, spec={"schedulerName": "volcano", **spec}, status=status)


def node(
    name: str = "n1", cpu: str = "8", memory: str = "32Gi", used: Mapping[str, float] | None = None, **more: Any
) -> NodeView:
    """A node with everything idle, but for `used` (in the scheduler's units). `labels`, `taints`, `unschedulable`,
    `ready` and `resources` shape the object; the rest goes to NodeView."""
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    resources = {"cpu": cpu, "memory": memory, "pods": "110", **more.pop("resources", {})}
    body = obj(
        "Node",
        metadata={"name": name, "uid": f"uid-{name}", "labels": labels},
        spec={"taints": more.pop("taints", None), "unschedulable": more.pop("unschedulable", False)},
        status={"allocatable": resources, "conditions": [{"type": "Ready", "status": more.pop("ready", "True")}]},
    )
    allocatable = new_resource(resources).amounts()
    idle = {key: amount - (used or {}).get(key, 0.0) for key, amount in allocatable.items()}
    return NodeView(name=name, node=body, allocatable=allocatable, idle=idle, pods_max=110, **more)


def task(of: Any, request: Mapping[str, str] | None = None, **more: Any) -> TaskView:
    """A pending task of a pod, asking for `request`."""
    amounts = new_resource({"pods": "1", **(request or {})}).amounts()
    return TaskView(
        namespace=of.metadata.namespace,
        name=of.metadata.name,
        uid=of.metadata.uid,
        status=more.pop("status", "Pending"),
        request=amounts,
        best_effort=more.pop("best_effort", not request),
        pod=of,
        **more,
    )


def placed(of: Any, on: str) -> PlacedPod:
    """A pod that is on a node already."""
    return PlacedPod.of(of, on)


def cluster(nodes: Sequence[NodeView], **more: Any) -> ClusterView:
    """A cluster of some nodes."""
    return ClusterView(nodes=list(nodes), **more)


def claim(name: str, class_name: str | None = "wait", size: str = "5Gi", **more: Any) -> Any:
    """A claim; `volume` binds it for good."""
    annotations = dict(more.pop("annotations", {}))
    volume = more.pop("volume", "")
    if volume:
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    spec = {
        "accessModes": more.pop("modes", ["ReadWriteOnce"]),
        "resources": {"requests": {"storage": size}},
        "volumeName": volume,
        **more.pop("spec", {}),
    }
    if class_name is not None:
        spec["storageClassName"] = class_name
    return obj(
        "PersistentVolumeClaim",
        metadata={
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "annotations": annotations,
            **more.pop("meta", {}),
        },
        spec=spec,
        status={"phase": more.pop("phase", "Bound" if volume else "Pending")},
    )


def volume(name: str, class_name: str = "wait", size: str = "10Gi", **more: Any) -> Any:
    """A volume; `host` gives it node affinity to one host."""
    host = more.pop("host", None)
    affinity = (
        {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}
                ]
            }
        }
        if host
        else None
    )
    return obj(
        "PersistentVolume",
        metadata={"name": name, "uid": f"uid-{name}", "labels": more.pop("labels", {}), **more.pop("meta", {})},
        spec={
            "capacity": {"storage": size},
            "accessModes": more.pop("modes", ["ReadWriteOnce"]),
            "storageClassName": class_name,
            "nodeAffinity": affinity,
            **more.pop("spec", {}),
        },
        status={"phase": more.pop("phase", "Available")},
    )


def storage_class(name: str = "wait", provisioner: str = "kubernetes.io/no-provisioner", **more: Any) -> Any:
    """A class that waits for the first consumer unless told otherwise."""
    return obj(
        "StorageClass",
        metadata={"name": name, "uid": f"uid-{name}"},
        provisioner=provisioner,
        **{"volumeBindingMode": "WaitForFirstConsumer", **more},
    )


def uses(*claims: str) -> dict[str, Any]:
    """Volumes of a pod that use claims."""
    return {
        "volumes": [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(claims)]
    }
