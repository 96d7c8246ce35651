"""A scenario as values: its steps, the facts expected of it, what came of it, and the error of one that is none.

Owns these values. Must not know how they are read, checked or run. Called by the modules that read, check and run
scenarios, beside it, by way of `vcledger.testing.scenario_format` from elsewhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from vcledger.errors import VcledgerError

EXPECTATIONS_SUFFIX = ".expect.json"


OBJECT_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class ScenarioInvalid(VcledgerError):
    """A scenario that does not follow the format. The text names the file and the line."""


class Step(NamedTuple):
    """A line of the script: its number from 1, its type, and its object with the bytes as they stand there."""

    line: int
    type: str
    object: dict[str, Any]
    raw: bytes


class Fact(NamedTuple):
    """A fact: `about` the kind of fact (`node`, `api`, ...), `name` what it speaks of, `keys` what is expected, and the
    line of the file of expectations where it stands."""

    about: str
    name: Any
    keys: dict[str, Any]
    line: int


class Checkpoint(NamedTuple):
    """Facts that hold once line `after_line` of the script has been run."""

    after_line: int
    facts: list[Fact]
    line: int


class Script(NamedTuple):
    """A scenario that follows the format."""

    path: Path
    steps: list[Step]
    checkpoints: list[Checkpoint]
    facts: list[Fact]

    @property
    def storage(self) -> bool:
        """A script of storage steps, to be run on a log alone."""
        return any(step.type == "DB" or step.object.get("op") == "spawn" for step in self.steps)

    @property
    def simulated(self) -> bool:
        """A script of a simulated API server, which answers by itself (`vcledger.sim.script`)."""
        return self._begins("simulate")

    @property
    def driven(self) -> bool:
        """A script of steps that drive a simulated world (`vcledger.sim.held`)."""
        return self._begins("drive")

    def _begins(self, operation: str) -> bool:
        return self.steps[0].type == "CONTROL" and self.steps[0].object["op"] == operation


class ScenarioResult(NamedTuple):
    """What came of a scenario: lines run, facts compared, and what was not as expected, one a line."""

    lines: int
    facts: int
    problems: list[str]

    @property
    def passed(self) -> bool:
        return not self.problems
