"""One pass of the session over many pending pods: Volcano's default plugins, gangs and single pods, a handful of
request shapes, 5,000 nodes.

Owns that cluster and the measurement. Must not know what the plugins decide. Called by `bench.__main__`, and by itself:
`python -m bench.session`.

The pass is a whole cycle (open, enqueue, allocate, backfill, sentences, undo) on a mirror that is up to date, as it is
between two events of a running scheduler. What it costs to bring the mirror up at the start is told apart.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import Any, NamedTuple

import msgspec

from projections.cache import Cache
from projections.cache.fold import Delivery, observe
from projections.cache.state import PodRef
from vcledger.scheduler.session.conf import PluginConf, SessionConf
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.session.outcome import Placed
from vcledger.scheduler.session.run import run
from volcano.objects import kinds
from volcano.objects.core import Pod

NODES, PODS, GANG = 5_000, 10_000, 8
SHAPES = (("1", "2Gi"), ("2", "4Gi"), ("4", "8Gi"), ("500m", "1Gi"), ("8", "32Gi"))
GROUP = "scheduling.k8s.io/group-name"
PLUGINS = ("priority", "gang"), ("drf", "predicates", "proportion", "nodeorder", "binpack")

CONF = SessionConf(
    ("enqueue", "allocate", "backfill"), tuple(tuple(PluginConf(name) for name in tier) for tier in PLUGINS)
)


class Pass(NamedTuple):
    """Pods placed and seconds that it took; seconds for the mirror; seconds of a cycle in which nothing is left to do;
    peak memory of the process in bytes."""

    placed: int
    seconds: float
    mirror_seconds: float
    idle_seconds: float
    memory_bytes: int


class World:
    """A cache and its mirror."""

    def __init__(self) -> None:
        self.cache = Cache("exact")
        self.pods: dict[str, Pod] = {}
        self.position = 0
        self.mirror = Mirror(self.cache, self.pod)

    def pod(self, ref: PodRef) -> Pod | None:
        return self.pods.get(f"{ref.namespace}/{ref.name}")

    def see(self, kind: str, name: str, namespace: str = "", **parts: Any) -> None:
        self.position += 1
        meta = {"name": name, "uid": f"{kind}-{name}", "resourceVersion": str(self.position)}
        meta |= {"namespace": namespace, "creationTimestamp": "2026-03-01T08:00:00Z"} | parts.pop("metadata", {})
        found = kinds.decode(kind, msgspec.json.encode({"metadata": meta, **parts}))
        if kind == "Pod":
            self.pods[f"{namespace}/{name}"] = found
        observe(self.cache, Delivery(kind, found), self.position)
        self.mirror.touch(kind, namespace, name)


def cluster(world: World, nodes: int) -> None:
    """Nodes of two sizes, some tainted, with two queues."""
    for name in ("research", "services"):
        world.see("Queue", name, spec={"weight": 1}, status={"state": "Open"})
    for index in range(nodes):
        large = index % 3 == 0
        amounts = {"cpu": "64" if large else "32", "memory": "256Gi" if large else "128Gi", "pods": "110"}
        taints = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}] if index % 10 == 9 else None
        labels = {"kubernetes.io/hostname": f"node-{index:05d}", "zone": f"z{index % 3}"}
        status = {"allocatable": amounts, "capacity": amounts}
        world.see("Node", f"node-{index:05d}", metadata={"labels": labels}, spec={"taints": taints}, status=status)


def pending(world: World, pods: int) -> None:
    """Half of the pods in gangs, half by themselves, each job of one shape."""
    made = number = 0
    while made < pods:
        size = GANG if number % (GANG + 1) == 0 else 1
        name, queue = f"job-{number:05d}", "research" if number % 2 else "services"
        world.see("PodGroup", name, "d", spec={"minMember": size, "queue": queue}, status={"phase": "Inqueue"})
        cpu, memory = SHAPES[number % len(SHAPES)]
        for index in range(size):
            containers = [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
            meta = {"annotations": {GROUP: name}, "labels": {"volcano.sh/job-name": name}}
            spec = {"schedulerName": "volcano", "priority": 10, "containers": containers}
            world.see("Pod", f"{name}-{index}", "d", metadata=meta, spec=spec, status={"phase": "Pending"})
        made += size
        number += 1


def measure(nodes: int = NODES, pods: int = PODS) -> Pass:
    """The pass, in this process."""
    world = World()
    cluster(world, nodes)
    pending(world, pods)
    start = time.perf_counter()
    world.mirror.refresh()
    mirror_seconds = time.perf_counter() - start
    start = time.perf_counter()
    outcome = run(world.mirror, CONF, seed=1)
    seconds = time.perf_counter() - start
    placed = [one for one in outcome.decisions if isinstance(one, Placed) and not one.pipelined]
    world.mirror.waiting.clear()
    run(world.mirror, CONF, seed=1)
    start = time.perf_counter()
    for _ in range(20):
        run(world.mirror, CONF, seed=1)
    idle_seconds = (time.perf_counter() - start) / 20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Pass(len(placed), seconds, mirror_seconds, idle_seconds, peak)


def looking(world: World, running: int, pods: int) -> None:
    """Pods that are there, and half of those that wait apart from each other by node, half spread over zones."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    by_label = {name: {"labelSelector": {"matchLabels": {"app": name}}} for name in ("apart", "spread")}
    terms = [{**by_label["apart"], "topologyKey": "kubernetes.io/hostname"}]
    even = {**by_label["spread"], "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    specs: dict[str, dict[str, Any]] = {
        "there": {},
        "apart": {"affinity": {"podAntiAffinity": {required: terms}}},
        "spread": {"topologySpreadConstraints": [even]},
    }
    nodes = sorted(world.cache.nodes)
    for number in range(running + pods):
        kind = "there" if number < running else ("apart", "spread")[number % 2]
        name, place = f"{kind}-{number}", {"nodeName": nodes[number % len(nodes)]} if kind == "there" else {}
        world.see("PodGroup", name, "d", spec={"minMember": 1, "queue": "research"}, status={"phase": "Inqueue"})
        containers = [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
        spec = {"schedulerName": "volcano", "containers": containers, **specs[kind], **place}
        meta = {"annotations": {GROUP: name}, "labels": {"app": kind}}
        phase = "Running" if kind == "there" else "Pending"
        world.see("Pod", name, "d", metadata=meta, spec=spec, status={"phase": phase})


def measure_looking(nodes: int = 2_000, running: int = 4_000, pods: int = 200) -> tuple[int, float]:
    """Pods with anti-affinity or topology spread that are placed, and the seconds that it took."""
    world = World()
    cluster(world, nodes)
    looking(world, running, pods)
    world.mirror.refresh()
    start = time.perf_counter()
    outcome = run(world.mirror, CONF, seed=1)
    seconds = time.perf_counter() - start
    return sum(isinstance(one, Placed) and not one.pipelined for one in outcome.decisions), seconds


def apart(nodes: int = NODES, pods: int = PODS) -> Pass:
    """The same in a process of its own, so that its memory is its own."""
    command = [sys.executable, "-m", "bench.session", str(nodes), str(pods), "--json"]
    done = subprocess.run(command, check=True, capture_output=True)
    return Pass(*msgspec.json.decode(done.stdout))


def main() -> None:
    numbers = [int(text) for text in sys.argv[1:] if text.isdigit()]
    done = measure(*numbers)
    if "--json" in sys.argv:
        print(msgspec.json.encode(done).decode())
        return
    print(
        f"{done.placed:,} pods placed in {done.seconds:.2f} s, {done.placed / done.seconds:,.0f}/s; mirror "
        f"{done.mirror_seconds:.2f} s; an idle cycle {done.idle_seconds * 1e3:.2f} ms; {done.memory_bytes / 1e9:.2f} GB"
    )
    placed, seconds = measure_looking()
    print(f"{placed:,} pods with anti-affinity or spread on 2,000 nodes: {seconds / max(placed, 1) * 1e3:.2f} ms each")


if __name__ == "__main__":
    main()
