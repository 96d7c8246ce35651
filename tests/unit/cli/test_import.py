"""`vcledger import`: what is said, in both forms, and the exit codes."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.import_ import lines
from cli.main import app
from tests.data import recording
from tests.unit.cli.conftest import Call
from tests.unit.sources.given import pod, watch_line, written
from vcledger.ledger import Ledger
from vcledger.sources.report import Gap, ImportReport


@pytest.mark.slow
def test_the_report_of_a_whole_folder(call: Call, tmp_path: Path) -> None:
    done = call("import", str(recording("07")), "--cluster", "lab", db=tmp_path / "x.db")
    assert done.exit_code == 0 and done.stderr == ""
    text = done.stdout
    assert "watch.jsonl.zst: recording, 974 read" in text
    assert "audit.jsonl.zst: audit log, 536 read" in text
    assert "passed over, of no known form: 3 files" in text and "notes.md" in text
    assert "cluster lab: " in text and " 0 broken, " in text and "already there" in text
    assert "gap: Pod, 2026-11-29T13:51:39.842421Z to 2026-11-29T13:51:59.482341Z (the recorder was stopped)" in text
    assert "found 2 new, 1 changed, 9 gone" in text
    proofs = [line for line in text.splitlines() if line.startswith("  cannot prove: ")]
    assert [line.split(": ")[1] for line in proofs] == ["recording", "audit log", "Volcano cache dump"]
    assert max(map(len, proofs)) <= 120
    assert text.index("  gap: ") < text.index("  left out: ") < text.index("  cannot prove: ")
    sentences = json.loads(call("import", str(recording("07")), "-o", "json", db=tmp_path / "y.db").stdout)
    verbose = call("import", str(recording("07")), "--verbose", db=tmp_path / "y.db").stdout
    for sentence in sentences["cannot_prove"]:
        assert f"  cannot prove: {sentence}\n" in verbose
    assert "left out: 161 x audit line at level Metadata without a response body" in text
    again = call("import", str(recording("07")), "--cluster", "lab", db=tmp_path / "x.db")
    assert " 0 events stored, " in again.stdout


@pytest.mark.slow
def test_snapshots_are_made_unless_told_not_to(call: Call, tmp_path: Path) -> None:
    path = str(recording("06") / "watch.jsonl.zst")
    done = call("import", path, "-o", "json", db=tmp_path / "a.db")
    told = json.loads(done.stdout)
    with Ledger.open(str(tmp_path / "a.db"), read_only=True) as ledger:
        assert told["snapshots"] == len(ledger.store.snapshots()) >= 5
    without = json.loads(call("import", path, "-o", "json", "--no-snapshots", db=tmp_path / "b.db").stdout)
    assert without["snapshots"] is None
    assert {**told, "snapshots": None, "seconds_durable": 0} == {**without, "seconds_durable": 0}


def test_broken_input_ends_with_1_and_with_0_under_lenient(call: Call, tmp_path: Path) -> None:
    path = str(written(tmp_path, "w", watch_line("ADDED", pod()), b"{broken\n"))
    done = call("import", path, db=tmp_path / "a.db")
    assert done.exit_code == 1 and f"broken: {path}:2: " in done.stdout and ", 1 events stored, " in done.stdout
    assert (
        done.stderr == "error: 1 piece of the input broken or cut off; the rest is imported (--lenient ends with 0)\n"
    )
    assert call("import", path, "--strict", db=tmp_path / "a.db").exit_code == 1
    lenient = call("import", path, "--lenient", db=tmp_path / "b.db")
    assert (lenient.exit_code, lenient.stderr) == (0, "") and f"broken: {path}:2: " in lenient.stdout


def test_a_compressed_file_that_is_cut_off_ends_with_1(call: Call, tmp_path: Path) -> None:
    lines = [watch_line("ADDED", pod(f"p{n}", n + 1, annotations={"a": os.urandom(200).hex()})) for n in range(500)]
    path = str(written(tmp_path, "w.gz", gzip.compress(b"".join(lines))[:-5_000]))
    done = call("import", path, db=tmp_path / "a.db")
    assert done.exit_code == 1 and "the file is cut off: its gzip data stop at byte " in done.stdout
    with Ledger.open(str(tmp_path / "a.db"), read_only=True) as ledger:
        assert 400 < ledger.store.head() < 500


def test_a_moment_that_is_given(call: Call, tmp_path: Path) -> None:
    path = str(written(tmp_path, "w", watch_line("ADDED", pod())))
    assert call("import", path, "--observed-at", "2026-03-02T08:00:00+01:00", db=tmp_path / "a.db").exit_code == 0
    with Ledger.open(str(tmp_path / "a.db"), read_only=True) as ledger:
        assert [one.observed_at for one in ledger.store.read()] == [1_772_434_800_000_000]
    assert call("import", path, "--observed-at", "now", db=tmp_path / "b.db").exit_code == 0
    for text in ("yesterday", "2199-01-01T00:00:00Z"):
        assert call("import", path, "--observed-at", text, db=tmp_path / "c.db").exit_code == 2
    for option in ("--observed-at", "--epoch"):
        refused = call("import", path, option, "yesterday", db=tmp_path / "c.db")
        assert refused.exit_code == 2
        assert refused.stderr.startswith(f"error: {option}: 'yesterday' is no")


def test_what_ends_with_2(call: Call, tmp_path: Path) -> None:
    garbage = str(written(tmp_path, "garbage", bytes(range(256))))
    empty = str(written(tmp_path, "empty", b""))
    hopeless = str(written(tmp_path, "hopeless", b'{"type":"ADDED","object":{}}\n'))
    for words, reason in (
        ([str(tmp_path / "gone")], "no such file"),
        ([garbage], "not a form that import knows"),
        ([empty], "nothing in it"),
        ([hopeless], "nothing in the input could be read"),
        ([garbage, "--max-line-size", "lots"], "--max-line-size"),
        ([garbage, "--max-line-size", "5"], "at least"),
        ([garbage, "-o", "yaml"], "text or json"),
        ([], "Missing argument"),
    ):
        done = call("import", *words, db=tmp_path / "x.db")
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.stderr
        assert reason in done.stderr and "Traceback" not in done.stderr


def test_an_import_that_fails_makes_no_ledger(call: Call, tmp_path: Path) -> None:
    good = str(written(tmp_path, "good", watch_line("ADDED", pod())))
    packed = bytearray(gzip.compress(watch_line("ADDED", pod())))
    packed[len(packed) // 2] ^= 0xFF
    for words, code in (
        ([str(tmp_path / "gone")], 2),
        ([str(written(tmp_path, "garbage", bytes(range(256))))], 2),
        ([str(written(tmp_path, "empty", b""))], 2),
        ([str(written(tmp_path, "hopeless", b'{"type":"ADDED","object":{}}\n'))], 2),
        ([str(written(tmp_path, "damaged.gz", bytes(packed)))], 2),
        ([str(written(tmp_path, "cut.gz", bytes(packed[:20])))], 2),
        ([good, "--broken", str(tmp_path / "nowhere" / "aside")], 2),
        ([good, "--broken", str(tmp_path)], 2),
        ([good, "--cluster", "a\nb"], 2),
        ([good, "--observed-at", "soon"], 2),
    ):
        done = call("import", *words, db=tmp_path / "x.db")
        assert (done.exit_code, done.stderr.count("\n")) == (code, 1), (words, done.stderr)
        assert not (tmp_path / "x.db").exists(), words


def test_broken_input_goes_to_a_file(call: Call, tmp_path: Path) -> None:
    path = written(tmp_path, "w", watch_line("ADDED", pod()), b"{broken\n")
    aside = tmp_path / "aside.jsonl"
    call("import", str(path), "--broken", str(aside), db=tmp_path / "a.db")
    assert json.loads(aside.read_text())["text"] == "{broken"


def test_standard_input(tmp_path: Path) -> None:
    data = gzip.compress(watch_line("ADDED", pod()))
    done = CliRunner().invoke(app, ["import", "-", "--db", str(tmp_path / "x.db")], input=data)
    assert done.exit_code == 0 and "stdin: watch lines, 1 read" in done.stdout


@pytest.mark.slow
def test_in_a_process_of_its_own_with_a_pipe(tmp_path: Path) -> None:
    """As a person runs it: no progress bar where there is no terminal, and the second process for snapshots starts."""
    command = [sys.executable, "-m", "cli.main", "import", "-", str(recording("06")), "--db", str(tmp_path / "x.db")]
    data = (recording("02") / "audit.jsonl.zst").read_bytes()
    done = subprocess.run(command, input=data, capture_output=True, check=True, env=os.environ | {"COLUMNS": "200"})
    assert done.stderr == b""
    assert b"snapshots made" in done.stdout and b"stdin: audit log" in done.stdout


def test_one_of_a_thing_is_said_as_one() -> None:
    gap = Gap("Node", 0, 1_000_000, added=0, modified=0, deleted=0, reason="stopped")
    report = ImportReport(cluster="c", snapshots=1, unknown_files=["a.txt"], gaps=[gap])
    text = "\n".join(lines(report))
    assert "1 snapshot made" in text
    assert "of no known form: 1 file: a.txt" in text
    assert "  1 gap, after which nothing had changed" in text
    report.snapshots, report.unknown_files = 2, ["a.txt", "b.txt"]
    assert "2 snapshots made" in "\n".join(lines(report)) and "2 files: a.txt, b.txt" in "\n".join(lines(report))
