"""The page on the proof has every reason that the predicates give, and says rightly which of them are final."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from projections.diagnosis import reasons
from projections.diagnosis.nodes import Evaluation
from projections.diagnosis.views import ClusterView
from tests.unit.diagnosis.build import claim, cluster, node, obj, placed, pod, storage_class, task, volume

PAGE = (Path(__file__).parent.parent.parent / "docs" / "proof.md").read_text(encoding="utf-8")
NOT_JUDGED = {reasons.NOT_READY, reasons.NOT_IN_SNAPSHOT}
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def rows() -> dict[str, str]:
    """The words of each row of the predicates' table, and whether they are final."""
    table = PAGE.split("## Predicates")[1].split("\n\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    return {row[1]: row[2] for row in cells[2:]}


def texts() -> set[str]:
    """All words that the predicates have."""
    return {text for name, text in vars(reasons).items() if name.isupper() and isinstance(text, str)}


def near(part: str, key: str = HOST) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": key}
    return {"affinity": {part: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(key: str) -> dict[str, Any]:
    one = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    return {"topologySpreadConstraints": [one]}


def full_node() -> ClusterView:
    """One node that refuses for nearly everything, and one that is empty."""
    zone = {ZONE: "a"}
    ports = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    guard = pod("guard", labels={"app": "web"}, containers=ports, **near("podAntiAffinity"), **uses("other"))
    crowded = node("n1", labels=zone, pods=110, unschedulable=True, taints=[{"key": "k", "effect": "NoSchedule"}])
    csi = {"csi": {"driver": "d", "volumeHandle": "h"}}
    limits = {"drivers": [{"name": "d", "nodeID": "n1", "allocatable": {"count": 0}}]}
    return cluster(
        [crowded, node("n2", labels={ZONE: "b"})],
        pods=[placed(guard, "n1")],
        claims={
            f"default/{name}": claim(name, volume=name, modes=modes)
            for name, modes in {"other": ["ReadWriteOncePod"], "far": None, "gone": None, "limited": None}.items()
        },
        volumes={
            "other": volume("other", phase="Bound"),
            "far": volume("far", phase="Bound", host="n2", labels={ZONE: "b"}),
            "limited": volume("limited", phase="Bound", spec=csi),
        },
        csi_nodes={"n1": obj("CSINode", metadata={"name": "n1", "uid": "c"}, spec=limits)},
    )


def uses(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}}]}


PODS: list[dict[str, Any]] = [
    {},
    {"nodeSelector": {"no": "such"}},
    {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
    {"labels": {"app": "web"}},
    near("podAffinity", "rack"),
    near("podAntiAffinity"),
    spread(HOST),
    spread("rack"),
    uses("other"),
    uses("far"),
    uses("limited"),
    uses("new"),
    uses("made"),
]


def found() -> dict[str, bool]:
    """Words to whether they are final, of all that pods of many kinds are told on the node that refuses them."""
    where = full_node()
    where.claims = {**where.claims, "default/new": claim("new"), "default/made": claim("made", "made")}
    where.classes = {"wait": storage_class(), "made": storage_class("made", "csi.example.com")}
    where.capacities = {"room": obj("CSIStorageCapacity", storageClassName="made", capacity="1Gi", nodeTopology={})}
    told = {}
    for spec in PODS:
        subject = pod(**spec)
        for reason in Evaluation(task(subject), subject, where).on(where.nodes[0]):
            told[reason.text] = reason.final
    return told


def test_every_reason_has_its_row() -> None:
    assert texts() - NOT_JUDGED == {text for text in rows() if not text.startswith(("Insufficient", "plugin "))}


def test_what_is_final_is_said_so() -> None:
    told = found()
    assert {text: "yes" if final else "no" for text, final in told.items()} == {text: rows()[text] for text in told}
    assert texts() - NOT_JUDGED - set(told) == {reasons.VOLUME_GONE}
