"""The cluster that the README records: one node, and a gang of two of which only one pod was made."""

from __future__ import annotations

from typing import Any

from tests.kube.control_plane import ControlPlane

MERGE = "application/merge-patch+json"


def fill(plane: ControlPlane) -> None:
    """Makes the node, the queue, the PodGroup and the pod."""
    resources = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    plane.request("POST", "/api/v1/nodes", {"metadata": {"name": "node-1"}}, code=201)
    status: dict[str, Any] = {"allocatable": resources, "capacity": resources}
    status["conditions"] = [{"type": "Ready", "status": "True"}]
    plane.request("PATCH", "/api/v1/nodes/node-1/status", {"status": status}, type_=MERGE)
    volcano = "/apis/scheduling.volcano.sh/v1beta1"
    about = {"apiVersion": "scheduling.volcano.sh/v1beta1"}
    queue = {**about, "kind": "Queue", "metadata": {"name": "default"}, "spec": {"weight": 1}}
    plane.request("POST", f"{volcano}/queues", queue, code=201)
    group = {**about, "kind": "PodGroup", "metadata": {"name": "train"}, "spec": {"minMember": 2, "queue": "default"}}
    plane.request("POST", f"{volcano}/namespaces/default/podgroups", group, code=201)
    container = {"name": "main", "image": "train:1", "resources": {"requests": {"cpu": "2"}}}
    pod = {
        "metadata": {"name": "train-0", "annotations": {"scheduling.k8s.io/group-name": "train"}},
        "spec": {"schedulerName": "volcano", "containers": [container]},
    }
    plane.request("POST", "/api/v1/namespaces/default/pods", pod, code=201)
