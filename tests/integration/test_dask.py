"""Replays on a real Dask cluster of two workers, one of which is killed meanwhile: the results are the same."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Call, call
from tests.unit.replay.test_workers import LONG, digests, jobs_of, perform_and_wait, told
from tests.unit.replay.traces import Gang, Stage, ledger_of
from vcledger.replay import on_dask
from vcledger.replay.on_dask import DaskAddressInvalid, DaskMissing, DaskUnreachable, run_on_dask
from vcledger.replay.result import ResultExists
from vcledger.replay.variants import Job, Ran
from vcledger.replay.workers import Blind, run_here, run_jobs

__all__ = ["call"]

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[Any]:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as found:
        yield found


on_worker = on_dask._on_worker


def on_worker_and_wait(acted: str, job: Job, word: str) -> Ran:
    """A worker's turn, whose replay waits on its way until the test has acted."""
    vars(on_dask).update(perform=partial(perform_and_wait, Path(acted)))
    return on_worker(job, word)


def test_a_worker_is_killed_and_the_results_are_the_same(
    cluster: Any, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    acted = tmp_path / "acted"
    monkeypatch.setattr(on_dask, "_on_worker", partial(on_worker_and_wait, str(acted)))
    trace = ledger_of(LONG._replace(gangs=LONG.gangs[:70]), tmp_path / "long.db")
    for name in ("calm", "killed"):
        (tmp_path / name).mkdir()
    calm = jobs_of(trace, tmp_path / "calm")
    expected = told(run_here(calm, Blind(), lambda: False))
    jobs = jobs_of(trace, tmp_path / "killed")
    killed: list[int] = []

    def look() -> bool:
        """Asked while it waits: kills a worker that has a job, as soon as a result ledger has come about."""
        busy = [worker.name for worker in cluster.scheduler.workers.values() if worker.processing]
        if not killed and busy and any(Path(job.out or "").exists() for job in jobs):
            killed.append(cluster.workers[busy[0]].pid)
            os.kill(killed[0], signal.SIGKILL)
            acted.touch()
        return False

    found = run_on_dask(jobs, cluster.scheduler_address, Blind(), look)
    assert len(killed) == 1
    assert [ran.label for ran in found] == ["base", "more"]
    assert told(found) == expected
    assert digests(jobs) == digests(calm)
    small = ledger_of(Stage((4,), (Gang(2, 2, 1, 1, 5),)), tmp_path / "small.db")
    shown = call("replay", "--mode", "free", "--dask", cluster.scheduler_address, "--seeds", "1..2", db=small)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.split()[:7] == ["RECORDED", "BASE", "SEED", "1", "BASE", "SEED", "2"]
    with pytest.raises(ResultExists, match="holds a ledger already"):
        run_jobs(jobs, dask=cluster.scheduler_address)


def test_without_dask_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("vcledger.replay.on_dask.import_module", missing)
    with pytest.raises(DaskMissing, match=r"Dask is not installed: pip install 'vcledger\[dask\]'"):
        run_jobs([], dask="tcp://127.0.0.1:1")


@pytest.mark.parametrize(
    "address", ["nonsense", "", "tcp://here", "here:", "here:http", "here:0", "here:70000", "a b:1"]
)
def test_what_is_no_address_is_refused_before_anything_is_made(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributed.Client.__init__", lambda *_, **__: pytest.fail("a client is made"))
    with pytest.raises(DaskAddressInvalid, match="is no address of a Dask scheduler: want its port too"):
        run_jobs([], dask=address)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "[::1]:1", "nonsense://here:1", "tls://127.0.0.1:1"])
def test_no_scheduler_there(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vcledger.replay.on_dask.CONNECT_SECONDS", 1)
    states: list[str] = []
    monkeypatch.setattr("distributed.Client.close", lambda client, *_, **__: states.append(client.status))
    with pytest.raises(DaskUnreachable, match=f"no Dask scheduler answers at {re.escape(address)}"):
        run_jobs([], dask=address)
    gc.collect()
    assert set(states) <= {"closed"}
