"""What holds of any cycle with preempt and reclaim: nobody goes in vain, no node is promised twice, nothing of the
mirror changes, and the order in which the state came to be doesn't matter.
"""

from __future__ import annotations

from random import Random

import msgspec
import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.unit.session.test_properties import image
from tests.unit.session.world import Object, World, group, node, pod, queue
from vcledger.scheduler.session.conf import SessionConf, read_conf
from vcledger.scheduler.session.events import events_of
from vcledger.scheduler.session.outcome import Evicted, Outcome, Placed
from vcledger.scheduler.session.run import run
from volcano.objects.status import TaskStatus

TEXT = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: SHARES
  - name: nodeorder
  - name: binpack
"""
CONFS = [read_conf(TEXT.replace("SHARES", name)) for name in ("proportion", "capacity")]


def priority_class(value: int) -> Object:
    return {"kind": "PriorityClass", "metadata": {"name": f"p{value}", "uid": f"p{value}-u"}, "value": value}


@st.composite
def crowded(draw: st.DrawFn) -> list[Object]:
    """Few nodes, two or three queues; gangs of a low priority, most of them running, and others that wait."""
    nodes = [node(f"n{number}", cpu=str(draw(st.integers(2, 4)))) for number in range(draw(st.integers(1, 3)))]
    names = [one["metadata"]["name"] for one in nodes]
    queues = [
        queue(name, weight=draw(st.integers(1, 3)), deserved={"cpu": str(draw(st.integers(0, 6)))})
        for name in ("a", "b", "c")[: draw(st.integers(2, 3))]
    ]
    objects = [*nodes, *queues, *(priority_class(value) for value in (1, 5, 9))]
    for number in range(draw(st.integers(2, 5))):
        running = number % 2 == 0
        name, size = f"g{number}", draw(st.integers(1, 4))
        value = draw(st.sampled_from((1, 1, 5) if running else (5, 9, 9)))
        of = draw(st.sampled_from(queues))["metadata"]["name"]
        least = draw(st.integers(1, 2 if running else size))
        phase = "Running" if running else "Inqueue"
        objects.append(group(name, least, phase=phase, queue=of, priorityClassName=f"p{value}"))
        for index in range(size):
            on = draw(st.sampled_from(names)) if running else ""
            objects.append(pod(f"{name}-{index}", name, cpu=draw(st.sampled_from(("1", "2"))), on=on, priority=value))
    return objects


def cycle(objects: list[Object], conf: SessionConf, seed: int) -> tuple[World, Outcome]:
    world = World(*objects)
    world.mirror.refresh()
    return world, run(world.mirror, conf, seed=seed)


@settings(max_examples=30)
@given(crowded(), st.sampled_from(CONFS), st.integers(0, 3))
def test_nobody_goes_in_vain_and_no_room_is_promised_twice(objects: list[Object], conf: SessionConf, seed: int) -> None:
    world, outcome = cycle(objects, conf, seed)
    mirror = world.mirror
    evicted = [one for one in outcome.decisions if isinstance(one, Evicted)]
    placed = [one for one in outcome.decisions if isinstance(one, Placed)]
    assert len({one.task.uid for one in evicted}) == len(evicted)
    assert len({one.task.uid for one in placed}) == len(placed)
    promised = {one.task.uid: one.node for one in placed if one.pipelined}
    for one in evicted:
        assert one.task.status == TaskStatus.RUNNING
        assert one.task.node == one.node
        assert one.preemptor is not None
        assert promised[one.preemptor.uid] == one.node
        mine, theirs = mirror.jobs[one.preemptor.job], mirror.jobs[one.task.job]
        assert (mine.queue == theirs.queue) == (one.action == "preempt")
    event(f"{sorted({one.action for one in evicted})}")
    room = mirror.nodes.idle + mirror.nodes.releasing
    for one in evicted:
        room[mirror.nodes.row[one.node]] += one.task.request
    for one in placed:
        room[mirror.nodes.row[one.node]] -= one.task.request
    for one in placed:
        assert (room[mirror.nodes.row[one.node]] > -0.1).all()
    for one in evicted:
        assert one.preemptor is not None
        found = outcome.jobs[one.preemptor.job]
        assert found.outcome == "pipelined"
        assert found.ready + found.pipelined >= found.needed


@settings(max_examples=20)
@given(crowded(), st.sampled_from(CONFS), st.integers(0, 3), st.randoms(use_true_random=False))
def test_a_cycle_leaves_no_trace_and_order_does_not_matter(
    objects: list[Object], conf: SessionConf, seed: int, chance: Random
) -> None:
    world = World(*objects)
    world.mirror.refresh()
    before = image(world.mirror)
    first = run(world.mirror, conf, seed=seed)
    told = msgspec.json.encode([event for _, event in events_of(first)])
    assert image(world.mirror) == before
    shuffled = list(objects)
    chance.shuffle(shuffled)
    other = World(*shuffled)
    again = [event for _, event in events_of(run(other.mirror, conf, seed=seed))]
    assert msgspec.json.encode(again) == told
    assert not np.isnan(world.mirror.nodes.idle).any()
