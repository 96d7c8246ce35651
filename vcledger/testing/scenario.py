"""Runs a scenario: its script against the bind flow, the list+watch machines and a scripted API server.

Owns the order of things: a line of the script, then ticks until the flow waits only for an answer that is still to come
or for a timer of a second or more. Must not know how facts are found (`vcledger.testing.scenario_facts`). Called by
`vcledger.conformance_files` and by tests:

    result = run_scenario(read_script(Path("B1.jsonl")))

The ledger is a temporary SQLite file; the loop is the one that runs live, in simulated time. That begins at the latest
creation time in the script, so times inside its objects mean what they say.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from vcledger.errors import VcledgerError
from vcledger.ledger import Ledger
from vcledger.runtime.loop import Loop
from vcledger.scheduler import inputs
from vcledger.scheduler.inputs import Effect
from vcledger.scheduler.state import FlowConfig
from vcledger.sources.times import micros_or_none
from vcledger.testing.scenario_api import ScriptedApi
from vcledger.testing.scenario_facts import World, differences
from vcledger.testing.scenario_feeds import Feeds, kind_named
from vcledger.testing.scenario_format import Fact, ScenarioInvalid, ScenarioResult, Script, Step

CLUSTER = "scenario"
SECOND = 1_000_000
DAWN = 1_767_225_600_000_000
"""2026-01-01: when a script begins that names no time."""

GROUPS_MAX = 20_000
"""Groups between two lines; a flow that goes on longer without anything new to go on is running in circles."""


class Endless(VcledgerError):
    """The flow does not come to rest."""


def run_scenario(script: Script, *, config: FlowConfig | None = None) -> ScenarioResult:
    """Runs a scenario that is no storage script: on scripted answers, or, where its first line says so, on a simulated
    API server. ScenarioInvalid when its lines stand in an impossible order."""
    if script.simulated:
        from vcledger.testing.scenario_sim import run_world

        return run_world(script, config=config)
    if script.driven:
        from vcledger.testing.scenario_sim import run_driven

        return run_driven(script)
    with tempfile.TemporaryDirectory(prefix="vcledger-scenario-") as folder:
        runner = Runner(script, Path(folder) / "scenario.db", config or FlowConfig())
        try:
            return runner.run()
        finally:
            runner.ledger.close()


class Runner:
    """One run. `ledger` and `loop` may be looked at afterwards."""

    def __init__(self, script: Script, db: Path, config: FlowConfig) -> None:
        self.script, self.config = script, config
        self.ledger = Ledger.open(str(db), create=True)
        self.now = _begin(script)
        self.api = ScriptedApi(script.steps)
        self.feeds = Feeds(self)
        self.loop = self._loop()
        self.facts = 0
        self.problems: list[str] = []

    def _loop(self) -> Loop:
        return Loop(self.ledger.store, CLUSTER, clock=lambda: self.now, carry_out=self.carry_out, config=self.config)

    def carry_out(self, effect: Effect) -> None:
        """A request of the loop's goes out."""
        self.api.ask(effect, self.now)

    def run(self) -> ScenarioResult:
        checkpoints: dict[int, list[Fact]] = {}
        for one in self.script.checkpoints:
            checkpoints.setdefault(one.after_line, []).extend(one.facts)
        done = 0
        try:
            for step in self.script.steps:
                self.api.at = step.line
                self._step(step)
                self.settle()
                done += 1
                self._compare(f"after line {step.line}", checkpoints.get(step.line, []))
            self._compare("at the end", self.script.facts)
            self._left_over()
        except ScenarioInvalid:
            raise
        except VcledgerError as error:
            self.problems.append(str(error))
        return ScenarioResult(done, self.facts, self.problems)

    # --- lines ----------------------------------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        if step.type in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"):
            self.feeds.line(step)
        elif step.type == "LIST":
            self.feeds.listed(step)
        elif step.type == "ACTION":
            self.loop.put(command(step.object))
        elif step.type == "CONTROL":
            self._control(step)

    def _control(self, step: Step) -> None:
        operation, found = step.object["op"], step.object
        if operation == "advance":
            self.advance(round(found["seconds"] * SECOND))
        elif operation == "restart":
            self.api.died()
            self.loop = self._loop()
            self.loop.recover()
        elif operation == "watch-closed":
            self.feeds.closed(found.get("resource"))
        elif operation == "reconnect":
            self.feeds.reconnect(found.get("resource"))
        elif operation == "expect-watch":
            self.feeds.expect(step, found["resource"], str(found["resourceVersion"]))

    # --- time -----------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Runs until the flow waits only for an answer, or for a timer of a second or more."""
        self._run(self.now + SECOND - 1)

    def advance(self, micros: int) -> None:
        """Lets so much time pass."""
        end = self.now + micros
        self._run(end)
        self.now = end
        self._run(end)

    def _run(self, until: int) -> None:
        """Steps, answers and timers up to a time; the time stays at the last timer that ran."""
        for _ in range(GROUPS_MAX):
            self.feeds.tick()
            for effect, answer in self.api.answers():
                self.loop.put(inputs.Answered(effect, answer))
            if self.loop.step(self.now):
                continue
            due = min((one for one in (self.loop.next_due(), self.feeds.next_due()) if one is not None), default=None)
            if due is None or due > until:
                if not self.api.answerable():
                    return
                continue
            self.now = max(self.now, due)
        raise Endless(f"after line {self.api.at}: the flow did not come to rest in {GROUPS_MAX} steps")

    # --- facts ----------------------------------------------------------------------------------------------------

    def _compare(self, when: str, facts: list[Fact]) -> None:
        for fact in facts:
            self.facts += 1
            world = World(
                self.ledger,
                CLUSTER,
                self.loop.flow,
                self.api.calls,
                self.feeds.watched,
                self.feeds.next_watch,
                lambda resource: kind_named(resource).name,
            )
            self.problems += [f"{when}: {text} (line {fact.line})" for text in differences(world, fact)]

    def _left_over(self) -> None:
        """Lines of the script that had to be used and were not."""
        for line in self.api.never_asked():
            self.problems.append(f"line {line.line}: {line.verb} {line.path} was never asked for")
        self.problems += self.feeds.unmet()


def _begin(script: Script) -> int:
    times = [
        micros_or_none(meta.get("creationTimestamp"))
        for step in script.steps
        if isinstance(meta := step.object.get("metadata"), dict)
    ]
    return max((time for time in times if time is not None), default=DAWN)


def command(action: dict[str, Any]) -> inputs.Input:
    """The command of an ACTION line."""
    match action["action"]:
        case "assume":
            return inputs.AssumeTask(action["pod"], action["node"])
        case "bind":
            return inputs.BindTask(action["pod"], action["node"])
        case "flush":
            return inputs.FlushTasks(tuple(action["pods"]), action["node"])
        case "discard":
            return inputs.DiscardJob(action["job"], action["reason"])
        case "schedule":
            return inputs.ScheduleTask(action["pod"])
        case "allocate":
            return inputs.Allocate()
        case _:
            return inputs.CleanupFire(action["key"])


__all__ = ["Runner", "ScenarioResult", "run_scenario"]
