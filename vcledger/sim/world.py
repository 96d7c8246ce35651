"""One simulated world: the scheduler's loop, its feeds, the server with its controllers, and a plan of faults.

Owns the running of a plan: a safety phase in which users and faults are at work, then a liveness phase without faults,
in which everything has to come to rest. Must not know what the loop decides; what has to hold at the end is in
`vcledger.sim.rest`. Called by `vcledger.sim.simulate`, by the test kit and by the bench.

Nothing here looks at a clock or draws a number that is not the seed's, and the loop is stepped only by the timeline:
the same plan writes the same log, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, TypeAlias, cast

import msgspec

from eventstore import EventStore
from eventstore.types import LedgerUnwritable
from vcledger.runtime.loop import Loop
from vcledger.scheduler.inputs import Allocate, Answered, Effect, Input
from vcledger.scheduler.requests import Bind, Patch
from vcledger.scheduler.session.conf import default_conf, read_conf
from vcledger.scheduler.state import Flow, FlowConfig
from vcledger.sim import faults, going, rest
from vcledger.sim.actors import World
from vcledger.sim.clock import MILLISECOND, SECOND, START, Timeline
from vcledger.sim.faults import Fault
from vcledger.sim.feeds import Feed
from vcledger.sim.kubelet import Kubelet, Owner
from vcledger.sim.mvcc import Object
from vcledger.sim.plan import Doing, Plan
from vcledger.sim.port import FaultyPort
from vcledger.sim.server import SimulatedApi
from vcledger.sim.volumes import Provisioner, VolumeController
from vcledger.sources.lists import Known

CLUSTER = "simulated"

KINDS: tuple[str, ...] = (
    "Queue",
    "PodGroup",
    "StorageClass",
    "CSINode",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Node",
    "Pod",
)
"""What the scheduler lists and watches."""

DEFAULT_CONFIG = FlowConfig(
    lists=KINDS,
    bind_timeout_seconds=60.0,
    settle_seconds=10.0,
    session=default_conf(),
    statuses=True,
    makes_queues=True,
)
"""Volcano's own configuration, and all that `vcledger schedule` writes."""


def config_of(session: str, seed: int = 0) -> FlowConfig:
    """The scheduler's options in a world in which this configuration decides ('': the usual one). One that evicts looks
    at priorities too."""
    if not session:
        return DEFAULT_CONFIG
    conf = read_conf(session)
    evicts = "preempt" in conf.actions or "reclaim" in conf.actions
    lists = (*KINDS, "PriorityClass") if evicts else KINDS
    return msgspec.structs.replace(DEFAULT_CONFIG, session=conf, seed=seed, lists=lists)


LATENCY = (1, 30)
"""Least and most milliseconds of a request's way, and of its answer's."""

ALLOCATE_EVERY = SECOND
RESTART_AFTER = 2 * SECOND
BOOKMARKS_EVERY = 60 * SECOND
SNAPSHOT_EVERY = 150
"""Events between two snapshots of the loop: few, so that most processes that begin again go on from one."""


Session: TypeAlias = Callable[[Flow], Iterable[Input]]
"""What decides: the scheduler's state in, commands (`vcledger.scheduler.inputs`) out."""


class RefusingStore:
    """The log, which refuses to append while it is told to. All else goes through."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self.refusing = False

    def append(self, *args: Any, **extra: Any) -> Any:
        """LedgerUnwritable while refusing, with nothing stored."""
        if self.refusing:
            raise LedgerUnwritable("the disk is full")
        return self._store.append(*args, **extra)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Simulation:
    """A world that runs a plan on a log. `broken` collects what did not hold, `hits` the faults that met somebody.

    `watch` is called after each group of the loop, with this; what it returns is broken. `session` decides each second:
    it is given the scheduler's state and returns commands (None: a cycle under the configuration)."""

    def __init__(
        self,
        plan: Plan,
        store: EventStore,
        *,
        config: FlowConfig | None = None,
        watch: Callable[[Simulation], Sequence[str]] | None = None,
        session: Session | None = None,
    ) -> None:
        self.plan = plan
        self.store = RefusingStore(store)
        self.log = cast(EventStore, self.store)
        self.config = config or config_of(plan.session, plan.seed)
        self.chance = Random(plan.seed)
        self.timeline = Timeline()
        self.api = SimulatedApi(lambda: self.timeline.now)
        self.port = FaultyPort(self.api, self.chance)
        self.world = World(self.api, self.timeline, self.chance)
        self.volumes, self.provisioner = VolumeController(self.world), Provisioner(self.world)
        self.kubelet, self.owner = Kubelet(self.world), Owner(self.world)
        self.broken: list[str] = []
        self.hits: dict[str, int] = {}
        self.steps = self.crashes = 0
        self.misled = False
        self.loop: Loop | None = None
        self.feeds: dict[str, Feed] = {}
        self._watch, self._session = watch, session
        self._generation = 0
        self._outbox: list[Effect] = []
        self._dies_after_append = False
        self._woken: int | None = None
        self._lost_nodes: dict[str, Object] = {}

    # --- running --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """The safety phase."""
        for doing in self.plan.doings:
            self._at(START + doing.at, self._do, doing)
        for fault in self.plan.faults:
            self._at(START + fault.at, self.strike, fault)
        self.timeline.run_until(START)
        self.begin()
        self._every(ALLOCATE_EVERY, self._allocate)
        self._every(BOOKMARKS_EVERY, self.api.send_bookmarks)
        self.run_for(self.plan.safety)

    def run_for(self, duration: int) -> None:
        """Goes on for some microseconds, or until something is broken."""
        end = self.timeline.now + duration
        while not self.broken and (due := self.timeline.next) is not None and due <= end:
            self.timeline.run_next()
        if not self.broken:
            self.timeline.run_until(end)

    def heal(self) -> None:
        """No fault any more: what they had broken is whole again, and each kind is listed anew, as a list that had lied
        is found out only then."""
        self.port.armed.clear()
        self._dies_after_append = False
        self.store.refusing = False
        self.provisioner.stuck.clear()
        self.provisioner.failing.clear()
        self.volumes.undoing = self.volumes.stalled_until = 0
        for name in list(self._lost_nodes):
            self._node_back(name)
        if self.loop is None:
            self.begin()
        for feed in self.feeds.values():
            feed.held_until = feed.twice = feed.stale = feed.misses = feed.fails = 0
            feed.relist("the faults are over")

    def _at(self, time: int, act: Callable[[Any], None], what: Any) -> None:
        self.timeline.at(time, lambda: act(what))

    def _every(self, period: int, act: Callable[[], None]) -> None:
        def again() -> None:
            act()
            self.timeline.after(period, again)

        self.timeline.after(period, again)

    # --- the process ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A process starts on the log, which may have a past."""
        self._generation += 1
        self._outbox = []
        self._woken = None
        self.loop = Loop(
            self.log, CLUSTER, carry_out=self._outbox.append, config=self.config, snapshot_every=SNAPSHOT_EVERY
        )
        self.loop.recover(self.timeline.now)
        self.feeds = {kind: self._feed(kind) for kind in dict.fromkeys((*KINDS, *self.config.lists))}
        for feed in self.feeds.values():
            feed.start()
        self._wake(self.timeline.now)

    def crash(self) -> None:
        """The process dies: its state, its timers, the answers to it and what its watches had are gone."""
        if self.loop is None:
            return
        self.crashes += 1
        self.loop = None
        self._generation += 1
        self._outbox = []
        for feed in self.feeds.values():
            feed.stop()
        self.feeds = {}
        self.timeline.after(RESTART_AFTER, self._restart)

    def _restart(self) -> None:
        if self.loop is None:
            self.begin()

    def _feed(self, kind: str) -> Feed:
        """The kind's feed, which knows what the log has of it."""
        last: dict[str, tuple[Known, bytes]] = {}
        heads = self.store.live(CLUSTER, kind)
        for head, event in zip(heads, self.store.get([head.position for head in heads]), strict=True):
            stream = head.stream
            known = Known(stream.namespace, stream.name, stream.uid, head.resource_version, head.position)
            last[stream.uid] = (known, event.payload)
        return Feed(kind, self.api, self.timeline, self.chance, self.put, last)

    def put(self, given: Input) -> None:
        """An input for the loop, which takes all that wait at once."""
        if self.loop is not None:
            self.loop.put(given)
            self._wake(self.timeline.now)

    def _wake(self, due: int) -> None:
        """Steps the loop at a time, unless it will be sooner."""
        due = max(due, self.timeline.now)
        if self._woken is not None and self._woken <= due:
            return
        self._woken = due
        generation = self._generation

        def act() -> None:
            if self._generation == generation and self._woken == due:
                self._woken = None
                self._step()

        self.timeline.at(due, act)

    def _step(self) -> None:
        """One group of the loop; then its effects leave, and its next timer is set."""
        loop = self.loop
        if loop is None:
            return
        self.steps += 1
        begun = loop.flow.position
        loop.step(self.timeline.now)
        if loop.down is not None:
            if not self.store.refusing:
                self.broken.append(f"the log is there, and the loop is down: {loop.down}")
            if self._outbox:
                self.broken.append(f"{len(self._outbox)} effects left though the log had refused")
            self._wake(self.timeline.now + SECOND)
            return
        effects, self._outbox[:] = list(self._outbox), []
        self.broken += going.wrong(loop.flow, self.log, begun, effects)
        if self._watch is not None:
            self.broken += self._watch(self)
        if self._dies_after_append and effects:
            self._dies_after_append = False
            self._hit("crash-before-effects")
            self.crash()
            return
        for effect in effects:
            self._send(effect)
        if (due := loop.next_due()) is not None:
            self._wake(max(due, self.timeline.now + 1))

    def _send(self, effect: Effect) -> None:
        """A request leaves, arrives, is answered, and the answer comes back if the process still lives."""
        generation = self._generation

        def arrive() -> None:
            answer = self.port.do(effect.request)
            if isinstance(effect.request, Bind):
                self._not_oversold(effect.request)
            self.timeline.after(self.chance.randint(*LATENCY) * MILLISECOND, lambda: back(Answered(effect, answer)))

        def back(answered: Answered) -> None:
            if self._generation == generation:
                self.put(answered)

        self.timeline.after(self.chance.randint(*LATENCY) * MILLISECOND, arrive)

    def _not_oversold(self, request: Bind) -> None:
        """Our own binds never give a node more than it has; where another scheduler, or a list that lied, had a hand in
        it, nobody could know."""
        if not self.misled and not self.port.misled and request.node not in self.port.foreign.values():
            self.broken += rest.oversold(self.api, request.node)

    def _allocate(self) -> None:
        if self._session is None:
            self.put(Allocate())
        elif self.loop is not None and self.loop.down is None:
            for command in self._session(self.loop.flow):
                self.put(command)

    # --- users ----------------------------------------------------------------------------------------------------

    def _do(self, doing: Doing) -> None:
        """What a user does; what is gone or there already makes no difference to them."""
        key = f"{doing.namespace}/{doing.name}"
        there = self.api.object(doing.kind, doing.namespace, doing.name)
        if doing.do == "create" and there is None and doing.object is not None:
            self.api.create(doing.kind, doing.object)
        elif doing.do == "run" and doing.object is not None:
            self.owner.want(key, doing.object)
        elif doing.do == "label":
            patch = {"metadata": {"labels": {"touched": str(self.api.version)}}}
            self.api.do(Patch(doing.kind, doing.namespace, doing.name, msgspec.json.encode(patch)))
        elif doing.do == "remove":
            self.owner.wanted.pop(key, None)
            if there is not None:
                self.world.delete(doing.kind, there)

    # --- faults ---------------------------------------------------------------------------------------------------

    def _hit(self, fault: str) -> None:
        self.hits[fault] = self.hits.get(fault, 0) + 1

    def strike(self, fault: Fault) -> None:
        """A fault's time has come."""
        if fault.fault in faults.REQUEST_FAULTS:
            self.port.arm(fault)
        elif fault.fault in faults.WATCH_FAULTS:
            self._strike_feed(fault)
        elif fault.fault in faults.CONTROLLER_FAULTS:
            self._strike_controller(fault)
        elif fault.fault in faults.CLUSTER_FAULTS:
            self._strike_cluster(fault)
        else:
            self._strike_process(fault)

    def _strike_feed(self, fault: Fault) -> None:
        feed = self.feeds.get(fault.kind)
        if feed is None:
            return
        self._hit(fault.fault)
        match fault.fault:
            case "watch-dropped":
                self.api.drop_watches(fault.kind)
            case "watch-expired":
                self.api.compact()
                feed.held_until = max(feed.held_until, self.timeline.now + SECOND)
                self.api.drop_watches(fault.kind)
            case "watch-delayed":
                feed.held_until = max(feed.held_until, self.timeline.now + fault.seconds * SECOND)
                return
            case "watch-duplicated":
                feed.twice += 3
                return
            case "list-stale":
                self.misled = True
                feed.stale = 1 + fault.pick % 20
                feed.relist("a stale list")
            case "list-misses":
                self.misled = True
                feed.misses = 1 + fault.pick
                feed.relist("a list that lacks an object")
            case "list-fails":
                feed.fails = 1 + fault.pick % 3
                feed.relist("a list that fails")
        feed.poll_soon()

    def _strike_controller(self, fault: Fault) -> None:
        self._hit(fault.fault)
        until = self.timeline.now + fault.seconds * SECOND
        storage_class = ("wait", "now")[fault.pick % 2]
        match fault.fault:
            case "volumes-slow":
                self.volumes.stalled_until = max(self.volumes.stalled_until, until)
            case "volumes-undone":
                self.volumes.undoing += 1
            case "provisioner-fails":
                self.provisioner.failing[storage_class] = self.provisioner.failing.get(storage_class, 0) + 1
            case "provisioner-stuck":
                self.provisioner.stuck[storage_class] = until

    def _strike_cluster(self, fault: Fault) -> None:
        kind = "Node" if fault.fault == "node-deleted" else "Pod"
        objects = self.api.objects(kind)
        if not objects or (kind == "Node" and len(objects) == 1):
            return
        self._hit(fault.fault)
        item = objects[fault.pick % len(objects)]
        self.world.delete(kind, item)
        if kind == "Node":
            name = item["metadata"]["name"]
            meta = {"name": name, "labels": item["metadata"].get("labels") or {}}
            self._lost_nodes[name] = {**item, "metadata": meta}
            self._at(self.timeline.now + fault.seconds * SECOND, self._node_back, name)

    def _node_back(self, name: str) -> None:
        item = self._lost_nodes.pop(name, None)
        if item is not None and self.api.object("Node", "", name) is None:
            self.api.create("Node", item)

    def _strike_process(self, fault: Fault) -> None:
        match fault.fault:
            case "crash":
                if self.loop is not None:
                    self._hit(fault.fault)
                    self.crash()
            case "crash-before-effects":
                self._dies_after_append = True
            case "log-refuses":
                self._hit(fault.fault)
                self.store.refusing = True
                self._at(self.timeline.now + fault.seconds * SECOND, self._log_back, None)

    def _log_back(self, _: None) -> None:
        self.store.refusing = False
        if self.loop is not None:
            self._wake(self.timeline.now)
