"""What only a bug on purpose showed to be untested: see docs/mutants.md."""

from __future__ import annotations

import json

from tests.unit.scheduler.build import (
    START,
    Answer,
    Bind,
    Get,
    Patch,
    Update,
    World,
    claim,
    node,
    pod,
    said,
    status,
    storage_class,
    volume,
)
from vcledger.scheduler.bodies import condition_patch
from vcledger.scheduler.inputs import AssumeTask, FlushTasks, SetBindErrorHandler
from vcledger.scheduler.requests import CallHandler
from volcano.events.resync import ResyncQueued
from volcano.events.volume import VolumesReverted
from volcano.objects import kinds


def test_a_claim_that_was_refused_after_a_volume_was_written_is_not_written(world: World) -> None:
    world.see(storage_class("local", "kubernetes.io/no-provisioner"), storage_class("wait"), node("n1"))
    world.see(claim("c1", cls="local"), claim("c2", 55), volume("pv1", 61), pod("pa", 101, claims=["c1", "c2"]))
    world.bind("pa")
    world.answer(Update, said(volume("pv1", 70, ref="c1")))
    world.answer(Update, status(409, "the object has been modified", "Conflict"))
    first, rest = world.events(VolumesReverted)
    assert (first.reason, first.volumes, first.claims, first.written) == ("NotWritten", (), ("d/c2",), ())
    assert (rest.volumes, rest.claims, rest.written) == (("pv1",), ("d/c1",), ("PersistentVolume/pv1",))


def test_a_task_that_waits_for_its_read_is_not_queued_for_it_again(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.do(SetBindErrorHandler("d/p1", "h"))
    world.bind("p1")
    world.answer(Bind, status(500, "boom"))
    world.answer(Patch, Answer(200))
    world.tick(0.005)
    world.answer(Get, said(pod("p1")))
    world.answer(CallHandler, Answer(500, b"not today"))
    assert [one.reason for one in world.events(ResyncQueued)] == ["BindFailed", "HandlerFailed"]
    world.do(AssumeTask("d/p1", "n1"), FlushTasks(("d/p1",), "n1"))
    world.answer(Bind, status(500, "boom again"))
    assert [one.reason for one in world.events(ResyncQueued)] == ["BindFailed", "HandlerFailed"]
    assert world.flow.queue("errTasks") == ["d/p1"]


def test_the_time_of_a_transition_stays_when_the_status_does() -> None:
    held = {"type": "PodScheduled", "status": "False", "reason": "X", "lastTransitionTime": "2026-01-01T00:00:00Z"}

    def since(condition: dict[str, str], wanted: str) -> str:
        decoded = kinds.decode("Pod", json.dumps(pod("p1", conditions=[condition])).encode())
        patch = json.loads(condition_patch(decoded, wanted, "SchedulerError", "m", START))
        return str(patch["status"]["conditions"][0]["lastTransitionTime"])

    assert since(held, "False") == "2026-01-01T00:00:00Z"
    assert since({**held, "status": "True"}, "False") == "2026-09-21T14:13:20Z"
