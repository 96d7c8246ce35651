"""The runner can tell a mutant that is noticed from one that is not, end to end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutants.model import Mutant
from tests.mutants.runner import BROKEN, KILLED, STALE, SURVIVED, TIMED_OUT, Bench, Copy, Result, load, problem, save

FILE = "sums.py"
TESTS = "tests/test_sums.py"
SUMS = "def add(a, b):\n    return a + b\n\n\ndef count(n):\n    while n > 0:\n        n -= 1\n    return n\n"
CHECKS = """
import sums

def test_add():
    assert sums.add(2, 3) == 5

def test_count():
    assert sums.count(3) == 0

def test_wrong_anyway():
    assert sums.add(2, 2) == 5
"""


def _mutant(old: str, new: str, survives: str = "") -> Mutant:
    return Mutant("m", FILE, old, new, "It breaks.", (TESTS,), survives)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench on a tree of one module and its tests."""
    source = tmp_path / "source"
    (source / "tests").mkdir(parents=True)
    (source / FILE).write_text(SUMS, encoding="utf-8")
    (source / TESTS).write_text(CHECKS, encoding="utf-8")
    monkeypatch.setattr("tests.mutants.runner.FILES", (FILE,))
    monkeypatch.setattr("tests.mutants.runner.SUITE_SECONDS", 300)
    copy = Copy(tmp_path / "copy", source)
    yield Bench(copy, {}, {f"{TESTS}::test_wrong_anyway"})
    copy.close()


@pytest.mark.slow
def test_the_killed_and_the_unharmed_are_told_apart(bench: Bench) -> None:
    whole = (bench.copy.root / FILE).read_bytes()
    killed = bench.try_out(_mutant("a + b", "a - b"))
    assert (killed.outcome, killed.by) == (KILLED, f"{TESTS}::test_add")
    assert bench.try_out(_mutant("a + b", "b + a")).outcome == SURVIVED
    assert bench.try_out(_mutant("a * b", "b + a")).outcome == STALE
    assert (bench.copy.root / FILE).read_bytes() == whole
    assert bench.fail_anyway([f"{TESTS}::test_add"]) == set()
    assert bench.fail_anyway([f"{TESTS}::test_add", f"{TESTS}::test_wrong_anyway"]) == bench.failing
    assert bench.try_out(_mutant("def add(a, b):", "def add(a, b, *, c):")).by == f"{TESTS}::test_add"


@pytest.mark.slow
def test_one_that_never_ends_is_killed_by_its_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.mutants.runner.SUITE_SECONDS", 10)
    assert bench.try_out(_mutant("n -= 1", "n += 1")).outcome == TIMED_OUT


@pytest.mark.slow
def test_one_with_which_nothing_can_be_collected_is_none(bench: Bench) -> None:
    result = bench.try_out(_mutant("def count(n):", "def count(n=nothing_of_that_name):"))
    assert (result.outcome, result.by) == (BROKEN, f"collecting {TESTS}")


@pytest.mark.parametrize(
    ("result", "survives", "wrong"),
    [
        (Result("m", KILLED, "a test"), "", ""),
        (Result("m", TIMED_OUT, "a test"), "", ""),
        (Result("m", SURVIVED), "because", ""),
        (Result("m", SURVIVED), "", "survived"),
        (Result("m", KILLED, "a test"), "because", "explains"),
        (Result("m", STALE, "gone"), "", "gone"),
        (Result("m", BROKEN, "so"), "because", "so"),
    ],
)
def test_what_is_a_problem(result: Result, survives: str, wrong: str) -> None:
    said = problem(_mutant("a", "b", survives), result)
    assert (wrong in said) if wrong else said == ""


def test_results_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "mutants.json"
    assert load(path) == {}
    one = Result("m", KILLED, "a test", 1.5, "key")
    save(path, [one])
    assert load(path) == {"m": one}
