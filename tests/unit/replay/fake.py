"""A decider for tests: lets every group in and places gangs first-fit by cpu and memory, in the order of names.

Pure and small, so that a test of the replay does not depend on what the session finds best.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from projections.cache import Cache
from projections.cache.state import JobInfo, PodRef, TaskInfo
from vcledger.replay.deciding import PodOf
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.outcome import Enqueued, Evicted, Outcome, Placed, Unfit
from volcano.events.base import DomainEvent, Subject
from volcano.events.scheduling import CycleEnded, CycleStarted, TaskAllocated, TaskUnschedulable
from volcano.objects.resource import Resource
from volcano.objects.status import TaskStatus

PENDING = int(TaskStatus.PENDING)


class FirstFit:
    """`evicts` names pods ('ns/name') that are evicted in the first cycle in which they run, `refuses` jobs ('ns/name')
    that are not served."""

    def __init__(
        self, cache: Cache, pod_of: PodOf, evicts: Collection[str] = (), refuses: Collection[str] = ()
    ) -> None:
        self.refuses = refuses
        self.cache, self.pod_of, self.evicts = cache, pod_of, list(evicts)
        self.touched: list[tuple[str, str, str]] = []

    def touch(self, kind: str, namespace: str, name: str) -> None:
        self.touched.append((kind, namespace, name))

    def decide(self, now: int, cycle: int, only: Collection[str] | None = None) -> Outcome:
        outcome = Outcome(cycle, 0, ("enqueue", "allocate"))
        free = {name: info.idle.clone() for name, info in sorted(self.cache.nodes.items()) if info.node is not None}
        for key, job in sorted(self.cache.jobs.items()):
            group = job.pod_group
            if group is None or job.queue not in self.cache.queues or (only is not None and key not in only):
                continue
            if key in self.refuses:
                continue
            if (group.status.phase or "Pending") == "Pending":
                outcome.decisions.append(Enqueued(key))
            self._place(job, free, outcome)
        self._evict(outcome)
        return outcome

    def _place(self, job: JobInfo, free: dict[str, Resource], outcome: Outcome) -> None:
        trial = {name: idle.clone() for name, idle in free.items()}
        placed: list[Placed] = []
        for task in sorted(job.tasks_by_status.get(PENDING, {}).values(), key=lambda one: one.key):
            if task.gated:
                continue
            node = next((name for name, idle in trial.items() if task.resreq.less_equal(with_pods(idle))), None)
            if node is None:
                outcome.unfit[task.uid] = Unfit(session_task(task), "Unschedulable", "no room")
                continue
            trial[node].subtract_unchecked(task.resreq)
            placed.append(Placed(session_task(task), node))
        if placed and job.ready_task_num + len(placed) >= job.min_available:
            free.update(trial)
            outcome.decisions += placed

    def _evict(self, outcome: Outcome) -> None:
        for key in list(self.evicts):
            ref = self.cache.pods.get(key)
            if ref is not None and ref.phase == "Running":
                task = self.cache.jobs[ref.job].tasks[ref.uid]
                outcome.decisions.append(Evicted(session_task(task), ref.node_name, "preempt", "preempt"))
                self.evicts.remove(key)

    def events(self, outcome: Outcome) -> list[tuple[Subject, DomainEvent]]:
        found: list[tuple[Subject, DomainEvent]] = [(Subject("Scheduler"), CycleStarted(cycle=outcome.cycle))]
        for decision in outcome.decisions:
            if isinstance(decision, Placed):
                task = decision.task
                subject = Subject("Pod", task.namespace, task.name, task.uid)
                found.append((subject, TaskAllocated(job=task.job, node=decision.node)))
        for unfit in outcome.unfit.values():
            task = unfit.task
            event = TaskUnschedulable(job=task.job, reason=unfit.reason, message=unfit.message)
            found.append((Subject("Pod", task.namespace, task.name, task.uid), event))
        found.append((Subject("Scheduler"), CycleEnded(cycle=outcome.cycle)))
        return found

    def waiting(self) -> list[str]:
        return sorted(key for key, job in self.cache.jobs.items() if job.tasks_by_status.get(PENDING))

    def refused(self, ref: PodRef, node: str) -> tuple[str, ...]:
        info = self.cache.nodes.get(node)
        if info is None or not ref.request.less_equal(with_pods(info.future_idle())):
            return ("no room",)
        return ()


def with_pods(idle: Resource) -> Resource:
    """Idle room without a limit on the number of pods."""
    room = idle.clone()
    room.scalars = {**(room.scalars or {}), "pods": 1e9}
    return room


def session_task(task: TaskInfo) -> SessionTask:
    return SessionTask(task.uid, task.namespace, task.name, task.job, task.status, task.node_name, np.zeros(0))
