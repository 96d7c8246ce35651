"""Whole worlds under configurations of their own: all that holds under the usual one holds, and the session's data,
kept up event by event, are those that would be made anew."""

from __future__ import annotations

from typing import Any, cast

import pytest

from eventstore import EventStore
from vcledger.scheduler import cycle
from vcledger.scheduler.session.conf import SessionConf, default_conf, read_conf
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.session.outcome import Outcome, Placed
from vcledger.scheduler.state import Flow, FlowConfig
from vcledger.sim import plan as plans
from vcledger.sim import simulate as sim
from vcledger.sim.memory import MemoryLog
from vcledger.sim.world import CLUSTER, DEFAULT_CONFIG, Simulation
from vcledger.testing.invariants import broken_rules

BINPACK = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: binpack
"""


def configured(conf: SessionConf, seed: int) -> FlowConfig:
    found = {name: getattr(DEFAULT_CONFIG, name) for name in ("lists", "bind_timeout_seconds", "settle_seconds")}
    return FlowConfig(**found, session=conf, seed=seed)


def run(seed: int, conf: SessionConf) -> tuple[Simulation, tuple[str, int]]:
    """The world of a seed at its end, and its log's digest."""
    world = Simulation(plans.draw(seed, 40), cast(EventStore, MemoryLog()), config=configured(conf, seed))
    sim.live(world)
    world.broken += broken_rules(world.log, CLUSTER)
    return world, sim.digest_of(world.store)


def told(outcome: Outcome) -> list[Any]:
    """All that a session says."""
    decisions = [
        (one.task.uid, one.node, one.score, one.pipelined) if isinstance(one, Placed) else one
        for one in outcome.decisions
    ]
    unfit = {
        uid: (one.reason, one.message, [(a, list(b)) for a, b in one.groups]) for uid, one in outcome.unfit.items()
    }
    return [decisions, outcome.jobs, unfit]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4, 9, 16, 25, 36])
@pytest.mark.parametrize("conf", [default_conf(), read_conf(BINPACK)], ids=["default", "binpack"])
def test_all_holds_and_two_runs_write_the_same_log(seed: int, conf: SessionConf) -> None:
    first, second = run(seed, conf), run(seed, conf)
    assert first[0].broken == []
    assert first[1] == second[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 5, 7])
def test_the_sessions_data_kept_up_are_those_made_anew(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions, flows = 0, list[Flow]()
    ordinary, mirror_of = cycle.run, cycle.mirror_of

    def kept(flow: Flow) -> Mirror:
        flows.append(flow)
        return mirror_of(flow)

    def compared(mirror: Mirror, conf: SessionConf, **more: Any) -> Outcome:
        nonlocal sessions
        sessions += 1
        outcome = ordinary(mirror, conf, **more)
        said, kept_up = told(outcome), flows[-1].mirror
        flows[-1].mirror = None
        fresh = mirror_of(flows[-1])
        fresh.refresh()
        assert told(ordinary(fresh, conf, **{**more, "only": list(fresh.waiting)})) == said
        flows[-1].mirror = kept_up
        return outcome

    monkeypatch.setattr(cycle, "mirror_of", kept)
    monkeypatch.setattr(cycle, "run", compared)
    world, _ = run(seed, default_conf())
    assert world.broken == []
    assert sessions > 3
