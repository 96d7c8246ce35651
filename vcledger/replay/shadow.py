"""Shadow replay: the record is folded as it is, and at each recorded decision the session is asked what it would do.

Owns telling decisions in the record, which questions are asked when, and judging the answers. Must not know what is
printed, nor the sums: it tells notes. Called by `vcledger.replay.shadowing`, and by `shadow_pieces` for a part.

A decision is a pod of the scheduler getting its node. Volcano decides a cycle at a time and binds go out over the
moments that follow, so the first decision that has no answer yet asks for all decisions of the coming period: for the
jobs of those pods, in exactly the state before the first of them. A job that would wait then is asked about once more
in the state before its own decision. Whether the recorded node would do is asked before each decision by itself, with
all before it applied. Jobs with a pod that has waited for `STAY_SECONDS` are asked about, some at a time, each
`STAY_SECONDS`.

An eviction is a decision as well. The first one that no answer speaks of asks for a whole cycle in the state before it,
which stands for those of the coming period too: who is evicted follows from everybody who waits. What any question
would evict is open until the pod goes, or a whole cycle answers for it.

No answer outlives the stretch of the trace's time that it was given in (`stretch_of`, a minute where cycles are a
second apart), and what is asked follows from the clock and the cache. So where a stretch begins a Shadow needs nothing
but the cache, and a record can be cut there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from eventstore import EventStore
from projections.cache import Cache, CacheProjection
from projections.cache.state import PodRef, TaskInfo
from vcledger import codec
from vcledger.replay.deciding import MakeDecider, PodOf
from vcledger.replay.living import HELD_BACK
from vcledger.replay.report import Divergence, Side
from vcledger.replay.shadow_tally import (
    Answer,
    Arrived,
    Asked,
    EvictionJudged,
    EvictionSeen,
    GangBroke,
    Gone,
    Judged,
    Open,
    RanSomewhere,
    Tell,
    WouldEvict,
    WouldPlace,
)
from vcledger.scheduler.session.outcome import Evicted, Outcome, Placed
from volcano.events.base import Recorded
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified
from volcano.objects import kinds
from volcano.objects.core import Pod
from volcano.objects.status import TaskStatus

STAY_SECONDS = 10
"""So often, in the trace's time, jobs that stay pending are asked about."""

STAYERS_MAX = 16
"""So many of them at a time."""

AHEAD_MAX = 20_000
"""Events that are looked ahead at most for the decisions of a period."""

STRETCH_SECONDS = 60
"""How long an answer may stand at most where cycles are a second apart; a multiple of STAY_SECONDS."""

_STAY = STAY_SECONDS * 1_000_000
_GOLDEN = 2654435769
"""The golden section of 2^32."""

_PENDING = int(TaskStatus.PENDING)
_EVICTED = (b'"reason":"Evict"', b"PreemptionByScheduler")
_CHANGES = {"ObjectAdded": ObjectAdded, "ObjectModified": ObjectModified, "ObjectDeleted": ObjectDeleted}


class Event(NamedTuple):
    """An event of the record: as a fold takes it, and its payload."""

    recorded: Recorded
    payload: bytes


def events_of(store: EventStore, cluster: str, after: int, to: int) -> Iterator[Event]:
    """What a fold of the cache reads, with the payloads; late events are left out."""
    decoders = CacheProjection.decoders
    make = tuple.__new__
    for rows in store.read_raw(after, to, cluster, batch=codec.FOLD_BATCH):
        for position, stream, name, schema, observed_at, known, late, version, causation, cycle, payload in rows:
            kind, change = stream[1], _CHANGES.get(name)
            read = decoders.get(kind)
            if change is None or read is None or schema != 1:
                continue
            try:
                event: Any = change(object=read(payload))
            except (ValueError, RecursionError):
                continue
            head = (position, *stream, observed_at, known, late, version, causation, cycle, event)
            yield Event(make(Recorded, head), payload)


def stretch_of(period: int) -> int:
    """How long a stretch is, in microseconds, where cycles are `period` microseconds apart."""
    return STRETCH_SECONDS * 1_000_000 * max(1, -(-period // (STAY_SECONDS * 1_000_000)))


class Asking(msgspec.Struct):
    """What a Shadow has in its mind between two events, beside the cache.

    position, now    the last event's
    number           of the last question
    answers          to questions of this stretch, by uid, for decisions that are still to come
    again_at         when a job that was found to wait was last asked about once more
    evicting         whose evictions the last whole cycle answers for, and `victims` whom it would evict
    looked_at        when it was last looked for jobs that stay, in periods of STAY_SECONDS"""

    position: int = 0
    now: int = 0
    number: int = 0
    answers: dict[str, Answer] = {}
    again_at: dict[str, int] = {}
    evicting: dict[str, None] = {}
    victims: dict[str, None] = {}
    looked_at: int | None = None

    def forget(self) -> None:
        """A stretch begins: no answer of another one counts."""
        self.answers.clear()
        self.again_at.clear()
        self.evicting.clear()
        self.victims.clear()


class Shadow:
    """One run over the events of a record, from a cache that stands before the first of them; it tells what it finds.
    `elsewhere` gives the objects of pods that were seen before. `stays`: whether jobs that stay pending are asked
    about. `outcomes` are the questions of the last step."""

    def __init__(
        self, cache: Cache, events: Iterator[Event], period: int, tell: Tell, make: MakeDecider, elsewhere: PodOf,
        *, stays: bool = True, asking: Asking | None = None,
    ) -> None:  # fmt: skip
        self.cache, self.period, self.tell, self.stays = cache, period, tell, stays
        self.asking = asking or Asking()
        self.outcomes: list[Outcome] = []
        self._evolve = CacheProjection.evolve
        self._stretch = stretch_of(period)
        self._events, self._elsewhere = events, elsewhere
        self._ahead: deque[Event] = deque()
        self._payloads: dict[str, tuple[int, bytes]] = {}
        self._born: dict[str, int] = {}
        self.decider = make(cache, self.pod_of)

    # --- the record ---------------------------------------------------------------------------------------------------

    def remember(self, ref: PodRef, payload: bytes) -> None:
        """The object of a pod that waits, as it was last seen before this run."""
        self._payloads[f"{ref.namespace}/{ref.name}"] = ref.position, payload

    def pod_of(self, ref: PodRef) -> Pod | None:
        """The object of a pod: that seen in this run, as long as it is pending, else from elsewhere."""
        held = self._payloads.get(f"{ref.namespace}/{ref.name}")
        if held is None or held[0] != ref.position:
            return self._elsewhere(ref)
        pod: Pod = kinds.decode("Pod", held[1])
        return pod

    def step(self) -> Event | None:
        """The next event is folded, its decision judged before that; None where there is none."""
        event = self._ahead.popleft() if self._ahead else next(self._events, None)
        if event is None:
            return None
        recorded, asking = event.recorded, self.asking
        now = recorded.observed_at
        if now // self._stretch != asking.now // self._stretch:
            asking.forget()
        asking.now, asking.position = now, recorded.position
        if now // _STAY != asking.looked_at:
            self.look_for_stayers()
        if recorded.kind == "Pod":
            self._before(event)
        self._evolve(self.cache, recorded)
        self.decider.touch(recorded.kind, recorded.namespace, recorded.name)
        return event

    def _before(self, event: Event) -> None:
        recorded = event.recorded
        key, uid = f"{recorded.namespace}/{recorded.name}", recorded.uid
        if type(recorded.event) is ObjectDeleted:
            self._lost(key, uid)
            self.tell(Gone(uid, self.asking.now))
            self._payloads.pop(key, None)
            self._forget(uid)
            return
        pod = recorded.event.object  # type: ignore[attr-defined]
        held = self.cache.pods.get(key)
        if held is None or held.uid != uid:
            if self._ours(pod.spec.scheduler_name):
                self.tell(Arrived(uid, None if pod.spec.node_name else self.asking.now))
        elif self._decides(recorded):
            self._judge(recorded, pod.spec.node_name, held)
        elif held.phase == "Pending" and pod.status.phase == "Running" and not pod.spec.node_name:
            if self._ours(held.scheduler_name):
                self.tell(RanSomewhere(uid))
            self._forget(uid)
        elif self._evicts(event) and not held.deleting and self._ours(held.scheduler_name):
            self._judge_eviction(recorded, held)
        if pod.spec.node_name:
            self._payloads.pop(key, None)
        else:
            self._payloads[key] = recorded.position, event.payload

    def _ours(self, scheduler: str) -> bool:
        return scheduler in self.cache.config.scheduler_names

    def _forget(self, uid: str) -> None:
        self.asking.answers.pop(uid, None)
        self._born.pop(uid, None)

    def _decides(self, recorded: Recorded) -> bool:
        """Whether an event shows that a pod, waiting until now, has got its node."""
        if recorded.kind != "Pod" or type(recorded.event) is ObjectDeleted:
            return False
        spec = recorded.event.object.spec  # type: ignore[attr-defined]
        if not spec.node_name or not self._ours(spec.scheduler_name):
            return False
        held = self.cache.pods.get(f"{recorded.namespace}/{recorded.name}")
        return held is not None and held.uid == recorded.uid and not held.node_name and not held.deleting

    # --- evictions ----------------------------------------------------------------------------------------------------

    def _judge_eviction(self, recorded: Recorded, held: PodRef) -> None:
        """A recorded eviction against the session's."""
        self.tell(EvictionSeen(self._breaks(held)))
        uid, asking = recorded.uid, self.asking
        if uid not in asking.evicting:
            self._ask_evictions(recorded)
        asking.evicting.pop(uid, None)
        differs = None
        if uid in asking.victims:
            del asking.victims[uid]
        else:
            there = Side(held.node_name, asking.now, f"evicted from {held.node_name}")
            here = Side(held.node_name, asking.now, "left running")
            key = f"{recorded.namespace}/{recorded.name}"
            differs = Divergence(recorded.position, key, "evicted_only_there", there, here)
        self.tell(EvictionJudged(uid, differs))

    def _ask_evictions(self, first: Recorded) -> None:
        """A whole cycle for all evictions from this one on, over a period."""
        evicting: dict[str, None] = {first.uid: None}
        for event in self._look_ahead():
            one = event.recorded
            if one.kind == "Pod" and type(one.event) is not ObjectDeleted and self._evicts(event):
                evicting[one.uid] = None
        outcome = self._hear(None, {})
        self.asking.evicting = evicting
        self.asking.victims = {one.task.uid: None for one in outcome.decisions if isinstance(one, Evicted)}

    def _evicts(self, event: Event) -> bool:
        """Whether a pod that is there has been told to go by a scheduler."""
        pod: Any = event.recorded.event.object  # type: ignore[attr-defined]
        return pod.metadata.deletion_timestamp is not None and any(mark in event.payload for mark in _EVICTED)

    def _lost(self, key: str, uid: str) -> None:
        """A pod that is deleted after its node went was lost with it."""
        held = self.cache.pods.get(key)
        if held is None or held.uid != uid or held.deleting or held.phase not in ("Pending", "Running"):
            return
        if held.node_name and held.node_name not in self.cache.node_objects and self._breaks(held):
            self.tell(GangBroke())

    def _breaks(self, held: PodRef) -> bool:
        """A gang breaks when a member that has its place is taken from it, and too few are left."""
        job = self.cache.jobs.get(held.job)
        return job is not None and job.ready_task_num == job.min_available > 0

    # --- questions ----------------------------------------------------------------------------------------------------

    def _judge(self, recorded: Recorded, node: str, held: PodRef) -> None:
        """A recorded decision against the session's."""
        uid, answers, now = recorded.uid, self.asking.answers, self.asking.now
        if uid not in answers:
            self._ask(recorded, held)
        answer = answers.pop(uid, Answer("", "its job is not the session's to place", now))
        refused: tuple[str, ...] = ()
        if answer.node != node:
            refused = self.decider.refused(held, node)
            if not answer.node and not refused and self._again(held.job):
                self._ask(recorded, held)
                answer = answers.pop(uid, answer)
        self._born.pop(uid, None)
        job = self.cache.jobs.get(held.job)
        kind, differs = "same_node", None
        if answer.node != node:
            kind = "infeasible" if refused else "other_node" if answer.node else "only_there"
            why = f"placed on {node}" + (f", which is refused here: {'; '.join(refused)}" if refused else "")
            key = f"{recorded.namespace}/{recorded.name}"
            here = Side(answer.node, answer.time, answer.reason)
            differs = Divergence(recorded.position, key, kind, Side(node, now, why), here)
        self.tell(Judged(uid, job.queue if job is not None else "", now, kind, differs))

    def _ask(self, first: Recorded, held: PodRef) -> None:
        """All decisions from this one on, over a period, in the state before it."""
        answers = self.asking.answers
        wanted = {first.uid: held.job}
        for event in self._look_ahead():
            one = event.recorded
            if one.kind == "Pod" and self._decides(one) and one.uid not in answers:
                ref = self.cache.pods[f"{one.namespace}/{one.name}"]
                wanted[one.uid] = ref.job
        jobs = dict.fromkeys(job for job in wanted.values() if job)
        self._hear(jobs, wanted)

    def _again(self, job: str) -> bool:
        """Whether a job that was found to wait is asked about once more, as the record has moved on since: once in a
        period."""
        again_at, now = self.asking.again_at, self.asking.now
        last = again_at.get(job)
        if last is not None and now - last < self.period:
            return False
        again_at[job] = now
        return True

    def _look_ahead(self) -> Iterator[Event]:
        """The events of the coming period, as far as they are of this stretch."""
        now = self.asking.now
        until = min(now + self.period, (now // self._stretch + 1) * self._stretch)
        for event in self._ahead:
            if event.recorded.observed_at >= until:
                return
            yield event
        while len(self._ahead) < AHEAD_MAX:
            more = next(self._events, None)
            if more is None:
                return
            self._ahead.append(more)
            if more.recorded.observed_at >= until:
                return
            yield more

    def look_for_stayers(self) -> None:
        """Asks about jobs that the record leaves pending."""
        self.asking.looked_at = self.asking.now // _STAY
        some = self._some_stayers() if self.stays else {}
        if some:
            self._hear(some, {})

    def _some_stayers(self) -> dict[str, None]:
        """Some of the jobs that have waited for a while. Where they begin moves on by the golden section of them all
        from one time to the next: over time it is everybody's turn, and nothing needs to be kept."""
        long_ago = self.asking.now - _STAY
        waiting = [job for job in self.decider.waiting() if self._has_waited(job, long_ago)]
        if not waiting:
            return {}
        first = (self.asking.now // _STAY * _GOLDEN % 2**32) * len(waiting) >> 32
        return dict.fromkeys((waiting[first:] + waiting[:first])[:STAYERS_MAX])

    def _has_waited(self, job: str, since: int) -> bool:
        """Whether a pod of the job that waits was made at a time or before."""
        info = self.cache.jobs.get(job)
        tasks = info.tasks_by_status.get(_PENDING, {}) if info is not None else {}
        return any(self._made_at(task) <= since for task in tasks.values())

    def _made_at(self, task: TaskInfo) -> int:
        """When the task's pod was made, as it says itself; 0 where it does not."""
        known = self._born.get(task.uid)
        if known is None:
            ref = self.cache.pods.get(task.key)
            pod = self.pod_of(ref) if ref is not None and ref.uid == task.uid else None
            known = self._born[task.uid] = _micros(pod.metadata.creation_timestamp if pod is not None else None)
        return known

    def _hear(self, jobs: dict[str, None] | None, wanted: dict[str, str]) -> Outcome:
        """One question, about some jobs or about all; `wanted` are the tasks (and their jobs) it is asked for."""
        asking = self.asking
        asking.number += 1
        self.tell(Asked())
        outcome = self.decider.decide(asking.now, asking.number, only=None if jobs is None else list(jobs))
        self.outcomes.append(outcome)
        placed: dict[str, None] = {}
        for decision in outcome.decisions:
            if isinstance(decision, Evicted):
                self._would_evict(decision)
            elif isinstance(decision, Placed) and not decision.pipelined:
                placed[decision.task.uid] = None
                self._would_place(decision, decision.task.uid in wanted)
        for uid, job in wanted.items():
            if uid not in placed:
                asking.answers[uid] = Answer("", self._reason(outcome, uid, job), asking.now)
        return outcome

    def _would_place(self, decision: Placed, wanted: bool) -> None:
        score = f", score {decision.score:.6g}" if decision.score is not None else ""
        uid, now = decision.task.uid, self.asking.now
        answer = Answer(decision.node, f"would be placed on {decision.node}{score}", now)
        if wanted:
            self.asking.answers[uid] = answer
            return
        ref = self.cache.pods.get(decision.task.key)
        position = ref.position if ref is not None and ref.uid == uid else self.asking.position
        self.tell(WouldPlace(uid, Open(answer, position, decision.task.key)))

    def _would_evict(self, decision: Evicted) -> None:
        by = f" for {decision.preemptor.key}" if decision.preemptor is not None else ""
        why = f"would be evicted from {decision.node} ({decision.action}{by})"
        answer = Answer(decision.node, why, self.asking.now)
        self.tell(WouldEvict(decision.task.uid, Open(answer, self.asking.position, decision.task.key)))

    def _reason(self, outcome: Outcome, uid: str, job: str) -> str:
        unfit, told = outcome.unfit.get(uid), outcome.jobs.get(job)
        if unfit is not None and unfit.message and (told is None or told.outcome not in HELD_BACK):
            return unfit.message
        return (told.message or told.reason or told.outcome) if told is not None else "the session has no such job"

    def pending(self) -> int:
        """Pods of the scheduler that wait for a node in the record."""
        return sum(
            not ref.node_name and ref.phase == "Pending" and self._ours(ref.scheduler_name)
            for ref in self.cache.pods.values()
        )


def _micros(stamp: str | None) -> int:
    """A time of the API in microseconds; 0 for none."""
    try:
        made = datetime.fromisoformat(stamp) if stamp else None
    except ValueError:
        return 0
    return int(made.replace(tzinfo=made.tzinfo or UTC).timestamp()) * 1_000_000 if made is not None else 0


__all__ = ["Asking", "Event", "Shadow", "events_of", "stretch_of"]
