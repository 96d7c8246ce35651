"""What the cache holds: nodes, jobs, tasks, pods, queues and the stores of the other informers.

Owns the data and nothing that changes it. Must not know the log nor the rules of the fold. Called by every module of
`projections.cache`, and by `vcledger`.

Names are Volcano's (NodeInfo, JobInfo, TaskInfo of pkg/scheduler/api). Keys are 'namespace/name' for what is
namespaced, else the name; tasks of a job are keyed by pod UID, tasks of a node by 'namespace/name'.
"""

from __future__ import annotations

from collections.abc import Collection, ItemsView, Iterator, ValuesView
from typing import Any, NamedTuple, TypeAlias

import msgspec

from projections.cache.models import DEFAULT_MODEL, Model, model_named
from volcano.objects import kinds
from volcano.objects.core import Node, PersistentVolume, PersistentVolumeClaim, ResourceQuota
from volcano.objects.resource import Resource
from volcano.objects.scheduling import (
    CSINode,
    CSIStorageCapacity,
    Numatopology,
    PodGroup,
    PriorityClass,
    Queue,
    StorageClass,
)
from volcano.objects.status import READY_STATUSES, task_status

HAS_AFFINITY, HAS_ANTI_AFFINITY, HAS_HOST_PORTS, HAS_SPREAD = 1, 2, 4, 8
"""PodRef.flags: what makes a reader load the whole pod by its position."""

READY, NOT_READY = "Ready", "NotReady"


class CacheConfig(msgspec.Struct, frozen=True):
    """The scheduler's options that the cache reads. `node_selectors` are 'label:value'; `ignored_provisioners`' claims
    are not counted (Volcano always ignores the two that stand here)."""

    scheduler_names: tuple[str, ...] = ("volcano",)
    default_queue: str = "default"
    node_selectors: tuple[str, ...] = ()
    ignored_provisioners: tuple[str, ...] = ("rancher.io/local-path", "hostpath.csi.k8s.io")


class Unread(msgspec.Struct, gc=False, eq=False):
    """An object as a snapshot has it: read when it is first looked at, once for all who hold it. Most states are asked
    about few of their objects."""

    kind: str
    data: bytes
    known: Any = None

    def read(self) -> Any:
        """The object."""
        if self.known is None:
            self.known = kinds.decode(self.kind, self.data)
        return self.known


class Store(dict[str, Any]):
    """Objects of one kind by key, of which some may still be unread; nobody who looks into it sees that. (What goes
    around a dict's methods, such as a copy into another, would.)"""

    def __getitem__(self, key: str) -> Any:
        found = super().__getitem__(key)
        return found.read() if type(found) is Unread else found

    def get(self, key: str, default: Any = None) -> Any:
        found = super().get(key, default)
        return found.read() if type(found) is Unread else found

    def pop(self, key: str, *default: Any) -> Any:
        found = super().pop(key, *default)
        return found.read() if type(found) is Unread else found

    def raw(self, key: str) -> Any:
        """The object, Unread where it still is."""
        return super().get(key)

    def read_all(self) -> None:
        """Leaves nothing unread."""
        for key, found in super().items():
            if type(found) is Unread:
                self[key] = found.read()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        self.read_all()
        return super().values()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        self.read_all()
        return super().items()


class PodRef(msgspec.Struct, gc=False):
    """A live pod as the informer's store holds it, with only what the fold needs of it later; the whole object is in
    the log at `position`.

    job        'namespace/group' of its group annotation, or ''
    request    what its containers ask for, volumes apart
    claims     names of the claims that its volumes use; one made for the pod itself begins with '=' (see `volumes`)
    version    resourceVersion as a number under a model that looks at it, else 0
    """

    namespace: str
    name: str
    uid: str
    node_name: str
    phase: str
    scheduler_name: str
    job: str
    deleting: bool
    gated: bool
    flags: int
    request: Resource
    claims: tuple[str, ...]
    version: int
    position: int


class TaskInfo(msgspec.Struct, gc=False):
    """A task: a pod as a job or a node holds it. A node keeps a copy of its own, whose status changes apart (109).
    `resreq` is shared between tasks that ask for the same and is never changed in place."""

    uid: str
    job: str
    namespace: str
    name: str
    role: str
    status: int
    node_name: str
    priority: int
    preemptable: bool
    best_effort: bool
    restartable_init: bool
    gated: bool
    revocable_zone: str
    resreq: Resource

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def clone(self) -> TaskInfo:
        """A copy that shares the request, which nobody changes in place."""
        return msgspec.structs.replace(self)


Profile: TypeAlias = tuple[str, int, bool, bool, bool, str, Resource]
"""Role, priority, preemptable, best effort, restartable init, revocable zone, request: what many tasks share."""

Following: TypeAlias = tuple[PodRef, Profile]
"""A pod whose task follows from its entry; the task is made when somebody looks at its job's or node's tasks."""


def following_task(following: Following) -> TaskInfo:
    """The task that follows from a pod's entry."""
    ref, (role, priority, preemptable, best_effort, restartable, zone, request) = following
    return TaskInfo(
        ref.uid,
        ref.job,
        ref.namespace,
        ref.name,
        role,
        task_status(ref.phase, ref.deleting, ref.node_name),
        ref.node_name,
        priority,
        preemptable,
        best_effort,
        restartable,
        ref.gated,
        zone,
        request,
    )


class NodeInfo(msgspec.Struct, gc=False):
    """A node with its accounting. `node` None: a placeholder made by a pod (fact 11). `csi` are the attach limits that
    its CSINode gave when the node was last set. `position` is that of the node's last observation, 0 before one.
    Sums: idle + used = allocatable; future idle = idle + releasing - pipelined.

    `held` and `made` are `node` and `tasks` as far as somebody has looked at them, `following` the rest of `tasks`."""

    name: str
    held: Node | Unread | None = None
    position: int = 0
    phase: str = NOT_READY
    reason: str = "UnInitialized"
    allocatable: Resource = msgspec.field(default_factory=Resource)
    capacity: Resource = msgspec.field(default_factory=Resource)
    idle: Resource = msgspec.field(default_factory=Resource)
    used: Resource = msgspec.field(default_factory=Resource)
    releasing: Resource = msgspec.field(default_factory=Resource)
    pipelined: Resource = msgspec.field(default_factory=Resource)
    made: dict[str, TaskInfo] = msgspec.field(default_factory=dict)
    csi: dict[str, int] = msgspec.field(default_factory=dict)
    images: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    revocable_zone: str = ""
    oversubscription: bool = False
    offline_job_evicting: bool = False
    oversubscription_cpu: float = 0.0
    oversubscription_memory: float = 0.0
    following: list[Following] | None = None

    @property
    def node(self) -> Node | None:
        held = self.held
        return held.read() if type(held) is Unread else held  # type: ignore[return-value]

    @node.setter
    def node(self, node: Node | None) -> None:
        self.held = node

    @property
    def tasks(self) -> dict[str, TaskInfo]:
        if self.following is not None:
            following, self.following = self.following, None
            made = self.made
            for one in following:
                ref = one[0]
                made[f"{ref.namespace}/{ref.name}"] = following_task(one)
        return self.made

    @property
    def task_count(self) -> int:
        """The number of its tasks."""
        return len(self.made) + len(self.following or ())

    @property
    def ready(self) -> bool:
        return self.phase == READY

    def future_idle(self) -> Resource:
        """What will be free once the releasing tasks are gone and the pipelined ones are placed."""
        resource = self.idle.clone()
        resource.add(self.releasing)
        resource.subtract_unchecked(self.pipelined)
        return resource


class JobInfo(msgspec.Struct, gc=False):
    """A job: a PodGroup with its tasks, or tasks alone (then no queue and min 0, fact 19). `position` is that of the
    PodGroup's last observation.

    `held`, `made` and `made_by_status` are `pod_group`, `tasks` and `tasks_by_status` as far as somebody has looked at
    them, `following` the rest of the tasks."""

    uid: str
    name: str = ""
    namespace: str = ""
    pg_uid: str = ""
    held: PodGroup | Unread | None = None
    position: int = 0
    queue: str = ""
    priority: int = 0
    min_available: int = 0
    task_min_available: dict[str, int] = msgspec.field(default_factory=dict)
    task_min_available_total: int = 0
    made: dict[str, TaskInfo] = msgspec.field(default_factory=dict)
    made_by_status: dict[int, dict[str, TaskInfo]] = msgspec.field(default_factory=dict)
    allocated: Resource = msgspec.field(default_factory=Resource)
    total_request: Resource = msgspec.field(default_factory=Resource)
    preemptable: bool = False
    revocable_zone: str = ""
    budget_min_available: str = ""
    budget_max_unavailable: str = ""
    waiting_time_seconds: float | None = None
    job_fit_errors: str = ""
    nodes_fit_errors: dict[str, str] = msgspec.field(default_factory=dict)
    following: list[Following] | None = None

    @property
    def pod_group(self) -> PodGroup | None:
        held = self.held
        return held.read() if type(held) is Unread else held  # type: ignore[return-value]

    @pod_group.setter
    def pod_group(self, group: PodGroup | None) -> None:
        self.held = group

    @property
    def tasks(self) -> dict[str, TaskInfo]:
        if self.following is not None:
            self._make()
        return self.made

    @property
    def tasks_by_status(self) -> dict[int, dict[str, TaskInfo]]:
        if self.following is not None:
            self._make()
        return self.made_by_status

    def _make(self) -> None:
        following, self.following = self.following, None
        made, by_status = self.made, self.made_by_status
        for task in map(following_task, following or ()):
            uid, status = task.uid, task.status
            made[uid] = task
            index = by_status.get(status)
            if index is None:
                by_status[status] = {uid: task}
            else:
                index[uid] = task

    def requests_of(self, status: int) -> Iterator[Resource]:
        """What the tasks of a status ask for."""
        for task in self.made_by_status.get(status, {}).values():
            yield task.resreq
        for ref, like in self.following or ():
            if task_status(ref.phase, ref.deleting, ref.node_name) == status:
                yield like[6]

    def count_of(self, statuses: Collection[int]) -> int:
        """The number of its tasks that have one of some statuses."""
        made = sum(len(index) for status, index in self.made_by_status.items() if status in statuses)
        return made + sum(
            task_status(ref.phase, ref.deleting, ref.node_name) in statuses for ref, _ in self.following or ()
        )

    @property
    def ready_task_num(self) -> int:
        """Tasks that are bound, on their way, or have succeeded."""
        index = self.tasks_by_status
        return sum(len(index[status]) for status in READY_STATUSES if status in index)

    @property
    def terminated(self) -> bool:
        """No PodGroup and no tasks: it may be cleaned up (fact 18)."""
        return self.held is None and not self.tasks


class ImageState(msgspec.Struct, gc=False):
    """An image and the nodes that have it, in the order in which they said so."""

    size: int
    nodes: dict[str, None]


class Touched:
    """What changed since the last snapshot: keys, in the order of the first change. Not part of the state.

    `pods` keeps the store's entry as the last snapshot had it, None for a pod that it had not; `nodes` says whether
    more than the sums changed; `rest` whether any of the small things did (retry queues, node_list, defaults)."""

    __slots__ = ("job_tasks", "jobs", "node_tasks", "nodes", "objects", "pods", "rest")

    def __init__(self) -> None:
        self.pods: dict[str, PodRef | None] = {}
        self.jobs: dict[str, None] = {}
        self.nodes: dict[str, bool] = {}
        self.job_tasks: dict[tuple[str, str], None] = {}
        self.node_tasks: dict[tuple[str, str], None] = {}
        self.objects: dict[tuple[str, str], None] = {}
        self.rest = False


class Retry(NamedTuple):
    """A request in one of the real cache's rate-limited queues: when it is tried next, in microseconds of observed
    time, and how often it has been put off."""

    due: int
    attempts: int


NEVER = 2**63


class Cache:
    """The state of the fold for one cluster under one model.

    `positions` says at which log position each object but a pod was last observed, by (kind, key); a pod's is in its
    PodRef. `panics` are positions at which the real cache would have panicked (015), `refused` those of observations
    that were refused, with the reason. `next_due` is the earliest time at which a clean-up or resync is due.
    `touched` is kept whole once `tracked`, from the first snapshot on; before that it is cleared now and then.
    `claim_users` (claim to pods) and `claims_by_volume` are indexes that follow from the stores.
    """

    def __init__(self, model: str | Model = DEFAULT_MODEL, config: CacheConfig | None = None) -> None:
        self.policy: Model = model if isinstance(model, Model) else model_named(model)
        self.config = config or CacheConfig()
        self.position = 0
        self.now = 0
        self.pods: dict[str, PodRef] = {}
        self.jobs: dict[str, JobInfo] = {}
        self.nodes: dict[str, NodeInfo] = {}
        self.node_list: list[str] = []
        self.node_objects: dict[str, Node] = Store()
        self.images: dict[str, ImageState] = {}
        self.queues: dict[str, Queue] = {}
        self.priority_classes: dict[str, PriorityClass] = {}
        self.default_priority_class = ""
        self.default_priority = 0
        self.quotas: dict[str, ResourceQuota] = {}
        self.namespaces: dict[str, None] = {}
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.storage_classes: dict[str, StorageClass] = {}
        self.storage_capacities: dict[str, CSIStorageCapacity] = {}
        self.csi_nodes: dict[str, CSINode] = Store()
        self.numatopologies: dict[str, Numatopology] = Store()
        self.positions: dict[tuple[str, str], int] = {}
        self.pending_cleanup: dict[str, Retry] = {}
        self.pending_resync: dict[str, Retry] = {}
        self.pending_node_sync: dict[str, Retry] = {}
        self.next_due = NEVER
        self.bind_flow: list[Any] = []
        self.panics: list[int] = []
        self.refused: dict[int, str] = {}
        self.synced = True
        self.claim_users: dict[str, dict[str, None]] = {}
        self.claims_by_volume: dict[str, dict[str, None]] = {}
        self.touched = Touched()
        self.tracked = False
        self.requests: dict[Any, Resource] = {}

    @property
    def model(self) -> str:
        return self.policy.name

    def position_of(self, kind: str, key: str) -> int:
        """The position of an object's last observation, 0 when there is none."""
        if kind == "Pod":
            ref = self.pods.get(key)
            return ref.position if ref else 0
        return self.positions.get((kind, key), 0)


__all__ = [
    "HAS_AFFINITY",
    "HAS_ANTI_AFFINITY",
    "HAS_HOST_PORTS",
    "HAS_SPREAD",
    "NEVER",
    "NOT_READY",
    "READY",
    "Cache",
    "CacheConfig",
    "Following",
    "ImageState",
    "JobInfo",
    "NodeInfo",
    "PodRef",
    "Profile",
    "Retry",
    "Store",
    "TaskInfo",
    "Touched",
    "Unread",
    "following_task",
]
