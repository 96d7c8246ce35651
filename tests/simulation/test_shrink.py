"""The search for the smallest plan that still fails."""

from __future__ import annotations

import msgspec
import pytest

from vcledger.sim import plan as plans
from vcledger.sim.plan import Plan, sound
from vcledger.sim.shrink import smallest


@pytest.mark.parametrize("seed", range(5))
def test_only_what_the_failure_needs_is_left(seed: int) -> None:
    plan = plans.draw(seed, 60)
    faults = plan.faults[3], plan.faults[17]
    doing = plan.doings[20]

    def fails(tried: Plan) -> bool:
        return all(fault in tried.faults for fault in faults) and doing in tried.doings

    small = smallest(plan, fails, runs_max=5000)
    assert small.faults == faults and small.seed == plan.seed
    assert fails(small) and sound(small)
    for one in small.doings:
        less = msgspec.structs.replace(small, doings=tuple(other for other in small.doings if other is not one))
        assert not (fails(less) and sound(less))
    last = max(one.at for one in (*small.faults, doing))
    assert small.safety == last


def test_what_is_not_sound_is_made_smaller_all_the_same() -> None:
    """A plan by hand may be about a pod that nobody could place."""
    plan = plans.draw(1, 30)
    pods = tuple(doing for doing in plan.doings if doing.do == "run")
    small = smallest(msgspec.structs.replace(plan, doings=pods), lambda tried: pods[1] in tried.doings)
    assert small.doings == (pods[1],) and not sound(small)


def test_a_failure_that_needs_nothing_is_left_with_nothing() -> None:
    small = smallest(plans.draw(1), lambda _: True)
    assert (small.faults, small.doings) == ((), ())


def test_it_ends_when_the_runs_are_spent_with_a_plan_that_fails() -> None:
    plan = plans.draw(1, 60)
    runs = 0

    def fails(tried: Plan) -> bool:
        nonlocal runs
        runs += 1
        return len(tried.faults) > 20

    small = smallest(plan, fails, runs_max=10)
    assert runs <= 10 and len(small.faults) > 20
