"""taskUnschedulable: a task that gets no node is told so in its pod's condition, once, in Volcano's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.scheduler.build import LOST, Answer, Create, Effect, Patch, World, group, node, pod, said, status
from vcledger.scheduler.inputs import Allocate, ScheduleTask
from volcano.events.binding import PodConditionPatched, PodConditionPatchFailed
from volcano.events.scheduling import TaskUnschedulable

FULL = "0/1 nodes are unavailable: 1 Insufficient cpu."


def condition(message: str = FULL, reason: str = "Unschedulable") -> list[dict[str, Any]]:
    return [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]


def too_big(world: World) -> None:
    """big asks for more than n1 has."""
    world.see(node("n1"), group("g", 1), pod("big", cpu="9", group="g"))
    world.do(Allocate())


def sent(effect: Effect) -> dict[str, Any]:
    assert isinstance(effect.request, Patch)
    assert effect.request.path.endswith("/pods/big/status")
    body: dict[str, Any] = json.loads(effect.request.body)
    return body


def test_the_condition_the_event_and_the_outcome(world: World) -> None:
    too_big(world)
    [event] = world.events(TaskUnschedulable)
    assert (event.reason, event.message) == ("Unschedulable", FULL)
    body = sent(world.answer(Patch, said(pod("big", 150, cpu="9", group="g", conditions=condition()))))
    [written] = body["status"]["conditions"]
    assert {key: written[key] for key in ("type", "status", "reason", "message")} == condition()[0]
    assert body["metadata"]["uid"] == "big-u"
    [told] = [json.loads(one.request.body) for one in world.out if isinstance(one.request, Create)]
    assert (told["reason"], told["type"], told["message"]) == ("FailedScheduling", "Warning", FULL)
    [patched] = world.events(PodConditionPatched)
    assert (patched.reason, patched.message, patched.new_resource_version) == ("Unschedulable", FULL, "150")
    world.settled()


def test_it_is_written_once_while_nothing_changes(world: World) -> None:
    too_big(world)
    world.do(Allocate(), Allocate())
    world.answer(Patch, said(pod("big", 150, cpu="9", group="g", conditions=condition())))
    world.do(Allocate(), ScheduleTask("d/big"))
    world.see(pod("big", 150, cpu="9", group="g", conditions=condition()))
    world.do(Allocate())
    world.crash()
    world.do(Allocate())
    assert world.asked(Patch) == []
    assert len(world.events(TaskUnschedulable)) == 1
    world.settled()


def test_other_words_are_written(world: World) -> None:
    too_big(world)
    world.answer(Patch, said(pod("big", 150, cpu="9", group="g")))
    world.see(node("n2"))
    world.do(Allocate())
    message = sent(world.answer(Patch, said(pod("big", 151))))["status"]["conditions"][0]["message"]
    assert message == "0/2 nodes are unavailable: 2 Insufficient cpu."
    assert len(world.events(PodConditionPatched)) == 2


def test_a_pod_that_says_so_already_is_left_alone(world: World) -> None:
    world.see(node("n1"), group("g", 1), pod("big", cpu="9", group="g", conditions=condition()))
    world.do(Allocate(), Allocate())
    assert world.asked(Patch) == []
    assert world.reasons() == []
    assert len(world.events(TaskUnschedulable)) == 1


def test_what_somebody_else_has_written_over_it_is_put_right(world: World) -> None:
    too_big(world)
    world.answer(Patch, said(pod("big", 150, cpu="9", group="g", conditions=condition())))
    world.see(pod("big", 151, cpu="9", group="g", conditions=condition("not mine")))
    world.do(Allocate())
    assert world.asked(Patch) == ["big"]


REFUSALS = (
    *(LOST, status(409, "changed", "Conflict"), status(500, "boom"), status(429, "slowly")),
    *(status(403, "forbidden"), status(404, "gone"), status(422, "no")),
)


@pytest.mark.parametrize("answer", REFUSALS)
def test_a_write_that_was_refused_waits_the_longer_the_more_often_and_never_for_good(
    world: World, answer: Answer
) -> None:
    too_big(world)
    for wait in (1, 2, 4, 8, 16, 32, 60, 60):
        world.answer(Patch, answer)
        failed = world.events(PodConditionPatchFailed)[-1]
        assert (failed.reason, failed.message, failed.code) == ("Unschedulable", FULL, answer.code or 0)
        assert failed.delay_seconds == wait
        world.tick(wait - 0.1)
        world.do(Allocate())
        assert world.asked(Patch) == []
        world.tick(0.1)
        world.do(Allocate(), Allocate())
        assert world.asked(Patch) == ["big"]
    assert [one.attempt for one in world.events(PodConditionPatchFailed)] == list(range(1, 9))
    world.answer(Patch, said(pod("big", 150, cpu="9", group="g")))
    world.see(node("n2"))
    world.do(Allocate())
    world.answer(Patch, answer)
    assert world.events(PodConditionPatchFailed)[-1].attempt == 1, "one that was taken ends the row"
    world.settled()


def test_other_words_are_sent_at_once_only_where_the_words_were_refused(world: World) -> None:
    too_big(world)
    world.answer(Patch, status(422, "no"))
    world.see(node("n2"))
    world.do(Allocate())
    assert world.asked(Patch) == ["big"]
    world.answer(Patch, status(403, "forbidden"))
    world.see(node("n3"))
    world.do(Allocate())
    assert world.asked(Patch) == []
    world.crash()
    world.do(Allocate())
    assert world.asked(Patch) == [], "a new process waits as well"
    world.tick(2)
    world.do(Allocate())
    assert world.asked(Patch) == ["big"]
    world.settled()


def test_the_server_says_how_long_to_wait(world: World) -> None:
    too_big(world)
    world.answer(Patch, Answer(429, b"{}", retry_after_seconds=7))
    [failed] = world.events(PodConditionPatchFailed)
    assert (failed.retry_after_seconds, failed.delay_seconds) == (7, 7)
    world.tick(6.9)
    world.do(Allocate())
    assert world.asked(Patch) == []
    world.tick(0.1)
    world.do(Allocate())
    assert world.asked(Patch) == ["big"]


def test_a_write_that_was_out_when_the_process_died_is_told_and_done_again(world: World) -> None:
    too_big(world)
    world.crash()
    [failed] = world.events(PodConditionPatchFailed)
    assert (failed.reason, failed.message, failed.code) == ("Unschedulable", FULL, 0)
    world.do(Allocate())
    assert world.asked(Patch) == ["big"]
    world.crash()
    world.see(pod("big", 150, cpu="9", group="g", conditions=condition()))
    world.do(Allocate())
    assert world.asked(Patch) == []


def test_each_member_of_a_gang_that_is_short_gets_its_own_words(world: World) -> None:
    world.see(node("n1", cpu="2"), group("g", 4))
    world.see(*(pod(f"g-{index}", 100 + index, group="g") for index in range(4)))
    world.do(Allocate())
    found = {one.subject.name: (one.event.reason, one.event.message) for one in world.recorded(TaskUnschedulable)}
    assigned = "Pod d/{} can possibly be assigned to n1, once minAvailable is satisfied"
    assert found["g-0"] == ("Schedulable", assigned.format("g-0"))
    assert found["g-1"] == ("Schedulable", assigned.format("g-1"))
    assert found["g-2"] == ("Unschedulable", FULL)
    reason, message = found["g-3"]
    assert reason == "Unschedulable"
    assert message.startswith("pod group is not ready, 4 Pending, 4 minAvailable; Pending: 2 Schedulable, 2 Unsched")
    assert sorted(world.asked(Patch)) == ["g-0", "g-1", "g-2", "g-3"]


def test_a_task_that_gets_its_node_later_has_no_more_said_about_it(world: World) -> None:
    too_big(world)
    world.answer(Patch, said(pod("big", 150, cpu="9", group="g", conditions=condition())))
    world.see(node("n2", cpu="16"))
    world.do(Allocate())
    assert world.flow.tasks["big-u"].node == "n2"
    assert "big-u" not in world.flow.said
    assert world.asked(Patch) == []


def test_a_gated_pod_and_one_that_is_gone_are_not_written_to(world: World) -> None:
    gated = pod("big", cpu="9", group="g")
    gated["spec"]["schedulingGates"] = [{"name": "wait"}]
    world.see(node("n1"), group("g", 1), gated)
    world.do(Allocate(), ScheduleTask("d/big"), ScheduleTask("d/nobody"))
    assert world.asked(Patch) == []
