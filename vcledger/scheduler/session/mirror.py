"""Session data kept up with a cache, event by event: only what an event touched is made anew.

Owns how nodes, jobs, tasks and queues of the cache become those of a session, and the sums of the queues. Must not know
plugins nor actions. Called by whoever runs cycles (the scheduler's loop, a replay), which calls `touch` after the fold
of each event and hands the mirror to `run`.

Left out, as in Volcano's Snapshot: jobs without a PodGroup or of an unknown queue, nodes that are not ready (facts 19
and 20). The order in which things came never shows: whoever chooses sorts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import numpy as np

from projections.cache.jobs import priority_of
from projections.cache.state import Cache, JobInfo, PodRef
from projections.diagnosis.views import PlacedPod
from vcledger.scheduler.session.feasible import Feasible
from vcledger.scheduler.session.model import (
    FIRST_NAMES,
    PENDING,
    Resources,
    SessionJob,
    SessionQueue,
    SessionTask,
    Vector,
)
from vcledger.scheduler.session.noderows import NodeRows
from vcledger.scheduler.session.placed import PlacedPods
from vcledger.scheduler.session.reader import Reader
from vcledger.scheduler.session.sums import QueueSums, part_of, queue_of, resource_of
from volcano.objects.core import PersistentVolume, PersistentVolumeClaim, Pod
from volcano.objects.meta import ObjectMeta
from volcano.objects.scheduling import PodGroup, Queue, QueueSpec, QueueStatus
from volcano.objects.status import TaskStatus

_BINDING = int(TaskStatus.BINDING)
_SHAPES_MAX = 20_000
_NODE_KINDS = frozenset({"Node", "CSINode", "Numatopology"})


class Mirror:
    """The session's data of one cache. `jobs` are those of a session, `waiting` those of them with a pending task,
    `unadmitted` those that have not been taken into their queue. `pod_of` gives the object of a pod of the cache;
    `claims` and `volumes` are those of the cache unless others are given, such as they are assumed to be (a change of
    those has to be told by `touch` too). `nominated` are the nodes that tasks (UIDs) are known to be named for, before
    their pods say so; `known` gives what is kept of a pod on a node, or on its way there, where `pod_of` has no object.

    `infers_assumed`: a pending pod for one of whose claims a volume is being made for a node (the claim's selected-node
    annotation) counts as Binding there, as the scheduler that asked for it has it, though no watch shows it. For caches
    that are folded from what was recorded of another scheduler; one that has its own assumptions knows better.

    `phase_of`: the phase of a job's (uid's) PodGroup, where something else is known than the object in the cache says;
    a change of that has to be told by `touch`, too. `follows`: jobs that change are kept for `take_changed`.
    `postponed`: what whoever follows them wants to look at again, by its own key, and when (microseconds).
    `default_queue`: the queue that is taken to be there before anybody has made it, as Volcano makes it when it
    starts."""

    def __init__(
        self,
        cache: Cache,
        pod_of: Callable[[PodRef], Pod | None],
        *,
        claims: Mapping[str, PersistentVolumeClaim] | None = None,
        volumes: Mapping[str, PersistentVolume] | None = None,
        nominated: Mapping[str, str] = MappingProxyType({}),
        known: Callable[[str], PlacedPod | None] = lambda key: None,
        infers_assumed: bool = False,
        phase_of: Callable[[str, PodGroup], str] = lambda uid, group: group.status.phase,
        follows: bool = False,
        default_queue: str = "",
    ) -> None:
        self.cache, self.pod_of, self.known = cache, pod_of, known
        self.claims = cache.claims if claims is None else claims
        self.volumes = cache.volumes if volumes is None else volumes
        self.nominated, self.infers_assumed = nominated, infers_assumed
        self.phase_of, self.follows, self.default_queue = phase_of, follows, default_queue
        self.postponed: dict[str, int] = {}
        self._changed: dict[str, None] = {}
        self._queues_changed = False
        self.exact = cache.policy.name == "exact"
        self.ignores_access_modes = not self.exact
        self._dirty_pods: dict[str, None] = {}
        self._dirty_jobs: dict[str, None] = {}
        self._dirty_nodes: dict[str, None] = {}
        self._dirty_queues: dict[str, None] = {}
        self._resyncs: dict[str, None] = {}
        self._everything = True
        self.by_images = False
        self._begin(Resources())

    def _begin(self, resources: Resources) -> None:
        self.resources = resources
        self._reader = Reader(self, resources)
        self._rows = NodeRows(self, resources, self._reader)
        self.nodes = self._rows.table
        self.groups: dict[str, SessionJob] = {}
        self.jobs: dict[str, SessionJob] = {}
        self.waiting: dict[str, SessionJob] = {}
        self.unadmitted: dict[str, SessionJob] = {}
        self.queues: dict[str, SessionQueue] = {}
        self.placed = PlacedPods(self.cache, self.pod_of, self.known)
        self.revision = 0
        self._tasks_of: dict[str, list[tuple[str, str]]] = {}
        self._nodes_of: dict[str, tuple[str, ...]] = {}
        self._of_queue: dict[str, dict[str, None]] = {}
        self._sums = QueueSums(resources.width, self.queues)
        self._fresh: dict[str, None] = {}
        self.feasible = Feasible(self)

    # --- what changed -------------------------------------------------------------------------------------------------

    def touch(self, kind: str, namespace: str, name: str) -> None:
        """An event about this object has been folded (or a decision about this pod)."""
        if kind == "Pod":
            self._dirty_pods[f"{namespace}/{name}"] = None
        elif kind == "PodGroup":
            self._dirty_jobs[f"{namespace}/{name}"] = None
        elif kind in _NODE_KINDS:
            self._dirty_nodes[name] = None
            self.revision += kind == "CSINode"
        elif kind == "Queue":
            self._dirty_queues[name] = None
        elif kind == "PriorityClass":
            self._dirty_jobs.update(dict.fromkeys(self.groups))
        else:
            self._touch_volumes(kind, f"{namespace}/{name}" if namespace else name)

    def _touch_volumes(self, kind: str, key: str) -> None:
        cache = self.cache
        claims: Iterable[str] = ()
        if kind == "PersistentVolumeClaim":
            claims = (key,)
        elif kind == "PersistentVolume":
            claims = cache.claims_by_volume.get(key, ())
        elif kind == "StorageClass":
            claims = cache.claim_users
        elif kind != "CSIStorageCapacity":
            return
        self.revision += 1
        for claim in claims:
            self._dirty_pods.update(cache.claim_users.get(claim, ()))

    @property
    def has_changed(self) -> bool:
        """Whether something has become of a job or queue since this was last taken."""
        return bool(self._changed) or self._queues_changed

    def take_changed(self) -> dict[str, None]:
        """The jobs of which something may have changed since the last call, for whoever follows them from session to
        session; of a mirror that is new, all."""
        taken, self._changed, self._queues_changed = self._changed, {}, False
        return taken

    def images_count(self) -> None:
        """Some node says which images it has: pods with others are not alike from then on."""
        if not self.by_images:
            self.by_images = self._everything = True

    def refresh(self) -> None:
        """Brings everything touched up to date."""
        self._dirty_pods.update(self._resyncs)
        if self._everything:
            self._build(Resources((*FIRST_NAMES, *self._names_of_nodes())))
        elif self._dirty_pods or self._dirty_jobs or self._dirty_nodes or self._dirty_queues:
            self._catch_up()
        while self._reader.missing or self._everything:
            names = sorted({*self.resources.names, *self._reader.missing} - set(FIRST_NAMES))
            self._build(Resources((*FIRST_NAMES, *names)))
        self._resyncs = self._to_be_read_again()

    def _names_of_nodes(self) -> list[str]:
        """The resources that nodes report: they need columns in any case, so that all is built once."""
        reported = (info.allocatable.scalars or {} for info in self.cache.nodes.values() if info.ready)
        return sorted({name for each in reported for name, amount in each.items() if amount} - set(FIRST_NAMES))

    def _to_be_read_again(self) -> dict[str, None]:
        """The pods whose resync is queued: it comes with time, beside any event about them. (Who is queued and done
        with between two refreshes was in an event.)"""
        found: dict[str, None] = {}
        for key in self.cache.pending_resync:
            uid, _, task_uid = key.rpartition("/")
            job = self.cache.jobs.get(uid)
            task = job.tasks.get(task_uid) if job is not None else None
            if task is not None:
                found[task.key] = None
        return found

    def _build(self, resources: Resources) -> None:
        cache = self.cache
        resources.closed = True
        self.by_images = self.by_images or any(info.images for info in cache.nodes.values())
        self._begin(resources)
        self._everything = False
        self._dirty_queues = dict.fromkeys([*cache.queues, *([self.default_queue] if self.default_queue else [])])
        self._dirty_jobs = dict.fromkeys(cache.jobs)
        self._dirty_pods = dict.fromkeys(cache.pods)
        self._dirty_nodes = dict.fromkeys(cache.nodes)
        self._catch_up()

    def _catch_up(self) -> None:
        pods, self._dirty_pods = self._dirty_pods, {}
        jobs, self._dirty_jobs = self._dirty_jobs, {}
        queues, self._dirty_queues = self._dirty_queues, {}
        for name in queues:
            self._queue(name)
            jobs.update(self._of_queue.get(name, {}))
        self._fresh.clear()
        for uid in jobs:
            self._job(uid)
        for key in pods:
            for uid in self._pod(key):
                jobs[uid] = None
        for uid in jobs:
            self._settle(uid)
        if self.follows:
            self._changed.update(jobs)
            self._queues_changed |= bool(queues)
        nodes, self._dirty_nodes = self._dirty_nodes, {}
        self._rows.set(nodes)
        if len(self._reader.shapes) > _SHAPES_MAX:
            self._reader.shapes.keep({id(task.like) for job in self.waiting.values() for task in job.pending()})
            self.feasible.forget()

    # --- pods and tasks -----------------------------------------------------------------------------------------------

    def _pod(self, key: str) -> list[str]:
        """Takes over what has become of a pod; the jobs concerned."""
        ref = self.cache.pods.get(key)
        pairs = self._tasks_of.pop(key, [])
        if ref is not None and ref.job and (ref.job, ref.uid) not in pairs:
            pairs = [*pairs, (ref.job, ref.uid)]
        left = [pair for pair in pairs if self._task(pair[0], pair[1], ref)]
        if left:
            self._tasks_of[key] = left
        places = [self.groups[uid].tasks[task].node for uid, task in left if uid in self.groups]
        if ref is not None:
            places.append(ref.node_name)
        now = tuple(dict.fromkeys(name for name in places if name))
        for name in (*self._nodes_of.pop(key, ()), *now):
            self._dirty_nodes[name] = None
        if now:
            self._nodes_of[key] = now
        self.placed.see(key, ref)
        return [uid for uid, _ in pairs]

    def _task(self, uid: str, task_uid: str, ref: PodRef | None) -> bool:
        """One task of a job as the cache has it now. False: it has it no longer."""
        info = self.cache.jobs.get(uid)
        task = info.tasks.get(task_uid) if info is not None else None
        job = self.groups.get(uid)
        if job is None or uid in self._fresh:
            return task is not None
        old = job.tasks.get(task_uid)
        if old is not None:
            self._drop(job, old)
        if task is None:
            return False
        self._take(job, self._reader.made(task, ref if ref is not None and ref.uid == task_uid else None))
        return True

    def pod(self, task: SessionTask) -> Pod | None:
        """The task's object; None when the cache has another pod of that name, or none."""
        return self._reader.pod(task)

    def kept(self, task: SessionTask) -> PlacedPod | None:
        """What is kept of a task's pod on a node, where its object is not."""
        return self._reader.kept(task)

    def read(self, task: SessionTask) -> None:
        """Fills in what of a task follows from the pod's object."""
        self._reader.read(task)

    def _take(self, job: SessionJob, task: SessionTask) -> None:
        job.add(task)
        if task.status == PENDING:
            job.asked = job.asked + task.request
        if task.node:
            self._rows.put(task, held=self.infers_assumed and self._is_assumed(task))

    def _is_assumed(self, task: SessionTask) -> bool:
        """Whether a task is on a node of which the cache does not know."""
        info = self.cache.jobs[task.job].tasks.get(task.uid) if task.status == _BINDING else None
        return info is not None and info.status == PENDING

    def _drop(self, job: SessionJob, task: SessionTask) -> None:
        job.remove(task)
        self._reader.forget(task)
        if task.status == PENDING:
            job.asked = job.asked - task.request
        if task.node:
            self._rows.drop(task)

    @property
    def guarded(self) -> Mapping[str, PlacedPod]:
        """The pods on nodes that have an anti-affinity of their own, by key."""
        return self.placed.guarded

    def all_placed(self) -> Mapping[str, PlacedPod]:
        """The pods on nodes, by key."""
        return self.placed.all()

    # --- jobs and queues ----------------------------------------------------------------------------------------------

    def _job(self, uid: str) -> None:
        """The job's own fields; all its tasks when it is new here."""
        info = self.cache.jobs.get(uid)
        group = info.pod_group if info is not None else None
        old = self.groups.get(uid)
        if info is None or group is None:
            if old is not None:
                self._forget(old)
            return
        job = old
        if job is None:
            zero = np.zeros(self.resources.width)
            job = SessionJob(uid, info.namespace, info.name, info.queue, group, allocated=zero, asked=zero)
            self.groups[uid] = job
            self._fresh[uid] = None
            for task in info.tasks.values():
                ref = self.cache.pods.get(task.key)
                self._take(job, self._reader.made(task, ref if ref is not None and ref.uid == task.uid else None))
                pairs = self._tasks_of.setdefault(task.key, [])
                if (uid, task.uid) not in pairs:
                    pairs.append((uid, task.uid))
        elif job.queue != info.queue:
            self._of_queue.get(job.queue, {}).pop(uid, None)
            self._sums.count(job, None)
        self._fields(job, info)

    def _fields(self, job: SessionJob, info: JobInfo) -> None:
        group = info.pod_group
        assert group is not None
        job.pod_group, job.namespace, job.name = group, info.namespace, info.name
        job.queue = info.queue
        job.priority = priority_of(self.cache, info)
        job.created = group.metadata.creation_timestamp or ""
        job.min_available = info.min_available
        job.task_min_available = dict(info.task_min_available)
        stated = group.spec.min_resources
        job.least = self._reader.shared(resource_of(tuple(stated.items()))) if stated else None
        job.preemptable = info.preemptable
        job.phase = job.phase_at_open = self.phase_of(job.uid, group)
        job.position = info.position
        self._of_queue.setdefault(job.queue, {})[job.uid] = None

    def _forget(self, job: SessionJob) -> None:
        for task in list(job.tasks.values()):
            self._drop(job, task)
        del self.groups[job.uid]
        self._of_queue.get(job.queue, {}).pop(job.uid, None)
        self._sums.count(job, None)
        for index in (self.jobs, self.waiting, self.unadmitted):
            index.pop(job.uid, None)

    def _settle(self, uid: str) -> None:
        """Puts a job that changed where it belongs, and its part of its queue's sums right."""
        job, info = self.groups.get(uid), self.cache.jobs.get(uid)
        if job is None or info is None:
            return
        job.allocated = self._reader.amounts(info.allocated)
        for task in job.by_status.get(_BINDING, {}).values() if self.infers_assumed else ():
            if self._rows.holds(task):
                job.allocated = job.allocated + task.request
        there = job.queue in self.queues
        for index, belongs in (
            (self.jobs, there),
            (self.waiting, there and PENDING in job.by_status),
            (self.unadmitted, there and job.unadmitted),
        ):
            if belongs:
                index[uid] = job
            else:
                index.pop(uid, None)
        self._sums.count(job, part_of(job) if there else None)

    def _queue(self, name: str) -> None:
        found = self.cache.queues.get(name)
        if found is None and name and name == self.default_queue:
            found = Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(weight=1), status=QueueStatus(state="Open"))
        if found is None:
            self.queues.pop(name, None)
            return
        position = self.cache.position_of("Queue", name)
        self.queues[name] = queue = queue_of(found, self.resources, position)
        self._sums.show(queue)

    # --- nodes --------------------------------------------------------------------------------------------------------

    @property
    def total(self) -> Vector:
        """All that the nodes have."""
        return self._rows.total


__all__ = ["Mirror"]
