"""A cycle of the scheduler: a session decides, and what it decides becomes events and goes into the bind flow.

Owns that translation: what of an outcome is news, what the claims of a placed task take, which events it makes.
Must not know how a session decides. Called by `vcledger.scheduler.decide`.

The session looks at the cache with what is on its way, and at claims and volumes as they are assumed. What a placed
task's claims take is worked out here once more, one task after the other, as the session leaves that open; a gang of
which one task's volumes are gone by then gets nothing in this cycle. A cycle without news has no events at all.

A pod whose binding is not over, or whose last eviction has just failed, is spared: it is no victim of this cycle. Whom
evictions of an earlier cycle make room for comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from projections.diagnosis.claims import pod_claims
from projections.diagnosis.nodes import refuses
from projections.diagnosis.reasons import Reason, fit_message
from projections.diagnosis.volumes import Chosen, VolumeBinding
from vcledger.scheduler import evictor, first_queues, place, statuses
from vcledger.scheduler.bodies import condition_patch
from vcledger.scheduler.decision import Hand
from vcledger.scheduler.fold_binding import condition_is_news
from vcledger.scheduler.fold_cycle import considered_words
from vcledger.scheduler.requests import Patch
from vcledger.scheduler.session.events import (
    CYCLES,
    considered_of,
    discarded_of,
    enqueued_of,
    evicted_of,
    promised_of,
    ref_on,
    started_of,
    subject_of,
    unfit_of,
)
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.session.model import SessionJob, SessionTask
from vcledger.scheduler.session.outcome import Discarded, Enqueued, Evicted, JobOutcome, Outcome, Placed, Unfit
from vcledger.scheduler.session.run import run
from vcledger.scheduler.state import Flow
from vcledger.scheduler.written import is_ours, phase_of
from volcano.events.base import Subject, TaskRef
from volcano.events.binding import BindQueued
from volcano.events.scheduling import AllocationDiscarded, CycleEnded, JobConsidered, JobEnqueued


class Refused(NamedTuple):
    """A task of a job whose places are given up: its claims can't be had on its node after all."""

    plan: place.Plan
    message: str


def run_session(hand: Hand) -> None:
    """One cycle on the state as it is, once all is listed."""
    flow = hand.flow
    if not flow.synced:
        return
    first_queues.make_missing(hand)
    mirror = mirror_of(flow)
    mirror.refresh()
    jobs, due = list(mirror.waiting), bool(mirror.waiting)
    closing: dict[str, None] = {}
    if flow.config.statuses:
        due = due or statuses.is_due(mirror, hand.now)
        jobs += [uid for uid, job in mirror.unadmitted.items() if uid not in mirror.waiting and is_ours(flow, job)]
        closing = statuses.to_close(mirror, hand.now)
    if due:
        number = flow.cycle + 1
        seed, spared = flow.config.seed, _spared(flow, hand.now)
        outcome = run(
            mirror,
            flow.config.session,
            seed=seed,
            cycle=number,
            now=hand.now,
            only=jobs,
            spared=spared,
            promised=flow.nominated,
            closing=closing,
            anew=True,
        )
        _Writing(hand, mirror, outcome).write()


def _spared(flow: Flow, now: int) -> dict[str, None]:
    """The tasks, by UID, that no session is to evict now."""
    refused = [uid for uid, one in flow.refused.items() if one.until > now]
    return dict.fromkeys([*flow.tasks, *flow.evictions, *refused])


def mirror_of(flow: Flow) -> Mirror:
    """The session's data of the flow's cache, which the fold keeps up once it has been made."""
    if flow.mirror is None:
        flow.mirror = Mirror(
            flow.cache,
            lambda ref: flow.pods.get(f"{ref.namespace}/{ref.name}") or flow.noted.get(f"{ref.namespace}/{ref.name}"),
            claims=flow.claims.latest,
            volumes=flow.volumes.latest,
            nominated=flow.nominated,
            known=lambda key: flow.placed.get(key) or flow.coming.get(key),
            phase_of=lambda uid, group: phase_of(flow, uid, group),
            follows=flow.config.statuses,
            default_queue=flow.config.cache.default_queue,
        )
    return flow.mirror


class _Writing:
    """An outcome being written."""

    def __init__(self, hand: Hand, mirror: Mirror, outcome: Outcome) -> None:
        self.hand, self.flow, self.mirror, self.outcome = hand, hand.flow, mirror, outcome
        self.reported = place.reported(hand.flow)
        self.reserved: list[str] = []
        self.chosen: dict[str, Chosen] = {}
        self.taken: list[SessionTask] = []
        self.enqueued = self.allocated = self.pipelined = self.discarded = self.unschedulable = 0
        self.evicted: dict[str, list[Evicted]] = {}

    def write(self) -> None:
        """Everything that is news, between the cycle's beginning and its end."""
        hand, outcome = self.hand, self.outcome
        before = len(hand.events)
        started = hand.add(CYCLES, started_of(outcome, self.flow.config.scheduler_name), cause=None)
        hand.cycle = started
        places: dict[str, list[Placed]] = {}
        for decision in outcome.decisions:
            if isinstance(decision, Enqueued):
                self._enqueued(decision)
            elif isinstance(decision, Evicted):
                self._evicted(decision)
            elif decision.pipelined:
                self._pipelined(decision)
            else:
                places.setdefault(decision.task.job, []).append(decision)
        refused = {job: found for job, some in places.items() if (found := self._placed(job, some)) is not None}
        for one in outcome.discarded:
            self._discarded(one)
        for unfit in outcome.unfit.values():
            self._unfit(unfit)
        for considered in outcome.jobs.values():
            self._considered(considered, refused.get(considered.job))
        if self.flow.config.statuses:
            self._statuses(refused, started)
        if len(hand.events) == before + 1:
            del hand.events[before:]
        else:
            hand.add(CYCLES, self._ended(started), cause=started)
        hand.cycle = None

    def _ended(self, started: int) -> CycleEnded:
        return CycleEnded(
            cycle=self.outcome.cycle,
            started=started,
            enqueued=self.enqueued,
            allocated=self.allocated,
            pipelined=self.pipelined,
            discarded=self.discarded,
            unschedulable=self.unschedulable,
            evicted=sum(map(len, self.evicted.values())),
        )

    # --- jobs -----------------------------------------------------------------------------------------------------

    def _enqueued(self, decision: Enqueued) -> None:
        """The gate let the job in; told once for each PodGroup."""
        subject, event = enqueued_of(decision, self.mirror)
        if self.flow.admitted.get(event.job) == event.podgroup_uid:
            return
        self.enqueued += 1
        self._tell(subject, event)

    def _discarded(self, one: Discarded) -> None:
        """A gang that is short keeps nothing; told when the numbers are others than before."""
        subject, event = discarded_of(one, self.mirror)
        if self.flow.said.get(one.job) == event.message:
            return
        self.discarded += 1
        self._tell(subject, event)

    def _considered(self, one: JobOutcome, refused: Refused | None) -> None:
        if refused is not None:
            one = replace(one, outcome="unschedulable", reason="NotEnoughResources", message=refused.message, placed=0)
        subject, event = considered_of(one, self.mirror)
        if self.flow.considered.get(one.job) != considered_words(event):
            self._tell(subject, event)

    def _tell(self, subject: Subject, event: JobEnqueued | AllocationDiscarded | JobConsidered) -> None:
        """What became of a job, because of what was last seen of its PodGroup."""
        self.hand.add(subject, event, cause=self.mirror.groups[event.job].position or None)

    def _statuses(self, refused: Mapping[str, Refused], started: int) -> None:
        """What the session's close writes. Of a job whose places were given up after all nothing is said but how its
        pods stand."""
        closings = [
            one._replace(condition="", reason="", message="") if one.job in refused else one
            for one in self.outcome.closings
        ]
        session = statuses.session_id(self.outcome.seed, started, self.hand.now)
        statuses.write_groups(self.hand, self.mirror, closings, session)
        gone = [one.task for some in self.evicted.values() for one in some]
        statuses.write_queues(self.hand, self.mirror, self.taken, gone)

    # --- tasks ----------------------------------------------------------------------------------------------------

    def _placed(self, uid: str, placed: list[Placed]) -> Refused | None:
        """All places of a job: each task gets its node and goes into the bind queue; or what stands against that."""
        reserved, chosen = list(self.reserved), dict(self.chosen)
        plans = []
        for one in placed:
            plan = self._plan(one)
            if plan is None:
                continue
            if plan.refused:
                self.reserved, self.chosen = reserved, chosen
                return self._refused(uid, plan)
            plans.append((plan, one))
        job = self.mirror.groups[uid]
        for index, (plan, one) in enumerate(plans):
            self._allocated(job, plan, one, job.ready_count + index + 1)
        return None

    def _plan(self, one: Placed) -> place.Plan | None:
        """What a task's claims take on its node. None: its pod is gone from under the session."""
        flow, task = self.flow, one.task
        ref, pod = flow.cache.pods.get(task.key), flow.pods.get(task.key)
        if ref is None or pod is None or ref.uid != task.uid or ref.uid in flow.tasks:
            return None
        view = place.view_of(flow, ref, pod, self.reported)
        cluster = place.cluster_of(flow, [pod] if ref.claims else [], [one.node])
        claims = pod_claims(pod, cluster)
        node = cluster.nodes[0]
        binding = VolumeBinding(claims, cluster, self.reserved, self.chosen) if claims.states else None
        plan = place.claims_on(flow, view, binding, node)
        found = binding.check(node) if binding is not None else []
        problems = [Reason("claims", said.text, said.detail) for said in claims.problems]
        if plan.refused or problems or refuses(found):
            return plan._replace(refused=plan.refused or (*problems, *found))
        self.reserved += [said.volume for said in plan.bindings]
        if binding is not None:
            self.chosen.update(binding.picks(node))
        return plan

    def _refused(self, uid: str, plan: place.Plan) -> Refused:
        table = {plan.node: list(plan.refused)}
        message = fit_message(table)
        place.unschedulable(self.hand, plan.task, uid, message, table)
        return Refused(plan, message)

    def _allocated(self, job: SessionJob, plan: place.Plan, one: Placed, ready: int) -> None:
        flow, hand, task = self.flow, self.hand, plan.task
        self.allocated += 1
        self.taken.append(one.task)
        position = place.allocate(
            hand, plan, job.uid, task.position or None, ready=ready, needed=job.min_available, score=one.score
        )
        event = BindQueued(
            job=job.uid,
            node=plan.node,
            request=task.request,
            attempt=flow.attempts.get(task.uid, 0) + 1,
            queued=len(flow.bind_queue) + self.allocated,
        )
        hand.add(place.subject_of(task), event, cause=position)

    def _evicted(self, one: Evicted) -> None:
        """A task is told to go."""
        task, group = one.task, subject_of(self.mirror.groups[one.task.job])
        subject, event = evicted_of(one)
        evictor.evict(self.hand, subject, event, group, task.position or None)
        self.evicted.setdefault(one.preemptor.uid if one.preemptor is not None else "", []).append(one)

    def _pipelined(self, one: Placed) -> None:
        """A task is promised what is being released; told once for each node, and whenever somebody was evicted."""
        for_it = tuple(ref_on(gone.task, gone.node) for gone in self.evicted.get(one.task.uid, ()))
        if self.flow.promised.get(one.task.uid) == one.node and not for_it:
            return
        self.pipelined += 1
        subject, event = promised_of(one, self.mirror, for_it)
        self.hand.add(subject, event, cause=one.task.position or None)

    def _unfit(self, unfit: Unfit) -> None:
        """A task got no node: an event when that is news, and the pod's condition unless it says so already."""
        flow, hand, task = self.flow, self.hand, unfit.task
        unfit = replace(unfit, node=self._named(unfit))
        tell = condition_is_news(flow, task.uid, task.key, unfit.reason, unfit.message, hand.now, unfit.node)
        if flow.said.get(task.uid) == unfit.message and not tell:
            return
        self.unschedulable += 1
        subject, event = unfit_of(unfit, self.mirror)
        position = hand.add(subject, event, cause=task.position or None)
        if tell:
            ref = TaskRef(namespace=task.namespace, name=task.name, uid=task.uid)
            hand.tell(ref, position, "FailedScheduling", unfit.message, warning=True)
            body = condition_patch(flow.pods[task.key], "False", unfit.reason, unfit.message, hand.now, unfit.node)
            hand.effect(position, Patch("Pod", task.namespace, task.name, body, "status"))

    def _named(self, unfit: Unfit) -> str:
        """The node that the pod's status is to name: the one that the task is promised, if others were evicted for it
        there, now or before (EvictionOccurred)."""
        uid, flow = unfit.task.uid, self.flow
        evicted = bool(self.evicted.get(uid)) or flow.nominated.get(uid) == unfit.node
        return unfit.node if flow.config.statuses and evicted else ""


__all__ = ["mirror_of", "run_session"]
