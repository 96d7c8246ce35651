"""Jobs carried out one after the other, or on several processes of this machine.

Owns the processes, how far each job has come, and how they are told to end. Must not know what a job does. Called by
`cli.replaying` and users' code; `vcledger.replay.on_dask` does the same on a Dask cluster.

Results come back in the order of the jobs, whichever ended first. A worker that dies takes the jobs that it had with it
to another one: a free replay with a result ledger goes on there, others begin again, and the result is the same.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

from vcledger.replay.engine import Progress
from vcledger.replay.processes import DEATHS_MAX, POLL_SECONDS, deaf
from vcledger.replay.variants import Job, Ran, perform, refuse_confs, refuse_held, tried_again

SHARING_MAX = 4

SHARE = 1_000_000
"""The whole of a job, in the array that its worker tells its progress through."""


class Watcher(Protocol):
    """Who looks on."""

    def moved(self, job: int, share: float) -> None:
        """A job has come so far, 0 to 1."""
        ...

    def done(self, job: int, ran: Ran) -> None:
        """A job has ended."""
        ...


class Blind:
    """A watcher that looks away."""

    def moved(self, job: int, share: float) -> None:
        return

    def done(self, job: int, ran: Ran) -> None:
        return


def share_of(progress: Progress) -> float:
    """How much of the replay is done, 0 to 1."""
    whole = progress.last - progress.first
    return min(1.0, max(0.0, (progress.position - progress.first) / whole)) if whole > 0 else 0.0


def cores() -> int:
    """The processes that share one long shadow replay unless a number is asked for: the cores that this one may use, up
    to SHARING_MAX, as each takes some hundred megabytes."""
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, SHARING_MAX)


def run_here(jobs: Sequence[Job], watcher: Watcher, stop: Callable[[], bool], sharing: int = 1) -> list[Ran]:
    """One after the other, in this process; up to `sharing` processes share a long shadow replay. Those that had not
    begun when `stop` said True are missing."""
    found: list[Ran] = []
    for number, job in enumerate(jobs):
        if stop():
            break

        def progress(at: Progress, number: int = number) -> None:
            watcher.moved(number, share_of(at))

        ran = perform(job, progress, stop, sharing)
        watcher.done(number, ran)
        found.append(ran)
    return found


# --- processes -----------------------------------------------------------------------------------------------------

_told: Any = None
"""In a worker: how far each job has come, and in the last place whether to stop."""


def _begin(told: Any) -> None:
    """A worker's first act."""
    global _told  # noqa: PLW0603 - the pool hands its shared memory to a worker only here
    _told = told


def _work(number: int, job: Job) -> Ran:
    """A worker's turn."""

    def progress(at: Progress) -> None:
        _told[number] = int(share_of(at) * SHARE)

    return perform(job, progress, lambda: bool(_told[-1]))


def run_on_processes(jobs: Sequence[Job], workers: int, watcher: Watcher, stop: Callable[[], bool]) -> list[Ran]:
    """On `workers` processes. Those that had not begun when `stop` said True are missing."""
    context = multiprocessing.get_context("spawn")
    told = context.Array("q", len(jobs) + 1, lock=False)
    found: dict[int, Ran] = {}
    waiting = dict(enumerate(jobs))
    deaths = 0
    while waiting and not stop():
        before = len(found)
        count = min(workers, len(waiting))
        with ProcessPoolExecutor(count, context, initializer=_begin, initargs=(told,)) as pool:
            died = _one_pool(pool, waiting, told, found, watcher, stop)
        waiting = {number: tried_again(job) for number, job in waiting.items() if number not in found}
        if not died:
            break
        deaths = 1 if len(found) > before else deaths + 1
        if deaths >= DEATHS_MAX:
            line = f"its worker process died {deaths} times, perhaps for want of memory: try fewer --workers"
            for number, job in waiting.items():
                found[number] = Ran(job.label, None, line)
                watcher.done(number, found[number])
            break
    return [found[number] for number in sorted(found)]


def _one_pool(
    pool: ProcessPoolExecutor,
    waiting: dict[int, Job],
    told: Any,
    found: dict[int, Ran],
    watcher: Watcher,
    stop: Callable[[], bool],
) -> bool:
    """Has the jobs carried out until all have ended, or a worker died: then it says True."""
    running: dict[Future[Ran], int] = {}
    died = False
    try:
        with deaf():
            for number, job in waiting.items():
                running[pool.submit(_work, number, job)] = number
        while running:
            ended, _ = wait(running, POLL_SECONDS, FIRST_COMPLETED)
            for future in sorted(ended, key=running.__getitem__):
                number = running.pop(future)
                try:
                    if not future.cancelled():
                        found[number] = future.result()
                        watcher.done(number, found[number])
                except BrokenProcessPool:
                    died = True
            for number in running.values():
                watcher.moved(number, told[number] / SHARE)
            if stop() and not told[-1]:
                told[-1] = 1
                for future in running:
                    future.cancel()
    except BrokenProcessPool:  # it died while jobs were still being handed out
        died = True
    return died


def run_jobs(
    jobs: Sequence[Job],
    *,
    workers: int | None = 1,
    dask: str | None = None,
    watcher: Watcher | None = None,
    stop: Callable[[], bool] | None = None,
) -> list[Ran]:
    """Carries the jobs out, `workers` at a time on processes of this machine, or on the Dask cluster whose scheduler is
    at `dask`. A single one is shared by so many processes where it is a long shadow replay; None: jobs one after the
    other, each by as many as `cores` says. What came of each, in the order of the jobs; once `stop` says True those
    that run end cleanly, with `finished` False, and the rest are missing. ConfInvalid, PluginUnusable, ResultExists,
    DaskMissing, DaskUnreachable."""
    watcher, stop = watcher or Blind(), stop or (lambda: False)
    refuse_confs(jobs)
    refuse_held(jobs)
    if dask is not None:
        from vcledger.replay.on_dask import run_on_dask

        return run_on_dask(jobs, dask, watcher, stop)
    if workers is not None and workers > 1 and len(jobs) > 1:
        return run_on_processes(jobs, workers, watcher, stop)
    return run_here(jobs, watcher, stop, cores() if workers is None else workers)


__all__ = ["Blind", "Watcher", "cores", "run_here", "run_jobs", "run_on_processes", "share_of"]
