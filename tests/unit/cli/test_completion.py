"""Shell completion: the candidates, the protocol that the shells and kubectl speak, and the script in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.completion import Shell
from tests.unit.cli.conftest import Call


def offered(call: Call, *words: str) -> list[str]:
    """What `vcledger WORD...<TAB>` offers, and what files may follow."""
    done = call("__complete", *words)
    assert (done.exit_code, done.stderr) == (0, "")
    return list(done.stdout.splitlines())


def test_commands_and_kinds(call: Call) -> None:
    assert offered(call, "ge") == ["get", ":4"]
    assert "__complete" not in offered(call, "")
    assert offered(call, "get", "p") == ["pv", "pvc", "pending", ":4"]
    assert offered(call, "diff", "n") == ["nodes", ":4"]
    assert "--cluster" in offered(call, "get", "nodes", "--cl")
    assert offered(call, "log", "--type", "BindF") == ["BindFailed", ":4"]


def test_names_of_the_ledger(call: Call, unschedulable: Path) -> None:
    db = ("--db", str(unschedulable))
    assert offered(call, "get", *db, "nodes", "gpu-") == ["gpu-0", "gpu-1", "gpu-2", "gpu-3", ":4"]
    assert offered(call, "get", *db, "nodes/gpu-0", "nodes/gpu-1") == ["nodes/gpu-1", ":4"]
    assert offered(call, "get", *db, "jobs/queue-c")[0] == "jobs/queue-cap"
    assert offered(call, "get", *db, "-n", "elsewhere", "pods", "") == [":4"]
    assert offered(call, "get", *db, "-A", "pods", "gat") == ["gated", ":4"]
    assert offered(call, "get", *db, "nodes", "--cluster", "") == ["lab", ":4"]
    assert offered(call, "get", *db, "pods", "-n", "") == ["default", ":4"]
    assert offered(call, "why", *db, "gat") == ["gated", ":4"]
    assert offered(call, "why", *db, "default/gat") == ["default/gated", ":4"]
    assert offered(call, "why", *db, "job/queue-m") == ["job/queue-missing", ":4"]
    assert offered(call, "log", *db, "pod/gat") == ["pod/gated", ":4"]
    for command in ("why", "log", "diff"):
        assert offered(call, command, *db, "node", "gpu-1") == ["gpu-1", ":4"]
    assert offered(call, "why", *db, "default/gated", "gpu-1") == [":4"], "one name is enough"


def test_moments_are_markers(call: Call, unschedulable: Path) -> None:
    db = ("--db", str(unschedulable))
    assert offered(call, "get", *db, "nodes", "--at", "ma") == ["marker:", ":4"]
    assert offered(call, "state", *db, "--at", "marker:many") == ["marker:many-pending", ":4"]
    assert "marker:volcano-cache-dump-1-many-pending.json" in offered(call, "diff", *db, "--from", "marker:")
    assert offered(call, "log", *db, "--to", "-2") == [":4"]


def test_silent_without_a_ledger_and_nothing_is_made(call: Call, tmp_path: Path) -> None:
    missing = tmp_path / "missing.db"
    other = tmp_path / "other.db"
    other.write_bytes(b"no ledger" * 500)
    for path in (missing, other):
        assert offered(call, "get", "--db", str(path), "nodes", "") == [":4"]
    assert not missing.exists()
    assert other.read_bytes() == b"no ledger" * 500


def test_files_may_follow_where_a_file_is_meant(call: Call) -> None:
    assert offered(call, "import", "") == [":0"]
    assert offered(call, "get", "nodes", "--db", "") == [":0"]
    assert offered(call, "get", "nodes", "--scheduler-args", "x") == [":0"]
    assert offered(call, "replay", "--config", "") == offered(call, "record", "--kubeconfig", "k") == [":0"]


@pytest.mark.slow
def test_kubectl_gets_the_same_answer(call: Call, unschedulable: Path) -> None:
    """kubectl runs `kubectl_complete-vcledger` with the words behind `kubectl vcledger`."""
    words = ["get", "--db", str(unschedulable), "nodes/gpu-"]
    code = "import sys; from cli.completion import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == offered(call, *words)
    assert done.stderr == ""


@pytest.mark.parametrize("shell", list(Shell))
def test_a_script_for_each_shell_and_no_other(call: Call, shell: Shell) -> None:
    done = call("completion", shell.value)
    assert done.exit_code == 0
    assert "vcledger" in done.stdout and "__complete" in done.stdout
    assert call("completion", "tcsh").exit_code == 2
    assert call("--install-completion", shell.value).exit_code == 2, "took the shell's name for a command, and bash"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vcledger get no", ["nodes"]),
        ("vcledger get nodes gpu-", ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]),
        ("vcledger get nodes --at marker:many", ["many-pending"]),
        ("vcledger get nodes ''", []),
    ],
)
def test_the_script_in_bash(call: Call, unschedulable: Path, tmp_path: Path, line: str, expected: list[str]) -> None:
    """bash keeps `marker:` itself, as the colon ends a word for it."""
    program = tmp_path / "vcledger"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cli.main "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = tmp_path / "script"
    script.write_text(call("completion", "bash").stdout, encoding="utf-8")
    tab = f'source "{script}"; COMP_LINE=$1; COMP_POINT=${{#1}}; _vcledger; printf "%s\\n" "${{COMPREPLY[@]}}"'
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "VCLEDGER_DB": str(unschedulable)}
    done = subprocess.run(["bash", "-c", tab, "bash", line], capture_output=True, text=True, check=True, env=env)
    assert [word for word in done.stdout.splitlines() if word] == expected
    assert done.stderr == ""
