"""What a session's close writes into PodGroups and queues: when, what, once, and what follows from each answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.scheduler.build import (
    CONFIG,
    LOST,
    Answer,
    Bind,
    Patch,
    World,
    group,
    node,
    pod,
    said,
    status,
)
from vcledger.scheduler.inputs import Allocate, Answered
from vcledger.scheduler.session.conf import default_conf
from vcledger.scheduler.statuses import _quantity
from volcano.events.scheduling import CycleStarted, JobConsidered, JobEnqueued
from volcano.events.status import (
    PodGroupUpdateFailed,
    PodGroupUpdateRequested,
    PodGroupUpdateSucceeded,
    QueueUpdateFailed,
    QueueUpdateRequested,
    QueueUpdateSucceeded,
)

WRITES = msgspec.structs.replace(CONFIG, session=default_conf(), seed=7, statuses=True)
READY = "tasks in gang are ready to be scheduled"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, WRITES)
    made.see(queue("default"), node("n1"))
    yield made
    made.store.close()


def queue(name: str, version: int = 3, *, allocated: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": f"{name}-u", "resourceVersion": str(version)}
    state: dict[str, Any] = {"state": "Open"}
    if allocated is not None:
        state["allocated"] = allocated
    return {"kind": "Queue", "apiVersion": "x/v1", "metadata": meta, "spec": {"weight": 1, **spec}, "status": state}


def pending(name: str, least: int, version: int = 20, **state: Any) -> dict[str, Any]:
    """A PodGroup that has not been let in, or says something else."""
    made = group(name, least, version)
    made["status"] = {"phase": "Pending", **state}
    return made


def patches(world: World, kind: str = "PodGroup") -> list[dict[str, Any]]:
    """The patches that are out."""
    found = [one.request for one in world.out if isinstance(one.request, Patch) and one.request.kind == kind]
    return [json.loads(one.body) for one in found]


def take_queue(world: World) -> None:
    """Everything asked of queues is answered and seen."""
    for body in patches(world, "Queue"):
        seen = queue("default", 900 + world.store.head(), allocated=body["status"]["allocated"])
        world.answer(Patch, said(seen), "default")
        world.see(seen)


def answer(world: World, name: str, reply: Answer) -> None:
    """The answer to the patch of a PodGroup."""
    effect = next(
        one
        for one in world.out
        if isinstance(one.request, Patch) and one.request.kind == "PodGroup" and one.request.name == name
    )
    world.out.remove(effect)
    world.do(Answered(effect, reply))


def test_a_group_without_pods_is_let_in_and_that_is_written_before_there_are_any(world: World) -> None:
    world.see(pending("g", 2))
    world.do(Allocate())
    (intent,) = world.recorded(PodGroupUpdateRequested)
    assert (intent.event.phase, intent.event.condition, intent.event.sent_resource_version) == ("Inqueue", "", "20")
    assert intent.cycle == world.recorded(CycleStarted)[0].position
    assert patches(world) == [
        {
            "metadata": {"uid": "g-u", "resourceVersion": "20"},
            "status": {"phase": "Inqueue", "running": None, "succeeded": None, "failed": None},
        }
    ]
    take_queue(world)
    answer(world, "g", said(pending("g", 2, 31, phase="Inqueue")))
    (outcome,) = world.events(PodGroupUpdateSucceeded)
    assert (outcome.new_resource_version, outcome.intent) == ("31", intent.position)
    head = world.store.head()
    world.do(Allocate(), Allocate())
    assert world.store.head() == head, "the phase was written, whether it was seen or not"
    world.see(pending("g", 2, 31, phase="Inqueue"))
    world.do(Allocate())
    assert len(world.events(PodGroupUpdateRequested)) == 1 and len(world.events(JobEnqueued)) == 1
    world.settled()


def test_while_the_answer_is_out_nothing_is_written_and_the_job_counts_as_let_in(world: World) -> None:
    world.see(pending("g", 1))
    world.do(Allocate())
    assert world.flow.mirror.phase_of("d/g", world.flow.cache.jobs["d/g"].pod_group) == "Inqueue"
    world.see(pod("a", 101, group="g"))
    world.do(Allocate())
    assert len(patches(world)) == 1
    world.tick(0.02)
    assert world.asked(Bind) == ["a"]


def test_the_phase_follows_the_pods(world: World) -> None:
    """A PodGroup whose pods are being bound stays Inqueue, then runs, and is completed with its pods."""
    world.see(pending("g", 2), pod("a", 101, group="g"), pod("b", 102, group="g"))
    version = 200

    def next_status() -> dict[str, Any]:
        nonlocal version
        world.do(Allocate())
        (body,) = patches(world)
        version += 1
        wanted = {name: value for name, value in body["status"].items() if value is not None}
        seen = pending("g", 2, version, **wanted)
        answer(world, "g", said(seen))
        world.see(seen)
        take_queue(world)
        return wanted

    first = next_status()
    assert (first["phase"], [one["type"] for one in first["conditions"]]) == ("Inqueue", ["Scheduled"])
    assert first["conditions"][0]["reason"] == READY and "message" not in first["conditions"][0]
    world.see(pod("a", 111, group="g", node="n1", phase="Running"), pod("b", 112, group="g", node="n1"))
    assert next_status()["phase"] == "Running"
    assert world.events(PodGroupUpdateRequested)[-1].running == 1
    world.see(pod("b", 113, group="g", node="n1", phase="Running"))
    assert next_status()["running"] == 2
    world.see(pod("a", 121, group="g", node="n1", phase="Succeeded"))
    second = next_status()
    assert (second["phase"], second["running"], second["succeeded"]) == ("Running", 1, 1)
    world.see(pod("b", 122, group="g", node="n1", phase="Failed"))
    last = next_status()
    assert (last["phase"], last["succeeded"], last["failed"]) == ("Completed", 1, 1) and "running" not in last
    head = world.store.head()
    world.do(Allocate())
    assert world.store.head() == head
    world.settled()


def test_a_gang_that_does_not_fit_says_so_in_the_sessions_own_words(world: World) -> None:
    world.see(pending("g", 2), pod("a", 101, group="g"), pod("b", 102, group="g", selector={"disk": "fast"}))
    world.do(Allocate())
    (body,) = patches(world)
    (condition,) = body["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "Unschedulable",
        "True",
        "NotEnoughResources",
    )
    assert condition["message"] == (
        "1/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; Pending: 1 Schedulable, "
        "1 Unschedulable. Origin reason is b: 0/1 nodes are unavailable: "
        "1 node(s) didn't match Pod's node affinity/selector."
    )
    assert [one.message for one in world.events(JobConsidered)] == [condition["message"]]
    assert body["status"]["phase"] == "Inqueue"
    assert "Unschedulable" in world.reasons()
    seen = pending("g", 2, 31, phase="Inqueue", conditions=body["status"]["conditions"])
    answer(world, "g", said(seen))
    world.see(seen)
    take_queue(world)
    head = world.store.head()
    world.do(Allocate(), Allocate())
    assert world.store.head() == head, "no status update is sent that changes nothing"
    world.see(node("n2", 11, labels={"disk": "fast"}))
    world.do(Allocate())
    (body,) = patches(world)
    assert [one["type"] for one in body["status"]["conditions"]] == ["Unschedulable", "Scheduled"]
    assert body["status"]["conditions"][0] == condition
    world.settled()


def test_running_pods_of_a_gang_that_lacks_some_make_it_unknown(world: World) -> None:
    world.see(
        group("g", 3),
        pod("a", 101, group="g", node="n1", phase="Running"),
        pod("b", 102, group="g", cpu="9"),
        pod("c", 103, group="g", cpu="9"),
    )
    world.do(Allocate())
    (event,) = world.events(PodGroupUpdateRequested)
    assert (event.phase, event.running, event.condition) == ("Unknown", 1, "Unschedulable")


def test_a_group_whose_pods_are_gone_waits_at_the_gate_again(world: World) -> None:
    world.see(group("g", 1), pod("a", 101, group="g", node="n1", phase="Running"))
    world.do(Allocate())
    running = pending("g", 1, 31, phase="Running", running=1)
    answer(world, "g", said(running))
    world.see(running)
    world.see(pod("a", 105, group="g", node="n1", phase="Running"), change="DELETED")
    world.do(Allocate())
    assert world.events(PodGroupUpdateRequested)[-1].phase == "Pending"
    waiting = pending("g", 1, 33)
    answer(world, "g", said(waiting))
    world.see(waiting)
    world.do(Allocate())
    assert world.events(PodGroupUpdateRequested)[-1].phase == "Inqueue"
    assert len(world.events(JobEnqueued)) == 1
    world.settled()


def test_a_conflict_is_decided_anew_on_what_is_seen_then(world: World) -> None:
    world.see(pending("g", 1))
    world.do(Allocate())
    answer(world, "g", status(409, "the object has been modified", "Conflict"))
    assert [one.code for one in world.events(PodGroupUpdateFailed)] == [409]
    assert patches(world) == []
    world.see(pending("g", 1, 25))
    world.do(Allocate())
    assert [one["metadata"]["resourceVersion"] for one in patches(world)] == ["25"]
    world.settled()


REFUSALS = (
    *(LOST, status(409, "older"), status(500, "etcd is away"), status(429, "slowly")),
    *(status(403, "forbidden"), status(404, "a proxy knows nothing of it"), status(422, "no")),
)


@pytest.mark.parametrize("reply", REFUSALS)
def test_what_is_refused_is_sent_again_the_later_the_more_often_and_never_waits_for_good(
    world: World, reply: Answer
) -> None:
    world.see(pending("g", 1))
    world.do(Allocate())
    take_queue(world)
    for wait in (1, 2, 4, 8, 16, 32, 60, 60):
        answer(world, "g", reply)
        failed = world.events(PodGroupUpdateFailed)[-1]
        assert (failed.answer_lost, failed.delay_seconds) == (reply.code is None, wait)
        world.tick(wait - 0.1)
        world.do(Allocate())
        assert patches(world) == []
        world.tick(0.1)
        world.do(Allocate(), Allocate())
        assert [one["metadata"]["resourceVersion"] for one in patches(world)] == ["20"]
    assert [one.attempt for one in world.events(PodGroupUpdateFailed)] == list(range(1, 9))
    seen = pending("g", 1, 31, phase="Inqueue")
    answer(world, "g", said(seen))
    world.see(seen, pod("a", 101, group="g", node="n1", phase="Running"))
    world.do(Allocate())
    answer(world, "g", reply)
    assert world.events(PodGroupUpdateFailed)[-1].attempt == 1, "one that was taken ends the row"
    world.settled()


@pytest.mark.parametrize(
    ("reply", "at_once"),
    [(status(422, "no such phase"), True), (status(403, "forbidden"), False), (status(500, "etcd is away"), False)],
)
def test_other_words_are_sent_at_once_only_where_the_words_were_refused(
    world: World, reply: Answer, at_once: bool
) -> None:
    world.see(pending("g", 2))
    world.do(Allocate())
    take_queue(world)
    answer(world, "g", reply)
    world.see(pod("a", 101, group="g"))
    world.do(Allocate())
    assert len(patches(world)) == at_once
    world.tick(1)
    world.do(Allocate())
    assert [one["status"]["conditions"][0]["type"] for one in patches(world)] == ["Unschedulable"]
    world.settled()


def test_what_was_refused_of_a_job_to_which_nothing_happens_is_sent_all_the_same(world: World) -> None:
    """No session would be held for it, nor for its queue."""
    seen = pending("g", 1, 21, phase="Inqueue")
    world.see(seen, pod("a", 101, group="g", node="n1", phase="Running"))
    world.do(Allocate())
    answer(world, "g", status(500, "etcd is away"))
    world.answer(Patch, status(500, "etcd is away"), "default")
    world.do(Allocate(), Allocate())
    assert patches(world) + patches(world, "Queue") == []
    world.tick(1)
    world.do(Allocate())
    (body,) = patches(world)
    assert body["status"]["phase"] == "Running"
    assert [one["status"]["allocated"]["cpu"] for one in patches(world, "Queue")] == ["1"]
    take_queue(world)
    answer(world, "g", LOST)
    world.see(pending("g", 1, 31, **{name: value for name, value in body["status"].items() if value is not None}))
    world.tick(60)
    head = world.store.head()
    world.do(Allocate(), Allocate())
    assert world.store.head() == head, "it had come through, and nothing is left to be said"
    world.settled()


def test_the_wait_after_a_refusal_outlives_the_process(world: World) -> None:
    world.see(pending("g", 1))
    world.do(Allocate())
    take_queue(world)
    answer(world, "g", Answer(429, b"{}", retry_after_seconds=9))
    assert world.events(PodGroupUpdateFailed)[-1].delay_seconds == 9
    world.crash()
    world.do(Allocate())
    assert patches(world) == []
    world.tick(9)
    world.do(Allocate())
    assert len(patches(world)) == 1
    world.crash()
    assert world.events(PodGroupUpdateFailed)[-1].attempt == 1, "that the process died is no refusal"
    world.do(Allocate())
    assert len(patches(world)) == 1
    world.settled()


def test_a_group_that_is_gone_takes_what_was_written_with_it(world: World) -> None:
    world.see(pending("g", 1))
    world.do(Allocate())
    world.see(pending("g", 1), change="DELETED")
    assert "PodGroup/d/g" not in world.flow.written
    answer(world, "g", status(404, "not found"))
    assert "PodGroup/d/g" not in world.flow.written
    again = group("g", 1, 40, uid="other")
    again["status"] = {}
    world.see(again)
    world.do(Allocate())
    assert [one["metadata"]["uid"] for one in patches(world)] == ["other"]
    world.settled()


def test_after_a_crash_the_answer_is_lost_and_the_next_session_decides_anew(world: World) -> None:
    world.see(pending("g", 1))
    world.do(Allocate())
    world.crash()
    (failed,) = world.events(PodGroupUpdateFailed)
    assert (failed.code, failed.answer_lost) == (0, True)
    assert [one.answer_lost for one in world.events(QueueUpdateFailed)] == [True]
    world.do(Allocate())
    assert len(patches(world)) == 1
    world.settled()
    world.see(pending("g", 1, 31, phase="Inqueue"))
    world.crash()
    world.do(Allocate())
    assert patches(world) == [], "it had come through"


# --- whose a PodGroup is ------------------------------------------------------------------------------------------


def owned(name: str, job: str) -> dict[str, Any]:
    made = pending(name, 1)
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job, "uid": f"{job}-u"}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def volcano_job(name: str, scheduler: str) -> dict[str, Any]:
    return {
        "kind": "VolcanoJob",
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "metadata": {"name": name, "namespace": "d", "uid": f"{name}-u", "resourceVersion": "9"},
        "spec": {"schedulerName": scheduler, "minAvailable": 1},
    }


def test_a_volcano_job_says_whose_its_group_is(world: World) -> None:
    world.see(owned("mine", "j1"), owned("theirs", "j2"), owned("unknown", "j3"))
    world.see(volcano_job("j1", "volcano"), volcano_job("j2", "other"))
    world.do(Allocate())
    assert [one.job for one in world.events(PodGroupUpdateRequested)] == ["d/mine"]
    assert [one.job for one in world.events(JobEnqueued)] == ["d/mine"]
    world.settled()


def test_a_group_with_pods_of_another_scheduler_is_left_alone(world: World) -> None:
    stranger = pod("s", 101, group="g")
    stranger["spec"]["schedulerName"] = "other"
    world.see(stranger, pending("g", 1))
    world.do(Allocate())
    assert world.events(PodGroupUpdateRequested) == [] and world.events(JobEnqueued) == []
    world.settled()
    world.see(stranger, change="DELETED")
    world.see(pending("g", 1, 21))
    world.do(Allocate())
    assert [one.phase for one in world.events(PodGroupUpdateRequested)] == ["Inqueue"]
    world.settled()


def test_beside_another_scheduler_groups_of_nobody_and_queues_are_left_alone(tmp_path: Path) -> None:
    world = World(tmp_path, msgspec.structs.replace(WRITES, alone=False))
    world.see(queue("default"), node("n1"), pending("nobodys", 1), pending("ours", 1), pod("a", 101, group="ours"))
    world.do(Allocate())
    assert [one.job for one in world.events(PodGroupUpdateRequested)] == ["d/ours"]
    assert world.events(QueueUpdateRequested) == []
    world.settled()
    world.store.close()


# --- queues -------------------------------------------------------------------------------------------------------


def test_what_a_queue_holds_is_written_with_what_the_session_has_placed(world: World) -> None:
    world.see(group("g", 1), pod("a", 101, group="g", cpu="2500m"))
    world.do(Allocate())
    (body,) = patches(world, "Queue")
    assert body == {
        "metadata": {"uid": "default-u", "resourceVersion": "3"},
        "status": {"allocated": {"cpu": "2500m", "memory": "0", "pods": "1"}},
    }
    seen = queue("default", 33, allocated={"cpu": "2.5", "memory": "0", "pods": "1"})
    world.answer(Patch, said(seen), "default")
    assert [one.new_resource_version for one in world.events(QueueUpdateSucceeded)] == ["33"]
    world.do(Allocate())
    world.see(seen)
    world.do(Allocate())
    assert len(world.events(QueueUpdateRequested)) == 1, "the same amounts, however written, are no news"
    world.see(pod("a", 105, group="g", cpu="2500m"), change="DELETED")
    world.do(Allocate())
    (body,) = patches(world, "Queue")
    assert body["status"] == {"allocated": {"cpu": "0", "memory": "0", "pods": None}}
    world.settled()


def test_a_queue_is_part_of_those_above_it(world: World) -> None:
    world.see(queue("root"), queue("dept"), queue("team", parent="dept"), queue("lone", parent="nowhere"))
    made = group("g", 1)
    made["spec"]["queue"] = "team"
    world.see(made, pod("a", 101, group="g"))
    world.do(Allocate())
    held = {one.name: one.event.allocated.get("cpu", 0) for one in world.recorded(QueueUpdateRequested)}
    assert held == {"default": 0, "dept": 1000, "lone": 0, "root": 1000, "team": 1000}


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 2500.0, "2500m"),
        ("cpu", 40_000.0, "40"),
        ("cpu", 2_000_000.0, "2k"),
        ("memory", 68_719_476_736.0, "64Gi"),
        ("memory", 93_507_222_016.0, "93507222016"),
        ("memory", 47_905_580_032.0, "46782793Ki"),
        ("memory", 0.0, "0"),
        ("pods", 17.0, "17"),
        ("nvidia.com/gpu", 16_000.0, "16"),
        ("attachable-volumes-csi-x", 2.0, "2"),
    ],
)
def test_amounts_are_written_as_the_recordings_have_them(name: str, amount: float, text: str) -> None:
    assert _quantity(name, amount) == text
