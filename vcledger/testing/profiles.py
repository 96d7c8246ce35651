"""Hypothesis profiles: how much a run of the property tests looks at.

Owns their names and sizes. Needs hypothesis. Called by our state machines' tests, and by whoever's conftest wants them:

    register()      # dev, ci, nightly; HYPOTHESIS_PROFILE chooses, ci without it

dev is for the edit-and-run loop. ci is what `make test` has time for. nightly looks longest: a state machine takes
100,000 steps then. A test gives the share that suits it in ci, and `share` scales that by the profile.
"""

from __future__ import annotations

import os

from hypothesis import settings

PROFILE_VARIABLE = "HYPOTHESIS_PROFILE"
SCALES: dict[str, float] = {"dev": 0.4, "ci": 1.0, "nightly": 100.0}
"""What the number of examples in a test is multiplied by."""

STEPS = 40
NIGHTLY_STEPS = 100_000


def chosen() -> str:
    """The profile's name by the environment; ci when it names none of ours."""
    name = os.environ.get(PROFILE_VARIABLE, "ci")
    return name if name in SCALES else "ci"


def register() -> None:
    """Registers the profiles with hypothesis and loads the chosen one."""
    for name, scale in SCALES.items():
        settings.register_profile(
            name,
            max_examples=max(10, int(100 * scale)),
            stateful_step_count=STEPS,
            deadline=None,
            print_blob=name != "dev",
        )
    settings.load_profile(chosen())


def share(examples: int) -> int:
    """How many examples a test runs whose share in ci is `examples`."""
    return max(5, int(examples * SCALES[chosen()]))


def machine(examples: int = 25, steps: int = STEPS) -> settings:
    """The settings of a state machine whose share in ci is so many examples of so many steps; at night they come to
    100,000 steps."""
    if chosen() == "nightly":
        examples = NIGHTLY_STEPS // steps
    else:
        examples = share(examples)
    return settings(max_examples=examples, stateful_step_count=steps, deadline=None)


__all__ = ["PROFILE_VARIABLE", "SCALES", "chosen", "machine", "register", "share"]
