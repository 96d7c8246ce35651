"""The table of mutants fits the tree: each still applies, and changes one line of Python."""

from __future__ import annotations

import json

import pytest

from tests.mutants.model import Mutant, NotApplicable, mutated
from tests.mutants.report import PAGE
from tests.mutants.runner import KILLERS, ROOT
from tests.mutants.table import MUTANTS, named

PACKAGES = {
    "vcledger/scheduler/": 40,
    "projections/": 40,
    "eventstore/": 40,
    "vcledger/runtime/": 1,
    "volcano/objects/": 1,
}
"""Where the bugs are, and how many there are at least: those of the two last are bugs of the loop that commits what the
scheduler decides, and of the units that the projections count in."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.id)
def test_it_applies_and_what_comes_out_is_python(mutant: Mutant) -> None:
    """When this fails the line has changed: write the mutant anew for it."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert mutated(mutant, text) != text
    assert all((ROOT / suite.partition("::")[0]).exists() for suite in mutant.suites)


def test_ids_are_one_each_and_every_package_has_its_share() -> None:
    assert len({mutant.id for mutant in MUTANTS}) == len(MUTANTS)
    for start, least in PACKAGES.items():
        assert sum(mutant.file.startswith(start) for mutant in MUTANTS) >= least, start
    assert all(mutant.file.startswith(tuple(PACKAGES)) for mutant in MUTANTS)


def test_each_change_is_another() -> None:
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)


def test_the_page_and_the_killers_are_of_this_table() -> None:
    """When this fails: make mutants."""
    rows = [line.split(" | ")[0].removeprefix("| ") for line in PAGE.read_text(encoding="utf-8").splitlines()]
    ids = [mutant.id for mutant in MUTANTS]
    assert [row for row in rows if row in set(ids)] == ids
    killers = json.loads((ROOT / KILLERS).read_text(encoding="utf-8"))
    assert set(killers) <= set(ids)
    assert [id_ for id_ in ids if id_ not in killers and not named(id_).survives] == []


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("nowhere", "x", "0 places"),
        ("twice", "x", "2 places"),
        ("once = 1", "once = 1\n", "lines"),
        ("once = 1\ntwice = twice", "one = 1\nx = 2", "changes 2 lines"),
        ("once = 1", "once = ", "does not compile"),
    ],
)
def test_what_does_not_fit_is_told(old: str, new: str, why: str) -> None:
    mutant = Mutant("m", "file.py", old, new, "", ())
    with pytest.raises(NotApplicable, match=why):
        mutated(mutant, "once = 1\ntwice = twice\n")
