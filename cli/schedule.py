"""`vcledger schedule`: the bind flow on a real API server.

Owns the options, the status line and the end by signals. Must not know how anything is scheduled: `vcledger.schedule`
does. Called by `cli.main`.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import render
from cli.common import CHECK_FAILED, INTERRUPTED, DbOption, fail
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
    from vcledger.runtime.wire import WirePort
    from vcledger.schedule.page import Page
    from vcledger.schedule.scheduler import Options, Outcome, Scheduler, State

NO_LOCK = "none"


SchedulerNameOption = Annotated[
    str, typer.Option("--scheduler-name", metavar="NAME", help="Schedule pods with this spec.schedulerName")
]
DefaultQueueOption = Annotated[
    str, typer.Option("--default-queue", metavar="NAME", help="The queue of PodGroups that name none")
]
NodeSelectorOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node-selector", metavar="LABEL:VALUE", help="Only nodes with this label, or one of several. Default: all"
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Volcano's configuration; without it Volcano's default one"),
]
MinimumFeasibleNodesOption = Annotated[
    int,
    typer.Option("--minimum-feasible-nodes", min=1, metavar="N", help="Look at all nodes of up to so many"),
]
MinimumPercentageOption = Annotated[
    int,
    typer.Option(
        "--minimum-percentage-nodes-to-find", min=1, max=100, metavar="N", help="Find at least so many in 100"
    ),
]
PercentageOption = Annotated[
    int,
    typer.Option(
        "--percentage-nodes-to-find",
        min=0,
        max=100,
        metavar="N",
        help="Stop looking after so many nodes in 100 that would do. 0: the fewer the more there are",
    ),
]
LockOption = Annotated[
    str,
    typer.Option("--lock", metavar="NS/NAME", help="The leader lock: a Lease; none: run without one, alone"),
]
PeriodOption = Annotated[str, typer.Option("--period", metavar="TIME", help="Between two cycles, such as 1s")]
BindTimeoutOption = Annotated[
    str, typer.Option("--bind-timeout", metavar="TIME", help="How long a pod's volumes may take to be bound")
]
SettleOption = Annotated[
    str,
    typer.Option("--settle", metavar="TIME", help="How long a request without an answer may still come through"),
]
WorkersOption = Annotated[int, typer.Option("--workers", min=1, max=256, metavar="N", help="Requests at a time")]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", min=0, metavar="N", help="Of ties and of the jitter of waits. Default: drawn, and said"),
]
BesideOption = Annotated[
    bool,
    typer.Option(
        "--beside",
        help="Another scheduler makes the first queues, and writes the status of queues, and of PodGroups that "
        "have neither pods nor a Job",
    ),
]
TakeOverOption = Annotated[
    bool, typer.Option("--take-over", help="Take the place of a scheduler that still has the ledger's role")
]
NoSnapshotsOption = Annotated[
    bool, typer.Option("--no-snapshots", help="Make no snapshots of the cache; reads of the past then take longer")
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("schedule")(schedule)


def schedule(
    db: DbOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    cluster: ClusterNameOption = None,
    scheduler_name: SchedulerNameOption = "vcledger",
    default_queue: DefaultQueueOption = "default",
    node_selector: NodeSelectorOption = None,
    config: ConfigOption = None,
    minimum_feasible_nodes: MinimumFeasibleNodesOption = 100,
    minimum_percentage: MinimumPercentageOption = 5,
    percentage: PercentageOption = 0,
    lock: LockOption = "kube-system/vcledger",
    period: PeriodOption = "1s",
    bind_timeout: BindTimeoutOption = "10m",
    settle: SettleOption = "60s",
    workers: WorkersOption = 16,
    listen: ListenOption = None,
    lasting: ForOption = None,
    seed: SeedOption = None,
    beside: BesideOption = False,
    take_over: TakeOverOption = False,
    no_snapshots: NoSnapshotsOption = False,
) -> None:
    """Schedule pods: gangs, their volumes, their binds, on a real API server, until it is told to end.

    Each decision and each answer is an event of the ledger, stored before anything is done about it. Started again, it
    settles what was in flight by asking. SIGTERM and Ctrl-C end it when what is out has been answered. Of several with
    the same lock one schedules, and the others wait for it.
    """
    from vcledger.runtime.access import find_access
    from vcledger.runtime.wire import WirePort
    from vcledger.schedule.scheduler import Options
    from vcledger.scheduler.session.conf import DEFAULT_CONF, read_conf
    from vcledger.scheduler.session.sampling import Sampling

    refuse_no_labels(node_selector or ())
    session = read_conf(DEFAULT_CONF if config is None else text_of(config))
    options = Options(
        scheduler_name=scheduler_name,
        lock=None if lock == NO_LOCK else lock,
        period_seconds=seconds_of("--period", period),
        bind_timeout_seconds=seconds_of("--bind-timeout", bind_timeout),
        settle_seconds=seconds_of("--settle", settle),
        workers=workers,
        seed=random.SystemRandom().randrange(1 << 32) if seed is None else seed,
        snapshots=not no_snapshots,
        take_over=take_over,
        default_queue=default_queue,
        node_selectors=tuple(node_selector or ()),
        session=replace(session, sampling=Sampling(minimum_feasible_nodes, minimum_percentage, percentage)),
        beside=beside,
    )
    end = None if lasting is None else seconds_of("--for", lasting)
    port = WirePort(find_access(kubeconfig, context))
    lock_port = WirePort(find_access(kubeconfig, context), request_seconds=options.timing.renew_seconds / 2)
    outcome, caught = scheduled(db, cluster, (port, lock_port), options, listen, end)
    for one in (port, lock_port):
        one.close()
    say_how_it_ended(outcome, caught)


def scheduled(
    db: str | None,
    cluster: str | None,
    ports: tuple[WirePort, WirePort],
    options: Options,
    listen: str | None,
    end: float | None,
) -> tuple[Outcome, int]:
    """The scheduler on its port and its lock's, its page and its status line beside it, for `end` seconds (None: until
    it is told). Returns how it ended, and the signal that ended it, or 0."""
    from vcledger.schedule.scheduler import Scheduler

    port, lock_port = ports
    with shown() as (say, show):
        name = cluster or port.cluster_name or "default"
        scheduler = Scheduler(db, name, port, options, lock_port=lock_port, told=say)
        say(f"{port.server} as cluster {name}, scheduler name {options.scheduler_name} (seed {options.seed})")
        return run(
            scheduler,
            page=None if listen is None else partial(served, scheduler, listen),
            end=end,
            say=say,
            show=lambda: show(status(scheduler.state())),
        )


def refuse_no_labels(selectors: Sequence[str]) -> None:
    """Ends the command when one of them is no LABEL:VALUE."""
    for one in selectors:
        label, colon, _ = one.partition(":")
        if not label or not colon:
            fail(f"--node-selector {one}: give LABEL:VALUE, such as volcano.sh/role:train")


def text_of(path: Path) -> str:
    """What is in the file."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}")


def served(scheduler: Scheduler, listen: str) -> Page:
    """Its page."""
    from vcledger.schedule.page import Page

    return Page(scheduler, listen)


def say_how_it_ended(outcome: Outcome, caught: int) -> None:
    """The last line, and the exit code: 0 ended by SIGTERM or --for, 1 when something went wrong, 130 by Ctrl-C."""
    if outcome.problem:
        fail(f"the scheduler ended: {outcome.problem}", CHECK_FAILED)
    typer.echo(f"ended: {render.plural(outcome.bound, 'pod')} bound, log up to position {outcome.position}")
    if caught == signal.SIGINT:
        raise typer.Exit(INTERRUPTED)


def status(state: State) -> str:
    """`leading | 10 of 12 watched | 30 bound, 0 failed | 4 on their way, 2 for volumes, 1 to resync`"""
    if not state.leading:
        return f"waiting: {state.holder or 'nobody'} has the lock"
    parts = [
        "leading" if state.synced else "listing",
        f"{state.watching} of {state.kinds} watched",
        f"{state.bound:,} bound, {state.failed:,} failed",
        f"{state.tasks:,} on their way, {state.volumes:,} for volumes, {state.resync:,} to resync",
        f"position {state.position:,}",
    ]
    if state.problem:
        parts.append(f"the ledger refuses: {state.problem}")
    parts += [f"{title}: {problem}" for title, problem in list(state.problems.items())[:2]]
    return " | ".join(" ".join(part.split()) for part in parts)
