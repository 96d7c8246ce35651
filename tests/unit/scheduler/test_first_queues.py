"""The queues that a scheduler makes when it starts, as Volcano's cache does: once, and whatever the server says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.scheduler.build import LOST, Answer, Create, World, group, node, pod, said, status
from tests.unit.scheduler.test_statuses import WRITES, queue
from vcledger.scheduler.inputs import Allocate, Answered
from vcledger.scheduler.requests import Bind
from volcano.events.status import QueueCreateFailed, QueueCreateRequested, QueueCreateSucceeded

MAKES = msgspec.structs.replace(WRITES, makes_queues=True)
TAKEN = status(409, 'queues.scheduling.volcano.sh "root" already exists', "AlreadyExists")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, MAKES)
    made.see(node("n1"))
    yield made
    made.store.close()


def posted(world: World) -> list[dict[str, Any]]:
    """The queues that are being asked for."""
    found = [one.request for one in world.out if isinstance(one.request, Create) and one.request.kind == "Queue"]
    return [json.loads(one.body) for one in found]


def names(world: World) -> list[str]:
    return [one["metadata"]["name"] for one in posted(world)]


def answer(world: World, name: str, reply: Answer) -> None:
    """The answer to the request for a queue."""
    effect = next(
        one
        for one in world.out
        if isinstance(one.request, Create) and json.loads(one.request.body)["metadata"].get("name") == name
    )
    world.out.remove(effect)
    world.do(Answered(effect, reply))


def test_root_and_the_default_one_are_made_once_as_volcano_makes_them(world: World) -> None:
    world.do(Allocate(), Allocate())
    assert posted(world) == [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": 1, "reclaimable": reclaimable},
        }
        for name, reclaimable in (("root", False), ("default", True))
    ]
    asked = world.recorded(QueueCreateRequested)
    assert [(one.event.queue, one.subject.kind, one.cycle) for one in asked] == [
        ("root", "Scheduler", None),
        ("default", "Scheduler", None),
    ]
    answer(world, "root", said(queue("root", 31)))
    answer(world, "default", TAKEN)
    done = world.events(QueueCreateSucceeded)
    assert [(one.queue, one.queue_uid, one.new_resource_version, one.existed) for one in done] == [
        ("root", "root-u", "31", False),
        ("default", "", "", True),
    ]
    assert [one.intent for one in done] == [one.position for one in asked]
    world.tick(100)
    world.do(Allocate())
    assert posted(world) == [], "made, whether it was seen or not"
    world.settled()


def test_one_that_is_there_is_left_as_it_is(world: World) -> None:
    world.see(queue("default", weight=7), queue("root"))
    world.do(Allocate())
    assert world.events(QueueCreateRequested) == []


def test_pods_are_scheduled_meanwhile(world: World) -> None:
    world.see(group("g", 1), pod("a", 101, group="g"))
    world.do(Allocate())
    answer(world, "default", status(403, "forbidden"))
    world.tick(0.02)
    assert world.asked(Bind) == ["a"]


@pytest.mark.parametrize(
    "reply",
    [LOST, status(403, "forbidden"), status(404, "no such kind"), status(409, "a proxy", "Conflict"), status(500, "x")],
)
def test_what_is_refused_is_tried_again_the_later_the_more_often(world: World, reply: Answer) -> None:
    world.see(queue("default"))
    world.do(Allocate())
    for wait in (1, 2, 4, 8, 16, 32, 60, 60):
        answer(world, "root", reply)
        failed = world.events(QueueCreateFailed)[-1]
        assert (failed.queue, failed.delay_seconds, failed.answer_lost) == ("root", wait, reply.code is None)
        world.tick(wait - 0.1)
        world.do(Allocate())
        assert posted(world) == []
        world.tick(0.1)
        world.do(Allocate(), Allocate())
        assert names(world) == ["root"]
    answer(world, "root", reply)
    world.see(queue("root", 40))
    world.tick(60)
    world.do(Allocate())
    assert posted(world) == [], "it is there"
    world.settled()


def test_a_restart_looks_anew(world: World) -> None:
    world.see(queue("default"))
    world.do(Allocate())
    world.crash()
    (failed,) = world.events(QueueCreateFailed)
    assert (failed.answer_lost, failed.attempt, failed.delay_seconds) == (True, 0, 0)
    world.do(Allocate())
    assert names(world) == ["root"]
    answer(world, "root", said(queue("root", 31)))
    world.see(queue("root", 31))
    world.see(queue("root", 31), change="DELETED")
    world.do(Allocate())
    assert posted(world) == [], "whoever deletes it while we run means it"
    world.crash()
    world.do(Allocate())
    assert names(world) == ["root"], "as each process that begins"
    answer(world, "root", said(queue("root", 51)))
    world.settled()


def test_whoever_is_not_to_make_any_makes_none(tmp_path: Path) -> None:
    world = World(tmp_path, WRITES)
    world.see(node("n1"))
    world.do(Allocate())
    assert world.events(QueueCreateRequested) == []
    world.store.close()


def test_a_default_queue_of_another_name(tmp_path: Path) -> None:
    cache = msgspec.structs.replace(MAKES.cache, default_queue="main")
    world = World(tmp_path, msgspec.structs.replace(MAKES, cache=cache))
    world.see(node("n1"))
    world.do(Allocate())
    assert names(world) == ["root", "main"]
    world.store.close()
