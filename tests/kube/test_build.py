"""How the control plane's programs are built: once, from versions that go together, and not where they are given."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.kube import control_plane as planes
from tests.kube.control_plane import ROOT, ControlPlane, MissingProgram, program

KUBE = ROOT / "kube"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
NO_TOOLS = {"GO": "no-such-go", "PYTHON": "no-such-python"}
"""With these nothing can be built."""


def built(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    return subprocess.run(
        [folder / "build"], env={**env, **environment}, capture_output=True, text=True, timeout=300, check=False
    )


def test_what_is_built_is_not_built_again(control_plane: ControlPlane) -> None:
    if os.environ.get("KUBEBUILDER_ASSETS"):
        pytest.skip("the programs of this run are given")
    done = built(KUBE, **NO_TOOLS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_programs_that_are_given_are_not_built(tmp_path: Path) -> None:
    shutil.copytree(KUBE, tmp_path / "kube")
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in PROGRAMS:
        (assets / name).write_text("#!/bin/sh\n")
        (assets / name).chmod(0o755)
    assert built(tmp_path / "kube", KUBEBUILDER_ASSETS=str(assets), **NO_TOOLS).returncode == 0
    (assets / "etcd").unlink()
    refused = built(tmp_path / "kube", KUBEBUILDER_ASSETS=str(assets), **NO_TOOLS)
    assert refused.returncode != 0 and not (tmp_path / ".cache" / "kube" / "etcd").exists()


def test_a_program_that_is_not_there_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planes, "BUILT", tmp_path)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with pytest.raises(MissingProgram, match="etcd is not there: run make kube"):
        program("etcd")
    (tmp_path / "etcd").write_text("#!/bin/sh\n")
    (tmp_path / "etcd").chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "none"))
    assert program("etcd") == tmp_path / "etcd"


def test_the_versions_go_together() -> None:
    module = (KUBE / "go.mod").read_text()
    (kubernetes,) = re.findall(r"^\s*k8s\.io/kubernetes v1\.(\d+\.\d+)", module, re.MULTILINE)
    replaced = re.findall(r"^\s*(k8s\.io/\S+) => (\S+) v(\S+)$", module, re.MULTILINE)
    assert len(replaced) > 30
    assert all(old == new and version == f"0.{kubernetes}" for old, new, version in replaced)
    assert f"kubernetes=v1.{kubernetes}\n" in (KUBE / "build").read_text()
    for tool in ("k8s.io/kubernetes/cmd/kube-apiserver", "go.etcd.io/etcd/server/v3"):
        assert tool in module.partition("tool (")[2].partition(")")[0]


def test_the_sums_name_modules_and_no_host() -> None:
    for line in (KUBE / "go.sum").read_text().splitlines():
        assert re.fullmatch(r"[\w./~-]+ v\S+ h1:[A-Za-z0-9+/]{43}=", line), line


# --- tests beside the build -----------------------------------------------------------------------------------------

SLOW_BUILD = """#!/usr/bin/env bash
set -e
out=$(dirname "$0")/out
mkdir -p "$out"
exec flock "$out/.lock" bash -c '
  touch "$0/started"
  while [ ! -e "$0/go" ]; do sleep 0.05; done
  touch "$0/etcd"
  exit $(cat "$0/go")' "$out"
"""


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A folder with `beside` and a build that goes on until `out/go` says with which code it ends."""
    shutil.copy(KUBE / "beside", tmp_path / "beside")
    (tmp_path / "build").write_text(SLOW_BUILD)
    (tmp_path / "build").chmod(0o755)
    return tmp_path


def ran(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    script = f'cd "{folder}"; while [ ! -e out/started ]; do sleep 0.05; done; {command}'
    return subprocess.run(
        [folder / "beside", "bash", "-c", script], capture_output=True, text=True, timeout=300, check=False
    )


def test_a_command_runs_beside_the_build_and_its_end_waits_for_it(beside: Path) -> None:
    done = ran(beside, "[ ! -e out/etcd ] && echo beside; echo 0 >out/go")
    assert (done.returncode, done.stdout) == (0, "beside\n")
    assert (beside / "out" / "etcd").exists()


def test_a_build_that_fails_fails_the_whole(beside: Path) -> None:
    assert ran(beside, "echo 7 >out/go").returncode == 7


def test_a_command_that_fails_ends_the_build(beside: Path) -> None:
    assert ran(beside, "exit 3").returncode == 3
    deadline = time.monotonic() + 120
    with (beside / "out" / ".lock").open() as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                assert time.monotonic() < deadline, "the build goes on"
                time.sleep(0.05)
    assert not (beside / "out" / "etcd").exists()


def test_a_control_plane_waits_until_the_build_has_ended(beside: Path) -> None:
    planes.await_build(beside / "out")  # no build, nothing to wait for
    building = subprocess.Popen([beside / "build"])
    while not (beside / "out" / "started").exists():
        time.sleep(0.02)
    threading.Timer(0.2, (beside / "out" / "go").write_text, ("0",)).start()
    planes.await_build(beside / "out")
    assert (beside / "out" / "etcd").exists()
    assert building.wait(120) == 0
