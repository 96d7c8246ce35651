"""docs/testing.md: its blocks of Python pass as a test file, its names are there, and it speaks of every machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import vcledger.testing as kit
from vcledger.sim.faults import FAULTS, named
from vcledger.testing.scenario_expected import FACTS, STORE_FACTS
from vcledger.testing.scenario_lines import ACTIONS, CONTROLS, IN_A_WORLD

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()


@pytest.mark.slow
def test_its_python_passes(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 3
    (tmp_path / "test_page.py").write_text("\n\n".join(blocks))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert "4 passed" in done.stdout, done.stdout


def test_its_scenario_passes_and_tells_what_is_otherwise(tmp_path: Path) -> None:
    (script,) = re.findall(r"```jsonl\n(.*?)```", PAGE, re.DOTALL)
    (facts,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "lost-answer.jsonl"
    path.write_text(script)
    beside = tmp_path / "lost-answer.expect.json"
    beside.write_text(facts)
    outcome = kit.check_file(path)
    assert (outcome.verdict, outcome.checked, outcome.lines) == ("passed", 6, ())
    beside.write_text(facts.replace("succeeded-answer-lost", "failed"))
    assert [line for line in kit.check_file(path).lines if "expected 'failed'" in line]


def test_it_has_every_key_of_the_format() -> None:
    for about, keys in FACTS.items():
        if about not in STORE_FACTS:
            assert f"`{about}`" in PAGE
            assert not [key for key in keys if f"`{key}`" not in PAGE]
    for word in (*ACTIONS, *(set(CONTROLS) - {"spawn"})):
        assert f"`{word}`" in PAGE, word


def test_it_has_every_fault_with_its_group_and_what_it_does() -> None:
    rows = dict(re.findall(r"^\| [a-z]+ \| `([a-z-]+)` \| (.*) \|$", PAGE, re.MULTILINE))
    assert rows == FAULTS
    for group, fault in re.findall(r"^\| ([a-z]+) \| `([a-z-]+)` \|", PAGE, re.MULTILINE):
        assert fault in named(group)


def test_the_kit_has_what_it_says() -> None:
    assert all(getattr(kit, name) is not None for name in kit.__all__)
    assert sorted(kit.__all__) == sorted(kit._WHERE)
    assert {*kit.__all__, "__doc__"} <= {*dir(kit)}
    with pytest.raises(AttributeError, match="has no attribute 'Dog'"):
        kit.Dog  # noqa: B018


def test_the_kit_loads_nothing_before_it_is_asked_for() -> None:
    code = "import sys, vcledger.testing; print([name for name in ('hypothesis', 'pytest') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_it_speaks_of_every_machine_and_of_all_that_is_ours() -> None:
    for name in kit.__all__:
        assert not name.endswith("Machine") or f"`{name}`" in PAGE
    for word in (*IN_A_WORLD, "allocate", "simulate"):
        assert f"`{word}`" in PAGE and word in (*ACTIONS, *CONTROLS)
    faults = re.search(r"--faults (\S+)", PAGE)
    assert faults is not None and named(faults[1])
