"""Files of vectors and scenarios: strict about their format, and counted honestly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data import GOLDEN
from tests.unit.cli.conftest import Call
from vcledger.conformance_files import FAILED, NOT_YET, PASSED, NotConformanceInput, check, files

EVENTS_ONLY = GOLDEN / "vectors" / "041-overcommit-running.json"


def vector() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(EVENTS_ONLY.read_text())
    return found


def written(folder: Path, value: object, name: str = "v.json") -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_vector_of_events_passes() -> None:
    outcome = check(EVENTS_ONLY)
    assert outcome.verdict == PASSED
    assert 0 < outcome.checked <= outcome.steps
    assert outcome.lines == ()


def test_a_vector_with_a_wrong_expectation_fails_and_names_the_quantity(tmp_path: Path) -> None:
    changed = vector()
    changed["expected"][-1]["nodes"]["n1"]["idle"]["milli_cpu"] += 1
    outcome = check(written(tmp_path, changed))
    assert outcome.verdict == FAILED
    assert [line for line in outcome.lines if "nodes.n1.idle.milli_cpu" in line]


def changed(**parts: Any) -> dict[str, Any]:
    return {**vector(), **parts}


def with_step(step: object) -> dict[str, Any]:
    found = vector()
    found["steps"][0] = step
    return found


BAD: dict[str, tuple[object, str]] = {
    "a key of the vector": (changed(extra=1), "the vector: unknown key 'extra'"),
    "a key of the config": (changed(config={"queue": "q"}), "config: unknown key 'queue'"),
    "a key of a step": (with_step({**vector()["steps"][0], "speed": 1}), "step 0: unknown key 'speed'"),
    "a key of an event": (with_step({"event": {"type": "ADDED", "object": {}, "old": {}}}), "unknown key 'old'"),
    "a parameter of an action": (with_step({"action": "resync", "node": "n1"}), "step 0: unknown key 'node'"),
    "an action": (with_step({"action": "dance"}), "there is no action 'dance'"),
    "a step without both": (with_step({"check": False}), "neither an `event` nor an `action`"),
    "a step that is no object": (with_step("x"), "neither an `event` nor an `action`"),
    "an event without object": (with_step({"event": {"type": "ADDED"}}), "a `type` and an `object`"),
    "an object of no kind": (with_step({"event": {"type": "ADDED", "object": {"metadata": {}}}}), "no kind"),
    "too few expectations": (changed(expected=[]), "`expected` is not a list as long as `steps`"),
    "no steps": (changed(steps=[]), "no `steps`"),
    "no version": (changed(volcano_version="new"), "is no version"),
    "an array": ([1], "not a JSON object"),
    "no JSON": ("{", "no JSON"),
    "nothing": ("", "no JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_a_vector_may_not_hold_fails_with_its_place(tmp_path: Path, name: str) -> None:
    value, said = BAD[name]
    outcome = check(written(tmp_path, value))
    assert outcome.verdict == FAILED
    assert said in outcome.lines[0]


def scenario(folder: Path, lines: str, expectations: str | None = '{"id": "X", "facts": []}') -> Path:
    if expectations is not None:
        written(folder, expectations, "X.expect.json")
    return written(folder, lines, "X.jsonl")


def test_a_scenario_cannot_be_run_yet(tmp_path: Path) -> None:
    outcome = check(scenario(tmp_path, '{"type": "CONTROL", "object": {"advance": 1}}\n\n'))
    assert (outcome.verdict, outcome.steps) == (NOT_YET, 1)


BAD_SCENARIOS: dict[str, tuple[str, str | None, str]] = {
    "a key of a line": ('{"type": "ADDED", "object": {}}\n{"type": "ADDED", "objct": {}}', "{}", "line 2: unknown key"),
    "a type": ('{"type": "GONE", "object": {}}', "{}", "line 1: there is no type 'GONE'"),
    "no object": ('{"type": "ADDED"}', "{}", "line 1 has no `object`"),
    "no JSON": ("{", "{}", "line 1 is no JSON"),
    "nothing": ("\n", "{}", "empty"),
    "no expectations": ('{"type": "ADDED", "object": {}}', None, "X.expect.json"),
    "a key of the expectations": ('{"type": "ADDED", "object": {}}', '{"fact": []}', "unknown key 'fact'"),
}


@pytest.mark.parametrize("name", BAD_SCENARIOS)
def test_what_a_scenario_may_not_hold_fails_with_its_line(tmp_path: Path, name: str) -> None:
    lines, expectations, said = BAD_SCENARIOS[name]
    outcome = check(scenario(tmp_path, lines, expectations))
    assert outcome.verdict == FAILED
    assert said in outcome.lines[0]


def test_a_folder_means_its_files_and_expectations_belong_to_their_scenario(tmp_path: Path) -> None:
    path = scenario(tmp_path, '{"type": "ADDED", "object": {}}')
    other = written(tmp_path, "{}", "a.json")
    (tmp_path / "README.md").write_text("")
    assert files([tmp_path]) == [path, other]
    assert files([path, tmp_path / "X.expect.json"]) == [path]


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotConformanceInput, match=r"neither a vector"):
        files([tmp_path / "README.md"])
    with pytest.raises(NotConformanceInput, match=r"no vectors"):
        files([tmp_path])


def test_the_command_counts_and_ends_with_the_counts(call: Call, tmp_path: Path) -> None:
    good = written(tmp_path, vector(), "good.json")
    waits = scenario(tmp_path, '{"type": "CONTROL", "object": {"advance": 1}}')
    result = call("conformance", str(good), str(waits))
    assert (result.exit_code, result.stdout) == (0, "1 cannot be run yet\n1 passed, 0 failed\n")
    bad = written(tmp_path, changed(extra=1), "bad.json")
    result = call("conformance", str(good), str(bad))
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{bad}: failed")
    assert "unknown key 'extra'" in result.stdout
    assert result.stdout.endswith("\n1 passed, 1 failed\n")
    assert f"{good}: passed" in call("conformance", "-v", str(good)).stdout


def test_the_command_on_all_vectors_fails_none(call: Call) -> None:
    result = call("conformance", str(GOLDEN / "vectors"), str(GOLDEN / "vectors-1.11"))
    assert result.exit_code == 0, result.stdout
    assert result.stdout == "158 passed, 0 failed\n"
