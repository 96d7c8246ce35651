"""Snapshots along the log: when they are made, that they can be gone on from, and that they change nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projections.cache import Cache
from tests.processes import hearing_interrupts
from tests.unit.vcledger import build
from vcledger.ledger import Ledger, cache_projection
from vcledger.snapshotter import Policy, SnapshotProcess, Snapshotter, SnapshotterFailed, catch_up

SMALL = Policy(whole_every=100, changes_every=20)


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


@pytest.fixture
def ledger(db: str) -> Iterator[Ledger]:
    with Ledger.open(db, create=True) as opened:
        build.append(opened.store, build.churn(330))
        yield opened


def shape(ledger: Ledger) -> list[tuple[int, int | None]]:
    return [(info.position, info.base) for info in ledger.store.snapshots()]


def digests(ledger: Ledger, positions: range) -> list[str]:
    projection = cache_projection()
    return [projection.digest(ledger.folder.at(projection, "c", position)) for position in positions]


def test_whole_ones_and_changes_between_them(ledger: Ledger) -> None:
    progress = catch_up(ledger, policy=SMALL)
    assert shape(ledger) == [
        (position, None if (position - 20) % 100 == 0 else position - 20) for position in range(20, 321, 20)
    ]
    assert (progress.position, progress.whole, progress.changes) == (330, 4, 12)
    assert progress.size == sum(info.size for info in ledger.store.snapshots())
    assert catch_up(ledger, policy=SMALL) == (330, 0, 0, 0)


def test_state_at_any_position_is_that_of_a_rebuild(ledger: Ledger) -> None:
    positions = range(0, 331, 7)
    before = digests(ledger, positions)
    assert len(set(before)) > 40
    catch_up(ledger, policy=SMALL)
    assert digests(ledger, positions) == before


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(0, 330), max_size=5), st.integers(1, 60), st.integers(1, 4))
def test_stopping_anywhere_gives_the_same_snapshots_and_states(stops: list[int], every: int, chain: int) -> None:
    policy = Policy(whole_every=every * chain, changes_every=every)
    with TemporaryDirectory() as folder, Ledger.open(f"{folder}/ledger.db", create=True) as ledger:
        build.append(ledger.store, build.churn(330))
        projection = cache_projection()
        for stop in sorted(stops):
            Snapshotter[Cache](ledger.store, "c", projection, policy).run(stop)
        catch_up(ledger, policy=policy)
        assert [info.position for info in ledger.store.snapshots()] == list(range(every, 331, every))
        last = ledger.store.snapshots()[-1].position
        rebuilt = projection.digest(ledger.rebuild(last))
        assert projection.digest(ledger.folder.nearest(projection, "c", last)[1]) == rebuilt


def test_clusters_have_snapshots_of_their_own(ledger: Ledger) -> None:
    build.append(ledger.store, build.churn(130, "d"))
    catch_up(ledger, "d", policy=SMALL)
    assert {info.cluster for info in ledger.store.snapshots()} == {"d"}
    assert [info.position for info in ledger.store.snapshots()] == [350, 370, 390, 410, 430, 450]
    projection = cache_projection()
    assert projection.digest(ledger.cache(cluster="d")) == projection.digest(ledger.rebuild(cluster="d"))


def test_it_follows_a_log_that_grows(ledger: Ledger) -> None:
    snapshotter = Snapshotter[Cache](ledger.store, "c", cache_projection(), SMALL)
    seen: list[int] = []
    snapshotter.run(on_progress=lambda progress: seen.append(progress.position))
    more = build.churn(400)[330:]
    build.append(ledger.store, more)
    snapshotter.run(on_progress=lambda progress: seen.append(progress.position))
    assert seen == [330, 400]
    assert shape(ledger)[-1] == (400, 380)


def test_late_events_are_not_counted(ledger: Ledger) -> None:
    late = [build.seen("ADDED", build.pod(f"late{i}", i + 1), 0.001) for i in range(30)]
    assert ledger.store.append(late).late == 30
    catch_up(ledger, policy=SMALL)
    assert shape(ledger)[-1][0] == 320


def test_a_whole_one_on_demand(ledger: Ledger) -> None:
    snapshotter = Snapshotter[Cache](ledger.store, "c", cache_projection(), SMALL)
    snapshotter.run(30)
    saved = snapshotter.save(whole=True)
    assert (saved.position, saved.base) == (30, None)
    assert shape(ledger) == [(20, None), (30, None)]


@pytest.mark.parametrize("policy", [Policy(10, 0), Policy(10, 11), Policy(0, 0)])
def test_policies_that_make_no_sense(ledger: Ledger, policy: Policy) -> None:
    with pytest.raises(ValueError, match="changes_every"):
        Snapshotter[Cache](ledger.store, "c", cache_projection(), policy)


@pytest.mark.slow
def test_in_a_process_of_its_own(ledger: Ledger, db: str) -> None:
    process = SnapshotProcess(db, "c", cache_projection(), SMALL)
    try:
        build.append(ledger.store, build.churn(450)[330:], batch=10)
        told: list[int] = []
        progress = process.finish(lambda reached: told.append(reached.position))
    finally:
        process.close()
    assert progress.position == told[-1] == 450
    assert [position for position, _ in shape(ledger)] == list(range(20, 441, 20))
    projection = cache_projection()
    assert projection.digest(ledger.cache()) == projection.digest(ledger.rebuild())


@pytest.mark.slow
def test_a_process_that_cannot_work_says_so(tmp_path: Path) -> None:
    process = SnapshotProcess(str(tmp_path / "none.db"), "c", cache_projection(), SMALL)
    with pytest.raises(SnapshotterFailed, match=r"none\.db"):
        process.finish()


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_the_ledger_whole(ledger: Ledger, db: str) -> None:
    process = SnapshotProcess(db, "c", cache_projection(), SMALL)
    process._process.kill()
    with pytest.raises(SnapshotterFailed, match="ended too early"):
        process.finish()
    catch_up(ledger, policy=SMALL)
    assert shape(ledger)[-1][0] == 320


SCRIPT = """
import sys
from vcledger.ledger import cache_projection
from vcledger.snapshotter import Policy, SnapshotProcess
process = SnapshotProcess(sys.argv[1], "c", cache_projection(), Policy(60, 20))
print(process._process.pid, flush=True)
if sys.argv[2] == "wait":
    sys.stdin.read()
print(process.finish().position)
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_run_once(ledger: Ledger, db: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    (tmp_path / "json.py").write_text("raise SystemExit('a file beside the script was taken for a module')")
    done = subprocess.run(
        [sys.executable, "-P", script, db, "go"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stderr == ""
    assert done.stdout.split()[1:] == ["330"]
    assert shape(ledger)[-1][0] == 320


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_parent_that_goes_takes_the_process_along(ledger: Ledger, db: str, stop: signal.Signals) -> None:
    command = [sys.executable, "-c", SCRIPT, db, "wait"]
    pipe = subprocess.PIPE
    with hearing_interrupts():
        started = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
    with started as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(stop)
        assert parent.wait(timeout=120) != 0
    deadline = time.monotonic() + 120
    while alive(child):
        assert time.monotonic() < deadline, "the snapshot process goes on without its parent"
        time.sleep(0.02)
    catch_up(ledger, policy=SMALL)
    assert shape(ledger)[-1][0] == 320


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
