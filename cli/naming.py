"""A thing named in two words, as kubectl has it: `why pod NAME` for `why pod/NAME`.

Owns the joining of the two. Must not know kinds. Called by `cli.why`, `cli.log` and `cli.diff`.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from cli import complete
from cli.common import fail

SecondWord: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="The name, where the first word is a kind alone: pod NAME",
        autocompletion=complete.second_word,
    ),
]


def joined(first: str, second: str | None) -> str:
    """`KIND/NAME` of a kind and a name; the first word alone where there is no second."""
    if second is None:
        return first
    if "/" in first:
        fail(f"{first} names one already: leave {second} out, or ask twice")
    return f"{first}/{second}"
