"""`vcledger check [--at WHEN]`: the invariants of the design over a ledger.

Owns the options and the lines of its report. Must not hold logic. Called by `cli.main`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from cli import render
from cli.common import (
    CHECK_FAILED,
    AtOption,
    ClusterOption,
    DataOutput,
    DataOutputOption,
    DbOption,
    moment_at,
    note,
    opened,
)

if TYPE_CHECKING:
    from vcledger.testing.invariants import Verdict


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("check")(check)


def check(
    at: AtOption = None,
    cluster: ClusterOption = None,
    output: DataOutputOption = DataOutput.table,
    db: DbOption = None,
) -> None:
    """Checks the twelve invariants over the whole record, or up to a moment. Exits 1 when one is broken.

    Each is held, broken (with the position where it first was) or not applicable to what the ledger holds. Of a ledger
    that was pruned a note says what cannot be looked at any more.
    """
    from vcledger.testing.invariants import check_ledger, limits

    with opened(db) as ledger:
        name = ledger.cluster(cluster)
        moment = moment_at(ledger, at, name)
        render.status(f"checking {ledger.store.head():,} events ...")
        try:
            verdicts = check_ledger(ledger, position=moment.position, cluster=name)
        finally:
            render.status("")
        note(*limits(ledger, name))
    if output is DataOutput.table:
        report(verdicts)
    else:
        render.data([as_data(one) for one in verdicts], output)
    if any(one.broken for one in verdicts):
        raise typer.Exit(CHECK_FAILED)


def report(verdicts: list[Verdict]) -> None:
    """A line for each invariant, then the count."""
    rows = [
        (
            one.invariant.number,
            one.invariant.name,
            f"broken at {one.position}" if one.broken else one.outcome,
            one.text or one.invariant.says,
        )
        for one in verdicts
    ]
    render.table(("NO", "INVARIANT", "OUTCOME", "WHAT"), rows)
    broken = sum(one.broken for one in verdicts)
    held = sum(one.outcome == "held" for one in verdicts)
    typer.echo(f"{held} held, {broken} broken, {len(verdicts) - held - broken} not applicable")


def as_data(verdict: Verdict) -> dict[str, object]:
    """A verdict as data."""
    return {
        "number": verdict.invariant.number,
        "name": verdict.invariant.name,
        "says": verdict.invariant.says,
        "outcome": verdict.outcome,
        "position": verdict.position or None,
        "text": verdict.text,
        "looked_at": verdict.seen,
    }
