"""`vcledger diff`: what changed between two moments, by quantity.

Owns the options and the table of changes. Must not hold logic. Called by `cli.main`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer

from cli import complete, render
from cli.common import (
    ClusterOption,
    DataOutput,
    DataOutputOption,
    DbOption,
    ModelOption,
    SchedulerArgsOption,
    ScopeOption,
    did_you_mean,
    fail,
    kind_named,
    moment_text,
    moments_between,
    opened,
    parse_target,
    ways,
)
from cli.naming import SecondWord, joined


class Wanted(NamedTuple):
    """What is compared; None: everything."""

    kind: str | None
    namespace: str | None
    name: str | None


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("diff")(diff)


def diff(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND[/NAME]",
            help="Only nodes, jobs, tasks, queues or volumes, or one of them; a pod also as NS/NAME",
            autocompletion=complete.kind_of_cache,
        ),
    ] = None,
    name: SecondWord = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="WHEN", help="The earlier moment", autocompletion=complete.moment)
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="WHEN", help="The later one. Default: the end", autocompletion=complete.moment),
    ] = None,
    namespace: ScopeOption = None,
    model: ModelOption = None,
    scheduler_args: SchedulerArgsOption = None,
    output: DataOutputOption = DataOutput.table,
    db: DbOption = None,
    cluster: ClusterOption = None,
) -> None:
    """What changed in the cache between two moments, one quantity a line. Exits 0 whether or not anything did."""
    from vcledger.diff import NoSuchName
    from vcledger.diff import diff as changes_between

    if from_ is None:
        fail("from when? give --from WHEN, and --to WHEN unless it is the end")
    wanted = asked_for(target and joined(target, name), namespace)
    with opened(db) as ledger:
        where = ledger.cluster(cluster)
        positions = [moment.position for moment in moments_between(ledger, from_, to, where)]
        how, config = ways(ledger, where, model, scheduler_args)
        before, after = (ledger.cache(at, cluster=where, model=how.value, config=config) for at in positions)
        try:
            changes = changes_between(before, after, kind=wanted.kind, namespace=wanted.namespace, name=wanted.name)
        except NoSuchName as error:
            fail(f"{target} is there at neither moment{did_you_mean(wanted.name or '', error.names)}")
        first, last = (moment_text(ledger, at, where) for at in positions)
    if output is not DataOutput.table:
        render.data([render.change(change) for change in changes], output)
        return
    typer.echo(f"from {first} to {last}: {render.count(changes, 'change')}")
    render.changes(changes, "BEFORE", "AFTER", present=("added", "removed"))


def asked_for(target: str | None, namespace: str | None) -> Wanted:
    """KIND, KIND/NAME or KIND/NS/NAME; NS/NAME is a pod, as in `log`."""
    if target is None or "/" not in target:
        return Wanted(None if target is None else kind_named(target), namespace, None)
    kind, inside, name = parse_target(target)
    if inside and namespace and inside != namespace:
        fail(f"the target names namespace {inside}, -n names {namespace}: give one of them")
    return Wanted(kind or "tasks", inside or namespace, name)
