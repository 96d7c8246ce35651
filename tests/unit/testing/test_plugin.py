"""The plugin as a user meets it: its fixtures in a test file of their own, run by their own pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vcledger.sim.faults import UnknownFault
from vcledger.testing.cluster import SchedulerDown, SimCluster
from vcledger.testing.plugin import Invariants

NODE = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}


def group(name: str, members: int) -> dict[str, object]:
    meta = {"name": name, "namespace": "default"}
    return {"metadata": meta, "spec": {"minMember": members, "queue": "default"}, "status": {"phase": "Inqueue"}}


def pod(name: str, of: str, cpu: str = "1") -> dict[str, object]:
    meta = {"name": name, "namespace": "default", "annotations": {"scheduling.k8s.io/group-name": of}}
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": meta, "spec": {"schedulerName": "volcano", "containers": [container]}}


def test_a_gang_is_placed_whole_or_not_at_all(sim_cluster: SimCluster, invariants: Invariants) -> None:
    sim_cluster.create("Node", NODE)
    for name, cpu in (("small", "1"), ("big", "3")):
        sim_cluster.create("PodGroup", group(name, 2))
        for number in range(2):
            sim_cluster.create("Pod", pod(f"{name}-{number}", name, cpu))
    sim_cluster.run(seconds=10)
    assert [sim_cluster.node_of(f"default/small-{number}") for number in range(2)] == ["n1", "n1"]
    assert [sim_cluster.node_of(f"default/big-{number}") for number in range(2)] == ["", ""]
    invariants.check()
    gangs = next(one for one in invariants.verdicts() if one.invariant.name == "whole-gangs")
    assert (gangs.outcome, gangs.seen > 0) == ("held", True)


def test_faults_and_a_crash(sim_cluster: SimCluster, invariants: Invariants) -> None:
    sim_cluster.create("Node", NODE)
    sim_cluster.create("PodGroup", group("g", 1))
    sim_cluster.fault("server-error", verb="POST", kind="Pod")
    sim_cluster.create("Pod", pod("p", "g"))
    sim_cluster.run(seconds=2)
    sim_cluster.fault("crash")
    with pytest.raises(SchedulerDown):
        _ = sim_cluster.flow
    sim_cluster.rest()
    assert sim_cluster.node_of("default/p") == "n1"
    assert sim_cluster.flow.idle
    sim_cluster.delete("Pod", "default", "p")
    sim_cluster.run(seconds=60)
    assert sim_cluster.objects("Pod") == []
    with pytest.raises(UnknownFault, match="there is no fault 'earthquake'"):
        sim_cluster.fault("earthquake")


USERS_TEST = """
from vcledger import codec
from vcledger.testing.strategies import api_object
from volcano.events.base import Subject
from volcano.events.binding import BindRequested, BindSucceeded

def write(ledger, *events):
    for number, event in enumerate(events, start=1):
        ledger.store.append([codec.domain("c", Subject("Pod", "ns", "p", "u"), event, number)])

def test_good(ledger, invariants):
    write(ledger, BindRequested(node="n"), BindSucceeded(node="n"))

def test_bad(ledger, invariants):
    write(ledger, BindSucceeded(node="n"), BindSucceeded(node="n"))
    invariants.check()

def test_bad_and_nobody_asks(ledger, invariants):
    write(ledger, BindSucceeded(node="n"), BindSucceeded(node="m"))
"""


@pytest.mark.slow
def test_the_fixtures_are_there_without_an_import(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_TEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert "1 failed, 2 passed, 1 error" in done.stdout, done.stdout
    assert "bound-once is broken at position 2: ns/p was bound already at position 1" in done.stdout
    assert "ERROR test_users.py::test_bad_and_nobody_asks" in done.stdout


PROFILE_TEST = """
from hypothesis import settings

def test_profile():
    print("profile", settings.get_current_profile_name(), settings().max_examples)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "words", "said"),
    [
        ("true", (), "profile ci 100"),
        ("true", ("--hypothesis-profile", "nightly"), "profile nightly 10000"),
        ("false", (), None),
    ],
)
def test_the_profiles_are_there_where_the_option_asks_for_them(
    option: str, words: tuple[str, ...], said: str | None, tmp_path: Path
) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nvcledger_profiles = {option}\n")
    (tmp_path / "test_users.py").write_text(PROFILE_TEST)
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "ci"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *words, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stdout
    assert said in done.stdout if said else "profile nightly" not in done.stdout


@pytest.mark.slow
def test_without_hypothesis_and_pytest_the_kit_can_be_imported() -> None:
    """They are not among what vcledger needs."""
    code = (
        "import sys; sys.modules['hypothesis'] = sys.modules['pytest'] = None\n"
        "import vcledger.testing.scenario, vcledger.testing.scenario_db, vcledger.testing.invariants, "
        "vcledger.testing.cluster, vcledger.conformance_files\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
