"""How long `why` takes with everything in its answer on a large cluster: 5,000 nodes, most of them full, a gang that
does not fit.

Owns that cluster and the measurement. Must not know how `why` comes to its answer. Called by `bench.__main__`, and by
itself: `python -m bench.whyfull`.

The nodes are of four kinds (a taint, a label, a GPU, plain), each with two pods, so that the table has several reasons,
every node is looked at, and each has pods that could make room.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench import ours
from vcledger.ledger import Ledger
from vcledger.sources import ImportOptions, import_paths
from vcledger.why import why

NODES, PODS_A_NODE, MEMBERS, SAMPLES = 5_000, 2, 8, 9
GROUP = "scheduling.k8s.io/group-name"


class Measured(NamedTuple):
    """Seconds of each answer, and how many nodes were in its table and changes under it."""

    seconds: list[float]
    nodes: int
    changes: int


def node(index: int) -> dict[str, Any]:
    taints = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}] if index % 4 == 1 else None
    size = {"cpu": "16", "memory": "64Gi", "pods": "110"} | ({"nvidia.com/gpu": "4"} if index % 4 == 2 else {})
    labels = {"kubernetes.io/hostname": f"node-{index:05d}", "topology.kubernetes.io/zone": f"z{index % 3}"}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": f"node-{index:05d}", "uid": f"n-{index}", "resourceVersion": "1", "labels": labels},
        "spec": {"taints": taints, "unschedulable": index % 100 == 99},
        "status": {"allocatable": size, "capacity": size, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(name: str, group: str, cpu: str, on: str = "") -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"p-{name}",
            "resourceVersion": "1",
            "annotations": {GROUP: group},
            "creationTimestamp": "2026-03-01T08:00:00Z",
        },
        "spec": {
            "schedulerName": "volcano",
            "priority": 10,
            "nodeName": on,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "8Gi"}}}],
        },
        "status": {"phase": "Running" if on else "Pending"},
    }


def group(name: str, members: int, phase: str) -> dict[str, Any]:
    return {
        "kind": "PodGroup",
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "metadata": {"name": name, "namespace": "default", "uid": f"g-{name}", "resourceVersion": "1"},
        "spec": {"minMember": members, "queue": "default"},
        "status": {"phase": phase},
    }


def objects() -> Iterator[dict[str, Any]]:
    """Everything that is in the cluster."""
    for index in range(NODES):
        yield node(index)
    meta = {"name": "default", "uid": "q", "resourceVersion": "1"}
    queue = {"kind": "Queue", "apiVersion": "scheduling.volcano.sh/v1beta1", "metadata": meta}
    yield queue | {"spec": {"weight": 1}, "status": {"state": "Open"}}
    for index in range(NODES // 50):
        yield group(f"full-{index}", 1, "Running")
    for index in range(NODES * PODS_A_NODE):
        on = f"node-{index // PODS_A_NODE:05d}"
        yield pod(f"full-{index}", f"full-{index % (NODES // 50)}", "6" if index % 3 else "5500m", on)
    yield group("wants", MEMBERS, "Inqueue")
    for index in range(MEMBERS):
        yield pod(f"wants-{index}", "wants", "12")


def ledger_of(folder: Path) -> str:
    """The cluster as a ledger of one list."""
    file, db = folder / "cluster.json", str(folder / "whyfull.db")
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": list(objects())}))
    with Ledger.open(db, create=True) as ledger:
        import_paths(ledger, [file], cluster="bench", options=ImportOptions(observed_at=1_772_352_600_000_000))
    return db


def measure(folder: Path, samples: int = SAMPLES) -> Measured:
    """`why` of the gang's first member, each time on a ledger that is opened anew."""
    db, seconds, answer = ledger_of(folder), [], None
    for _ in range(samples):
        with Ledger.open(db, read_only=True) as fresh:
            start = time.perf_counter()
            answer = why(fresh, "default", "wants-0")
            seconds.append(time.perf_counter() - start)
    assert answer is not None
    return Measured(seconds, len(answer.nodes), len(answer.changes))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="vcledger-bench-") as folder:
        done = measure(Path(folder))
    print(
        f"why with {done.nodes:,} nodes in its table and {done.changes} proven changes: "
        f"p50 {ours.quantile(done.seconds, 0.5) * 1e3:.0f} ms, p95 {ours.quantile(done.seconds, 0.95) * 1e3:.0f} ms"
    )


if __name__ == "__main__":
    main()
