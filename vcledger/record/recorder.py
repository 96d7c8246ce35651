"""A run of the recorder, from its start to its end.

Owns the threads: one for each feed, one that appends, one for upkeep, one for the lease; and the order in which they
begin and end. Must not know transports nor who shows what is told. Called by `cli.record` and users' programs:

    recorder = Recorder("vcledger.db", "prod", port, Options(scopes([], [], [])))
    outcome = recorder.run()          # until recorder.stop(), from another thread or a signal's handler
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import msgspec

from eventstore.types import RECORDED, EventStoreError, Lease, NewEvent, StreamId
from vcledger.at import format_time
from vcledger.errors import VcledgerError
from vcledger.ledger import Ledger
from vcledger.record import resume, upkeep
from vcledger.record.backlog import BYTES_MAX, Backlog
from vcledger.record.feed import Feed, Item, Origin, size_of
from vcledger.record.meters import Meters
from vcledger.record.scope import Scope
from vcledger.record.telling import Telling
from vcledger.record.worker import IDLE_SECONDS, Worker
from vcledger.record.writer import Writer
from vcledger.roles import RECORDER, Role, this_process
from vcledger.runtime.clock import Clock
from vcledger.runtime.port import ApiPort
from vcledger.runtime.running import Running
from vcledger.sources.listwatch import DELAY_ABSENT
from vcledger.sources.observe import Observer, hash_key
from vcledger.sources.redact import StorageOptions
from vcledger.sources.shape import json_text, keyed
from vcledger.sources.snapshots import location
from volcano.events.base import Subject
from volcano.events.observation import Marker

JOIN_SECONDS = 12.0
"""How long threads have to end; one that waits for an answer of the server is left behind."""

AHEAD_MICROS = 60_000_000


class Options(msgspec.Struct, frozen=True):
    """scopes: what to record. seed: of the jitter. page: items of a list's page. idle_seconds: of silence, after which
    a watch is taken for hung. absent_seconds: before a kind is looked for again that is not installed. storage: what to
    keep of objects. snapshots: make those of the cache that fall due. retain_seconds, bytes_max: drop what is older,
    or too much. backlog_bytes: what may wait to be stored. take_over: take the role from a recorder that has it."""

    scopes: list[Scope]
    seed: int = 0
    page: int = 500
    idle_seconds: float = IDLE_SECONDS
    absent_seconds: float = DELAY_ABSENT / 1_000_000
    storage: StorageOptions = StorageOptions()
    snapshots: bool = True
    retain_seconds: int | None = None
    bytes_max: int | None = None
    backlog_bytes: int = BYTES_MAX
    take_over: bool = False
    server: str = ""
    version: str = ""


class Outcome(NamedTuple):
    """How a run ended: its last durable position, the new events that it stored, those seen that could not be stored,
    and what went wrong ('' when nothing did)."""

    position: int
    stored: int
    lost: int
    problem: str


class Standing(NamedTuple):
    """How a run stands: kinds (scopes) that are watched, of how many; whether all that are installed have been listed;
    items and bytes that wait to be stored; events stored a second; the ledger's trouble, and those of scopes."""

    watching: int
    scopes: int
    listed: int
    waiting: int
    waiting_bytes: int
    stored: int
    rate: float
    position: int
    ledger_bytes: int
    problem: str
    problems: dict[str, str]


class Recorder(Running):
    """One run into the ledger `db` (a path or URL, made if need be). `told` gets a line for people for each thing that
    has become durable and that they may want to know, and for each trouble."""

    def __init__(
        self,
        db: str | None,
        cluster: str,
        port: ApiPort,
        options: Options,
        *,
        told: Callable[[str], None] = lambda line: None,
        clock: Clock | None = None,
    ) -> None:
        if not options.scopes:
            raise VcledgerError("there is nothing to record: name at least one kind")
        if not cluster or not cluster.isprintable() or len(cluster) > 253:
            raise VcledgerError(f"{cluster[:80]!r} is no name for a cluster: 1 to 253 characters that can be printed")
        super().__init__(clock)
        self.db, self.cluster, self.port, self.options, self.told = db, cluster, port, options, told
        self.meters = Meters()
        self.backlog: Backlog[Item] = Backlog(size_of, options.backlog_bytes)
        self.feeds: list[Feed] = []
        self._workers: list[Worker[Item]] = []
        self._writer: Writer | None = None

    # --- from outside ---------------------------------------------------------------------------------------------

    def standing(self) -> Standing:
        """How it stands now."""
        writer, meters = self._writer, self.meters
        return Standing(
            watching=sum(feed.watching for feed in self.feeds),
            scopes=len(self.feeds),
            listed=sum(feed.listed for feed in self.feeds),
            waiting=self.backlog.items,
            waiting_bytes=self.backlog.bytes,
            stored=meters.count("stored"),
            rate=meters.rate(self.now()),
            position=int(meters.gauge("position")),
            ledger_bytes=int(meters.gauge("ledger_bytes")),
            problem=writer.problem if writer is not None else "",
            problems={feed.scope.title: feed.problem for feed in self.feeds if feed.problem},
        )

    # --- the run --------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Records until it is stopped. AlreadyRecorded when another recorder of the cluster writes into the ledger; the
        log's own errors when the ledger cannot be opened."""
        with Ledger.open(self.db, create=True) as ledger:
            take_over = self.options.take_over
            with Role.wait_for(
                ledger.store, self.cluster, RECORDER, self._stop, self.told, take_over=take_over
            ) as role:
                return self._run(ledger, role)

    def _run(self, ledger: Ledger, role: Role) -> Outcome:
        store, db, lease = ledger.store, location(ledger), role.lease
        telling = Telling(self.told)
        begins = resume.begins(store, self.cluster, self.options.scopes)
        others = store.clusters()
        if others and self.cluster not in others:
            self.told(f"cluster {self.cluster} is new in this ledger, which has {', '.join(others)}")
        self._warn_of_clock(store.high_water(self.cluster) if self.cluster in store.clusters() else None)
        origin = self._started(ledger, lease)
        self.feeds = [self._feed(scope, origin, begins[scope]) for scope in self.options.scopes]
        writer = self._writer = Writer(
            store,
            self.cluster,
            self.backlog,
            self.meters,
            self._stop,
            lease=lease,
            told=telling.durable,
            trouble=telling.trouble,
            clock=self.now,
        )
        self._workers = [self._worker(feed) for feed in self.feeds]
        threads = [self._thread(worker.run, worker.feed.scope.title) for worker in self._workers]
        appending = self._thread(lambda: self._append(writer), "append")
        keeping = [self._thread(lambda: role.keep_until(db, self._stop, self._fail), "lease")]
        keeping.append(self._thread(self._upkeep(db).run, "upkeep"))
        while not self._stop.wait(3600):
            pass
        return self._end(ledger, lease, writer, threads, appending, keeping)

    def _end(
        self,
        ledger: Ledger,
        lease: Lease,
        writer: Writer,
        threads: list[threading.Thread],
        appending: threading.Thread,
        keeping: list[threading.Thread],
    ) -> Outcome:
        """No new lines; then what was seen is stored; then the last word."""
        for worker in self._workers:
            worker.close()
        until = time.monotonic() + JOIN_SECONDS / 4
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        self.backlog.close()
        appending.join()
        crashed = next((worker.crashed for worker in self._workers if worker.crashed), "")
        problem = self._problem or crashed
        if not problem:
            why = {"why": self._why, "stored": self.meters.count("stored")}
            self._mark(ledger, lease, resume.ENDS, Marker(name=resume.STOPPED, detail=json_text(why)))
        for thread in keeping:
            thread.join(JOIN_SECONDS)
        return Outcome(ledger.store.head(), self.meters.count("stored"), writer.lost, problem)

    def _append(self, writer: Writer) -> None:
        try:
            writer.run()
        except EventStoreError as error:
            self._fail(str(error))
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")
            raise
        finally:
            self.backlog.close()

    # --- its parts ------------------------------------------------------------------------------------------------

    def _started(self, ledger: Ledger, lease: Lease) -> Origin:
        """The event that the run began, to which all that it says of kinds goes back."""
        now, options = self.now(), self.options
        run = f"{hash_key(str(options.seed), str(now), this_process()):x}"
        scoped = [resume.Scoped(*scope) for scope in options.scopes]
        about = resume.Run(run, options.seed, options.server, options.version, scoped)
        marker = Marker(name=resume.STARTED, detail=json_text(about))
        return Origin(self.cluster, run, self._mark(ledger, lease, resume.RUNS, marker))

    def _mark(self, ledger: Ledger, lease: Lease, subject: Subject, marker: Marker) -> int:
        now = self.now()
        key = hash_key(marker.detail, marker.name, str(now))
        event: NewEvent = keyed(StreamId(self.cluster, *subject), marker, now, key, RECORDED)
        return ledger.store.append([event], lift=True, lease=lease).positions[0]

    def _feed(self, scope: Scope, origin: Origin, begin: resume.Begin) -> Feed:
        return Feed(
            scope,
            origin,
            Observer(self.cluster, self.options.storage),
            known=begin.known,
            since=begin.since,
            resume=begin.resume,
            page=self.options.page,
            absent=int(self.options.absent_seconds * 1_000_000),
        )

    def _worker(self, feed: Feed) -> Worker[Item]:
        return Worker(
            feed,
            self.port,
            self.backlog,
            self.meters,
            self._stop,
            clock=self.now,
            chance=Random(f"{self.options.seed}/{feed.scope.title}"),
            idle_seconds=self.options.idle_seconds,
        )

    def _upkeep(self, db: str) -> upkeep.Upkeep:
        options = self.options
        return upkeep.Upkeep(
            db,
            self.cluster,
            self.meters,
            self._stop,
            snapshots=options.snapshots,
            retain_seconds=options.retain_seconds,
            bytes_max=options.bytes_max,
            clock=self.now,
            told=self.told,
        )

    def _warn_of_clock(self, mark: int | None) -> None:
        now = self.now()
        if mark is not None and mark > now + AHEAD_MICROS:
            self.told(
                f"the ledger's last moment is {format_time(mark)}, and this machine's clock says {format_time(now)}: "
                "what is recorded until then is dated at that moment"
            )
