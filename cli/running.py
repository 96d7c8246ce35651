"""What commands share that run until they are told to end.

Owns the status line and how lasting times are written. Must not know what runs. Called by `cli.record`, `cli.schedule`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from cli.common import fail

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@contextmanager
def shown() -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """How to say a line, and how to show the status: on a terminal a line below the others, else not at all; the others
    are flushed at once."""
    if not sys.stdout.isatty():
        yield typer.echo, (lambda status: None)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    with Live(Text(""), console=console, refresh_per_second=4, transient=True) as live:

        def say(line: str) -> None:
            console.print(Text(line), soft_wrap=True)

        yield say, (lambda status: live.update(Text(status, overflow="ellipsis", no_wrap=True)))


def seconds_of(option: str, text: str) -> float:
    """Seconds of `90s`, `15m`, `36h`, `14d`, `2w`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    if found is None or not float(found[1]):
        fail(f"{option} {text}: give a number with s, m, h, d or w, such as 36h or 14d")
    return float(found[1]) * UNITS[found[2]]
