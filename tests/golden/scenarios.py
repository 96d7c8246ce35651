"""Builds scenarios in few words, for tests of kinds that the given ones do not have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

Line: TypeAlias = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
CREATED = "2026-03-01T10:00:00Z"


def meta(name: str, version: int, uid: str = "", **more: Any) -> Line:
    return {
        "name": name,
        "uid": uid or f"{name}-u",
        "resourceVersion": str(version),
        "creationTimestamp": CREATED,
        **more,
    }


def watch(type_: str, obj: Line) -> Line:
    return {"type": type_, "object": obj}


def line(type_: str, /, **parts: Any) -> Line:
    return {"type": type_, "object": parts}


def action(name: str, /, **parts: Any) -> Line:
    return line("ACTION", action=name, **parts)


def control(op: str, /, **parts: Any) -> Line:
    return line("CONTROL", op=op, **parts)


def advance(seconds: float) -> Line:
    return control("advance", seconds=seconds)


def api(verb: str, path: str, code: int | None, body: Line | None = None, **more: Any) -> Line:
    return line("API", verb=verb, path=path, code=code, body=body, **more)


def status(code: int, message: str, reason: str = "") -> Line:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def node(name: str = "n1", version: int = 90, cpu: str = "4", **spec: Any) -> Line:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": meta(name, version, labels={"kubernetes.io/hostname": name}),
        "spec": spec,
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(
    name: str = "p1",
    version: int = 100,
    *,
    on: str = "",
    cpu: str = "1",
    claims: Sequence[str] = (),
    group: str = "",
    uid: str = "",
    phase: str = "",
) -> Line:
    about = meta(name, version, uid, namespace="default")
    if group:
        about["annotations"] = {"scheduling.k8s.io/group-name": group}
    requests = {"cpu": cpu, "memory": "1Gi"}
    spec: Line = {"schedulerName": "volcano", "containers": [{"name": "main", "resources": {"requests": requests}}]}
    if claims:
        spec["volumes"] = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    if on:
        spec["nodeName"] = on
    state = {"phase": phase or ("Running" if on else "Pending")}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": about, "spec": spec, "status": state}


def group(name: str = "g", version: int = 95, uid: str = "", minimum: int = 2) -> Line:
    return {
        "kind": "PodGroup",
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "metadata": meta(name, version, uid, namespace="default"),
        "spec": {"minMember": minimum, "queue": "default", "minResources": {"cpu": "2"}},
        "status": {"phase": "Inqueue"},
    }


def storage_class(provisioner: str = "kubernetes.io/no-provisioner") -> Line:
    return {
        "kind": "StorageClass",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": meta("wait", 5),
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(version: int, claimed: bool = False, phase: str = "Available") -> Line:
    spec: Line = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "wait",
        "persistentVolumeReclaimPolicy": "Retain",
    }
    if claimed:
        spec["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c1", "uid": "c1-u"}
    about = meta("pv1", version, annotations={"note": "x"})
    return {"kind": "PersistentVolume", "apiVersion": "v1", "metadata": about, "spec": spec, "status": {"phase": phase}}


def claim(version: int, bound_to: str = "") -> Line:
    about = meta("c1", version, namespace="default")
    spec: Line = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "wait",
        "resources": {"requests": {"storage": "5Gi"}},
    }
    if bound_to:
        about["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        spec["volumeName"] = bound_to
    phase = "Bound" if bound_to else "Pending"
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "metadata": about,
        "spec": spec,
        "status": {"phase": phase},
    }


def pod_list(version: str, *pods: Line, more: str = "") -> Line:
    about = {"resourceVersion": version, **({"continue": more} if more else {})}
    return line("LIST", kind="PodList", apiVersion="v1", metadata=about, items=list(pods))


def write(folder: Path, name: str, lines: Sequence[Line], facts: Sequence[Line], after: dict[int, list[Line]]) -> Path:
    """The two files of a scenario."""
    path = folder / f"{name}.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    checkpoints = [{"after_line": number, "facts": found} for number, found in after.items()]
    (folder / f"{name}.expect.json").write_text(
        json.dumps({"id": name, "checkpoints": checkpoints, "facts": list(facts)})
    )
    return path
