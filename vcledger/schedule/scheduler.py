"""A run of the scheduler on a real API server, from its start to its end.

Owns the threads, and the order in which they begin and end: the leader lock first, then the ledger and the role in it,
then the loop, informers, workers and the clock that asks for allocation passes. Must not know transports, nor what is
decided. Called by `cli.schedule` and users' programs:

    scheduler = Scheduler("vcledger.db", "prod", port, Options(scheduler_name="vcledger"))
    outcome = scheduler.run()         # until scheduler.stop(), from another thread or a signal's handler

What is in flight when it ends is finished, as far as it answers in time; the rest is in doubt, and the next run settles
it by asking the API server.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from random import Random
from typing import NamedTuple

import msgspec

from eventstore import EventStore
from eventstore.types import EventStoreError, Lease
from projections.cache import CacheConfig
from vcledger.errors import VcledgerError
from vcledger.ledger import Ledger
from vcledger.record import upkeep
from vcledger.record.feed import Origin
from vcledger.record.meters import Meters
from vcledger.record.worker import IDLE_SECONDS, Worker
from vcledger.roles import SCHEDULER, Role, is_dead, this_process
from vcledger.runtime.clock import Clock
from vcledger.runtime.effects import BindErrorHandler, Workers
from vcledger.runtime.live import Live
from vcledger.runtime.loop import Loop
from vcledger.runtime.port import ApiPort
from vcledger.runtime.running import Running
from vcledger.schedule.election import Election, Timing, place
from vcledger.schedule.informer import Informer, Intake, informer
from vcledger.schedule.lock import LeaderLock, LockPort
from vcledger.scheduled import Run, started, stopped
from vcledger.scheduler.inputs import Allocate, Answered, Input
from vcledger.scheduler.session.conf import SessionConf, default_conf
from vcledger.scheduler.state import FlowConfig
from vcledger.sources.listwatch import DELAY_ABSENT
from vcledger.sources.observe import Observer, hash_key
from vcledger.sources.redact import StorageOptions
from vcledger.sources.snapshots import location

NEEDED: tuple[str, ...] = (
    "Queue",
    "PodGroup",
    "PriorityClass",
    "StorageClass",
    "CSINode",
    "CSIStorageCapacity",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Node",
    "Pod",
)
"""Kinds whose lists must be complete before anything is decided."""

WATCHED: tuple[str, ...] = (*NEEDED, "VolcanoJob", "ResourceQuota", "Numatopology")
"""Kinds that are listed and watched. The last ones only inform: a cluster may do without them."""

JOIN_SECONDS = 15.0
TAKE_SECONDS = 1.0


class Options(msgspec.Struct, frozen=True):
    """scheduler_name: whose pods it schedules. lock: NAMESPACE/NAME of the leader lock, None for none. period_seconds:
    between two allocation passes. bind_timeout_seconds: for a pod's volumes. settle_seconds: how long a request whose
    answer was lost may still arrive. workers: requests at a time. seed: of the jitter of waits. absent_seconds: before
    a kind is looked for again that is not installed. take_over: take the role from a scheduler that has it. session:
    Volcano's configuration, by which a session decides, with ties decided by `seed` too. beside: another scheduler of
    groups is at work in the cluster, who lets in the PodGroups that nobody's pods belong to, writes what queues
    hold, and makes those that each cluster has. node_selectors: as `label:value`, nodes with one of these labels are
    scheduled to, all when there is none (Volcano's option)."""

    scheduler_name: str = "vcledger"
    lock: str | None = None
    timing: Timing = Timing()
    period_seconds: float = 1.0
    bind_timeout_seconds: float = 600.0
    settle_seconds: float = 60.0
    workers: int = 16
    seed: int = 0
    page: int = 500
    idle_seconds: float = IDLE_SECONDS
    absent_seconds: float = DELAY_ABSENT / 1_000_000
    snapshots: bool = True
    take_over: bool = False
    default_queue: str = "default"
    session: SessionConf = msgspec.field(default_factory=default_conf)
    beside: bool = False
    node_selectors: tuple[str, ...] = ()

    def flow(self) -> FlowConfig:
        """What the deciders are told of it."""
        return FlowConfig(
            cache=CacheConfig(
                scheduler_names=(self.scheduler_name,),
                default_queue=self.default_queue,
                node_selectors=self.node_selectors,
            ),
            scheduler_name=self.scheduler_name,
            lists=NEEDED,
            bind_timeout_seconds=self.bind_timeout_seconds,
            settle_seconds=self.settle_seconds,
            session=self.session,
            seed=self.seed,
            statuses=True,
            alone=not self.beside,
            makes_queues=not self.beside,
        )


class Outcome(NamedTuple):
    """How a run ended: its last durable position, the binds that succeeded, and what went wrong ('' when nothing)."""

    position: int
    bound: int
    problem: str


class State(NamedTuple):
    """How a run stands. `waiting`: inputs for the loop; `tasks`: those on their way to a node, of which `volumes` wait
    for volumes; `queued` for a bind; `resync` for their resync; `evictions`: those told to go that were not seen going;
    `out`: requests that are not answered."""

    leading: bool
    holder: str
    synced: bool
    watching: int
    kinds: int
    waiting: int
    tasks: int
    queued: int
    volumes: int
    resync: int
    evictions: int
    out: int
    bound: int
    failed: int
    position: int
    problem: str
    problems: dict[str, str]


class Scheduler(Running):
    """One run on the ledger `db` (a path or URL, made if need be). `told` gets a line for people for each thing that
    they may want to know. `handlers`: bind error handlers by name. `identity`: this candidate's name in the lock, which
    no other may have; host and process unless given."""

    title = "schedule"

    def __init__(
        self,
        db: str | None,
        cluster: str,
        port: ApiPort,
        options: Options,
        *,
        lock_port: LockPort | None = None,
        told: Callable[[str], None] = lambda line: None,
        clock: Clock | None = None,
        handlers: Mapping[str, BindErrorHandler] | None = None,
        identity: str | None = None,
    ) -> None:
        super().__init__(clock)
        self.db, self.cluster, self.port, self.options, self.told = db, cluster, port, options, told
        self.meters = Meters()
        self.informers: list[Informer] = []
        self.identity = identity or this_process()
        self.lock = self._lock(lock_port)
        self.loop: Loop | None = None
        self._handlers = handlers
        self._live: Live | None = None
        self._synced = False

    # --- from outside ---------------------------------------------------------------------------------------------

    def stop(self, why: str = "") -> None:
        """Ends the run, from any thread or a signal's handler."""
        super().stop(why)
        live = self._live
        if live is not None:
            live.stop()

    def state(self) -> State:
        """How it stands now. Numbers of different moments may stand beside each other."""
        loop, meters, lock = self.loop, self.meters, self.lock
        flow = loop.flow if loop is not None else None
        feeds = [one.feed for one in self.informers]
        return State(
            leading=(lock is None or lock.leading.is_set()) and not self._stop.is_set(),
            holder=lock.election.holder if lock is not None else self.identity,
            synced=flow is not None and flow.synced,
            watching=sum(feed.watching for feed in feeds),
            kinds=len(feeds),
            waiting=loop.queued if loop is not None else 0,
            tasks=len(flow.tasks) if flow is not None else 0,
            queued=len(flow.bind_queue) if flow is not None else 0,
            volumes=len(flow.waiting) if flow is not None else 0,
            resync=len(flow.resync) if flow is not None else 0,
            evictions=len(flow.evictions) if flow is not None else 0,
            out=len(loop.outstanding) if loop is not None else 0,
            bound=meters.count("answers", "bind", "201"),
            failed=meters.count("answers", "bind") - meters.count("answers", "bind", "201"),
            position=flow.position if flow is not None else 0,
            problem=str(loop.down) if loop is not None and loop.down is not None else "",
            problems={feed.scope.title: feed.problem for feed in feeds if feed.problem},
        )

    # --- the run --------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Waits for the leader lock, then schedules until it is stopped, or has lost the lock or its role. The log's
        own errors when the ledger cannot be opened; RoleHeld when another scheduler writes into it."""
        if self.lock is None:
            return self._led()
        self.lock.begin()
        try:
            while not self.lock.leading.wait(TAKE_SECONDS) and not self._stop.is_set():
                pass
            return Outcome(0, 0, self._problem) if self._stop.is_set() else self._led()
        finally:
            self.lock.end()

    def _led(self) -> Outcome:
        """The run under the lock."""
        with Ledger.open(self.db, create=True) as ledger:
            role = self._role(ledger.store)
            try:
                return self._schedule(ledger, role)
            finally:
                with contextlib.suppress(EventStoreError):  # it ends by itself
                    role.release()

    def _schedule(self, ledger: Ledger, role: Role) -> Outcome:
        lease = role.lease
        ledger.store.append([started(self.cluster, self._run_said(), self.now())], lift=True, lease=lease)
        loop, live = self._loop(ledger.store, lease)
        intake = Intake(live.put, lambda: loop.queued)
        workers = self._workers(live)
        loop.carry_out = workers.carry_out
        origin = Origin(self.cluster, f"{hash_key(self.identity, str(self.now())):x}", None)
        watching = [self._watch(ledger.store, origin, kind, intake) for kind in WATCHED]
        db = location(ledger)
        threads = [self._thread(worker.run, worker.feed.scope.title) for worker in watching]
        threads.append(self._thread(lambda: self._allocate(loop, live), "allocate"))
        threads.append(self._thread(lambda: role.keep_until(db, self._stop, self._fail), "role"))
        threads.append(self._thread(self._upkeep(db).run, "upkeep"))
        self.told(f"scheduling pods of {self.options.scheduler_name} as {self.identity}")
        try:
            if not self._stop.is_set():
                live.run()
        finally:
            self._stop.set()
            intake.close()
            for worker in watching:
                worker.close()
            workers.close()
            loop.step(self.now())  # what was answered meanwhile
            ended = stopped(self.cluster, self.identity, self._problem, self.now())
            with contextlib.suppress(EventStoreError):  # it has lost the role, or the ledger refuses
                ledger.store.append([ended], lift=True, lease=lease)
        for thread in threads:
            thread.join(JOIN_SECONDS)
        crashed = next((worker.crashed for worker in watching if worker.crashed), "")
        return Outcome(loop.flow.position, self.state().bound, self._problem or crashed)

    def _run_said(self) -> Run:
        """What the ledger is told of this run, so that its readers rebuild the same cache."""
        options = self.options
        return Run(
            list(options.flow().cache.scheduler_names),
            options.default_queue,
            self.identity,
            options.seed,
            version("vcledger"),
            str(getattr(self.port, "server", "")),
            list(options.node_selectors),
        )

    def _loop(self, store: EventStore, lease: Lease) -> tuple[Loop, Live]:
        loop = Loop(
            store,
            self.cluster,
            carry_out=lambda effect: None,
            config=self.options.flow(),
            clock=self.now,
            lease=lambda: lease,
        )
        live = Live(loop, _Shared(self.now))
        self.loop, self._live = loop, live
        return loop, live

    def _workers(self, live: Live) -> Workers:
        def answered(given: Answered) -> None:
            request = given.effect.request
            self.meters.add("answers", type(request).__name__.lower(), str(given.answer.code or "none"))
            live.put(given)

        return Workers(self.port, answered, threads=self.options.workers, handlers=self._handlers)

    def _watch(self, store: EventStore, origin: Origin, kind: str, intake: Intake) -> Worker[Input]:
        options = self.options
        absent = int(options.absent_seconds * 1_000_000)
        found = informer(
            store, origin, kind, Observer(self.cluster, StorageOptions()), page=options.page, absent=absent
        )
        self.informers.append(found)
        return Worker(
            found,
            self.port,
            intake,
            self.meters,
            self._stop,
            clock=self.now,
            chance=Random(f"{options.seed}/{kind}"),
            idle_seconds=options.idle_seconds,
        )

    def _lock(self, port: LockPort | None) -> LeaderLock | None:
        if self.options.lock is None:
            return None
        if port is None:
            raise VcledgerError("a leader lock needs a way to the API server")
        election = Election(*place(self.options.lock), self.identity, self.options.timing)

        def lost(problem: str) -> None:
            self._fail(f"the leader lock was lost: {problem}")

        return LeaderLock(election, port, now=self.now, told=self.told, lost=lost)

    # --- beside the loop ------------------------------------------------------------------------------------------

    def _allocate(self, loop: Loop, live: Live) -> None:
        """Asks for a pass each period, once all is listed; not while the loop is behind. A thread's life."""
        problem = ""
        while not self._stop.wait(self.options.period_seconds):
            problem = self._tell_of(loop, problem)
            if loop.flow.synced:
                if not self._synced:
                    self._synced = True
                    self.told("all is listed: passes begin")
                if not loop.queued:
                    live.put(Allocate())

    def _tell_of(self, loop: Loop, before: str) -> str:
        """The ledger's refusal, and its end, once each."""
        now = str(loop.down) if loop.down is not None else ""
        if now != before:
            self.told(f"the ledger refuses, nothing is decided: {now}" if now else "the ledger works again")
        return now

    def _role(self, store: EventStore) -> Role:
        """The role of the cluster's scheduler in the ledger, from one of whom is known that it is over, too: a process
        of this machine that has died, or the one from whom the leader lock was taken."""
        lock = self.lock

        def over(owner: str) -> bool:
            return is_dead(owner) or (lock is not None and owner == lock.election.taken_from)

        take_over = self.options.take_over
        return Role.wait_for(store, self.cluster, SCHEDULER, self._stop, self.told, take_over=take_over, over=over)

    def _upkeep(self, db: str) -> upkeep.Upkeep:
        return upkeep.Upkeep(
            db,
            self.cluster,
            self.meters,
            self._stop,
            snapshots=self.options.snapshots,
            retain_seconds=None,
            bytes_max=None,
            clock=self.now,
            told=self.told,
        )


def informers_of(store: EventStore, cluster: str, kinds: Sequence[str]) -> list[Informer]:
    """The informers of a cluster as a run begins them: what a restart reads of the log beside the loop's state."""
    origin, observer = Origin(cluster, "", None), Observer(cluster, StorageOptions())
    return [informer(store, origin, kind, observer, page=500, absent=DELAY_ABSENT) for kind in kinds]


class _Shared:
    """The run's clock for the loop: one for all threads, so that none goes back behind another."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now

    def now(self) -> int:
        return self._now()


__all__ = ["NEEDED", "WATCHED", "Options", "Outcome", "Scheduler", "State", "informers_of"]
