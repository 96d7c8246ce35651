"""Small sessions made by hand, for the plugins' tests: amounts in cores and Gi, everything else left at its default."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projections.cache.state import NodeInfo
from vcledger.scheduler.session.conf import PluginConf, SessionConf, read_conf
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import INFINITE, Resources, SessionJob, SessionQueue, SessionTask, Vector
from vcledger.scheduler.session.nodes import NodeTable
from vcledger.scheduler.session.plugins import BUILTIN
from volcano.objects.core import Node, NodeSpec, Pod, Taint
from volcano.objects.meta import ObjectMeta
from volcano.objects.scheduling import PodGroup, Queue
from volcano.objects.status import ALLOCATED_STATUSES, TaskStatus

GI = 1 << 30
EXTRA = ("nvidia.com/gpu",)


class RoomOnly:
    """Predicates that let everything through: a session of these tests knows only room."""

    def __init__(self, ssn: Session) -> None:
        self.ssn = ssn
        self.never: set[str] = set()

    def resolvable(self, task: SessionTask) -> NDArray[np.intp]:
        names = self.ssn.nodes.names
        return np.array([row for row, name in enumerate(names) if name not in self.never], dtype=np.intp)

    def fits_now(self, task: SessionTask, row: int) -> bool:
        return self.ssn.nodes.names[row] not in self.never

    def come(self, *_: object) -> None:
        """Nothing is kept."""

    leave = stay = go_back = take_volumes = come


class Small:
    """A session in the making. `amount` makes vectors, `queue`, `job`, `task` and `node` add what they make; `open`
    makes the session with some plugins, one tier each unless `tiers` are given."""

    def __init__(self) -> None:
        self.resources = Resources()
        for name in EXTRA:
            self.resources.add(name)
        self.jobs: dict[str, SessionJob] = {}
        self.queues: dict[str, SessionQueue] = {}
        self.pods: dict[str, Pod] = {}
        self._nodes: dict[str, tuple[Vector, Node]] = {}
        self._placed: list[SessionTask] = []

    def amount(self, cpu: float = 0, memory: float = 0, gpu: float = 0, pods: float = 0) -> Vector:
        made: Vector = np.array([cpu * 1000.0, memory * GI, float(pods), gpu * 1000.0])
        return made

    def node(self, name: str, cpu: float, memory: float, *, gpu: float = 0, **more: Any) -> None:
        taints = [Taint(key=key, effect=effect) for key, effect in more.get("taints", ())]
        meta = ObjectMeta(name=name, labels=more.get("labels"))
        node = Node(metadata=meta, spec=NodeSpec(taints=taints or None))
        self._nodes[name] = self.amount(cpu, memory, gpu, pods=110), node

    def queue(self, name: str, weight: int = 1, **more: Any) -> SessionQueue:
        zero = self.amount()
        limit = np.full(len(zero), INFINITE)
        made = SessionQueue(
            name=name,
            queue=Queue(metadata=ObjectMeta(name=name, uid=name)),
            weight=weight,
            capability=more.pop("capability", limit),
            guarantee=more.pop("guarantee", zero),
            deserved=more.pop("deserved", zero),
            allocated=zero,
            requested=zero,
            inqueue=zero,
            elastic=zero,
            **more,
        )
        self.queues[name] = made
        return made

    def job(self, name: str, queue: str = "default", **more: Any) -> SessionJob:
        if queue not in self.queues:
            self.queue(queue)
        more.setdefault("allocated", self.amount())
        more.setdefault("phase", "Inqueue")
        group = PodGroup(metadata=ObjectMeta(name=name, namespace="ns", uid=name))
        made = SessionJob(uid=f"ns/{name}", namespace="ns", name=name, queue=queue, pod_group=group, **more)
        self.jobs[made.uid] = made
        self.queues[queue].has_jobs = True
        return made

    def task(
        self, job: SessionJob, name: str, cpu: float = 1, memory: float = 0, *, on: str = "", **more: Any
    ) -> SessionTask:
        """Running where `on` says, pending without; other statuses by `status`. Counted in the job and its queue."""
        status = more.pop("status", TaskStatus.RUNNING if on else TaskStatus.PENDING)
        request = self.amount(cpu, memory, more.pop("gpu", 0), more.pop("pods", 0))
        pod = more.pop("pod", Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=name)))
        made = SessionTask(
            uid=name, namespace="ns", name=name, job=job.uid, status=int(status), node=on, request=request, **more
        )
        job.add(made)
        self.pods[name] = pod
        queue = self.queues[job.queue]
        if status in ALLOCATED_STATUSES:
            job.allocated = job.allocated + request
            queue.allocated = queue.allocated + request
            queue.requested = queue.requested + request
        elif status == TaskStatus.PENDING:
            queue.requested = queue.requested + request
        if on:
            self._placed.append(made)
        return made

    def open(self, *plugins: str, arguments: Mapping[str, Mapping[str, Any]] | None = None, **more: Any) -> Session:
        """`conf`, a configuration's text, in place of plugins; `tiers` in place of one tier for each plugin."""
        tiers: Sequence[Sequence[str]] = more.pop("tiers", [[name] for name in plugins])
        known = arguments or {}
        known_plugins: Collection[str] = more.pop("known", BUILTIN)
        conf = SessionConf(
            ("enqueue", "allocate"),
            tuple(tuple(PluginConf(name, {}, known.get(name, {})) for name in tier) for tier in tiers),
        )
        if "conf" in more:
            conf = read_conf(more.pop("conf"))
        nodes = NodeTable(self.resources, self._nodes)
        for name, (amount, node) in self._nodes.items():
            row = nodes.row[name]
            nodes.allocatable[row] = nodes.idle[row] = amount
            nodes.pods_max[row] = 110
            nodes.infos[row] = NodeInfo(name=name, held=node)
        for task in self._placed:
            row = nodes.row[task.node]
            nodes.take(row, task)
            if task.status == TaskStatus.RELEASING:
                nodes.release(row, task.request)
        total = nodes.allocatable.sum(axis=0) if len(nodes) else self.amount()
        pods = self.pods
        ssn = Session(
            conf, self.resources, nodes, self.jobs, self.queues, total, pod_of=lambda task: pods.get(task.uid), **more
        )
        ssn.unadmitted = {uid: job for uid, job in self.jobs.items() if job.phase in {"", "Pending"}}
        ssn.waiting = {uid: job for uid, job in self.jobs.items() if job.pending()}
        ssn.feasible = RoomOnly(ssn)
        for one in conf.plugins():
            if one.name in known_plugins:
                BUILTIN[one.name](one.arguments).on_open(ssn)
        return ssn
