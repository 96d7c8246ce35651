"""A file or standard input as something to be read: its bytes, when it was written, and its items.

Owns opening, looking, and the way from a source to its reader. Must not know the log, nor which process it runs in.
Called by `vcledger.sources.pipeline` and, in a second process, by `vcledger.sources.beside`.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple

from vcledger.sources.alibaba_objects import EPOCH
from vcledger.sources.compress import STDIN, CutOff, compressed, decompressed, open_source, raw_chunks
from vcledger.sources.detect import HEAD_BYTES, Format, detect
from vcledger.sources.items import Item
from vcledger.sources.moments import Moments
from vcledger.sources.observe import Observer
from vcledger.sources.packing import Packing
from vcledger.sources.reader import Reader
from vcledger.sources.redact import StorageOptions
from vcledger.sources.report import Tally
from vcledger.sources.shape import Clock

SMALL = 1 << 18
"""Bytes of a file that is read in one go."""

Progress = Callable[[int], None]
"""Told how many more bytes of the files have been read."""


def now_micros() -> int:
    """The clock of an import, microseconds since 1970."""
    return time.time_ns() // 1_000


class Source:
    """A file, or standard input, that can be read more than once (the latter after `spool`)."""

    def __init__(self, path: Path | str, format_: Format, head: bytes = b"") -> None:
        self.path, self.format, self._head = path, format_, head
        self._spooled: IO[bytes] | None = None
        self.dump_time: int | None = None
        self.received: int | None = None
        self.forms = [format_]
        self.whole_dump = False

    @property
    def name(self) -> str:
        return "stdin" if str(self.path) == STDIN else str(self.path)

    @property
    def is_stdin(self) -> bool:
        return str(self.path) == STDIN

    @property
    def weight(self) -> int:
        """About how many bytes there are to be read of a file, once decompressed; 0 for what is no file."""
        try:
            found = os.stat(self.path)
        except OSError:
            return 0
        if self.is_stdin or not stat.S_ISREG(found.st_mode):
            return 0
        return found.st_size * (COMPRESSION if compressed(self._head) else 1)

    def chunks(self, count: Progress | None = None) -> Iterator[bytes]:
        """Its bytes, decompressed."""
        if self._spooled is not None:
            self._spooled.seek(0)
            yield from decompressed(raw_chunks(self._spooled, count))
        elif self.is_stdin:
            yield from decompressed(self._rest(count))
        elif (whole := self._small(count)) is not None:
            yield from decompressed(iter([whole]))
        else:
            with open_source(self.path) as file:
                yield from decompressed(raw_chunks(file, count))

    def _small(self, count: Progress | None) -> bytes | None:
        """The whole of a small file, so that a folder of thousands does not hold as many files open; else None."""
        with open_source(self.path) as file:
            whole = file.read(SMALL + 1)
        if len(whole) > SMALL:
            return None
        if count is not None:
            count(len(whole))
        return whole

    def _rest(self, count: Progress | None) -> Iterator[bytes]:
        """Standard input from its start: what was looked at, then what follows."""
        if count is not None:
            count(len(self._head))
        if self._head:
            yield self._head
        yield from raw_chunks(open_source(STDIN), count)

    def modified(self) -> int | None:
        """When the file was written last, in microseconds; None for a pipe and other things that have no such time."""
        try:
            found = os.fstat(sys.stdin.fileno()) if self.is_stdin else os.stat(self.path)
        except (OSError, ValueError, AttributeError):
            return None
        return found.st_mtime_ns // 1_000 if stat.S_ISREG(found.st_mode) else None

    def spool(self, stack: ExitStack, clock: Callable[[], int]) -> None:
        """Writes standard input to a temporary file, when it has to be read twice."""
        if self.is_stdin and self._spooled is None:
            spooled = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (closed by the stack)
            for chunk in self._rest(None):
                spooled.write(chunk)
            self.received = clock()
            self._spooled = spooled


COMPRESSION = 10
"""How many times as large a compressed record is once decompressed, roughly: watches repeat themselves."""


def look(path: Path | str) -> Source:
    """Opens a file and finds out its format. OSError as it comes; CutOff when it is damaged or cut off before anything
    of it can be told."""
    head = bytearray()
    whole = True
    file = open_source(path)
    try:
        for chunk in raw_chunks(file):
            head += chunk
            if len(head) >= HEAD_BYTES:
                whole = False
                break
    finally:
        if str(path) != STDIN:
            file.close()
    plain = bytearray()
    problem: CutOff | None = None
    try:
        for chunk in decompressed(iter([bytes(head)])):
            plain += chunk
            if len(plain) >= HEAD_BYTES * 4:
                break
    except CutOff as error:
        problem = error if whole or error.damaged else None
    format_ = detect(bytes(plain))
    if problem is not None and format_ in (Format.empty, Format.unknown):
        raise problem
    return Source(path, format_, bytes(head))


class Reading(NamedTuple):
    """How a source is to be read. `modified`: when it was written last. `fixed`: the moment of observation that was
    given, where the format says none. `epoch`: the moment from which a trace counts. `whole_dump`:
    it is a file of a cluster-info dump. Times in microseconds."""

    cluster: str
    storage: StorageOptions
    limit: int
    modified: int | None
    fixed: int | None
    dump_time: int | None
    epoch: int = EPOCH
    whole_dump: bool = False


def items_of(
    source: Source,
    reading: Reading,
    tally: Tally,
    count: Progress | None,
    now: Callable[[], int],
    packing: Packing | None = None,
) -> Generator[Item, None, list[Format]]:
    """What is in a source, times never going back; returns the forms that were met in it. Most of a recording's
    observations go into `packing` instead, in their place among the others; so each item must be taken before the next
    is asked for."""
    moments = Moments(Clock(), now, reading.modified, reading.fixed)
    observer = Observer(reading.cluster, reading.storage)
    reader = Reader(
        source.name,
        observer,
        tally,
        reading.limit,
        moments,
        reading.dump_time,
        packing,
        reading.epoch,
        reading.whole_dump,
    )
    try:
        yield from reader.items(reader.open(source.chunks(count)))
    except OSError as error:
        tally.broken(0, f"cannot be read: {error.strerror or error}")
    return reader.forms()
