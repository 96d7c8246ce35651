"""A shadow replay from plan to result.

Owns that order, the samples of utilization and the copy of the record in a result ledger. Must not know how a decision
is judged. Called by `vcledger.replay.engine`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventstore.types import NewEvent, StoredEvent
from projections.cache import Cache
from projections.cache.state import PodRef
from vcledger.folding import Folder, collector_paused
from vcledger.ledger import cache_projection
from vcledger.replay.deciding import PodOf
from vcledger.replay.figures import Meter, usage, waits
from vcledger.replay.freely import origin_of_job
from vcledger.replay.inputs import CHANGES
from vcledger.replay.notes import impossible, passed_over, without_nodes
from vcledger.replay.report import Counts, Progress, ReplayResult
from vcledger.replay.result import ResultLedger
from vcledger.replay.shadow import Shadow, events_of
from vcledger.replay.shadow_state import State, captured, leave, load, restored, save
from volcano.objects.core import Pod
from volcano.objects.resource import Resource

if TYPE_CHECKING:
    from vcledger.replay.engine import Job

SAMPLES = 60
"""Moments at which what is in use is looked at."""

TOLD_EACH = 1024
"""Events between two looks at `stop` and two words of progress."""


class Sampler:
    """What is in use and what there is, looked at now and then."""

    def __init__(self, start: int, end: int) -> None:
        self.meter = Meter()
        self._every = max(1, (end - start) // SAMPLES)
        self.due = start
        self._held: dict[str, float] = {}

    def look(self, cache: Cache, now: int) -> None:
        """A sample; the next one is wanted at `due`."""
        self.due = now + self._every
        held: dict[str, float] = {}
        there: dict[str, float] = {}
        for name in cache.node_objects:
            info = cache.nodes[name]
            _add(held, info.used)
            _add(there, info.allocatable)
        self.meter.give_back(now, self._held)
        self.meter.take(now, held)
        self.meter.node(now, "all", there)
        self._held = held


def _add(into: dict[str, float], resource: Resource) -> None:
    """Adds amounts by name, which stand in the order in which they came: cpu, memory, then scalars by name."""
    scalars = resource.scalars or {}
    if "cpu" not in into:
        into["cpu"] = into["memory"] = 0.0
    if not scalars.keys() <= into.keys():
        into |= {name: into.get(name, 0.0) for name in sorted(scalars)}
    into["cpu"] += resource.milli_cpu
    into["memory"] += resource.memory
    for name, amount in scalars.items():
        into[name] += amount


def run_shadow(job: Job, out: str | None, *, resume: bool, keep: str | None = None) -> ReplayResult:
    """Runs a shadow replay, or goes on with one; with `out` the record and what the session says of it are written
    there. `keep`: where one without `out` leaves what it needs to go on, or what came of it."""
    if out is None:
        return _run_from(job, None, "", keep)
    result = ResultLedger(out, job.cluster, resume=resume)
    try:
        return _run_from(job, result, out, None)
    finally:
        result.close()


def _run_from(job: Job, result: ResultLedger | None, out: str, keep: str | None) -> ReplayResult:
    """From the beginning, or from where the result ledger says that it stopped."""
    start, end = _times(job)
    state = None
    if result is not None:
        result.begin(origin_of_job(job), start)
        state = load(result)
    if state is not None and state.result is not None:
        return state.result
    shadow = _shadow(job, state.shadow["position"] if state is not None else job.first)
    sampler = Sampler(start, end)
    copied: int | None = job.first if result is not None else None
    if result is not None and state is not None:
        restored(state, shadow, sampler, job.source)
        copied, result.now = state.copied, result.ledger.store.high_water(job.cluster) or start
    finished, copied = _run(job, shadow, sampler, result, copied)
    if not finished:
        _keep(job, result, captured(shadow, sampler, copied), keep, start)
    shadow.close()
    told = _report(job, shadow, sampler, (start, end), finished=finished, ledger=out if copied is not None else "")
    if finished:
        _keep(job, result, State(copied, result=told), keep, start)
    return told


def _keep(job: Job, result: ResultLedger | None, state: State, keep: str | None, start: int) -> None:
    """Keeps the state in the result ledger, else at `keep`."""
    if result is not None:
        result.flush()
        save(state, result)
    elif keep is not None:
        leave(state, lambda at: at.begin(origin_of_job(job), start), keep, job.cluster)


def _shadow(job: Job, after: int) -> Shadow:
    """A shadow in the state at a position, over the events after it."""
    model, config = job.ways()
    projection = cache_projection(model, config)
    cache = Folder(job.source.store).at(projection, job.cluster, after)
    events = events_of(job.source.store, job.cluster, after, job.last)
    shadow = Shadow(cache, events, round(job.plan.period_seconds * 1_000_000))
    shadow.decider = job.decider(cache, _pods(job, shadow))
    return shadow


def _pods(job: Job, shadow: Shadow) -> PodOf:
    """Where the objects of pods come from: this run, or for older ones the source."""

    def pod_of(ref: PodRef) -> Pod | None:
        found = shadow.pod_of(ref)
        if found is None:
            older = job.source.objects([ref.position]).get(ref.position)
            found = older if isinstance(older, Pod) else None
        return found

    return pod_of


def _times(job: Job) -> tuple[int, int]:
    start = job.source.observed_at(max(1, job.first), job.cluster)
    first = next(job.source.store.read(after=job.first, to=job.last, cluster=job.cluster, late=False, limit=1), None)
    if start is None:
        start = first.observed_at if first is not None else 0
    return start, job.source.observed_at(job.last, job.cluster) or start


def _run(
    job: Job, shadow: Shadow, sampler: Sampler, result: ResultLedger | None, copied: int | None
) -> tuple[bool, int | None]:
    """Steps until the end or until it is to stop: whether it came to the end, and up to where the record is copied;
    None where it is not."""
    count = 0
    with collector_paused():
        while (event := shadow.step()) is not None:
            count += 1
            if shadow.now >= sampler.due:
                sampler.look(shadow.cache, shadow.now)
            if result is not None and copied is not None:
                copied = _write(job, shadow, result, copied, event.recorded.position)
            shadow.outcomes.clear()
            if count % TOLD_EACH == 0:
                if job.progress is not None:
                    job.progress(_progress(job, shadow))
                if job.stop():
                    return False, copied
    if result is not None and copied is not None:
        copied = _write(job, shadow, result, copied, job.last)
    if job.progress is not None:
        job.progress(_progress(job, shadow))
    return True, copied


def _write(job: Job, shadow: Shadow, result: ResultLedger, copied: int, to: int) -> int:
    """The record up to `to`, then what the session said of it."""
    assert shadow.decider is not None
    said = [pair for outcome in shadow.outcomes for pair in shadow.decider.events(outcome)]
    for stored in job.source.store.read(after=copied, to=to - 1 if said else to, cluster=job.cluster, late=False):
        result.copied(_copy(stored))
    for subject, event in said:
        result.decided(subject, event, cycle=shadow.asked)
    if said:
        for stored in job.source.store.read(after=to - 1, to=to, cluster=job.cluster, late=False):
            result.copied(_copy(stored))
    result.step_ended()
    return to


def _copy(stored: StoredEvent) -> NewEvent:
    return NewEvent(
        stored.stream, stored.type, stored.family, stored.observed_at, stored.payload, stored.schema, stored.known,
        stored.resource_version, stored.gone, False, stored.about, None, stored.cycle,
    )  # fmt: skip


def _progress(job: Job, shadow: Shadow) -> Progress:
    return Progress(shadow.position, job.first, job.last, shadow.now, shadow.asked, shadow.decisions)


def _late(job: Job) -> int:
    """Observations of the range that the record had got past."""
    store = job.source.store
    return sum(
        1 for _ in store.read(after=job.first, to=job.last, cluster=job.cluster, types=tuple(CHANGES), late=True)
    )


def _report(
    job: Job, shadow: Shadow, sampler: Sampler, times: tuple[int, int], *, finished: bool, ledger: str
) -> ReplayResult:
    counts = Counts(**shadow.counts)
    notes = [*passed_over(_late(job)), *without_nodes(shadow.cache), *impossible(shadow.cache)]
    if counts.unknown_node:
        notes.append(
            f"of {counts.unknown_node} pods that ran the record does not say on which node: there is no decision to "
            "compare with; --mode free replays them"
        )
    used = usage(sampler.meter.used, sampler.meter.room, *times)
    return replace(
        job.result(times, ledger, None if finished else shadow.position),
        events=job.last - job.first if finished else shadow.position - job.first,
        cycles=shadow.asked,
        pods=shadow.pods,
        placed=counts.same_node + counts.other_node + counts.infeasible + counts.only_here,
        pending_recorded=shadow.pending(),
        placed_recorded=shadow.decisions + counts.unknown_node,
        counts=counts,
        waits_recorded=waits(shadow.waited),
        usage_recorded=used,
        evictions=counts.evicted_same + counts.evicted_only_here,
        evictions_recorded=shadow.evictions_recorded,
        gangs_broken_recorded=shadow.gangs_broken,
        divergence=shadow.first,
        divergences=shadow.divergences,
        notes=notes,
    )
