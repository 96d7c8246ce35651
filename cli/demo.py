"""`vcledger demo`: imports the example recordings and walks through the answers.

Owns the printing of the walk. Must not know what the steps are: `vcledger.demo` lists them. Called by `cli.main`.
"""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from cli.common import fail
from vcledger.demo import FOLDER, Step, steps


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("demo")(demo)


def demo(
    db: Annotated[
        Path | None,
        typer.Option("--db", metavar="PATH", help="Keep the demo's ledger here. Default: a temporary one"),
    ] = None,
) -> None:
    """Import three example recordings and ask why three pods were pending."""
    if db is not None:
        if db.exists():
            fail(f"{db} exists: name a new file for the demo's ledger, or remove it")
        if not db.parent.is_dir():
            fail(f"the folder {db.parent} is not there: make it first")
        walk(steps(), str(db))
        typer.echo(f"\nThe ledger is {db}. Go on with: vcledger log pod/mem-hog-w-0 --cluster capacity --db {db}")
        return
    with tempfile.TemporaryDirectory(prefix="vcledger-demo-") as folder:
        walk(steps(), str(Path(folder) / "demo.db"))
    typer.echo("\n`vcledger demo --db demo.db` keeps the ledger, to go on with.")


def walk(walked: list[Step], db: str) -> None:
    """Says, shows and runs each step as the command that a person would type."""
    from cli.main import app

    typer.echo(f"Each step is a command as one would type it in {FOLDER.parent}, with VCLEDGER_DB naming the ledger.")
    for number, step in enumerate(walked, 1):
        typer.echo(f"\n--- {number}. {step.says}")
        typer.echo(f"$ vcledger {shlex.join(short(word) for word in step.command)}")
        code = app([*step.command, "--db", db], standalone_mode=False)
        if code:
            fail(f"step {number} of the demo ended with {code}", code)


def short(word: str) -> str:
    """The path of an example recording without the place where the package is installed."""
    return (
        str(Path(*path.parts[path.parts.index("recordings") :])) if "recordings" in (path := Path(word)).parts else word
    )
