"""`vcledger replay`: what is refused before anything runs, each with one line and exit code 2; Ctrl-C; the table."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.progress import Progress

from cli.common import INTERRUPTED, Failure
from cli.replaying import (
    BARS_MAX,
    Bars,
    all_done,
    as_data,
    compared,
    gathered,
    how_to_go_on,
    make_room,
    show_table,
    shown,
    told_to_stop,
    with_places,
)
from tests.unit.cli.conftest import Call
from tests.unit.vcledger.build import life
from vcledger.ledger import Ledger
from vcledger.replay.engine import ReplayPlan, ReplayResult
from vcledger.replay.variants import Job, Ran, Trace, Variant, make_jobs

FREE = ReplayPlan(mode="free", seed=1)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "small.db"
    with Ledger.open(str(path), create=True) as ledger:
        ledger.store.append(life())
    return path


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--add-nodes", "cpu=2"], "--add-nodes cpu=2: begin with how many"),
        (["--remove-node", "A B"], "--remove-node A B: give a node's name"),
        (["--set", "queue/q.wait=1"], "the field is none of weight"),
        (["--scale-requests", "-1"], "'-1' is no factor"),
        (["--variant", "a: --seed x"], "want a whole number"),
        (["--variant", "a"], "give it a name first"),
        (["--variant", "a: --seed 1", "--variant", "a: --seed 2"], "two variants are called 'a'"),
        (["--variant", "a: --config none.yaml"], "none.yaml: No such file"),
        (["--config", "none.yaml"], "none.yaml: No such file"),
        (["--config", os.devnull], f"--config {os.devnull}: it is empty"),
        (["--variant", f"a: --config {os.devnull}"], f"--config {os.devnull}: it is empty"),
        (["--mode", "shadow", "--remove-node", "n1"], "--mode shadow follows the record"),
        (["--mode", "shadow", "--variant", "a: --remove-node n1"], "--mode shadow follows the record"),
        (["--seeds", "5..1"], "5..1 goes backwards"),
        (["--seed", "1", "--seeds", "1..2"], "--seed and --seeds: give one of them"),
        (["--workers", "2", "--dask", "tcp://x:1"], "--workers are processes here"),
        (["--workers", "0"], "Invalid value for '--workers': it should be greater than or equal to 1; see"),
        (["--seed", "x"], "Invalid value for '--seed': it should be a whole number; see"),
        (["--expect", "other"], "Invalid value for '--expect': 'other' is not one of 'same'; see"),
        (["--mode", "other"], "Invalid value for '--mode': 'other' is not one of 'shadow', 'free'; see"),
        (["--resume"], "--resume goes on with results: name them with --out"),
        (["--from", "5", "--to", "2"], "--from is later than --to"),
        (["--to", "marker:none"], "no marker 'none'"),
        (["--cluster", "other"], "the ledger has no cluster 'other'"),
    ],
)
def test_misuse_is_one_line(call: Call, small: Path, words: list[str], says: str) -> None:
    result = call("replay", *words, db=small)
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


def test_a_ledger_that_is_not_there_or_given_twice(call: Call, small: Path, tmp_path: Path) -> None:
    missing = call("replay", db=tmp_path / "none.db")
    assert missing.exit_code == 2
    assert "none.db" in missing.stderr
    twice = call("replay", "--db", str(small), db=small)
    assert twice.exit_code == 2
    assert "is given twice" in twice.stderr


# --- Ctrl-C --------------------------------------------------------------------------------------------------------


def jobs_of(out: str | None, *variants: str) -> list[Job]:
    made = [Variant(name, {"--remove-node": (name,)}) for name in variants]
    return make_jobs(FREE, {}, made, [Trace("a.db", "c")], out=out)


def result_of(job: Job, *, finished: bool = True, placed: int = 1) -> ReplayResult:
    return ReplayResult(
        mode="free",
        name=job.label,
        cluster="c",
        first=0,
        last=90,
        seed=1,
        finished=finished,
        stopped_at=0 if finished else 40,
        placed=placed,
    )


def test_ctrl_c_once_is_a_wish_and_twice_an_end() -> None:
    before = signal.getsignal(signal.SIGINT)  # ignored, in a run in the background of a shell
    with told_to_stop() as stop:
        assert not stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_line_after_ctrl_c_is_the_command_that_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["vcledger", "replay", "--set", "queue/a b.weight=2"])
    (job,) = jobs_of(None)
    (placed,), folder = with_places([job])
    assert folder is not None
    assert placed.out == str(folder / "result.db")
    line = how_to_go_on([Ran("base", result_of(job, finished=False))], [placed], folder)
    assert line == (
        "interrupted at position 40 of 90; it goes on with: "
        f"vcledger replay --set 'queue/a b.weight=2' --out {folder / 'result.db'} --resume"
    )
    folder.rmdir()
    jobs = jobs_of(str(tmp_path / "out"), "n1")
    make_room(jobs)
    assert (tmp_path / "out").is_dir()
    several, folder = with_places(jobs)
    assert folder is None
    done = [Ran("base", result_of(several[0]))]
    assert how_to_go_on(done, several, None).startswith("interrupted with 1 of 2 replays done; it goes on with: ")
    assert not all_done(done, several)
    shadow = replace(job, plan=ReplayPlan(mode="shadow"))
    stopped = [Ran("base", result_of(shadow, finished=False))]
    assert how_to_go_on(stopped, [shadow], None) == "interrupted at position 40 of 90; with --out it could go on"


def test_a_result_in_a_folder_that_is_not_there_is_refused(call: Call, small: Path, tmp_path: Path) -> None:
    one = call("replay", "--out", str(tmp_path / "none" / "x.db"), db=small)
    several = call("replay", "--seeds", "1..2", "--out", str(tmp_path / "none" / "results"), db=small)
    for result in (one, several):
        assert result.exit_code == 2, result.output
        assert result.stderr.startswith(f"error: the folder {tmp_path / 'none'} is not there: make it first")
        assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_variants_bad_configuration_is_refused_before_anything_runs(
    call: Call, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcledger.replay.workers.perform", lambda *_: pytest.fail("a replay has begun"))
    config = tmp_path / "list.yaml"
    config.write_text("- a list\n")
    result = call("replay", "--variant", f"a: --config {config}", db=small)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: a: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_what_was_said_of_several_is_said_once_with_their_names() -> None:
    assert gathered([("base", "full"), ("a", "full")], 2) == ["full"]
    assert gathered([("a", "full"), ("b", "torn"), ("c", "full")], 4) == ["a, c: full", "b: torn"]


def test_an_interrupted_replay_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    from cli.replaying import carry_out

    (job,) = jobs_of(None)

    def pressed(jobs: list[Job], **options: object) -> list[Ran]:
        os.kill(os.getpid(), signal.SIGINT)
        return [Ran(jobs[0].label, result_of(jobs[0], finished=False))]

    monkeypatch.setattr("vcledger.replay.workers.run_jobs", pressed)
    with pytest.raises(Failure, match="interrupted at position 40 of 90; it goes on with: ") as error:
        carry_out([job])
    assert error.value.code == INTERRUPTED
    kept = Path(str(error.value).split("--out ")[1].split(" ")[0]).parent
    assert kept.is_dir()
    kept.rmdir()


def test_interrupted_before_anything_was_done_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from cli.replaying import carry_out

    def pressed(jobs: list[Job], **options: object) -> list[Ran]:
        os.kill(os.getpid(), signal.SIGINT)
        return [Ran(jobs[0].label)]

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("vcledger.replay.workers.run_jobs", pressed)
    with pytest.raises(Failure, match="interrupted before it began") as error:
        carry_out(jobs_of(None))
    assert error.value.code == INTERRUPTED
    assert list(tmp_path.iterdir()) == []


# --- the table -----------------------------------------------------------------------------------------------------


def test_a_column_for_each_replay_or_a_line_where_there_are_many(capsys: pytest.CaptureFixture[str]) -> None:
    few = jobs_of(None, "n1")
    show_table(few, [Ran(job.label, result_of(job, placed=number)) for number, job in enumerate(few)])
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.split() == ["RECORDED", "BASE", "N1"]
    assert [line.split() for line in rest][1] == ["placed", "0", "0", "1", "(+1)"]
    many = jobs_of(None, *(f"n{number}" for number in range(6)))
    show_table(many, [Ran(job.label, result_of(job)) for job in many])
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.split()[:3] == ["REPLAY", "PODS", "PLACED"]
    assert [line.split()[0] for line in rest] == ["recorded", "base", *(f"n{number}" for number in range(6))]


def test_a_variant_is_compared_with_the_base_of_its_trace_and_seed() -> None:
    jobs = make_jobs(
        FREE,
        {},
        [Variant("v", {"--remove-node": ("a",)}), Variant("w", {}, None, 9)],
        [Trace("a.db", "c"), Trace("b.db", "c")],
        seeds=(1, 2),
    )
    found = [Ran(job.label, result_of(job)) for job in jobs]
    _, labels, bases = compared(jobs, found)
    assert {label: labels[base] for label, base in zip(labels, bases, strict=True)} == {
        "a base seed 1": "a base seed 1",
        "a v seed 1": "a base seed 1",
        "a w seed 9": "a base seed 1",
        "a base seed 2": "a base seed 2",
        "a v seed 2": "a base seed 2",
        "b base seed 1": "b base seed 1",
        "b v seed 1": "b base seed 1",
        "b w seed 9": "b base seed 1",
        "b base seed 2": "b base seed 2",
        "b v seed 2": "b base seed 2",
    }


def test_replays_as_data() -> None:
    jobs = jobs_of(None, "n1")
    data = as_data(jobs, [Ran("base", result_of(jobs[0])), Ran("n1", None, "no good")])
    first, second = data["replays"]
    assert (first["name"], first["seed"], first["changes"], first["result"]["placed"]) == ("base", 1, [], 1)
    assert (second["variant"], second["changes"], second["error"]) == ("n1", ["n1"], "no good")


# --- looking on ----------------------------------------------------------------------------------------------------


def bars_of(labels: list[str]) -> tuple[Bars, Progress]:
    progress = Progress(disable=True)
    return Bars(labels, progress), progress


def seen(progress: Progress) -> list[tuple[str, float]]:
    return [(task.description, task.completed) for task in progress.tasks]


def test_one_replay_has_one_bar_from_the_beginning() -> None:
    bars, progress = bars_of(["base"])
    assert seen(progress) == [("replay", 0)]
    bars.moved(0, 0.25)
    assert seen(progress) == [("replay", 0.25)]


def test_of_several_those_that_run_have_a_bar_beside_that_of_all() -> None:
    jobs = jobs_of(None, *(f"n{number}" for number in range(12)))
    bars, progress = bars_of([job.label for job in jobs])
    for number in range(12):
        bars.moved(number, 0.5)
    assert len(progress.tasks) == 1 + BARS_MAX
    bars.done(0, Ran("base", result_of(jobs[0])))
    bars.done(1, Ran("n0", result_of(jobs[1], finished=False)))
    assert seen(progress)[0] == ("replays", 1)
    assert [label for label, _ in seen(progress)[1:]] == [f"n{number}" for number in range(1, BARS_MAX - 1)]


def test_bars_are_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with shown(["a"]) as blind:
        assert not isinstance(blind, Bars)
    monkeypatch.setattr("cli.render.on_terminal", lambda: True)
    with shown(["a"]) as watcher:
        assert isinstance(watcher, Bars)
