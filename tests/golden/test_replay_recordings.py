"""Replays of the recordings of the real Volcano, under the configuration that each was made with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data import recording
from vcledger.ledger import Ledger
from vcledger.replay.engine import Mode, ReplayPlan, ReplayResult, run_replay
from vcledger.schedulerargs import config_of
from vcledger.sources import ImportOptions, import_paths

pytestmark = pytest.mark.slow

FEW_JOBS = ("01-happy-gang", "02-unschedulable", "03-volumes", "05-bind-faults", "07-recorder-gap-apiserver-restart")
"""All but 06, which `test_proof_recordings` and `test_session_evictions` replay."""


def replayed(name: str, mode: Mode, folder: Path, *, out: str | None = None) -> ReplayResult:
    there = recording(name)
    plan = ReplayPlan(
        mode=mode,
        conf=(there / "scheduler-conf.yaml").read_text(),
        options=config_of((there / "scheduler-args.txt").read_text()),
    )
    with Ledger.open(str(folder / "source.db"), create=True) as source:
        import_paths(source, [there], cluster="c", options=ImportOptions(snapshots=False))
        return run_replay(source, plan, out=out)


@pytest.mark.parametrize("name", FEW_JOBS)
def test_no_recorded_node_is_refused(name: str, tmp_path: Path) -> None:
    result = replayed(name, "shadow", tmp_path)
    assert result.counts.infeasible == 0
    assert result.counts.same_node + result.counts.other_node >= result.placed_recorded - 1


@pytest.mark.parametrize(
    "name", ["01-happy-gang", "02-unschedulable", "03-volumes", "07-recorder-gap-apiserver-restart"]
)
def test_a_free_replay_places_whom_volcano_placed(name: str, tmp_path: Path) -> None:
    result = replayed(name, "free", tmp_path, out=str(tmp_path / "out.db"))
    assert (result.placed, result.pending) == (result.placed_recorded, result.pending_recorded)
    assert result.counts.only_here == result.counts.only_there == 0
    with Ledger.open(str(tmp_path / "out.db"), read_only=True) as ledger:
        assert ledger.store.verify().ok
        assert ledger.cache().refused == {} and ledger.cache().panics == []
