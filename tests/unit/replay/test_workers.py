"""Jobs here and on processes: the same results, in the order of the jobs, whoever dies or is told to stop."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.unit.replay.traces import Gang, Stage, ledger_of
from vcledger.ledger import Ledger
from vcledger.replay import workers
from vcledger.replay.digest import result_digest
from vcledger.replay.engine import Mode, Progress, ReplayPlan
from vcledger.replay.result import ResultExists
from vcledger.replay.variants import Job, Ran, Trace, Variant, make_jobs, tried_again
from vcledger.replay.variants import perform as perform_at_once
from vcledger.replay.workers import Blind, run_here, run_jobs, run_on_processes, share_of
from vcledger.scheduler.session.conf import UnknownAction

LONG = Stage((4, 4, 2), tuple(Gang(3, 2, 1 + n % 2, n * 6, 5 + n % 7 * 2) for n in range(110)))
"""Hundreds of moments: a replay looks up and says how far it has come several times."""

WAIT_SECONDS_MAX = 120.0
ACTED = "VCLEDGER_TEST_ACTED"

MODES: tuple[Mode, Mode] = ("free", "shadow")
MORE = Variant("more", {"--add-nodes": ("2:cpu=4,memory=16Gi",)})


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    return ledger_of(LONG, tmp_path_factory.mktemp("trace") / "long.db")


def jobs_of(trace: str, out: Path | None, *, resume: bool = False) -> list[Job]:
    place = None if out is None else str(out)
    return make_jobs(ReplayPlan(mode="free", seed=5), {}, [MORE], [Trace(trace, "c")], out=place, resume=resume)


def told(found: Sequence[Ran]) -> list[object]:
    """What does not depend on where a replay ran."""
    from msgspec.structs import replace

    assert all(not ran.error for ran in found), found
    return [(ran.label, replace(ran.result, ledger="")) for ran in found if ran.result is not None]


def digests(jobs: Sequence[Job]) -> list[str]:
    """The digest of each result ledger."""
    found = []
    for job in jobs:
        with Ledger.open(job.out or "", read_only=True) as ledger:
            found.append(result_digest(ledger))
    return found


class Acts(Blind):
    """A watcher that does something once, when a job has begun."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act, self.acted = act, False
        self.ended: list[int] = []

    def moved(self, job: int, share: float) -> None:
        if share > 0 and not self.acted:
            self.acted = True
            self.act()

    def done(self, job: int, ran: Ran) -> None:
        self.ended.append(job)


def test_an_error_of_one_job_is_its_line_and_the_others_go_on(trace: str, tmp_path: Path) -> None:
    jobs = make_jobs(ReplayPlan(mode="free"), {}, [], [Trace(str(tmp_path / "none.db"), "c"), Trace(trace, "c", 0, 40)])
    watcher = Acts(lambda: None)
    first, second = run_jobs(jobs, watcher=watcher)
    assert first.result is None
    assert "none.db" in first.error
    assert second.result is not None
    assert second.result.finished
    assert watcher.ended == [0, 1]


def test_tried_again_a_free_replay_goes_on_and_a_shadow_begins_anew(tmp_path: Path) -> None:
    out = tmp_path / "out.db"
    out.write_bytes(b"begun")
    free, shadow = (make_jobs(ReplayPlan(mode=mode), {}, [], [Trace("a.db", "c")], out=str(out))[0] for mode in MODES)
    assert tried_again(free).resume
    assert out.exists()
    assert tried_again(shadow) == shadow
    assert not out.exists()


def test_a_result_that_is_there_is_refused_before_anything_begins(trace: str, tmp_path: Path) -> None:
    ledger_of(Stage((1,), ()), tmp_path / "more.db")
    with pytest.raises(ResultExists, match=r"more\.db holds a ledger already"):
        run_jobs(jobs_of(trace, tmp_path))
    assert not (tmp_path / "base.db").exists()


def test_a_configuration_that_is_no_good_is_refused_before_anything_begins(trace: str, tmp_path: Path) -> None:
    plan, bad = ReplayPlan(mode="free"), Variant("bad", conf='actions: "enqueue, unheard"')
    watcher = Acts(lambda: None)
    with pytest.raises(UnknownAction, match=r"^bad: .*unheard"):
        run_jobs(make_jobs(plan, {}, [bad], [Trace(trace, "c")], out=str(tmp_path)), watcher=watcher)
    assert watcher.ended == []
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UnknownAction) as error:
        run_jobs(make_jobs(ReplayPlan(conf=bad.conf or ""), {}, [], [Trace(trace, "c")]))
    assert not str(error.value).startswith("base")


def test_what_has_not_begun_when_it_is_told_to_stop_is_missing(trace: str) -> None:
    assert run_here(jobs_of(trace, None), Blind(), lambda: True) == []


@pytest.fixture(scope="module")
def calm(trace: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[object], list[str]]:
    """What comes of two jobs that run one after the other: results, and digests of the result ledgers."""
    jobs = jobs_of(trace, tmp_path_factory.mktemp("calm"))
    return told(run_here(jobs, Blind(), lambda: False)), digests(jobs)


def perform_and_wait(
    acted: Path, job: Job, progress: Callable[[Progress], None] | None, stop: Callable[[], bool] | None
) -> Ran:
    """A replay that waits on its way until it is told to stop or the test has acted, which makes a file, so that it
    does not hang on how fast this machine is whether it is still under way then."""

    def wait(at: Progress) -> None:
        assert stop is not None
        if progress is not None:
            progress(at)
        end = time.monotonic() + WAIT_SECONDS_MAX
        while share_of(at) > 0 and not acted.exists() and not stop() and time.monotonic() < end:
            time.sleep(0.01)

    return perform_at_once(job, wait, stop)


def begin_and_wait(told: Any) -> None:
    """A worker's first act in the tests below."""
    vars(workers).update(_told=told, perform=partial(perform_and_wait, Path(os.environ[ACTED])))


@pytest.fixture
def acted(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file whose coming lets the workers go on."""
    path = tmp_path_factory.mktemp("acted") / "acted"
    monkeypatch.setenv(ACTED, str(path))
    monkeypatch.setattr(workers, "_begin", begin_and_wait)
    return path


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_replay_goes_on(
    trace: str, tmp_path: Path, calm: tuple[list[object], list[str]], acted: Path
) -> None:
    def kill() -> None:
        os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
        acted.touch()

    watcher = Acts(kill)
    jobs = jobs_of(trace, tmp_path)
    found = run_jobs(jobs, workers=2, watcher=watcher)
    assert watcher.acted
    assert sorted(watcher.ended) == [0, 1]
    assert [ran.label for ran in found] == ["base", "more"]
    assert (told(found), digests(jobs)) == calm


@pytest.mark.slow
def test_told_to_stop_processes_end_cleanly_and_the_replays_can_go_on(
    trace: str, tmp_path: Path, calm: tuple[list[object], list[str]], acted: Path
) -> None:
    stopped = False

    def press() -> None:
        nonlocal stopped
        stopped = True

    jobs = jobs_of(trace, tmp_path)
    found = run_on_processes(jobs, 2, Acts(press), lambda: stopped)
    assert stopped
    assert any(ran.result is not None and not ran.result.finished for ran in found)
    again = run_here(jobs_of(trace, tmp_path, resume=True), Blind(), lambda: False)
    assert (told(again), digests(jobs)) == calm


def test_told_to_stop_while_it_reads_a_job_has_neither_result_nor_error(trace: str) -> None:
    asked = iter([False, True])
    assert run_here(jobs_of(trace, None), Blind(), lambda: next(asked, True)) == [Ran("base")]


@pytest.mark.parametrize(("asked", "jobs", "shared"), [(None, 1, 3), (None, 2, 3), (1, 2, 1), (2, 1, 2)])
def test_one_replay_at_a_time_is_shared_by_the_cores_or_as_asked(
    trace: str, monkeypatch: pytest.MonkeyPatch, asked: int | None, jobs: int, shared: int
) -> None:
    told: list[int] = []

    def noted(job: Job, progress: object, stop: object, sharing: int) -> Ran:
        told.append(sharing)
        return Ran(job.label)

    monkeypatch.setattr(workers, "perform", noted)
    monkeypatch.setattr(workers, "cores", lambda: 3)
    run_jobs(jobs_of(trace, None)[:jobs], workers=asked)
    assert told == [shared] * jobs


def test_no_more_processes_than_memory_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, taken in ((1, 1), (2, 2), (64, 4)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, there=there: set(range(there)), raising=False)
        assert workers.cores() == taken
