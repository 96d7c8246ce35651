"""`vcledger simulate`: what it prints, what it leaves, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.main import app
from vcledger.sim import plan as plans
from vcledger.sim import simulate as sim
from vcledger.sim.world import Simulation


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command."""
    code = app(["simulate", *words], standalone_mode=False)
    out, err = capsys.readouterr()
    return int(code or 0), out, err


def test_a_world_in_a_few_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ("--seed", "3", "--steps", "8", "--faults", "none", "--keep", str(tmp_path))
    code, out, _ = run(capsys, *words)
    assert code == 0
    digest = sim.simulate(3, 8, (), twice=False).digest
    assert out.splitlines()[0] == f"seed 3  digest {digest}"
    assert "faults: none" in out and "broken" not in out
    assert list(tmp_path.iterdir()) == []


def test_several_worlds_as_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ("--seed", "1", "--count", "2", "--steps", "6", "--faults", "controllers", "--once", "-o", "json")
    code, out, _ = run(capsys, *words, "--keep", str(tmp_path))
    found = json.loads(out)
    assert code == 0 and [one["seed"] for one in found] == [1, 2]
    assert all(one["ok"] and one["broken"] == [] and one["events"] > 0 for one in found)


def test_an_unknown_fault_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "--faults", "earthquake")
    assert code == 2 and err.startswith("error: there is no fault 'earthquake'; there are: all, none, request")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("body", ["{", "[]", '{"seed": 1}'])
def test_a_plan_that_is_none_is_misuse(capsys: pytest.CaptureFixture[str], tmp_path: Path, body: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(body)
    code, _, err = run(capsys, "--plan", str(path))
    assert code == 2 and f"{path} is no plan" in err and len(err.splitlines()) == 1


def test_a_plan_that_is_not_there_is_misuse(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = run(capsys, "--plan", str(tmp_path / "none.json"))
    assert code == 2 and "cannot be read" in err


def test_a_failure_says_where_it_left_what_it_needs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A world in which no volume ever comes does not come to rest; its plan runs again from the file."""

    def healed(world: Simulation) -> float:
        world.broken.append("nothing heals here")
        return 0.0

    monkeypatch.setattr(sim, "come_to_rest", healed)
    monkeypatch.setattr(sim, "SHRINK_RUNS_MAX", 3)
    keep = tmp_path / "kept"
    code, out, _ = run(capsys, "--seed", "2", "--steps", "4", "--faults", "none", "--once", "--keep", str(keep))
    assert code == 1
    assert "broken: nothing heals here" in out and f"are in {keep / 'seed-2'}" in out
    plan = keep / "seed-2" / "plan.json"
    assert plans.decode(plan.read_bytes()) == plans.draw(2, 4, ())
    monkeypatch.undo()
    code, out, _ = run(capsys, "--plan", str(plan), "--once", "--keep", str(keep))
    assert code == 0 and out.startswith("seed 2  digest ")
