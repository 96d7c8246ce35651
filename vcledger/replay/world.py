"""The simulated cluster of a free replay: what its events made of it, and what is due.

Owns the fold of a result ledger: the cache, the pods' lives here, the groups let in, and the agenda of what follows by
itself. Nothing of it changes but by an event of the result ledger, so an interrupted replay goes on from the ledger
alone. Must not know what is decided nor how events are written. Called by `vcledger.replay.free`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any, Literal

from projections.cache import Cache, CacheConfig
from projections.cache.brief import decode_brief
from projections.cache.fold import evolve
from projections.cache.state import PodRef
from vcledger.replay import binds, policies
from vcledger.replay.courses import Course, Spans
from vcledger.replay.figures import Meter
from vcledger.replay.living import HELD_BACK, Alive, Placing, Standing, controlled, key_of, repeatable, templated
from vcledger.replay.record import ENDED, Record, decode, job_owner, told_to_go
from vcledger.replay.result import made_uid
from volcano.events.base import DomainEvent, Recorded, Subject
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified
from volcano.events.scheduling import (
    JobConsidered,
    TaskAllocated,
    TaskUnschedulable,
)
from volcano.objects import kinds
from volcano.objects.core import Pod

Deed = Literal["arrive", "bind", "run", "end", "go", "kill", "again", "drop-group"]
STRUCTS: dict[str, type[DomainEvent]] = {"ADDED": ObjectAdded, "MODIFIED": ObjectModified, "DELETED": ObjectDeleted}
OBJECTS = {"ObjectAdded": "ADDED", "ObjectModified": "MODIFIED", "ObjectDeleted": "DELETED"}


class World:
    """The state of the simulated cluster. `agenda` is a heap of (time, number, deed, uid)."""

    def __init__(
        self,
        record: Record,
        courses: list[Course],
        spans: Spans,
        seed: int,
        model: str,
        config: CacheConfig,
        touch: Callable[[str, str, str], None] = lambda kind, namespace, name: None,
    ) -> None:
        self.record, self.spans, self.seed = record, spans, seed
        self.cache = Cache(model, config)
        self.touch = touch
        self.courses = {course.uid: course for course in courses}
        self.course_of: dict[str, Course] = dict(self.courses)
        self.pods: dict[str, Alive] = {}
        self.by_key: dict[str, Alive] = {}
        self.groups: dict[str, Standing] = {}
        self.group_at: dict[str, Standing] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.agenda: list[tuple[int, int, Deed, str]] = []
        self.closed: dict[str, int] = {}
        self.placings: dict[str, Placing] = {}
        self.said: dict[str, str] = {}
        self.jobs_said: dict[str, str] = {}
        self.held_back: dict[str, str] = {}
        self.on_node: dict[str, dict[str, None]] = {}
        self.evictions = self.broken = self.placed_count = self.last_seen = 0
        self.waited: list[tuple[str, int]] = []
        self.unplaced: dict[str, None] = {}
        self.binding: dict[str, Alive] = {}
        self.to_restart: dict[str, None] = {}
        self.restarts: dict[str, int] = {}
        self.ended_jobs: dict[str, str] = {}
        self.not_let_in: dict[str, None] = {}
        self.meter = Meter()
        self.dirty = True
        self.changed_jobs: dict[str, None] = {}
        self._payloads: dict[str, tuple[int, bytes]] = {}
        self._read: dict[str, tuple[int, Pod]] = {}
        self.came: dict[str, None] = {}
        self._name_taken: dict[str, list[str]] = {}
        self._number = 0
        self._course_of_life = {life.uid: course.uid for course in courses for life in course.lives}
        self._gated: dict[str, list[Course]] = {}
        self._after: dict[str, list[Course]] = {}
        for course in courses:
            if course.gate is not None:
                self._gated.setdefault(course.gate[0], []).append(course)
            elif course.after is not None:
                self._after.setdefault(course.after[0], []).append(course)

    # --- what others ask ------------------------------------------------------------------------------------------

    def pod_of(self, ref: PodRef) -> Pod | None:
        """The object of a pod of the cache."""
        key = f"{ref.namespace}/{ref.name}"
        held = self._payloads.get(key)
        if held is None:
            return None
        known = self._read.get(key)
        if known is None or known[0] != held[0]:
            known = self._read[key] = held[0], kinds.decode("Pod", held[1])
        return known[1]

    def due(self) -> int | None:
        """When the next thing on the agenda happens."""
        return self.agenda[0][0] if self.agenda else None

    def take_due(self, now: int) -> Iterator[tuple[Deed, str]]:
        """What is due, one by one; what it leads to may be due at once, too."""
        while self.agenda and self.agenda[0][0] <= now:
            _, _, deed, uid = heappop(self.agenda)
            yield deed, uid

    def forget_until(self, now: int) -> None:
        """Drops what has happened already, when a result ledger was read that reaches to `now`; who could not come
        then, as the name was taken, still waits for it."""
        due = [uid for deed, uid in self.take_due(now) if deed in ("arrive", "again")]
        due += [uid for uid, course in self.courses.items() if course.arrive is not None and course.arrive <= now]
        for uid in due:
            course = self.course_of[uid]
            if uid not in self.came and course.uid not in self.closed and course.key in self.by_key:
                self.wait_for_name(course, uid)

    def wait_for_name(self, course: Course, uid: str) -> None:
        """A pod comes once the one that has its name is gone."""
        self._name_taken.setdefault(course.key, []).append(uid)

    def plan(self, time: int, deed: Deed, uid: str) -> None:
        """Something is to happen by itself."""
        self._number += 1
        heappush(self.agenda, (time, self._number, deed, uid))

    # --- the fold -------------------------------------------------------------------------------------------------

    def see(self, recorded: Recorded, payload: bytes) -> None:
        """One event of a result ledger, as it was stored."""
        change = OBJECTS.get(type(recorded.event).__name__)
        if change is not None:
            self.observe(recorded.position, recorded.observed_at, recorded.kind, change, decode(payload), payload)
        else:
            self.hear(recorded.observed_at, recorded.subject, recorded.event)

    def hear(self, now: int, subject: Subject, event: DomainEvent) -> None:
        """What a cycle said. A place that is given begins a bind, where that takes time."""
        text, key = repeatable(event), key_of(subject, event)
        if text is not None:
            self.said[key] = text
        else:
            self.said.pop(key, None)
        if isinstance(event, JobConsidered):
            self.jobs_said[event.job] = event.message or event.reason or event.outcome
            self.held_back.pop(event.job, None)
            if event.outcome in HELD_BACK:
                self.held_back[event.job] = self.jobs_said[event.job]
            return
        course = self.course_of.get(subject.uid)
        if course is None:
            return
        if isinstance(event, TaskUnschedulable):
            self.placings[course.uid].said = event.message
        elif isinstance(event, TaskAllocated) and self.placings[course.uid].placed is None:
            self.placings[course.uid].score = event.score
        pod = self.pods.get(subject.uid)
        if isinstance(event, TaskAllocated) and pod is not None:
            binds.begin(self, pod, event.node, now)

    def observe(self, position: int, now: int, kind: str, change: str, obj: dict[str, Any], payload: bytes) -> None:
        """An object added, changed or gone at `position` of the result ledger."""
        meta = obj["metadata"]
        namespace, name, uid = meta.get("namespace") or "", meta["name"], meta.get("uid") or ""
        if kind == "Pod":
            self._before_pod(now, change, uid, obj)
        self._fold(position, now, kind, change, (namespace, name, uid), payload)
        if kind == "Pod":
            self._see_pod(position, now, change, uid, obj, payload)
        elif kind == "PodGroup":
            self._see_group(now, change, f"{namespace}/{name}", obj)
        elif kind == "VolcanoJob":
            self._see_job(now, change, uid, obj)
        elif kind == "Node":
            self.meter.node(now, name, self._room(name))
            if change == "DELETED":
                self._lose_node(now, name)
        self.dirty = True
        self.last_seen = now

    def _fold(self, position: int, now: int, kind: str, change: str, at: tuple[str, str, str], payload: bytes) -> None:
        read = decode_brief if kind == "Pod" else kinds.DECODERS[kind].decode
        event = STRUCTS[change](object=read(payload))
        version = None if change == "DELETED" else position
        evolve(self.cache, Recorded(position, "", kind, *at, now, 0, False, version, None, None, event))
        self.touch(kind, at[0], at[1])

    # --- pods -----------------------------------------------------------------------------------------------------

    def _before_pod(self, now: int, change: str, uid: str, obj: dict[str, Any]) -> None:
        """A gang breaks when a member that ran is taken from it, and too few are left."""
        pod = self.pods.get(uid)
        if pod is None or pod.placed is None or pod.ended is not None or pod.going:
            return
        taken = (change == "MODIFIED" and told_to_go(obj["status"].get("conditions") or [])) or (
            change == "DELETED" and pod.node not in self.cache.node_objects
        )
        job = self.cache.jobs.get(pod.course.group)
        if taken and job is not None and job.ready_task_num == job.min_available > 0:
            self.broken += 1

    def _see_pod(self, position: int, now: int, change: str, uid: str, obj: dict[str, Any], payload: bytes) -> None:
        meta = obj["metadata"]
        key = f"{meta.get('namespace')}/{meta['name']}"
        if change == "DELETED":
            self._payloads.pop(key, None)
            self._read.pop(key, None)
        else:
            self._payloads[key] = position, payload
        course = self.course_of.get(uid)
        if course is None:
            return
        self.changed_jobs[course.group] = None
        pod = self.pods.get(uid)
        if pod is None:
            if change == "DELETED":
                return
            pod = self.pods[uid] = self.by_key[key] = Alive(uid, course, obj, now)
            self.unplaced[uid] = self.came[uid] = None
            self._arrived(pod, now)
        pod.obj, pod.position = obj, position
        if change == "DELETED":
            self._gone(pod, now)
        else:
            self._lives(pod, now)

    def _arrived(self, pod: Alive, now: int) -> None:
        placing = self.placings.setdefault(pod.course.uid, Placing())
        if placing.arrived is None:
            placing.arrived = now
        job = self.cache.jobs.get(pod.course.group)
        placing.queue = job.queue if job is not None else ""

    def _lives(self, pod: Alive, now: int) -> None:
        """What a pod's new state leads to."""
        course, spec, status = pod.course, pod.obj["spec"], pod.obj["status"]
        phase = status.get("phase") or ""
        if pod.placed is None and spec.get("nodeName"):
            self._placed(pod, now, spec["nodeName"])
            if phase == "Pending":
                self.plan(now + course.delay, "run", pod.uid)
        if pod.running is None and phase == "Running":
            pod.running = now
            if course.run is not None:
                self.plan(now + course.run, "end" if course.phase else "go", pod.uid)
        if pod.ended is None and phase in ENDED:
            pod.ended = now
            self._leave(pod, now)
            if course.linger is not None:
                self.plan(now + course.linger, "go", pod.uid)
            self.close(course, now)
        if not pod.evicted and told_to_go(status.get("conditions") or []):
            pod.evicted = True
            self.evictions += 1
        if not pod.going and pod.obj["metadata"].get("deletionTimestamp"):
            pod.going = True
            self.plan(now + self.grace_of(pod), "go", pod.uid)

    def grace_of(self, pod: Alive) -> int:
        """From being told to go to being gone."""
        return pod.course.grace or self.spans.grace

    def node_lost(self, pod: Alive) -> bool:
        """Whether the pod was still to do something on a node that is not there any more."""
        return bool(pod.node) and pod.node not in self.cache.node_objects and pod.ended is None

    def _placed(self, pod: Alive, now: int, node: str) -> None:
        binds.over(self, pod)
        pod.placed, pod.node = now, node
        self.unplaced.pop(pod.uid, None)
        self.placed_count += 1
        ref = self.cache.pods.get(pod.key)
        if ref is not None:
            pod.holds = ref.request.amounts()
            self.meter.take(now, pod.holds)
        self.on_node.setdefault(node, {})[pod.uid] = None
        placing = self.placings[pod.course.uid]
        if placing.placed is None:
            placing.placed, placing.node, placing.position = now, node, pod.position
        job = self.cache.jobs.get(pod.course.group)
        if job is not None:
            placing.queue = job.queue
        if not (pod.course.kept and pod.uid == pod.course.uid):
            self.waited.append((placing.queue, now - pod.created))

    def _leave(self, pod: Alive, now: int) -> None:
        if self.on_node.get(pod.node, {}).pop(pod.uid, False) is None:
            self.meter.give_back(now, pod.holds)

    def _gone(self, pod: Alive, now: int) -> None:
        course = pod.course
        self._leave(pod, now)
        binds.over(self, pod)
        self.unplaced.pop(pod.uid, None)
        del self.pods[pod.uid]
        if self.by_key.get(pod.key) is pod:
            del self.by_key[pod.key]
            for uid in self._name_taken.pop(pod.key, ()):
                self.plan(now, "arrive" if uid in self.courses else "again", uid)
        if self._comes_back(pod, now):
            uid = made_uid(self.seed, "again", pod.uid)
            self.course_of[uid] = course
            self.plan(now + self.spans.again, "again", uid)
            return
        self.close(course, now)
        policies.settled(self, pod, now)
        for later in self._after.get(course.uid, ()):
            assert later.after is not None
            self.plan(now + later.after[1], "arrive", later.uid)

    def _comes_back(self, pod: Alive, now: int) -> bool:
        """Whether a pod that is gone is made again by its controller."""
        if self.to_restart.pop(pod.uid, False) is None:
            return pod.course.uid not in self.closed
        taken = pod.evicted or self.node_lost(pod)
        if not taken or pod.course.uid in self.closed or not controlled(pod.obj):
            return False
        return policies.made_again(self, pod, now)

    def close(self, course: Course, now: int) -> None:
        """The course is at its end; a PodGroup whose pods are all there goes as it did."""
        if course.uid in self.closed:
            return
        self.closed[course.uid] = now
        standing = self.group_at.get(course.group)
        recorded = self.record.groups.get(standing.uid) if standing is not None else None
        if standing is None or recorded is None or recorded.deleted is None:
            return
        gone = [life.gone for life in recorded.lives]
        if recorded.lives and all(one is not None and one <= recorded.deleted for one in gone):
            mine = {self._course_of_life[life.uid] for life in recorded.lives}
            if all(uid in self.closed for uid in mine):
                gap = recorded.deleted - max(one for one in gone if one is not None)
                self.plan(now + max(0, gap), "drop-group", standing.uid)

    def _room(self, name: str) -> dict[str, float]:
        info = self.cache.nodes.get(name)
        return info.allocatable.amounts() if info is not None and name in self.cache.node_objects else {}

    def _lose_node(self, now: int, name: str) -> None:
        """A node is gone, and so are its pods."""
        binds.lost(self, name)
        for uid in list(self.on_node.get(name, ())):
            self.plan(now, "go", uid)

    # --- groups and jobs ------------------------------------------------------------------------------------------

    def _see_group(self, now: int, change: str, key: str, obj: dict[str, Any]) -> None:
        uid = obj["metadata"].get("uid") or ""
        self.changed_jobs[key] = None
        if change == "DELETED":
            standing = self.groups.pop(uid, None)
            self.not_let_in.pop(uid, None)
            if standing is not None and self.group_at.get(key) is standing:
                del self.group_at[key]
            return
        standing = self.groups.get(uid)
        if standing is None:
            standing = self.groups[uid] = self.group_at[key] = Standing(uid, key, obj)
        standing.obj = obj
        if standing.phase == "Pending":
            self.not_let_in[uid] = None
        else:
            self.not_let_in.pop(uid, None)
        if standing.let_in is None and standing.phase != "Pending":
            standing.let_in = now
            self._let_in(standing, now)

    def _let_in(self, standing: Standing, now: int) -> None:
        """The job's controller makes its pods."""
        gated = self._gated.get(standing.uid, ())
        for course in gated:
            assert course.gate is not None
            if course.uid not in self.closed:
                self.plan(now + course.gate[1], "arrive", course.uid)
        recorded = self.record.groups.get(standing.uid)
        job = self.jobs.get(job_owner(standing.obj["metadata"]))
        if job is None or (recorded is not None and recorded.lives):
            return
        for course in templated(job, standing.key, self.seed):
            self.courses[course.uid] = self.course_of[course.uid] = course
            self.plan(now + self.spans.made, "arrive", course.uid)

    def _see_job(self, now: int, change: str, uid: str, obj: dict[str, Any]) -> None:
        if change != "DELETED":
            self.jobs[uid] = obj
            return
        self.jobs.pop(uid, None)
        for course in [course for course in self.courses.values() if course.owner == uid and not course.lives]:
            self.close_at(course, now)

    def close_at(self, course: Course, now: int) -> None:
        """Somebody takes the course's pod away."""
        pod = self.by_key.get(course.key)
        self.close(course, now)
        if pod is not None and pod.course is course:
            self.plan(now, "go", pod.uid)


__all__ = ["World"]
