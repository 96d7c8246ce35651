"""The format of scenarios: FILE.jsonl and FILE.expect.json become a `Script`, or an error that names the line.

Owns which parts a scenario has (docs/testing.md) and the order in which they are checked: each line, what is expected,
then what no line alone shows. Must not know how a script is run. Called by `vcledger.testing.scenario`,
`vcledger.testing.scenario_db`, `vcledger.conformance_files` and whoever has a scenario to read.
"""

from __future__ import annotations

from pathlib import Path

from vcledger.testing.scenario_expected import read_expectations
from vcledger.testing.scenario_lines import read_steps
from vcledger.testing.scenario_order import check_order
from vcledger.testing.scenario_values import (
    EXPECTATIONS_SUFFIX,
    OBJECT_TYPES,
    Checkpoint,
    Fact,
    ScenarioInvalid,
    ScenarioResult,
    Script,
    Step,
)


def read_script(path: Path) -> Script:
    """Reads FILE.jsonl and the FILE.expect.json beside it. ScenarioInvalid; OSError when one cannot be read."""
    steps = read_steps(path.name, path.read_bytes())
    beside = path.with_name(path.name.removesuffix(".jsonl") + EXPECTATIONS_SUFFIX)
    if not beside.is_file():
        raise ScenarioInvalid(f"{path.name}: its expectations are missing: {beside.name}")
    script = Script(path, steps, *read_expectations(beside.name, beside.read_bytes(), path.name))
    check_order(script)
    return script


__all__ = [
    "EXPECTATIONS_SUFFIX",
    "OBJECT_TYPES",
    "Checkpoint",
    "Fact",
    "ScenarioInvalid",
    "ScenarioResult",
    "Script",
    "Step",
    "read_script",
]
