"""The search for the smallest plan that still fails."""

from __future__ import annotations

import pytest

from vcledger.sim import plan as plans
from vcledger.sim.plan import Plan
from vcledger.sim.shrink import smallest


@pytest.mark.parametrize("seed", range(5))
def test_only_what_the_failure_needs_is_left(seed: int) -> None:
    plan = plans.draw(seed, 60)
    faults = plan.faults[3], plan.faults[17]
    doing = plan.doings[20]

    def fails(tried: Plan) -> bool:
        return all(fault in tried.faults for fault in faults) and doing in tried.doings

    small = smallest(plan, fails, runs_max=2000)
    assert small.faults == faults and small.doings == (doing,)
    assert (small.seed, small.safety) == (plan.seed, plan.safety)


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
