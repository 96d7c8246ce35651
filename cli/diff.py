"""`vcledger diff`: what changed between two moments, by quantity.

Called by `cli.main`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from cli import complete, render
from cli.common import (
    ClusterOption,
    DataOutput,
    DataOutputOption,
    DbOption,
    ModelOption,
    NamespaceOption,
    SchedulerArgsOption,
    fail,
    kind_named,
    moment_text,
    moments_between,
    opened,
    ways,
)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("diff")(diff)


def diff(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]", help="Only nodes, jobs, tasks, queues or volumes", autocompletion=complete.kind
        ),
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="WHEN", help="The earlier moment", autocompletion=complete.moment)
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="WHEN", help="The later one. Default: the end", autocompletion=complete.moment),
    ] = None,
    namespace: NamespaceOption = None,
    model: ModelOption = None,
    scheduler_args: SchedulerArgsOption = None,
    output: DataOutputOption = DataOutput.table,
    db: DbOption = None,
    cluster: ClusterOption = None,
) -> None:
    """What changed in the cache between two moments, one quantity a line. Exits 0 whether or not anything did."""
    from vcledger.diff import diff as changes_between

    if from_ is None:
        fail("from when? give --from WHEN, and --to WHEN unless it is the end")
    plural = kind_named(kind) if kind is not None else None
    with opened(db) as ledger:
        where = ledger.cluster(cluster)
        positions = [moment.position for moment in moments_between(ledger, from_, to, where)]
        how, config = ways(ledger, where, model, scheduler_args)
        before, after = (ledger.cache(at, cluster=where, model=how.value, config=config) for at in positions)
        changes = changes_between(before, after, kind=plural, namespace=namespace)
        first, last = (moment_text(ledger, at, where) for at in positions)
    if output is not DataOutput.table:
        render.data([render.change(change) for change in changes], output)
        return
    typer.echo(f"from {first} to {last}: {render.count(changes, 'change')}")
    render.changes(changes, "BEFORE", "AFTER", present=("added", "removed"))
