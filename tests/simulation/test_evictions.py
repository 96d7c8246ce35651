"""Crowded worlds, in which preempt and reclaim decide: users and faults first, then none until all have had a turn.

What holds at any moment is looked at after each group of the loop; the invariants over the whole log at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import cast

import pytest

from eventstore import EventStore
from vcledger import codec
from vcledger.scheduler.requests import Delete
from vcledger.scheduler.session.conf import read_conf
from vcledger.sim import crowded, script
from vcledger.sim import simulate as sim
from vcledger.sim.faults import FAULTS, REQUEST_FAULTS
from vcledger.sim.memory import MemoryLog
from vcledger.sim.world import CLUSTER, Simulation
from vcledger.testing.invariants import broken_rules
from volcano.events.base import Recorded
from volcano.events.eviction import EvictFailed, EvictRequested, EvictSucceeded
from volcano.events.scheduling import TaskEvicted


class Heard(Simulation):
    """A world that counts the deletions that the scheduler asks for, by UID."""

    deletions: Counter[str]

    def _send(self, effect: object) -> None:
        request = getattr(effect, "request", None)
        if isinstance(request, Delete):
            self.deletions[request.uid] += 1
        super()._send(effect)  # type: ignore[arg-type]


def run(seed: int, faults: tuple[str, ...]) -> tuple[Heard, list[Recorded]]:
    """The world of a seed at its end, and its log."""
    world = Heard(crowded.draw(seed, 40, faults), cast(EventStore, MemoryLog()))
    world.deletions = Counter()
    sim.live(world)
    world.broken += broken_rules(world.log, CLUSTER)
    return world, [codec.recorded(one) for one in world.log.read(cluster=CLUSTER)]


def of(log: list[Recorded], kind: type) -> Iterator[Recorded]:
    return (one for one in log if type(one.event) is kind)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [6, 7])
def test_all_holds_with_faults_and_all_get_their_turn_without(seed: int) -> None:
    world, log = run(seed, tuple(FAULTS))
    assert world.broken == []
    told = {one.position: one for one in of(log, TaskEvicted)}
    assert told
    requested = list(of(log, EvictRequested))
    assert all(one.event.decided in told for one in requested)  # type: ignore[attr-defined]
    outcomes = [*of(log, EvictSucceeded), *(one for one in of(log, EvictFailed) if not one.event.answer_lost)]  # type: ignore[attr-defined]
    assert Counter(one.uid for one in outcomes) == Counter(one.uid for one in told.values()), "one outcome each"
    assert sum(world.deletions.values()) <= len(requested)
    assert max(world.deletions.values(), default=0) <= 2 * max(Counter(one.uid for one in told.values()).values())


@pytest.mark.slow
def test_without_faults_each_eviction_is_one_request_that_succeeds() -> None:
    world, log = run(2, ())
    assert world.broken == []
    told, requested = list(of(log, TaskEvicted)), list(of(log, EvictRequested))
    assert len(told) == len(requested) == len(list(of(log, EvictSucceeded))) == sum(world.deletions.values()) > 2
    assert list(of(log, EvictFailed)) == []


@pytest.mark.slow
def test_the_same_seed_writes_the_same_log_and_its_script_runs_the_same_world() -> None:
    plan = crowded.draw(7, 16)
    first = sim.once(plan, None)
    assert first.ok and sim.once(script.plan_of(script.lines_of(plan)), None).digest == first.digest


def test_plans_of_crowded_worlds_have_configurations_that_evict_and_faults_that_hit_deletions() -> None:
    for text in crowded.CONFIGURATIONS:
        assert {"preempt", "reclaim"} <= set(read_conf(text).actions)
    plans = [crowded.draw(seed, 40, tuple(REQUEST_FAULTS)) for seed in range(10)]
    assert {plan.session for plan in plans} == set(crowded.CONFIGURATIONS)
    hit = Counter(fault.fault for plan in plans for fault in plan.faults if fault.verb == "DELETE")
    assert {"timeout-before", "timeout-after", "server-error", "error-after", "throttled", "gone-before"} <= set(hit)
