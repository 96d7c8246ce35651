"""The tables of the flow's fold: no event stands in two of them, and those in none are left out on purpose."""

from __future__ import annotations

import pkgutil
from collections import Counter
from importlib import import_module

from vcledger import scheduler
from vcledger.scheduler.fold_events import APPLY
from volcano.events.catalog import CATALOG

WITHOUT_EFFECT = {"CycleEnded"}
"""Events of the flow's families that are only told."""


def test_no_event_stands_in_two_tables_and_none_of_a_table_is_left_out() -> None:
    modules = [one.name for one in pkgutil.iter_modules(scheduler.__path__) if one.name.startswith("fold_")]
    tables = [import_module(f"vcledger.scheduler.{name}") for name in modules if name != "fold_events"]
    counts = Counter(event for module in tables for event in getattr(module, "APPLY", {}))
    assert set(counts.values()) == {1}
    assert set(counts) == set(APPLY)


def test_every_event_of_the_flows_families_has_its_place() -> None:
    families = {one.family for one in CATALOG.values() if one.struct in APPLY} - {"observation"}
    named = {one.name for one in CATALOG.values() if one.family in families and one.struct not in APPLY}
    assert named == WITHOUT_EFFECT
