"""What an import did: counts, what was broken and where, gaps, and what the sources cannot prove.

Owns the report's shape and the counting. Must not know how it is printed. Called by the readers and the pipeline of
`vcledger.sources`; read by `cli.import_` and the benchmarks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

BROKEN_KEPT = 1_000
"""Broken lines that the report itself names; beyond them only the count goes on (`--broken FILE` gets them all). What
is wrong with a whole file always stands before them."""


class Broken(msgspec.Struct, frozen=True):
    """One piece of input that could not be used. `line` is where it begins, from 1; 0 when it is the whole file."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


class Gap(msgspec.Struct, frozen=True):
    """Between two moments a watch may have missed changes; what the relist after it found. Times in microseconds."""

    kind: str
    from_time: int
    to_time: int
    added: int
    modified: int
    deleted: int
    reason: str


class FileReport(msgspec.Struct):
    """One file: `format` is our word for what it was found to be, `read` the lines or objects in it."""

    file: str
    format: str
    read: int = 0
    broken: int = 0


@dataclass
class ImportReport:
    """The whole of one call. read = lines and objects read; stored, already (there) and late are events of the log
    (late ones are stored too, and counted in both); ignored counts, by reason, what is whole but not for the ledger."""

    cluster: str = ""
    read: int = 0
    stored: int = 0
    already: int = 0
    late: int = 0
    broken_count: int = 0
    broken: list[Broken] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    files: list[FileReport] = field(default_factory=list)
    unknown_files: list[str] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cannot_prove: list[str] = field(default_factory=list)
    snapshots: int | None = None
    seconds_durable: float = 0.0

    @property
    def nothing_read(self) -> bool:
        """Not a single piece of the input was usable, or at least whole."""
        return self.stored + self.already + sum(self.ignored.values()) == 0

    def note(self, text: str) -> None:
        """Adds a line once."""
        if text not in self.notes:
            self.notes.append(text)


class Tally:
    """The counting side of one file, given to its reader."""

    def __init__(
        self, report: ImportReport, file: FileReport, keep_aside: Callable[[Broken, bytes], None] | None = None
    ) -> None:
        self.report = report
        self.file = file
        self.keep_aside = keep_aside

    def read(self, count: int = 1) -> None:
        """`count` more lines or objects were read."""
        self.report.read += count
        self.file.read += count

    def broken(self, line: int, reason: str, data: bytes = b"") -> None:
        """A piece that cannot be used, with the line where it begins and its bytes."""
        found = Broken(self.file.file, line, " ".join(reason.split()))
        self.report.broken_count += 1
        self.file.broken += 1
        if not line:
            self.report.broken.insert(0, found)
        elif len(self.report.broken) < BROKEN_KEPT:
            self.report.broken.append(found)
        if self.keep_aside is not None:
            self.keep_aside(found, data)

    def ignored(self, reason: str, count: int = 1) -> None:
        """A piece, or so many, that is whole, but that the ledger has no use for."""
        self.report.ignored[reason] += count


def silent(name: str) -> Tally:
    """A tally whose counts nobody reads: for looking at a file a second time."""
    return Tally(ImportReport(), FileReport(name, ""))
