"""The scheduler's loop in simulation: binds a second on a durable ledger, a look at many waiting claims, a restart, and
steps of the state machines.

Owns these measurements. Must not know the table. Called by `bench.__main__`.

The API server is the simulated one, with a controller that binds a claim as soon as it is asked to. Everything counts:
what the server does, watch lines into the loop, decisions, appends with `synchronous=FULL`, answers. Simulated time
passes in beats of the bind queue; only real time is measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from eventstore import open_store
from vcledger.runtime.loop import Loop
from vcledger.runtime.port import Answer, WatchStream
from vcledger.scheduler.inputs import Allocate, Answered, Effect, Observed
from vcledger.scheduler.requests import Update
from vcledger.scheduler.session.conf import default_conf
from vcledger.scheduler.state import SECOND, FlowConfig, FlowTask
from vcledger.sim.clock import START
from vcledger.sim.mvcc import Object, Revision
from vcledger.sim.server import SimulatedApi

CLUSTER = "bench"
KINDS = ("Queue", "PodGroup", "StorageClass", "PersistentVolume", "PersistentVolumeClaim", "Node", "Pod")
BEAT = 20_000
NODES, GANG = 200, 10


class Binds(NamedTuple):
    """Pods bound, how long it took, and what was written for them."""

    pods: int
    seconds: float
    events: int
    appends: int


class World:
    """A server, a ledger, a loop, and the way between them, which takes no time."""

    def __init__(self, db: Path, *, provides: bool = True) -> None:
        self.now = START
        self.provides = provides
        self.api = SimulatedApi(lambda: self.now)
        self.store = open_store(str(db), create=True)
        self.effects: list[Effect] = []
        self.loop = Loop(self.store, CLUSTER, carry_out=self.effects.append, config=FlowConfig(session=default_conf()))
        self.loop.recover(self.now)
        self.watches: dict[str, WatchStream] = {}
        for kind in KINDS:
            watch = self.api.watch(kind, resource_version=str(self.api.version))
            assert not isinstance(watch, Answer), watch
            self.watches[kind] = watch
        self.bound = 0
        self.api.store.listeners.append(self._written)

    def close(self) -> None:
        self.store.close()

    def make(self, kind: str, name: str, namespace: str = "", **parts: Any) -> Object:
        meta = {"name": name, **({"namespace": namespace} if namespace else {}), **parts.pop("metadata", {})}
        return self.api.create(kind, {"metadata": meta, **parts})

    def beat(self) -> int:
        """One step of the loop with all that has arrived; the number of events appended."""
        for kind, watch in self.watches.items():
            for line in watch.take():
                self.loop.put(Observed(kind, line.type, line.object))
        self.now += BEAT
        appended = self.loop.step(self.now)
        effects, self.effects[:] = list(self.effects), []
        for effect in effects:
            self.loop.put(Answered(effect, self.api.do(effect.request)))
        return appended

    # --- the volume controller ------------------------------------------------------------------------------------

    def _written(self, revision: Revision) -> None:
        item = revision.stored.object
        if revision.kind == "Pod" and item["spec"].get("nodeName") and revision.change == "MODIFIED":
            self.bound += 1
        annotations = item["metadata"].get("annotations") or {}
        if revision.kind != "PersistentVolumeClaim" or item["spec"].get("volumeName"):
            return
        if self.provides and annotations.get("volume.kubernetes.io/selected-node"):
            self._provide(item)

    def _provide(self, claim: Object) -> None:
        """A volume for the claim, and the claim bound to it."""
        meta, spec = claim["metadata"], claim["spec"]
        name = f"pv-{meta['name']}"
        names = {key: meta[key] for key in ("namespace", "name", "uid")}
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **names}
        self.make(
            "PersistentVolume",
            name,
            spec={
                "capacity": spec["resources"]["requests"],
                "accessModes": spec["accessModes"],
                "storageClassName": spec["storageClassName"],
                "claimRef": reference,
                "csi": {"driver": "csi.example.com", "volumeHandle": name},
            },
            status={"phase": "Bound"},
        )
        annotations = {**meta["annotations"], "pv.kubernetes.io/bind-completed": "yes"}
        bound = {**claim, "metadata": {**meta, "annotations": annotations}, "spec": {**spec, "volumeName": name}}
        done = self.api.do(Update("PersistentVolumeClaim", meta["namespace"], meta["name"], msgspec.json.encode(bound)))
        assert done.ok, done


def cluster(world: World) -> None:
    """Nodes with room for all, a queue, and a class whose volumes are made for the pod's node."""
    world.make("Queue", "default", spec={"weight": 1}, status={"state": "Open"})
    world.make("StorageClass", "wait", provisioner="csi.example.com", volumeBindingMode="WaitForFirstConsumer")
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    for index in range(NODES):
        ready = [{"type": "Ready", "status": "True"}]
        world.make("Node", f"n{index}", status={"allocatable": amounts, "capacity": amounts, "conditions": ready})


def gangs(world: World, pods: int, volumes: int) -> None:
    """Gangs of ten, each pod with so many claims."""
    for gang in range(pods // GANG):
        group = f"g{gang}"
        spec = {"minMember": GANG, "queue": "default"}
        world.make("PodGroup", group, "default", spec=spec, status={"phase": "Inqueue"})
        for index in range(GANG):
            name = f"{group}-{index}"
            claims = [f"{name}-v{number}" for number in range(volumes)]
            for claim in claims:
                wanted = {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "wait",
                    "resources": {"requests": {"storage": "5Gi"}},
                }
                world.make("PersistentVolumeClaim", claim, "default", spec=wanted)
            world.make(
                "Pod",
                name,
                "default",
                metadata={"annotations": {"scheduling.k8s.io/group-name": group}},
                spec={
                    "schedulerName": "volcano",
                    "containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
                    "volumes": [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims],
                },
                status={"phase": "Pending"},
            )


def binds(db: Path, pods: int, volumes: int) -> Binds:
    """All pods bound, from the first pass until the loop is idle and has seen each on its node."""
    world = World(db)
    cluster(world)
    gangs(world, pods, volumes)
    for _ in range(3):
        world.beat()
    start, head, appends = time.perf_counter(), world.store.head(), 0
    world.loop.put(Allocate())
    while world.bound < pods or not world.loop.idle:
        appends += world.beat() > 0
        assert world.now - START < 600 * SECOND, "the pods are not bound"
    seconds = time.perf_counter() - start
    events = world.store.head() - head
    world.close()
    return Binds(pods, seconds, events, appends)


def waiting_check(db: Path, claims: int, looks: int = 7) -> float:
    """Seconds of the loop's step in which every claim that is waited for is looked at, as it is each second, and none
    is bound yet: the median of some."""
    world = World(db, provides=False)
    cluster(world)
    gangs(world, claims // 2, 2)
    for _ in range(3):
        world.beat()
    world.loop.put(Allocate())
    while sum(len(task.provisions) for task in _waiting(world)) < claims:
        world.beat()
        assert world.now - START < 60 * SECOND, "the claims are not waited for"
    world.beat()
    seconds = []
    for _ in range(looks):
        world.now += SECOND
        start = time.perf_counter()
        world.loop.step(world.now)
        seconds.append(time.perf_counter() - start)
    assert len(_waiting(world)) == claims // 2
    world.close()
    return sorted(seconds)[looks // 2]


def _waiting(world: World) -> list[FlowTask]:
    return [world.loop.flow.tasks[uid] for uid in world.loop.flow.waiting]


class Restart(NamedTuple):
    """A process that begins on a ledger: its events, those after the newest snapshot, and seconds until it has
    recovered."""

    events: int
    tail: int
    seconds: float


def restart(db: Path, events: int, pods: int = 10_000) -> Restart:
    """Recovery on a ledger in which so many pods changed again and again."""
    store = open_store(str(db), create=True)
    now = START
    loop = Loop(store, CLUSTER, carry_out=lambda effect: None)
    loop.recover(now)
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    for index in range(NODES):
        meta = {"name": f"n{index}", "uid": f"node-{index}", "resourceVersion": str(index + 1)}
        loop.put(_observed("Node", {"metadata": meta, "status": {"allocatable": amounts, "capacity": amounts}}))
    made = 0
    while store.head() < events:
        for _ in range(min(1_000, events - store.head())):
            number = made % pods
            meta = {"name": f"p{number}", "namespace": "default", "uid": f"pod-{number}"}
            requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
            spec = {
                "schedulerName": "volcano",
                "nodeName": f"n{number % NODES}",
                "containers": [{"resources": requests}],
            }
            pod = {"metadata": {**meta, "resourceVersion": str(1_000 + made)}, "spec": spec}
            loop.put(_observed("Pod", {**pod, "status": {"phase": "Running"}}))
            made += 1
        now += 1_000
        loop.step(now)
    again = Loop(store, CLUSTER, carry_out=lambda effect: None)
    start = time.perf_counter()
    assert again.recover(now)
    seconds = time.perf_counter() - start
    head = store.head()
    store.close()
    return Restart(head, head - (again.recovered_from or 0), seconds)


def _observed(kind: str, item: Object) -> Observed:
    return Observed(kind, "MODIFIED", msgspec.json.encode(item))


# --- the state machines -------------------------------------------------------------------------------------------

MACHINES = ("FlowMachine", "VolumeBinderMachine")
STEPS_A_RUN = 50


class Steps(NamedTuple):
    """Steps of the machines, run side by side, and how long they took."""

    steps: int
    seconds: float


def machine_steps(steps: int) -> Steps:
    """The bind flow's machines with crashes, as `make test` runs them, each in a process of its own."""
    program = "import sys; from bench.loop import run_machine; run_machine(sys.argv[1], int(sys.argv[2]))"
    wanted = str(steps // len(MACHINES))
    start = time.perf_counter()
    running = [
        subprocess.Popen([sys.executable, "-c", program, name, wanted], stdout=subprocess.PIPE, text=True)
        for name in MACHINES
    ]
    done = 0
    for process in running:
        out, _ = process.communicate()
        assert process.returncode == 0, f"{wanted} steps of a machine ended with {process.returncode}"
        done += int(json.loads(out.splitlines()[-1])["steps"])
    return Steps(done, time.perf_counter() - start)


def run_machine(name: str, steps: int) -> None:
    """Runs one machine until it has made so many steps, and prints how many they were. The seed is fixed."""
    from hypothesis import HealthCheck, Phase, seed, settings
    from hypothesis.stateful import run_state_machine_as_test

    from vcledger.testing import machines_flow

    made = 0
    machine: type[machines_flow.FlowMachine] = getattr(machines_flow, name)

    class Counted(machine):  # type: ignore[misc, valid-type]
        def teardown(self) -> None:
            nonlocal made
            made += max(0, self.steps_made - 1)  # the state at the beginning is looked at as well
            super().teardown()

        steps_made = 0

        def check_invariants(self, *given: Any, **more: Any) -> None:
            self.steps_made += 1
            super().check_invariants(*given, **more)

    runs = 0
    while made < steps:
        runs += 1
        chosen = settings(
            max_examples=20,
            stateful_step_count=STEPS_A_RUN,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        run_state_machine_as_test(seed(runs)(Counted), settings=chosen)
    print(json.dumps({"steps": made}))
