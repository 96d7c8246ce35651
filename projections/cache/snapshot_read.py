"""Reads snapshots into a cache, one after the other.

Owns how each section is applied. Must not know what the fold does. Called by `projections.cache.snapshot`.

This is the way to every past state, so its loop over pods is written out in one place and kept lean, and what few
states are asked about is only made when somebody looks at it: tasks that follow from their pods, and the objects of
nodes and PodGroups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress, repeat
from typing import Any, NamedTuple, TypeVar

import msgspec

from projections.cache import stores
from projections.cache.nodes import node_resource
from projections.cache.pods import store_pod
from projections.cache.retries import set_next_due
from projections.cache.snapshot_image import (
    Image,
    JobFields,
    JobRow,
    NodeHeader,
    NodeRow,
    PodColumns,
    Small,
    TaskRow,
    pack_uid,
    unpack_amount,
    unpack_uid,
    unpack_uids,
)
from projections.cache.state import (
    Cache,
    Following,
    ImageState,
    JobInfo,
    NodeInfo,
    PodRef,
    Profile,
    Retry,
    TaskInfo,
    Unread,
)
from volcano.objects import kinds
from volcano.objects.meta import ResourceMap
from volcano.objects.resource import Resource

R = TypeVar("R")

_ENDED = frozenset(("Succeeded", "Failed"))
"""Phases of pods whose tasks no node holds (fact 6)."""


def as_it_is(resource: Resource) -> Resource:
    """Amounts that were decoded as Resources."""
    return resource


def from_row(row: Any) -> Resource:
    """Amounts that were decoded as rows."""
    milli_cpu, memory, scalars, max_task_num = row
    if scalars is not None:
        scalars = {name: unpack_amount(amount) for name, amount in scalars.items()}
    return Resource(unpack_amount(milli_cpu), unpack_amount(memory), scalars, int(max_task_num))


class LastGiven(NamedTuple):
    """The number of the last snapshot of a chain that gives something whole, so that those before it need not make it:
    pods by key, sums of nodes and jobs, objects by (kind, key)."""

    pods: dict[str, int]
    nodes: dict[str, int]
    jobs: dict[str, int]
    objects: dict[tuple[str, str], int]


def last_given(images: Sequence[Image[Any]], keys: Sequence[list[str]]) -> LastGiven:
    """What each snapshot of a chain need not make; `keys` are those of its pods (`pod_keys`). A pod that any of them
    writes out as odd (its task does not follow from its entry) is always made, as later ones take away what follows
    from it; so are Nodes' objects, on which the nodes' own rows rest."""
    last = LastGiven({}, {}, {}, {})
    for number, image in enumerate(images):
        if not image.whole:
            last.nodes.update((row.name, number) for row in image.nodes)
            last.jobs.update((row.key, number) for row in image.jobs)
            last.objects.update(((kind, key), number) for kind, key, _, _ in image.objects if kind != "Node")
            last.pods.update(dict.fromkeys(image.pods_gone, number))
            last.pods.update(dict.fromkeys(keys[number], number))
    odd = {key for image in images for _, key, _ in image.node_tasks}
    uids = {pack_uid(uid) for image in images for _, uid, _ in image.job_tasks}
    if odd or uids:
        for image, its in zip(images, keys, strict=True):
            for key, uid in zip(its, image.pods.uid, strict=True):
                if key in odd or uid in uids:
                    last.pods.pop(key, None)
    return last


def pod_keys(image: Image[Any]) -> list[str]:
    """'namespace/name' of each pod of a snapshot."""
    words = image.words
    return [f"{words[word]}/{name}" for word, name in zip(image.pods.namespace, image.pods.name, strict=True)]


class Reader:
    """Applies one snapshot. `amount` makes a Resource of what was decoded; what a
    snapshot after this one (its `number`) gives is passed over."""

    def __init__(
        self,
        cache: Cache,
        image: Image[R],
        keys: list[str],
        amount: Callable[[R], Resource],
        last: LastGiven,
        number: int,
    ) -> None:
        self.cache, self.keys = cache, keys
        self.last, self.number = last, number
        self.image: Image[Any] = image
        self.amount: Callable[[Any], Resource] = amount
        self.words = image.words
        self.requests = [amount(row) for row in image.requests]
        self.node_amounts: dict[Any, Resource] = {}

    def apply(self) -> None:
        """Bring the cache to the snapshot's state."""
        cache, image = self.cache, self.image
        cache.position, cache.now, cache.refused = image.position, image.now, image.refused
        self.objects()
        for name in image.nodes_gone:
            self.forget_images(cache.nodes.pop(name, None))
        last, number = self.last, self.number
        for row in image.nodes:
            if row.header is not None or last.nodes.get(row.name, number) <= number:
                self.node(row)
        for key in image.jobs_gone:
            cache.jobs.pop(key, None)
        for job_row in image.jobs:
            if job_row.fields is not None or last.jobs.get(job_row.key, number) <= number or image.whole:
                self.job(job_row)
        for key in image.pods_gone:
            self.drop(key)
            store_pod(cache, key, cache.pods.get(key), None)
        if not image.whole:
            for key in self.keys:
                if key in cache.pods:
                    self.drop(key)
        self.pods()
        self.odd_tasks()
        for job_row in image.jobs:
            for status, uid, task in job_row.left_over:
                cache.jobs[job_row.key].tasks_by_status.setdefault(status, {})[uid] = self.task(task)
        if image.small is not None:
            self.small(image.small)

    def objects(self) -> None:
        cache, last, number = self.cache, self.last.objects, self.number
        for kind, key, position, data in self.image.objects:
            if last.get((kind, key), number) > number:
                continue
            if data is None:
                stores.put(cache, kind, key, None)
            else:
                stores.put(cache, kind, key, Unread(kind, data) if kind in stores.UNREAD else kinds.decode(kind, data))
            if position:
                cache.positions[kind, key] = position
            else:
                cache.positions.pop((kind, key), None)

    def small(self, small: Small) -> None:
        cache = self.cache
        cache.default_priority_class, cache.default_priority = small.default_priority_class, small.default_priority
        cache.namespaces = dict.fromkeys(small.namespaces)
        cache.pending_cleanup = _retries(small.pending_cleanup)
        cache.pending_resync = _retries(small.pending_resync)
        cache.pending_node_sync = _retries(small.pending_node_sync)
        cache.panics, cache.node_list = small.panics, small.node_list
        set_next_due(cache)

    # --- pods and tasks -------------------------------------------------------------------------------------------

    def drop(self, key: str) -> None:
        """Take away what follows from the entry that the store has of a pod."""
        cache = self.cache
        ref = cache.pods.get(key)
        if ref is None:
            return
        job = cache.jobs.get(ref.job)
        if job is not None:
            _remove_task(job, ref.uid)
        node = cache.nodes.get(ref.node_name)
        if node is not None:
            node.tasks.pop(key, None)

    def pods(self) -> None:
        """Each pod's entry, and that its task follows from it. Pods that a later snapshot gives are left out."""
        cache, last, here, keys, columns = self.cache, self.last.pods, self.number, self.keys, self.image.pods
        if last:
            wanted = [last.get(key, here) <= here for key in keys]
            keys, columns = list(compress(keys, wanted)), _chosen(columns, wanted)
        refs = self._refs(columns)
        if not cache.policy.defers_claims and (columns.claims or cache.claim_users):
            for key, ref in zip(keys, refs, strict=True):
                store_pod(cache, key, cache.pods.get(key), ref)
        else:
            cache.pods.update(zip(keys, refs, strict=True))
        nodes, jobs = cache.nodes, cache.jobs
        profiles = self._profiles()
        for ref, number in zip(refs, columns.profile, strict=True):
            if number < 0:
                continue
            following = ref, profiles[number]
            job = jobs.get(ref.job)
            if job is not None:
                _follow(job, following)
            node = nodes.get(ref.node_name)
            if node is not None and ref.phase not in _ENDED:
                _follow(node, following)

    def _refs(self, columns: PodColumns) -> list[PodRef]:
        """The pods' entries: column by column, which takes a fraction of the time that pod by pod does."""
        words, position, claims = self.words, self.image.position, columns.claims
        word = words.__getitem__
        used = [tuple(claims.get(number, ())) for number in range(len(columns.name))] if claims else repeat(())
        return list(
            map(
                PodRef,
                map(word, columns.namespace),
                columns.name,
                unpack_uids(columns.uid),
                map(word, columns.node),
                map(word, columns.phase),
                map(word, columns.scheduler),
                map(word, columns.job),
                [bits & 1 == 1 for bits in columns.bits],
                [bits & 2 == 2 for bits in columns.bits],
                [bits >> 2 for bits in columns.bits],
                map(self.requests.__getitem__, columns.request),
                used,
                columns.version,
                [position - age for age in columns.age],
            )
        )

    def _profiles(self) -> list[Profile]:
        words, requests = self.words, self.requests
        return [
            (words[role], priority, bool(bits & 1), bool(bits & 2), bool(bits & 4), words[zone], requests[request])
            for role, priority, bits, zone, request in self.image.profiles
        ]

    def task(self, row: TaskRow) -> TaskInfo:
        words = self.words
        role, priority, bits, zone, request = self.image.profiles[row.profile]
        return TaskInfo(
            unpack_uid(row.uid),
            words[row.job],
            words[row.namespace],
            row.name,
            words[role],
            row.status,
            words[row.node],
            priority,
            bool(bits & 1),
            bool(bits & 2),
            bool(bits & 4),
            row.gated,
            words[zone],
            self.requests[request],
        )

    def odd_tasks(self) -> None:
        cache = self.cache
        for word, uid, row in self.image.job_tasks:
            job = cache.jobs.get(self.words[word])
            if job is not None:
                _remove_task(job, uid)
                if row is not None:
                    _add_task(job, self.task(row))
        for word, key, row in self.image.node_tasks:
            node = cache.nodes.get(self.words[word])
            if node is not None:
                node.tasks.pop(key, None)
                if row is not None:
                    node.tasks[key] = self.task(row)

    # --- nodes and jobs -------------------------------------------------------------------------------------------

    def node(self, row: NodeRow[Any]) -> None:
        cache, name = self.cache, row.name
        node = cache.nodes.get(name)
        if node is None:
            node = cache.nodes[name] = NodeInfo(name)
        if row.header is not None:
            self.header(node, row.header)
        if self.last.nodes.get(name, 0) > self.number:
            return
        node.used, node.releasing, node.pipelined = self.sum(row.used), self.sum(row.releasing), self.sum(row.pipelined)
        if row.idle is None:
            node.idle = node.allocatable.clone()
            node.idle.subtract_unchecked(node.used)
        else:
            node.idle = self.amount(row.idle)

    def sum(self, row: Any) -> Resource:
        if row is not None:
            return self.amount(row)
        return Resource() if self.cache.policy.float64 else Resource(0, 0)

    def header(self, node: NodeInfo, row: NodeHeader) -> None:
        cache = self.cache
        node.position, node.phase, node.reason, node.csi = row.position, row.phase, row.reason, row.csi
        node.oversubscription_cpu, node.oversubscription_memory = row.oversubscription_cpu, row.oversubscription_memory
        node.oversubscription, node.offline_job_evicting = bool(row.flags & 1), bool(row.flags & 2)
        node.revocable_zone = row.revocable_zone
        if node.images:
            self.forget_images(node)
        node.images = row.images
        for name, (size, _) in node.images.items():
            cache.images.setdefault(name, ImageState(size, {})).nodes[node.name] = None
        if isinstance(row.node, bytes):
            node.held = Unread("Node", row.node)
        else:
            node.held = stores.kept(cache, "Node", node.name) if row.node else None
        if row.allocatable >= 0:
            node.allocatable, node.capacity = self.requests[row.allocatable], self.requests[row.capacity]
            return
        if node.node is None:
            node.allocatable, node.capacity = Resource(), Resource()
            return
        status = node.node.status
        node.allocatable = self.node_amount(node, status.allocatable)
        node.capacity = self.node_amount(node, status.capacity)

    def node_amount(self, node: NodeInfo, amounts: ResourceMap | None) -> Resource:
        """The same Resource for nodes alike: nobody changes it in place."""
        csi = tuple(node.csi.items())
        key = (tuple((amounts or {}).items()), csi, node.oversubscription_cpu, node.oversubscription_memory)
        known = self.node_amounts.get(key)
        if known is None:
            known = self.node_amounts[key] = node_resource(self.cache, amounts, node)
        return known

    def forget_images(self, node: NodeInfo | None) -> None:
        for name in node.images if node is not None else ():
            state = self.cache.images[name]
            if node is not None:
                state.nodes.pop(node.name, None)
            if not state.nodes:
                del self.cache.images[name]

    def job(self, row: JobRow[Any]) -> None:
        cache, key = self.cache, row.key
        job = cache.jobs.get(key)
        if job is None:
            job = cache.jobs[key] = JobInfo(key)
        job.priority = row.priority
        if self.last.jobs.get(key, 0) <= self.number:
            job.allocated, job.total_request = self.amount(row.allocated), self.amount(row.total_request)
        if row.fields is not None:
            _set_fields(job, row.fields)


def _set_fields(job: JobInfo, fields: JobFields) -> None:
    job.name, job.namespace, job.pg_uid, job.position = fields.name, fields.namespace, fields.pg_uid, fields.position
    job.queue, job.min_available = fields.queue, fields.min_available
    job.task_min_available = fields.task_min_available
    job.task_min_available_total = fields.task_min_available_total
    job.preemptable, job.revocable_zone = fields.preemptable, fields.revocable_zone
    job.budget_min_available = fields.budget_min_available
    job.budget_max_unavailable = fields.budget_max_unavailable
    job.waiting_time_seconds = fields.waiting_time_seconds
    job.job_fit_errors, job.nodes_fit_errors = fields.job_fit_errors, fields.nodes_fit_errors


def _chosen(columns: PodColumns, wanted: list[bool]) -> PodColumns:
    """The columns with only the wanted rows."""
    numbers = {old: new for new, old in enumerate(compress(range(len(wanted)), wanted))} if columns.claims else {}
    lists = [list(compress(column, wanted)) for column in msgspec.structs.astuple(columns)[:-1]]
    claims = {numbers[row]: names for row, names in columns.claims.items() if row in numbers}
    return msgspec.convert([*lists, claims], PodColumns)


def _follow(holder: JobInfo | NodeInfo, following: Following) -> None:
    """Add a task that is made when somebody looks."""
    if holder.following is None:
        holder.following = [following]
    else:
        holder.following.append(following)


def _retries(queue: dict[str, tuple[int, int]]) -> dict[str, Retry]:
    return {key: Retry(due, attempts) for key, (due, attempts) in queue.items()}


def _remove_task(job: JobInfo, uid: str) -> None:
    task = job.tasks.pop(uid, None)
    if task is not None:
        index = job.tasks_by_status.get(task.status)
        if index is not None and index.get(uid) is task:
            del index[uid]
            if not index:
                del job.tasks_by_status[task.status]


def _add_task(job: JobInfo, task: TaskInfo) -> None:
    job.tasks[task.uid] = task
    index = job.tasks_by_status.get(task.status)
    if index is None:
        job.tasks_by_status[task.status] = {task.uid: task}
    else:
        index[task.uid] = task


__all__ = ["LastGiven", "Reader", "as_it_is", "from_row", "last_given", "pod_keys"]
