"""The task's own bind error handler: it stays the task's across re-reads and restarts, and is called until it works."""

from __future__ import annotations

from tests.unit.scheduler.build import Answer, Bind, Get, Patch, World, node, pod, said, status
from vcledger.scheduler.inputs import SetBindErrorHandler
from vcledger.scheduler.requests import CallHandler
from volcano.events.resync import BindErrorHandlerCalled, ResyncQueued


def failed(world: World) -> None:
    """p1 has the handler h and its bind failed; the read is out."""
    world.see(node("n1"), pod("p1"))
    world.do(SetBindErrorHandler("d/p1", "h"))
    world.bind("p1")
    world.answer(Bind, status(500, "boom"))
    world.answer(Patch, status(404, "gone"))
    world.tick(0.005)


def test_it_is_called_after_the_read_and_once_when_it_works(world: World) -> None:
    failed(world)
    assert world.asked(CallHandler) == []
    world.answer(Get, said(pod("p1")))
    effect = world.answer(CallHandler, Answer(200))
    assert (effect.request.handler, effect.request.uid, effect.request.node) == ("h", "p1-u", "n1")
    assert [one.ok for one in world.events(BindErrorHandlerCalled)] == [True]
    assert world.flow.queue("errTasks") == []
    world.bind("p1")
    world.answer(Bind, status(500, "boom"))
    world.tick(0.005)
    world.answer(Get, said(pod("p1")))
    assert world.asked(CallHandler) == []


def test_one_that_fails_queues_the_task_again_and_is_called_with_the_next_read(world: World) -> None:
    failed(world)
    world.answer(Get, said(pod("p1")))
    world.answer(CallHandler, Answer(500, b"not today"))
    [called] = world.events(BindErrorHandlerCalled)
    assert (called.ok, called.error, called.requeued) == (False, "not today", True)
    assert world.events(ResyncQueued)[-1].reason == "HandlerFailed"
    world.see(pod("p1", 107))
    world.tick(0.005)
    world.answer(Get, said(pod("p1", 107)))
    world.answer(CallHandler, Answer(200))
    assert world.flow.idle
    world.settled()


def test_where_the_read_failed_it_is_called_too_and_does_not_queue_the_task_twice(world: World) -> None:
    failed(world)
    world.answer(Get, status(503, "unavailable"))
    queued = len(world.events(ResyncQueued))
    world.answer(CallHandler, Answer(500, b"no"))
    assert len(world.events(ResyncQueued)) == queued
    world.tick(0.01)
    world.answer(Get, said(pod("p1")))
    world.answer(CallHandler, Answer(200))
    assert world.flow.idle


def test_of_a_pod_that_is_gone_it_is_called_once_more_and_forgotten(world: World) -> None:
    failed(world)
    world.answer(Get, status(404, "not found"))
    world.answer(CallHandler, Answer(500, b"no"))
    assert world.flow.handlers == {}
    assert world.flow.idle


def test_it_survives_a_restart(world: World) -> None:
    failed(world)
    world.crash()
    world.tick(0.005)
    world.answer(Get, said(pod("p1")))
    assert world.asked(CallHandler) == ["p1"]
    world.crash()
    assert world.flow.handlers["p1-u"].name == "h"
    world.settled()


def test_taken_away_it_is_not_called(world: World) -> None:
    failed(world)
    world.do(SetBindErrorHandler("d/p1", ""))
    world.answer(Get, said(pod("p1")))
    assert world.asked(CallHandler) == []
