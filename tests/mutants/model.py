"""What a mutant is, and how it is put into a file.

Owns the shape and the rule that a mutant changes one line, at one place, of a file that still compiles. Must not know
which mutants there are nor what kills them. Called by the table's tests and the runner.
"""

from __future__ import annotations

import ast
from typing import NamedTuple


class Mutant(NamedTuple):
    """A bug on purpose. `old` stands exactly once in `file` and becomes `new`; of its lines one changes, the others are
    there to find it. `breaks`: what goes wrong then, as a sentence. `suites`: paths of tests, those that should notice
    first. `survives`: why nothing can notice it, where that is so."""

    id: str
    file: str
    old: str
    new: str
    breaks: str
    suites: tuple[str, ...]
    survives: str = ""


class NotApplicable(Exception):
    """The file has moved on: the mutant has to be written anew."""


def mutated(mutant: Mutant, text: str) -> str:
    """The file with the bug in it. NotApplicable unless the old text is there once, the change is one of one line, and
    what comes out is Python."""
    found = text.count(mutant.old)
    if found != 1:
        raise NotApplicable(f"{mutant.id}: {found} places in {mutant.file} read {mutant.old!r}, not 1")
    made = text.replace(mutant.old, mutant.new)
    before, after = text.splitlines(), made.splitlines()
    changed = sum(one != other for one, other in zip(before, after, strict=False))
    if len(before) != len(after) or changed != 1:
        raise NotApplicable(f"{mutant.id}: it changes {changed} lines of {len(before)} to {len(after)}, not one")
    try:
        ast.parse(made)
    except SyntaxError as error:
        raise NotApplicable(f"{mutant.id}: {mutant.file} does not compile with it: {error}") from error
    return made
