"""The bind flow and the volume binder under every order of answers, crashes and watches that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from vcledger.testing import profiles
from vcledger.testing.machines_flow import FlowMachine, VolumeBinderMachine

TestFlow = FlowMachine.TestCase
TestFlow.settings = profiles.machine(30)
TestVolumeBinder = VolumeBinderMachine.TestCase
TestVolumeBinder.settings = profiles.machine(30)


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
