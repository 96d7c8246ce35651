"""`vcledger record`: a real API server into the ledger, as it happens.

Owns the options, the status line and the end by signals. Must not know how anything is recorded: `vcledger.record`
does. Called by `cli.main`.
"""

from __future__ import annotations

import random
import signal
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import render
from cli.common import (
    CHECK_FAILED,
    INTERRUPTED,
    DbOption,
    KeepEnvOption,
    KeepLastAppliedOption,
    KeepManagedFieldsOption,
    NoSnapshotsOption,
    fail,
    storage_of,
)
from cli.running import (
    ClusterNameOption,
    ContextOption,
    ForOption,
    KubeconfigOption,
    ListenOption,
    run,
    seconds_of,
    shown,
)

if TYPE_CHECKING:
    from vcledger.record.page import Page
    from vcledger.record.recorder import Options, Outcome, Recorder, Standing
    from vcledger.runtime.wire import WirePort

PROBLEMS_SHOWN = 2
WATCH_BUFFER_BYTES = 4 << 20


KindsOption = Annotated[
    list[str] | None,
    typer.Option("-k", "--kind", metavar="KIND", help="Record only these kinds: pods,nodes,... Default: all"),
]
NamespacesOption = Annotated[
    list[str] | None,
    typer.Option("-n", "--namespace", metavar="NS", help="Only these namespaces, and what is in none"),
]
SelectorsOption = Annotated[
    list[str] | None,
    typer.Option("-l", "--selector", metavar="KIND:LABELS", help="Of a kind only what has these labels"),
]
RetainOption = Annotated[
    str | None, typer.Option("--retain", metavar="AGE", help="Drop what is older, such as 14d or 36h")
]
MaxSizeOption = Annotated[
    str | None, typer.Option("--max-size", metavar="SIZE", help="Drop the oldest beyond it, such as 10GiB")
]
IdleOption = Annotated[
    str, typer.Option("--idle", metavar="TIME", help="Silence after which a watch is taken for hung")
]
AbsentOption = Annotated[
    str, typer.Option("--absent", metavar="TIME", help="How often a kind is looked for that is not installed")
]
PageOption = Annotated[int, typer.Option("--page", min=1, max=10_000, metavar="N", help="Objects in a page of a list")]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", min=0, metavar="N", help="Of the jitter of waits. Default: drawn, and logged"),
]
TakeOverOption = Annotated[bool, typer.Option("--take-over", help="Take the place of a recorder that still has it")]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("record")(record)


def record(
    db: DbOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    cluster: ClusterNameOption = None,
    kinds: KindsOption = None,
    namespaces: NamespacesOption = None,
    selectors: SelectorsOption = None,
    retain: RetainOption = None,
    max_size: MaxSizeOption = None,
    listen: ListenOption = None,
    lasting: ForOption = None,
    idle: IdleOption = "150s",
    absent: AbsentOption = "60s",
    page: PageOption = 500,
    seed: SeedOption = None,
    take_over: TakeOverOption = False,
    keep_managed_fields: KeepManagedFieldsOption = False,
    keep_env: KeepEnvOption = False,
    keep_last_applied: KeepLastAppliedOption = False,
    no_snapshots: NoSnapshotsOption = False,
) -> None:
    """Record a cluster: list and watch of every kind that the ledger knows, until it is told to end.

    It only reads (get, list, watch), and never secrets. What it has seen is durable before it goes on; run again, it
    goes on where it was. Gaps, failures and versions that expired are events of the log too. SIGTERM and Ctrl-C end it
    when what was seen is stored.
    """
    from vcledger.record.recorder import Options
    from vcledger.record.scope import scopes

    wanted = scopes(words(kinds), words(namespaces), selectors or [])
    port = connected(context, kubeconfig)
    options = Options(
        wanted,
        seed=random.SystemRandom().randrange(1 << 32) if seed is None else seed,
        page=page,
        idle_seconds=seconds_of("--idle", idle),
        absent_seconds=seconds_of("--absent", absent),
        storage=storage_of(keep_managed_fields, keep_env, keep_last_applied),
        snapshots=not no_snapshots,
        retain_seconds=None if retain is None else int(seconds_of("--retain", retain)),
        bytes_max=None if max_size is None else bytes_of("--max-size", max_size),
        take_over=take_over,
        server=port.server,
        version=version("vcledger"),
    )
    end = None if lasting is None else seconds_of("--for", lasting)
    name = cluster or port.cluster_name or "default"
    outcome, caught = recorded(db, name, port, options, listen, end)
    port.close()
    say_how_it_ended(outcome, caught)


def recorded(
    db: str | None, name: str, port: WirePort, options: Options, listen: str | None, end: float | None
) -> tuple[Outcome, int]:
    """The recording, its page and its status line beside it, for `end` seconds (None: until it is told). Returns how it
    ended, and the signal that ended it, or 0."""
    from vcledger.record.recorder import Recorder

    with shown() as (say, show):
        recorder = Recorder(db, name, port, options, told=say)
        lists = render.plural(len(options.scopes), "list")
        say(f"recording {port.server} as cluster {name}: {lists} (seed {options.seed})")
        return run(
            recorder,
            page=None if listen is None else partial(served, recorder, listen),
            end=end,
            say=say,
            show=lambda: show(status(recorder.standing())),
        )


def served(recorder: Recorder, listen: str) -> Page:
    """Its page."""
    from vcledger.record.page import Page

    return Page(recorder, listen)


def connected(context: str | None, kubeconfig: Path | None) -> WirePort:
    """The way to the API server."""
    from vcledger.runtime.access import find_access
    from vcledger.runtime.wire import WirePort

    return WirePort(find_access(kubeconfig, context), buffer_bytes=WATCH_BUFFER_BYTES)


def say_how_it_ended(outcome: Outcome, caught: int) -> None:
    """The last line, and the exit code: 0 ended by SIGTERM or --for, 1 when something was lost or went wrong, 130 by
    Ctrl-C."""
    if outcome.problem or outcome.lost:
        lost = f"; {render.plural(outcome.lost, 'event')} seen and not stored" if outcome.lost else ""
        fail(f"the recording ended: {outcome.problem or 'the ledger refused to the end'}{lost}", CHECK_FAILED)
    typer.echo(f"ended: {render.plural(outcome.stored, 'event')} stored, up to position {outcome.position}")
    if caught == signal.SIGINT:
        raise typer.Exit(INTERRUPTED)


# --- what is shown ------------------------------------------------------------------------------------------------


def status(standing: Standing) -> str:
    """`3 of 14 watched | 1,204 events, 12/s, position 1,310 | 2.1 MB | 0 waiting`, and what is wrong."""
    parts = [
        f"{standing.watching} of {standing.scopes} watched",
        f"{standing.stored:,} events, {standing.rate:.0f}/s, position {standing.position:,}",
        f"{standing.waiting:,} waiting",
    ]
    if standing.ledger_bytes:
        parts.insert(2, render.size(standing.ledger_bytes))
    if standing.problem:
        parts.append(f"the ledger refuses: {standing.problem}")
    parts += [f"{title}: {problem}" for title, problem in list(standing.problems.items())[:PROBLEMS_SHOWN]]
    return " | ".join(" ".join(part.split()) for part in parts)


# --- what people write --------------------------------------------------------------------------------------------


def words(given: list[str] | None) -> list[str]:
    """Options that may be repeated and may name several by commas."""
    return [word for text in given or () for word in text.split(",") if word]


def bytes_of(option: str, text: str) -> int:
    """Bytes of `10GiB`, `500MB`, `10Gi`, `1000000`."""
    from volcano.objects.quantity import QuantityInvalid, value

    bare: Any = text.strip().removesuffix("B")
    try:
        size = value(bare)
    except QuantityInvalid:
        size = 0
    if size <= 0:
        fail(f"{option} {text}: give a size, such as 10GiB or 500MB")
    return size
