"""How one replay is shown: the lines of its report, with their colours on a terminal.

Owns the layout. Must not hold logic. Called by `cli.replay`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from cli import render

if TYPE_CHECKING:
    from vcledger.replay.report import ReplayResult
    from vcledger.replay.told import Told

STYLES = {"head": "bold", "plain": "", "divergence": "bold yellow", "note": "dim"}


def show(result: ReplayResult) -> None:
    """Prints the report."""
    from vcledger.replay.told import told

    block: list[Told] = []
    for line in [*told(result), None]:
        if line is not None and line.style == "table":
            block.append(line)
            continue
        if block:
            _table(block)
            block = []
        if line is not None:
            _line(line)


def _line(line: Told) -> None:
    text = render.printable(line.cells[0])
    if not sys.stdout.isatty() or not STYLES[line.style]:
        typer.echo(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False).print(Text(text, style=STYLES[line.style]))


def _table(block: list[Told]) -> None:
    header, *rows = (line.cells for line in block)
    if not sys.stdout.isatty():
        render.table(header, rows)
        return
    from rich.console import Console
    from rich.table import Table

    drawn = Table(box=None, header_style="bold", pad_edge=False)
    for name in header:
        drawn.add_column(name, no_wrap=True)
    for row in rows:
        drawn.add_row(*(render.printable(cell) for cell in row))
    Console(markup=False, highlight=False).print(drawn)
