"""Misuse and bad input: one line on stderr, the right exit code, never a traceback."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cli.common import NEAR_AMONG_MAX, Target, did_you_mean, parse_target
from eventstore import open_store
from eventstore.types import EventStoreError
from tests.unit.cli.conftest import Call

COMMANDS = {
    "get": ("get", "nodes"),
    "state": ("state",),
    "why": ("why", "default/p"),
    "log": ("log",),
    "diff": ("diff", "--from", "1"),
    "drift": ("drift",),
    "verify": ("verify",),
    "stats": ("stats",),
    "upgrade": ("db", "upgrade"),
    "prune": ("db", "prune", "--before", "1"),
}


def one_line(stderr: str) -> bool:
    return stderr.startswith("error: ") and stderr.count("\n") == 1 and "Traceback" not in stderr


def not_a_ledger(folder: Path) -> dict[str, Path]:
    """Every kind of thing that is no ledger, by name."""
    text = folder / "notes.txt"
    text.write_text("these are my notes\n" * 100)
    empty = folder / "empty.db"
    empty.write_bytes(b"")
    foreign = folder / "foreign.db"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE people (name TEXT)")
    connection.commit()
    connection.close()
    torn = folder / "torn.db"
    torn.write_bytes(foreign.read_bytes()[:700])
    return {"folder": folder, "text": text, "empty": empty, "foreign": foreign, "torn": torn, "none": folder / "no.db"}


@pytest.mark.parametrize("what", ["folder", "text", "empty", "foreign", "torn", "none"])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_ledger_is_refused(call: Call, tmp_path: Path, command: str, what: str) -> None:
    path = not_a_ledger(tmp_path)[what]
    held = path.read_bytes() if path.is_file() else None
    result = call(*COMMANDS[command], db=path)
    damaged = (command, what) == ("verify", "torn")  # finding damage is what verify is for
    assert result.exit_code == (1 if damaged else 2), result.output
    assert one_line(result.stderr), result.stderr
    assert result.stdout == ""
    assert (path.read_bytes() if path.is_file() else None) == held, "it was left as it was"


@pytest.mark.parametrize(
    ("what", "hint"), [("text", "--db"), ("foreign", "--db"), ("empty", "--db"), ("none", "`vcledger import`")]
)
def test_the_command_says_what_to_do_about_it(call: Call, tmp_path: Path, what: str, hint: str) -> None:
    assert hint in call("stats", db=not_a_ledger(tmp_path)[what]).stderr


def test_the_log_itself_does_not_speak_of_the_command(tmp_path: Path) -> None:
    for path in not_a_ledger(tmp_path).values():
        with pytest.raises(EventStoreError) as caught:
            open_store(str(path))
        assert "--" not in str(caught.value)
        assert "`" not in str(caught.value)


def test_a_missing_ledger_is_not_made(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = call("stats")
    assert result.exit_code == 2
    assert one_line(result.stderr)
    assert list(tmp_path.iterdir()) == []


def test_the_ledger_may_be_named_by_the_environment(
    call: Call, unschedulable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCLEDGER_DB", str(unschedulable))
    assert call("get", "nodes", "-o", "name").stdout.startswith("node/cpu-0\n")
    monkeypatch.setenv("VCLEDGER_DB", "sqlite:///" + str(unschedulable))
    assert call("get", "nodes", "-o", "name").stdout.startswith("node/cpu-0\n")


BAD_MOMENTS = ["yesterday", "999999", "-1", "2026-13-01T00:00:00Z", "2026-11-29", "marker:nowhere", "-9000d", "", "1.5"]


@pytest.mark.parametrize("at", BAD_MOMENTS)
@pytest.mark.parametrize("command", ["get", "state", "drift", "why"])
def test_a_bad_moment_is_refused(call: Call, unschedulable: Path, command: str, at: str) -> None:
    result = call(*COMMANDS[command], f"--at={at}", db=unschedulable)
    assert result.exit_code == 2, result.output
    assert one_line(result.stderr), result.stderr


MISUSE = [
    ("get",),
    ("get", "unicorns"),
    ("get", "nodes", "-o", "xml"),
    ("get", "nodes", "no-such-node"),
    ("get", "tasks", "anti-affinity-w-0", "-n", "elsewhere"),
    ("get", "nodes", "--model", "volcano-0.1"),
    ("get", "nodes", "--cluster", "elsewhere"),
    ("get", "nodes", "--scheduler-args", "no-such-file"),
    ("state", "-o", "table"),
    ("log", "name-alone"),
    ("log", "pod/"),
    ("log", "pod/a/b/c"),
    ("log", "--kind", "unicorn"),
    ("log", "--type", "Unicorn"),
    ("log", "--follow", "--to", "5"),
    ("log", "--tail", "0"),
    ("log", "pod/a", "--kind", "node"),
    ("diff",),
    ("diff", "unicorns", "--from", "1"),
    ("drift", "--model", "exact"),
    ("compare",),
    ("compare", "no-such-dump.json"),
    ("compare", "."),
    ("conformance",),
    ("conformance", "README.md"),
    ("conformance", "no-such.json"),
    ("db",),
    ("db", "prune"),
    ("db", "prune", "--before", "yesterday"),
    ("why",),
    ("unicorn",),
    ("--unicorn",),
]


@pytest.mark.parametrize("words", MISUSE, ids=" ".join)
def test_misuse_is_one_line_and_exit_code_2(call: Call, unschedulable: Path, words: tuple[str, ...]) -> None:
    with_db = words[:1] not in (("conformance",), ("unicorn",), ("--unicorn",)) and words != ("db",)
    result = call(*words, db=unschedulable if with_db else None)
    assert result.exit_code == 2, result.output
    assert one_line(result.stderr), result.stderr


def test_a_dump_that_is_none_is_refused(call: Call, unschedulable: Path, tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text('{"a": 1}')
    result = call("compare", str(path), db=unschedulable)
    assert result.exit_code == 2
    assert "not a cache dump" in result.stderr


def test_an_unexpected_error_is_one_line_with_a_hint(
    call: Call, unschedulable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("one\ntwo")

    monkeypatch.setattr("vcledger.ledger.Ledger.position", broken)
    result = call("get", "nodes", db=unschedulable)
    assert result.exit_code == 2
    assert one_line(result.stderr)
    assert "unexpected RuntimeError: one two" in result.stderr
    assert "VCLEDGER_DEBUG=1" in result.stderr
    monkeypatch.setenv("VCLEDGER_DEBUG", "1")
    assert "Traceback" in call("get", "nodes", db=unschedulable).stderr


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("p", Target(None, None, "p")),
        ("pod/p", Target("tasks", None, "p")),
        ("team/p", Target(None, "team", "p")),
        ("job/team/j", Target("jobs", "team", "j")),
    ],
)
def test_targets(text: str, target: Target) -> None:
    assert parse_target(text) == target


def test_help_and_version(call: Call) -> None:
    assert call("--version").stdout.startswith("vcledger ")
    bare = call()
    assert bare.exit_code == 0
    for word in ("import", "get", "why", "compare", "conformance", "db"):
        assert word in bare.stdout
    assert call("get", "-h").exit_code == 0


# --- as a process -------------------------------------------------------------------------------------------------


def process(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("VCLEDGER_")}
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *words],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        **options,  # type: ignore[call-overload]
    )


def test_the_process_says_it_in_one_line_too(tmp_path: Path) -> None:
    done = process("stats", "--db", str(tmp_path))
    assert done.returncode == 2
    assert one_line(done.stderr)


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(unschedulable: Path) -> None:
    command = [sys.executable, "-m", "cli.main", "log", "--db", str(unschedulable)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().split()[0] == b"1"
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(timeout=120) == 141


@pytest.mark.slow
def test_names_that_the_terminal_cannot_show_do_not_end_it(unschedulable: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, "-m", "cli.main", "log", "pod/anti-affinity-w-0", "--db", str(unschedulable)]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0
    assert rb"\u2192" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_stdout_is_one_line(unschedulable: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "cli.main", "state", "--db", str(unschedulable)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: No space left on device\n"


@pytest.mark.slow
def test_a_closed_stdout_is_no_error(unschedulable: Path) -> None:
    command = f"exec '{sys.executable}' -m cli.main get nodes --db '{unschedulable}' >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_said_so(unschedulable: Path, tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    done = process("import", str(unschedulable), "--db", str(folder / "new.db"))
    assert done.returncode == 2
    assert one_line(done.stderr)


@pytest.mark.slow
def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    done = process("db", "upgrade", "--db", str(tmp_path / "no" / "new.db"))
    assert done.returncode == 2
    assert one_line(done.stderr)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("get", "noeds"), "unknown kind 'noeds' (did you mean nodes?): use nodes"),
        (("get", "pendign"), "(did you mean pending?)"),
        (("diff", "--from", "1", "ndoes"), "unknown kind 'ndoes' (did you mean nodes"),
        (("get", "node/cpu-"), "node 'cpu-' not found (did you mean cpu-0, cpu-1, cpu-2?) at position"),
        (("get", "job/anti-afinity"), "job 'anti-afinity' not found (did you mean anti-affinity"),
        (("log", "node/cpu-9"), "the ledger has no node/cpu-9 (did you mean cpu-"),
        (("log", "nowhere/cpu-0", "--type", "added"), "the ledger has no nowhere/cpu-0"),
        (("diff", "--from", "1", "node/gpu-"), "node/gpu- is there at neither moment (did you mean gpu-0, gpu-1"),
        (("diff", "--from", "1", "pod/nobody"), "pod/nobody is there at neither moment"),
        (("diff", "--from", "1", "default/cpu-0-pod", "-n", "other"), "the target names namespace default"),
    ],
)
def test_a_name_that_is_not_there_is_told_with_those_alike(
    call: Call, unschedulable: Path, words: tuple[str, ...], said: str
) -> None:
    result = call(*words, db=unschedulable)
    assert (result.exit_code, result.stdout) == (2, "")
    assert one_line(result.stderr), result.stderr
    assert said in result.stderr


def test_alike_names_begin_with_what_was_given_or_look_like_it() -> None:
    assert did_you_mean("n0", ["n02", "n01", "m0", "x"]) == " (did you mean n01, n02?)"
    assert did_you_mean("xyz", ["n01"]) == did_you_mean("", ["n01"]) == did_you_mean("n", []) == ""
    many = [f"pod-{number}" for number in range(NEAR_AMONG_MAX + 1)]
    assert did_you_mean("dop-77", many) == ""
    assert did_you_mean("pod-7777", many) == " (did you mean pod-7777?)"


def test_a_scheduler_command_line_that_is_none_is_named(call: Call, unschedulable: Path, tmp_path: Path) -> None:
    path = tmp_path / "args.txt"
    path.write_text("it's not a command line")
    result = call("get", "nodes", "--scheduler-args", str(path), db=unschedulable)
    assert (result.exit_code, one_line(result.stderr)) == (2, True)
    assert f"--scheduler-args {path}: not a command line" in result.stderr


@pytest.mark.parametrize("given", ["", "  "])
def test_an_empty_name_is_not_the_default_ledger(
    call: Call, unschedulable: Path, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCLEDGER_DB", str(unschedulable))
    result = call("stats", "--db", given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: an empty name is no ledger (give another one with --db)\n"
    assert call("stats").exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("conformance", "{}/none"), "{}/none: no such file or folder"),
        (("conformance", "{}/none.jsonl"), "{}/none.jsonl: no such file or folder"),
        (("demo", "--db", "{}/none/demo.db"), "the folder {}/none is not there: make it first"),
        (("import", "{}", "--cluster", "x" * 254), f"'{'x' * 80}' is no name for a cluster: 1 to 253 characters"),
        (("import", "{}", "--cluster", ""), "'' is no name for a cluster: 1 to 253 characters"),
    ],
)
def test_what_is_not_there_or_no_name_is_said_before_anything_is_done(
    call: Call, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    result = call(*(word.format(tmp_path) for word in words))
    assert (result.exit_code, result.stdout, one_line(result.stderr)) == (2, "", True), result.output
    assert said.format(tmp_path) in result.stderr
