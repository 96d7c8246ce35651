"""All mutants.

Owns the list. Must not know how they are run. Called by the runner and the table's tests.
"""

from __future__ import annotations

from tests.mutants import eventstore, projections, scheduler
from tests.mutants.model import Mutant

MUTANTS: tuple[Mutant, ...] = (*scheduler.MUTANTS, *projections.MUTANTS, *eventstore.MUTANTS)


def named(id_: str) -> Mutant:
    """The mutant of that id. KeyError when there is none."""
    for mutant in MUTANTS:
        if mutant.id == id_:
            return mutant
    raise KeyError(id_)
