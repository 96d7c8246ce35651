"""`vcledger replay`: the recorded inputs run again offline, as they were or with changes, and what differs.

Owns the options. Must not hold logic. Called by `cli.main`.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import complete, render, replay_report
from cli.common import (
    CHECK_FAILED,
    ClusterOption,
    DataOutput,
    DataOutputOption,
    Model,
    ModelOption,
    SchedulerArgsOption,
    fail,
)
from cli.replay_options import (
    AddNodesOption,
    DaskOption,
    DbsOption,
    OutOption,
    RemoveNodeOption,
    ResumeOption,
    ScaleOption,
    SeedsOption,
    SetOption,
    VariantOption,
    WorkersOption,
    base_options,
    read_conf_text,
    read_text,
    refuse_unmatched,
    traces_of,
)
from cli.replaying import as_data, carry_out, failed, show_table, tell_notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vcledger.replay.variants import Job, Ran


class Mode(StrEnum):
    """Whose decisions take effect."""

    shadow = "shadow"
    free = "free"


class Expect(StrEnum):
    """What a run is checked for."""

    same = "same"


FromOption = Annotated[
    str | None, typer.Option("--from", metavar="WHEN", help="Begin with the state there. Default: with nothing")
]
ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="WHEN", help="Up to there. Default: the end", autocompletion=complete.moment),
]
ModeOption = Annotated[
    Mode | None,
    typer.Option(
        "--mode",
        help="shadow: at each recorded decision, what would the session do; free: its decisions take effect. "
        "Default: shadow, free where something is changed",
        show_default=False,
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Volcano's configuration file. Default: Volcano's own default"),
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", min=0, metavar="N", help="Decides between equals. Default: 0", show_default=False),
]
ExpectOption = Annotated[
    Expect | None, typer.Option("--expect", help="same: exit 1 where the replay differs from the record")
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("replay")(replay)


def replay(
    db: DbsOption = None,
    cluster: ClusterOption = None,
    from_: FromOption = None,
    to: ToOption = None,
    mode: ModeOption = None,
    config: ConfigOption = None,
    seed: SeedOption = None,
    add_nodes: AddNodesOption = None,
    remove_node: RemoveNodeOption = None,
    set_: SetOption = None,
    scale_requests: ScaleOption = None,
    variant: VariantOption = None,
    seeds: SeedsOption = None,
    workers: WorkersOption = None,
    dask: DaskOption = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    expect: ExpectOption = None,
    model: ModelOption = None,
    scheduler_args: SchedulerArgsOption = None,
    output: DataOutputOption = DataOutput.table,
) -> None:
    """Runs what was recorded again, offline, with Volcano's actions and plugins, and shows what differs.

    With changes (nodes, queues, jobs, requests, another configuration) it is a what-if; variants stand side by side.
    """
    from vcledger.replay.engine import ReplayPlan
    from vcledger.replay.variants import make_jobs, read_seeds, read_variant
    from vcledger.schedulerargs import config_of, sampling_of

    variants = [read_variant(text, read_conf_text) for text in variant or ()]
    options = base_options(add_nodes, remove_node, set_, scale_requests)
    changed = bool(options) or any(one.options for one in variants)
    if mode is Mode.shadow and changed:
        fail("--mode shadow follows the record: what is changed needs --mode free")
    refuse_together(seed, seeds, workers, dask, out, resume=resume)
    given = None if scheduler_args is None else read_text(str(scheduler_args))
    plan = ReplayPlan(
        mode="free" if mode is Mode.free or (mode is None and changed) else "shadow",
        conf="" if config is None else read_conf_text(str(config)),
        seed=seed or 0,
        model=None if model is None else Model(model).value,
        options=None if given is None else config_of(given),
        sampling=sampling_of(given or ""),
    )
    jobs = make_jobs(
        plan,
        options,
        variants,
        traces_of(db, cluster, from_, to),
        seeds=read_seeds(seeds) if seeds is not None else (),
        out=out,
        resume=resume,
    )
    refuse_unmatched(jobs)
    found = carry_out(jobs, workers=workers, dask=dask)
    show(jobs, found, output)
    end(found, expect)


def end(found: Sequence[Ran], expect: Expect | None) -> None:
    """Ends the command: with an error when a replay failed, or when it is not what it was checked for."""
    code = failed(found) or (CHECK_FAILED if expect is Expect.same and any(map(differs, found)) else 0)
    if code:
        raise typer.Exit(code)
    if expect is Expect.same and not all(map(compared, found)):
        fail("--expect same: nothing could be compared, as the record names no node of any pod", CHECK_FAILED)


def refuse_together(
    seed: int | None, seeds: str | None, workers: int | None, dask: str | None, out: str | None, *, resume: bool
) -> None:
    """Misuse where two options contradict each other."""
    if seed is not None and seeds is not None:
        fail("--seed and --seeds: give one of them")
    if workers is not None and workers > 1 and dask is not None:
        fail("--workers are processes here, --dask is a cluster: give one of them")
    if resume and out is None:
        fail("--resume goes on with results: name them with --out")


def differs(ran: Ran) -> bool:
    """Whether a replay went another way than the record."""
    return ran.result is not None and ran.result.divergence is not None


def compared(ran: Ran) -> bool:
    """Whether there was anything in which a replay could have differed."""
    return ran.result is not None and ran.result.compared > 0


def show(jobs: Sequence[Job], found: Sequence[Ran], output: DataOutput) -> None:
    """Prints one replay in full, or several side by side."""
    if output is not DataOutput.table:
        render.data(as_data(jobs, found), output)
        return
    if len(jobs) == 1 and found[0].result is not None:
        replay_report.show(found[0].result)
        return
    show_table(jobs, found)
    tell_notes(found)
