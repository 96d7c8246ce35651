"""The options of `vcledger replay` that make several replays of one, and how they become jobs.

Owns the options and their help. Must not hold logic: `vcledger.replay.variants` reads them. Called by `cli.replay`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.common import fail, moments_between, note, one_line, opened

if TYPE_CHECKING:
    from vcledger.replay.variants import Job, Trace

DbsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--db",
        metavar="PATH|URL",
        help="The ledger to replay; several are replayed each by itself. Default: $VCLEDGER_DB, else ./vcledger.db",
        show_default=False,
    ),
]
AddNodesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--add-nodes",
        metavar="COUNT:RESOURCES",
        help="What if: nodes on top, such as 10:cpu=16,memory=64Gi,nvidia.com/gpu=8,label/zone=a",
        show_default=False,
    ),
]
RemoveNodeOption = Annotated[
    list[str] | None,
    typer.Option("--remove-node", metavar="NAME", help="What if: without this node, or gpu-*", show_default=False),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="What if: queue/NAME.weight=3, queue/NAME.capability.cpu=8, job/NS/NAME.minMember=2, podgroup/NS/NAME.…",
        show_default=False,
    ),
]
ScaleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scale-requests",
        metavar="FACTOR",
        help="What if: pods ask for so much, 0.8 of everything or cpu=0.8,memory=0.5",
        show_default=False,
    ),
]
VariantOption = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="'NAME: OPTIONS'",
        help="One more replay beside the base, such as 'more: --add-nodes 10:cpu=16,memory=64Gi --seed 3'",
        show_default=False,
    ),
]
SeedsOption = Annotated[
    str | None, typer.Option("--seeds", metavar="1..5", help="One replay for each of these seeds; also 1,2,7")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        max=256,
        metavar="N",
        help="Replays at a time, on processes; processes that share one shadow replay. Default: one replay at a time, "
        "a long shadow replay on the machine's cores",
        show_default=False,
    ),
]
DaskOption = Annotated[
    str | None, typer.Option("--dask", metavar="ADDRESS", help="Replay on the Dask cluster of this scheduler")
]
OutOption = Annotated[
    str | None,
    typer.Option(
        "--out", metavar="PATH|URL", help="Keep the result, a ledger, here; of several replays: a folder for them"
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on with the results at --out of a replay that was interrupted")
]


def base_options(
    add: Sequence[str] | None, remove: Sequence[str] | None, set_: Sequence[str] | None, scale: Sequence[str] | None
) -> dict[str, tuple[str, ...]]:
    """The what-if options of the base run, by option."""
    given = {"--add-nodes": add, "--remove-node": remove, "--set": set_, "--scale-requests": scale}
    return {option: tuple(texts) for option, texts in given.items() if texts}


def read_text(path: str) -> str:
    """A file of options."""
    return Path(path).read_text(encoding="utf-8", errors="replace")


def read_conf_text(path: str) -> str:
    """A file of --config. An empty one is refused: Volcano goes on with the configuration that it had before."""
    text = read_text(path)
    if not text.strip():
        fail(f"--config {path}: it is empty; leave --config out for Volcano's default")
    return text


def traces_of(dbs: Sequence[str] | None, cluster: str | None, from_: str | None, to: str | None) -> list[Trace]:
    """The ledgers to replay, each with the part that --from and --to mean there."""
    from vcledger.ledger import DB_DEFAULT, DB_VARIABLE
    from vcledger.replay.variants import Trace

    named = list(dbs or [os.environ.get(DB_VARIABLE) or DB_DEFAULT])
    twice = [db for db in named if named.count(db) > 1]
    if twice:
        fail(f"--db {twice[0]} is given twice")
    found = []
    for db in named:
        with opened(db) as ledger:
            where = ledger.cluster(cluster)
            first, last = 0, None
            if from_ is not None:
                first = moments_between(ledger, from_, to, where)[0].position
            if to is not None:
                last = ledger.position(to, where)
            found.append(Trace(db, where, first, last))
    return found


def refuse_unmatched(jobs: Sequence[Job]) -> None:
    """Misuse where a change finds nothing in any of the traces, a line for each; a note for all else that a change does
    not find in a trace."""
    from vcledger.replay.unmatched import idle_everywhere, unmatched
    from vcledger.replay.variants import Trace

    of_traces = []
    for db in dict.fromkeys(job.db for job in jobs):
        of_db = [job for job in jobs if job.db == db]
        changes = dict.fromkeys(change for job in of_db for change in job.plan.changes)
        plan = of_db[0].plan
        with opened(db) as ledger:
            trace = Trace(db, ledger.cluster(plan.cluster), plan.from_position, plan.to_position)
            of_traces.append(unmatched(ledger, trace, changes) if changes else [])
    idle = idle_everywhere(of_traces)
    for one in idle[:-1]:
        typer.echo(f"error: {one_line(one.line)}", err=True)
    if idle:
        fail(idle[-1].line)
    note(*dict.fromkeys(one.line for found in of_traces for one in found))
