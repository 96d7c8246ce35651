"""Recorder and scheduler killed at random moments, again and again, on a real API server; and what must hold after.

Owns the harness: who writes to the cluster meanwhile, when the process is killed, what is looked at in the end. Must
not know how either program works: they are started as commands, their ledger is read with the library. Called by
`test_crashes`, and by `bench.crashes` for more runs than the tests take.

A run starts the command on the ledger that the run before has left, and kills it (SIGKILL) at a moment drawn from the
seed. After the last the command runs once more, undisturbed, until it has caught up.
"""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from typer.testing import CliRunner

from cli.main import app
from eventstore import EventStore, open_store
from tests.kube import things
from tests.kube.control_plane import ROOT, ControlPlane
from tests.postgres import database_url
from vcledger.ledger import Ledger

CLUSTER = "real"
PATIENCE_SECONDS = 300.0
ALIVE_SECONDS = (0.0, 4.0)
"""How long the command lives at least and at most: after its first line, or, one time in four, after its start."""

KINDS = "pods,nodes,queues,podgroups"
NODES = 4


class Crashed(AssertionError):
    """Something did not hold."""


class Report(NamedTuple):
    """What came of the runs. `restart_seconds`: from the start of each process to its first sign of work."""

    what: str
    database: str
    seed: int
    runs: int
    events: int
    written: int
    restart_seconds: list[float]

    def line(self) -> str:
        """A row for the table in the documentation."""
        times = sorted(self.restart_seconds) or [0.0]
        middle, last = times[len(times) // 2], times[-1]
        return (
            f"| {self.what} | {self.database} | {self.runs} | {self.events:,} | {self.written:,} | {middle:.1f} s | "
            f"{last:.1f} s | 0 |"
        )


# --- the command --------------------------------------------------------------------------------------------------


class Child:
    """The command as a process. `lines` are what it has said."""

    def __init__(self, arguments: list[str], works: str) -> None:
        self.arguments = arguments
        self.lines: list[str] = []
        self.began = time.monotonic()
        self.worked_after: float | None = None
        self._works = re.compile(works)
        self._started = threading.Event()
        command = [sys.executable, "-m", "cli.main", *arguments]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            for line in said:
                self.lines.append(line.rstrip())
                if self.worked_after is None and self._works.search(line):
                    self.worked_after = time.monotonic() - self.began
                self._started.set()
        self._started.set()

    def join(self) -> None:
        """Until all that it said has been read."""
        self._reader.join()

    def wait_for_a_line(self) -> None:
        """Until it has said something."""
        if not self._started.wait(PATIENCE_SECONDS):
            raise Crashed(f"no word from it: {self.lines}")

    def kill(self) -> None:
        """At once. It must have been alive: one that ended by itself went wrong."""
        code = self.process.poll()
        self.process.kill()
        self.process.wait()
        self._reader.join()
        if code is not None:
            raise Crashed(f"it ended by itself, with code {code}: {self.lines[-5:]}")

    def end(self) -> None:
        """As one ends it."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join()
        if code:
            raise Crashed(f"exit code {code}: {self.lines[-5:]}")


@contextmanager
def started(arguments: list[str], works: str) -> Iterator[Child]:
    """A child, which is gone afterwards whatever happens."""
    child = Child(arguments, works)
    try:
        yield child
    finally:
        child.process.kill()
        child.process.wait()
        child.join()


def wait_until(condition: Callable[[], bool], what: str, child: Child | None = None) -> None:
    """Waits for something; Crashed with what it was."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if child is not None and child.process.poll() is not None:
            raise Crashed(f"it ended by itself, while waiting for: {what}: {child.lines[-3:]}")
        if time.monotonic() > deadline:
            said = "" if child is None else f": {child.lines[-10:]}"
            raise Crashed(f"not within {PATIENCE_SECONDS:g} s: {what}{said}")
        time.sleep(0.2)


def kill_again_and_again(arguments: list[str], works: str, runs: int, chance: random.Random) -> list[float]:
    """The runs, one after the other; how long each took to work that lived so long."""
    times: list[float] = []
    for _ in range(runs):
        with started(arguments, works) as child:
            if chance.random() >= 0.25:
                child.wait_for_a_line()
            time.sleep(chance.uniform(*ALIVE_SECONDS))
            child.kill()
            if child.worked_after is not None:
                times.append(child.worked_after)
    return times


# --- the recorder -------------------------------------------------------------------------------------------------


class Writer:
    """Somebody who changes pods all the time. `written`: UID and version of each write that the server has answered.
    `ballast`: characters that a change carries and that cannot be compressed."""

    def __init__(self, plane: ControlPlane, namespace: str, seed: int, ballast: int = 0) -> None:
        self.plane, self.namespace, self.ballast = plane, namespace, ballast
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self.written: list[tuple[str, int]] = []
        self._chance = random.Random(seed)
        self._names: list[str] = []
        self._count = 0
        self._stop = threading.Event()
        self.problem = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._port = plane.connect()

    def __enter__(self) -> Writer:
        for _ in range(10):
            self._create()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """No more writes."""
        self._stop.set()
        self._thread.join()
        if self.problem:
            raise Crashed(f"the writer: {self.problem}")

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._chance.uniform(0, 0.04)):
                luck = self._chance.random()
                if luck < 0.1 or len(self._names) < 5:
                    self._create()
                elif luck < 0.15:
                    name = self._names.pop(self._chance.randrange(len(self._names)))
                    self.plane.request("DELETE", f"{self.path}/{name}", {"gracePeriodSeconds": 0})
                else:
                    self._touch(self._chance.choice(self._names))
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"

    def _create(self) -> None:
        self._count += 1
        name = f"pod-{self._count}"
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "example.com/w:1"}]}}
        self._wrote(self.plane.request("POST", self.path, body, code=201))
        self._names.append(name)

    def _touch(self, name: str) -> None:
        ballast = self._chance.randbytes(self.ballast // 2).hex()
        patch = {"metadata": {"labels": {"touched": str(len(self.written))}, "annotations": {"ballast": ballast}}}
        self._wrote(self.plane.request("PATCH", f"{self.path}/{name}", patch, type_="application/merge-patch+json"))

    def _wrote(self, item: Any) -> None:
        meta = item["metadata"]
        self.written.append((meta["uid"], int(meta["resourceVersion"])))


def recorder(plane: ControlPlane, db: str, database: str, *, runs: int, seed: int) -> Report:
    """The recorder killed so often. Crashed when anything that it had stored is lost, or anything was missed for which
    no gap is on record."""
    chance = random.Random(seed)
    with recording(plane, db, seed=seed) as (first, writer):
        first.kill()
        times = kill_again_and_again(first.arguments, r"watching from|listed", runs, chance)
        with started(first.arguments, "watching from") as last:
            catch_up(plane, db, last, writer)
    is_sound(db)
    with open_store(db, read_only=True) as store:
        return Report("record", database, seed, runs, store.head(), len(writer.written), times)


@contextmanager
def recording(plane: ControlPlane, db: str, *, seed: int, ballast: int = 0) -> Iterator[tuple[Child, Writer]]:
    """A recorder that watches all that it is to watch, and somebody who writes."""
    namespace = plane.namespace()
    arguments = ["record", "--db", db, "--kubeconfig", str(plane.kubeconfig), "--cluster", CLUSTER]
    arguments += ["--kind", KINDS, "-n", namespace, "--seed", str(seed), "--idle", "20s"]
    with started(arguments, "watching from") as child:
        wait_until(lambda: sum("watching from" in line for line in child.lines) >= 4, "all is watched", child)
        with Writer(plane, namespace, seed, ballast) as writer:
            yield child, writer


def catch_up(plane: ControlPlane, db: str, child: Child, writer: Writer) -> None:
    """No more writes, then until the ledger has what the server has, then the end of the recorder. Crashed when a write
    is missing."""
    writer.stop()
    items: list[Any] = plane.request("GET", writer.path)["items"]
    there = {item["metadata"]["uid"]: int(item["metadata"]["resourceVersion"]) for item in items}
    wait_until(lambda: child.worked_after is not None, "it works", child)
    wait_until(lambda: live(db, "Pod") == there, "the ledger has what the server has", child)
    child.end()
    with open_store(db, read_only=True) as store:
        missed = missed_by(store, writer.written)
    if missed:
        raise Crashed(f"{len(missed)} writes are not in the log, and no gap says so: {missed[:5]}")


def live(db: str, kind: str) -> dict[str, int]:
    """UID and version of each object that the ledger takes to be there."""
    with open_store(db, read_only=True) as store:
        return {head.stream.uid: head.resource_version or 0 for head in store.live(CLUSTER, kind) if head.stream.uid}


def missed_by(store: EventStore, written: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The writes whose versions the log has not, but for those within a gap on record."""
    stored = {
        (event.uid, event.resource_version)
        for event in store.read(kinds="Pod", types=["ObjectAdded", "ObjectModified", "ObjectDeleted"])
    }
    gaps = []
    for event in store.read(kinds="Pod", types="GapRecorded"):
        gap = json.loads(event.payload)
        if gap.get("to_resource_version"):
            gaps.append((int(gap["from_resource_version"] or 0), int(gap["to_resource_version"])))
    return [
        (uid, version)
        for uid, version in written
        if (uid, version) not in stored and not any(begin < version <= end for begin, end in gaps)
    ]


# --- the scheduler ------------------------------------------------------------------------------------------------


def scheduler(plane: ControlPlane, db: str, database: str, *, runs: int, seed: int) -> Report:
    """The scheduler killed so often, while gangs with and without volumes come. Crashed when a pod was bound twice, an
    assumption leaked, anything stays undone, or the cache is not what the server has. Needs the volume controller."""
    chance = random.Random(seed)
    times: list[float] = []
    with scheduling(plane, db, seed=seed) as (first, arrive):
        arrive(2)
        first.kill()
        for _ in range(runs):
            arrive(1)
            times += kill_again_and_again(first.arguments, "passes begin", 1, chance)
        with started(first.arguments, "passes begin") as last:
            all_placed(plane, db, last)
    is_sound(db)
    with open_store(db, read_only=True) as store:
        posts = sum(1 for _ in store.read(types="BindRequested"))
        return Report("schedule", database, seed, runs, store.head(), posts, times)


@contextmanager
def scheduling(
    plane: ControlPlane, db: str, *, seed: int, ballast: int = 0
) -> Iterator[tuple[Child, Callable[[int], None]]]:
    """A scheduler at work, and a way to let so many gangs come. `ballast`: characters that each pod carries."""
    namespace, chance = plane.namespace(), random.Random(seed)
    prepare(plane)
    arguments = ["schedule", "--db", db, "--kubeconfig", str(plane.kubeconfig), "--cluster", CLUSTER, "--lock", "none"]
    arguments += ["--period", "0.2s", "--settle", "3s", "--seed", str(seed)]
    numbers = iter(range(1 << 30))

    def arrive(gangs: int) -> None:
        for _ in range(gangs):
            come(plane, namespace, next(numbers), chance, ballast)

    with started(arguments, "passes begin") as child:
        wait_until(lambda: child.worked_after is not None, "passes begin", child)
        yield child, arrive


def all_placed(plane: ControlPlane, db: str, child: Child) -> None:
    """Until every pod is bound and nothing is on its way, then the end of the scheduler. Crashed when the cache is not
    what the server has."""
    wait_until(lambda: child.worked_after is not None, "it works", child)
    wait_until(lambda: all(nodes_of(plane).values()), "every pod is bound", child)
    wait_until(lambda: at_rest(db), "nothing is in flight", child)
    child.end()
    with Ledger.open(db, read_only=True) as ledger:
        cache = ledger.cache(cluster=CLUSTER, model="exact", config=ledger.ways(CLUSTER)[1])
    held = {key: name for name, info in cache.nodes.items() for key in info.tasks}
    where = nodes_of(plane)
    if held != where:
        raise Crashed(f"the cache and the server differ: {sorted(held.items() ^ where.items())[:6]}")


def prepare(plane: ControlPlane) -> None:
    """Nodes, a queue, local volumes and a class."""
    plane.wipe()
    things.queue(plane)
    things.storage_class(plane, "local", "kubernetes.io/no-provisioner")
    for at in range(NODES):
        things.node(plane, f"node-{at}", cpu="400", pods="800")


def come(plane: ControlPlane, namespace: str, number: int, chance: random.Random, ballast: int) -> None:
    """A gang, whose first pods may have claims. There is a volume for each claim."""
    size, with_claims = chance.randint(1, 4), chance.randint(0, 2)
    for index in range(min(size, with_claims)):
        name = f"data-{number}-{index}"
        things.local_volume(plane, f"volume-{number}-{index}", f"node-{chance.randrange(NODES)}", "local")
        things.claim(plane, namespace, name, "local")
    things.gang(
        plane,
        namespace,
        f"gang-{number}",
        size,
        claims=lambda index: (f"data-{number}-{index}",) if index < with_claims else (),
        ballast=chance.randbytes(ballast // 2).hex(),
    )


def nodes_of(plane: ControlPlane) -> dict[str, str]:
    """Every pod, by namespace and name, and the node that it is bound to, '' for none."""
    found = {}
    for pod in plane.request("GET", "/api/v1/pods")["items"]:
        meta = pod["metadata"]
        found[f"{meta['namespace']}/{meta['name']}"] = pod["spec"].get("nodeName", "")
    return found


def asked_for(db: str) -> set[str]:
    """The pods, by namespace and name, for which the log has a binding that was to be sent."""
    with open_store(db, read_only=True) as store:
        return {f"{event.namespace}/{event.name}" for event in store.read(types="BindRequested")}


def at_rest(db: str) -> bool:
    """Whether the log says that nothing is on its way."""
    from vcledger.runtime.loop import Loop
    from vcledger.schedule.scheduler import Options

    with open_store(db, read_only=True) as store:
        loop = Loop(store, CLUSTER, carry_out=lambda effect: None, config=Options().flow())
        return loop.rebuild().idle


# --- what must hold -----------------------------------------------------------------------------------------------


def is_sound(db: str) -> None:
    """The chain is intact, positions have no holes, and no invariant is broken."""
    with open_store(db, read_only=True) as store:
        positions = [event.position for event in store.read()]
        if positions != list(range(1, store.head() + 1)):
            raise Crashed("the log's positions have holes")
    for command in ("verify", "check"):
        done = CliRunner().invoke(app, [command, "--db", db])
        if done.exit_code:
            raise Crashed(f"{command}: {done.output}")


def new_database(server: str, name: str) -> str:
    """The URL of a new database."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
    return database_url(server, name)
