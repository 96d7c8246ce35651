"""The command `vcledger`, also `kubectl vcledger`: one module a command, listed here, loaded when it is asked for.

Owns the list of commands and the entry. Must not hold logic. Called by the console scripts.
"""

from __future__ import annotations

import io
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from cli.common import PIPE_CLOSED, guarded, silence_stdout
from cli.complete import PROTOCOL

SUMMARIES = {
    "import_": "Import recordings, watches, lists, audit logs, dumps, traces",
    "record": "Record a cluster from its API server",
    "schedule": "Schedule pods on a real API server",
    "get": "Nodes, jobs, tasks, queues, volumes or what waits, at a moment",
    "state": "The whole cache at a moment, as JSON",
    "why": "Why a pod was pending, and what would have let it run",
    "replay": "Run a record again offline, as it was or with changes",
    "log": "The events, one a line",
    "diff": "What changed between two moments",
    "compare": "Hold our cache against a dump of Volcano's",
    "drift": "Where Volcano's cache has drifted from the cluster",
    "conformance": "Run golden vectors and scenarios",
    "verify": "Check the hash chain and the snapshots",
    "check": "Check the twelve invariants over the record",
    "simulate": "Run the scheduler in a simulated cluster with faults",
    "stats": "What the ledger holds, and its size",
    "db": "Migrations, readers, retention of the ledger itself",
    "demo": "Import three example recordings and ask why",
    "completion": "Print the completion script of a shell",
}
"""What the help says of each command, in the width of a terminal of 80 columns, in the order of the help."""

COMMANDS = tuple(SUMMARIES)
"""The modules of the commands: a command has its module's name, less a closing underline."""

HIDDEN = {PROTOCOL: "completion"}
"""Commands that the help leaves out, and their modules."""

MODULES = {name.removesuffix("_"): name for name in COMMANDS} | HIDDEN

KUBECTL_PLUGIN = "kubectl-vcledger"


class LedgerGroup(TyperGroup):
    """The top command. Its `main` is where every error ends as one line, for the entry and for tests alike.

    A command's module is loaded when the command is asked for: most runs need one of them, and most of a short run's
    time is loading modules."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order in which a person meets them."""
        return [name for name in MODULES if name not in HIDDEN]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, None when there is none."""
        if cmd_name not in self.commands and cmd_name in MODULES:
            self.commands.update(commands_of(MODULES[cmd_name]))
        return self.commands.get(cmd_name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`-o=json` and `-n=NS` mean what they mean to kubectl, whose users write them so."""
        if args[:1] == [PROTOCOL]:
            return super().parse_args(ctx, args)  # words that are being typed
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [*map(without_equals, args[:end]), *args[end:]])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """All commands are loaded for a name that is none of them: the error suggests the nearest."""
        if args and args[0] not in MODULES:
            for name in self.list_commands(ctx):
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command. A closed pipe is caught here: the parser would make it exit code 1, a failed check."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            silence_stdout()
            raise typer.Exit(PIPE_CLOSED) from None

    def main(self, *args: Any, **extra: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # an object may hold what the terminal's encoding has not
        standalone = extra.pop("standalone_mode", True)
        code = guarded(partial(super().main, *args, **{**extra, "standalone_mode": False}))
        if standalone:
            sys.exit(code)
        return code


def without_equals(word: str) -> str:
    """`-ojson` for `-o=json`, which our parser would read as the value `=json`."""
    return word[:2] + word[3:] if word.startswith(("-o=", "-n=")) else word


app = typer.Typer(
    name="vcledger",
    cls=LedgerGroup,
    invoke_without_command=True,
    add_completion=False,  # its options take the name of a shell for a command; see `cli.completion`
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    help="A flight recorder and an event-sourced scheduler cache for Volcano, the Kubernetes batch scheduler.",
)


def show_version(wanted: bool) -> None:
    """Prints the version and ends."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"vcledger {version('vcledger')}")
        raise typer.Exit


@app.callback()
def top(
    context: typer.Context,
    version_: Annotated[
        bool,
        typer.Option("--version", help="Print the version and end", callback=show_version, is_eager=True),
    ] = False,
) -> None:
    """A flight recorder and an event-sourced scheduler cache for Volcano, the Kubernetes batch scheduler."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def commands_of(module: str) -> dict[str, Any]:
    """The commands that a module of `cli` adds, by name."""
    of_module = typer.Typer(add_completion=False, rich_markup_mode=None)
    import_module(f"cli.{module}").register(of_module)
    commands = dict(get_group(of_module).commands)
    for command in commands.values():
        command.short_help = SUMMARIES.get(module)
    return commands


def main() -> None:
    """The entry of both console scripts."""
    called_as = Path(sys.argv[0]).name
    app(prog_name="kubectl vcledger" if called_as.startswith(KUBECTL_PLUGIN) else "vcledger")


if __name__ == "__main__":
    main()
