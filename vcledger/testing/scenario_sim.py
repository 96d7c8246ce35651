"""Runs a scenario whose API server is simulated: a world from its lines, and the facts at its checkpoints and its end.

Owns the order: the world with its faults, then without until all is at rest, then the invariants over the ledger. Must
not know how facts are found. Called by `vcledger.testing.scenario`.

The world is the one that `vcledger simulate` runs for the same plan, to the byte of its log. A checkpoint looks at the
moment of its line, after what that line does and before anything follows from it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vcledger.ledger import Ledger
from vcledger.runtime.loop import Loop
from vcledger.scheduler.inputs import Effect
from vcledger.scheduler.session.conf import PLAIN_CONF
from vcledger.scheduler.state import Flow, FlowConfig
from vcledger.sim import held
from vcledger.sim import script as plans
from vcledger.sim.clock import START
from vcledger.sim.held import Driven
from vcledger.sim.simulate import live
from vcledger.sim.world import CLUSTER, Simulation, config_of
from vcledger.testing.invariants import broken_lines
from vcledger.testing.scenario import command
from vcledger.testing.scenario_api import Call
from vcledger.testing.scenario_facts import World, differences
from vcledger.testing.scenario_feeds import kind_named
from vcledger.testing.scenario_format import Fact, ScenarioResult, Script


class _Heard(Simulation):
    """A world that remembers what its scheduler asked for."""

    calls: list[Call]

    def _send(self, effect: Effect) -> None:
        self.calls.append(Call(effect.request, self.timeline.now, 0))
        super()._send(effect)


def run_world(script: Script, *, config: FlowConfig | None = None) -> ScenarioResult:
    """Runs the world of a script."""
    with (
        tempfile.TemporaryDirectory(prefix="vcledger-world-") as folder,
        Ledger.open(str(Path(folder) / "world.db"), create=True) as ledger,
    ):
        return _Run(script, ledger, config).run()


def run_driven(script: Script) -> ScenarioResult:
    """Runs the steps of a script that drives a world."""
    with (
        tempfile.TemporaryDirectory(prefix="vcledger-world-") as folder,
        Ledger.open(str(Path(folder) / "world.db"), create=True) as ledger,
    ):
        return _Drive(script, ledger).run()


class _Looking:
    """What both ways of running a world share: facts, looked at in its state."""

    script: Script
    ledger: Ledger
    world: Simulation
    calls: list[Call]

    def __init__(self) -> None:
        self.facts = 0
        self.problems: list[str] = []

    def _look(self, told: tuple[str, list[Fact]]) -> None:
        when, facts = told
        for fact in facts:
            self.facts += 1
            world = World(
                self.ledger,
                CLUSTER,
                self._flow(),
                self.calls,
                {},
                self._next_watch,
                lambda resource: kind_named(resource).name,
                self.world.broken,
            )
            self.problems += [f"{when}: {text} (line {fact.line})" for text in differences(world, fact)]

    def _flow(self) -> Flow:
        """The scheduler's state; what its log says while it is down."""
        if self.world.loop is not None and self.world.loop.down is None:
            return self.world.loop.flow
        return Loop(self.world.log, CLUSTER, carry_out=lambda _: None, config=self.world.config).rebuild()

    def _next_watch(self, resource: str) -> str | None:
        feed = self.world.feeds.get(kind_named(resource).name)
        return feed.machine.version if feed is not None else None

    def _checkpoints(self) -> dict[int, list[Fact]]:
        after: dict[int, list[Fact]] = {}
        for one in self.script.checkpoints:
            after.setdefault(one.after_line, []).extend(one.facts)
        return after


class _Drive(_Looking):
    """The steps of a driven world, one after the other."""

    def __init__(self, script: Script, ledger: Ledger) -> None:
        super().__init__()
        self.script, self.ledger, self.calls = script, ledger, []
        first = script.steps[0].object
        config = config_of(first.get("session", PLAIN_CONF))
        self.driven = Driven(first["seed"], store=ledger.store, config=config)
        self.world = self.driven.world
        self.world.heard = self._heard

    def _heard(self, effect: Effect) -> None:
        self.calls.append(Call(effect.request, self.world.timeline.now, 0))

    def run(self) -> ScenarioResult:
        try:
            self._steps()
        except Exception as error:  # a bug of the scheduler ends this world, as it ended the machine's
            self.world.broken.append(f"{type(error).__name__}: {error}")
        self.world.broken += broken_lines(self.ledger.store, CLUSTER)
        self._look(("at the end", self.script.facts))
        return ScenarioResult(len(self.script.steps), self.facts, self.problems)

    def _steps(self) -> None:
        after = self._checkpoints()
        self.driven.begin()
        for step in self.script.steps:
            if step.object["op"] == "step":
                self.driven.do(step.object["do"], **{key: step.object[key] for key in held.STEPS[step.object["do"]]})
            if step.line in after:
                self._look((f"after line {step.line}", after[step.line]))
        self.driven.finish()


class _Run(_Looking):
    def __init__(self, script: Script, ledger: Ledger, config: FlowConfig | None) -> None:
        super().__init__()
        self.script, self.ledger = script, ledger
        self.lines = plans.times({"type": step.type, "object": step.object} for step in script.steps)
        self.world = self.heard = _Heard(plans.plan_of(line for _, line in self.lines), ledger.store, config=config)
        self.heard.calls = self.calls = []

    def run(self) -> ScenarioResult:
        after = self._checkpoints()
        for step, (at, line) in zip(self.script.steps, self.lines, strict=True):
            action = line["object"].get("action")
            if action is not None and action not in (*plans.MADE, *plans.NAMED):
                self._then(at, self._put, line["object"])
            if step.line in after:
                self._then(at, self._look, (f"after line {step.line}", after[step.line]))
        live(self.world)
        self.world.broken += broken_lines(self.ledger.store, CLUSTER)
        self._look(("at the end", self.script.facts))
        return ScenarioResult(len(self.script.steps), self.facts, self.problems)

    def _then(self, at: int, act: Callable[[Any], None], what: Any) -> None:
        """At that moment, after what the plan does then."""
        timeline, moment = self.world.timeline, START + at
        timeline.at(moment, lambda: timeline.at(moment, lambda: act(what)))

    def _put(self, action: dict[str, Any]) -> None:
        self.world.put(command(action))


__all__ = ["run_driven", "run_world"]
