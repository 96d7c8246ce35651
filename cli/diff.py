"""`vcledger diff`: what changed between two moments, by quantity.

Called by `cli.main`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from cli import render
from cli.common import (
    ClusterOption,
    DbOption,
    Model,
    ModelOption,
    NamespaceOption,
    Output,
    OutputOption,
    SchedulerArgsOption,
    cache_config,
    fail,
    kind_named,
    opened,
)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("diff")(diff)


def diff(
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="Only nodes, jobs, tasks, queues or volumes")
    ] = None,
    from_: Annotated[str | None, typer.Option("--from", metavar="WHEN", help="The earlier moment")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="WHEN", help="The later one. Default: the end")] = None,
    namespace: NamespaceOption = None,
    model: ModelOption = Model.v111,
    scheduler_args: SchedulerArgsOption = None,
    output: OutputOption = Output.table,
    db: DbOption = None,
    cluster: ClusterOption = None,
) -> None:
    """What changed in the cache between two moments, one quantity a line. Exits 0 whether or not anything did."""
    from vcledger.diff import diff as changes_between

    if from_ is None:
        fail("from when? give --from WHEN, and --to WHEN unless it is the end")
    if output not in (Output.table, Output.json, Output.yaml):
        fail(f"`vcledger diff` prints table, json or yaml, not {output.value}")
    plural = kind_named(kind) if kind is not None else None
    with opened(db) as ledger:
        where = ledger.cluster(cluster)
        first, last = ledger.position(from_, where), ledger.position(to, where)
        before = ledger.cache(first, cluster=where, model=model.value, config=cache_config(scheduler_args))
        after = ledger.cache(last, cluster=where, model=model.value, config=cache_config(scheduler_args))
        changes = changes_between(before, after, kind=plural, namespace=namespace)
        times = [render.moment(ledger.observed_at(position)) for position in (first, last)]
    if output is not Output.table:
        render.data([render.change(change) for change in changes], output)
        return
    typer.echo(f"from position {first} ({times[0]}) to position {last} ({times[1]}): {render.count(changes, 'change')}")
    render.changes(changes, "BEFORE", "AFTER", present=("added", "removed"))
