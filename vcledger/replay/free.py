"""Free replay: a simulation in the trace's own time, in which the session's decisions take effect.

Owns the clock, the order of what happens at one moment, and turning decisions into what follows from them. Must not
know how the record was read nor how figures are printed. Called by `vcledger.replay.freely`.

At a moment first what came from outside happens, then what is due, then, if a cycle is due, the session decides. Cycles
stand `period` apart, counted from the record's beginning, and one in which nothing waits, or before which nothing
changed, is passed over. Every step is appended to the result ledger and the state changes by the fold of it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from eventstore.types import RECORDED
from vcledger.replay.courses import Course
from vcledger.replay.deciding import Decider
from vcledger.replay.living import Alive, key_of, repeatable
from vcledger.replay.record import ENDED, Outside, decode, job_owner
from vcledger.replay.result import ResultLedger, stamp
from vcledger.replay.world import World
from vcledger.scheduler.session.outcome import Enqueued, Evicted, Outcome, Placed
from volcano.events.base import MARKERS, DomainEvent, Subject
from volcano.events.observation import Marker
from volcano.events.scheduling import CycleEnded, CycleStarted
from volcano.objects.status import TaskStatus

_RUNNING, _SUCCEEDED, _PENDING = int(TaskStatus.RUNNING), int(TaskStatus.SUCCEEDED), int(TaskStatus.PENDING)
_HOLDING = tuple(int(one) for one in (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING))

Happening = tuple[int, int, Callable[[], None]]
"""Time, log position in the source, and what is done."""


class FreeReplay:
    """One run. `step` makes the next moment happen; False at the end."""

    def __init__(self, world: World, result: ResultLedger, decider: Decider, period: int) -> None:
        self.world, self.result, self.decider = world, result, decider
        self.period = max(1, period)
        self.start = world.record.first_time or 0
        self.now = self.start
        self.position = 0
        self.cycles = 0
        self._cycled: int | None = None
        self._outside = self._happenings()
        self._ahead = next(self._outside, None)

    # --- the clock ------------------------------------------------------------------------------------------------

    def skip_to(self, now: int) -> None:
        """Goes on after a moment that the result ledger has already."""
        while self._ahead is not None and self._ahead[0] <= now:
            self.position = self._ahead[1]
            self._ahead = next(self._outside, None)
        self.world.forget_until(now)
        self.now = now
        self._cycled = now if (now - self.start) % self.period == 0 else None

    def step(self) -> bool:
        """The next moment."""
        cycle = self._next_cycle()
        times = [
            time for time in (self._ahead[0] if self._ahead else None, self.world.due(), cycle) if time is not None
        ]
        if not times:
            return False
        self.now = self.result.now = now = max(self.now, min(times))
        while self._ahead is not None and self._ahead[0] <= now:
            self.position = self._ahead[1]
            self._ahead[2]()
            self._ahead = next(self._outside, None)
        self._due(now)
        if self.world.dirty and now != self._cycled and (now - self.start) % self.period == 0:
            self._cycled = now
            self._cycle(now)
            self._due(now)
        self.result.step_ended()
        return True

    def _next_cycle(self) -> int | None:
        if not self.world.dirty:
            return None
        due = self.start + -(-(self.now - self.start) // self.period) * self.period
        return due + self.period if due == self._cycled else due

    def _due(self, now: int) -> None:
        for deed, uid in self.world.take_due(now):
            if deed == "arrive":
                self._arrive(self.world.courses[uid], uid)
            elif deed == "again":
                self._arrive(self.world.course_of[uid], uid)
            elif deed == "drop-group":
                self._through(uid)
            elif (pod := self.world.pods.get(uid)) is not None:
                self._proceed(deed, pod)

    # --- from outside ---------------------------------------------------------------------------------------------

    def _happenings(self) -> Iterator[Happening]:
        """What the record brings at its own times, in the order of time, then of the log."""
        found: list[Happening] = [
            (one.time, one.position, partial(self._from_outside, one)) for one in self.world.record.outside
        ]
        for course in self.world.courses.values():
            found += self._happenings_of(course)
        found.sort(key=lambda one: one[:2])
        yield from found

    def _happenings_of(self, course: Course) -> Iterator[Happening]:
        first, last = course.lives[0], course.lives[-1]
        if course.arrive is not None:
            yield course.arrive, first.position, partial(self._arrive, course, course.uid)
        for time, body in course.later:
            yield time, last.last_position, partial(self._change, course, body)
        if course.until is not None:
            yield course.until, last.last_position, partial(self._take_away, course)

    def _from_outside(self, one: Outside) -> None:
        world = self.world
        if one.kind == MARKERS.kind:
            self.result.decided(MARKERS, Marker(**decode(one.body)["marker"]), known=RECORDED)
            return
        obj = decode(one.body)
        if one.kind == "PodGroup":
            standing = world.groups.get(one.uid)
            if one.change == "DELETED":
                if not self._goes_later(one.uid):
                    self._drop_group(one.uid)
                return
            if standing is not None:
                obj["status"] = standing.obj["status"]
            elif not one.listed:
                obj["status"] = {"phase": "Pending"}
        self._observe(one.kind, one.change, obj, RECORDED)

    def _goes_later(self, uid: str) -> bool:
        """Whether the PodGroup went in the record when its pods were through: here it goes when they are."""
        recorded = self.world.record.groups.get(uid)
        if recorded is None or recorded.deleted is None or not recorded.lives or uid not in self.world.groups:
            return False
        return all(life.gone is not None and life.gone <= recorded.deleted for life in recorded.lives)

    def _through(self, uid: str) -> None:
        """A PodGroup's pods are all through: it goes, and its Job is what it became in the record."""
        standing = self.world.groups.get(uid)
        owner = job_owner(standing.obj["metadata"]) if standing is not None else ""
        job, state = self.world.jobs.get(owner), self.world.record.job_state.get(owner)
        if owner in self.world.ended_jobs:
            state = {"phase": self.world.ended_jobs[owner]}
        self._drop_group(uid)
        if job is not None and state and state.get("phase") not in (None, "", "Pending", "Running"):
            job["status"] = {"state": {**state, "lastTransitionTime": stamp(self.now)}}
            self._observe("VolcanoJob", "MODIFIED", job)

    def _drop_group(self, uid: str) -> None:
        standing = self.world.groups.get(uid)
        if standing is not None:
            self._observe("PodGroup", "DELETED", standing.obj)

    def _take_away(self, course: Course) -> None:
        world = self.world
        pod = world.by_key.get(course.key)
        if pod is not None and pod.course is course and course.phase and pod.ended is None:
            self._proceed("end", pod)
            return
        world.close_at(course, self.now)

    def _change(self, course: Course, body: bytes) -> None:
        """What was asked of the pod has changed (a gate opened, a label set)."""
        pod = self.world.by_key.get(course.key)
        if pod is None or pod.course is not course:
            return
        obj, held = decode(body), pod.obj
        for part in ("uid", "creationTimestamp", "deletionTimestamp"):
            if part in held["metadata"]:
                obj["metadata"][part] = held["metadata"][part]
        if pod.node:
            obj["spec"]["nodeName"] = pod.node
        obj["status"] = held["status"]
        self._observe("Pod", "MODIFIED", obj, RECORDED)

    # --- pods -----------------------------------------------------------------------------------------------------

    def _arrive(self, course: Course, uid: str) -> None:
        world = self.world
        if course.uid in world.closed or uid in world.pods:
            return
        if course.key in world.by_key:
            world.wait_for_name(course, uid)
            return
        if course.kept and uid == course.uid:
            self._observe("Pod", "ADDED", decode(course.kept), RECORDED)
            return
        obj = decode(course.body_at(self.now))
        meta = obj["metadata"]
        if uid != course.uid or not course.lives or not meta.get("creationTimestamp"):
            meta["creationTimestamp"] = stamp(self.now)
        meta["uid"] = uid
        obj["status"] = {"phase": "Pending"}
        if not course.lives:
            self._give_priority(obj["spec"])
        self._observe("Pod", "ADDED", obj, RECORDED if uid == course.uid and course.lives else 2)

    def _give_priority(self, spec: dict[str, Any]) -> None:
        """What the API server's admission puts into a pod."""
        cache = self.world.cache
        named = cache.priority_classes.get(spec.get("priorityClassName") or "")
        if "priority" not in spec:
            spec["priority"] = named.value if named is not None else cache.default_priority

    def _proceed(self, deed: str, pod: Alive) -> None:
        obj, status = pod.obj, pod.obj["status"]
        if deed == "bind":
            if pod.bound_at is None or pod.bound_at > self.now or pod.going:
                return
            self._bind(obj, pod.binding)
        elif deed == "run" and not pod.going and status.get("phase") == "Pending":
            status.update(phase="Running", startTime=stamp(self.now))
        elif deed == "end" and pod.ended is None and not pod.going:
            status["phase"] = pod.course.phase if pod.course.phase in ENDED else "Succeeded"
        elif deed == "go" or (deed == "kill" and not pod.going and pod.ended is None):
            if (
                pod.placed is None
                or pod.going
                or pod.ended is not None
                or pod.node not in self.world.cache.node_objects
            ):
                self._observe("Pod", "DELETED", obj)
                return
            self._told(obj)
        else:
            return
        self._observe("Pod", "MODIFIED", obj)

    def _told(self, obj: dict[str, Any]) -> None:
        obj["metadata"]["deletionTimestamp"] = stamp(self.now)

    def _observe(self, kind: str, change: str, obj: dict[str, Any], known: int = 2) -> int:
        position, payload = self.result.observed(kind, change, obj, known)
        self.world.observe(position, self.now, kind, change, obj, payload)
        return position

    # --- a cycle --------------------------------------------------------------------------------------------------

    def _cycle(self, now: int) -> None:
        """The session decides, if anything waits; phases follow."""
        world = self.world
        world.dirty = False
        if self._waits():
            outcome = self.decider.decide(now, (now - self.start) // self.period)
            self._tell(outcome)
            for decision in outcome.decisions:
                self._carry_out(decision)
        self._phases()

    def _waits(self) -> bool:
        return bool(self.world.unplaced or self.world.not_let_in)

    def _tell(self, outcome: Outcome) -> None:
        """The cycle's events. What was said before in the same words is not said again, and a cycle that neither
        decides nor says anything new leaves no trace."""
        fresh: list[tuple[Subject, DomainEvent]] = []
        framing: list[tuple[Subject, DomainEvent]] = []
        world = self.world
        said = world.said
        for subject, event in self.decider.events(outcome):
            if isinstance(event, CycleStarted | CycleEnded):
                framing.append((subject, event))
                continue
            text = repeatable(event)
            if text is None or said.get(key_of(subject, event)) != text:
                fresh.append((subject, event))
                world.hear(self.now, subject, event)
        if not fresh:
            return
        self.cycles += 1
        cycle, begun = outcome.cycle, None
        for subject, event in [*framing[:1], *fresh, *framing[1:]]:
            if isinstance(event, CycleEnded):
                event = event_with(event, started=begun)
            position = self.result.decided(subject, event, cause=begun, cycle=cycle)
            begun = begun or position

    def _carry_out(self, decision: Enqueued | Placed | Evicted) -> None:
        world = self.world
        if isinstance(decision, Enqueued):
            standing = world.group_at.get(decision.job)
            if standing is not None:
                standing.obj["status"] = {**standing.obj["status"], "phase": "Inqueue"}
                self._observe("PodGroup", "MODIFIED", standing.obj)
            return
        pod = world.pods.get(decision.task.uid)
        if pod is None:
            return
        if isinstance(decision, Evicted):
            self._evict(pod, decision)
        elif not decision.pipelined and pod.placed is None and not pod.binding:
            self._bind(pod.obj, decision.node)
            self._observe("Pod", "MODIFIED", pod.obj)

    def _bind(self, obj: dict[str, Any], node: str) -> None:
        obj["spec"]["nodeName"] = node
        obj["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(self.now)}
        ]

    def _evict(self, pod: Alive, decision: Evicted) -> None:
        """As Volcano's evictor: the conditions, and the deletion asked for."""
        if pod.going:
            return
        conditions = pod.obj["status"].setdefault("conditions", [])
        message = f"Pod is evicted, because of {decision.reason}"
        conditions.append({"type": "Ready", "status": "False", "reason": "Evict", "message": message})
        self._told(pod.obj)
        self._observe("Pod", "MODIFIED", pod.obj)

    def _phases(self) -> None:
        """Volcano's jobStatus at the end of a session, for the jobs whose pods changed."""
        world = self.world
        changed, world.changed_jobs = world.changed_jobs, {}
        for key in changed:
            standing, job = world.group_at.get(key), world.cache.jobs.get(key)
            if standing is None or job is None:
                continue
            count = {status: len(tasks) for status, tasks in job.tasks_by_status.items() if tasks}
            held = sum(count.get(status, 0) for status in _HOLDING)
            running, succeeded = count.get(_RUNNING, 0), count.get(_SUCCEEDED, 0)
            phase = standing.phase
            if running and held + succeeded < job.min_available:
                phase = "Unknown"
            elif held + succeeded >= job.min_available and (held or succeeded or not job.min_available):
                phase = "Completed" if succeeded and not held else "Running"
            elif phase != "Inqueue":
                phase = "Pending"
            if phase != standing.phase:
                status = {**standing.obj["status"], "phase": phase, "running": running, "succeeded": succeeded}
                standing.obj["status"] = status
                self._observe("PodGroup", "MODIFIED", standing.obj)
        world.changed_jobs.clear()


def event_with(event: CycleEnded, started: int | None) -> CycleEnded:
    """The event with the position of the cycle's start."""
    from msgspec.structs import replace

    return replace(event, started=started)


__all__ = ["FreeReplay"]
