"""`vcledger verify`: the chain, the versions, the snapshots against a rebuild.

Owns the lines of its report. Must not hold logic. Called by `cli.main`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli import render
from cli.common import CHECK_FAILED, DataOutput, DataOutputOption, DbOption, fail, opened
from eventstore.types import LedgerCorrupt

if TYPE_CHECKING:
    from vcledger.verify import Verification


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("verify")(verify)


def verify(
    every_snapshot: Annotated[
        bool, typer.Option("--every-snapshot", help="Compare each snapshot with a rebuild, not only the ends of chains")
    ] = False,
    output: DataOutputOption = DataOutput.table,
    db: DbOption = None,
) -> None:
    """Checks the hash chain, the streams' versions, and the snapshots against a rebuild. Exits 1 on a finding."""
    from vcledger.verify import verify as verified

    try:
        with opened(db) as ledger:
            result = verified(ledger, every_snapshot=every_snapshot, progress=render.so_far)
    except LedgerCorrupt as error:
        fail(str(error), CHECK_FAILED)
    finally:
        render.status("")
    if output is DataOutput.table:
        report(result)
    else:
        render.data(as_data(result), output)
    if not result.ok:
        raise typer.Exit(CHECK_FAILED)


def report(result: Verification) -> None:
    """What was checked, then what was found."""
    log = result.log
    typer.echo(f"{log.events} events in {log.batches} batches, {log.streams} streams: head hash {log.head_hash or '-'}")
    if log.pruned_to:
        typer.echo(f"pruned up to position {log.pruned_to}, where {log.kept} events were kept")
    left = f", {result.passed_over} between them not compared" if result.passed_over else ""
    void = f", {result.void} of other versions passed over" if result.void else ""
    typer.echo(f"{render.count(result.checks, 'snapshot')} compared with a rebuild{left}{void}")
    rows = [(finding.rule, finding.position or "-", finding.message) for finding in log.findings]
    rows += [
        ("snapshot", check.position, f"{check.projection}: {check.problem}") for check in result.checks if not check.ok
    ]
    if rows:
        render.table(("RULE", "POSITION", "FINDING"), rows)
    typer.echo("verified" if result.ok else f"NOT verified: {render.count(rows, 'finding')}")


def as_data(result: Verification) -> dict[str, object]:
    """The verification as data."""
    log = result.log._asdict()
    findings = [finding._asdict() for finding in log.pop("findings")]
    return {
        "ok": result.ok,
        **log,
        "findings": findings,
        "snapshots_compared": [{**check._asdict(), "ok": check.ok} for check in result.checks],
        "snapshots_passed_over": result.passed_over,
        "snapshots_void": result.void,
    }
