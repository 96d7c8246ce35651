"""`vcledger simulate --seed N`: one simulated world, its digest, and what was broken.

Owns the printing. Must not know what a world is made of. Called by `cli.main`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import render
from cli.common import CHECK_FAILED, DataOutput, DataOutputOption, fail

if TYPE_CHECKING:
    from vcledger.sim.plan import Plan
    from vcledger.sim.simulate import SimResult


SeedOption = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Everything that happens is drawn from it")]
CountOption = Annotated[int, typer.Option("--count", min=1, metavar="N", help="So many worlds, from this seed on")]
StepsOption = Annotated[
    int, typer.Option("--steps", min=1, metavar="N", help="About so many doings of users, half as many faults")
]
FaultsOption = Annotated[
    str,
    typer.Option(
        "--faults", metavar="NAMES", help="all, none, or names and groups, by commas; an unknown one lists them"
    ),
]
CrowdedOption = Annotated[
    bool, typer.Option("--crowded", help="Queues, priorities and more pods than there is room for: it evicts")
]
OnceOption = Annotated[bool, typer.Option("--once", help="Run each plan once instead of comparing two runs")]
KeepOption = Annotated[
    Path, typer.Option("--keep", metavar="FOLDER", help="Where a failure leaves its plan and its ledger")
]
PlanOption = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="Run this plan, which a failure left, instead")
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("simulate")(simulate)


def simulate(
    seed: SeedOption = 1,
    count: CountOption = 1,
    steps: StepsOption = 40,
    faults: FaultsOption = "all",
    crowded: CrowdedOption = False,
    once: OnceOption = False,
    keep: KeepOption = Path("simulated"),
    plan: PlanOption = None,
    output: DataOutputOption = DataOutput.table,
) -> None:
    """Runs the scheduler against a simulated API server with faults, then without, until all is at rest.

    The same seed gives the same log. Exits 1 when something did not hold.
    """
    from vcledger.sim import simulate as sim
    from vcledger.sim.faults import named
    from vcledger.testing.invariants import broken_lines, broken_rules

    chosen = named(faults)
    results = []
    for number in range(seed, seed + (1 if plan else count)):
        if plan is not None:
            result = sim.run_plan(_read(plan), check=broken_lines, quick=broken_rules, twice=not once, keep=keep)
        else:
            result = sim.simulate(
                number,
                steps,
                chosen,
                check=broken_lines,
                quick=broken_rules,
                twice=not once,
                keep=keep,
                crowd=crowded,
            )
        results.append(result)
        if output is DataOutput.table:
            report(result, keep)
    if output is not DataOutput.table:
        render.data([as_data(result) for result in results], output)
    if not all(result.ok for result in results):
        raise typer.Exit(CHECK_FAILED)


def _read(path: Path) -> Plan:
    import msgspec

    from vcledger.sim.plan import decode

    try:
        return decode(path.read_bytes())
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}")
    except msgspec.MsgspecError as error:
        fail(f"{path} is no plan: {error}")


def report(result: SimResult, keep: Path) -> None:
    """A world in a few lines."""
    typer.echo(f"seed {result.seed}  digest {result.digest}")
    hit = ", ".join(f"{name} {count}" for name, count in result.hits.items()) or "none"
    typer.echo(
        f"  {result.events} events, {result.binds} of {result.pods} pods with a node, {result.crashes} crashes, "
        f"at rest {result.rest:.0f} s after the faults"
    )
    typer.echo(f"  faults: {hit}")
    for line in result.broken:
        typer.echo(f"  broken: {line}")
    if result.broken:
        folder = keep / f"seed-{result.seed}"
        typer.echo(f"  the plan and the ledger are in {folder}")
        typer.echo(f"  made smaller, it runs again with: vcledger conformance {folder / f'seed-{result.seed}.jsonl'}")


def as_data(result: SimResult) -> dict[str, object]:
    """A result as data."""
    return {
        "seed": result.seed,
        "ok": result.ok,
        "digest": result.digest,
        "broken": list(result.broken),
        "events": result.events,
        "binds": result.binds,
        "pods": result.pods,
        "crashes": result.crashes,
        "simulated_seconds": result.seconds,
        "rest_seconds": result.rest,
        "hits": result.hits,
    }
