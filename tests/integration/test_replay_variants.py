"""`vcledger replay` with variants, as a person runs it: the table, data, results as ledgers, going on, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Call, call
from tests.unit.replay.traces import Gang, Stage, ledger_of
from vcledger.ledger import Ledger
from vcledger.replay.digest import result_digest

__all__ = ["call"]

pytestmark = pytest.mark.slow

CROWDED = Stage(
    (4, 2), (Gang(2, 2, 2, 1, 30), Gang(3, 3, 2, 5, 20), Gang(1, 1, 6, 8, 10), Gang(2, 1, 1, 9, 10, "other"))
)
"""Two gangs that have to take turns, and a pod for which no node is large enough."""

VARIANTS = (
    "--variant",
    "larger: --add-nodes 4:cpu=8,memory=64Gi",
    "--variant",
    "smaller: --scale-requests cpu=0.5 --seed 4",
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(ledger_of(CROWDED, tmp_path_factory.mktemp("crowded") / "crowded.db"))


def test_variants_side_by_side_and_as_data(call: Call, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shown = call("replay", *VARIANTS, "--out", str(out), db=trace)
    assert shown.exit_code == 0, shown.output
    header, *lines = shown.stdout.splitlines()
    assert header.split() == ["RECORDED", "BASE", "LARGER", "SMALLER"]
    table = {line[:30].strip(): line[30:].split() for line in lines}
    assert table["placed"] == ["7", "7", "8", "(+1)", "8", "(+1)"]
    assert table["pending at the end"] == ["1", "1", "0", "(-1)", "0", "(-1)"]
    assert table["wait max"][1] != "0.0s"
    assert table["wait max"][2] == "0.0s"
    with Ledger.open(str(out / "larger.db"), read_only=True) as ledger:
        assert "whatif-0" in ledger.cache().nodes
        digest = result_digest(ledger)

    again = call("replay", *VARIANTS, "--out", str(out), "--resume", "-o", "json", db=trace)
    assert again.exit_code == 0, again.output
    replays = json.loads(again.stdout)["replays"]
    assert [one["name"] for one in replays] == ["base", "larger", "smaller"]
    assert [one["result"]["placed"] for one in replays] == [7, 8, 8]
    assert [one["seed"] for one in replays] == [0, 0, 4]
    assert replays[1]["changes"] == ["4:cpu=8,memory=64Gi"]
    with Ledger.open(str(out / "larger.db"), read_only=True) as ledger:
        assert result_digest(ledger) == digest

    twice = call("replay", *VARIANTS, "--out", str(out), db=trace)
    assert twice.exit_code == 2
    assert "holds a ledger already" in twice.stderr
    other = call(
        "replay", "--variant", "larger: --add-nodes 2:cpu=8,memory=64Gi", "--out", str(out), "--resume", db=trace
    )
    assert other.exit_code == 2
    assert "larger: " in other.stderr
    assert "holds the result of another plan" in other.stderr


def test_a_change_that_finds_nothing_is_refused_before_the_first_replay(call: Call, trace: Path) -> None:
    done = call("replay", "--set", "queue/othr.weight=5", "--variant", "a: --remove-node n7", db=trace)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "error: --set queue/othr.weight=5 changes nothing: the trace has no queue othr; it has other and 1 more",
        "error: --remove-node n7 changes nothing: the trace has no node n7; it has n0, n1",
    ]


def test_what_a_change_refers_to_and_is_not_there_is_told_and_the_replay_goes_on(call: Call, trace: Path) -> None:
    done = call("replay", "--set", "podgroup/*/*.queue=othr", db=trace)
    assert done.exit_code == 0, done.output
    assert "note: --set podgroup/*/*.queue=othr: the trace has no queue othr; it has other and 1 more" in done.stderr


def test_what_is_wrong_with_all_is_said_once(call: Call, trace: Path, tmp_path: Path) -> None:
    conf = tmp_path / "bad.conf"
    conf.write_text('actions: "allocat"\n', encoding="utf-8")
    done = call("replay", "--config", str(conf), "--mode", "free", "--seeds", "1..3", db=trace)
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: scheduler configuration, line 1: actions: unknown action 'allocat'")
    good = tmp_path / "good.conf"
    good.write_text('actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n', encoding="utf-8")
    some = call("replay", "--config", str(good), "--mode", "free", "--variant", f"a: --config {conf}", db=trace)
    assert some.exit_code == 2
    (line,) = some.stderr.splitlines()
    assert line.startswith("error: a: scheduler configuration, line 1")
    assert some.stdout == "", "not even the base is replayed"


def test_expect_same_looks_at_every_replay(call: Call, trace: Path) -> None:
    done = call("replay", "--mode", "free", "--expect", "same", *VARIANTS, db=trace)
    assert done.exit_code == 1, done.output


def test_the_same_on_processes(call: Call, trace: Path) -> None:
    alone = call("replay", *VARIANTS, db=trace)
    together = call("replay", *VARIANTS, "--workers", "2", db=trace)
    assert together.exit_code == 0, together.output
    assert together.stdout == alone.stdout
