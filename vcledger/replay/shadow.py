"""Shadow replay: the record is folded as it is, and at each recorded decision the session is asked what it would do.

Owns telling decisions in the record, which questions are asked when, and judging the answers. Must not know what is
printed. Called by `vcledger.replay.shadowing`.

A decision is a pod of the scheduler getting its node. Volcano decides a cycle at a time and binds go out over the
moments that follow, so the first decision that has no answer yet asks for all decisions of the coming period: for the
jobs of those pods, in exactly the state before the first of them. A job that would wait then is asked about once more
in the state before its own decision. Whether the recorded node would do is asked before each decision by itself, with
all before it applied. Jobs that have waited for `STAY_SECONDS` are asked about, some at a time, each `STAY_SECONDS`.

An eviction is a decision as well. The first one that no answer speaks of asks for a whole cycle in the state before it,
which stands for those of the coming period too: who is evicted follows from everybody who waits. What any question
would evict is open until the pod goes, or a whole cycle answers for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from eventstore import EventStore
from projections.cache import Cache, CacheProjection
from projections.cache.state import PodRef
from vcledger import codec
from vcledger.replay.deciding import Decider
from vcledger.replay.living import HELD_BACK
from vcledger.replay.report import Counts, Divergence, Side
from vcledger.scheduler.session.outcome import Evicted, Outcome, Placed
from volcano.events.base import Recorded
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified
from volcano.objects import kinds
from volcano.objects.core import Pod

STAY_SECONDS = 10
"""So often, in the trace's time, jobs that stay pending are asked about."""

STAYERS_MAX = 16
"""So many of them at a time."""

AHEAD_MAX = 20_000
"""Events that are looked ahead at most for the decisions of a period."""

_EVICTED = (b'"reason":"Evict"', b"PreemptionByScheduler")
_CHANGES = {"ObjectAdded": ObjectAdded, "ObjectModified": ObjectModified, "ObjectDeleted": ObjectDeleted}


class Event(NamedTuple):
    """An event of the record: as a fold takes it, and its payload."""

    recorded: Recorded
    payload: bytes


class Answer(NamedTuple):
    """What the session would do with a pod: a node, '' for none, and why."""

    node: str
    reason: str
    time: int


@dataclass(slots=True)
class Open:
    """A pod that the session would place, or evict, while the record leaves it as it is."""

    answer: Answer
    position: int
    key: str


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


class Shadow:
    """One run over the events of a record, from a cache that stands before the first of them."""

    def __init__(self, cache: Cache, events: Iterator[Event], period: int) -> None:
        self.cache, self.period = cache, period
        self.evolve = CacheProjection.evolve
        self.decider: Decider | None = None
        self.position = self.asked = self.decisions = self.evictions_recorded = self.pods = 0
        self.now = 0
        self.counts = dict.fromkeys(Counts.__struct_fields__, 0)
        self.first: Divergence | None = None
        self.divergences = 0
        self.waited: list[tuple[str, int]] = []
        self.gangs_broken = 0
        self.evicted: dict[str, Open] = {}
        self.outcomes: list[Outcome] = []
        self._events = events
        self._ahead: deque[Event] = deque()
        self._answers: dict[str, Answer] = {}
        self._open: dict[str, Open] = {}
        self._evicting: dict[str, None] = {}
        self._victims: dict[str, None] = {}
        self._said: dict[str, str] = {}
        self._created: dict[str, int] = {}
        self._payloads: dict[str, tuple[int, bytes]] = {}
        self._stayed_at: int | None = None
        self._next_stayer = ""
        self._since: dict[str, int] = {}
        self._again_at: dict[str, int] = {}

    # --- the record ---------------------------------------------------------------------------------------------------

    def pod_of(self, ref: PodRef) -> Pod | None:
        """The object of a pod, as long as it is pending or was last seen in this run."""
        held = self._payloads.get(f"{ref.namespace}/{ref.name}")
        if held is None or held[0] != ref.position:
            return None
        pod: Pod = kinds.decode("Pod", held[1])
        return pod

    def step(self) -> Event | None:
        """The next event is folded, its decision judged before that; None at the end."""
        event = self._ahead.popleft() if self._ahead else next(self._events, None)
        if event is None:
            self._stayers()
            return None
        recorded = event.recorded
        self.now = recorded.observed_at
        if self._stayed_at is None or self.now - self._stayed_at >= STAY_SECONDS * 1_000_000:
            self._stayers()
        self.position = recorded.position
        if recorded.kind == "Pod":
            self._before(event)
        self.evolve(self.cache, recorded)
        if self.decider is not None:
            self.decider.touch(recorded.kind, recorded.namespace, recorded.name)
        return event

    def _before(self, event: Event) -> None:
        recorded = event.recorded
        key, change = f"{recorded.namespace}/{recorded.name}", type(recorded.event)
        if change is ObjectDeleted:
            self._lost(key, recorded.uid)
            self._not_evicted(recorded.uid, self.now, "left running to its end")
            self._payloads.pop(key, None)
            self._created.pop(recorded.uid, None)
            self._leaves(recorded.uid)
            return
        pod = recorded.event.object  # type: ignore[attr-defined]
        held = self.cache.pods.get(key)
        if held is None or held.uid != recorded.uid:
            self._arrives(event, pod)
        elif self._decides(recorded):
            self._judge(recorded, pod.spec.node_name, held)
        elif held.phase == "Pending" and pod.status.phase == "Running" and not pod.spec.node_name:
            self.counts["unknown_node"] += self._ours(held.scheduler_name)
            self._leaves(recorded.uid)
        elif self._evicts(event) and not held.deleting and self._ours(held.scheduler_name):
            self._judge_eviction(recorded, held)
        if pod.spec.node_name:
            self._payloads.pop(key, None)
        else:
            self._payloads[key] = recorded.position, event.payload

    def _ours(self, scheduler: str) -> bool:
        return scheduler in self.cache.config.scheduler_names

    def _arrives(self, event: Event, pod: Any) -> None:
        if self._ours(pod.spec.scheduler_name):
            self.pods += 1
            if not pod.spec.node_name:
                self._created[event.recorded.uid] = event.recorded.observed_at

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
        self.evictions_recorded += 1
        self._breaks(held)
        if self.decider is None:
            return
        uid = recorded.uid
        if uid not in self._evicting:
            self._ask_evictions(recorded)
        self._evicting.pop(uid, None)
        if uid in self._victims:
            del self._victims[uid]
            self.evicted.pop(uid, None)
            self.counts["evicted_same"] += 1
            return
        self._not_evicted(uid, self.now, "left running until it was evicted by another cycle")
        self.counts["evicted_only_there"] += 1
        there = Side(held.node_name, self.now, f"evicted from {held.node_name}")
        here = Side(held.node_name, self.now, "left running")
        key = f"{recorded.namespace}/{recorded.name}"
        self._differs(Divergence(recorded.position, key, "evicted_only_there", there, here))

    def _ask_evictions(self, first: Recorded) -> None:
        """A whole cycle for all evictions from this one on, over a period."""
        self._evicting = {first.uid: None}
        for event in self._look_ahead(first.observed_at + self.period):
            one = event.recorded
            if one.kind == "Pod" and type(one.event) is not ObjectDeleted and self._evicts(event):
                self._evicting[one.uid] = None
        outcome = self._hear(None, {})
        self._victims = {one.task.uid: None for one in outcome.decisions if isinstance(one, Evicted)}

    def _evicts(self, event: Event) -> bool:
        """Whether a pod that is there has been told to go by a scheduler."""
        pod: Any = event.recorded.event.object  # type: ignore[attr-defined]
        return pod.metadata.deletion_timestamp is not None and any(mark in event.payload for mark in _EVICTED)

    def _not_evicted(self, uid: str, time: int | None, what: str) -> None:
        """Settles an eviction that is open: what the record did with the pod instead, and when that was known."""
        found = self.evicted.pop(uid, None)
        if found is None:
            return
        self.counts["evicted_only_here"] += 1
        there = Side(found.answer.node, time, what)
        here = Side(found.answer.node, found.answer.time, found.answer.reason)
        self._differs(Divergence(found.position, found.key, "evicted_only_here", there, here))

    def _lost(self, key: str, uid: str) -> None:
        """A pod that is deleted after its node went was lost with it."""
        held = self.cache.pods.get(key)
        if held is None or held.uid != uid or held.deleting or held.phase not in ("Pending", "Running"):
            return
        if held.node_name and held.node_name not in self.cache.node_objects:
            self._breaks(held)

    def _breaks(self, held: PodRef) -> None:
        """A gang breaks when a member that has its place is taken from it, and too few are left."""
        job = self.cache.jobs.get(held.job)
        if job is not None and job.ready_task_num == job.min_available > 0:
            self.gangs_broken += 1

    # --- questions ----------------------------------------------------------------------------------------------------

    def _judge(self, recorded: Recorded, node: str, held: PodRef) -> None:
        """A recorded decision against the session's."""
        if self.decider is None:
            return
        if recorded.uid not in self._answers:
            self._ask(recorded, held)
        self.decisions += 1
        answer = self._answers.pop(recorded.uid, Answer("", "its job is not the session's to place", self.now))
        refused: tuple[str, ...] = ()
        if answer.node != node:
            refused = self.decider.refused(held, node)
            if not answer.node and not refused and self._again(held.job):
                self._ask(recorded, held)
                answer = self._answers.pop(recorded.uid, answer)
        self._open.pop(recorded.uid, None)
        created = self._created.pop(recorded.uid, None)
        job = self.cache.jobs.get(held.job)
        if created is not None:
            self.waited.append((job.queue if job is not None else "", self.now - created))
        if answer.node == node:
            self.counts["same_node"] += 1
            return
        kind = "infeasible" if refused else "other_node" if answer.node else "only_there"
        self.counts[kind] += 1
        why = f"placed on {node}" + (f", which is refused here: {'; '.join(refused)}" if refused else "")
        self._differs(
            Divergence(
                recorded.position,
                f"{recorded.namespace}/{recorded.name}",
                kind,
                Side(node, self.now, why),
                Side(answer.node, answer.time, answer.reason),
            )
        )

    def _ask(self, first: Recorded, held: PodRef) -> None:
        """All decisions from this one on, over a period, in the state before it."""
        until = first.observed_at + self.period
        wanted = {first.uid: held.job}
        for event in self._look_ahead(until):
            one = event.recorded
            if one.kind == "Pod" and self._decides(one) and one.uid not in self._answers:
                ref = self.cache.pods[f"{one.namespace}/{one.name}"]
                wanted[one.uid] = ref.job
        jobs = dict.fromkeys(job for job in wanted.values() if job)
        self._hear(jobs, wanted)

    def _again(self, job: str) -> bool:
        """Whether a job that was found to wait is asked about once more, as the record has moved on since: once in a
        period."""
        last = self._again_at.get(job)
        if last is not None and self.now - last < self.period:
            return False
        self._again_at[job] = self.now
        return True

    def _look_ahead(self, until: int) -> Iterator[Event]:
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

    def _some_stayers(self) -> dict[str, None]:
        """Some of the jobs that have waited for a while, in turn."""
        assert self.decider is not None
        since, before = {}, self._since
        for job in self.decider.waiting():
            since[job] = before[job] if job in before else self._oldest(job)
        self._since = since
        long_ago = self.now - STAY_SECONDS * 1_000_000
        waiting = [job for job, begun in since.items() if begun <= long_ago]
        if not waiting:
            return {}
        after = [job for job in waiting if job > self._next_stayer]
        chosen = (after + waiting)[: min(STAYERS_MAX, len(waiting))]
        self._next_stayer = chosen[-1]
        return dict.fromkeys(chosen)

    def _oldest(self, uid: str) -> int:
        """Since when the oldest of a job's pods that came in this run has been there."""
        job = self.cache.jobs.get(uid)
        found = [self._created[task] for task in (job.tasks if job is not None else ()) if task in self._created]
        return min(found, default=self.now)

    def _stayers(self) -> None:
        """Asks about jobs that the record leaves pending; not where pods run and no node is named for any: then nothing
        is known to be in use, and whoever waits would be placed."""
        if self.decider is None:
            return
        self._stayed_at = self.now
        if self.counts["unknown_node"] and not self.decisions:
            return
        some = self._some_stayers()
        if some:
            self._hear(some, {})

    def _hear(self, jobs: dict[str, None] | None, wanted: dict[str, str]) -> Outcome:
        """One question, about some jobs or about all; `wanted` are the tasks (and their jobs) it is asked for."""
        assert self.decider is not None
        self.asked += 1
        outcome = self.decider.decide(self.now, self.asked, only=None if jobs is None else list(jobs))
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
                self._answers[uid] = Answer("", self._reason(outcome, uid, job), self.now)
        for uid, unfit in outcome.unfit.items():
            if uid not in wanted:
                self._said[uid] = unfit.message
        return outcome

    def _would_place(self, decision: Placed, wanted: bool) -> None:
        score = f", score {decision.score:.6g}" if decision.score is not None else ""
        uid, answer = decision.task.uid, Answer(decision.node, f"would be placed on {decision.node}{score}", self.now)
        if wanted:
            self._answers[uid] = answer
        elif uid not in self._open:
            self._open[uid] = Open(answer, self.position, decision.task.key)

    def _would_evict(self, decision: Evicted) -> None:
        by = f" for {decision.preemptor.key}" if decision.preemptor is not None else ""
        answer = Answer(decision.node, f"would be evicted from {decision.node} ({decision.action}{by})", self.now)
        self.evicted.setdefault(decision.task.uid, Open(answer, self.position, decision.task.key))

    def _reason(self, outcome: Outcome, uid: str, job: str) -> str:
        unfit, told = outcome.unfit.get(uid), outcome.jobs.get(job)
        if unfit is not None and unfit.message and (told is None or told.outcome not in HELD_BACK):
            return unfit.message
        return (told.message or told.reason or told.outcome) if told is not None else "the session has no such job"

    # --- what stays open ----------------------------------------------------------------------------------------------

    def _leaves(self, uid: str) -> None:
        """A pod goes, or nobody knows where it went: what is open about it is settled."""
        self._answers.pop(uid, None)
        found = self._open.pop(uid, None)
        if found is not None:
            self._only_here(found)

    def close(self) -> None:
        """The end of the record: whoever is pending there stays so."""
        for found in list(self._open.values()):
            self._only_here(found)
        self._open.clear()
        for uid in list(self.evicted):
            self._not_evicted(uid, None, "left as it was")

    def _only_here(self, found: Open) -> None:
        self.counts["only_here"] += 1
        ref = self.cache.pods.get(found.key)
        there = Side("", None, "left pending")
        here = Side(found.answer.node, found.answer.time, found.answer.reason)
        position = ref.position if ref is not None else found.position
        self._differs(Divergence(min(position, found.position) or position, found.key, "only_here", there, here))

    def _differs(self, divergence: Divergence) -> None:
        self.divergences += 1
        if self.first is None or divergence.position < self.first.position:
            self.first = divergence

    def pending(self) -> int:
        """Pods of the scheduler that wait for a node in the record."""
        return sum(
            not ref.node_name and ref.phase == "Pending" and self._ours(ref.scheduler_name)
            for ref in self.cache.pods.values()
        )


__all__ = ["Answer", "Event", "Shadow", "events_of"]
