"""`vcledger db upgrade|grant|prune`: migrations, a role that only reads, retention.

Owns the options of its three subcommands. Must not hold logic. Called by `cli.main`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli import complete, render
from cli.common import DbOption, fail, opened

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

group = typer.Typer(help="Look after the ledger itself: migrations, readers, retention.", no_args_is_help=False)


def register(app: typer.Typer) -> None:
    """Adds the group of commands."""
    app.add_typer(group, name="db", rich_help_panel=None)


@group.command(short_help="Bring the ledger up to this version's schema")
def upgrade(db: DbOption = None) -> None:
    """Brings a ledger that an older version made up to this version's schema. Its events stay as they are."""
    with opened(db, read_only=False, upgrade=True) as ledger:
        typer.echo(f"up to date: {ledger.store.head()} events")


@group.command(short_help="Let a PostgreSQL role read the ledger, and nothing more")
def grant(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="A role of the database that is there already")],
    db: DbOption = None,
) -> None:
    """Lets a role of a PostgreSQL database read the ledger, and nothing more: get, why, log and SQL work with it."""
    with opened(db, read_only=False) as ledger:
        ledger.store.grant_reading(role)
    typer.echo(f"{role} can read the ledger")


@group.command(short_help="Drop old events once snapshots cover them")
def prune(
    before: Annotated[
        str | None,
        typer.Option(
            "--before",
            metavar="WHEN",
            help="Drop what is older: position, time, offset (-30d) or marker:NAME",
            autocompletion=complete.moment,
        ),
    ] = None,
    keep_room: Annotated[
        bool, typer.Option("--keep-room", help="Do not give the room back to the disk, which takes a while on SQLite")
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="NAME",
            help="Whose marker is meant, or whose end an offset counts from. What is dropped is of all clusters",
            autocompletion=complete.cluster,
        ),
    ] = None,
    db: DbOption = None,
) -> None:
    """Drops old events once snapshots cover them: every state and the hash chain from there on stay verifiable. A
    snapshot is made where one is missing. What was dropped cannot be brought back.
    """
    if before is None:
        fail("before when? give --before WHEN, such as --before -30d")
    with opened(db, read_only=False) as ledger:
        report = ledger.prune(before, cluster=cluster, reclaim=not keep_room)
        held = "" if report.cut else held_by_its_batch(ledger, before, cluster)
    if not report.cut:
        typer.echo(f"nothing to drop{held}")
        return
    typer.echo(
        f"dropped {report.dropped} events up to position {report.cut}, kept {report.kept} of them that later states "
        f"rest on; {render.size(report.size_before)} before, {render.size(report.size_after)} now"
    )


def held_by_its_batch(ledger: Ledger, before: str, cluster: str | None) -> str:
    """Why nothing goes although something is older: the log cuts between batches only."""
    from vcledger.retention import cut_wanted

    first, wanted = ledger.store.first(), cut_wanted(ledger, before, cluster)
    if wanted < first:
        return ""
    return (
        f": positions {first} to {wanted} are older, but were stored in one batch with what is not, "
        "and a batch goes as one"
    )
