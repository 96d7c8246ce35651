"""A failing world as a scenario: written, made small, read back, run by `vcledger conformance`, healed by the fix."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.golden.scenarios import action, advance, control, watch, write
from vcledger.conformance_files import FAILED, PASSED, check
from vcledger.scheduler import binder, fold_binding
from vcledger.sim import plan as plans
from vcledger.sim import script
from vcledger.sim import simulate as sim
from vcledger.sim.faults import named
from vcledger.sim.plan import Plan
from vcledger.testing.invariants import broken_lines, broken_rules
from vcledger.testing.scenario_format import ScenarioInvalid, read_script

WORLDS = Path(__file__).parents[1] / "golden" / "worlds"


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_survives_its_script(seed: int) -> None:
    """All that a run depends on; steps and tight only say how it was drawn."""
    plan = plans.draw(seed, 60)
    again = script.plan_of(script.lines_of(plan))
    assert msgspec.structs.replace(again, steps=plan.steps, tight=plan.tight) == plan


@pytest.mark.parametrize("seed", range(12))
def test_a_script_follows_the_format(seed: int, tmp_path: Path) -> None:
    path = script.write(tmp_path, "world", plans.draw(seed, 60), ["invariant 4, bound-once, broken at 7: x"])
    found = read_script(path)
    assert found.simulated and not found.storage
    assert [(fact.about, fact.name) for fact in found.facts] == [("invariant", "bound-once"), ("world", "simulated")]


def test_a_script_writes_the_log_of_its_plan(tmp_path: Path) -> None:
    plan = plans.draw(3, 20)
    again = script.plan_of(script.lines_of(plan))
    assert sim.once(plan, None).digest == sim.once(again, None).digest


# --- a bug on purpose ---------------------------------------------------------------------------------------------


def no_resync(*args: Any, **more: Any) -> None:
    """Of a failed bind nothing follows."""


def revert_nothing(hand: Any, task: Any, reason: str, message: str, cause: int) -> int:
    """What was assumed stays so."""
    return cause


BUGS: dict[str, tuple[str, Callable[..., Any], str]] = {
    "a missing resync": ("queue_resync", no_resync, "after-failure"),
    "a dropped revert": ("revert", revert_nothing, "assumptions"),
}


def breaks(seed: int, chosen: Sequence[str], rule: str) -> bool:
    """Whether the world of a seed shows the bug that is planted, in this rule."""
    found = sim.once(plans.draw(seed, 24, chosen), None, check=broken_rules)
    return any(f", {rule}, broken at" in text for text in found.broken)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_reproduced_by_the_file_and_gone_with_its_fix(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, bug, rule = BUGS[name]
    monkeypatch.setattr(binder, target, bug)
    monkeypatch.setattr(sim, "SHRINK_RUNS_MAX", 30)
    chosen = named("request,controllers,cluster")
    seed = next(seed for seed in range(1, 200) if breaks(seed, chosen, rule))
    result = sim.simulate(seed, 24, chosen, check=broken_lines, quick=broken_rules, twice=False, keep=tmp_path)
    assert any(f", {rule}, broken at" in text for text in result.broken), result.broken

    folder = tmp_path / f"seed-{seed}"
    path = folder / f"seed-{seed}.jsonl"
    small = plans.decode((folder / "plan-small.json").read_bytes())
    whole = plans.draw(seed, 24, chosen)
    assert plans.sound(small)
    assert len(small.faults) + len(small.doings) < len(whole.faults) + len(whole.doings)
    assert len(path.read_text().splitlines()) == len(script.lines_of(small))

    outcome = check(path)
    assert outcome.verdict == FAILED
    assert any(line.startswith(f"at the end: invariant {rule}: broken: at ") for line in outcome.lines), outcome.lines
    monkeypatch.undo()
    assert check(path) == (path, PASSED, outcome.steps, outcome.steps, ())


# --- worlds that once failed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(WORLDS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_world_that_once_failed_is_well(path: Path) -> None:
    outcome = check(path)
    assert (outcome.verdict, outcome.lines) == (PASSED, ())


def test_there_are_such_worlds() -> None:
    there = [path.stem for path in WORLDS.glob("*.jsonl")]
    assert sorted(there) == ["seed-242", "seed-317", "seed-324", "seed-409", "seed-50119", "seed-609"]


def test_seed_409_fails_with_its_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcome of an earlier binding was taken for that of the pod's new task."""
    monkeypatch.setattr(fold_binding, "_of_another", lambda task, intent: False)
    outcome = check(WORLDS / "seed-409.jsonl")
    assert outcome.verdict == FAILED and "IllegalTransition: no BindFailed, answer lost" in outcome.lines[0]


# --- scripts by hand ----------------------------------------------------------------------------------------------

BEGIN = control("simulate", seed=1, seconds=30)
NODE = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}
GROUP = {
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"minMember": 1, "queue": "default"},
    "status": {"phase": "Inqueue"},
}
POD = {
    "metadata": {"name": "p", "namespace": "default", "annotations": {plans.GROUP: "g"}},
    "spec": {"schedulerName": "volcano", "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
}
LINES = [
    BEGIN,
    action("create", kind="Node", object=NODE),
    action("create", kind="PodGroup", object=GROUP),
    advance(1),
    action("run", kind="Pod", object=POD),
    control("fault", fault="timeout-after", verb="POST", kind="Pod"),
    advance(10),
    action("label", kind="Pod", name="default/p"),
    advance(5),
    action("discard", job="default/g", reason="nothing of it is left to discard"),
]
BINDING = "/api/v1/namespaces/default/pods/p/binding"


@pytest.mark.slow
def test_facts_at_checkpoints_and_at_the_end(tmp_path: Path) -> None:
    facts = [
        {"pod": "default/p", "node": "n1", "phase": "Running", "assumed": False, "bind": "succeeded"},
        {"outcome": "default/p", "bind": "succeeded-answer-lost", "events": ["Scheduled"]},
        {"api": f"POST {BINDING}", "calls": 1},
        {"node": "n1", "idle": {"cpu": "3"}, "tasks": ["default/p"]},
        {"queue": "errTasks", "length": 0},
        {"invariant": "bound-once", "broken": False},
        {"world": "simulated", "broken": []},
    ]
    after = {
        2: [{"nodes": []}],
        5: [{"pod": "default/p", "exists": False}, {"nodes": ["n1"]}],
        9: [{"pod": "default/p", "node": "n1"}, {"world": "simulated", "broken": []}],
    }
    path = write(tmp_path, "own", LINES, facts, after)
    outcome = check(path)
    assert (outcome.verdict, outcome.lines) == (PASSED, ())
    wrong = write(tmp_path, "own", LINES, [{"api": f"POST {BINDING}", "calls": 2}], {5: [{"nodes": []}]})
    said = check(wrong).lines
    assert [line.split(" (line ")[0] for line in said] == [
        "after line 5: nodes: names is ['n1'], expected []",
        f"at the end: api POST {BINDING}: calls is 1, expected 2",
    ]


def test_an_invariant_is_a_fact_of_scripted_answers_too(tmp_path: Path) -> None:
    lines = [watch("ADDED", {"kind": "Node", "apiVersion": "v1", **NODE, "metadata": named_node()}), action("allocate")]
    path = write(tmp_path, "own", lines, [{"invariant": "node-books", "broken": False}, {"nodes": ["n1"]}], {})
    assert check(path).verdict == PASSED
    path = write(tmp_path, "own", lines, [{"invariant": "node-books", "broken": True}], {})
    assert check(path).lines[0].startswith("at the end: invariant node-books: broken is nothing, expected something")


def named_node() -> dict[str, Any]:
    return {"name": "n1", "uid": "n1-u", "resourceVersion": "5"}


BAD: dict[str, tuple[list[dict[str, Any]], str]] = {
    "no simulated server": (
        [watch("ADDED", POD | {"kind": "x"}), LINES[1]],
        "line 1: the object has no kind, apiVersion",
    ),
    "a doing without it": ([advance(1), LINES[1]], "line 2: `create` needs a simulated API server"),
    "a fault without it": ([advance(1), LINES[5]], "line 2: `fault` needs a simulated API server"),
    "begun too late": ([advance(1), BEGIN], "line 2: `simulate` needs a simulated API server: `simulate` as the first"),
    "begun twice": ([BEGIN, BEGIN], "line 2: `simulate` has no place where the API server is simulated"),
    "a watch line": (
        [BEGIN, watch("ADDED", {"kind": "Node", "apiVersion": "v1", "metadata": named_node()})],
        "line 2: the API server is simulated: a ADDED line has no place here",
    ),
    "a restart": ([BEGIN, control("restart")], "line 2: `restart` has no place"),
    "time after the end": ([BEGIN, advance(20), advance(20)], "line 3: the world's 30 seconds are over"),
    "no such fault": (
        [BEGIN, control("fault", fault="flood")],
        "line 2: there is no fault 'flood'; there are conflict,",
    ),
    "an unknown key of a fault": ([BEGIN, control("fault", fault="crash", when=3)], "line 2: unknown key 'when'"),
    "a count below 0": ([BEGIN, control("fault", fault="crash", count=-1)], "line 2: `count` is a whole number"),
    "a kind that is none": ([BEGIN, action("create", kind="Dog", object=NODE)], "line 2: there is no kind 'Dog'"),
    "no name": (
        [BEGIN, action("create", kind="Node", object={"metadata": {}})],
        "line 2: the object has no metadata.name",
    ),
    "no namespace": ([BEGIN, action("run", kind="Pod", object=NODE)], "line 2: a Pod is in a namespace"),
    "a namespace": ([BEGIN, action("label", kind="Node", name="default/n1")], "line 2: a Node is in no namespace"),
    "no pod": ([BEGIN, action("run", kind="PodGroup", object=GROUP)], "line 2: `run` is for pods"),
    "a pod that nobody made": (
        [BEGIN, action("schedule", pod="default/p")],
        "line 2: no line before has shown a pod default/p",
    ),
    "an unknown key": (
        [BEGIN, {"type": "ACTION", "object": {"action": "allocate", "all": 1}}],
        "line 2: unknown key 'all'",
    ),
    "seconds that are none": ([control("simulate", seed=1, seconds="x")], "line 1: `seconds` is a number"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_said_with_its_line(name: str, tmp_path: Path) -> None:
    lines, said = BAD[name]
    path = write(tmp_path, "own", lines, [{"nodes": []}], {})
    with pytest.raises(ScenarioInvalid) as raised:
        read_script(path)
    assert str(raised.value).startswith(f"own.jsonl, {said}"), raised.value


def test_an_invariant_that_is_none(tmp_path: Path) -> None:
    path = write(tmp_path, "own", LINES, [{"invariant": "tidy", "broken": False}], {})
    with pytest.raises(ScenarioInvalid, match="there is no invariant 'tidy'; there are node-books, assumptions,"):
        read_script(path)


# --- sound plans --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_what_is_drawn_is_sound(seed: int) -> None:
    assert plans.sound(plans.draw(seed, 80))


def without(plan: Plan, kind: str, *, keep: int = 0) -> Plan:
    """The plan without all but `keep` of a kind."""
    kept = [doing for doing in plan.doings if doing.kind == kind][:keep]
    return msgspec.structs.replace(plan, doings=tuple(one for one in plan.doings if one.kind != kind or one in kept))


@pytest.mark.parametrize("kind", ["Node", "StorageClass", "PersistentVolumeClaim"])
def test_a_plan_that_lacks_what_its_pods_need_is_not(kind: str) -> None:
    plan = plans.draw(1, 60)
    assert any("volumes" in doing.object["spec"] for doing in plan.doings if doing.do == "run" and doing.object)
    assert not plans.sound(without(plan, kind))
    assert plans.sound(without(without(plan, "Pod"), kind))


def test_a_tight_plan_needs_its_nodes() -> None:
    plan = next(plan for plan in map(plans.draw, range(100)) if plan.tight)
    pod = next(doing for doing in plan.doings if doing.do == "run")
    assert pod.object is not None
    large = json.loads(json.dumps(pod.object))
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100"
    swapped = tuple(msgspec.structs.replace(one, object=large) if one is pod else one for one in plan.doings)
    assert not plans.sound(msgspec.structs.replace(plan, doings=swapped))
