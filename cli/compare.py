"""`vcledger compare DUMP`: our cache against Volcano's own dump, by quantity.

Owns the options and the table of differences. Must not hold logic. Called by `cli.main`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import render
from cli.common import (
    CHECK_FAILED,
    AtOption,
    ClusterOption,
    DataOutput,
    DataOutputOption,
    DbOption,
    Model,
    ModelOption,
    SchedulerArgsOption,
    moment_at,
    moment_text,
    note,
    opened,
    ways,
)

if TYPE_CHECKING:
    from vcledger.compare import Comparison
    from vcledger.ledger import Ledger


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("compare")(compare)


def compare(
    dump: Annotated[Path, typer.Argument(metavar="DUMP", help="A cache dump of Volcano; .gz and .zst too")],
    at: AtOption = None,
    model: ModelOption = None,
    scheduler_args: SchedulerArgsOption = None,
    output: DataOutputOption = DataOutput.table,
    db: DbOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Our cache against Volcano's own dump of the same moment. Without --at the moment is that of the marker that
    speaks of the file, else the second in a name such as snapshot-1795960699.json; without --scheduler-args a
    scheduler-args.txt beside the dump is read. Tasks that only the scheduler knows of are listed apart, with what they
    explain.

    Exits 1 when anything else differs.
    """
    from vcledger.compare import compare as compared
    from vcledger.sources import volcano_dump

    with opened(db) as ledger:
        where = ledger.cluster(cluster)
        parsed = volcano_dump.read(dump)
        position = moment_at(ledger, at if at is not None else marked(ledger, dump, where), where).position
        how, config = ways(ledger, where, model, scheduler_args or beside(dump))
        result = compared(parsed, ledger.cache(position, cluster=where, model=how.value, config=config))
        against = f"{how.value} at {moment_text(ledger, position, where)}"
    if output is DataOutput.table:
        report(result, against)
    else:
        render.data(as_data(result, position, how), output)
    if not result.equal:
        raise typer.Exit(CHECK_FAILED)


def beside(dump: Path) -> Path | None:
    """The scheduler's command line, where a recording keeps it in the dump's folder."""
    path = dump.parent / "scheduler-args.txt"
    return path if path.is_file() else None


def marked(ledger: Ledger, dump: Path, cluster: str) -> str | int:
    """The moment of a dump for which none was given: the position of the marker of its file, else the second in the
    name that Volcano gives a dump, else the end of the record."""
    from vcledger.at import format_time
    from vcledger.errors import UnknownMarker
    from vcledger.sources.dump import time_in_name

    try:
        return ledger.position(f"marker:{dump.name}", cluster)
    except UnknownMarker:
        moment = time_in_name(dump.name)
    if moment is None:
        note(f"no marker speaks of {dump.name}: compared with the end of the record (--at names another moment)")
        return ledger.position(None, cluster)
    note(f"no marker speaks of {dump.name}: compared with the second that its name says (--at names another moment)")
    return format_time(moment)


def report(result: Comparison, against: str) -> None:
    """The comparison for people."""
    typer.echo(
        f"{result.dump}: {result.nodes} nodes, {result.jobs} jobs, {result.tasks} tasks, compared with {against}"
    )
    if result.in_flight:
        explained = render.count(result.explained, "difference")
        typer.echo(f"known only to the scheduler: {render.count(result.in_flight, 'task')}, explaining {explained}")
        rows = [(task.name, task.status, task.node or "-") for task in result.in_flight]
        render.table(("NAME", "STATUS", "NODE"), rows)
    if result.equal:
        typer.echo("equal in everything else" if result.in_flight else "equal")
        return
    typer.echo(f"{render.count(result.differences, 'difference')}:")
    hint(result)
    render.changes(result.differences, "OURS", "VOLCANO", present=("only in Volcano's", "only in ours"))


def hint(result: Comparison) -> None:
    """What to try when all that differs is how many volumes are counted."""
    counted = {change.quantity.partition(".")[2] for change in result.differences}
    if all(name.startswith("attachable-volumes-") for name in counted):
        typer.echo(
            "only attachable volumes differ: was the scheduler started with --ignored-provisioners, or another CSI "
            "flag? give its command line with --scheduler-args FILE",
            err=True,
        )


def as_data(result: Comparison, position: int, model: Model) -> dict[str, object]:
    """The comparison as data."""
    return {
        "dump": result.dump,
        "position": position,
        "model": model.value,
        "equal": result.equal,
        "compared": {"nodes": result.nodes, "jobs": result.jobs, "tasks": result.tasks},
        "only_the_scheduler_knows": [task._asdict() for task in result.in_flight],
        "explained": [render.change(change, "ours", "volcano") for change in result.explained],
        "differences": [render.change(change, "ours", "volcano") for change in result.differences],
    }
