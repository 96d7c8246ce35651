"""Replays: a published trace's worth of pods free, and a long recording in shadow.

Owns the generators of both traces and the measurements. Must not reach below the product's public functions. Called by
`bench.__main__`, and by itself: `python -m bench.replay [--pods N] [--nodes N] [--events N] [--openb FOLDER]`.

The first trace has the shape of Alibaba's openb lists (their CSV columns, as many nodes and pods, arrivals in bursts,
GPUs whole and shared); with `--openb` the published lists themselves are replayed too. The second is what a recorder
sees of a cluster under Volcano: for each pod its five events, its Event, the status updates of its Job and PodGroup,
and the nodes' heartbeats, about ten lines a pod; every bind is one that Volcano could have made.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from bench import trace
from vcledger.ledger import Ledger
from vcledger.replay.engine import ReplayPlan, run_replay
from vcledger.replay.workers import cores
from vcledger.sources import ImportOptions, import_paths

NODES, PODS, EVENTS, LIVE, SEED = 1_523, 8_152, 1_000_000, 10_000, 20260301
VCLEDGER = (sys.executable, "-c", "from cli.main import main; main()")
FREE_SECONDS, SHADOW_RATE, MEMORY = 30.0, 10_000.0, 2e9


class Run(NamedTuple):
    """A replay: what it went through, seconds, pods placed, peak memory in bytes."""

    events: int
    seconds: float
    placed: int
    pods: int
    memory_bytes: int


# --- traces -------------------------------------------------------------------------------------------------------


def write_lists(folder: Path, nodes: int, pods: int, seed: int) -> list[Path]:
    """Lists of nodes and pods in openb's format."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    node_list, pod_list = folder / "bench_node_list.csv", folder / "bench_pod_list.csv"
    with node_list.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(("sn", "cpu_milli", "memory_mib", "gpu", "model"))
        for number in range(nodes):
            gpus = rng.choice((0, 2, 4, 8, 8))
            out.writerow((f"bench-node-{number:04d}", rng.choice((64000, 96000, 128000)), 262144, gpus,
                          rng.choice(("V100M16", "T4", "G2")) if gpus else ""))  # fmt: skip
    with pod_list.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
                      "creation_time", "deletion_time", "scheduled_time"))  # fmt: skip
        now = 0
        for number in range(pods):
            now += 0 if rng.random() < 0.3 else int(rng.expovariate(1 / 1500))
            gpus, share = rng.choice(((0, 0), (1, 1000), (1, rng.randrange(100, 1000, 10)), (2, 1000), (8, 1000)))
            begun = now + rng.choice((0, 0, 1, 3, 240))
            ended = begun + int(rng.lognormvariate(9, 1.5)) + 1
            asked = rng.choice((4000, 8000, 16000, 32000)), rng.randrange(4096, 131072), gpus, share, ""
            phase = rng.choice(("Succeeded", "Failed", "Running"))
            out.writerow((f"bench-pod-{number:04d}", *asked, rng.choice(("LS", "BE")), phase, now, ended, begun))
    return [node_list, pod_list]


class Room:
    """What each node has left, as whoever bound the pods went by."""

    def __init__(self, nodes: int, rng: random.Random) -> None:
        self.free = [[64, 256, 8 if index % 2 else 0, 110] for index in range(nodes)]
        self.rng = rng

    def take(self, gang: trace.Gang) -> int | None:
        """A node with room, at random. In a full cluster most draws are in vain, so they are drawn here as `randrange`
        draws them, which takes a third of its time."""
        cpu, memory, gpu, pods = asked = needs(gang)
        free, draw, count = self.free, self.rng.getrandbits, len(self.free)
        bits = count.bit_length()
        for _ in range(200):
            index = draw(bits)
            while index >= count:
                index = draw(bits)
            have = free[index]
            if have[0] >= cpu and have[1] >= memory and have[2] >= gpu and have[3] >= pods:
                free[index] = [left - want for left, want in zip(have, asked, strict=True)]
                return index
        return None

    def give_back(self, gang: trace.Gang, index: int) -> None:
        self.free[index] = [have + want for have, want in zip(self.free[index], needs(gang), strict=True)]


def needs(gang: trace.Gang) -> list[int]:
    """cpus, GiB, GPUs and pods of one member."""
    cpu, memory, gpu = gang.shape
    return [int(cpu), int(memory[:-2]), int(gpu or 0), 1]


class Recording:
    """The lines of a recording, one step after the other."""

    def __init__(self, events: int, nodes: int, live: int, seed: int) -> None:
        self.events, self.nodes, self.most = events, nodes, live
        self.writer = trace.Writer(random.Random(seed))
        self.room = Room(nodes, self.writer.rng)
        self.due: list[tuple[float, int, str, Any]] = []
        self.live = self.serial = self.gangs = 0
        self.bodies: list[str] = []

    def plan(self, when: float, step: str, what: Any) -> None:
        self.serial += 1
        heapq.heappush(self.due, (when, self.serial, step, what))

    def lines(self) -> Iterator[bytes]:
        """Raw watch lines, as many as were asked for."""
        yield from islice(self._all(), self.events)

    def _all(self) -> Iterator[bytes]:
        writer = self.writer
        for index in range(self.nodes):
            self.bodies.append(trace.node_body(writer, index))
            yield writer.line("nodes", "ADDED", self.bodies[index])
            self.plan(index * 300 / self.nodes, "beat", index)
        for name in trace.QUEUES:
            yield writer.line("queues.scheduling.volcano.sh", "ADDED", trace.queue_body(writer, name))
        self.plan(1.0, "submit", None)
        while True:
            when, _, step, what = heapq.heappop(self.due)
            writer.now = max(writer.now, when)
            yield from getattr(self, step)(what)

    def beat(self, index: int) -> Iterator[bytes]:
        """A node's status, each five minutes."""
        yield self.writer.line("nodes", "MODIFIED", self.bodies[index])
        self.plan(self.writer.now + 300, "beat", index)

    def submit(self, _: None) -> Iterator[bytes]:
        """The next job, if the cluster has room for it."""
        writer = self.writer
        if self.live < self.most:
            gang = trace.Gang(writer, self.gangs)
            self.gangs += 1
            self.live += gang.size
            yield self.job(gang, "ADDED", "")
            yield writer.line("podgroups.scheduling.volcano.sh", "ADDED", gang.podgroup("Pending"))
            self.plan(writer.now + 0.4, "admit", gang)
        self.plan(writer.now + 0.2, "submit", None)

    def admit(self, gang: trace.Gang) -> Iterator[bytes]:
        """The group is let in, and its pods are made."""
        writer = self.writer
        yield writer.line("podgroups.scheduling.volcano.sh", "MODIFIED", gang.podgroup("Inqueue"))
        pods = [trace.PodTemplate(writer, gang, index) for index in range(gang.size)]
        for pod in pods:
            yield writer.line("pods", "ADDED", pod.body("Pending"))
        self.plan(writer.now + 0.8 + writer.rng.random() / 4, "bind", pods)

    def bind(self, pods: list[trace.PodTemplate]) -> Iterator[bytes]:
        """All of the gang gets nodes, or none of it yet."""
        writer, gang = self.writer, pods[0].gang
        places: list[int] = []
        while len(places) < len(pods) and (place := self.room.take(gang)) is not None:
            places.append(place)
        if len(places) < len(pods):
            for place in places:
                self.room.give_back(gang, place)
            self.plan(writer.now + 1, "bind", pods)
            return
        for pod, place in zip(pods, places, strict=True):
            pod.node, pod.scheduled = f"node-{place:05d}", trace.stamp(writer.now)
            yield writer.line("pods", "MODIFIED", pod.body("Pending"))
            yield self.told(pod)
            self.plan(writer.now + 1 + writer.rng.random(), "start", (pod, place))

    def start(self, what: tuple[trace.PodTemplate, int]) -> Iterator[bytes]:
        pod, writer = what[0], self.writer
        pod.started, pod.ip = trace.stamp(writer.now), "10.0.0.9"
        yield writer.line("pods", "MODIFIED", pod.body("Running"))
        yield self.job(pod.gang, "MODIFIED", "Running")
        yield writer.line("podgroups.scheduling.volcano.sh", "MODIFIED", pod.gang.podgroup("Running"))
        self.plan(writer.now + writer.rng.uniform(60, 900), "finish", what)

    def finish(self, what: tuple[trace.PodTemplate, int]) -> Iterator[bytes]:
        pod, writer = what[0], self.writer
        yield writer.line("pods", "MODIFIED", pod.body("Succeeded"))
        yield self.job(pod.gang, "MODIFIED", "Running")
        self.room.give_back(pod.gang, what[1])
        self.plan(writer.now + 5, "delete", pod)

    def delete(self, pod: trace.PodTemplate) -> Iterator[bytes]:
        self.live -= 1
        pod.gang.left -= 1
        yield self.writer.line("pods", "DELETED", pod.body("Succeeded", deleted=True))
        if not pod.gang.left:
            yield self.writer.line("podgroups.scheduling.volcano.sh", "DELETED", pod.gang.podgroup("Completed"))
            yield self.job(pod.gang, "DELETED", "Completed")

    def job(self, gang: trace.Gang, change: str, phase: str) -> bytes:
        meta = {"name": gang.job, "namespace": gang.namespace, "uid": gang.job_uid, "resourceVersion": "@RV@",
                "creationTimestamp": gang.created}  # fmt: skip
        spec = {"minAvailable": gang.size, "queue": gang.queue, "schedulerName": "volcano"}
        body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec,
                "status": {"state": {"phase": phase}, "running": gang.left} if phase else {}}  # fmt: skip
        return self.writer.line("jobs.batch.volcano.sh", change, trace.dumps(body))

    def told(self, pod: trace.PodTemplate) -> bytes:
        uid = self.writer.uid()
        body = {
            "apiVersion": "v1", "kind": "Event", "type": "Normal", "reason": "Scheduled", "count": 1,
            "metadata": {"name": f"{pod.name}.{uid[:8]}", "namespace": pod.gang.namespace, "uid": uid,
                         "resourceVersion": "@RV@", "creationTimestamp": pod.scheduled},
            "involvedObject": {"kind": "Pod", "namespace": pod.gang.namespace, "name": pod.name, "uid": pod.uid},
            "message": f"Successfully assigned {pod.gang.namespace}/{pod.name} to {pod.node}",
            "firstTimestamp": pod.scheduled, "lastTimestamp": pod.scheduled, "source": {"component": "volcano"},
        }  # fmt: skip
        return self.writer.line("events", "ADDED", trace.dumps(body))


# --- measurements -------------------------------------------------------------------------------------------------


def imported(paths: list[Path], db: Path) -> str:
    """A ledger with these files."""
    with Ledger.open(str(db), create=True) as ledger:
        import_paths(ledger, paths, cluster="bench", options=ImportOptions(snapshots=False))
    return str(db)


def lists_ledger(folder: Path, nodes: int = NODES, pods: int = PODS) -> str:
    """A ledger of generated lists in openb's format."""
    return imported(write_lists(folder / "lists", nodes, pods, SEED), folder / "lists.db")


def recording_ledger(folder: Path, events: int = EVENTS) -> str:
    """A ledger of a generated recording, with its snapshots, as `vcledger import` makes it: from a pipe, so that it is
    written and read side by side and the lines, 3 GB for a million, lie nowhere."""
    db = str(folder / "recording.db")
    writes = subprocess.Popen([sys.executable, "-m", "bench.replay", "--write", str(events)], stdout=subprocess.PIPE)
    with writes:
        subprocess.run([*VCLEDGER, "import", "-", "--cluster", "bench", "--db", db], stdin=writes.stdout, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    if writes.returncode:
        raise RuntimeError(f"writing the recording ended with {writes.returncode}")
    return db


def apart(db: str, mode: str) -> Run:
    """A replay in a process of its own, so that its peak memory is its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.replay", "--run", mode, db], capture_output=True, text=True, check=True
    )
    return Run(*json.loads(done.stdout))


def once(db: str, mode: str) -> Run:
    """A replay with Volcano's default configuration."""
    return shadowed(db) if mode == "shadow" else freely(db)


def freely(db: str) -> Run:
    """A free replay with a result ledger, in this process."""
    with Ledger.open(db, read_only=True) as ledger, tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        result = run_replay(ledger, ReplayPlan(mode="free", seed=1), out=str(Path(folder) / "result.db"))
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return Run(ledger.store.head(), seconds, result.placed, result.pods, peak)


def shadowed(db: str) -> Run:
    """A shadow replay as a user runs it: the command, from its start to its end, on as many processes as it takes. All
    of them count for the memory, each as much as the largest."""
    start = time.perf_counter()
    command = [*VCLEDGER, "replay", "--mode", "shadow", "--seed", "1", "--db", db, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    result = json.loads(done.stdout)["replays"][0]["result"]
    return Run(result["events"], seconds, result["placed"], result["pods"], (1 + cores()) * largest)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.replay")
    parser.add_argument("--run", nargs=2, metavar=("MODE", "DB"))
    parser.add_argument("--write", type=int, metavar="EVENTS", help="write the lines of a recording, and no more")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--openb", type=Path, help="the folder of Alibaba's published lists")
    asked = parser.parse_args()
    if asked.write:
        sys.stdout.buffer.writelines(Recording(asked.write, 1_500, LIVE, SEED).lines())
        return
    if asked.run:
        print(json.dumps(once(asked.run[1], asked.run[0])))
        return
    with tempfile.TemporaryDirectory(prefix="vcledger-bench-") as name:
        folder = Path(name)
        tell("free, generated lists", apart(lists_ledger(folder, asked.nodes, asked.pods), "free"))
        if asked.openb is not None:
            tell("free, Alibaba's lists", apart(imported([asked.openb], folder / "openb.db"), "free"))
        tell("shadow", apart(recording_ledger(folder, asked.events), "shadow"))


def tell(what: str, done: Run) -> None:
    print(
        f"{what}: {done.events:,} events in {done.seconds:.1f} s, {done.events / done.seconds:,.0f}/s; "
        f"{done.placed:,} of {done.pods:,} pods placed; {done.memory_bytes / 1e9:.2f} GB",
        flush=True,
    )


if __name__ == "__main__":
    main()
