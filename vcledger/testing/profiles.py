"""Hypothesis profiles: how much a run of the property tests looks at.

Owns their names and sizes. Needs hypothesis. Called by this project's tests, by the pytest plugin where it is asked to
(`vcledger_profiles = true` among pytest's options), and by whoever's conftest wants them:

    register()      # dev, ci, nightly

dev is for the edit-and-run loop, and what is taken when nothing says otherwise. ci is what `make test` has time for,
and is taken where CI is set, as build servers do; it draws the same examples in each run, so that no change is refused
for what another draw would have found as well. dev and nightly draw anew, and nightly looks longest: a state machine
takes 100,000 steps then. None of them fails because the machine is slow.
HYPOTHESIS_PROFILE, or pytest's --hypothesis-profile, chooses one. A test gives the share that suits it in ci, and
`share` and `machine` scale that by the profile.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILE_VARIABLE = "HYPOTHESIS_PROFILE"
SCALES: dict[str, float] = {"dev": 0.4, "ci": 1.0, "nightly": 100.0}
"""What the number of examples in a test is multiplied by."""

STEPS = 40
NIGHTLY_STEPS = 100_000


def chosen() -> str:
    """The profile's name by the environment: what HYPOTHESIS_PROFILE says, where it is one of ours; else ci where CI is
    set, else dev."""
    name = os.environ.get(PROFILE_VARIABLE, "")
    if name in SCALES:
        return name
    return "ci" if os.environ.get("CI") else "dev"


def register() -> None:
    """Registers the profiles with hypothesis and loads the chosen one."""
    for name, scale in SCALES.items():
        settings.register_profile(
            name,
            max_examples=max(10, int(100 * scale)),
            stateful_step_count=STEPS,
            deadline=None,
            print_blob=True,
            derandomize=name == "ci",
            suppress_health_check=[HealthCheck.too_slow],
        )
    settings.load_profile(chosen())


def current() -> str:
    """The profile that is loaded; the chosen one where it is none of ours."""
    name = settings.get_current_profile_name()
    return name if name in SCALES else chosen()


def share(examples: int) -> int:
    """How many examples a test runs whose share in ci is `examples`."""
    return max(5, int(examples * SCALES[current()]))


def machine(examples: int = 25, steps: int = STEPS, *, nightly: int = NIGHTLY_STEPS) -> settings:
    """The settings of a state machine whose share in ci is so many examples of so many steps; at night they come to
    `nightly` steps."""
    examples = nightly // steps if current() == "nightly" else share(examples)
    return settings(max_examples=examples, stateful_step_count=steps, deadline=None, print_blob=True)


__all__ = ["PROFILE_VARIABLE", "SCALES", "chosen", "current", "machine", "register", "share"]
