"""`vcledger drift`: the mirrored cache against the exact one, by quantity, and where each difference began.

Owns the options and the table of differences. Must not hold logic. Called by `cli.main`.
"""

from __future__ import annotations

import typer

from cli import render
from cli.common import (
    AtOption,
    ClusterOption,
    DataOutput,
    DataOutputOption,
    DbOption,
    Model,
    ModelOption,
    SchedulerArgsOption,
    fail,
    moment_at,
    moment_text,
    opened,
    ways,
)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("drift")(drift)


def drift(
    at: AtOption = None,
    model: ModelOption = None,
    scheduler_args: SchedulerArgsOption = None,
    output: DataOutputOption = DataOutput.table,
    db: DbOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Where Volcano's cache, mirrored with its bugs, has drifted from what the API server holds: by quantity, with the
    position of the event where each difference began. A drift is a finding about Volcano, not a failed check: exits 0.
    """
    from vcledger.drift import drift as drifted

    if model is Model.exact:
        fail("the exact cache does not drift from itself: --model volcano-1.10 or volcano-1.11")
    with opened(db) as ledger:
        where = ledger.cluster(cluster)
        position = moment_at(ledger, at, where).position
        how, config = ways(ledger, where, model or Model.v111, scheduler_args)
        found = drifted(ledger, position, cluster=where, model=how.value, config=config)
        began = {each.began: render.moment(ledger.observed_at(each.began, where)) for each in found}
        title = f"{how.value} against exact at {moment_text(ledger, position, where)}"
    if output is not DataOutput.table:
        rows = [
            {**render.change(each.change, "mirror", "exact"), "began": each.began, "began_at": began[each.began]}
            for each in found
        ]
        render.data(rows, output)
        return
    typer.echo(f"{title}: {render.count(found, 'quantity', 'quantities')} drifted" if found else f"{title}: no drift")
    if found:
        headers = ("KIND", "NAME", "QUANTITY", "MIRROR", "EXACT", "BEGAN", "TIME")
        words = ("only in the exact", "only in the mirror")
        cells = render.change_rows([each.change for each in found], present=words)
        rows_ = [(*cell, each.began, began[each.began]) for cell, each in zip(cells, found, strict=True)]
        render.table(headers, rows_)
