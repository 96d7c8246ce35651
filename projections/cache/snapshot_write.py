"""Writes snapshots of the cache: the whole of it, or what was touched since the last.

Owns what goes into one. Must not know what the fold does. Called by `projections.cache.snapshot`.

A pod is one short entry, from which its task in the job and the node's copy follow. Whatever does not follow (an update
that was ignored, a node that came back empty, a task that the scheduler moved) is written out, so that every state that
the fold can reach comes back the same. Words that repeat are kept once per snapshot, and so are requests.
"""

from __future__ import annotations

from typing import Any

from projections.cache import stores
from projections.cache.pods import responsible
from projections.cache.snapshot_image import (
    ENCODER,
    FORMAT,
    ExactRow,
    Image,
    JobFields,
    JobRow,
    NodeHeader,
    NodeRow,
    PodColumns,
    Small,
    TaskRow,
    encode_object,
    pack_uid,
    resource_row,
    whole_number,
)
from projections.cache.state import Cache, JobInfo, NodeInfo, PodRef, TaskInfo, Unread
from volcano.objects.resource import Resource
from volcano.objects.status import TERMINATED_STATUSES, task_status

_TERMINATED = frozenset(int(status) for status in TERMINATED_STATUSES)
_NOTHING: ExactRow = (0, 0, None, 0)


class _Tables:
    """What repeats, each once: words by index, requests and profiles by index."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self.requests: dict[Any, int] = {}
        self.by_id: dict[int, int] = {}
        self.rows: list[ExactRow] = []
        self.profiles: dict[tuple[int, int, int, int, int], int] = {}

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


def _amount(resource: Resource) -> ExactRow | None:
    row = resource_row(resource)
    return None if row == _NOTHING else row


class Writer:
    """Writes one snapshot of a cache."""

    def __init__(self, cache: Cache, whole: bool) -> None:
        self.cache = cache
        self.whole = whole
        self.tables = _Tables()
        self.job_tasks: dict[tuple[str, str], TaskInfo | None] = {}
        self.node_tasks: dict[tuple[str, str], TaskInfo | None] = {}

    def image(self) -> bytes:
        """The snapshot's bytes."""
        cache, touched, tables = self.cache, self.cache.touched, self.tables
        pods, gone = self.pods()
        odd_job_tasks, odd_node_tasks = self.odd_job_tasks(), self.odd_node_tasks()
        names = list(cache.nodes) if self.whole else list(touched.nodes)
        keys = list(cache.jobs) if self.whole else list(touched.jobs)
        nodes = [self.node(cache.nodes[name]) for name in names if name in cache.nodes]
        jobs = [self.job(cache.jobs[key]) for key in keys if key in cache.jobs]
        return ENCODER.encode(
            Image(
                FORMAT,
                self.whole,
                cache.model,
                cache.position,
                cache.now,
                list(tables.words),
                tables.rows,
                list(tables.profiles),
                pods,
                gone,
                self.objects(),
                nodes,
                [name for name in names if name not in cache.nodes],
                jobs,
                [key for key in keys if key not in cache.jobs],
                odd_job_tasks,
                odd_node_tasks,
                self.small() if self.whole or touched.rest else None,
                cache.refused,
            )
        )

    # --- pods and tasks -------------------------------------------------------------------------------------------

    def pods(self) -> tuple[PodColumns, list[str]]:
        """Columns of the live pods, keys of those that are gone; also notes what a reader will have made of them."""
        cache = self.cache
        columns = PodColumns([], [], [], [], [], [], [], [], [], [], [], [], {})
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
            follows = self.follows(key, ref)
            self.pod(columns, ref, follows)
            if follows is not None:
                if ref.job:
                    self.job_tasks[ref.job, ref.uid] = follows
                if ref.node_name and follows.status not in _TERMINATED:
                    self.node_tasks[ref.node_name, key] = follows
        return columns, gone

    def follows(self, key: str, ref: PodRef) -> TaskInfo | None:
        """The task that a reader will make of a pod's entry."""
        job = self.cache.jobs.get(ref.job) if ref.job else None
        task = job.tasks.get(ref.uid) if job is not None else None
        if task is None and ref.node_name:
            node = self.cache.nodes.get(ref.node_name)
            task = node.tasks.get(key) if node is not None else None
        return _follows(self.cache, ref, task) if task is not None else None

    def pod(self, columns: PodColumns, ref: PodRef, task: TaskInfo | None) -> None:
        word = self.tables.word
        if ref.claims:
            columns.claims[len(columns.name)] = list(ref.claims)
        columns.namespace.append(word(ref.namespace))
        columns.name.append(ref.name)
        columns.uid.append(pack_uid(ref.uid))
        columns.node.append(word(ref.node_name))
        columns.phase.append(word(ref.phase))
        columns.scheduler.append(word(ref.scheduler_name))
        columns.job.append(word(ref.job))
        columns.bits.append(ref.deleting | ref.gated << 1 | ref.flags << 2)
        columns.request.append(self.tables.request(ref.request))
        columns.profile.append(-1 if task is None else self.tables.profile(task))
        columns.age.append(self.cache.position - ref.position)
        columns.version.append(ref.version)

    def odd_job_tasks(self) -> list[tuple[int, str, TaskRow | None]]:
        """Where a job's task is not what follows from the pods."""
        cache = self.cache
        if self.whole:
            asked = {(key, uid): None for key, job in cache.jobs.items() for uid in job.tasks}
        else:
            asked = dict.fromkeys(cache.touched.job_tasks)
        rows = []
        for key, uid in {**self.job_tasks, **asked}:
            job = cache.jobs.get(key)
            actual = job.tasks.get(uid) if job is not None else None
            if (key, uid) not in self.job_tasks or actual != self.job_tasks[key, uid]:
                rows.append((self.tables.word(key), uid, None if actual is None else self.task(actual)))
        return rows

    def odd_node_tasks(self) -> list[tuple[int, str, TaskRow | None]]:
        """Where a node's copy is not what follows from the pods."""
        cache = self.cache
        if self.whole:
            asked = {(name, key): None for name, node in cache.nodes.items() for key in node.tasks}
        else:
            asked = dict.fromkeys(cache.touched.node_tasks)
        rows = []
        for name, key in {**self.node_tasks, **asked}:
            node = cache.nodes.get(name)
            actual = node.tasks.get(key) if node is not None else None
            if (name, key) not in self.node_tasks or actual != self.node_tasks[name, key]:
                rows.append((self.tables.word(name), key, None if actual is None else self.task(actual)))
        return rows

    def task(self, task: TaskInfo) -> TaskRow:
        word = self.tables.word
        return TaskRow(
            pack_uid(task.uid),
            word(task.job),
            word(task.namespace),
            task.name,
            task.status,
            word(task.node_name),
            task.gated,
            self.tables.profile(task),
        )

    # --- nodes and jobs -------------------------------------------------------------------------------------------

    def node(self, node: NodeInfo) -> NodeRow[ExactRow]:
        expected = node.allocatable.clone()
        expected.subtract_unchecked(node.used)
        return NodeRow(
            node.name,
            _amount(node.used),
            _amount(node.releasing),
            _amount(node.pipelined),
            None if expected == node.idle else resource_row(node.idle),
            self.header(node) if self.whole or self.cache.touched.nodes[node.name] else None,
        )

    def header(self, node: NodeInfo) -> NodeHeader:
        which: bool | bytes = node.held is not None
        if node.held is not None and node.node is not self.cache.node_objects.get(node.name):
            which = encode_object(node.node)
        return NodeHeader(
            which,
            node.position,
            node.phase,
            node.reason,
            node.csi,
            whole_number(node.oversubscription_cpu),
            whole_number(node.oversubscription_memory),
            node.oversubscription | node.offline_job_evicting << 1,
            node.revocable_zone,
            node.images,
            self.tables.request(node.allocatable),
            self.tables.request(node.capacity),
        )

    def job(self, job: JobInfo) -> JobRow[ExactRow]:
        full = self.whole or job.held is None or ("PodGroup", job.uid) in self.cache.touched.objects
        return JobRow(
            job.uid,
            job.priority,
            resource_row(job.allocated),
            resource_row(job.total_request),
            self.fields(job) if full else None,
            self.left_over(job),
        )

    def fields(self, job: JobInfo) -> JobFields | None:
        """None also where a reader's new job has the same: in a whole snapshot, for a job of pods alone."""
        fields = _job_fields(job)
        return None if self.whole and fields == _NEW_JOB else fields

    def left_over(self, job: JobInfo) -> list[tuple[int, str, TaskRow]]:
        if sum(map(len, job.tasks_by_status.values())) == len(job.tasks):
            return []
        return [
            (status, uid, self.task(task))
            for status, index in sorted(job.tasks_by_status.items())
            for uid, task in sorted(index.items())
            if job.tasks.get(uid) is not task
        ]

    # --- the rest -------------------------------------------------------------------------------------------------

    def objects(self) -> list[tuple[str, str, int, bytes | None]]:
        cache = self.cache
        if self.whole:
            names = {(kind, key): None for kind in (*stores.ATTRIBUTES, "PodGroup") for key in stores.keys(cache, kind)}
            names.update(dict.fromkeys(cache.positions))
        else:
            names = dict.fromkeys(cache.touched.objects)
        rows: list[tuple[str, str, int, bytes | None]] = []
        for kind, key in names:
            obj = stores.kept(cache, kind, key)
            data = None if obj is None else obj.data if type(obj) is Unread else encode_object(obj)
            rows.append((kind, key, cache.positions.get((kind, key), 0), data))
        return rows

    def small(self) -> Small:
        cache = self.cache
        return Small(
            cache.default_priority_class,
            cache.default_priority,
            list(cache.namespaces),
            dict(cache.pending_cleanup),
            dict(cache.pending_resync),
            dict(cache.pending_node_sync),
            cache.panics,
            cache.node_list,
        )


def _job_fields(job: JobInfo) -> JobFields:
    return JobFields(
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
    )


_NEW_JOB = _job_fields(JobInfo(""))


__all__ = ["Writer"]
