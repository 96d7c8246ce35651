"""Files of vectors and scenarios: strict about their format, and counted honestly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data import GOLDEN
from tests.unit.cli.conftest import Call
from vcledger.conformance_files import FAILED, PASSED, NotConformanceInput, check, files

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


NODE = (
    '{"type": "ADDED", "object": {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1", "uid": "u", '
    '"resourceVersion": "5"}, "status": {"allocatable": {"cpu": "4"}}}}'
)
POD = NODE.replace('"Node"', '"Pod"').replace('"name": "n1"', '"name": "p1", "namespace": "default"')
ADVANCE = '{"type": "CONTROL", "object": {"op": "advance", "seconds": 1}}'
HELD = '{"id": "X", "facts": [{"node": "n1", "exists": true, "idle": {"cpu": 4}}]}'


def scenario(folder: Path, lines: str, expectations: str | None = HELD) -> Path:
    if expectations is not None:
        written(folder, expectations, "X.expect.json")
    return written(folder, lines, "X.jsonl")


def line(type_: str, /, **parts: object) -> str:
    return json.dumps({"type": type_, "object": parts})


def fact(**parts: object) -> str:
    return json.dumps({"facts": [parts]})


def test_a_scenario_is_run(tmp_path: Path) -> None:
    outcome = check(scenario(tmp_path, f"{NODE}\n\n{ADVANCE}\n"))
    assert (outcome.verdict, outcome.checked, outcome.steps, outcome.lines) == (PASSED, 2, 2, ())
    outcome = check(scenario(tmp_path, NODE, HELD.replace("4", "3")))
    assert (outcome.verdict, outcome.lines) == (FAILED, ("at the end: node n1: idle of cpu is 4, expected 3 (line 1)",))


API = {"verb": "GET", "path": "/api/v1/namespaces/default/pods/p1", "code": 200}
ASSUME = line("ACTION", action="assume", pod="default/p1", node="n1")
BAD_SCENARIOS: dict[str, tuple[str, str | None, str]] = {
    "a key of a line": (f'{NODE}\n{{"type": "ADDED", "objct": {{}}}}', HELD, "X.jsonl, line 2: unknown key 'objct'"),
    "a type": ('{"type": "GONE", "object": {}}', HELD, "line 1: there is no type 'GONE'"),
    "no object": ('{"type": "ADDED"}', HELD, "line 1: the key 'object' is missing"),
    "an object that is none": ('{"type": "ADDED", "object": 5}', HELD, "line 1: `object` is no object"),
    "a watch line without metadata": (
        '{"type": "ADDED", "object": {"kind": "Pod"}}',
        HELD,
        "line 1: the object has no",
    ),
    "an object without a version": (NODE.replace('"5"', '""'), HELD, "line 1: the object has no metadata.resourceV"),
    "a list without items": (NODE.replace("ADDED", "LIST"), HELD, "line 1: a list has `items`"),
    "no JSON": (f"{NODE}\n{{", HELD, "line 2: no JSON"),
    "a key twice": ('{"type": "ADDED", "type": "ADDED", "object": {}}', HELD, "the key 'type' stands twice"),
    "nothing": ("\n", HELD, "empty"),
    "no expectations": (NODE, None, "X.expect.json"),
    "an action": (line("ACTION", action="dance"), HELD, "line 1: there is no action 'dance'"),
    "a key of an action": (line("ACTION", action="schedule", pod="a/b", node="n"), HELD, "unknown key 'node'"),
    "a missing key of an action": (line("ACTION", action="bind", pod="a/b"), HELD, "the key 'node' is missing"),
    "a pod without namespace": (line("ACTION", action="schedule", pod="b"), HELD, "'b' is not ns/name"),
    "a clean-up key": (line("ACTION", action="cleanup-fire", key="a/b"), HELD, "not namespace/name/uid"),
    "an unseen pod": (f"{NODE}\n{ASSUME}", HELD, "line 2: no line before has shown a pod default/p1"),
    "an operation": (line("CONTROL", op="jump"), HELD, "there is no operation 'jump'"),
    "a key of an operation": (line("CONTROL", op="restart", seconds=1), HELD, "unknown key 'seconds'"),
    "a negative time": (line("CONTROL", op="advance", seconds=-1), HELD, "`seconds` is a number, not below 0"),
    "a verb": (line("API", **{**API, "verb": "FETCH"}), HELD, "there is no verb 'FETCH'"),
    "a path": (line("API", **{**API, "path": "pods"}), HELD, "`path` begins with /"),
    "a code": (line("API", **{**API, "code": 7}), HELD, "`code` is an HTTP status or null"),
    "a key of an answer": (line("API", **API, delay=3), HELD, "unknown key 'delay'"),
    "a storage step": (line("DB", tx="A", op="poll"), HELD, "tx has no operation 'poll'"),
    "a commit before its begin": (line("DB", tx="A", op="commit"), HELD, "line 1: transaction A has not begun"),
    "storage steps among others": (f"{line('DB', sub='s', op='poll')}\n{NODE}", HELD, "line 2: a script of storage"),
    "a key of the expectations": (NODE, '{\n"fact": []}', "X.expect.json, line 2: unknown key 'fact'"),
    "a key of a fact": (NODE, '{"facts": [\n{"node": "n1",\n"speed": 1}]}', "line 3: unknown key 'speed' of the fact"),
    "a fact about nothing": (NODE, '{"facts": [{"speed": 1}]}', "line 1: a fact is about one of"),
    "a word": (NODE, fact(pod="a/b", bind="perhaps"), "bind is one of none, unknown"),
    "a queue": (NODE, fact(queue="lunch", length=1), "there is no queue 'lunch'"),
    "a checkpoint nowhere": (
        NODE,
        '{"checkpoints": [{"after_line": 9, "facts": []}], "facts": [{"nodes": []}]}',
        "no line 9",
    ),
    "another script": (NODE, '{"input": "Y.jsonl", "facts": [{"nodes": []}]}', "its input is 'Y.jsonl'"),
    "nothing expected": (NODE, "{}", "no fact is expected"),
    "expectations that are no JSON": (NODE, '{"facts": [\n{"nodes" []}]}', "line 2: ':' is expected"),
    "a watch line where a list is due": (
        f"{POD}\n{line('ERROR', kind='Status', code=410)}\n{POD}",
        HELD,
        "line 3: a watch line of pods, which have to be listed first",
    ),
    "a pod handed over that nobody has assumed": (
        f"{POD}\n{line('ACTION', action='bind', pod='default/p1', node='n1')}",
        HELD,
        "line 2: default/p1 is handed over, and no line before has assumed it",
    ),
    "a resource that is none": (
        line("CONTROL", op="watch-closed", resource="dogs"),
        HELD,
        "line 1: no resource is named 'd",
    ),
    "a fact of a resource that is none": (NODE, fact(gap="dogs"), "line 1: no resource is named 'dogs'"),
    "a count that is none": (NODE, fact(queue="errTasks", length="two"), "length is a whole number, not 'two'"),
    "a truth that is none": (NODE, fact(pod="a/b", exists="yes"), "exists is true or false, not 'yes'"),
    "a list that is none": (NODE, fact(why="a/b", must_mention="cpu"), "must_mention is a list of texts, not 'cpu'"),
    "an amount that is none": (NODE, fact(node="n1", idle={"cpu": "four"}), "idle is an object of quantities, not"),
    "names that are none": (NODE, '{"facts": [{"nodes": "n1"}]}', "line 1: nodes is a list of texts, not 'n1'"),
    "an ERROR of nobody": (line("ERROR", kind="Status", code=410), HELD, "line 1: an ERROR line before any object"),
}


@pytest.mark.parametrize("name", BAD_SCENARIOS)
def test_what_a_scenario_may_not_hold_fails_with_its_line(tmp_path: Path, name: str) -> None:
    lines, expectations, said = BAD_SCENARIOS[name]
    outcome = check(scenario(tmp_path, lines, expectations))
    assert outcome.verdict == FAILED
    assert said in outcome.lines[0]


def test_a_folder_means_its_files_and_expectations_belong_to_their_scenario(tmp_path: Path) -> None:
    path = scenario(tmp_path, NODE)
    other = written(tmp_path, "{}", "a.json")
    (tmp_path / "README.md").write_text("")
    assert files([tmp_path]) == [path, other]
    assert files([path, tmp_path / "X.expect.json"]) == [path]


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotConformanceInput, match=r"no vectors"):
        files([tmp_path])
    with pytest.raises(NotConformanceInput, match=r"README.md: no such file or folder"):
        files([tmp_path / "README.md"])
    (tmp_path / "README.md").write_text("")
    with pytest.raises(NotConformanceInput, match=r"neither a vector"):
        files([tmp_path / "README.md"])


def test_the_command_counts_and_ends_with_the_counts(call: Call, tmp_path: Path) -> None:
    good = written(tmp_path, vector(), "good.json")
    waits = GOLDEN / "reports" / "E1.jsonl"
    result = call("conformance", str(good), str(waits))
    assert result.exit_code == 0
    assert result.stdout == (
        f"{waits}: cannot be run here (0 of 20 steps checked)\n"
        "  it needs PostgreSQL: give the URL of a server with --postgres\n"
        "1 cannot be run here\n1 passed, 0 failed\n"
    )
    bad = written(tmp_path, changed(extra=1), "bad.json")
    result = call("conformance", str(good), str(bad))
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{bad}: failed")
    assert "unknown key 'extra'" in result.stdout
    assert result.stdout.endswith("\n1 passed, 1 failed\n")
    assert f"{good}: passed" in call("conformance", "-v", str(good)).stdout


@pytest.mark.slow
def test_the_command_on_all_vectors_fails_none(call: Call) -> None:
    result = call("conformance", str(GOLDEN / "vectors"), str(GOLDEN / "vectors-1.11"))
    assert result.exit_code == 0, result.stdout
    assert result.stdout == "158 passed, 0 failed\n"
