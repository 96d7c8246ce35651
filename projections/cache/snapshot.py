"""Snapshots of the cache: the whole of it, or what changed since the last, to bytes and back.

Owns the bytes. Must not know what the fold does. Called by `projections.cache.projection`.

A pod is one short row, from which its task in the job and the node's copy follow. Whatever does not follow (an update
that was ignored, a node that came back empty, a task set apart by the scheduler) is written out, so that every state
that the fold can reach comes back the same. Words that repeat are kept once per snapshot, and so are requests.
"""

from __future__ import annotations

from typing import Any

import msgspec

from projections.cache import stores
from projections.cache.nodes import node_resource
from projections.cache.pods import responsible, store_pod
from projections.cache.retries import set_next_due
from projections.cache.state import Cache, ImageState, JobInfo, NodeInfo, PodRef, Retry, TaskInfo, Touched
from volcano.objects.kinds import BY_NAME
from volcano.objects.resource import Resource
from volcano.objects.status import TERMINATED_STATUSES, task_status

FORMAT = 1

_TERMINATED = frozenset(int(status) for status in TERMINATED_STATUSES)


class SnapshotInvalid(ValueError):
    """Bytes that are no snapshot of this projection."""


class Image(msgspec.Struct, array_like=True):
    """A snapshot's sections. Rows are lists; see the writers for their columns."""

    format: int
    whole: bool
    model: str
    words: list[str]
    requests: list[list[Any]]
    profiles: list[list[Any]]
    pods: list[list[Any]]
    gone: list[str]
    objects: list[tuple[str, str, int, bytes | None]]
    nodes: list[list[Any]]
    jobs: list[list[Any]]
    job_tasks: list[list[Any]]
    node_tasks: list[list[Any]]
    rest: list[Any]


_DECODER = msgspec.msgpack.Decoder(Image)
_ENCODER = msgspec.msgpack.Encoder()
_OBJECTS: dict[str, msgspec.msgpack.Decoder[Any]] = {
    name: msgspec.msgpack.Decoder(kind.struct) for name, kind in BY_NAME.items()
}


def _number(amount: float) -> float:
    return int(amount) if isinstance(amount, float) and amount.is_integer() else amount


def _pack_uid(uid: str) -> str | bytes:
    """A UUID as its 16 bytes, anything else as it is."""
    if len(uid) == 36 and uid[8] == uid[13] == uid[18] == uid[23] == "-":
        try:
            packed = bytes.fromhex(uid.replace("-", ""))
        except ValueError:
            return uid
        if len(packed) == 16 and _unpack_uid(packed) == uid:
            return packed
    return uid


def _unpack_uid(packed: str | bytes) -> str:
    if isinstance(packed, str):
        return packed
    text = packed.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class _Tables:
    """What repeats, each once: words by index, requests and profiles by index."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self.requests: dict[Any, int] = {}
        self.by_id: dict[int, int] = {}
        self.rows: list[list[Any]] = []
        self.profiles: dict[tuple[Any, ...], int] = {}

    def word(self, text: str) -> int:
        return self.words.setdefault(text, len(self.words))

    def request(self, resource: Resource) -> int:
        index = self.by_id.get(id(resource))
        if index is None:
            row = resource_row(resource)
            key = (row[0], row[1], None if row[2] is None else tuple(row[2].items()), row[3])
            index = self.requests.get(key)
            if index is None:
                index = self.requests[key] = len(self.rows)
                self.rows.append(row)
            self.by_id[id(resource)] = index
        return index

    def profile(self, task: TaskInfo) -> int:
        key = (
            self.word(task.role),
            task.priority,
            task.preemptable | task.best_effort << 1 | task.restartable_init << 2,
            self.word(task.revocable_zone),
            self.request(task.resreq),
        )
        return self.profiles.setdefault(key, len(self.profiles))


def resource_row(resource: Resource) -> list[Any]:
    """[cpu, memory, scalars or nil, max_task_num], whole numbers as ints."""
    scalars = resource.scalars
    return [
        _number(resource.milli_cpu),
        _number(resource.memory),
        None if scalars is None else {name: _number(amount) for name, amount in sorted(scalars.items())},
        resource.max_task_num,
    ]


def _read_resource(row: list[Any], float64: bool) -> Resource:
    if not float64:
        return Resource(row[0], row[1], row[2], row[3])
    scalars = row[2]
    if scalars is not None:
        scalars = {name: float(amount) for name, amount in scalars.items()}
    return Resource(float(row[0]), float(row[1]), scalars, row[3])


# --- what follows from a pod's row --------------------------------------------------------------------------------


def _follows(cache: Cache, ref: PodRef, like: TaskInfo) -> TaskInfo | None:
    """The task that a pod's store entry gives, with the profile of `like`; None for a pod that is filtered out."""
    if not responsible(cache, ref):
        return None
    return TaskInfo(
        ref.uid,
        ref.job,
        ref.namespace,
        ref.name,
        like.role,
        int(task_status(ref.phase, ref.deleting, ref.node_name)),
        ref.node_name,
        like.priority,
        like.preemptable,
        like.best_effort,
        like.restartable_init,
        ref.gated,
        like.revocable_zone,
        like.resreq,
    )


def _on_node(task: TaskInfo) -> bool:
    return bool(task.node_name) and task.status not in _TERMINATED


# --- writing ------------------------------------------------------------------------------------------------------


class _Writer:
    def __init__(self, cache: Cache, whole: bool) -> None:
        self.cache = cache
        self.whole = whole
        self.tables = _Tables()
        self.job_tasks: dict[tuple[str, str], TaskInfo | None] = {}
        self.node_tasks: dict[tuple[str, str], TaskInfo | None] = {}

    def image(self) -> bytes:
        cache, touched = self.cache, self.cache.touched
        pods, gone = self.pods()
        odd_job_tasks = self.odd_job_tasks()
        odd_node_tasks = self.odd_node_tasks()
        node_names = list(cache.nodes) if self.whole else list(touched.nodes)
        job_keys = list(cache.jobs) if self.whole else list(touched.jobs)
        nodes = [self.node(name, self.whole or touched.nodes[name]) for name in node_names]
        jobs = [self.job(key) for key in job_keys]
        tables = self.tables
        return _ENCODER.encode(
            Image(
                FORMAT,
                self.whole,
                cache.model,
                list(tables.words),
                tables.rows,
                [list(profile) for profile in tables.profiles],
                pods,
                gone,
                self.objects(),
                nodes,
                jobs,
                odd_job_tasks,
                odd_node_tasks,
                self.rest(),
            )
        )

    def pods(self) -> tuple[list[list[Any]], list[str]]:
        """Rows of the live pods, keys of those that are gone; also notes what a reader will have made of them."""
        cache = self.cache
        rows: list[list[Any]] = []
        gone: list[str] = []
        changed = dict.fromkeys(cache.pods) if self.whole else cache.touched.pods
        for key, base in changed.items():
            if base is not None:
                self.job_tasks[base.job, base.uid] = None
                self.node_tasks[base.node_name, key] = None
        for key in changed:
            ref = cache.pods.get(key)
            if ref is None:
                gone.append(key)
                continue
            job = cache.jobs.get(ref.job) if ref.job else None
            task = job.tasks.get(ref.uid) if job is not None else None
            if task is None and ref.node_name:
                node = cache.nodes.get(ref.node_name)
                task = node.tasks.get(key) if node is not None else None
            follows = _follows(cache, ref, task) if task is not None else None
            rows.append(self.pod(ref, follows))
            if follows is not None:
                if ref.job:
                    self.job_tasks[ref.job, ref.uid] = follows
                if _on_node(follows):
                    self.node_tasks[ref.node_name, key] = follows
        return rows, gone

    def pod(self, ref: PodRef, task: TaskInfo | None) -> list[Any]:
        word = self.tables.word
        row: list[Any] = [
            word(ref.namespace),
            ref.name,
            _pack_uid(ref.uid),
            word(ref.node_name),
            word(ref.phase),
            word(ref.scheduler_name),
            word(ref.job),
            ref.deleting | ref.gated << 1 | ref.flags << 2,
            self.tables.request(ref.request),
            -1 if task is None else self.tables.profile(task),
            self.cache.position - ref.position,
            ref.version,
        ]
        if ref.claims:
            row.append(ref.claims)
        return row

    def odd_job_tasks(self) -> list[list[Any]]:
        """[job, uid, task row or nil] where a job's task is not what follows from the pods."""
        cache = self.cache
        if self.whole:
            asked = {(key, uid): None for key, job in cache.jobs.items() for uid in job.tasks}
        else:
            asked = dict.fromkeys(cache.touched.job_tasks)
        rows = []
        for key, uid in {**self.job_tasks, **asked}:
            job = cache.jobs.get(key)
            actual = job.tasks.get(uid) if job is not None else None
            if actual != self.job_tasks.get((key, uid)) or (key, uid) not in self.job_tasks:
                rows.append([self.tables.word(key), uid, None if actual is None else self.task(actual)])
        return rows

    def odd_node_tasks(self) -> list[list[Any]]:
        """[node, 'namespace/name', task row or nil] where a node's copy is not what follows from the pods."""
        cache = self.cache
        if self.whole:
            asked = {(name, key): None for name, node in cache.nodes.items() for key in node.tasks}
        else:
            asked = dict.fromkeys(cache.touched.node_tasks)
        rows = []
        for name, key in {**self.node_tasks, **asked}:
            node = cache.nodes.get(name)
            actual = node.tasks.get(key) if node is not None else None
            if actual != self.node_tasks.get((name, key)) or (name, key) not in self.node_tasks:
                rows.append([self.tables.word(name), key, None if actual is None else self.task(actual)])
        return rows

    def task(self, task: TaskInfo) -> list[Any]:
        word = self.tables.word
        return [
            _pack_uid(task.uid),
            word(task.job),
            word(task.namespace),
            task.name,
            task.status,
            word(task.node_name),
            task.gated,
            self.tables.profile(task),
        ]

    def node(self, name: str, header: bool) -> list[Any]:
        """[name] gone; [name, sums...]; or with the header after them."""
        node = self.cache.nodes.get(name)
        if node is None:
            return [name]
        row: list[Any] = [name, *(self.amount(each) for each in (node.used, node.releasing, node.pipelined))]
        expected = node.allocatable.clone()
        expected.subtract_unchecked(node.used)
        row.append(None if expected == node.idle else resource_row(node.idle))
        if header:
            row.append(
                [
                    self.node_object(node),
                    node.position,
                    node.phase,
                    node.reason,
                    node.csi or None,
                    _number(node.oversubscription_cpu),
                    _number(node.oversubscription_memory),
                    node.oversubscription | node.offline_job_evicting << 1,
                    node.revocable_zone,
                    node.images or None,
                ]
            )
        return row

    @staticmethod
    def amount(resource: Resource) -> list[Any] | None:
        row = resource_row(resource)
        return None if row == [0, 0, None, 0] else row

    def node_object(self, node: NodeInfo) -> Any:
        """False: a placeholder; True: the store's object; else the object, which the store has moved on from."""
        if node.node is None:
            return False
        if node.node is self.cache.node_objects.get(node.name):
            return True
        return _ENCODER.encode(node.node)

    def job(self, key: str) -> list[Any]:
        """[key] gone; [key, priority, allocated, total_request, fields or nil, left-over index entries or nil]."""
        job = self.cache.jobs.get(key)
        if job is None:
            return [key]
        full = self.whole or job.pod_group is None or ("PodGroup", key) in self.cache.touched.objects
        return [
            key,
            job.priority,
            resource_row(job.allocated),
            resource_row(job.total_request),
            _job_fields(job) if full else None,
            self.left_over(job),
        ]

    def left_over(self, job: JobInfo) -> list[Any] | None:
        """Entries of the status index whose task is not the job's (072): [status, uid, task row]."""
        if sum(map(len, job.tasks_by_status.values())) == len(job.tasks):
            return None
        return [
            [status, uid, self.task(task)]
            for status, index in sorted(job.tasks_by_status.items())
            for uid, task in sorted(index.items())
            if job.tasks.get(uid) is not task
        ]

    def objects(self) -> list[tuple[str, str, int, bytes | None]]:
        """(kind, key, position or 0, object or nil when it is not held)."""
        cache = self.cache
        if self.whole:
            names = {(kind, key): None for kind in (*stores.ATTRIBUTES, "PodGroup") for key in stores.keys(cache, kind)}
            names.update(dict.fromkeys(cache.positions))
        else:
            names = dict.fromkeys(cache.touched.objects)
        rows: list[tuple[str, str, int, bytes | None]] = []
        for kind, key in names:
            obj = stores.held(cache, kind, key)
            raw = None if obj is None else _ENCODER.encode(obj)
            rows.append((kind, key, cache.positions.get((kind, key), 0), raw))
        return rows

    def rest(self) -> list[Any]:
        cache = self.cache
        full = self.whole or cache.touched.rest
        small = [
            cache.default_priority_class,
            cache.default_priority,
            list(cache.namespaces),
            cache.pending_cleanup,
            cache.pending_resync,
            cache.pending_node_sync,
            cache.panics,
            cache.node_list,
        ]
        return [cache.position, cache.now, small if full else None, cache.refused]


def _job_fields(job: JobInfo) -> list[Any]:
    return [
        job.name,
        job.namespace,
        job.pg_uid,
        job.position,
        job.queue,
        job.min_available,
        job.task_min_available,
        job.task_min_available_total,
        job.preemptable,
        job.revocable_zone,
        job.budget_min_available,
        job.budget_max_unavailable,
        job.waiting_time_seconds,
        job.job_fit_errors,
        job.nodes_fit_errors,
    ]


def dump(cache: Cache) -> bytes:
    """The whole cache; what comes next counts from here."""
    image = _Writer(cache, True).image()
    cache.touched = Touched()
    return image


def dump_changes(cache: Cache) -> bytes:
    """What changed since the last dump of either sort; what comes next counts from here."""
    image = _Writer(cache, False).image()
    cache.touched = Touched()
    return image


# --- reading ------------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, cache: Cache, image: Image) -> None:
        self.cache = cache
        self.image = image
        self.float64 = cache.policy.float64
        self.words = image.words
        self.requests = [_read_resource(row, self.float64) for row in image.requests]
        self.node_amounts: dict[Any, tuple[Resource, Resource]] = {}

    def apply(self) -> None:
        cache, image = self.cache, self.image
        cache.position, cache.now = image.rest[0], image.rest[1]
        for kind, key, position, raw in image.objects:
            obj = None if raw is None else _OBJECTS[kind].decode(raw)
            if obj is not None or kind != "PodGroup":
                stores.put(cache, kind, key, obj)
            elif key in cache.jobs:
                cache.jobs[key].pod_group = None
            if position:
                cache.positions[kind, key] = position
            else:
                cache.positions.pop((kind, key), None)
        for row in image.nodes:
            self.node(row)
        for row in image.jobs:
            self.job(row)
        for key in image.gone:
            self.drop(key)
        if not image.whole:
            for row in image.pods:
                self.drop(f"{self.words[row[0]]}/{row[1]}", keep=True)
        for row in image.pods:
            self.pod(row)
        self.odd_tasks()
        for row in image.jobs:
            if len(row) > 1 and row[5]:
                self.left_over(row)
        self.rest()

    def rest(self) -> None:
        cache, small = self.cache, self.image.rest[2]
        cache.refused = self.image.rest[3]
        if small is None:
            return
        cache.default_priority_class, cache.default_priority = small[0], small[1]
        cache.namespaces = dict.fromkeys(small[2])
        cache.pending_cleanup, cache.pending_resync, cache.pending_node_sync = (
            {key: Retry(*retry) for key, retry in queue.items()} for queue in small[3:6]
        )
        set_next_due(cache)
        cache.panics, cache.node_list = small[6], small[7]

    def drop(self, key: str, keep: bool = False) -> None:
        """Take away a pod's store entry and what follows from it."""
        cache = self.cache
        ref = cache.pods.get(key)
        if ref is None:
            return
        if ref.job in cache.jobs:
            self.remove_task(cache.jobs[ref.job], ref.uid)
        node = cache.nodes.get(ref.node_name)
        if node is not None:
            node.tasks.pop(key, None)
        if not keep:
            store_pod(cache, key, ref, None)

    @staticmethod
    def remove_task(job: JobInfo, uid: str) -> None:
        task = job.tasks.pop(uid, None)
        if task is not None:
            index = job.tasks_by_status.get(task.status)
            if index is not None and index.get(uid) is task:
                del index[uid]
                if not index:
                    del job.tasks_by_status[task.status]

    @staticmethod
    def add_task(job: JobInfo, task: TaskInfo) -> None:
        job.tasks[task.uid] = task
        index = job.tasks_by_status.get(task.status)
        if index is None:
            job.tasks_by_status[task.status] = {task.uid: task}
        else:
            index[task.uid] = task

    def pod(self, row: list[Any]) -> None:
        cache, words = self.cache, self.words
        bits = row[7]
        ref = PodRef(
            words[row[0]],
            row[1],
            _unpack_uid(row[2]),
            words[row[3]],
            words[row[4]],
            words[row[5]],
            words[row[6]],
            bool(bits & 1),
            bool(bits & 2),
            bits >> 2,
            self.requests[row[8]],
            tuple(row[12]) if len(row) > 12 else (),
            row[11],
            cache.position - row[10],
        )
        key = f"{ref.namespace}/{ref.name}"
        store_pod(cache, key, cache.pods.get(key), ref)
        if row[9] < 0:
            return
        status = int(task_status(ref.phase, ref.deleting, ref.node_name))
        task = self.new_task(ref.uid, ref.job, ref.namespace, ref.name, status, ref.node_name, ref.gated, row[9])
        if ref.job:
            job = cache.jobs.get(ref.job)
            if job is not None:
                self.add_task(job, task)
        if ref.node_name and status not in _TERMINATED:
            node = cache.nodes.get(ref.node_name)
            if node is not None:
                node.tasks[key] = task.clone()

    def new_task(
        self, uid: str, job: str, namespace: str, name: str, status: int, node_name: str, gated: bool, profile: int
    ) -> TaskInfo:
        role, priority, bits, zone, request = self.image.profiles[profile]
        return TaskInfo(
            uid,
            job,
            namespace,
            name,
            self.words[role],
            status,
            node_name,
            priority,
            bool(bits & 1),
            bool(bits & 2),
            bool(bits & 4),
            gated,
            self.words[zone],
            self.requests[request],
        )

    def task(self, row: list[Any]) -> TaskInfo:
        words = self.words
        return self.new_task(
            _unpack_uid(row[0]), words[row[1]], words[row[2]], row[3], row[4], words[row[5]], row[6], row[7]
        )

    def odd_tasks(self) -> None:
        cache = self.cache
        for word, uid, row in self.image.job_tasks:
            job = cache.jobs.get(self.words[word])
            if job is not None:
                self.remove_task(job, uid)
                if row is not None:
                    self.add_task(job, self.task(row))
        for word, key, row in self.image.node_tasks:
            node = cache.nodes.get(self.words[word])
            if node is not None:
                node.tasks.pop(key, None)
                if row is not None:
                    node.tasks[key] = self.task(row)

    def left_over(self, row: list[Any]) -> None:
        job = self.cache.jobs[row[0]]
        for status, uid, task in row[5]:
            job.tasks_by_status.setdefault(status, {})[uid] = self.task(task)

    def amount(self, row: list[Any] | None) -> Resource:
        if row is None:
            return Resource() if self.float64 else Resource(0, 0)
        return _read_resource(row, self.float64)

    def node(self, row: list[Any]) -> None:
        cache, name = self.cache, row[0]
        if len(row) == 1:
            node = cache.nodes.pop(name, None)
            if node is not None:
                self.forget_images(node)
            return
        node = cache.nodes.get(name)
        if node is None:
            node = cache.nodes[name] = NodeInfo(name)
        if len(row) > 5:
            self.header(node, row[5])
        node.used, node.releasing, node.pipelined = self.amount(row[1]), self.amount(row[2]), self.amount(row[3])
        if row[4] is None:
            node.idle = node.allocatable.clone()
            node.idle.subtract_unchecked(node.used)
        else:
            node.idle = _read_resource(row[4], self.float64)

    def header(self, node: NodeInfo, row: list[Any]) -> None:
        cache = self.cache
        which, node.position, node.phase, node.reason = row[0], row[1], row[2], row[3]
        node.csi = row[4] or {}
        node.oversubscription_cpu, node.oversubscription_memory = row[5], row[6]
        node.oversubscription, node.offline_job_evicting = bool(row[7] & 1), bool(row[7] & 2)
        node.revocable_zone = row[8]
        self.forget_images(node)
        node.images = {name: (size, number) for name, (size, number) in (row[9] or {}).items()}
        for name, (size, _) in node.images.items():
            cache.images.setdefault(name, ImageState(size, {})).nodes[node.name] = None
        if which is False:
            node.node = None
        elif which is True:
            node.node = cache.node_objects[node.name]
        else:
            node.node = _OBJECTS["Node"].decode(which)
        if node.node is None:
            node.allocatable, node.capacity = Resource(), Resource()
            return
        status = node.node.status
        node.allocatable = node_resource(cache, status.allocatable, node)
        node.capacity = node_resource(cache, status.capacity, node)

    def forget_images(self, node: NodeInfo) -> None:
        for name in node.images:
            state = self.cache.images[name]
            state.nodes.pop(node.name, None)
            if not state.nodes:
                del self.cache.images[name]

    def job(self, row: list[Any]) -> None:
        cache, key = self.cache, row[0]
        if len(row) == 1:
            cache.jobs.pop(key, None)
            return
        job = cache.jobs.get(key)
        if job is None:
            job = cache.jobs[key] = JobInfo(key)
        job.priority = row[1]
        job.allocated = _read_resource(row[2], self.float64)
        job.total_request = _read_resource(row[3], self.float64)
        fields = row[4]
        if fields is not None:
            job.name, job.namespace, job.pg_uid, job.position, job.queue = fields[:5]
            job.min_available, job.task_min_available, job.task_min_available_total = fields[5:8]
            job.preemptable, job.revocable_zone = fields[8:10]
            job.budget_min_available, job.budget_max_unavailable, job.waiting_time_seconds = fields[10:13]
            job.job_fit_errors, job.nodes_fit_errors = fields[13:15]


def load(cache: Cache, chain: list[bytes]) -> Cache:
    """Fill a new cache from a whole dump and the changes after it, oldest first. Raises SnapshotInvalid."""
    if not chain:
        raise SnapshotInvalid("no snapshot to load from")
    for number, data in enumerate(chain):
        try:
            image = _DECODER.decode(data)
        except msgspec.MsgspecError as error:
            raise SnapshotInvalid(f"not a snapshot of the cache: {error}") from None
        if image.format != FORMAT or image.model != cache.model or image.whole != (number == 0):
            raise SnapshotInvalid(f"not a snapshot of the cache under {cache.model} that fits at place {number}")
        try:
            _Reader(cache, image).apply()
        except (LookupError, TypeError, ValueError, msgspec.MsgspecError) as error:
            raise SnapshotInvalid(f"a snapshot of the cache is damaged: {error}") from error
    cache.touched = Touched()
    return cache


__all__ = ["FORMAT", "SnapshotInvalid", "dump", "dump_changes", "load", "resource_row"]
