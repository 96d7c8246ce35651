"""The session: its jobs, queues and nodes, and the extension points at which plugins take part, tier by tier.

Owns the dispatch. Must not know any plugin nor action. Made by `run`; plugins register with `Session.add` when it
opens, actions ask it.

Source: Volcano's pkg/scheduler/framework (session.go, session_plugins.go).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from projections.diagnosis.views import PlacedPod
from vcledger.scheduler.session.conf import SessionConf
from vcledger.scheduler.session.model import Resources, SessionJob, SessionQueue, SessionTask, Vector
from vcledger.scheduler.session.sampling import Looks
from volcano.objects.core import Pod, ResourceQuota

if TYPE_CHECKING:
    from vcledger.scheduler.session.nodes import NodeTable

PERMIT, ABSTAIN, REJECT = 1, 0, -1
"""What a plugin says of a job that would enter its queue, or that would count as pipelined."""

POINTS: dict[str, str] = {
    "job_order": "enableJobOrder",
    "queue_order": "enableQueueOrder",
    "victim_queue_order": "enableQueueOrder",
    "task_order": "enableTaskOrder",
    "predicate": "enablePredicate",
    "node_order": "enableNodeOrder",
    "batch_node_order": "enableNodeOrder",
    "preemptable": "enablePreemptable",
    "reclaimable": "enableReclaimable",
    "preemptive": "enablePreemptive",
    "overused": "enableOverused",
    "allocatable": "enableAllocatable",
    "job_ready": "enableJobReady",
    "job_pipelined": "enableJobPipelined",
    "job_valid": "",
    "job_enqueueable": "enableJobEnqueued",
    "job_enqueued": "enableJobEnqueued",
    "job_starving": "enableJobStarving",
}
"""Each extension point with the switch that turns it off for a plugin; '' for none. The functions:

job_order, task_order                     (left, right) -> -1, 0 or 1; less comes first (with a key, see Session.add)
queue_order                               (left, right) -> the same
victim_queue_order                        (left, right, preemptor queue) -> the same
predicate                                 (task) -> NDArray[bool] over the node table, or None for no opinion
node_order                                (task, rows) -> NDArray[float] of scores, one for each row; a row's score
                                          follows from that node and from task.like alone, so that it is kept until
                                          the node changes
batch_node_order                          (task, rows) -> the same over the nodes that may take the task, compared
                                          with each other; None for no opinion
preemptable, reclaimable                  (preemptor task, candidates) -> victims among them, or None for no opinion
preemptive                                (queue, preemptor task) -> whether the queue may take from others
overused                                  (queue) -> whether it gets nothing more
allocatable                               (queue, task) -> whether it may hold the task too
job_ready, job_starving                   (job) -> whether
job_pipelined, job_enqueueable            (job) -> PERMIT, ABSTAIN or REJECT
job_valid                                 (job) -> None, or (reason, message) why the job is passed over
job_enqueued                              (job) -> None; the job has been taken into its queue
"""


class Plugin(Protocol):
    """What takes part in a session. A new one is made for each session."""

    name: str

    def on_open(self, ssn: Session) -> None:
        """Registers its functions and handlers."""

    def on_close(self, ssn: Session) -> None:
        """The session ends."""


PluginFactory = Callable[[Mapping[str, Any]], Plugin]
"""Makes a plugin from its arguments in the configuration."""


Chooser = Callable[[SessionTask, NDArray[np.intp], NDArray[np.float64]], int | None]
"""Takes the place of the seed: of the rows of nodes that would do for a task, with the score of each, the one that it
is to have, or None for the seed's. For preempt and reclaim, where the nodes are tried in turn, the one that is tried
first, of those with any score but -inf: on the others no eviction could make room."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """Called after a task has been given a place (allocated or pipelined), and after one has lost it (evicted or given
    back)."""

    allocate: Callable[[SessionTask], None]
    deallocate: Callable[[SessionTask], None]


class Session:
    """One cycle's world. `jobs` are those with a PodGroup and a queue that there is; `total` is all that the nodes
    have. `blocked` says why the gate of a queue holds a job back (text with numbers, for the events), by job uid.
    `pod_of` gives a task's object, which plugins read only what the task itself lacks from; `kept_of` what is known of
    one on a node whose object is not at hand. `checks` are the families of predicates that the predicates plugin has
    switched on, None without that plugin: then only room counts.

    `waiting` are the jobs that have pending tasks, `unadmitted` those that have not been taken into their queue:
    whoever goes through jobs goes through these, as a session has many others. `feasible` answers where a task may go.
    `done` are the operations that stand, in their order, by their id; `held` what the jobs concerned had before.
    `quotas` are the ResourceQuotas, by namespace and name; `looks` says at which nodes a task looks.
    `chooser` decides on nodes in place of scores and seed. `spared` are tasks (UIDs) that are not to be evicted,
    whatever the plugins say; `promised` the tasks (UIDs) that evictions of an earlier cycle make room for, with their
    nodes. `anew`: a pod preempts again when the node that its status names is gone."""

    def __init__(
        self,
        conf: SessionConf,
        resources: Resources,
        nodes: NodeTable,
        jobs: dict[str, SessionJob],
        queues: dict[str, SessionQueue],
        total: Vector,
        *,
        seed: int = 0,
        now: int = 0,
        pod_of: Callable[[SessionTask], Pod | None] = lambda task: None,
        kept_of: Callable[[SessionTask], PlacedPod | None] = lambda task: None,
    ) -> None:
        self.conf, self.resources, self.nodes, self.jobs, self.queues = conf, resources, nodes, jobs, queues
        self.total, self.seed, self.now, self.pod_of, self.kept_of = total, seed, now, pod_of, kept_of
        self.checks: frozenset[str] | None = None
        self.handlers: list[Handlers] = []
        self.blocked: dict[str, str] = {}
        self.waiting: Mapping[str, SessionJob] = jobs
        self.unadmitted: Mapping[str, SessionJob] = jobs
        self.read: Callable[[SessionTask], None] = lambda task: None
        self.feasible: Any = None
        self.chooser: Chooser | None = None
        self.spared: Collection[str] = ()
        self.promised: Mapping[str, str] = {}
        self.anew = False
        self.done: dict[int, Any] = {}
        self.held: dict[str, Vector] = {}
        self.quotas: Mapping[str, ResourceQuota] = {}
        self.looks = Looks(nodes, conf.sampling, seed, self.tie)
        self._functions: dict[str, dict[str, Callable[..., Any]]] = {point: {} for point in POINTS}
        self._tiers: dict[str, list[list[Callable[..., Any]]]] = {}
        self._flat: dict[str, list[Callable[..., Any]]] = {}
        self._keys: dict[Callable[..., Any], Callable[[Any], Any]] = {}

    # --- registering ----------------------------------------------------------------------------------------------

    def add(
        self, point: str, plugin: str, function: Callable[..., Any], key: Callable[[Any], Any] | None = None
    ) -> None:
        """A plugin's function at an extension point of POINTS. An order may give the `key` by which it orders too, so
        that a sort need not ask it for each pair: less is first, and the key of one changes only with what is done for
        itself."""
        self._functions[point][plugin] = function
        if key is not None:
            self._keys[function] = key
        self._tiers.pop(point, None)
        self._flat.pop(point, None)

    def on_change(self, allocate: Callable[[SessionTask], None], deallocate: Callable[[SessionTask], None]) -> None:
        """A plugin's handlers of places given and taken."""
        self.handlers.append(Handlers(allocate, deallocate))

    def tiers(self, point: str) -> list[list[Callable[..., Any]]]:
        """The functions at a point, tier by tier, those switched off left out, and tiers without any too."""
        found = self._tiers.get(point)
        if found is None:
            switch, functions = POINTS[point], self._functions[point]
            found = [
                [functions[one.name] for one in tier if one.name in functions and (not switch or one.is_on(switch))]
                for tier in self.conf.tiers
            ]
            found = self._tiers[point] = [tier for tier in found if tier]
        return found

    def functions(self, point: str) -> list[Callable[..., Any]]:
        """The same without the tiers."""
        found = self._flat.get(point)
        if found is None:
            found = self._flat[point] = [function for tier in self.tiers(point) for function in tier]
        return found

    # --- orders ---------------------------------------------------------------------------------------------------

    def compare_jobs(self, left: SessionJob, right: SessionJob) -> int:
        """Less than 0: left comes first. The first plugin that tells them apart decides, then age, then uid."""
        return self.rank_jobs(left, right) or _by_age(left, right)

    def rank_jobs(self, left: SessionJob, right: SessionJob) -> int:
        """The same by the plugins alone: 0 for jobs that none tells apart."""
        return self._compare("job_order", left, right)

    def compare_queues(self, left: SessionQueue, right: SessionQueue) -> int:
        """The same for queues."""
        found = self._compare("queue_order", left, right)
        if found:
            return found
        ages = left.queue.metadata.creation_timestamp or "", right.queue.metadata.creation_timestamp or ""
        return _sign(*ages) or _sign(left.queue.metadata.uid, right.queue.metadata.uid)

    def compare_tasks(self, left: SessionTask, right: SessionTask) -> int:
        """The same for tasks; then the index in the job, age and uid (helpers.CompareTask)."""
        if left.unread:
            self.read(left)
        if right.unread:
            self.read(right)
        return (
            self._compare("task_order", left, right)
            or _sign(left.index, right.index)
            or _sign(left.created, right.created)
            or _sign(left.uid, right.uid)
        )

    def _compare(self, point: str, left: object, right: object) -> int:
        for function in self.functions(point):
            found: int = function(left, right)
            if found:
                return found
        return 0

    @property
    def job_key(self) -> Callable[[SessionJob], Any]:
        """The key of `compare_jobs`, for as long as nobody adds to the session."""
        keys = self._keys_of("job_order")
        if keys is None:
            return cmp_to_key(self.compare_jobs)
        return lambda job: (*[key(job) for key in keys], job.created, job.uid)

    @property
    def queue_key(self) -> Callable[[SessionQueue], Any]:
        """The key of `compare_queues`: asked pair by pair, as one queue's share changes another's."""
        return cmp_to_key(self.compare_queues)

    @property
    def task_key(self) -> Callable[[SessionTask], Any]:
        """The key of `compare_tasks`."""
        keys = self._keys_of("task_order")
        if keys is None:
            return cmp_to_key(self.compare_tasks)

        def of(task: SessionTask) -> Any:
            if task.unread:
                self.read(task)
            return (*[key(task) for key in keys], task.index, task.created, task.uid)

        return of

    def _keys_of(self, point: str) -> list[Callable[[Any], Any]] | None:
        """The keys of all functions at a point; None where one has none."""
        functions = self.functions(point)
        if all(function in self._keys for function in functions):
            return [self._keys[function] for function in functions]
        return None

    # --- questions ------------------------------------------------------------------------------------------------

    def overused(self, queue: SessionQueue) -> bool:
        """Whether any plugin says that the queue gets nothing more."""
        return any(function(queue) for function in self.functions("overused"))

    def allocatable(self, queue: SessionQueue, task: SessionTask) -> bool:
        """Whether all plugins let the queue hold the task too."""
        return all(function(queue, task) for function in self.functions("allocatable"))

    def preemptive(self, queue: SessionQueue, task: SessionTask) -> bool:
        """Whether all plugins let the queue take from others for the task."""
        return all(function(queue, task) for function in self.functions("preemptive"))

    def job_ready(self, job: SessionJob) -> bool:
        """Whether all plugins hold the gang for satisfied."""
        return all(function(job) for function in self.functions("job_ready"))

    def job_starving(self, job: SessionJob) -> bool:
        """Whether the job lacks members: in the first tier that has an opinion all must say so."""
        for tier in self.tiers("job_starving"):
            return all(function(job) for function in tier)
        return False

    def job_pipelined(self, job: SessionJob) -> bool:
        """Votes, tier by tier: one that rejects decides, then one that permits; with no vote at all, yes."""
        return self._vote("job_pipelined", job)

    def job_enqueueable(self, job: SessionJob) -> bool:
        """The same for a job that would be taken into its queue."""
        return self._vote("job_enqueueable", job)

    def _vote(self, point: str, job: SessionJob) -> bool:
        for tier in self.tiers(point):
            permitted = False
            for function in tier:
                vote: int = function(job)
                if vote < 0:
                    return False
                permitted = permitted or vote > 0
            if permitted:
                return True
        return True

    def job_valid(self, job: SessionJob) -> tuple[str, str] | None:
        """None, or the first reason and message why the job is passed over."""
        for function in self.functions("job_valid"):
            found: tuple[str, str] | None = function(job)
            if found is not None:
                return found
        return None

    def job_enqueued(self, job: SessionJob) -> None:
        """Tells the plugins that the job has been taken into its queue."""
        for function in self.functions("job_enqueued"):
            function(job)

    def victims(self, point: str, preemptor: SessionTask, candidates: Sequence[SessionTask]) -> list[SessionTask]:
        """Those among the candidates that may go: what the plugins of a tier agree on, in the first tier that leaves
        any. A plugin that lets nobody go ends its tier, and so leaves it to the next one, as in Volcano
        (Session.Preemptable, Reclaimable). `point`: preemptable or reclaimable."""
        agreed: list[SessionTask] = []
        for tier in self.tiers(point):
            for function in tier:
                found: Sequence[SessionTask] | None = function(preemptor, candidates)
                if found is None:
                    continue
                if not found:
                    agreed = []
                    break
                chosen = {task.uid for task in found}
                agreed = [task for task in agreed if task.uid in chosen] if agreed else list(found)
            if agreed:
                return agreed
        return []

    def scores(self, task: SessionTask, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """The sum of all plugins' scores for some rows of the node table, those that may take the task."""
        added = np.zeros(len(rows))
        for function in self.functions("node_order"):
            added += function(task, rows)
        for function in self.functions("batch_node_order"):
            more = function(task, rows)
            if more is not None:
                added += more
        return added

    def tie(self, *names: str) -> int:
        """A number that decides between equals: the same for the same seed and names, with no order otherwise."""
        text = "\x00".join((str(self.seed), *names)).encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


def _by_age(left: SessionJob, right: SessionJob) -> int:
    return _sign(left.created, right.created) or _sign(left.uid, right.uid)


def _sign(left: Any, right: Any) -> int:
    return -1 if left < right else int(left > right)


__all__ = ["ABSTAIN", "PERMIT", "POINTS", "REJECT", "Handlers", "Plugin", "PluginFactory", "Session"]
