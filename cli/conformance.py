"""`vcledger conformance FILE...`: golden vectors and scenarios.

Owns the options and the lines of its report. Must not hold logic. Called by `cli.main`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.common import CHECK_FAILED, Model

LINES_SHOWN = 20
"""How many reasons of one file are printed."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("conformance")(conformance)


def conformance(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Golden vectors (.json), scenarios (.jsonl), or folders")
    ],
    model: Annotated[
        Model | None, typer.Option("--model", help="Run vectors under this model, not that of their Volcano version")
    ] = None,
    postgres: Annotated[
        str | None,
        typer.Option(
            "--postgres",
            metavar="URL",
            help="A PostgreSQL server for the storage scenarios that need one: each gets a new database, dropped after",
            show_default=False,
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Name every file, not only those that failed")
    ] = False,
) -> None:
    """Runs golden vectors and scenarios: a vector's whole state is compared after each step, a scenario's facts where
    it states them. What cannot be run here is counted apart.

    Ends with `N passed, N failed`. Exits 1 when a file failed, also when it does not follow its format.
    """
    from vcledger.conformance import FAILED, PASSED
    from vcledger.conformance_files import NOT_HERE, check, files

    counts = {PASSED: 0, FAILED: 0, NOT_HERE: 0}
    for path in files(paths):
        outcome = check(path, model.value if model is not None else None, postgres)
        counts[outcome.verdict] += 1
        if verbose or outcome.verdict != PASSED:
            typer.echo(f"{path}: {outcome.verdict} ({outcome.checked} of {outcome.steps} steps checked)")
            for line in outcome.lines[:LINES_SHOWN]:
                typer.echo(f"  {line}")
            if len(outcome.lines) > LINES_SHOWN:
                typer.echo(f"  and {len(outcome.lines) - LINES_SHOWN} more")
    if counts[NOT_HERE]:
        typer.echo(f"{counts[NOT_HERE]} cannot be run here")
    typer.echo(f"{counts[PASSED]} passed, {counts[FAILED]} failed")
    if counts[FAILED]:
        raise typer.Exit(CHECK_FAILED)
