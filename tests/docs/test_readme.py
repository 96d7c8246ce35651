"""The README's commands run, and print what it shows.

A console block's line `$ command` is run; the lines below it must be found in its output, in order; `...` stands for
any lines. kubectl, which the README can't bring along, is a stand-in that prints a recorded watch; the cluster that is
recorded is a real control plane (`tests.docs.lab`), and of the recorder's lines times, numbers and the address may be
others than those shown.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from tests.docs import lab
from tests.kube.control_plane import ControlPlane, running_control_plane

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
WATCH = ROOT / "vcledger" / "demo" / "recordings" / "02-unschedulable" / "watch.jsonl.zst"


def console(text: str) -> list[tuple[str, list[str]]]:
    """(command, lines shown below it) of every console block, in order."""
    commands: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], []))
            else:
                commands[-1][1].append(line)
    return commands


def stand_in_for_kubectl(folder: Path) -> None:
    """Prints the recording as kubectl's --output-watch-events does: pretty, one value after another, without
    managedFields, and one kind a call, since kubectl refuses to watch several."""
    lines = zstandard.ZstdDecompressor().stream_reader(WATCH.read_bytes()).read().decode().splitlines()
    values = [json.loads(line) for line in lines]
    for resource, kind in {"pods": "Pod", "nodes": "Node"}.items():
        shown = []
        for value in values:
            if value.get("resource") == resource and value.get("type") in {"ADDED", "MODIFIED", "DELETED"}:
                value["object"]["metadata"].pop("managedFields", None)
                seen = {"kind": kind, "apiVersion": "v1", **value["object"]}
                shown.append(json.dumps({"type": value["type"], "object": seen}, indent=4))
        (folder / f"{resource}.shown").write_text("\n".join(shown), encoding="utf-8")
    script = folder / "kubectl"
    script.write_text(f'#!/bin/sh\nexec cat "{folder}/$2.shown"\n', encoding="utf-8")
    script.chmod(0o755)


def comparable(command: str, lines: list[str]) -> list[str]:
    """The lines, those of a live recording without what is different each time."""
    if not command.startswith(("vcledger record ", "vcledger schedule ")):
        return lines
    return [re.sub(r"\d+", "0", re.sub(r"https://\S+", "https://server", line)) for line in lines]


def shown_in_order(shown: list[str], output: list[str]) -> bool:
    """Whether the shown lines stand in the output, in order; lines between them only where `...` is."""
    at, gap = 0, False
    for line in shown:
        if line == "...":
            gap = True
            continue
        while gap and at < len(output) and output[at].rstrip() != line.rstrip():
            at += 1
        if at >= len(output) or output[at].rstrip() != line.rstrip():
            return False
        at, gap = at + 1, False
    return gap or at == len(output)


@pytest.mark.slow
@pytest.mark.kube
def test_commands_run_and_print_what_is_shown(tmp_path: Path) -> None:
    with running_control_plane() as plane:
        lab.fill(plane)
        run_all(tmp_path, plane)


def run_all(tmp_path: Path, plane: ControlPlane) -> None:
    """Every command of the README, one after the other."""
    tools = tmp_path / "bin"
    tools.mkdir()
    stand_in_for_kubectl(tools)
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    commands = console(README)
    assert len(commands) >= 10
    for command, shown in commands:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "COLUMNS": "400", "KUBECONFIG": str(plane.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        output = done.stdout.splitlines()
        assert shown_in_order(comparable(command, shown), comparable(command, output)), (
            f"$ {command}\nshown: {shown}\nprinted: {output[:40]}"
        )


@pytest.mark.slow
def test_python_example_runs(tmp_path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(code) == 1
    vcledger = Path(sys.executable).parent / "vcledger"
    subprocess.run([str(vcledger), "demo", "--db", "demo.db"], cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run([sys.executable, "-c", code[0]], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["3000.0", "gang-short"]


def test_make_targets_that_the_readme_names_are_there() -> None:
    targets = re.findall(r"(?:`|^ +)make ([a-z-]+)", README, flags=re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    for target in targets:
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_links_lead_somewhere() -> None:
    for name in ("README.md", "ARCHITECTURE.md"):
        links = re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / name).read_text(encoding="utf-8"))
        assert len(links) > 5
        for link in links:
            assert (ROOT / link).exists(), f"{name}: {link}"
