"""The bind flow and the volume binder under every order of answers, crashes and watches that fail."""

from __future__ import annotations

import pytest
from hypothesis import settings

from vcledger.testing import profiles
from vcledger.testing.machines_flow import FlowMachine, VolumeBinderMachine

TestFlow = FlowMachine.TestCase
TestFlow.settings = profiles.machine(30)
TestVolumeBinder = VolumeBinderMachine.TestCase
TestVolumeBinder.settings = profiles.machine(30)


def test_the_nightly_profile_takes_a_hundred_thousand_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, "nightly")
    chosen = profiles.machine(30, steps=50)
    assert chosen.max_examples * chosen.stateful_step_count == 100_000
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, "ci")
    assert (profiles.machine(30).max_examples, profiles.share(60)) == (30, 60)
    before = settings.get_current_profile_name()
    profiles.register()
    assert (settings.get_current_profile_name(), settings().max_examples) == ("ci", 100)
    settings.load_profile(before)
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, "no such profile")
    assert profiles.chosen() == "ci"
