"""`vcledger state`: the whole cache as JSON, in the shape of the golden vectors' `expected`.

Called by `cli.main`.
"""

from __future__ import annotations

import typer

from cli import render
from cli.common import (
    AtOption,
    ClusterOption,
    DbOption,
    Model,
    ModelOption,
    Output,
    OutputOption,
    SchedulerArgsOption,
    cache_config,
    fail,
    opened,
)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("state")(state)


def state(
    at: AtOption = None,
    model: ModelOption = Model.v111,
    scheduler_args: SchedulerArgsOption = None,
    output: OutputOption = Output.json,
    db: DbOption = None,
    cluster: ClusterOption = None,
) -> None:
    """The whole cache at a moment as JSON: nodes, jobs, tasks, queues, priority classes, pending work."""
    from projections.cache import state_json

    if output not in (Output.json, Output.yaml):
        fail(f"`vcledger state` prints json or yaml, not {output.value}")
    with opened(db) as ledger:
        where = ledger.cluster(cluster)
        render.data(
            state_json(
                ledger.cache(
                    ledger.position(at, where), cluster=where, model=model.value, config=cache_config(scheduler_args)
                )
            ),
            output,
        )
