"""Objects for the tests on a real control plane: nodes, queues, gangs, volumes and claims.

Owns their making. Must not know what is tested. Called by the tests of this folder.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.kube.control_plane import ControlPlane

VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"


def node(
    plane: ControlPlane, name: str, *, cpu: str = "16", memory: str = "64Gi", pods: str = "110", only: str = ""
) -> None:
    """A node that is ready. Admission taints a new one as not ready, and there is no controller to take that away.
    `only`: whom its taint lets in, none for everybody."""
    resources = {"cpu": cpu, "memory": memory, "pods": pods}
    body: dict[str, Any] = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
    made = plane.request("POST", "/api/v1/nodes", body, code=201)
    made["spec"].pop("taints", None)
    if only:
        made["spec"]["taints"] = [{"key": "only", "value": only, "effect": "NoSchedule"}]
    plane.request("PUT", f"/api/v1/nodes/{name}", made)


def queue(plane: ControlPlane, name: str = "default") -> None:
    """A queue without limits."""
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    plane.request("POST", f"{VOLCANO}/queues", {**body, "spec": {"weight": 1}}, code=201)


def gang(
    plane: ControlPlane,
    namespace: str,
    name: str,
    size: int,
    *,
    cpu: str = "1",
    claims: Callable[[int], Sequence[str]] = lambda index: (),
    scheduler: str = "vcledger",
    least: int | None = None,
    ballast: str = "",
    to: str = "",
    of: str = "default",
) -> list[str]:
    """A PodGroup of a queue (`of`) and its pods. `claims`: of each pod by its number; `ballast`: an annotation of
    theirs; `to`: they may go to nodes that are `only` for these. The pods' names."""
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size if least is None else least, "queue": of},
    }
    plane.request("POST", f"{VOLCANO}/namespaces/{namespace}/podgroups", body, code=201)
    names = [f"{name}-{index}" for index in range(size)]
    for index, pod in enumerate(names):
        volumes = claims(index)
        make_pod(
            plane, namespace, pod, group=name, cpu=cpu, claims=volumes, scheduler=scheduler, ballast=ballast, to=to
        )
    return names


def make_pod(
    plane: ControlPlane,
    namespace: str,
    name: str,
    *,
    group: str,
    cpu: str = "1",
    claims: Sequence[str] = (),
    scheduler: str = "vcledger",
    ballast: str = "",
    to: str = "",
) -> None:
    """A pod of a group."""
    volumes = [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": one}} for at, one in enumerate(claims)]
    container = {"name": "main", "image": "example.com/work:1", "resources": {"requests": {"cpu": cpu}}}
    spec: dict[str, Any] = {"schedulerName": scheduler, "containers": [container], "volumes": volumes}
    if to:
        spec["tolerations"] = [{"key": "only", "operator": "Equal", "value": to, "effect": "NoSchedule"}]
    body = {
        "metadata": {"name": name, "annotations": {"scheduling.k8s.io/group-name": group, "ballast": ballast}},
        "spec": spec,
    }
    plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", body, code=201)


def storage_class(plane: ControlPlane, name: str, provisioner: str) -> None:
    """A class whose volumes are bound when a pod has a node."""
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    plane.request("POST", "/apis/storage.k8s.io/v1/storageclasses", body, code=201)


def local_volume(
    plane: ControlPlane, name: str, node_name: str, class_name: str, claim_ref: dict[str, str] | None = None
) -> None:
    """A local volume on a node, for anybody or for one claim."""
    where = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": class_name,
        "local": {"path": f"/mnt/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
        **({"claimRef": claim_ref} if claim_ref else {}),
    }
    plane.request("POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec}, code=201)


def claim(plane: ControlPlane, namespace: str, name: str, class_name: str) -> None:
    """A claim of 5Gi."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": class_name,
        "resources": {"requests": {"storage": "5Gi"}},
    }
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    plane.request("POST", path, {"metadata": {"name": name}, "spec": spec}, code=201)


class Provisioner(threading.Thread):
    """Makes volumes for the claims of a class once they say for which node, as an external provisioner does; the real
    controller then binds them. Ends with `stop`."""

    def __init__(self, plane: ControlPlane, namespace: str, class_name: str) -> None:
        super().__init__(name="provisioner", daemon=True)
        self.plane, self.namespace, self.class_name = plane, namespace, class_name
        self.made: dict[str, str] = {}
        self._over = threading.Event()

    def stop(self) -> None:
        """No more volumes."""
        self._over.set()
        self.join()

    def run(self) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"
        while not self._over.wait(0.2):
            for item in self.plane.request("GET", path)["items"]:
                node_name = (item["metadata"].get("annotations") or {}).get("volume.kubernetes.io/selected-node")
                if node_name and item["spec"]["storageClassName"] == self.class_name:
                    self._make(item, node_name)

    def _make(self, item: Any, node_name: str) -> None:
        meta = item["metadata"]
        if meta["uid"] in self.made:
            return
        self.made[meta["uid"]] = node_name
        owner = {"kind": "PersistentVolumeClaim", "namespace": meta["namespace"], "name": meta["name"]}
        local_volume(
            self.plane,
            f"pvc-{meta['uid']}",
            node_name,
            self.class_name,
            claim_ref={**owner, "apiVersion": "v1", "uid": meta["uid"]},
        )


def at_once(*jobs: Callable[[], object]) -> None:
    """Many requests on a few threads; the first error is raised here."""
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(job) for job in jobs]:
            done.result()


def pods(plane: ControlPlane, namespace: str) -> dict[str, Any]:
    """The namespace's pods by name."""
    items = plane.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {item["metadata"]["name"]: item for item in items}
