"""The smallest plan that still fails: doings and faults are left out as long as the failure stays.

Owns the search. Must not know what a failure is. Called by `vcledger.sim.simulate` for a plan that failed.

Zeller and Hildebrandt's ddmin, first over the faults, then over whole gangs and nodes, then over all that users do,
until a round leaves nothing out or the budget of runs is spent; then the safety phase ends as soon as it may. Only
sound plans are tried, in which every pod can have a node: any other fails by itself, whatever the scheduler does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from vcledger.sim.clock import SECOND
from vcledger.sim.plan import Doing, Plan, sound

AFTER_SECONDS = (0, 1, 5, 20)
"""How long after the last doing or fault the safety phase is tried to end."""

_GANG = re.compile(r"[a-z]+-\d+(?=-|$)")

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
    if sound(plan):
        fails = _only_sound(fails)
    while True:
        before = len(plan.faults) + len(plan.doings)
        plan = _with(plan, "faults", _ddmin(plan.faults, _tried(plan, "faults", fails), budget))
        plan = _less_units(plan, fails, budget)
        plan = _with(plan, "doings", _ddmin(plan.doings, _tried(plan, "doings", fails), budget))
        if budget.left <= 0 or len(plan.faults) + len(plan.doings) == before:
            return _shorter(plan, fails, budget)


def _less_units(plan: Plan, fails: Callable[[Plan], bool], budget: _Budget) -> Plan:
    """The plan with as few of its gangs and nodes as will do, each with all that is about it."""
    units: dict[str, list[Doing]] = {}
    for doing in plan.doings:
        units.setdefault(_unit(doing), []).append(doing)

    def of(some: Sequence[str]) -> Plan:
        kept = frozenset(some)
        return _with(plan, "doings", [doing for doing in plan.doings if _unit(doing) in kept])

    return of(_ddmin(list(units), lambda some: fails(of(some)), budget))


def _unit(doing: Doing) -> str:
    """What a doing is about: the gang of its name, or the node; of a volume the node that it is on."""
    if doing.kind == "PersistentVolume" and doing.object is not None:
        required = (doing.object["spec"].get("nodeAffinity") or {}).get("required") or {}
        for term in required.get("nodeSelectorTerms") or ():
            return f"node {term['matchExpressions'][0]['values'][0]}"
    if doing.kind in ("Node", "CSINode"):
        return f"node {doing.name}"
    found = _GANG.match(doing.name) if doing.namespace else None
    return found[0] if found is not None else f"{doing.kind} {doing.name}"


def _shorter(plan: Plan, fails: Callable[[Plan], bool], budget: _Budget) -> Plan:
    """The plan with the shortest safety phase tried in which it still fails."""
    last = max((*(doing.at for doing in plan.doings), *(fault.at for fault in plan.faults)), default=0)
    for seconds in AFTER_SECONDS:
        tried = msgspec.structs.replace(plan, safety=last + seconds * SECOND)
        if tried.safety < plan.safety and budget.spend() and fails(tried):
            return tried
    return plan


def _only_sound(fails: Callable[[Plan], bool]) -> Callable[[Plan], bool]:
    return lambda plan: sound(plan) and fails(plan)


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
