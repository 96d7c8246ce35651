"""A shadow replay from plan to result.

Owns that order, and the copy of the record in a result ledger. Must not know how a decision is judged, nor where a
piece of the record is replayed. Called by `vcledger.replay.engine`.
"""

from __future__ import annotations

from dataclasses import replace as changed
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from eventstore.types import RECOMPUTED, NewEvent, StoredEvent, StreamId
from vcledger.replay.figures import STRETCHES, usage, waits
from vcledger.replay.freely import origin_of_job
from vcledger.replay.inputs import CHANGES
from vcledger.replay.notes import passed_over
from vcledger.replay.report import Counts, Progress, ReplayResult
from vcledger.replay.result import ResultLedger
from vcledger.replay.shadow import Asking
from vcledger.replay.shadow_pieces import SHARED_FROM, Ended, Piece, Work, asks_stayers, cut, walk
from vcledger.replay.shadow_state import State, leave, load, save
from vcledger.replay.shadow_tally import AnyNote, Said, Tally
from volcano.events import catalog

if TYPE_CHECKING:
    from vcledger.replay.engine import Job

NUMBERED = ("CycleStarted", "CycleEnded")
"""What the session says with the number of its question in it."""


class Copying:
    """The record, and between its events what the session says, on their way into a result ledger."""

    def __init__(self, job: Job, result: ResultLedger, copied: int) -> None:
        self.job, self.result, self.copied = job, result, copied

    def up_to(self, position: int) -> None:
        """The record up to a position."""
        if position <= self.copied:
            return
        record = self.job.source.store.read(after=self.copied, to=position, cluster=self.job.cluster, late=False)
        for stored in record:
            self.result.copied(_copy(stored))
            self.result.step_ended()
        self.copied = position

    def say(self, said: Said, before: int) -> None:
        """What was said in a question, `before` which there were so many that its number does not count."""
        self.up_to(said.position - 1)
        number, result = said.number + before, self.result
        for kind, namespace, name, uid, type_, family, schema, payload in said.events:
            if before and type_ in NUMBERED:
                event = catalog.decode(type_, schema, kind, payload)
                payload = catalog.encode(msgspec.structs.replace(event, cycle=number)).payload
            stream = StreamId(result.cluster, kind, namespace, name, uid)
            result.copied(
                NewEvent(stream, type_, family, result.now, payload, schema, RECOMPUTED, None, False, False, "", None,
                         number)
            )  # fmt: skip


def _copy(stored: StoredEvent) -> NewEvent:
    return NewEvent(
        stored.stream, stored.type, stored.family, stored.observed_at, stored.payload, stored.schema, stored.known,
        stored.resource_version, stored.gone, False, stored.about, None, stored.cycle,
    )  # fmt: skip


class Run:
    """What comes of the notes, piece after piece: their tally, and the result ledger if there is one."""

    def __init__(self, job: Job, tally: Tally, copying: Copying | None) -> None:
        self.job, self.tally, self.copying = job, tally, copying
        self._before = 0

    def piece_begins(self, number: int) -> None:
        """The next notes are of a piece that counts its questions from this number on."""
        self._before = self.tally.asked - number

    def take(self, note: AnyNote) -> None:
        """One more note."""
        if type(note) is Said:
            if self.copying is not None:
                self.copying.say(note, self._before)
        else:
            note.into(self.tally)

    def moved(self, asking: Asking) -> bool:
        """So far it has come in this process. True: it is to stop."""
        self.tell(asking.position, asking.now)
        return self.job.stop()

    def tell(self, position: int, now: int) -> None:
        """Tells how far it has come."""
        job, tally = self.job, self.tally
        if job.progress is not None:
            job.progress(Progress(position, job.first, job.last, now, tally.asked, tally.decisions))


def run_shadow(job: Job, out: str | None, *, resume: bool, keep: str | None = None, workers: int = 1) -> ReplayResult:
    """Runs a shadow replay, or goes on with one; with `out` the record and what the session says of it are written
    there. `keep`: where one without `out` leaves what it needs to go on, or what came of it. On `workers` processes
    where the record is long enough for that, which changes nothing in what comes out."""
    if out is None:
        return _run_from(job, None, "", keep, workers)
    result = ResultLedger(out, job.cluster, resume=resume)
    try:
        return _run_from(job, result, out, None, workers)
    finally:
        result.close()


def _run_from(job: Job, result: ResultLedger | None, out: str, keep: str | None, workers: int) -> ReplayResult:
    """From the beginning, or from where the result ledger says that it stopped."""
    times = _times(job)
    state = None
    if result is not None:
        result.begin(origin_of_job(job), times[0])
        state = load(result)
    if state is not None and state.result is not None:
        return state.result
    work = _work(job, times, says=result is not None)
    tally, asking = Tally(work.start, work.every), Asking(position=job.first)
    copied = job.first if result is not None else None
    if result is not None and state is not None:
        tally.put_back(state.tally)
        asking, copied, result.now = state.asking, state.copied, result.ledger.store.high_water(job.cluster) or times[0]
    copying = Copying(job, result, copied) if result is not None and copied is not None else None
    ended = _run(job, work, Run(job, tally, copying), asking, workers)
    if not ended.finished:
        copied = copying.copied if copying is not None else None
        _keep(job, result, State(copied, ended.asking, tally.kept()), keep, times[0])
    tally.close()
    told = _report(job, tally, ended, times, ledger=out if copying is not None else "")
    if ended.finished:
        _keep(job, result, State(None, result=told), keep, times[0])
    return told


def _run(job: Job, work: Work, run: Run, asking: Asking, workers: int) -> Ended:
    """All that is left of the record, here or on processes; what is in mind at the end, questions counted from the
    replay's beginning."""
    after = asking.position
    if workers > 1 and job.last - after >= SHARED_FROM:
        from vcledger.replay.shadow_workers import run_pieces

        pieces = cut(job.source, work, after, job.last, workers)
        ended = run_pieces(run, job.source.store.address, work, pieces, asking, workers)
    else:
        run.piece_begins(asking.number)
        piece = Piece(after, job.last, ends=True)
        ended = walk(job.source, work, piece, asking, job.decider, run.take, run.moved)
    if run.copying is not None:
        run.copying.up_to(job.last if ended.finished else ended.asking.position)
    run.tell(job.last if ended.finished else ended.asking.position, ended.asking.now)
    ended.asking.number = run.tally.asked
    return ended


def _work(job: Job, times: tuple[int, int], *, says: bool) -> Work:
    model, options = job.ways()
    stays = asks_stayers(job.source, job.cluster, options, job.first, job.last)
    plan = changed(job.plan, cluster=job.cluster, model=model, options=options)
    return Work(
        plan, job.cluster, model, options, stays, times[0], max(1, (times[1] - times[0]) // STRETCHES), says
    )  # fmt: skip


def _keep(job: Job, result: ResultLedger | None, state: State, keep: str | None, start: int) -> None:
    """Keeps the state in the result ledger, else at `keep`."""
    if result is not None:
        result.flush()
        save(state, result)
    elif keep is not None:
        leave(state, lambda at: at.begin(origin_of_job(job), start), keep, job.cluster)


def _times(job: Job) -> tuple[int, int]:
    start = job.source.observed_at(max(1, job.first), job.cluster)
    first = next(job.source.store.read(after=job.first, to=job.last, cluster=job.cluster, late=False, limit=1), None)
    if start is None:
        start = first.observed_at if first is not None else 0
    return start, job.source.observed_at(job.last, job.cluster) or start


def _late(job: Job) -> int:
    """Observations of the range that the record had got past."""
    store = job.source.store
    return sum(
        1 for _ in store.read(after=job.first, to=job.last, cluster=job.cluster, types=tuple(CHANGES), late=True)
    )


def _report(job: Job, tally: Tally, ended: Ended, times: tuple[int, int], *, ledger: str) -> ReplayResult:
    counts = Counts(**tally.counts)
    notes = [*passed_over(_late(job)), *ended.notes]
    if counts.unknown_node:
        notes.append(
            f"of {counts.unknown_node} pods that ran the record does not say on which node: there is no decision to "
            "compare with; --mode free replays them"
        )
    stopped_at = None if ended.finished else ended.asking.position
    return replace(
        job.result(times, ledger, stopped_at),
        events=(job.last if stopped_at is None else stopped_at) - job.first,
        cycles=tally.asked,
        pods=tally.pods,
        placed=counts.same_node + counts.other_node + counts.infeasible + counts.only_here,
        pending_recorded=ended.pending,
        placed_recorded=tally.decisions + counts.unknown_node,
        counts=counts,
        waits_recorded=waits(tally.waited),
        usage_recorded=usage(tally.meter.used, tally.meter.room, *times),
        evictions=counts.evicted_same + counts.evicted_only_here,
        evictions_recorded=tally.evictions_recorded,
        gangs_broken_recorded=tally.gangs_broken,
        divergence=tally.first,
        divergences=tally.divergences,
        notes=notes,
    )
