"""A disk that is full, a database that is gone, in the middle of a bind: on both stores, at every moment of it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from sqlalchemy import event

from eventstore import EventStore, open_store
from eventstore.types import EventStoreError
from vcledger import codec
from vcledger.runtime.loop import Loop
from vcledger.runtime.port import Answer
from vcledger.scheduler.inputs import Allocate, Answered, Effect, Observed
from vcledger.scheduler.requests import Bind, Patch, Update
from vcledger.scheduler.state import SECOND
from vcledger.sim.clock import START
from vcledger.sim.mvcc import Revision
from vcledger.sim.server import SimulatedApi

KINDS = ("Queue", "PodGroup", "StorageClass", "PersistentVolume", "PersistentVolumeClaim", "Node", "Pod")
BEAT = 20_000
BEATS = 9
"""So many beats the bind takes when all is well, and some more."""


class FullDisk:
    """SQLite on a disk without room for another page."""

    def __init__(self, path: Path) -> None:
        self.store = open_store(str(path), create=True)
        self._limit = 2**31 - 2

        def limit(connection: sqlite3.Connection, _record: object) -> None:
            connection.execute(f"PRAGMA max_page_count={self._limit}")

        event.listen(self.store.backend.engine, "connect", limit)

    def begin(self) -> None:
        with self.store.backend.engine.connect() as connection:
            self._limit = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        self.store.backend.engine.dispose()

    def end(self) -> None:
        self._limit = 2**31 - 2
        self.store.backend.engine.dispose()


class DatabaseGone:
    """PostgreSQL that throws everybody out and lets nobody in."""

    def __init__(self, server: str, url: str) -> None:
        self.store = open_store(url, create=True)
        self._server = server
        with psycopg.connect(url) as connection:
            self._name = connection.info.dbname

    def _say(self, *statements: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as admin:
            for statement in statements:
                admin.execute(statement)  # type: ignore[arg-type]

    def begin(self) -> None:
        self._say(
            f'ALTER DATABASE "{self._name}" WITH ALLOW_CONNECTIONS false',
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self._name}'",
        )

    def end(self) -> None:
        self._say(f'ALTER DATABASE "{self._name}" WITH ALLOW_CONNECTIONS true')


@pytest.fixture(params=["sqlite", "postgres"])
def trouble(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FullDisk | DatabaseGone]:
    made: FullDisk | DatabaseGone
    if request.param == "sqlite":
        made = FullDisk(tmp_path / "flow.db")
    else:
        server, url = request.getfixturevalue("postgres_server"), request.getfixturevalue("postgres_url")
        made = DatabaseGone(server, url)
    yield made
    made.store.close()


class Run:
    """A pod with a claim, a server that answers at once, and a loop on a store."""

    def __init__(self, store: EventStore, cluster: str) -> None:
        self.store, self.cluster, self.now = store, cluster, START
        self.api = SimulatedApi(lambda: self.now)
        self.sent: list[Effect] = []
        self.posts = 0
        self.loop = self._loop()
        assert self.loop.recover(self.now)
        self.watches: dict[str, Any] = {
            kind: self.api.watch(kind, resource_version=str(self.api.version)) for kind in KINDS
        }
        self.api.store.listeners.append(self._bind_claim)
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        self.api.create("Queue", {"metadata": {"name": "default"}, "spec": {"weight": 1}})
        late = {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
        self.api.create("StorageClass", {"metadata": {"name": "wait"}, **late})
        self.api.create("Node", {"metadata": {"name": "n1"}, "status": {"allocatable": amounts, "capacity": amounts}})
        claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "wait"}
        claim["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[assignment]
        self.api.create("PersistentVolumeClaim", {"metadata": self._meta("c1"), "spec": claim})
        group = {"spec": {"minMember": 1, "queue": "default"}, "status": {"phase": "Inqueue"}}
        self.api.create("PodGroup", {"metadata": self._meta("g"), **group})
        self.api.create(
            "Pod", self._pod("p1", "g", {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c1"}}]})
        )
        self.api.create("Pod", self._pod("filler", "", {"schedulerName": "another"}))

    def _loop(self) -> Loop:
        return Loop(self.store, self.cluster, carry_out=self.sent.append, snapshot_every=10)

    def _meta(self, name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "namespace": "d", **more}

    def _pod(self, name: str, group: str, spec: dict[str, Any]) -> dict[str, Any]:
        container = {"name": "m", "resources": {"requests": {"cpu": "1"}}}
        meta = self._meta(name, annotations={"scheduling.k8s.io/group-name": group} if group else {})
        return {"metadata": meta, "spec": {"schedulerName": "volcano", "containers": [container], **spec}}

    def _bind_claim(self, revision: Revision) -> None:
        """The provisioner and the volume controller in one."""
        claim = revision.stored.object
        if revision.kind != "PersistentVolumeClaim" or claim["spec"].get("volumeName"):
            return
        meta = claim["metadata"]
        annotations = meta.get("annotations") or {}
        if "volume.kubernetes.io/selected-node" not in annotations:
            return
        reference = {"kind": "PersistentVolumeClaim", **{key: meta[key] for key in ("namespace", "name", "uid")}}
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "wait"}
        source = {"claimRef": reference, "csi": {"driver": "csi.example.com", "volumeHandle": "h"}}
        self.api.create("PersistentVolume", {"metadata": {"name": "pv1"}, "spec": {**spec, **source}})
        marked = {**meta, "annotations": {**annotations, "pv.kubernetes.io/bind-completed": "yes"}}
        bound = {**claim, "metadata": marked, "spec": {**claim["spec"], "volumeName": "pv1"}}
        assert self.api.do(Update("PersistentVolumeClaim", "d", "c1", msgspec.json.encode(bound))).ok

    def beat(self, *, wide: bool = False) -> None:
        """One step with all that has arrived, then its effects. `wide`: with news that need room."""
        if wide:
            note = {"metadata": {"annotations": {"note": os.urandom(12_000).hex()}}}
            assert self.api.do(Patch("Pod", "d", "filler", msgspec.json.encode(note))).ok
        for kind, watch in self.watches.items():
            for line in watch.take():
                self.loop.put(Observed(kind, line.type, line.object))
        self.loop.put(Allocate())
        self.now += BEAT
        self.loop.step(self.now)
        sent, self.sent[:] = list(self.sent), []
        assert not (sent and self.loop.down), "effects left though the log had refused"
        for effect in sent:
            self.posts += isinstance(effect.request, Bind)
            answer: Answer = self.api.do(effect.request)
            self.loop.put(Answered(effect, answer))

    def die(self) -> None:
        """The process is gone with all it had; the next one can't begin while the log refuses."""
        self.sent.clear()
        self.loop = self._loop()
        self.loop.recover(self.now)
        for kind in KINDS:
            self.watches[kind] = self.api.watch(kind, resource_version="")


def in_trouble(run: Run, dies: bool) -> None:
    """The log refuses for some beats: nothing is decided, nothing is held that the log has not."""
    run.beat(wide=True)
    assert isinstance(run.loop.down, EventStoreError)
    if dies:
        run.die()
    for _ in range(2):
        run.beat(wide=True)
        assert run.loop.down is not None
        assert (run.loop.flow.position, run.loop.flow.tasks, run.loop.outstanding) == (0, {}, {})
        assert run.loop.next_due() is None


@pytest.mark.slow
@pytest.mark.parametrize("dies", [False, True])
def test_at_every_moment_of_a_bind(trouble: FullDisk | DatabaseGone, dies: bool) -> None:
    for moment in range(BEATS):
        run = Run(trouble.store, f"cluster-{moment}")
        for _ in range(moment):
            run.beat()
        trouble.begin()
        in_trouble(run, dies)
        trouble.end()
        for _ in range(200):
            run.beat()
            if run.loop.idle or (run.loop.flow.idle and not run.loop.flow.tasks):
                break
        check_end(run, moment)


def check_end(run: Run, moment: int) -> None:
    """Bound once, nothing assumed, and the state is the log's."""
    flow = run.loop.flow
    pod = run.api.object("Pod", "d", "p1")
    assert pod is not None
    assert pod["spec"].get("nodeName") == "n1", moment
    assert run.posts <= 2, moment
    assert flow.idle and not flow.claims.assumed and not flow.volumes.assumed
    assert float(flow.cache.nodes["n1"].idle.milli_cpu) == 2000 + 1000, moment
    assert run.loop.rebuild().digest() == run.loop.rebuild(snapshots=False).digest() == flow.digest()
    outcomes = [one.event for one in map(codec.recorded, run.store.read(cluster=run.cluster, types=["BindSucceeded"]))]
    assert len(outcomes) == 1


def test_it_takes_what_came_while_the_log_refused(trouble: FullDisk | DatabaseGone) -> None:
    run = Run(trouble.store, "c")
    trouble.begin()
    in_trouble(run, dies=False)
    run.api.create("Node", {"metadata": {"name": "n2"}, "status": {"allocatable": {"cpu": "1", "pods": "5"}}})
    run.beat(wide=True)
    assert run.loop.down is not None
    trouble.end()
    run.beat()
    assert run.loop.down is None
    assert {"n1", "n2"} <= set(run.loop.flow.cache.nodes)
    for _ in range(2 * SECOND // BEAT):
        run.beat()
    assert not run.loop.flow.tasks
    check_end(run, -1)
