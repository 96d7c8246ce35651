"""How replays are carried out for a person: the progress bar, Ctrl-C, where results lie, and the table side by side.

Owns the bar and the lines. Must not hold logic. Called by `cli.replay`.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cli import render
from cli.common import INTERRUPTED, MISUSE, fail, note, one_line
from eventstore.types import PlaceMissing

if TYPE_CHECKING:
    from vcledger.replay.engine import ReplayResult
    from vcledger.replay.variants import Job, Ran
    from vcledger.replay.workers import Watcher

BARS_MAX = 8
"""So many bars are shown at once, of the jobs that run."""

COLUMNS_MAX = 6
"""More replays than that are shown one a line."""


def carry_out(jobs: Sequence[Job], *, workers: int | None = None, dask: str | None = None) -> list[Ran]:
    """Carries the jobs out with a bar on a terminal. A job that failed is told with its line. Ctrl-C ends those that
    run cleanly, then the command with 130, and the line says how to go on."""
    from vcledger.replay.workers import run_jobs

    with ExitStack() as stack:
        stop = stack.enter_context(told_to_stop())
        make_room(jobs)
        placed, folder = with_places(jobs) if dask is None else (list(jobs), None)
        try:
            with shown([job.label for job in placed]) as watcher:
                found = run_jobs(placed, workers=workers, dask=dask, watcher=watcher, stop=stop)
        except BaseException:
            _drop(folder)
            raise
    if stop() and not all_done(found, placed):
        if not any(ran.result for ran in found):
            _drop(folder)
            fail("interrupted before it began", INTERRUPTED)
        fail(how_to_go_on(found, placed, folder), INTERRUPTED)
    if folder is not None:
        _drop(folder)
        found = [without_ledger(ran) for ran in found]
    if len(jobs) == 1 and found[0].error:
        fail(found[0].error)
    for line in gathered([(ran.label, ran.error) for ran in found if ran.error], len(found)):
        typer.echo(f"error: {one_line(line)}", err=True)
    return found


def gathered(said: Sequence[tuple[str, str]], whole: int) -> list[str]:
    """What was said of replays, each line once, with the names of those it was said of; without where it was all."""
    of_line: dict[str, list[str]] = {}
    for label, line in said:
        of_line.setdefault(line, []).append(label)
    return [line if len(labels) == whole else f"{', '.join(labels)}: {line}" for line, labels in of_line.items()]


def all_done(found: Sequence[Ran], jobs: Sequence[object]) -> bool:
    """Whether every job came to its own end."""
    return len(found) == len(jobs) and all(
        ran.error or (ran.result is not None and ran.result.finished) for ran in found
    )


# --- where results lie --------------------------------------------------------------------------------------------


def with_places(jobs: Sequence[Job]) -> tuple[list[Job], Path | None]:
    """The jobs with a place for each result ledger, and the folder that was made for those that have none: only with
    it can one that is interrupted go on. A shadow leaves there what it needs, no more."""
    from vcledger.replay.variants import place_of

    if all(job.out is not None for job in jobs):
        return list(jobs), None
    folder = Path(tempfile.mkdtemp(prefix="vcledger-replay-"))
    placed = []
    for job in jobs:
        own = str(folder / "result.db") if len(jobs) == 1 else place_of(str(folder), job.label, alone=False)
        placed.append(replace(job, out=own) if job.plan.mode == "free" else replace(job, keep=own))
    return placed, folder


def make_room(jobs: Sequence[Job]) -> None:
    """Makes the folder that is to hold several results. PlaceMissing where what it is to lie in is not there, or a
    single result's folder: a name that is mistyped is no place."""
    for job in jobs:
        if job.out is None or "://" in job.out:
            continue
        folder = Path(job.out).absolute().parent
        above = folder.parent if len(jobs) > 1 else folder
        if not above.is_dir():
            raise PlaceMissing(f"the folder {above} is not there: make it first")
        folder.mkdir(exist_ok=True)


def _drop(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def how_to_go_on(found: Sequence[Ran], jobs: Sequence[Job], folder: Path | None) -> str:
    """The line after Ctrl-C."""
    finished = sum(ran.result is not None and ran.result.finished for ran in found)
    if len(jobs) == 1:
        result = found[0].result
        where = f"at position {result.stopped_at} of {result.last}" if result else ""
    else:
        where = f"with {finished} of {len(jobs)} replays done"
    if all(job.out is None and job.keep is None for job in jobs):
        return f"interrupted {where}; with --out it could go on"
    words = [word for word in sys.argv[1:] if word != "--resume"]
    if folder is not None:
        words += ["--out", str(folder / "result.db" if len(jobs) == 1 else folder)]
    return f"interrupted {where}; it goes on with: vcledger {shlex.join([*words, '--resume'])}"


def without_ledger(ran: Ran) -> Ran:
    """What came of a job whose result ledger is gone."""
    from msgspec.structs import replace as with_fields

    return ran if ran.result is None else with_fields(ran, result=with_fields(ran.result, ledger=""))


# --- looking on ----------------------------------------------------------------------------------------------------


@contextmanager
def told_to_stop() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, or the process told to end. The second Ctrl-C ends it at once."""
    caught: list[int] = []

    def on_signal(number: int, frame: object) -> None:
        if caught and number == signal.SIGINT:
            raise KeyboardInterrupt
        caught.append(number)

    former = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            former[number] = signal.signal(number, on_signal)
    except ValueError:  # not the main thread: then nobody presses Ctrl-C here
        pass
    try:
        yield lambda: bool(caught)
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


class Bars:
    """A bar for each job that runs, and one for all where there are several."""

    def __init__(self, labels: Sequence[str], progress: Any) -> None:
        self._labels, self._progress = labels, progress
        self._tasks: dict[int, Any] = {}
        self._all = progress.add_task("replays", total=len(labels)) if len(labels) > 1 else None
        if len(labels) == 1:
            self._tasks[0] = progress.add_task("replay", total=1.0)

    def moved(self, job: int, share: float) -> None:
        """A job has come so far, 0 to 1."""
        if job not in self._tasks:
            if share <= 0 or len(self._tasks) >= BARS_MAX:
                return
            self._tasks[job] = self._progress.add_task(self._labels[job], total=1.0)
        self._progress.update(self._tasks[job], completed=share)

    def done(self, job: int, ran: Ran) -> None:
        """A job has ended, by itself or because it was told to: its bar makes room."""
        if self._all is not None:
            if all_done([ran], [job]):
                self._progress.advance(self._all)
            if job in self._tasks:
                self._progress.remove_task(self._tasks.pop(job))


@contextmanager
def shown(labels: Sequence[str]) -> Iterator[Watcher]:
    """A watcher that shows bars on stderr where that is a terminal, else one that looks away."""
    from vcledger.replay.workers import Blind

    if not render.on_terminal():
        yield Blind()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bars(labels, progress)


# --- the table -----------------------------------------------------------------------------------------------------


def show_table(jobs: Sequence[Job], found: Sequence[Ran]) -> None:
    """The replays side by side: a column for each, or a line for each where there are many. In colour on a terminal."""
    from vcledger.replay.sidebyside import rows

    results, labels, bases = compared(jobs, found)
    if not results:
        return
    table = rows(results, bases)
    if len(results) <= COLUMNS_MAX:
        headers = ("", "RECORDED", *(label.upper() for label in labels))
        cells = [(row.figure, row.recorded, *row.cells) for row in table]
    else:
        headers = ("REPLAY", *(row.figure.upper() for row in table))
        cells = [(label, *(row.cells[number] for row in table)) for number, label in enumerate(labels)]
        if any(row.recorded != "-" for row in table):
            cells.insert(0, ("recorded", *(row.recorded for row in table)))
    if not sys.stdout.isatty():
        render.table(headers, cells)
        return
    from rich.console import Console
    from rich.table import Table

    drawn = Table(box=None, header_style="bold", pad_edge=False)
    for number, header in enumerate(headers):
        drawn.add_column(header, justify="left" if number == 0 else "right", no_wrap=True)
    for line in cells:
        drawn.add_row(*(render.printable(cell) for cell in line))
    Console(markup=False, highlight=False).print(drawn)


def tell_notes(found: Sequence[Ran]) -> None:
    """The replays' notes on stderr, each once."""
    results = [(ran.label, ran.result) for ran in found if ran.result is not None]
    note(*gathered([(label, line) for label, result in results for line in result.notes], len(results)))


def compared(jobs: Sequence[Job], found: Sequence[Ran]) -> tuple[list[ReplayResult], list[str], list[int]]:
    """The results that there are, their names, and for each the number of the base run of its trace and seed."""
    from vcledger.replay.variants import BASE

    results: list[ReplayResult] = []
    labels: list[str] = []
    bases: list[int] = []
    base_of: dict[tuple[str, int], int] = {}
    by_label = {job.label: job for job in jobs}
    for ran in found:
        if ran.result is None:
            continue
        job, number = by_label[ran.label], len(results)
        if job.variant == BASE:
            base_of[job.trace, job.plan.seed] = number
        first = next((at for (trace, _), at in base_of.items() if trace == job.trace), number)
        bases.append(base_of.get((job.trace, job.plan.seed), first))
        results.append(ran.result)
        labels.append(ran.label)
    return results, labels, bases


def as_data(jobs: Sequence[Job], found: Sequence[Ran]) -> dict[str, Any]:
    """The replays as data: what each was, and what came of it."""
    import msgspec

    by_label = {ran.label: ran for ran in found}
    replays: list[dict[str, Any]] = []
    for job in jobs:
        ran = by_label.get(job.label)
        entry: dict[str, Any] = {
            "name": job.label,
            "variant": job.variant,
            "trace": job.trace,
            "seed": job.plan.seed,
            "changes": [getattr(change, "text", "") for change in job.plan.changes],
        }
        if ran is not None and ran.result is not None:
            entry["result"] = msgspec.to_builtins(ran.result)
        else:
            entry["error"] = ran.error if ran is not None else "not run"
        replays.append(entry)
    return {"replays": replays}


def failed(found: Sequence[Ran]) -> int:
    """The exit code of jobs of which some failed: 2, else 0."""
    return MISUSE if any(ran.error for ran in found) else 0


__all__ = ["as_data", "carry_out", "failed", "show_table", "tell_notes"]
