"""All that the scheduler of one cluster holds: cache, tasks on their way, assumptions, queues, what is in flight.

Owns the data. Must not know how it changes (`vcledger.scheduler.fold`) nor what is decided on it. Held by the loop,
read by the deciders, the runner of scenarios, the invariants.

The cache follows the model `exact`, but for one policy: a job without PodGroup and tasks stays until its clean-up
request has been handed out, as in the seed.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import msgspec

from projections.cache import Cache, CacheConfig, digest
from projections.cache.models import EXACT
from projections.diagnosis.views import NodeView, PlacedPod
from vcledger.scheduler.assumed import AssumeCache
from vcledger.scheduler.eviction_steps import EvictPhase
from vcledger.scheduler.inputs import Noticed
from vcledger.scheduler.queues import BASE_MICROSECONDS, WorkQueue
from vcledger.scheduler.session.conf import SessionConf, plain_conf
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.transitions import Phase
from vcledger.scheduler.written import Making, Written
from volcano.events.volume import Provision, SharedClaim, StaticBinding, VolumeWait
from volcano.objects.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from volcano.objects.resource import Resource

SECOND = 1_000_000

FLOW_MODEL = EXACT._replace(defers_cleanup=True)


class FlowConfig(msgspec.Struct, frozen=True):
    """The scheduler's options. `lists`: the kinds whose first list must be complete before anything is decided.
    `settle_seconds`: how long a request whose answer was lost may still arrive at the API server. `posts_max`: how
    often one binding is sent at most. `session`: Volcano's configuration, by which a whole session runs in each cycle;
    a plain one, without queues' shares, unless another is given. `seed` decides between
    equals in a session. `statuses`: what a session says of PodGroups and queues is written to the API server, as is the
    node named for a pod. `alone`: no other scheduler writes to them, so that queues and PodGroups without pods are this
    one's affair, too. `makes_queues`: those that each cluster has are made when the scheduler starts."""

    cache: CacheConfig = CacheConfig()
    scheduler_name: str = "volcano"
    lists: tuple[str, ...] = ()
    batch_num: int = 100
    flush_microseconds: int = 20_000
    check_microseconds: int = SECOND
    bind_timeout_seconds: float = 600.0
    cleanup_delay_seconds: float = 5.0
    resync_base_microseconds: int = BASE_MICROSECONDS
    settle_seconds: float = 60.0
    posts_max: int = 2
    session: SessionConf = msgspec.field(default_factory=plain_conf)
    seed: int = 0
    statuses: bool = False
    alone: bool = True
    makes_queues: bool = False


class FlowTask(msgspec.Struct, gc=False):
    """A task that the flow has to do with. `cause` is the position of the last event of its chain.

    attempt     number of this attempt to bind it, from 1; `posts` the bindings sent in it, the last at `post_at`
    bindings    claims for volumes that there are, `provisions` claims for which one is to be made, in the order in
                which they are written; `written` counts those that the API server has taken
    shared      claims that another task's binding is to bind: waited for, never written nor reverted
    volumes_ready  the volumes are bound: not to be done again
    waits       what the last check of the volumes waited for; waiting since `since`, checked `checks` times
    bound_to    the node on which a watch has shown the pod, '' while none has
    reason      why the last step failed
    intent      position of its last BindRequested
    """

    uid: str
    namespace: str
    name: str
    job: str
    node: str
    phase: Phase
    attempt: int = 0
    began: int = 0
    cause: int = 0
    posts: int = 0
    post_at: int = 0
    bindings: tuple[StaticBinding, ...] = ()
    provisions: tuple[Provision, ...] = ()
    shared: tuple[SharedClaim, ...] = ()
    written: int = 0
    volumes_ready: bool = False
    since: int = 0
    checks: int = 0
    waits: tuple[VolumeWait, ...] = ()
    bound_to: str = ""
    reason: str = ""
    intent: int = 0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def has_volume_work(self) -> bool:
        """Something was assumed, or is waited for, that is not bound yet."""
        return bool(self.bindings or self.provisions or self.shared) and not self.volumes_ready


class Eviction(msgspec.Struct, gc=False):
    """A task that was told to go, from the decision at position `decided` until its pod is seen going.

    posts       the requests sent for it, the last at `post_at` with the intent at position `intent`
    marked      what its conditions say by our hand, '' while they do not
    preemptor   the task (UID) that it makes room for
    cause       the position of the last event of its chain
    """

    uid: str
    namespace: str
    name: str
    job: str
    node: str
    phase: EvictPhase
    decided: int
    action: str = ""
    cause: int = 0
    posts: int = 0
    post_at: int = 0
    intent: int = 0
    marked: str = ""
    preemptor: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Refusal(NamedTuple):
    """Evictions of a pod that failed: so many times in a row, when it may be chosen again (microseconds), and what its
    conditions say since."""

    times: int
    until: int
    marked: str = ""


class Intent(NamedTuple):
    """A request that is out, by the position of its event. `kind` is bind, pv, pvc, resync, ask, condition, handler,
    mark (the conditions of a pod that is to go), evict, group, queue or make (of a queue); `key` the object, or for
    `ask` the position of the intent that is asked about."""

    kind: str
    uid: str
    key: str
    cause: int = 0


class Doubt(NamedTuple):
    """An update whose outcome is not known: its intent, and the PVUpdateFailed that said so (0: a restart did)."""

    intent: int
    event_type: str
    uid: str
    key: str


class HeldView(NamedTuple):
    """A node's view, and what it was made from. Its sums are changed in place, so their amounts are kept."""

    view: NodeView
    node: Node | None
    allocatable: Resource
    cpu: float
    memory: float
    scalars: dict[str, float] | None
    pods: int


class Condition(NamedTuple):
    """A PodScheduled condition that we wrote. `version`: the pod's with it, '' while the answer is out or when the
    server would not have it; `node`: the node that was named with it, '' for none. `failures`: refusals in a row;
    `code`: that of the last one, 0 for no answer, None when it was not refused; nothing is sent before `until`
    (microseconds)."""

    reason: str
    message: str
    version: str = ""
    node: str = ""
    failures: int = 0
    until: int = 0
    code: int | None = None


class Handler(msgspec.Struct):
    """A task's own handler of bind errors."""

    name: str
    succeeded: bool = False


class Recovery(msgspec.Struct):
    """A recovery that is going on: its RecoveryStarted, the intents still in doubt, verdicts so far."""

    started: int
    in_doubt: dict[int, None]
    verdicts: dict[str, int] = msgspec.field(default_factory=dict)


class Flow:
    """The state. Only `vcledger.scheduler.fold.evolve` changes it.

    versions    the highest resourceVersion seen of each kind
    conditions  the condition last written to a pod (by UID)
    cycle       the number of the last cycle that had news
    considered  what was last said of a job in a session; `promised` the node that a task (UID) was last promised there;
                `admitted` the PodGroup's UID with which a job was last taken into its queue
    evictions   tasks (by UID) that were told to go and have not been seen going
    refused     pods (UIDs) whose last eviction failed
    nominated   the node that evictions make room on for a task (UID)
    noted       pods on nodes, whole, that a choice of victims looks at: those of the cluster's own priority classes,
                and those that make way
    written     what was last written into the status of a PodGroup or queue (by kind and key)
    making      the queues (by name) that were asked for since the process began, or seen to be deleted
    others      pods of other schedulers, by the job of their group annotation; job_schedulers the scheduler that a
                Volcano Job (UID) names
    coming      pods on their way, as they will stand on their nodes
    guarded     the pods whose own anti-affinity concerns everybody
    unreadable  nodes whose newest object could not be read, and why
    views       what was last made of each node for the predicates, to be taken again; no part of the state
    mirror      the session's data of the cache, made with the first session and kept up; no part of the state either
    notices     what the fold saw that a decision has to follow. The loop takes them and decides within the same batch,
                so none is ever left over at a crash, and they are no part of the state
    """

    def __init__(self, config: FlowConfig | None = None) -> None:
        self.config = config or FlowConfig()
        self.cache = Cache(FLOW_MODEL, self.config.cache)
        self.position = 0
        self.now = 0
        self.listed: dict[str, None] = {}
        self.versions: dict[str, int] = {}
        self.pods: dict[str, Pod] = {}
        self.placed: dict[str, PlacedPod] = {}
        self.guarded: dict[str, None] = {}
        self.coming: dict[str, PlacedPod] = {}
        self.tasks: dict[str, FlowTask] = {}
        self.attempts: dict[str, int] = {}
        self.handlers: dict[str, Handler] = {}
        self.said: dict[str, str] = {}
        self.conditions: dict[str, Condition] = {}
        self.cycle = 0
        self.considered: dict[str, str] = {}
        self.promised: dict[str, str] = {}
        self.admitted: dict[str, str] = {}
        self.evictions: dict[str, Eviction] = {}
        self.refused: dict[str, Refusal] = {}
        self.nominated: dict[str, str] = {}
        self.noted: dict[str, Pod] = {}
        self.written: dict[str, Written] = {}
        self.making: dict[str, Making] = {}
        self.others: dict[str, dict[str, None]] = {}
        self.job_schedulers: dict[str, str] = {}
        self.volumes: AssumeCache[PersistentVolume] = AssumeCache(self.cache.volumes)
        self.claims: AssumeCache[PersistentVolumeClaim] = AssumeCache(self.cache.claims)
        self.watchers: dict[str, dict[str, None]] = {}
        self.bind_queue: dict[str, int] = {}
        self.batches = 0
        self.waiting: dict[str, int] = {}
        self.resync = WorkQueue()
        self.cleanup = WorkQueue()
        self.node_sync = WorkQueue()
        self.doubt_queue = WorkQueue()
        self.doubts: dict[str, Doubt] = {}
        self.podgroups: dict[str, str] = {}
        self.unreadable: dict[str, str] = {}
        self.intents: dict[int, Intent] = {}
        self.notices: list[Noticed] = []
        self.views: dict[str, HeldView] = {}
        self.mirror: Mirror | None = None
        self.recovery: Recovery | None = None

    @property
    def synced(self) -> bool:
        """Every list that is waited for is complete."""
        return all(kind in self.listed for kind in self.config.lists)

    def task(self, key: str) -> FlowTask | None:
        """The task of a pod by namespace/name."""
        ref = self.cache.pods.get(key)
        return self.tasks.get(ref.uid) if ref is not None else None

    def queue(self, name: str) -> list[str]:
        """The keys of a queue by Volcano's name for it: bindFlow and errTasks by pod, deletedJobs by
        namespace/name/UID, nodeQueue by node."""
        if name == "bindFlow":
            return [self.tasks[uid].key for uid in self.bind_queue]
        if name == "errTasks":
            return [key.rpartition("/")[0] for key in self.resync.items]
        return list({"deletedJobs": self.cleanup, "nodeQueue": self.node_sync}[name].items)

    @property
    def idle(self) -> bool:
        """No task is on its way, no queue holds anything, no request is out."""
        busy = self.bind_queue or self.waiting or self.intents or self.notices or self.doubts or self.evictions
        queues = (self.resync, self.cleanup, self.node_sync, self.doubt_queue)
        moving = any(task.phase not in (Phase.BOUND, Phase.ASSUMED) for task in self.tasks.values())
        return not (busy or moving or any(len(queue) for queue in queues))

    def next_due(self, now: int) -> int | None:
        """When the next timer runs out, after `now` or before it; None when none is set. Before the lists are complete
        only clean-ups and nodes are tended, and nothing else is due."""
        queues = (self.cleanup, self.node_sync, *((self.resync, self.doubt_queue) if self.synced else ()))
        dues = [due for queue in queues if (due := queue.next_due()) is not None]
        if not self.synced:
            return min(dues, default=None)
        if self.bind_queue:
            dues.append(self.flush_due())
        if self.waiting:
            period = self.config.check_microseconds
            dues.append(min(since + ((max(now, since) - since) // period + 1) * period
                            for since in self.waiting.values()))  # fmt: skip
        return min(dues, default=None)

    def flush_due(self) -> int:
        """When the tasks in the bind queue go out, full or not: at the next beat after the oldest came in."""
        period = self.config.flush_microseconds
        return (next(iter(self.bind_queue.values())) // period + 1) * period

    def digest(self) -> str:
        """SHA-256 in hex over everything that decides what the flow does next: equal states, equal digests."""
        hasher = hashlib.sha256(digest(self.cache).encode())
        for part in self._parts():
            hasher.update(msgspec.json.encode(part, order="sorted"))
            hasher.update(b"\n")
        return hasher.hexdigest()

    def _parts(self) -> list[Any]:
        tasks = [msgspec.structs.astuple(task) for _, task in sorted(self.tasks.items())]
        queues = [queue.rows() for queue in (self.resync, self.cleanup, self.node_sync, self.doubt_queue)]
        handlers = [[uid, handler.name, handler.succeeded] for uid, handler in sorted(self.handlers.items())]
        recovery = [self.recovery.started, list(self.recovery.in_doubt)] if self.recovery is not None else []
        small = [
            self.batches,
            list(self.bind_queue.items()),
            sorted(self.waiting.items()),
            sorted(self.attempts.items()),
        ]
        rest = [sorted(one.items()) for one in (self.intents, self.doubts, self.podgroups, self.unreadable)]
        said = [sorted(self.said.items()), sorted(self.listed), sorted(self.conditions.items())]
        said += [self.cycle, *(sorted(one.items()) for one in (self.considered, self.promised, self.admitted))]
        said += [sorted(one.items()) for one in (self.written, self.making, self.job_schedulers)]
        said += [sorted((job, sorted(pods)) for job, pods in self.others.items())]
        seen = [sorted(self.versions.items()), sorted((key, list(users)) for key, users in self.watchers.items())]
        assumed = [self.volumes.rows(), self.claims.rows()]
        pods = [sorted(self.pods), sorted(self.placed), sorted(self.guarded), sorted(self.coming), sorted(self.noted)]
        going = [msgspec.structs.astuple(one) for _, one in sorted(self.evictions.items())]
        refused = [going, sorted(self.refused.items()), sorted(self.nominated.items())]
        return [tasks, queues, handlers, recovery, small, rest, said, seen, assumed, pods, refused]


__all__ = [
    "FLOW_MODEL",
    "SECOND",
    "Condition",
    "Doubt",
    "Eviction",
    "Flow",
    "FlowConfig",
    "FlowTask",
    "Handler",
    "HeldView",
    "Intent",
    "Recovery",
    "Refusal",
]
