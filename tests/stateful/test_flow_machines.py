"""The bind flow and the volume binder under every order of answers, crashes and watches that fail."""

from __future__ import annotations

from hypothesis import settings

from vcledger.testing.machines_flow import FlowMachine, VolumeBinderMachine

TestFlow = FlowMachine.TestCase
TestFlow.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestVolumeBinder = VolumeBinderMachine.TestCase
TestVolumeBinder.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
