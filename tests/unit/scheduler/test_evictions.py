"""Evictions: what a session's decision makes of a pod, request by request, and what each answer leads to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventstore.types import LedgerUnwritable
from tests.unit.scheduler.build import (
    CONFIG,
    LOST,
    Answer,
    Bind,
    Create,
    Get,
    Patch,
    World,
    group,
    node,
    pod,
    said,
    status,
)
from vcledger.scheduler.eviction_steps import EVICTIONS, EvictPhase, EvictStep, after, diagram
from vcledger.scheduler.inputs import Allocate, Answered
from vcledger.scheduler.requests import Delete
from vcledger.scheduler.session.conf import read_conf
from vcledger.scheduler.snapshot import dump, load
from vcledger.scheduler.state import Flow
from vcledger.scheduler.transitions import IllegalTransition
from volcano.events.binding import PodConditionPatched, PodConditionPatchFailed
from volcano.events.eviction import EvictFailed, EvictRequested, EvictSucceeded
from volcano.events.recovery import InDoubtResolved, RecoveryCompleted, RecoveryStarted
from volcano.events.scheduling import CycleEnded, TaskAllocated, TaskEvicted, TaskPipelined
from volcano.objects.status import TaskStatus

PAGE = Path(__file__).parents[3] / "docs" / "bind-flow.md"

CONF = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: true
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A node full of a lesser job that may lose one of its two tasks, and a pod that is worth more."""
    config = msgspec.structs.replace(CONFIG, session=read_conf(CONF), seed=7, settle_seconds=10)
    made = World(tmp_path, config)
    made.see(queue("default"), priority("high", 100), priority("low", 1), node("n1"))
    made.see(of("lowg", 1, "low"), running("l0", 90, "lowg"), running("l1", 91, "lowg"))
    made.see(of("highg", 1, "high", 21), pod("h0", 101, group="highg", cpu="2"))
    yield made
    made.store.close()


def queue(name: str, weight: int = 1) -> dict[str, Any]:
    meta = {"name": name, "uid": f"{name}-u", "resourceVersion": "3"}
    return {"kind": "Queue", "apiVersion": "x/v1", "metadata": meta, "spec": {"weight": weight},
            "status": {"state": "Open"}}  # fmt: skip


def priority(name: str, value: int) -> dict[str, Any]:
    meta = {"name": name, "uid": f"{name}-u", "resourceVersion": "4"}
    return {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": meta, "value": value}


def of(name: str, least: int, worth: str, version: int = 20, queue: str = "default") -> dict[str, Any]:
    made = group(name, least, version)
    made["spec"] |= {"priorityClassName": worth, "queue": queue}
    return made


def running(name: str, version: int, gang: str, **more: Any) -> dict[str, Any]:
    return pod(name, version, group=gang, cpu="2", node="n1", phase="Running", **more)


def deleting(name: str, version: int, gang: str = "lowg") -> dict[str, Any]:
    return running(name, version, gang, deleting=True)


def victim(world: World) -> str:
    """The one task that was told to go."""
    ((name, _),) = [(one.name, one) for one in world.recorded(TaskEvicted)]
    return str(name)


def marked(world: World) -> str:
    """A cycle, and the conditions of its one victim written; its name."""
    world.do(Allocate())
    name = victim(world)
    world.answer(Patch, said(running(name, 110, "lowg")), name)
    return name


def status_of(world: World, name: str) -> TaskStatus:
    """A task's status in its job, which its node's copy must have as well."""
    job = world.flow.cache.jobs["d/lowg"].tasks[f"{name}-u"]
    assert world.flow.cache.nodes["n1"].tasks[f"d/{name}"].status == job.status
    return TaskStatus(job.status)


def nothing_is_left(world: World) -> None:
    """No eviction stands, and none of its requests is out."""
    assert world.flow.evictions == {}
    assert [one for one in world.flow.intents.values() if one.kind in ("mark", "evict")] == []
    world.settled()


@pytest.mark.parametrize("young", ["l0", "l1"])
@pytest.mark.parametrize("restarted", [False, True])
def test_the_youngest_goes_whichever_uid_it_has(tmp_path: Path, young: str, restarted: bool) -> None:
    born = {"l0": "2026-01-01T00:00:00Z", "l1": "2026-01-01T00:00:00Z", young: "2026-01-02T00:00:00Z"}
    _goes_first(tmp_path, {name: {"creationTimestamp": age} for name, age in born.items()}, young, restarted)


@pytest.mark.parametrize("last", ["l0", "l1"])
def test_the_last_of_its_index_goes_whatever_its_age(tmp_path: Path, last: str) -> None:
    more: dict[str, dict[str, Any]] = {
        name: {
            "creationTimestamp": f"2026-01-0{1 if name == last else 2}T00:00:00Z",
            "labels": {"volcano.sh/task-index": "10" if name == last else "9"},
        }
        for name in ("l0", "l1")
    }
    _goes_first(tmp_path, more, last)


def _goes_first(tmp_path: Path, more: dict[str, dict[str, Any]], expected: str, restarted: bool = False) -> None:
    """A node full of two that run, with `more` in their metadata: of whichever goes there is one."""
    config = msgspec.structs.replace(CONFIG, session=read_conf(CONF), seed=7, settle_seconds=10)
    world = World(tmp_path, config)
    world.see(queue("default"), priority("high", 100), priority("low", 1), node("n1"))
    pods = [running(name, 90 + at, "lowg") for at, name in enumerate(("l0", "l1"))]
    for one in pods:
        one["metadata"] |= more[one["metadata"]["name"]]
    world.see(of("lowg", 1, "low"), *pods)
    if restarted:
        world.loop.flow = load(Flow(config), dump(world.flow))
    world.see(of("highg", 1, "high", 21), pod("h0", 101, group="highg", cpu="2"))
    world.do(Allocate())
    assert victim(world) == expected
    world.store.close()


def test_the_node_that_is_named_for_a_preemptor_is_written_once_and_never_taken_back(tmp_path: Path) -> None:
    config = msgspec.structs.replace(CONFIG, session=read_conf(CONF), seed=7, statuses=True)
    world = World(tmp_path, config)
    world.see(queue("default"), priority("high", 100), priority("low", 1), node("n1"))
    world.see(of("lowg", 1, "low"), running("l0", 90, "lowg"), running("l1", 91, "lowg"))
    world.see(of("highg", 1, "high", 21), pod("h0", 101, group="highg", cpu="2"))
    world.do(Allocate())

    def named() -> list[str]:
        found = [one.request for one in world.out if isinstance(one.request, Patch) and one.request.name == "h0"]
        return [json.loads(one.body)["status"].get("nominatedNodeName", "") for one in found]

    assert named() == ["n1"]
    world.answer(Patch, status(500, "no"), "h0")
    assert world.events(PodConditionPatchFailed)[-1].nominated_node == "n1"
    world.do(Allocate())
    assert named() == [], "not at once"
    world.tick(1)
    world.do(Allocate())
    assert named() == ["n1"], "what failed is tried again by a cycle a second later"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    message = json.loads(next(one.request.body for one in world.out if getattr(one.request, "name", "") == "h0"))
    seen = pod("h0", 140, group="highg", cpu="2")
    seen["status"] |= {"conditions": [condition | {"message": message["status"]["conditions"][0]["message"]}]}
    seen["status"]["nominatedNodeName"] = "n1"
    world.answer(Patch, said(seen), "h0")
    assert world.events(PodConditionPatched)[-1].nominated_node == "n1"
    world.see(seen)
    world.do(Allocate())
    assert named() == []
    world.settled()
    world.store.close()


# --- the table ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("phase", "step"), list(product(EvictPhase, EvictStep)))
def test_every_step_from_every_phase_is_in_the_table_or_refused(phase: EvictPhase, step: EvictStep) -> None:
    wanted = EVICTIONS.get((phase, step))
    if wanted is None:
        with pytest.raises(IllegalTransition, match=phase.value):
            after(phase, step)
    else:
        assert after(phase, step) is wanted


def test_a_deletion_is_never_asked_for_while_one_is_out() -> None:
    assert {phase for phase, step in EVICTIONS if step is EvictStep.REQUESTED} == {EvictPhase.MARKING, EvictPhase.DOUBT}


def test_the_diagram_in_the_docs_is_the_table() -> None:
    assert diagram() in PAGE.read_text(), "print(vcledger.scheduler.eviction_steps.diagram()) into docs/bind-flow.md"


# --- all goes well ------------------------------------------------------------------------------------------------


def test_the_conditions_then_the_deletion_of_that_very_pod_with_its_own_grace(world: World) -> None:
    world.do(Allocate())
    name = victim(world)
    (told,) = world.events(TaskEvicted)
    assert (told.job, told.node, told.action, told.preemptor.name) == ("d/lowg", "n1", "preempt", "h0")
    assert (world.events(CycleEnded)[0].evicted, world.events(CycleEnded)[0].pipelined) == (1, 1)
    assert status_of(world, name) is TaskStatus.RELEASING
    assert world.asked(Delete) == []
    mark = world.answer(Patch, said(running(name, 110, "lowg")), name).request
    conditions = {one["type"]: one for one in json.loads(mark.body)["status"]["conditions"]}
    assert conditions["Ready"]["status"] == "False"
    assert conditions["Ready"]["message"] == "Pod is evicted, because of preempt"
    assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
    assert (mark.subresource, json.loads(mark.body)["metadata"]) == ("status", {"uid": f"{name}-u"})
    (intent,) = world.recorded(EvictRequested)
    request = world.take(Delete).request
    assert request == Delete("Pod", "d", name, f"{name}-u", None)
    assert intent.event.decided == world.recorded(TaskEvicted)[0].position
    assert intent.causation == world.recorded(PodConditionPatched)[0].position


def test_it_is_releasing_until_it_is_seen_going_whatever_is_seen_before(world: World) -> None:
    name = marked(world)
    world.see(running(name, 110, "lowg"))
    assert status_of(world, name) is TaskStatus.RELEASING
    world.answer(Delete, said(deleting(name, 111)))
    world.see(node("n1", 12))
    assert status_of(world, name) is TaskStatus.RELEASING
    assert [(one.code, one.gone) for one in world.events(EvictSucceeded)] == [(200, False)]
    assert [one.phase for one in world.flow.evictions.values()] == [EvictPhase.GOING]
    world.see(deleting(name, 111))
    assert world.flow.evictions == {}
    assert status_of(world, name) is TaskStatus.RELEASING
    world.settled()


def test_nobody_is_evicted_twice_and_the_room_stays_promised_until_it_is_there(world: World) -> None:
    name = marked(world)
    for _ in range(3):
        world.do(Allocate())
    world.answer(Delete, said(deleting(name, 111)))
    world.see(deleting(name, 111))
    world.do(Allocate(), Allocate())
    assert len(world.events(TaskEvicted)) == len(world.events(EvictRequested)) == 1
    assert [(one.node, [gone.name for gone in one.waits_for]) for one in world.events(TaskPipelined)] == [
        ("n1", [name])
    ]
    assert world.flow.nominated == {"h0-u": "n1"}
    world.see(deleting(name, 112), change="DELETED")
    world.do(Allocate())
    assert [one.node for one in world.events(TaskAllocated)] == ["n1"]
    assert world.flow.nominated == {}
    world.settled()


def test_people_are_told_at_the_pod_and_at_its_podgroup(world: World) -> None:
    world.do(Allocate())
    name = victim(world)
    told = [json.loads(one.request.body) for one in world.out if isinstance(one.request, Create)]
    told = [one for one in told if one["reason"] == "Evict"]
    assert [(one["involvedObject"]["kind"], one["involvedObject"]["name"]) for one in told] == [
        ("Pod", name),
        ("PodGroup", "lowg"),
    ]
    assert [(one["type"], one["message"]) for one in told] == [
        ("Warning", "Pod is evicted, because of preempt"),
        ("Normal", "preempt"),
    ]
    assert told[1]["involvedObject"]["apiVersion"] == "scheduling.volcano.sh/v1beta1"


def test_a_queue_takes_back_what_it_deserves(world: World) -> None:
    """reclaim: of two queues of equal weight one has the whole node."""
    world.see(queue("poor"), node("n2", 11))
    world.see(pod("h0", 105, group="highg", cpu="2"), change="DELETED")
    world.see(running("l2", 94, "lowg") | {"spec": pod("l2", 94, group="lowg", cpu="4", node="n2")["spec"]})
    world.see(of("poorg", 1, "low", 22, "poor"), pod("p0", 103, group="poorg", cpu="2"))
    world.do(Allocate())
    assert {one.action for one in world.events(TaskEvicted)} == {"reclaim"}
    assert [one.preemptor.name for one in world.events(TaskEvicted)] == ["p0"]


# --- refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [403, 409, 429, 500, 503])
def test_a_refusal_leaves_the_task_as_its_pod_says_and_it_is_spared_for_a_while(world: World, code: int) -> None:
    name = marked(world)
    world.answer(Delete, status(code, "no", "Nope"))
    assert [(one.code, one.reason, one.answer_lost) for one in world.events(EvictFailed)] == [(code, "Nope", False)]
    assert status_of(world, name) is TaskStatus.RELEASING
    world.tick(0.01)
    world.answer(Get, said(running(name, 110, "lowg")), name)
    assert status_of(world, name) is TaskStatus.RUNNING
    assert world.flow.evictions == {}
    world.do(Allocate())
    other = [one.name for one in world.recorded(TaskEvicted)][1:]
    assert other == [{"l0": "l1", "l1": "l0"}[name]]
    world.settled()


def test_when_its_time_is_over_it_is_chosen_again_and_its_conditions_are_not_written_again(world: World) -> None:
    world.see(running("l1", 95, "lowg"), change="DELETED")
    world.see(of("lowg", 0, "low", 30), pod("h0", 106, group="highg", cpu="3"))
    name = marked(world)
    world.answer(Delete, status(500, "no"))
    world.tick(0.01)
    world.answer(Get, said(running(name, 110, "lowg")), name)
    world.do(Allocate())
    assert len(world.events(TaskEvicted)) == 1
    world.tick(1.5)
    world.do(Allocate())
    assert len(world.events(TaskEvicted)) == 2
    assert name not in world.asked(Patch)
    assert [one.decided for one in world.events(EvictRequested)] == [
        one.position for one in world.recorded(TaskEvicted)
    ]
    world.answer(Delete, status(500, "no"))
    assert [one.times for one in world.flow.refused.values()] == [2]
    world.settled()


def test_the_servers_wish_to_be_left_alone_is_respected(world: World) -> None:
    name = marked(world)
    body = {"kind": "Status", "code": 429, "message": "slow down", "details": {"retryAfterSeconds": 40}}
    world.answer(Delete, Answer(429, json.dumps(body).encode()))
    assert world.flow.refused[f"{name}-u"].until == world.now + 40_000_000
    assert world.events(EvictFailed)[0].retry_after_seconds == 40


@pytest.mark.parametrize(
    "answer", [status(500, "no"), status(403, "no", "Forbidden"), LOST], ids=["500", "403", "lost"]
)
def test_without_its_conditions_the_pod_is_not_deleted(world: World, answer: Answer) -> None:
    world.do(Allocate())
    name = victim(world)
    world.answer(Patch, answer, name)
    assert len(world.events(PodConditionPatchFailed)) == 1
    assert [(one.intent, one.code) for one in world.events(EvictFailed)] == [(None, answer.code or 0)]
    assert world.asked(Delete) == []
    world.tick(0.01)
    world.answer(Get, said(running(name, 110, "lowg")), name)
    assert status_of(world, name) is TaskStatus.RUNNING
    world.settled()


# --- gone already -------------------------------------------------------------------------------------------------


def test_a_pod_that_is_gone_already_is_evicted(world: World) -> None:
    name = marked(world)
    world.answer(Delete, status(404, "not found", "NotFound"))
    assert [(one.code, one.gone) for one in world.events(EvictSucceeded)] == [(404, True)]
    world.see(running(name, 112, "lowg"), change="DELETED")
    assert world.flow.evictions == {}
    world.settled()


def test_another_pod_of_its_name_is_left_alone(world: World) -> None:
    name = marked(world)
    why = f"Precondition failed: UID in the precondition ({name}-u) does not match the UID in record (other)"
    world.answer(Delete, status(409, why, "Conflict"))
    assert [(one.code, one.gone) for one in world.events(EvictSucceeded)] == [(409, True)]
    world.see(running(name, 120, "lowg", uid="other"))
    assert world.flow.evictions == {}
    assert world.flow.cache.jobs["d/lowg"].tasks["other"].status == TaskStatus.RUNNING
    world.settled()


def test_a_pod_that_goes_before_its_conditions_are_written(world: World) -> None:
    world.do(Allocate())
    name = victim(world)
    world.answer(Patch, status(404, "not found", "NotFound"), name)
    assert [(one.code, one.gone, one.intent) for one in world.events(EvictSucceeded)] == [(404, True, None)]
    assert world.asked(Delete) == []


@pytest.mark.parametrize("change", ["MODIFIED", "DELETED"])
def test_what_somebody_else_deletes_first_is_not_deleted_by_us(world: World, change: str) -> None:
    world.do(Allocate())
    name = victim(world)
    world.see(deleting(name, 108), change=change)
    assert [(one.gone, one.intent) for one in world.events(EvictSucceeded)] == [(change == "DELETED", None)]
    assert world.flow.evictions == {}
    world.answer(Patch, said(deleting(name, 109)), name)
    assert world.asked(Delete) == []
    nothing_is_left(world)


# --- lost answers -------------------------------------------------------------------------------------------------


def test_a_lost_answer_keeps_it_releasing_and_the_read_tells_the_truth(world: World) -> None:
    name = marked(world)
    world.answer(Delete, LOST)
    assert status_of(world, name) is TaskStatus.RELEASING
    world.tick(0.01)
    world.answer(Get, said(deleting(name, 111)), name)
    assert [one.verdict for one in world.events(InDoubtResolved)] == ["happened"]
    assert [(one.answer_lost, one.gone) for one in world.events(EvictSucceeded)] == [(True, False)]
    assert world.flow.evictions == {}
    world.settled()


def test_one_that_was_not_done_is_sent_once_more_and_never_a_third_time(world: World) -> None:
    name = marked(world)
    for attempt in (1, 2):
        assert [one.attempt for one in world.events(EvictRequested)][-1] == attempt
        world.answer(Delete, LOST)
        world.tick(0.01)
        world.answer(Get, said(running(name, 110, "lowg")), name)
    assert len(world.events(EvictRequested)) == 2
    assert status_of(world, name) is TaskStatus.RELEASING
    while not [one for one in world.events(EvictFailed) if not one.answer_lost]:
        world.tick(3)
        world.answer(Get, said(running(name, 110, "lowg")), name)
        assert world.now < world.recorded(EvictRequested)[-1].observed_at + 30_000_000
    assert world.events(EvictFailed)[-1].reason == "AnswerLost"
    assert world.now >= world.recorded(EvictRequested)[-1].observed_at + 10_000_000
    assert status_of(world, name) is TaskStatus.RUNNING
    assert len(world.events(EvictRequested)) == 2
    world.settled()


def test_a_watch_may_tell_before_the_answer_does(world: World) -> None:
    name = marked(world)
    world.see(deleting(name, 111))
    assert world.events(EvictSucceeded) == []
    world.answer(Delete, LOST)
    assert [(one.answer_lost, one.gone) for one in world.events(EvictSucceeded)] == [(True, False)]
    nothing_is_left(world)


@pytest.mark.parametrize("change", ["MODIFIED", "DELETED"])
def test_a_watch_settles_what_is_in_doubt(world: World, change: str) -> None:
    name = marked(world)
    world.answer(Delete, LOST)
    world.see(deleting(name, 111), change=change)
    verdict = {"MODIFIED": "happened", "DELETED": "object-gone"}[change]
    assert [one.verdict for one in world.events(InDoubtResolved)] == [verdict]
    assert [one.gone for one in world.events(EvictSucceeded)] == [change == "DELETED"]
    assert world.flow.evictions == {}


@pytest.mark.parametrize("other", [True, False], ids=["another", "none"])
def test_a_read_that_finds_another_pod_or_none(world: World, other: bool) -> None:
    name = marked(world)
    world.answer(Delete, LOST)
    world.tick(0.01)
    answer = said(running(name, 130, "lowg", uid="other")) if other else status(404, "gone", "NotFound")
    world.answer(Get, answer, name)
    assert [one.verdict for one in world.events(InDoubtResolved)] == ["object-gone"]
    assert [one.gone for one in world.events(EvictSucceeded)] == [True]
    assert f"{name}-u" not in world.flow.cache.jobs["d/lowg"].tasks
    world.settled()


# --- restarts, and a log that refuses -------------------------------------------------------------------------------


def test_a_restart_settles_a_deletion_by_a_read(world: World) -> None:
    name = marked(world)
    (intent,) = world.recorded(EvictRequested)
    world.crash()
    assert world.events(RecoveryStarted)[-1].in_doubt == (intent.position,)
    assert status_of(world, name) is TaskStatus.RELEASING
    world.tick(0.01)
    world.answer(Get, said(deleting(name, 111)), name)
    assert [one.verdict for one in world.events(InDoubtResolved)] == ["happened"]
    assert world.events(RecoveryCompleted)[-1].happened == 1
    assert len(world.events(EvictRequested)) == 1
    world.settled()


def test_a_restart_after_a_long_time_carries_out_no_old_decision(world: World) -> None:
    name = marked(world)
    world.now += 3_600_000_000
    world.crash()
    world.tick(0.01)
    world.answer(Get, said(running(name, 110, "lowg")), name)
    assert [one.verdict for one in world.events(InDoubtResolved)] == ["not-happened"]
    assert world.asked(Delete) == []
    assert status_of(world, name) is TaskStatus.RUNNING


def test_a_restart_before_the_deletion_was_asked_for_gives_the_decision_up(world: World) -> None:
    world.do(Allocate())
    name = victim(world)
    world.crash()
    assert [one.reason for one in world.events(EvictFailed)] == ["ProcessEnded"]
    assert len(world.events(PodConditionPatchFailed)) >= 1
    world.tick(0.01)
    world.answer(Get, said(running(name, 110, "lowg")), name)
    assert status_of(world, name) is TaskStatus.RUNNING
    assert world.asked(Delete) == []
    nothing_is_left(world)


@pytest.mark.parametrize("change", ["MODIFIED", "DELETED"])
def test_a_restart_when_it_was_seen_going_with_no_answer_yet(world: World, change: str) -> None:
    name = marked(world)
    world.see(deleting(name, 111), change=change)
    world.crash()
    assert [(one.gone, one.answer_lost) for one in world.events(EvictSucceeded)] == [(change == "DELETED", True)]
    nothing_is_left(world)
    assert len(world.events(RecoveryStarted)) == len(world.events(RecoveryCompleted))


def test_nobody_is_evicted_when_the_log_refuses(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **more: Any) -> Any:
        raise LedgerUnwritable("the disk is full")

    monkeypatch.setattr(world.store, "append", refuse)
    world.do(Allocate())
    assert world.out == []
    monkeypatch.undo()
    assert world.events(TaskEvicted) == []
    world.loop.step(world.now)
    name = victim(world)
    mark = world.take(Patch, name)
    monkeypatch.setattr(world.store, "append", refuse)
    world.do(Answered(mark, said(running(name, 110, "lowg"))))
    assert world.asked(Delete) == []
    monkeypatch.undo()
    assert world.events(EvictRequested) == []


# --- who is no victim ---------------------------------------------------------------------------------------------


def test_a_pod_of_a_critical_class_is_no_victim(world: World) -> None:
    for name, version in (("l0", 95), ("l1", 96)):
        critical = running(name, version, "lowg")
        critical["spec"]["priorityClassName"] = "system-node-critical"
        world.see(critical)
    world.do(Allocate())
    assert world.events(TaskEvicted) == []
    assert sorted(world.flow.noted) == ["d/l0", "d/l1"]
    world.settled()


def test_a_gang_at_its_minimum_loses_nobody(world: World) -> None:
    world.see(of("lowg", 2, "low", 30))
    world.do(Allocate())
    assert world.events(TaskEvicted) == []


def test_a_pod_whose_binding_is_not_over_is_no_victim(world: World) -> None:
    world.see(running("l1", 95, "lowg"), change="DELETED")
    world.see(pod("h0", 102, group="highg", cpu="2"), change="DELETED")
    world.see(of("lowg", 0, "low", 30), pod("l2", 103, group="lowg", cpu="2"))
    world.bind("l2")
    world.answer(Bind, Answer(201), "l2")
    world.see(running("l0", 96, "lowg"), change="DELETED")
    world.see(of("highg", 1, "high", 31), pod("h1", 104, group="highg", cpu="3"))
    world.do(Allocate())
    assert world.events(TaskEvicted) == []
    world.see(running("l2", 105, "lowg"))
    world.do(Allocate())
    assert victim(world) == "l2"


# --- the promise --------------------------------------------------------------------------------------------------


def test_whom_room_is_made_for_comes_first_on_its_node(world: World) -> None:
    """Of another job, which the order puts first, a task fits as well; it may not take what was made free."""
    name = marked(world)
    world.answer(Delete, said(deleting(name, 111)))
    world.see(deleting(name, 112), change="DELETED")
    world.see(priority("highest", 1000), of("firstg", 1, "highest", 40), pod("f0", 120, group="firstg", cpu="2"))
    world.do(Allocate())
    assert [one.job for one in world.events(TaskAllocated)] == ["d/highg"]
    world.settled()


def test_a_promise_counts_for_nothing_while_its_node_takes_nobody(world: World) -> None:
    """The node is cordoned once the room is there; what comes to be free elsewhere goes by the ordinary order."""
    name = marked(world)
    world.answer(Delete, said(deleting(name, 111)))
    world.see(deleting(name, 112), change="DELETED")
    cordoned = node("n1", 13)
    cordoned["spec"] = {"unschedulable": True}
    world.see(cordoned, node("n2", 14, cpu="2"))
    world.see(priority("highest", 1000), of("firstg", 1, "highest", 40), pod("f0", 120, group="firstg", cpu="2"))
    world.do(Allocate())
    assert [(one.job, one.node) for one in world.events(TaskAllocated)] == [("d/firstg", "n2")]
    assert world.flow.nominated == {"h0-u": "n1"}
    world.see(node("n1", 15), of("secondg", 1, "highest", 41), pod("s0", 121, group="secondg", cpu="2"))
    world.do(Allocate())
    assert [(one.job, one.node) for one in world.events(TaskAllocated)][1:] == [("d/highg", "n1")]
    world.settled()


def test_a_promise_ends_with_an_eviction_that_failed(world: World) -> None:
    marked(world)
    assert world.flow.nominated == {"h0-u": "n1"}
    world.answer(Delete, status(500, "no"))
    assert world.flow.nominated == {}


def test_a_promise_ends_with_its_node(world: World) -> None:
    marked(world)
    world.see(node("n1", 13), change="DELETED")
    assert world.flow.nominated == {}
    world.settled()


def test_a_pod_whose_named_node_is_deleted_makes_room_on_another_one(tmp_path: Path) -> None:
    config = msgspec.structs.replace(CONFIG, session=read_conf(CONF), seed=7, settle_seconds=10, statuses=True)
    world = World(tmp_path, config)
    world.see(queue("default"), priority("high", 100), priority("low", 1), node("n1"))
    world.see(of("lowg", 1, "low"), running("l0", 90, "lowg"), running("l1", 91, "lowg"))
    world.see(of("highg", 1, "high", 21), pod("h0", 101, group="highg", cpu="2"))
    world.do(Allocate())
    named = pod("h0", 140, group="highg", cpu="2")
    named["status"]["nominatedNodeName"] = "n1"
    world.answer(Patch, said(named), "h0")
    world.see(named, node("n1", 150), change="MODIFIED")
    world.see(node("n1", 151), change="DELETED")
    for name, version in (("l0", 152), ("l1", 153)):
        world.see(running(name, version, "lowg"), change="DELETED")
    world.see(node("n2", 160))
    world.see(*(pod(name, version, group="lowg", cpu="2", node="n2", phase="Running") for name, version in
                (("m0", 161), ("m1", 162))))  # fmt: skip
    world.do(Allocate())
    assert [one.node for one in world.events(TaskEvicted)] == ["n1", "n2"]
    assert world.flow.nominated == {"h0-u": "n2"}
    bodies = [json.loads(one.request.body) for one in world.out if getattr(one.request, "name", "") == "h0"]
    assert [one["status"]["nominatedNodeName"] for one in bodies] == ["n2"]
    world.do(Allocate(), Allocate())
    assert len(world.events(TaskEvicted)) == 2, "the name that its status still has does not make it evict once more"
    world.settled()
    world.store.close()


def test_a_promise_ends_with_its_pod(world: World) -> None:
    marked(world)
    world.see(pod("h0", 130, group="highg", cpu="2"), change="DELETED")
    assert world.flow.nominated == {}
    world.settled()
