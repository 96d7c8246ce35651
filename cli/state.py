"""`vcledger state`: the whole cache as JSON, in the shape of the golden vectors' `expected`.

Owns the options. Must not hold logic. Called by `cli.main`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from cli import render
from cli.common import (
    AtOption,
    ClusterOption,
    DbOption,
    ModelOption,
    SchedulerArgsOption,
    StateOutput,
    moment_at,
    opened,
    ways,
)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("state")(state)


def state(
    at: AtOption = None,
    model: ModelOption = None,
    scheduler_args: SchedulerArgsOption = None,
    output: Annotated[StateOutput, typer.Option("-o", "--output", help="The form of the answer")] = StateOutput.json,
    db: DbOption = None,
    cluster: ClusterOption = None,
) -> None:
    """The whole cache at a moment as JSON: nodes, jobs, tasks, queues, priority classes, pending work."""
    from projections.cache import state_json

    with opened(db) as ledger:
        where = ledger.cluster(cluster)
        position = moment_at(ledger, at, where).position
        how, config = ways(ledger, where, model, scheduler_args)
        render.data(state_json(ledger.cache(position, cluster=where, model=how.value, config=config)), output)
