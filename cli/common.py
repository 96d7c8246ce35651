"""What all commands share: options with kubectl's habits, `kind/name`, output forms, and errors as one line.

Owns the way in (options) and the way out (forms, exit codes). Must not know any projection: it only calls functions of
`vcledger`. Called by every module of `cli`.

Exit codes: 0 done, 1 a check found something, 2 misuse or bad input, 130 interrupted, 141 the reader of our output went
away. An error is one line on stderr, never a traceback; VCLEDGER_DEBUG=1 asks for the traceback.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer

from cli import complete
from eventstore.types import EventStoreError

if TYPE_CHECKING:
    from projections.cache import CacheConfig
    from vcledger.gaps import Moment
    from vcledger.ledger import Ledger
    from vcledger.sources.redact import StorageOptions

CHECK_FAILED, MISUSE, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141
DEBUG_VARIABLE = "VCLEDGER_DEBUG"


class Output(StrEnum):
    """The forms of `-o`."""

    table = "table"
    wide = "wide"
    json = "json"
    yaml = "yaml"
    name = "name"


class DataOutput(StrEnum):
    """The forms of `-o` of a command that prints a report."""

    table = "table"
    json = "json"
    yaml = "yaml"


class StateOutput(StrEnum):
    """The forms of `-o` of a command that prints data only."""

    json = "json"
    yaml = "yaml"


class LinesOutput(StrEnum):
    """The forms of `-o` of a command that prints a line for each thing: for people, or as JSON."""

    table = "table"
    json = "json"


class Model(StrEnum):
    """The models of the cache: two mirrors of a real Volcano, and the exact one."""

    v110 = "volcano-1.10"
    v111 = "volcano-1.11"
    exact = "exact"


DbOption = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="PATH|URL",
        help="The ledger: a SQLite file or an SQLAlchemy URL. Default: $VCLEDGER_DB, else ./vcledger.db",
        show_default=False,
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="The cluster. Default: the only one in the ledger",
        autocompletion=complete.cluster,
    ),
]
AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="WHEN",
        help="Position, RFC 3339 time, offset from the end (-90s, -2h, -1d) or marker:NAME. Default: the end",
        autocompletion=complete.moment,
    ),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namespace",
        metavar="NS",
        help="Only this namespace. Default: default",
        autocompletion=complete.namespace,
    ),
]
ScopeOption = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namespace",
        metavar="NS",
        help="Only this namespace. Default: all",
        autocompletion=complete.namespace,
    ),
]
AllNamespacesOption = Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces")]
OutputOption = Annotated[Output, typer.Option("-o", "--output", help="The form of the answer")]
DataOutputOption = Annotated[DataOutput, typer.Option("-o", "--output", help="The form of the answer")]
ModelOption = Annotated[
    Model | None,
    typer.Option(
        "--model",
        help="The cache to rebuild: a mirror of Volcano's, or the exact. Default: volcano-1.11; exact where vcledger "
        "schedules",
    ),
]
KeepManagedFieldsOption = Annotated[bool, typer.Option("--keep-managed-fields", help="Keep metadata.managedFields")]
KeepEnvOption = Annotated[bool, typer.Option("--keep-env", help="Keep the values of environment variables")]
KeepLastAppliedOption = Annotated[
    bool, typer.Option("--keep-last-applied", help="Keep kubectl's last-applied annotation")
]
NoSnapshotsOption = Annotated[
    bool, typer.Option("--no-snapshots", help="Make no snapshots; reads of the past then fold from the start")
]
SchedulerArgsOption = Annotated[
    Path | None,
    typer.Option(
        "--scheduler-args",
        metavar="FILE",
        help="The scheduler's own command line, for the flags that its cache and its sessions depend on"
        " (--ignored-provisioners, ...)",
    ),
]


def storage_of(keep_managed_fields: bool, keep_env: bool, keep_last_applied: bool) -> StorageOptions:
    """What is kept of objects, by the options."""
    from vcledger.sources.redact import StorageOptions

    return StorageOptions(
        keep_managed_fields=keep_managed_fields, keep_env=keep_env, keep_last_applied=keep_last_applied
    )


class Failure(Exception):
    """Ends a command with one line on stderr and an exit code."""

    def __init__(self, message: str, code: int = MISUSE) -> None:
        super().__init__(message)
        self.code = code


def fail(message: str, code: int = MISUSE) -> NoReturn:
    """Ends the command: `message` as one line on stderr, then `code` (2 misuse, 1 failed check)."""
    raise Failure(message, code)


# --- names and namespaces -----------------------------------------------------------------------------------------


class Target(NamedTuple):
    """What a `kind/name` or `NS/name` argument speaks of; a part that was not given is None."""

    kind: str | None
    namespace: str | None
    name: str


ALIASES: dict[str, str] = {
    "no": "nodes",
    "node": "nodes",
    "nodes": "nodes",
    "po": "tasks",
    "pod": "tasks",
    "pods": "tasks",
    "task": "tasks",
    "tasks": "tasks",
    "job": "jobs",
    "jobs": "jobs",
    "pg": "jobs",
    "podgroup": "jobs",
    "podgroups": "jobs",
    "vcjob": "jobs",
    "vcjobs": "jobs",
    "q": "queues",
    "queue": "queues",
    "queues": "queues",
    "pv": "volumes",
    "pvc": "volumes",
    "volume": "volumes",
    "volumes": "volumes",
    "persistentvolume": "volumes",
    "persistentvolumes": "volumes",
    "persistentvolumeclaim": "volumes",
    "persistentvolumeclaims": "volumes",
}
"""What people type for a kind of the cache, as with kubectl, to its plural here."""


NEAR_NAMES = 3
NEAR_AMONG_MAX = 20_000
"""Among more names than these the alike ones are not looked for: an error would take seconds."""


def did_you_mean(name: str, names: Iterable[str], *, alike: float = 0.7) -> str:
    """` (did you mean a, b?)` of the names that begin with the one given, then of the most alike; '' of none."""
    from difflib import get_close_matches

    known = list(dict.fromkeys(names))
    begin = sorted(one for one in known if one.startswith(name))[:NEAR_NAMES] if name else []
    near = get_close_matches(name, known, NEAR_NAMES, alike) if len(known) <= NEAR_AMONG_MAX else []
    found = list(dict.fromkeys([*begin, *near]))[:NEAR_NAMES]
    return f" (did you mean {', '.join(found)}?)" if found else ""


def kind_named(word: str) -> str:
    """The cache's kind that a person means: nodes, jobs, tasks, queues or volumes."""
    kind = ALIASES.get(word.lower().partition(".")[0])
    if kind is None:
        near = did_you_mean(word.lower(), ALIASES)
        fail(f"unknown kind {word!r}{near}: use nodes, jobs (podgroups, pg), tasks (pods), queues or volumes (pv, pvc)")
    return kind


def parse_target(text: str) -> Target:
    """`kind/name`, `NS/name` or `name`. A first part that names a kind is a kind; otherwise it is a namespace."""
    first, slash, rest = text.partition("/")
    if not slash:
        if not text:
            fail("an empty name")
        return Target(None, None, text)
    if not first or not rest or rest.count("/") > 1:
        fail(f"{text!r} is neither NAME, KIND/NAME nor NS/NAME")
    if "/" in rest:
        namespace, _, name = rest.partition("/")
        return Target(kind_named(first), namespace, name)
    if first.lower() in ALIASES:
        return Target(ALIASES[first.lower()], None, rest)
    return Target(None, first, rest)


def namespace_filter(namespace: str | None, everywhere: bool) -> str | None:
    """The namespace to show, None for all: kubectl's -n, -A, and `default` without either."""
    if everywhere:
        return None
    return namespace or "default"


# --- the ledger ---------------------------------------------------------------------------------------------------


@contextmanager
def opened(db: str | None, *, read_only: bool = True, create: bool = False, upgrade: bool = False) -> Iterator[Ledger]:
    """The ledger of `--db`, closed at the end."""
    from vcledger.ledger import Ledger

    ledger = Ledger.open(db, create=create, read_only=read_only, upgrade=upgrade)
    try:
        yield ledger
    finally:
        ledger.close()


def moment_at(ledger: Ledger, at: str | int | None, cluster: str) -> Moment:
    """The moment that --at means. Where it lies outside the record or inside a gap of it, a note on stderr says so."""
    from vcledger import gaps

    moment = gaps.moment(ledger, at, cluster)
    note(*gaps.warnings(ledger, moment, cluster))
    return moment


def moments_between(ledger: Ledger, start: str, end: str | None, cluster: str) -> tuple[Moment, Moment]:
    """The moments of --from and --to, with notes on stderr of what the record lacks between them. Misuse where the
    first is after the second."""
    from vcledger import gaps

    first, last = gaps.moment(ledger, start, cluster), gaps.moment(ledger, end, cluster)
    refuse_backwards(ledger, first, last, cluster)
    note(*gaps.warnings_between(ledger, first, last, cluster))
    return first, last


def refuse_backwards(ledger: Ledger, first: Moment, last: Moment, cluster: str) -> None:
    """Misuse where --from is later than --to, by position, or by time where both are times."""
    timed = first.asked is not None and last.asked is not None and first.asked > last.asked
    if timed or first.position > last.position:
        texts = (moment_text(ledger, moment.position, cluster) for moment in (first, last))
        fail("--from is later than --to: {} against {}".format(*texts))


def moment_text(ledger: Ledger, position: int, cluster: str) -> str:
    """`position 1095 (2026-11-29T13:51:53.123Z)`: the time is the newest observed in the cluster up to there."""
    from cli.render import moment

    return f"position {position} ({moment(ledger.observed_at(position, cluster))})"


def note(*lines: str) -> None:
    """Lines on stderr that the answer on stdout should be read with."""
    for line in lines:
        typer.echo(f"note: {one_line(line)}", err=True)


def ways(
    ledger: Ledger, cluster: str, model: Model | None = None, scheduler_args: Path | None = None
) -> tuple[Model, CacheConfig]:
    """The model and the cache's configuration: what is asked for, else what the ledger says of its scheduler."""
    from vcledger.schedulerargs import BadSchedulerArgs, config_of

    by_itself, config = ledger.ways(cluster)
    if scheduler_args is not None:
        try:
            config = config_of(scheduler_args.read_text(encoding="utf-8", errors="replace"))
        except BadSchedulerArgs as error:
            fail(f"--scheduler-args {scheduler_args}: {error}")
    return model or Model(by_itself), config


# --- the way out --------------------------------------------------------------------------------------------------


def one_line(text: object) -> str:
    """A message without line breaks, so that an error stays one line."""
    return " ".join(str(text).split())


def explain_os_error(error: OSError) -> str:
    """What the operating system refused, with the file it is about."""
    what = error.strerror or type(error).__name__
    return f"{error.filename}: {what}" if error.filename is not None else what


HINTS = {
    "ClusterNotNamed": "--cluster NAME",
    "LedgerMissing": "`vcledger import` makes one; --db or VCLEDGER_DB names another",
    "LedgerOutdated": "run `vcledger db upgrade`",
    "NotALedger": "give another one with --db",
}
"""What a command's user can do about an error of the library, which doesn't know of options."""


def outcome_of(error: BaseException) -> tuple[str, int]:
    """The line for stderr ('' for none) and the exit code of an error that ended a command."""
    from vcledger.errors import VcledgerError

    if isinstance(error, Failure):
        return str(error), error.code
    if isinstance(error, BrokenPipeError):
        return "", PIPE_CLOSED
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return "interrupted", INTERRUPTED
    if isinstance(error, VcledgerError | EventStoreError):
        hint = HINTS.get(type(error).__name__)
        code = error.exit_code if isinstance(error, VcledgerError) else MISUSE
        return f"{error} ({hint})" if hint else str(error), code
    if hasattr(error, "format_message"):  # a usage error of the option parser, whose base class is not public
        return usage_line(error), MISUSE
    if isinstance(error, OSError):
        return explain_os_error(error), MISUSE
    if isinstance(error, MemoryError):
        return "out of memory", MISUSE
    text = f"unexpected {type(error).__name__}: {error} (set {DEBUG_VARIABLE}=1 to see where, and report it)"
    return text, MISUSE


LIBRARY_WORDS = (
    (": Value error, ", ": "),
    (": Input should be a valid integer, unable to parse string as an integer", ": it should be a whole number"),
    (": Input should be a valid number, unable to parse string as a number", ": it should be a number"),
    (": Input should be ", ": it should be "),
)
"""How the option parser's library begins what it says of a value, and how a command says it."""


def usage_line(error: Any) -> str:
    """The parser's own message, and where the help is."""
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "") or "vcledger"
    message = error.format_message().rstrip(".")
    for said, meant in LIBRARY_WORDS:
        message = message.replace(said, meant)
    return f"{message}; see `{command} --help`"


def guarded(run: Callable[[], Any]) -> int:
    """Runs a command and returns its exit code; every error becomes one line on stderr. `run` may return the code: that
    is what the option parser makes of `typer.Exit` when it is told not to end the process."""
    try:
        returned = run()
        if sys.stdout is not None:  # None where the caller closed it
            sys.stdout.flush()
    except BaseException as error:
        code = code_of(error)
    else:
        code = returned if isinstance(returned, int) else 0
    if code == PIPE_CLOSED:
        silence_stdout()
    return code


def code_of(error: BaseException) -> int:
    """The exit code of an error that ended a command, after its line was written."""
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else MISUSE if error.code else 0
    message, code = outcome_of(error)
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    if message:
        typer.echo(f"error: {one_line(message)}", err=True)
    return code


def silence_stdout() -> None:
    """Points stdout at nothing, so that the interpreter's last flush does not complain of the closed pipe."""
    try:
        number = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, number)
    os.close(nothing)
