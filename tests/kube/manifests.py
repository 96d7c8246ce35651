"""The manifests of deploy/ as objects, and how they are put on a control plane.

Owns the reading of our kustomizations, which are simple enough. Must not know what is tested. Called by the tests of
the manifests, and by those that run under the accounts that they make.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from tests.kube.control_plane import ROOT, ControlPlane

DEPLOY = ROOT / "deploy"
PARTS = ("recorder", "scheduler")
PLURALS = {"Deployment": "deployments", "Namespace": "namespaces", "ServiceAccount": "serviceaccounts"} | {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "CustomResourceDefinition": "customresourcedefinitions",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Service": "services",
    "PersistentVolumeClaim": "persistentvolumeclaims",
}
CLUSTER_WIDE = ("Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition")


def objects(part: str) -> list[Any]:
    """What a kustomization comes to: the objects in its files, in its namespace."""
    folder = DEPLOY / part
    root = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert set(root) <= {"apiVersion", "kind", "namespace", "resources"}, "this test knows no more of kustomize"
    found = []
    for name in root["resources"]:
        for item in yaml.safe_load_all((folder / name).read_text()):
            if root.get("namespace") and item["kind"] not in CLUSTER_WIDE:
                item["metadata"]["namespace"] = root["namespace"]
            found.append(item)
    return found


def path_of(item: Any) -> str:
    version = item["apiVersion"]
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = item["metadata"].get("namespace")
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{prefix}{where}/{PLURALS[item['kind']]}/{item['metadata']['name']}"


def applied(plane: ControlPlane, item: Any, *, dry: bool) -> Any:
    """Server-side apply; a field that the API does not know is an error."""
    query = "?fieldManager=tests&force=true&fieldValidation=Strict" + ("&dryRun=All" if dry else "")
    answer = plane.port.raw("PATCH", path_of(item) + query, json.dumps(item).encode(), "application/apply-patch+yaml")
    assert answer.code in (200, 201), f"{path_of(item)}: {answer.body.decode()}"
    return json.loads(answer.body)


@contextmanager
def installed(plane: ControlPlane) -> Iterator[None]:
    """While it lasts the namespace, accounts and roles of all parts are there; nothing of them runs."""
    made = [item for part in PARTS for item in objects(part) if item["kind"] != "Deployment"]
    for item in made:
        applied(plane, item, dry=False)
    try:
        yield
    finally:
        for item in reversed(made):
            if item["kind"] != "Namespace":  # nobody here would finish its deletion
                plane.port.raw("DELETE", path_of(item))
