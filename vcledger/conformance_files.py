"""Files of golden vectors and scenarios: which is which, whether it follows its format, and what came of it.

Owns the reading and the strict check of keys: an unknown one is an error with its place, never passed over. Must not
know the terminal. Called by `cli.conformance`.

Formats: data/vectors README (one JSON object, with `steps`), data/reports README (JSON lines of `type` and `object`,
and beside FILE.jsonl a FILE.expect.json). Vectors are run by `vcledger.conformance`, scenarios by `vcledger.testing`.
A scenario that needs a PostgreSQL which is not given, and a vector with an action that is not implemented, are counted
as what cannot be run here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from vcledger.conformance import FAILED, NOT_RUN, PASSED, VectorInvalid, run_vector
from vcledger.errors import VcledgerError
from vcledger.testing.scenario_format import EXPECTATIONS_SUFFIX, ScenarioInvalid, read_script
from volcano.objects.quantity import QuantityInvalid

NOT_HERE = "cannot be run here"


class NotConformanceInput(VcledgerError):
    """The path is neither a vector, a scenario nor a folder of such."""


class Outcome(NamedTuple):
    """What came of one file: PASSED, FAILED or NOT_HERE, how many of its steps were checked and how many there are, and
    the reasons, one a line."""

    path: Path
    verdict: str
    checked: int
    steps: int
    lines: tuple[str, ...] = ()


def files(paths: list[Path]) -> list[Path]:
    """The files that the paths mean: a folder means its .json and .jsonl files, in the order of their names. A
    scenario's file of expectations belongs to it and is left out. NotConformanceInput on what is neither."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(entry for entry in path.iterdir() if entry.suffix in (".json", ".jsonl"))
            if not inside:
                raise NotConformanceInput(f"{path} has no vectors (.json) and no scenarios (.jsonl)")
            found += inside
        elif not path.exists():
            raise NotConformanceInput(f"{path}: no such file or folder")
        elif path.suffix in (".json", ".jsonl"):
            found.append(path)
        else:
            raise NotConformanceInput(f"{path} is neither a vector (.json) nor a scenario (.jsonl)")
    return [path for path in found if not path.name.endswith(EXPECTATIONS_SUFFIX)]


def check(path: Path, model: str | None = None, postgres: str | None = None) -> Outcome:
    """Runs one file; `model` is for vectors, `postgres` (the URL of a server) for storage scenarios that need one. A
    file that does not follow its format has failed; OSError when it cannot be read."""
    try:
        if path.suffix == ".jsonl":
            return _scenario(path, postgres)
        return _run(path, _object(path.read_bytes(), "the vector"), model)
    except (VectorInvalid, ScenarioInvalid, msgspec.ValidationError, QuantityInvalid) as error:
        return Outcome(path, FAILED, 0, 0, (str(error),))
    except (KeyError, TypeError, AttributeError) as error:
        return Outcome(path, FAILED, 0, 0, (f"does not follow the format: {type(error).__name__}: {error}",))


def _run(path: Path, vector: Mapping[str, Any], model: str | None) -> Outcome:
    check_vector(vector)
    result = run_vector(vector, model)
    checked = sum(step.outcome in (PASSED, FAILED) for step in result.steps)
    lines = [
        f"step {step.step} ({step.what}): {difference}"
        for step in result.steps
        if step.outcome == FAILED
        for difference in step.differences
    ]
    if result.failed:
        return Outcome(path, FAILED, checked, len(result.steps), tuple(lines))
    first = next((step for step in result.steps if step.outcome == NOT_RUN), None)
    if first is not None and "stopped_by_panic_at_step" not in vector:
        lines = [f"from step {first.step} on ({first.what}) it needs what this version cannot do"]
        return Outcome(path, NOT_HERE, checked, len(result.steps), tuple(lines))
    return Outcome(path, PASSED, checked, len(result.steps))


# --- vectors ------------------------------------------------------------------------------------------------------

VECTOR_KEYS = {
    "description",
    "topic",
    "volcano_version",
    "config",
    "steps",
    "results",
    "expected",
    "stopped_by_panic_at_step",
}
CONFIG_KEYS = {"scheduler_names", "default_queue", "node_selectors"}
EVENT_KEYS = {"type", "object"}
RESULT_KEYS = {"error", "effects", "snapshot", "dropped", "node_sync_error", "panic"}
STEP_KEYS: dict[str, set[str]] = {
    "add_bind_task": {"task", "node", "with_volumes", "custom_bind_err_handler"},
    "process_binds": {"bind_errors", "volume_errors"},
    "evict": {"task", "reason", "error"},
    "resync": {"api_error"},
    "cleanup_jobs": set(),
    "sync_nodes": set(),
    "relist": {"kind", "items"},
    "api_set": {"object"},
    "api_delete": {"key"},
    "snapshot": set(),
    "assume": {"task", "node", "status"},
    "unassume": {"task"},
    "set_status": {"task", "status"},
    "node_add_task": {"task", "node"},
    "node_remove_task": {"task", "node"},
    "set_job_fit_errors": {"job", "message"},
    "set_task_fit_error": {"task", "node", "reasons"},
    "update_job_status": {"job", "update_pg"},
    "task_unschedulable": {"task", "reason", "message", "nominated_node"},
}
"""The keys of each action's step, besides `action` and `check`."""


def check_vector(vector: Mapping[str, Any]) -> None:
    """VectorInvalid on an unknown key or a missing one, with its place."""
    _only(vector, VECTOR_KEYS, "the vector")
    _only(vector.get("config") or {}, CONFIG_KEYS, "config")
    steps = vector.get("steps")
    if not isinstance(steps, list) or not steps:
        raise VectorInvalid("the vector has no `steps`")
    for name in ("expected", "results"):
        beside = vector.get(name, steps if name == "results" else None)
        if not isinstance(beside, list) or len(beside) != len(steps):
            raise VectorInvalid(f"`{name}` is not a list as long as `steps`")
    for number, step in enumerate(steps):
        _check_step(step, f"step {number}")
    for number, result in enumerate(vector.get("results") or ()):
        _only(result or {}, RESULT_KEYS, f"result {number}")


def _check_step(step: Any, place: str) -> None:
    _only(step, {"event", "delivery", "action", "check", *_parameters(step, place)}, place)
    if "event" not in step:
        return
    event = step["event"]
    _only(event, EVENT_KEYS, f"{place}, event")
    if not isinstance(event.get("type"), str) or not isinstance(event.get("object"), dict):
        raise VectorInvalid(f"{place}: an event has a `type` and an `object`")


def _parameters(step: Any, place: str) -> set[str]:
    """The keys that the step's action may have."""
    if not isinstance(step, dict) or ("event" in step) == ("action" in step):
        raise VectorInvalid(f"{place} has neither an `event` nor an `action`, or both")
    if "event" in step:
        return set()
    action = step["action"]
    if action not in STEP_KEYS:
        raise VectorInvalid(f"{place}: there is no action {action!r}")
    return STEP_KEYS[action]


def _only(value: Any, known: set[str], place: str) -> None:
    if not isinstance(value, dict):
        raise VectorInvalid(f"{place} is not an object")
    unknown = next((key for key in value if key not in known), None)
    if unknown is not None:
        raise VectorInvalid(f"{place}: unknown key {unknown!r}; known are {', '.join(sorted(known))}")


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise VectorInvalid(f"{what} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise VectorInvalid(f"{what} is not a JSON object")
    return value


# --- scenarios ----------------------------------------------------------------------------------------------------


def _scenario(path: Path, postgres: str | None) -> Outcome:
    """Runs a scenario: one of storage steps on a log, any other on the bind flow."""
    from vcledger.testing.scenario import run_scenario
    from vcledger.testing.scenario_db import needs_postgres, run_storage

    script = read_script(path)
    count = len(script.steps)
    if script.storage and needs_postgres(script) and postgres is None:
        return Outcome(path, NOT_HERE, 0, count, ("it needs PostgreSQL: give the URL of a server with --postgres",))
    result = run_storage(script, postgres) if script.storage else run_scenario(script)
    return Outcome(path, PASSED if result.passed else FAILED, result.lines, count, tuple(result.problems))
