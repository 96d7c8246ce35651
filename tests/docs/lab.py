"""The cluster that the README records and schedules: one node, a gang of two of which only one pod was made, and one of
two for our own scheduler."""

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
    # Admission has tainted it as not ready, and no controller is there to look again.
    plane.request("PATCH", "/api/v1/nodes/node-1", {"spec": {"taints": None}}, type_=MERGE)
    volcano = "/apis/scheduling.volcano.sh/v1beta1"
    about = {"apiVersion": "scheduling.volcano.sh/v1beta1"}
    queue = {**about, "kind": "Queue", "metadata": {"name": "default"}, "spec": {"weight": 1}}
    plane.request("POST", f"{volcano}/queues", queue, code=201)
    for name, scheduler, pods in (("train", "volcano", 1), ("serve", "vcledger", 2)):
        group = {**about, "kind": "PodGroup", "metadata": {"name": name}, "spec": {"minMember": 2, "queue": "default"}}
        plane.request("POST", f"{volcano}/namespaces/default/podgroups", group, code=201)
        container = {"name": "main", "image": f"{name}:1", "resources": {"requests": {"cpu": "2"}}}
        for index in range(pods):
            pod = {
                "metadata": {"name": f"{name}-{index}", "annotations": {"scheduling.k8s.io/group-name": name}},
                "spec": {"schedulerName": scheduler, "containers": [container]},
            }
            plane.request("POST", "/api/v1/namespaces/default/pods", pod, code=201)
