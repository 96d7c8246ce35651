"""Binding: the queue's batches, each answer of the API server, conditions, lost answers, and the node's books."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.scheduler.build import (
    LOST,
    Answer,
    Bind,
    Get,
    Patch,
    World,
    group,
    node,
    pod,
    said,
    status,
)
from vcledger.scheduler.inputs import Allocate, AssumeTask, BindTask, FlushTasks, ScheduleTask
from vcledger.scheduler.transitions import Phase
from volcano.events.binding import (
    BindFailed,
    BindRequested,
    BindSucceeded,
    PodConditionPatched,
    PodConditionPatchFailed,
)
from volcano.events.recovery import InDoubtResolved
from volcano.events.resync import ResyncFailed, ResyncQueued, ResyncSucceeded
from volcano.events.scheduling import AllocationDiscarded, TaskUnschedulable


def one_out(world: World, **more: Any) -> None:
    """p1's binding to n1 is out."""
    world.see(node("n1"), node("n2"), pod("p1", **more))
    world.bind("p1")


# --- the queue ----------------------------------------------------------------------------------------------------


def test_a_full_batch_goes_at_once_the_rest_at_the_next_beat(world: World) -> None:
    names = [f"p{index}" for index in range(4)]
    world.see(node("n1"), *[pod(name, 100 + index) for index, name in enumerate(names)])
    world.do(*[AssumeTask(f"d/{name}", "n1") for name in names])
    world.now += 1
    world.do(*[BindTask(f"d/{name}", "n1") for name in names[:2]])
    assert world.asked(Bind) == []
    world.do(BindTask("d/p2", "n1"))
    assert world.asked(Bind) == names[:3]
    world.do(BindTask("d/p3", "n1"))
    world.tick(0.0199)
    assert world.asked(Bind) == names[:3]
    assert world.flow.queue("bindFlow") == ["d/p3"]
    world.tick(0.0001)
    assert world.asked(Bind) == names
    assert [one.batch for one in world.events(BindRequested)] == [1, 1, 1, 2]


def test_one_flush_is_one_batch(world: World) -> None:
    world.see(node("n1"), pod("p1"), pod("p2", 101))
    world.do(AssumeTask("d/p1", "n1"), AssumeTask("d/p2", "n1"), FlushTasks(("d/p1", "d/p2"), "n1"))
    assert world.asked(Bind) == ["p1", "p2"]
    assert world.flow.queue("bindFlow") == []


def test_the_binding_carries_uid_and_annotations(world: World) -> None:
    one_out(world)
    request = world.take(Bind).request
    assert (request.uid, request.node, request.annotations) == ("p1-u", "n1", {"kept": "yes"})
    assert request.path == "/api/v1/namespaces/d/pods/p1/binding"


def test_nothing_is_bound_to_a_node_that_is_gone(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.do(AssumeTask("d/p1", "n1"), BindTask("d/p1", "n1"))
    world.see(node("n1", 12), change="DELETED")
    world.tick(0.02)
    assert world.asked(Bind) == []
    assert world.events(BindFailed)[0].reason == "NodeGone"
    assert world.flow.queue("errTasks") == ["d/p1"]


def test_a_task_is_assumed_once_and_only_where_it_fits(world: World) -> None:
    world.see(node("n1", cpu="1"), pod("p1"), pod("p2", 101))
    world.do(AssumeTask("d/p1", "n1"), AssumeTask("d/p1", "n1"), AssumeTask("d/p2", "n1"))
    assert [task.key for task in world.flow.tasks.values()] == ["d/p1"]
    assert world.events(TaskUnschedulable, "p2")[0].message == "0/1 nodes are unavailable: 1 Insufficient cpu."
    world.do(AssumeTask("d/p2", "n1"))
    assert len(world.events(TaskUnschedulable, "p2")) == 1


# --- answers ------------------------------------------------------------------------------------------------------


def test_success_is_told_and_the_share_stays_until_the_watch_shows_it(world: World) -> None:
    one_out(world)
    world.answer(Bind, Answer(201))
    assert world.reasons() == ["Scheduled"]
    assert world.flow.task("d/p1").phase is Phase.BOUND
    assert world.idle_cpu() == 3
    world.see(pod("p1", 101, node="n1"))
    assert world.flow.task("d/p1") is None
    assert world.idle_cpu() == 3
    world.settled()


def test_the_watch_may_be_faster_than_the_answer(world: World) -> None:
    one_out(world)
    world.see(pod("p1", 101, node="n1"))
    assert world.flow.task("d/p1").phase is Phase.SEEN
    world.answer(Bind, LOST)
    [succeeded] = world.events(BindSucceeded)
    assert succeeded.answer_lost
    assert world.flow.idle
    assert world.idle_cpu() == 3


def test_a_refusal_is_told_once_reverted_and_read_again(world: World) -> None:
    one_out(world)
    world.answer(Bind, status(500, "etcdserver: leader changed", "InternalError"))
    assert world.reasons() == ["FailedScheduling"]
    patch = world.take(Patch)
    body = json.loads(patch.request.body)
    assert body["metadata"]["uid"] == "p1-u"
    [condition] = body["status"]["conditions"]
    assert condition["reason"] == "SchedulerError"
    assert condition["message"] == "failed to bind to node n1: etcdserver: leader changed"
    assert world.idle_cpu() == 3
    world.tick(0.01)
    world.answer(Get, said(pod("p1")))
    assert world.idle_cpu() == 4
    assert world.flow.queue("errTasks") == []
    world.settled()


def test_the_same_condition_is_not_written_twice(world: World) -> None:
    for attempt in (1, 2):
        if attempt == 1:
            one_out(world)
        else:
            world.bind("p1")
        world.answer(Bind, status(500, "boom"))
        world.tick(0.01)
        world.answer(Get, said(pod("p1")))
    assert world.asked(Patch) == ["p1"]
    world.answer(Patch, said(pod("p1", 105)))
    world.bind("p1")
    world.answer(Bind, status(500, "boom"))
    assert world.asked(Patch) == []
    world.tick(0.01)
    world.answer(Get, said(pod("p1", 106)))
    world.bind("p1")
    world.answer(Bind, status(500, "boom"))
    assert world.asked(Patch) == ["p1"]


def test_a_condition_that_the_cached_pod_has_is_not_written(world: World) -> None:
    message = "failed to bind to node n1: boom"
    held = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": message}
    one_out(world, conditions=[held])
    world.answer(Bind, status(500, "boom"))
    assert world.asked(Patch) == []
    assert world.reasons() == []


@pytest.mark.parametrize("code", [200, 404])
def test_what_became_of_the_condition_is_written_and_it_is_not_sent_again(world: World, code: int) -> None:
    one_out(world)
    world.answer(Bind, status(500, "boom"))
    world.answer(Patch, said(pod("p1", 105)) if code == 200 else status(404, "no such pod"))
    assert len(world.events(PodConditionPatched)) == (code == 200)
    assert len(world.events(PodConditionPatchFailed)) == (code == 404)
    assert world.asked(Patch) == []


def test_one_failure_holds_nobody_back(world: World) -> None:
    world.see(node("n1"), *[pod(f"p{index}", 100 + index) for index in range(3)])
    world.do(*[AssumeTask(f"d/p{index}", "n1") for index in range(3)])
    world.do(FlushTasks(("d/p0", "d/p1", "d/p2"), "n1"))
    world.answer(Bind, status(500, "boom"), "p1")
    world.answer(Bind, Answer(201), "p0")
    world.answer(Bind, Answer(201), "p2")
    assert world.reasons() == ["FailedScheduling", "Scheduled", "Scheduled"]
    assert [one.job for one in world.events(ResyncQueued)] == [""]
    assert world.flow.queue("errTasks") == ["d/p1"]


def test_a_pod_that_is_gone_gets_no_condition_and_no_second_read(world: World) -> None:
    one_out(world)
    world.answer(Bind, status(404, 'pods "p1" not found', "NotFound"))
    assert world.asked(Patch) == []
    world.tick(0.01)
    world.answer(Get, status(404, "not found", "NotFound"))
    assert world.idle_cpu() == 4
    assert world.events(ResyncSucceeded)[0].found is False
    world.tick(30)
    world.see(pod("p1", 105), change="DELETED")
    world.tick(300)
    assert world.idle_cpu() == 4
    assert world.asked(Get) == []
    assert world.flow.idle
    world.settled()


def test_bound_elsewhere_is_told_but_not_written_into_the_pod(world: World) -> None:
    one_out(world)
    world.answer(Bind, status(409, 'pod p1 is already assigned to node "n2"', "Conflict"))
    assert world.events(BindFailed)[0].bound_to == "n2"
    assert world.asked(Patch) == []
    world.tick(0.01)
    world.answer(Get, said(pod("p1", 105, node="n2")))
    assert (world.idle_cpu("n1"), world.idle_cpu("n2")) == (4, 3)
    assert world.flow.idle


# --- answers that are lost ------------------------------------------------------------------------------------------


def test_a_lost_answer_keeps_the_share_and_the_read_tells_the_truth(world: World) -> None:
    one_out(world)
    world.answer(Bind, LOST)
    assert world.flow.task("d/p1").phase is Phase.DOUBT
    assert world.idle_cpu() == 3
    assert world.asked(Patch) == []
    assert world.reasons() == []
    world.tick(0.01)
    world.answer(Get, said(pod("p1", 105, node="n1")))
    assert world.events(BindSucceeded)[0].answer_lost
    assert world.events(InDoubtResolved)[0].verdict == "happened"
    assert world.reasons() == ["Scheduled"]
    assert world.flow.idle
    assert len(world.events(BindRequested)) == 1


def test_not_bound_it_is_sent_once_more_and_never_a_third_time(world: World) -> None:
    one_out(world)
    world.answer(Bind, LOST)
    world.tick(0.01)
    world.answer(Get, said(pod("p1")))
    assert world.asked(Bind) == ["p1"]
    world.answer(Bind, LOST)
    for _ in range(20):
        world.tick(10)
        if not world.asked(Get):
            break
        assert world.idle_cpu() == 3
        world.answer(Get, said(pod("p1")))
    assert world.asked(Bind) == []
    assert len(world.events(BindRequested)) == 2
    last = world.events(BindFailed)[-1]
    assert (last.reason, last.answer_lost) == ("AnswerLost", False)
    assert world.idle_cpu() == 4
    assert world.flow.queue("errTasks") == []
    world.settled()


def test_the_second_post_finds_it_done(world: World) -> None:
    one_out(world)
    world.answer(Bind, LOST)
    world.tick(0.01)
    world.answer(Get, said(pod("p1")))
    world.answer(Bind, status(409, 'pod p1 is already assigned to node "n1"', "Conflict"))
    assert world.flow.task("d/p1").phase is Phase.DOUBT
    world.tick(0.01)
    world.answer(Get, said(pod("p1", 105, node="n1")))
    assert world.events(BindSucceeded)[0].answer_lost
    assert world.flow.idle


def test_lost_and_then_gone(world: World) -> None:
    one_out(world)
    world.answer(Bind, LOST)
    world.see(pod("p1", 105), change="DELETED")
    assert world.events(InDoubtResolved)[0].verdict == "object-gone"
    assert world.events(BindFailed)[-1].code == 404
    assert world.idle_cpu() == 4
    assert world.flow.idle


def test_lost_and_then_seen_bound(world: World) -> None:
    one_out(world)
    world.answer(Bind, LOST)
    world.see(pod("p1", 105, node="n1"))
    assert world.events(BindSucceeded)[0].answer_lost
    assert world.idle_cpu() == 3
    assert world.flow.idle
    world.settled()


def test_a_read_that_fails_is_tried_again_later_each_time(world: World) -> None:
    one_out(world)
    world.answer(Bind, status(500, "boom"))
    for delay in (0.005, 0.01, 0.02):
        assert world.events(ResyncQueued)[-1].delay_seconds == delay
        world.tick(delay)
        world.answer(Get, status(503, "unavailable") if delay < 0.02 else said(pod("p1")))
    assert [one.attempt for one in world.events(ResyncFailed)] == [1, 2]
    assert world.idle_cpu() == 4
    assert world.flow.queue("errTasks") == []


def test_another_pod_of_that_name_is_another_pod(world: World) -> None:
    one_out(world)
    world.answer(Bind, status(409, "uid mismatch", "Conflict"))
    world.tick(0.01)
    world.answer(Get, said(pod("p1", 110, uid="other")))
    [succeeded] = world.events(ResyncSucceeded)
    assert (succeeded.found, succeeded.pod_uid) == (True, "other")
    assert world.flow.cache.pods["d/p1"].uid == "other"
    assert world.idle_cpu() == 4
    assert not world.flow.tasks


# --- what is seen meanwhile -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("owned", ["", "g"])
def test_an_update_without_a_node_changes_nothing_of_what_is_held(world: World, owned: str) -> None:
    world.see(group("g", 1))
    one_out(world, group=owned)
    world.see(pod("p1", 101, group=owned))
    assert world.idle_cpu() == 3
    world.see(node("n1", 15, cpu="8"))
    assert world.idle_cpu() == 7
    world.see(node("n1", 16), change="DELETED")
    world.see(node("n1", 17, cpu="2"), change="ADDED")
    assert world.idle_cpu() == 1
    world.answer(Bind, status(500, "boom"))
    world.tick(0.01)
    world.answer(Get, said(pod("p1", 101, group=owned)))
    assert world.idle_cpu() == 2
    world.settled()


def test_a_pod_deleted_while_its_binding_is_out(world: World) -> None:
    world.see(group("g", 1))
    one_out(world, group="g")
    world.see(pod("p1", 101, group="g", deleting=True))
    assert world.idle_cpu() == 3
    world.see(pod("p1", 102, group="g"), change="DELETED")
    assert world.idle_cpu() == 4
    world.answer(Bind, status(404, "gone"))
    assert world.events(BindFailed)[0].code == 404
    assert not world.flow.intents
    world.settled()


# --- the allocate pass ----------------------------------------------------------------------------------------------


def test_a_gang_is_bound_whole_or_not_at_all(world: World) -> None:
    world.see(node("n1", cpu="2"), group("g", 3))
    world.see(*[pod(f"g-{index}", 100 + index, group="g") for index in range(3)])
    world.do(Allocate(), Allocate())
    [discarded] = world.events(AllocationDiscarded)
    assert (discarded.short_of, len(discarded.tasks)) == (1, 2)
    assert world.idle_cpu() == 2
    world.see(node("n2", 30, cpu="1"))
    world.do(Allocate())
    assert sorted(world.asked(Bind)) == ["g-0", "g-1", "g-2"]
    assert (world.idle_cpu("n1"), world.idle_cpu("n2")) == (0, 0)
    world.do(Allocate())
    assert len(world.asked(Bind)) == 3
    world.settled()


def test_selectors_decide_and_the_message_is_the_schedulers(world: World) -> None:
    world.see(node("n1"), node("n2", labels={"disk": "ssd"}), pod("p1", selector={"disk": "ssd"}))
    world.do(ScheduleTask("d/p1"))
    assert world.flow.task("d/p1").node == "n2"
    world.see(pod("p2", 101, selector={"disk": "none"}))
    world.do(ScheduleTask("d/p2"))
    [said_so] = world.events(TaskUnschedulable)
    assert said_so.message == "0/2 nodes are unavailable: 2 node(s) didn't match Pod's node affinity/selector."
    assert said_so.nodes_total == 2


def test_what_is_being_released_is_not_given_away(world: World) -> None:
    world.see(node("n1", cpu="1"), pod("old", node="n1", phase="Running", deleting=True), group("g", 1))
    world.see(pod("p1", 101, group="g"))
    world.do(Allocate())
    assert world.asked(Bind) == []


def test_not_bound_and_its_node_gone_it_is_read_again_and_given_back(world: World) -> None:
    one_out(world)
    world.answer(Bind, LOST)
    world.see(node("n1", 12), change="DELETED")
    world.tick(0.01)
    world.answer(Get, said(pod("p1")))
    assert world.asked(Bind) == []
    assert world.events(BindFailed)[-1].reason == "NodeGone"
    assert world.flow.queue("errTasks") == ["d/p1"]
    world.tick(0.01)
    world.answer(Get, said(pod("p1")))
    assert not world.flow.tasks
    assert world.flow.queue("errTasks") == []
    world.settled()


def test_a_lost_bind_whose_name_another_pod_has_by_then_is_settled_once(world: World) -> None:
    world.see(node("n1"), pod("p1"))
    world.bind("p1")
    world.answer(Bind, LOST)
    world.tick(0.01)
    world.answer(Get, said(pod("p1", 150, uid="another")))
    assert [one.verdict for one in world.events(InDoubtResolved)] == ["object-gone"]
    assert [one.code for one in world.events(BindFailed) if not one.answer_lost] == [404]
    assert world.flow.cache.pods["d/p1"].uid == "another"
    assert world.idle_cpu() == 4
    assert world.flow.idle
    world.settled()
