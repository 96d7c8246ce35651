"""A free replay from plan to result: the record read, the simulation run or gone on with, the figures made.

Owns that order, and the comparison of both sides pod by pod. Must not know how a moment is simulated. Called by
`vcledger.replay.engine`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from projections.cache.brief import decode_brief
from projections.cache.tasks import pod_request
from vcledger import codec
from vcledger.errors import VcledgerError
from vcledger.folding import collector_paused
from vcledger.replay.courses import Course, courses_of, spans_of
from vcledger.replay.figures import usage, waits
from vcledger.replay.free import FreeReplay
from vcledger.replay.gangs import broken_in_record
from vcledger.replay.inputs import Reading
from vcledger.replay.living import Placing
from vcledger.replay.notes import notes_of
from vcledger.replay.record import Record
from vcledger.replay.report import Counts, Divergence, Progress, ReplayResult, Side
from vcledger.replay.result import Origin, ResultLedger
from vcledger.replay.world import World
from volcano.objects.quantity import QuantityInvalid

if TYPE_CHECKING:
    from vcledger.replay.engine import Job

READ_EACH = 1_000
"""Inputs that are read between two looks at `stop`."""

TOLD_EACH = 256
"""Steps between two looks at `stop` and two words of progress."""


class StoppedReading(VcledgerError):
    """A replay was told to stop before its first step."""


def run_free(job: Job, out: str, *, resume: bool) -> ReplayResult:
    """Runs or goes on with a free replay whose result ledger is at `out`."""
    model, config = job.ways()
    reading = Reading(job.source, job.cluster, job.first, job.last, job.plan.changes)
    record = Record(config.scheduler_names)
    for number, given in enumerate(reading):
        record.see(given)
        if (number + 1) % READ_EACH == 0 and job.stop():
            raise StoppedReading("told to stop while the record was being read: nothing was replayed yet")
    spans = spans_of(record)
    result = ResultLedger(out, job.cluster, resume=resume)
    try:
        world = World(record, courses_of(record, spans), spans, job.plan.seed, model, config)
        decider = job.decider(world.cache, world.pod_of)
        world.touch = decider.touch
        result.begin(origin_of_job(job), record.first_time or 0)
        period = round(job.plan.period_seconds * 1_000_000)
        run = FreeReplay(world, result, decider, period)
        if result.held:
            _go_on(run, result)
        finished = _run(job, run)
        result.flush()
        told = _report(job, run, finished=finished, ledger=out)
        return _with_notes(told, reading, run)
    finally:
        result.close()


def origin_of_job(job: Job) -> Origin:
    """What the result ledger's first event says. The digest covers all that decides the replay's course."""
    plan = job.plan
    model, options = job.ways()
    parts = (
        plan.mode, job.cluster, job.first, job.last, plan.conf, plan.seed, plan.changes, model,
        options, plan.period_seconds, plan.sampling, _digest_of_source(job),
    )  # fmt: skip
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
    return Origin(digest, plan.mode, plan.seed, plan.name, job.cluster, job.first, job.last, plan.conf, model)


def _digest_of_source(job: Job) -> str:
    """What tells this source from another: its event at the end of the range."""
    found = job.source.store.get([job.last])
    return hashlib.blake2b(repr(found[0][:10] + found[0][12:]).encode()).hexdigest() if found else ""


def _go_on(run: FreeReplay, result: ResultLedger) -> None:
    """Brings the simulation to where the result ledger ends."""
    now = run.start
    with collector_paused():
        for stored in result.ledger.store.read(to=result.held):
            run.world.see(codec.recorded(stored), stored.payload)
            now = max(now, stored.observed_at)
            run.cycles += stored.type == "CycleStarted"
    result.now = now
    run.skip_to(now)


def _run(job: Job, run: FreeReplay) -> bool:
    """Steps until the end or until it is to stop. True: it came to the end."""
    steps = 0
    with collector_paused():
        while run.step():
            steps += 1
            if steps % TOLD_EACH == 0:
                if job.progress is not None:
                    job.progress(_progress(job, run))
                if job.stop():
                    return False
    if job.progress is not None:
        job.progress(_progress(job, run))
    return True


def _progress(job: Job, run: FreeReplay) -> Progress:
    world = run.world
    placed = sum(1 for placing in world.placings.values() if placing.placed is not None)
    position = max(run.position, job.first)
    return Progress(
        position, job.first, job.last, run.now, run.cycles, placed, len(world.unplaced) + len(world.binding)
    )


def _report(job: Job, run: FreeReplay, *, finished: bool, ledger: str) -> ReplayResult:
    world, record = run.world, run.world.record
    start, end = run.start, max(world.last_seen, record.last_time)
    courses = list(world.courses.values())
    placings = world.placings
    recorded_used = _used_in_record(world, courses)
    counts, first, differing = compare(courses, placings, world)
    return replace(
        job.result((start, end), ledger, None if finished else max(run.position, job.first)),
        events=run.result.next - 1,
        cycles=run.cycles,
        pods=len(world.came),
        placed=world.placed_count,
        pending=len(world.unplaced) + len(world.binding),
        pending_recorded=sum(life.started is None and life.deleted is None for life in record.lives.values()),
        placed_recorded=sum(life.started is not None for life in record.lives.values()),
        counts=counts,
        waits=waits(world.waited),
        waits_recorded=waits(_waits_in_record(courses, placings)),
        usage=usage(world.meter.used, world.meter.room, start, end),
        usage_recorded=usage(recorded_used, world.meter.room, start, end),
        gangs_broken=world.broken,
        gangs_broken_recorded=broken_in_record(record),
        evictions=world.evictions,
        evictions_recorded=sum(life.evicted for life in record.lives.values()),
        never_made=sum(course.uid not in placings for course in courses if course.lives and finished),
        makespan_recorded_seconds=round((max((time for time, _, _ in recorded_used), default=start) - start) / 1e6, 3),
        makespan_seconds=round((_last_use(world, start) - start) / 1e6, 3),
        divergence=first,
        divergences=differing,
    )


def _last_use(world: World, start: int) -> int:
    return max((time for time, _, _ in world.meter.used), default=start)


def _waits_in_record(courses: Iterable[Course], placings: dict[str, Placing]) -> Iterable[tuple[str, int]]:
    for course in courses:
        queue = placings[course.uid].queue if course.uid in placings else ""
        for life in course.lives:
            if life.started is not None and not life.listed:
                yield queue, life.started - life.created


def _used_in_record(world: World, courses: Iterable[Course]) -> list[tuple[int, str, float]]:
    """What the recorded decisions held over time."""
    used: list[tuple[int, str, float]] = []
    for course in courses:
        try:
            amounts = pod_request(world.cache, decode_brief(course.body).spec).amounts()
        except (QuantityInvalid, ValueError):
            continue
        for life in course.lives:
            if life.started is not None:
                used += [(life.started, name, amount) for name, amount in amounts.items()]
                if life.gone is not None:
                    used += [(life.gone, name, -amount) for name, amount in amounts.items()]
    return used


def compare(
    courses: Iterable[Course], placings: dict[str, Placing], world: World
) -> tuple[Counts, Divergence | None, int]:
    """How the record's first place of each pod and ours compare; the first that differs, by the record's position."""
    tally = dict.fromkeys(Counts.__struct_fields__, 0)
    differing: list[Divergence] = []
    for course in courses:
        if course.first is None or course.first.listed:
            continue
        placing = placings.get(course.uid, Placing())
        life = next((life for life in course.lives if life.started is not None), None)
        kind = _kind_of(life.node if life is not None else None, placing)
        tally[kind] += 1
        if kind in ("other_node", "only_here", "only_there"):
            there = life or course.lives[-1]
            differing.append(_divergence(kind, course, there.decided_at or there.last_position, placing, world))
    differing.sort(key=lambda one: one.position)
    return Counts(**tally), differing[0] if differing else None, len(differing)


def _kind_of(node: str | None, placing: Placing) -> str:
    if node is None:
        return "neither" if placing.placed is None else "only_here"
    if placing.placed is None:
        return "only_there"
    if not node:
        return "unknown_node"
    return "same_node" if node == placing.node else "other_node"


def placed_on(placing: Placing) -> str:
    """Our reason for a place."""
    return f"placed on {placing.node}" + (f", score {placing.score:.6g}" if placing.score is not None else "")


def _divergence(kind: str, course: Course, position: int, placing: Placing, world: World) -> Divergence:
    life = next((life for life in course.lives if life.started is not None), course.lives[-1])
    if life.started is not None:
        there = Side(life.node, life.started, f"bound to {life.node}" if life.node else "ran, on a node unknown")
    else:
        there = Side("", None, life.said or "left pending, and nothing was said of it")
    if placing.placed is not None:
        here = Side(placing.node, placing.placed, placed_on(placing))
    elif placing.arrived is None:
        here = Side(
            "", None, f"not made, as its PodGroup was not let in: {world.jobs_said.get(course.group, 'never tried')}"
        )
    else:
        here = Side("", None, world.held_back.get(course.group) or placing.said or "left pending")
    return Divergence(position, course.key, kind, there, here)


def _with_notes(told: ReplayResult, reading: Reading, run: FreeReplay) -> ReplayResult:
    return replace(told, notes=notes_of(reading, run.world))
