"""A world that a scenario drives step by step, as the state machines do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.golden.scenarios import advance, control, write
from vcledger.conformance_files import FAILED, PASSED, check
from vcledger.testing.scenario_format import ScenarioInvalid, read_script


def driven(*steps: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [control("drive", seed=3, **more), *(control("step", **step) for step in steps)]


GANG = {"do": "gang", "size": 2, "milli": 100, "classes": ["local", "wait"], "shared": True}
WORLD = {"world": "simulated", "broken": []}


def test_steps_drive_a_world_and_its_facts_are_looked_at(tmp_path: Path) -> None:
    bound = {"pod": "default/pod-4", "bind": "succeeded"}
    lines = driven(GANG, {"do": "answer-all"}, {"do": "answer-all"})
    path = write(tmp_path, "steps", lines, [WORLD], {4: [bound]})
    found = check(path)
    assert (found.verdict, found.lines) == (PASSED, ())
    assert check(write(tmp_path, "early", lines, [WORLD], {2: [bound]})).verdict == FAILED


def test_a_session_decides_where_one_is_configured(tmp_path: Path) -> None:
    conf = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n'
    lines = driven(GANG, {"do": "answer-all"}, {"do": "answer-all"}, session=conf)
    bound = {"pod": "default/pod-4", "bind": "succeeded"}
    path = write(tmp_path, "steps", lines, [WORLD, {"invariant": "bound-once", "broken": False}], {4: [bound]})
    found = check(path)
    assert (found.verdict, found.lines) == (PASSED, ())
    with pytest.raises(ScenarioInvalid, match="line 1: `session`: scheduler configuration, line 1: actions: unknown"):
        read_script(write(tmp_path, "wrong", driven(session='actions: "x"'), [WORLD], {}))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"do": "dance"}, "line 2: there is no step 'dance'"),
        ({"do": "wait"}, "the key 'milliseconds' of the step wait is missing"),
        ({"do": "wait", "milliseconds": -1}, "`milliseconds` is a whole number, not below 0"),
        ({"do": "wait", "milliseconds": 1, "x": 1}, "unknown key 'x' of the step wait; known are milliseconds"),
        ({"do": "answer", "index": 0, "how": "well"}, "`how` is one of 'done', "),
        ({**GANG, "classes": "local"}, "`classes` is a list, each one of 'local', 'wait'"),
        ({**GANG, "shared": 1}, "`shared` is true or false"),
    ],
)
def test_a_step_that_is_none_is_a_clear_line(tmp_path: Path, line: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioInvalid) as error:
        read_script(write(tmp_path, "steps", driven(line), [WORLD], {}))
    assert said in str(error.value)


def test_what_has_no_place_where_the_world_is_driven_and_steps_elsewhere(tmp_path: Path) -> None:
    other = advance(1)
    with pytest.raises(ScenarioInvalid, match="line 2: the world is driven: nothing but `step` has a place here"):
        read_script(write(tmp_path, "steps", [*driven(), other], [WORLD], {}))
    with pytest.raises(ScenarioInvalid, match="line 2: `step` needs a world that is driven"):
        read_script(write(tmp_path, "steps", [other, driven(GANG)[1]], [WORLD], {}))
