"""What commands share that run until they are told to end.

Owns their common options, the status line, the end by signals, and how lasting times are written. Must not know what
runs. Called by `cli.record` and `cli.schedule`.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

import typer

from cli.common import fail

REFRESH_SECONDS = 0.5

ContextOption = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="The kubeconfig's context. Default: its current one")
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config, else in the cluster"),
]
ClusterNameOption = Annotated[
    str | None,
    typer.Option("--cluster", metavar="NAME", help="What the ledger calls it. Default: as the kubeconfig does"),
]
ListenOption = Annotated[
    str | None, typer.Option("--listen", metavar="HOST:PORT", help="Serve /metrics, /healthz and /readyz there")
]
ForOption = Annotated[str | None, typer.Option("--for", metavar="TIME", help="End after so long, such as 30s or 8h")]

T_co = TypeVar("T_co", covariant=True)


class Process(Protocol[T_co]):
    """What runs: `vcledger.record.recorder.Recorder`, `vcledger.schedule.scheduler.Scheduler`."""

    def run(self) -> T_co: ...

    def stop(self, why: str = "") -> None: ...

    def wait(self, seconds: float) -> bool: ...


class Served(Protocol):
    """Its page."""

    port: int

    def close(self) -> None: ...


def run(
    process: Process[T_co],
    *,
    page: Callable[[], Served] | None,
    end: float | None,
    say: Callable[[str], None],
    show: Callable[[], None],
) -> tuple[T_co, int]:
    """The run, its page and its status line beside it. Returns how it ended, and the signal that ended it, or 0."""
    caught: list[int] = []

    def on_signal(number: int, frame: object) -> None:
        if caught and number == signal.SIGINT:
            raise KeyboardInterrupt  # the second Ctrl-C: at once, whatever is not done yet
        caught.append(number)
        process.stop(signal.Signals(number).name)

    with ExitStack() as stack:
        if page is not None:
            served = page()
            stack.callback(served.close)
            say(f"listening on port {served.port}: /metrics, /healthz, /readyz")
        for number in (signal.SIGTERM, signal.SIGINT):
            stack.callback(signal.signal, number, signal.signal(number, on_signal))
        threading.Thread(target=watch_over, args=(process, end, show), daemon=True).start()
        return process.run(), (caught or [0])[0]


def watch_over(process: Process[object], end: float | None, show: Callable[[], None]) -> None:
    """Shows how it stands, and ends it when its time is over. A thread's life."""
    began = time.monotonic()
    while not process.wait(REFRESH_SECONDS if end is None else min(REFRESH_SECONDS, max(0.01, end))):
        show()
        if end is not None and time.monotonic() - began >= end:
            process.stop("its time was over")


UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@contextmanager
def shown() -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """How to say a line, and how to show the status: on a terminal a line below the others, else not at all; the others
    are flushed at once."""
    if not sys.stdout.isatty():
        yield typer.echo, (lambda status: None)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    with Live(Text(""), console=console, refresh_per_second=4, transient=True) as live:

        def say(line: str) -> None:
            console.print(Text(line), soft_wrap=True)

        yield say, (lambda status: live.update(Text(status, overflow="ellipsis", no_wrap=True)))


def seconds_of(option: str, text: str) -> float:
    """Seconds of `90s`, `15m`, `36h`, `14d`, `2w`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    if found is None or not float(found[1]):
        fail(f"{option} {text}: give a number with s, m, h, d or w, such as 36h or 14d")
    return float(found[1]) * UNITS[found[2]]
