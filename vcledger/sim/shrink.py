"""The smallest plan that still fails: doings and faults are left out as long as the failure stays.

Owns the search. Must not know what a failure is. Called by `vcledger.sim.simulate` for a plan that failed.

Zeller and Hildebrandt's ddmin, first over the faults, then over what users do, until a round leaves nothing out or the
budget of runs is spent. Any part of a plan is a plan, so nothing has to be repaired on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from vcledger.sim.plan import Plan

T = TypeVar("T")


class _Budget:
    """How many runs are left."""

    def __init__(self, runs: int) -> None:
        self.left = runs

    def spend(self) -> bool:
        """Takes one; False when there is none."""
        self.left -= 1
        return self.left >= 0


def smallest(plan: Plan, fails: Callable[[Plan], bool], *, runs_max: int = 200) -> Plan:
    """A plan that fails as `plan` does, from which no single fault or doing can be left out, if the runs suffice."""
    budget = _Budget(runs_max)
    while True:
        before = len(plan.faults) + len(plan.doings)
        plan = _with(plan, "faults", _ddmin(plan.faults, _tried(plan, "faults", fails), budget))
        plan = _with(plan, "doings", _ddmin(plan.doings, _tried(plan, "doings", fails), budget))
        if budget.left <= 0 or len(plan.faults) + len(plan.doings) == before:
            return plan


def _with(plan: Plan, field: str, value: Sequence[T]) -> Plan:
    return msgspec.structs.replace(plan, **{field: tuple(value)})


def _tried(plan: Plan, field: str, fails: Callable[[Plan], bool]) -> Callable[[Sequence[T]], bool]:
    return lambda some: fails(_with(plan, field, some))


def _ddmin(items: Sequence[T], fails: Callable[[Sequence[T]], bool], budget: _Budget) -> Sequence[T]:
    """The items less all chunks, halves first, then smaller ones, without which it still fails."""
    size = len(items)
    while size >= 1 and items:
        start = 0
        while start < len(items):
            rest = [*items[:start], *items[start + size :]]
            if not budget.spend():
                return items
            if fails(rest):
                items = rest
            else:
                start += size
        size //= 2
    return items
