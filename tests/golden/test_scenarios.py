"""The field bugs as scenarios: every one passes, and a fact that is wrong in any way is noticed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.data import GOLDEN
from vcledger.conformance_files import FAILED, NOT_HERE, PASSED, check
from vcledger.testing.scenario import run_scenario
from vcledger.testing.scenario_db import needs_postgres, run_storage
from vcledger.testing.scenario_format import EXPECTATIONS_SUFFIX, read_script

REPORTS = GOLDEN / "reports"
SCENARIOS = sorted(REPORTS.glob("*.jsonl"))
FLOWING = [path for path in SCENARIOS if not path.stem.startswith("E")]


def test_all_are_here() -> None:
    names = " ".join(path.stem for path in SCENARIOS)
    assert names == "B1 B2 B3 C1 C2 C3 E1 E2 R1 R2 R3 V1 V2 V3"


@pytest.mark.parametrize("path", FLOWING, ids=lambda path: path.stem)
def test_each_scenario_passes(path: Path) -> None:
    script = read_script(path)
    result = run_scenario(script)
    assert result.problems == []
    assert result.lines == len(script.steps)
    assert result.facts == len(script.facts) + sum(len(one.facts) for one in script.checkpoints)


@pytest.mark.slow
@pytest.mark.postgres
def test_e1_passes_on_postgresql(postgres_server: str) -> None:
    script = read_script(REPORTS / "E1.jsonl")
    assert needs_postgres(script)
    assert run_storage(script, postgres_server).problems == []


@pytest.mark.slow
def test_e2_passes_on_sqlite() -> None:
    outcome = check(REPORTS / "E2.jsonl")
    assert (outcome.verdict, outcome.lines) == (PASSED, ())


def test_e1_is_never_passed_silently() -> None:
    outcome = check(REPORTS / "E1.jsonl")
    assert (outcome.verdict, outcome.checked) == (NOT_HERE, 0)
    assert "PostgreSQL" in outcome.lines[0]


# --- a wrong expectation is noticed -------------------------------------------------------------------------------


def wrong(value: Any) -> Any:
    """A value that is expected instead, and is not so."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return f"{value}0" if value[-1:].isdigit() else f"{value}x"
    if isinstance(value, dict):
        first = next(iter(value))
        return {**value, first: wrong(value[first])}
    if isinstance(value, list):
        return [*value, "default/nobody"]
    return "something"


WORDS = {
    ("pod", "bind"): ("none", "failed"),
    ("outcome", "bind"): ("failed", "succeeded"),
    ("pod", "deletion"): ("observed", "inferred"),
}
NOT_SO: dict[str, Any] = {
    "max_calls": -1,
    "must_not_mention": ["default/"],
    "each_ended_within_seconds": 0.5,
    "quantities": {"cpu": "9", "memory": "9Gi"},
    "amounts": "77",
    "first": "2026-03-01T10:00:03Z",
    "last": "2026-03-01T10:00:03Z",
}


def falsified(about: str, key: str, value: Any) -> Any:
    """What to expect instead of what is so."""
    if (about, key) in WORDS:
        one, other = WORDS[about, key]
        return other if value == one else one
    if key in ("idle", "used", "requests", "min_resources"):
        return dict.fromkeys(value, "77")
    if key == "never":
        return [*value, *("5000", "777")]
    return NOT_SO.get(key, wrong(value))


def all_facts(expect: dict[str, Any]) -> list[dict[str, Any]]:
    return [*expect["facts"], *(fact for one in expect["checkpoints"] for fact in one["facts"])]


def keys_of(fact: dict[str, Any]) -> list[str]:
    """What can be falsified of a fact: all but what it is about."""
    main = next(iter(fact))
    return [key for key in fact if key != main or main in ("pods", "nodes")]


@pytest.mark.parametrize("path", FLOWING, ids=lambda path: path.stem)
def test_every_wrong_fact_is_named_with_its_line(path: Path, tmp_path: Path) -> None:
    """Key by key, in every fact at once: each of them fails, none hides another."""
    shutil.copy(path, tmp_path)
    given = json.loads(path.with_name(path.stem + EXPECTATIONS_SUFFIX).read_text())
    for number in range(max(len(keys_of(fact)) for fact in all_facts(given))):
        expect = json.loads(json.dumps(given))
        falsified_in = []
        for fact in all_facts(expect):
            keys = keys_of(fact)
            if number < len(keys):
                main, key = next(iter(fact)), keys[number]
                fact[key] = falsified(main, key, fact[key])
                falsified_in.append(fact)
        beside = tmp_path / f"{path.stem}{EXPECTATIONS_SUFFIX}"
        beside.write_text(json.dumps(expect, indent=1))
        outcome = check(tmp_path / path.name)
        assert outcome.verdict == FAILED
        script = read_script(tmp_path / path.name)
        facts = [*script.facts, *(fact for one in script.checkpoints for fact in one.facts)]
        for fact, raw in zip(facts, all_facts(expect), strict=True):
            said = [line for line in outcome.lines if line.endswith(f"(line {fact.line})")]
            assert bool(said) == any(raw is one for one in falsified_in), (raw, outcome.lines)
