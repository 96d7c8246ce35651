"""`python -m bench.recording`: what recording costs, at several rates of change, and the table in docs/recording.md.

Owns the load, the measurements and the table. The recorder is the command, in a process of its own; the server is the
real control plane that the tests run on (`make kube`), or, where it has not been built, the simulated server behind
HTTP, which the table then says. Must not look inside the recorder. Called by `make bench-live`.

CPU is what the recorder's process used in the time of the load, in percent of one core; memory its highest so far; the
delay is from the server's answer to the writer until the ledger's commit, by one clock.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from bench.__main__ import machine, say
from eventstore import open_store
from tests.kube.control_plane import ControlPlane, MissingProgram, running_control_plane
from tests.unit.record.front import Front
from tests.unit.record.simulated import Server
from vcledger.scheduler.requests import Create, Patch

_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')

RATES = (0, 10, 100, 1_000)
PODS = 200
WRITERS = 8
WARM_EVENTS = 2_500
LATE_SECONDS = 20.0
"""After which a change that is not in the ledger counts as missed."""

REACHED_SHARE = 0.9
"""Of a rate, what has to be reached for it to count."""

DOCS = Path(__file__).parent.parent / "docs" / "recording.md"
BEGIN, END = "<!-- overhead: begin -->", "<!-- overhead: end -->"
TICK = os.sysconf("SC_CLK_TCK")


class Target(Protocol):
    """A server under load."""

    name: str
    namespace: str
    kubeconfig: Path

    def create(self, body: dict[str, Any]) -> None:
        """A pod."""
        ...

    def touch(self, name: str, step: int) -> int | None:
        """Changes a pod's label; the version that the server answers, None when it refuses."""
        ...


class Real:
    """The control plane that the tests run on."""

    def __init__(self, plane: ControlPlane) -> None:
        self.port, self.kubeconfig, self.namespace = plane.port, plane.kubeconfig, plane.namespace()
        self.name = f"kube-apiserver {json.loads(plane.port.raw('GET', '/version').body)['gitVersion']}"

    def create(self, body: dict[str, Any]) -> None:
        answer = self.port.do(Create("Pod", self.namespace, msgspec.json.encode(body)))
        assert answer.ok, answer

    def touch(self, name: str, step: int) -> int | None:
        labels = msgspec.json.encode({"metadata": {"labels": {"step": str(step)}}})
        answer = self.port.do(Patch("Pod", self.namespace, name, labels))
        found = _VERSION.search(answer.body) if answer.ok else None
        return int(found[1]) if found is not None else None


class Simulated:
    """The simulated server behind HTTP, written to without a request."""

    name, namespace = "simulated server", "default"

    def __init__(self, folder: Path, inside: Server, front: Front) -> None:
        self.inside, self.kubeconfig = inside, front.kubeconfig(folder)

    def create(self, body: dict[str, Any]) -> None:
        with self.inside.lock:
            self.inside.api.create("Pod", body)

    def touch(self, name: str, step: int) -> int | None:
        store, key = self.inside.api.store, f"{self.namespace}/{name}"
        with self.inside.lock:
            found = store.get("Pod", key)
            assert found is not None
            meta = {**found.object["metadata"], "labels": {**found.object["metadata"]["labels"], "step": str(step)}}
            return store.put("Pod", key, {**found.object, "metadata": meta}).version


class Cost(NamedTuple):
    """What one rate cost. `rate` is what was reached; bytes an event those of the ledger's file; delays in
    milliseconds. None where nothing changed."""

    server: str
    wanted: int
    rate: float
    cpu_percent: float
    memory_bytes: int
    bytes_an_event: float | None
    requests_a_minute: float
    delay_median: float | None
    delay_p99: float | None
    missed: int


@contextmanager
def real() -> Iterator[Target | None]:
    """The real server; None where it has not been built."""
    try:
        with running_control_plane() as plane:
            yield Real(plane)
            return
    except MissingProgram as missing:
        say(f"{missing}: the simulated server only")
    yield None


@contextmanager
def simulated(folder: Path) -> Iterator[Target]:
    inside = Server()
    with Front(inside) as front:
        yield Simulated(folder, inside, front)


# --- the load -----------------------------------------------------------------------------------------------------


def pod(name: str, namespace: str) -> dict[str, Any]:
    """About 3 kB, as a training job's worker has them."""
    variables = [
        {"name": f"VC_WORKER_HOSTS_{i}", "value": f"trainer-worker-{i}.trainer.{namespace}"} for i in range(12)
    ]
    container = {
        "name": "worker",
        "image": "registry.example.com/team/trainer:2026.11.3",
        "command": ["python", "-m", "trainer", "--config", "/etc/trainer/config.yaml", "--rank", name],
        "env": variables,
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"cpu": "4", "memory": "16Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "config", "mountPath": "/etc/trainer"}],
    }
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": "trainer", "volcano.sh/job-name": "trainer", "volcano.sh/task-spec": "worker"},
            "annotations": {"scheduling.k8s.io/group-name": "trainer", "volcano.sh/task-index": name},
        },
        "spec": {
            "schedulerName": "volcano",
            "restartPolicy": "OnFailure",
            "containers": [container],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "config", "configMap": {"name": "trainer"}}],
        },
    }


class Load:
    """Changes of pods at a rate, by several writers. `answered`: version to the time of its answer, microseconds."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.answered: dict[int, int] = {}
        self.failed = 0
        self._touched = 0

    def create(self) -> None:
        for i in range(PODS):
            self.target.create(pod(f"trainer-worker-{i}", self.target.namespace))

    def run(self, rate: int, seconds: float) -> tuple[float, int]:
        """Changes at that rate, or as near to it as the server comes; how long it took, and how many there were."""
        self.answered, self.failed = {}, 0
        due: queue.Queue[int | None] = queue.Queue()
        writers = [threading.Thread(target=self._write, args=(due,)) for _ in range(WRITERS)]
        for writer in writers:
            writer.start()
        began = time.monotonic()
        sent = 0
        while (now := time.monotonic()) - began < seconds:
            while sent < (now - began) * rate and due.qsize() < WRITERS * 4:
                due.put(sent)
                sent += 1
            time.sleep(0.001)
        for _ in writers:
            due.put(None)
        for writer in writers:
            writer.join()
        return time.monotonic() - began, len(self.answered)

    def _write(self, due: queue.Queue[int | None]) -> None:
        while (number := due.get()) is not None:
            self._touched += 1
            version = self.target.touch(f"trainer-worker-{number % PODS}", self._touched)
            if version is not None:
                self.answered[version] = time.time_ns() // 1_000
            else:
                self.failed += 1


# --- the recorder -------------------------------------------------------------------------------------------------


class Command:
    """The recorder's process, listening on a port of its own."""

    def __init__(self, folder: Path, target: Target) -> None:
        self.db = folder / "ledger.db"
        self.out = folder / "recorder.txt"
        with self.out.open("w") as out:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "cli.main", "record", "--kubeconfig", str(target.kubeconfig)),
                    *("--cluster", "bench", "--db", str(self.db), "--listen", "127.0.0.1:0", "--seed", "1"),
                ],
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        wait_for(lambda: "listening on port" in self.out.read_text(), self)
        self.port = int(re.search(r"listening on port (\d+)", self.out.read_text())[1])  # type: ignore[index]
        wait_for(lambda: self.get("/readyz").startswith("14 of 14"), self)

    def get(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = self.get("/metrics").splitlines()
        return sum(float(line.split()[-1]) for line in lines if re.match(rf"vcledger_record_{name}[ {{]", line))

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def memory_max(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def ledger_bytes(self) -> int:
        """What the ledger takes once its log is written back."""
        with open_store(str(self.db)) as store:
            with store.backend.engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            return self.db.stat().st_size

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)


def wait_for(holds: Callable[[], bool], command: Command, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end or command.process.poll() is not None:
            raise RuntimeError(f"the recorder did not come to it:\n{command.out.read_text()}")
        time.sleep(0.05)


def warm_up(command: Command, load: Load) -> None:
    """Until the ledger has trained its first dictionaries, as it has after its first minutes in life."""
    while command.metric("stored_total") < WARM_EVENTS:
        load.run(500, 5)


def measure(command: Command, load: Load, rate: int, seconds: float) -> Cost:
    """One rate."""
    say(f"{rate} changes a second for {seconds:g} s")
    size, requests = command.ledger_bytes(), command.metric("api_requests_total")
    stored = command.metric("stored_total")
    before = command.cpu_seconds()
    took, changes = load.run(rate, seconds)
    cpu = command.cpu_seconds() - before
    delays, missed = delays_of(command, load)
    until = time.monotonic() + LATE_SECONDS
    while missed and time.monotonic() < until:  # the last ones are still on their way
        time.sleep(0.2)
        delays, missed = delays_of(command, load)
    more = command.metric("stored_total") - stored
    return Cost(
        server=load.target.name,
        wanted=rate,
        rate=changes / took,
        cpu_percent=100 * cpu / took,
        memory_bytes=command.memory_max(),
        bytes_an_event=(command.ledger_bytes() - size) / more if changes else None,
        requests_a_minute=(command.metric("api_requests_total") - requests) * 60 / took,
        delay_median=delays[len(delays) // 2] / 1_000 if delays else None,
        delay_p99=delays[len(delays) * 99 // 100] / 1_000 if delays else None,
        missed=missed,
    )


def delays_of(command: Command, load: Load) -> tuple[list[int], int]:
    """Microseconds from each change's answer to its commit, sorted; and how many changes the ledger lacks."""
    left, delays = dict(load.answered), []
    with open_store(str(command.db), read_only=True) as store:
        for event in store.read(kinds="Pod", types="ObjectModified"):
            answered_at = left.pop(event.resource_version or 0, None)
            if answered_at is not None:
                delays.append(max(0, event.appended_at - answered_at))
    return sorted(delays), len(left)


# --- the table ----------------------------------------------------------------------------------------------------


def table(costs: list[Cost], seconds: float, first: tuple[int, float], reached: float) -> str:
    requests, memory = first
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, {machine()}, with the server on the same machine. `make bench-live`, "
        f"{seconds:g} s a rate, {PODS} pods of 3 kB, all 14 kinds watched, snapshots made. At rest after the start: "
        f"{memory / 1e6:.0f} MB, {requests} requests made.",
    ]
    if len({cost.server for cost in costs}) > 1:
        lines.append(
            f"The real server came to {reached:,.0f} changes a second at most, beside what else ran on the machine; "
            "higher rates are of the simulated server behind HTTP."
        )
    lines += [
        "",
        "| changes a second | reached | server | CPU, of one core | memory, highest | bytes an event "
        "| API requests a minute | delay to durable, median | p99 | missed |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cost in costs:
        lines.append(
            f"| {cost.wanted:,} | {cost.rate:,.0f} | {cost.server} | {cost.cpu_percent:.1f} % | "
            f"{cost.memory_bytes / 1e6:.0f} MB | {shown(cost.bytes_an_event)} | {cost.requests_a_minute:.1f} | "
            f"{shown(cost.delay_median, ' ms')} | {shown(cost.delay_p99, ' ms')} | {cost.missed} |"
        )
    return "\n".join(lines)


def shown(figure: float | None, unit: str = "") -> str:
    """A figure, or a dash where there was nothing to measure."""
    return "-" if figure is None else f"{figure:.0f}{unit}"


def write_table(text: str) -> None:
    """Into the page, between its marks."""
    page = DOCS.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    DOCS.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.recording")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rates", default=",".join(map(str, RATES)))
    parser.add_argument("--simulated", action="store_true", help="only the simulated server")
    parser.add_argument("--write", action="store_true", help="put the table into docs/recording.md")
    asked = parser.parse_args()
    rates = [int(rate) for rate in asked.rates.split(",")]
    costs: list[Cost] = []
    first, reached = (0, 0.0), 0.0
    with tempfile.TemporaryDirectory(prefix="vcledger-live-") as name:
        with real() as target:
            if target is not None and not asked.simulated:
                costs, first, reached = at_rates(Path(name), target, rates, asked.seconds)
        missed = [rate for rate in rates if rate not in [cost.wanted for cost in costs]]
        if missed:
            folder = Path(name) / "simulated"
            folder.mkdir()
            with simulated(folder) as target:
                more, started, _ = at_rates(folder, target, missed, asked.seconds)
            costs, first = costs + more, first if costs else started
    text = table(costs, asked.seconds, first, reached)
    print(text)
    if asked.write:
        write_table(text)


def at_rates(
    folder: Path, target: Target, rates: list[int], seconds: float
) -> tuple[list[Cost], tuple[int, float], float]:
    """The rates in turn, up to the first that the server does not come to; requests and memory after the start; and the
    highest rate that it came to."""
    say(target.name)
    load = Load(target)
    load.create()
    command = Command(folder, target)
    costs: list[Cost] = []
    reached = 0.0
    try:
        first = int(command.metric("api_requests_total")), float(command.memory_max())
        warm_up(command, load)
        for rate in rates:
            cost = measure(command, load, rate, seconds)
            reached = max(reached, cost.rate)
            if cost.rate < rate * REACHED_SHARE:
                say(f"{target.name} came to {cost.rate:.0f} of {rate} changes a second")
                break
            costs.append(cost)
    finally:
        command.end()
    return costs, first, reached


if __name__ == "__main__":
    main()
