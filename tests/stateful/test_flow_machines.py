"""The bind flow and the volume binder under every order of answers, crashes and watches that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from vcledger.conformance_files import FAILED, PASSED, check
from vcledger.scheduler import binder
from vcledger.scheduler.session.conf import default_conf
from vcledger.scheduler.state import FlowConfig
from vcledger.testing import profiles
from vcledger.testing.machines_flow import EvictionMachine, FlowMachine, VolumeBinderMachine
from vcledger.testing.scenario_format import read_script

TestFlow = FlowMachine.TestCase
TestFlow.settings = profiles.machine(30)
TestVolumeBinder = VolumeBinderMachine.TestCase
TestVolumeBinder.settings = profiles.machine(30)
TestEvictions = pytest.mark.slow(EvictionMachine.TestCase)
TestEvictions.settings = profiles.machine(25)


@pytest.mark.slow
def test_each_run_of_the_eviction_machine_evicts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that hardly ever evicts would look at nothing new."""
    monkeypatch.setenv("VCLEDGER_SIMULATED", str(tmp_path))
    told: list[int] = []

    class Counted(EvictionMachine):
        def teardown(self) -> None:
            super().teardown()
            told.append(self.evicted)

    chosen = settings(
        max_examples=8, stateful_step_count=20, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(seed(2)(Counted), settings=chosen)
    assert len(told) >= 8
    assert min(told) >= 1, told
    assert sum(told) > len(told), "nothing but the first gang evicts"


class SessionMachine(VolumeBinderMachine):
    """The same flow with a session deciding, under Volcano's default configuration."""

    def config(self) -> FlowConfig:
        return msgspec.structs.replace(super().config(), session=default_conf())


TestSession = SessionMachine.TestCase
TestSession.settings = profiles.machine(15)


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Registers the profiles under an environment; the name of the one that is loaded then."""
    before = settings.get_current_profile_name()

    def register(**environment: str) -> str:
        for name in (profiles.PROFILE_VARIABLE, "CI"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        profiles.register()
        return settings.get_current_profile_name()

    yield register
    monkeypatch.undo()
    settings.load_profile(before)


def test_the_environment_chooses_the_profile(profile: Callable[..., str]) -> None:
    assert profile() == "dev"
    assert profile(CI="true") == "ci"
    assert profile(CI="true", HYPOTHESIS_PROFILE="nightly") == "nightly"
    assert profile(HYPOTHESIS_PROFILE="no such profile") == "dev"


def test_a_profile_scales_what_a_test_looks_at(profile: Callable[..., str]) -> None:
    profile(CI="1")
    assert (settings().max_examples, profiles.machine(30).max_examples, profiles.share(60)) == (100, 30, 60)
    profile()
    assert (settings().max_examples, profiles.machine(30).max_examples, profiles.share(60)) == (40, 12, 24)
    profile(HYPOTHESIS_PROFILE="nightly")
    night = profiles.machine(30, steps=50)
    assert night.max_examples * night.stateful_step_count == 100_000
    settings.load_profile("ci")
    assert profiles.machine(30).max_examples == 30


def test_the_examples_of_ci_are_the_same_in_each_run_and_none_fails_for_being_slow(profile: Callable[..., str]) -> None:
    seen: list[int] = []

    def look(number: int) -> None:
        seen.append(number)

    drawn = []
    for _ in range(2):
        profile(CI="1")
        given(st.integers())(look)()
        drawn.append(seen.copy())
        seen.clear()
    assert drawn[0] == drawn[1] and len(set(drawn[0])) > 10
    for variables in ({"CI": "1"}, {}, {"HYPOTHESIS_PROFILE": "nightly"}):
        profile(**variables)
        assert settings().derandomize == (variables == {"CI": "1"})
        assert HealthCheck.too_slow in settings().suppress_health_check and settings().deadline is None


# --- a run that fails --------------------------------------------------------------------------------------------


def planted(*args: object) -> None:
    """A bug that shows with the first answer to a bind."""
    raise RuntimeError("planted")


@pytest.mark.slow
def test_a_machine_that_finds_a_bug_leaves_the_fewest_steps_as_a_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCLEDGER_SIMULATED", str(tmp_path))
    chosen = settings(
        max_examples=20, stateful_step_count=15, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )  # fmt: skip
    path = tmp_path / "FlowMachine.jsonl"
    with monkeypatch.context() as bug:
        bug.setattr(binder, "answered", planted)
        with pytest.raises(RuntimeError, match="planted"):
            run_state_machine_as_test(seed(1)(FlowMachine), settings=chosen)
        said = check(path)
        assert (said.verdict, len(read_script(path).steps) < 10) == (FAILED, True)
        assert any("RuntimeError: planted" in line for line in said.lines)
    assert check(path).verdict == PASSED
