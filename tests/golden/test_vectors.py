"""Every golden vector, each under the model that its Volcano version names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.data import vectors
from vcledger.conformance import NOT_RUN, PASSED, VectorInvalid, compare_states, model_of, run_vector


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", vectors(), ids=_name)
def test_vector(path: Path) -> None:
    result = run_vector(json.loads(path.read_text()))
    lines = [f"step {step.step} ({step.what}): {line}" for step in result.steps for line in step.differences]
    assert lines == []
    assert result.steps[0].outcome != NOT_RUN


@pytest.mark.parametrize("path", vectors(), ids=_name)
def test_a_vector_of_events_and_relists_is_run_whole(path: Path) -> None:
    vector = json.loads(path.read_text())
    result = run_vector(vector)
    observing = [("event" in step or step["action"] == "relist") for step in vector["steps"]]
    first_action = observing.index(False) if False in observing else len(observing)
    panic = vector.get("stopped_by_panic_at_step", len(observing))
    for step in result.steps[: min(first_action, panic)]:
        assert step.outcome != NOT_RUN
    checked = [step for step in result.steps if step.outcome == PASSED]
    expected = [index for index, state in enumerate(vector["expected"][:first_action]) if state is not None]
    assert len(checked) >= len(expected)


def test_a_wrong_expectation_is_noticed() -> None:
    path = next(path for path in vectors() if path.stem.startswith("001"))
    vector = json.loads(path.read_text())
    vector["expected"][1]["nodes"]["n1"]["idle"]["milli_cpu"] += 1
    result = run_vector(vector)
    assert result.failed and not result.passed
    assert any("nodes.n1.idle.milli_cpu" in line for step in result.steps for line in step.differences)


def test_the_exact_model_differs_where_its_table_says() -> None:
    """Vector 043: a node deleted and added again. Volcano's comes back empty, the exact one with its pods."""
    path = next(path for path in vectors() if path.stem.startswith("043"))
    vector = json.loads(path.read_text())
    assert run_vector(vector).passed
    assert run_vector(vector, model="exact").failed


def test_the_comparison_takes_a_missing_scalar_for_zero_and_nothing_else() -> None:
    assert compare_states({"used": {"scalars": {"pods": 0}}}, {"used": {}}) == []
    assert compare_states({"used": {"scalars": {"pods": 1}}}, {"used": {}}) != []
    assert compare_states({"used": {"memory": 0}}, {"used": {}}) != []
    assert compare_states({"reason": ""}, {"reason": False}) != []
    assert compare_states({"node_list": ["a", "b"]}, {"node_list": ["b", "a"]}) != []
    assert compare_states({"memory": 1152921504606847000}, {"memory": 1152921504606846976}) == []


def test_models_by_version() -> None:
    assert model_of("v1.8.0") == "volcano-1.10"
    assert model_of("v1.10.2") == "volcano-1.10"
    assert model_of("1.11.2") == "volcano-1.11"
    assert model_of("v2.0.0") == "volcano-1.11"
    with pytest.raises(VectorInvalid):
        model_of("latest")
    with pytest.raises(VectorInvalid):
        run_vector({"steps": [], "expected": [None], "volcano_version": "v1.10.2"})
