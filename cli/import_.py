"""`vcledger import`: files of any known format into the ledger.

Owns the options, the progress bar and the printing of the report. Must not know formats: `vcledger.sources` does.
Called by `cli.main`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import render
from cli.common import (
    CHECK_FAILED,
    DbOption,
    KeepEnvOption,
    KeepLastAppliedOption,
    KeepManagedFieldsOption,
    NoSnapshotsOption,
    fail,
    opened,
    storage_of,
)
from vcledger.at import format_time
from vcledger.sources.framing import DEFAULT_LIMIT

if TYPE_CHECKING:
    from vcledger.sources import ImportReport

SHOWN = 10
"""Broken lines and unknown files that are named before "… and N more"."""

REASON_MAX = 80


PathsArgument = Annotated[
    list[str], typer.Argument(metavar="PATH", help="Files, folders, or - for standard input", show_default=False)
]
ClusterNameOption = Annotated[str, typer.Option("--cluster", metavar="NAME", help="The cluster that the files are of")]
FormOption = Annotated[str, typer.Option("-o", "--output", metavar="FORM", help="text or json")]
VerboseOption = Annotated[
    bool, typer.Option("-v", "--verbose", help="Also say in full what these sources cannot prove")
]
ObservedAtOption = Annotated[
    str | None,
    typer.Option(
        "--observed-at",
        metavar="TIME",
        help="When lists, objects and watch lines were observed, or now. Default: see docs/importing.md",
        show_default=False,
    ),
]
EpochOption = Annotated[
    str | None,
    typer.Option(
        "--epoch",
        metavar="TIME",
        help="The moment that second 0 of an openb trace stands for. Default: 2023-01-01T00:00:00Z",
        show_default=False,
    ),
]
LenientOption = Annotated[bool, typer.Option("--lenient", help="End with 0 even if input was broken or cut off")]
StrictOption = Annotated[bool, typer.Option("--strict", hidden=True, help="The default now: see --lenient")]
BrokenOption = Annotated[
    Path | None, typer.Option("--broken", metavar="FILE", help="Write broken input here, as JSON lines")
]
LineSizeOption = Annotated[
    str, typer.Option("--max-line-size", metavar="SIZE", help="The largest line, object or list item (16M, 64Mi)")
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("import")(import_)


def import_(
    paths: PathsArgument,
    db: DbOption = None,
    cluster: ClusterNameOption = "default",
    output: FormOption = "text",
    verbose: VerboseOption = False,
    observed_at: ObservedAtOption = None,
    epoch: EpochOption = None,
    lenient: LenientOption = False,
    strict: StrictOption = False,
    broken: BrokenOption = None,
    max_line_size: LineSizeOption = f"{DEFAULT_LIMIT >> 20}Mi",
    keep_managed_fields: KeepManagedFieldsOption = False,
    keep_env: KeepEnvOption = False,
    keep_last_applied: KeepLastAppliedOption = False,
    no_snapshots: NoSnapshotsOption = False,
) -> None:
    """Import recordings, watch output, lists, audit logs, cache dumps, cluster-info dumps, events and published traces.

    The format is found out by content; gzip and zstd are undone. Importing the same file again adds nothing, and files
    given together are merged by time. Values of environment variables, managedFields and the last-applied annotation
    are left out unless asked for. Broken input is counted and named, and what stands beside it is imported.
    """
    from vcledger.sources import ImportOptions
    from vcledger.sources.pipeline import Import

    if output not in ("text", "json"):
        fail(f"-o {output}: import answers as text or json")
    options = ImportOptions(
        storage=storage_of(keep_managed_fields, keep_env, keep_last_applied),
        max_line_bytes=size_of(max_line_size),
        snapshots=not no_snapshots,
        broken_file=broken,
        observed_at=moment_of(observed_at),
        epoch=None if epoch is None else time_of("--epoch", epoch),
    )
    with progress_bar(paths) as progress, Import(cluster, options, progress) as job:
        job.look(paths)
        with opened(db, read_only=False, create=True) as ledger:
            report = job.run(ledger)
    if output == "json":
        typer.echo(as_json(report))
    else:
        for line in lines(report, verbose=verbose):
            typer.echo(line)
    refuse_broken(report, lenient=lenient and not strict)


def refuse_broken(report: ImportReport, *, lenient: bool) -> None:
    """Ends the command with an error when nothing could be read, or, unless it is to be lenient, when not all could."""
    from vcledger.sources import NothingToImport

    if report.nothing_read and report.broken_count:
        raise NothingToImport(f"nothing in the input could be read: {report.broken[0]}")
    if report.broken_count and not lenient:
        pieces = render.plural(report.broken_count, "piece")
        fail(f"{pieces} of the input broken or cut off; the rest is imported (--lenient ends with 0)", CHECK_FAILED)


def moment_of(text: str | None) -> int | None:
    """Microseconds of --observed-at."""
    from vcledger.sources.source import now_micros

    if text is None:
        return None
    return now_micros() if text == "now" else time_of("--observed-at", text)


def time_of(option: str, text: str) -> int:
    """Microseconds of an option's RFC 3339 time."""
    from vcledger.at import parse_time
    from vcledger.errors import BadTime

    try:
        return parse_time(text)
    except BadTime as error:
        fail(f"{option}: {error}")


def size_of(text: str) -> int:
    """Bytes of `16M`, `16Mi`, `1000000`."""
    from volcano.objects.quantity import QuantityInvalid, value

    try:
        size = value(text)
    except QuantityInvalid:
        fail(f"--max-line-size {text}: give bytes, such as 16Mi")
    return size


@contextmanager
def progress_bar(paths: list[str]) -> Iterator[Any]:
    """What is told of the bytes read: a bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("importing"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    total = sum(bytes_in(Path(path)) for path in paths) if "-" not in paths else None
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("importing", total=total or None)
        yield lambda count: bar.advance(task, count)


def bytes_in(path: Path) -> int:
    """Size of a file, or of all files in a folder."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size if path.is_file() else 0


# --- the report ---------------------------------------------------------------------------------------------------


def lines(report: ImportReport, *, verbose: bool = False) -> Iterator[str]:
    """The report for people. What was missed stands right below the sum."""
    from vcledger.sources.prove import in_short

    for file in report.files:
        if file.read or file.broken:
            broken = f", {file.broken:,} broken" if file.broken else ""
            yield f"{file.file}: {file.format}, {file.read:,} read{broken}"
    if report.unknown_files:
        yield f"passed over, of no known form: {some(report.unknown_files)}"
    late = f" ({report.late:,} of them late)" if report.late else ""
    yield (
        f"cluster {report.cluster}: {report.read:,} read, {report.stored:,} events stored{late}, "
        f"{report.already:,} already there, {report.broken_count:,} broken, {sum(report.ignored.values()):,} left out"
    )
    yield from gap_lines(report)
    for reason, count in report.ignored.most_common():
        yield f"  left out: {count:,} x {reason}"
    for piece in report.broken[:SHOWN]:
        yield f"  broken: {piece}"
    if report.broken_count > SHOWN:
        yield f"  … and {report.broken_count - SHOWN:,} more broken (--broken FILE gets them all)"
    for note in report.notes:
        yield f"  note: {note}"
    if report.snapshots:
        yield f"  {render.plural(report.snapshots, 'snapshot')} made"
    for sentence in report.cannot_prove if verbose else in_short([file.format for file in report.files if file.read]):
        yield f"  cannot prove: {sentence}"


def gap_lines(report: ImportReport) -> Iterator[str]:
    """Gaps after which something had changed, one a line; the others only counted."""
    telling = [gap for gap in report.gaps if gap.added or gap.modified or gap.deleted]
    for gap in telling:
        reason = gap.reason if len(gap.reason) <= REASON_MAX else gap.reason[: REASON_MAX - 1] + "…"
        yield (
            f"  gap: {gap.kind}, {format_time(gap.from_time)} to {format_time(gap.to_time)} ({reason}); the list "
            f"after it found {gap.added} new, {gap.modified} changed, {gap.deleted} gone"
        )
    if len(telling) < len(report.gaps):
        more = render.plural(len(report.gaps) - len(telling), "more gap" if telling else "gap")
        yield f"  {more}, after which nothing had changed"


def some(names: list[str]) -> str:
    """The first few names, and how many more."""
    more = f" … and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{render.plural(len(names), 'file')}: " + ", ".join(names[:SHOWN]) + more


def as_json(report: ImportReport) -> str:
    """The report for programs."""
    import json

    import msgspec

    built = msgspec.to_builtins(
        {name: getattr(report, name) for name in ("cluster", "read", "stored", "already", "late", "snapshots")}
    )
    built |= {
        "broken": report.broken_count,
        "broken_pieces": msgspec.to_builtins(report.broken),
        "ignored": dict(report.ignored.most_common()),
        "files": msgspec.to_builtins(report.files),
        "unknown_files": report.unknown_files,
        "gaps": msgspec.to_builtins(report.gaps),
        "notes": report.notes,
        "cannot_prove": report.cannot_prove,
        "seconds_durable": round(report.seconds_durable, 6),
    }
    return json.dumps(built, indent=2, ensure_ascii=False)
