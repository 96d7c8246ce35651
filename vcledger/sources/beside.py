"""Reading in a second process, so that reading and appending each have a core.

Owns that process, what goes to it and what comes back. Must not know formats nor the log. Called by
`vcledger.sources.pipeline`; the process itself runs `serve`.

The reader's side does all that needs no ledger: decompressing, cutting, decoding, checking, redaction, and the short
form of payloads. What it finds comes over a socket, in messages of some thousand events: most of them as runs, whose
payloads lie outside of what is pickled. What it gives is what reading in this process would have given, in the same
order. It is a fresh interpreter that knows nothing of the caller's main module, a Ctrl-C at the terminal is the
caller's alone, and it ends by itself when the caller is gone.
"""

from __future__ import annotations

import gc
import os
import pickle
import socket
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from eventstore.runs import Run, Unpacker
from vcledger.errors import VcledgerError
from vcledger.sources.detect import Format
from vcledger.sources.items import Item
from vcledger.sources.packing import Packing, Parts
from vcledger.sources.report import FileReport, ImportReport, Tally
from vcledger.sources.source import Progress, Reading, Source, items_of

BUFFER = 1 << 20
CLOSE_SECONDS = 5.0
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "268435456", "MALLOC_MMAP_THRESHOLD_": "268435456"}
"""For glibc: what a message took and gave back is there for the next, not handed to the system and asked for again."""

GARBAGE_THRESHOLD = 100_000
"""Containers made before Python looks for cycles among them: reading makes many and no cycles."""


class ReaderDied(VcledgerError):
    """The process that read a file ended too early. What was appended until then is in the ledger, in whole batches."""

    exit_code = 1


class Asked(NamedTuple):
    """What the second process is to do. `today`: the caller's clock, at the start. `pack`: make runs. `aside`: send the
    bytes of what is broken as well."""

    source: Source
    reading: Reading
    today: int
    pack: bool
    aside: bool


class Told(NamedTuple):
    """A message. `parts`: events as runs, and items that are none. `size` bytes of the file and `read` lines or objects
    since the message before, and what was `broken` or `ignored` in them. The last one has `forms`, the file's `format`
    and `notes`; or `problem`."""

    parts: Parts
    size: int = 0
    read: int = 0
    broken: Sequence[tuple[int, str, bytes]] = ()
    ignored: tuple[tuple[str, int], ...] = ()
    forms: list[Format] | None = None
    format: str = ""
    notes: Sequence[str] = ()
    problem: str = ""


def cores() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS has no such thing
        return os.cpu_count() or 1


# --- the wire -----------------------------------------------------------------------------------------------------

_HEAD = struct.Struct("!II")
_LENGTH = struct.Struct("!Q")


def send(wire: socket.socket, message: Any) -> None:
    """A message: the number and lengths of its buffers, then what is pickled and the buffers."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, 5, buffer_callback=buffers.append)
    parts = [memoryview(body), *(buffer.raw() for buffer in buffers)]
    head = _HEAD.pack(0x76636C67, len(parts)) + b"".join(_LENGTH.pack(len(part)) for part in parts)
    wire.sendall(head)
    for part in parts:
        wire.sendall(part)


def receive(wire: socket.socket) -> Any:
    """The next message. EOFError when the other side is gone."""
    _, count = _HEAD.unpack(_bytes(wire, _HEAD.size))
    lengths = [length for (length,) in _LENGTH.iter_unpack(_bytes(wire, count * _LENGTH.size))]
    body, *buffers = [_bytes(wire, length) for length in lengths]
    return pickle.loads(body, buffers=buffers)


def _bytes(wire: socket.socket, size: int) -> bytes:
    """The next bytes, so many: mostly in one go, without Python's lock and without a copy."""
    data = wire.recv(size, socket.MSG_WAITALL) if size else b""
    if len(data) == size:
        return data
    parts, left = [data], size - len(data)
    while left:
        if not parts[-1]:
            raise EOFError
        parts.append(wire.recv(left, socket.MSG_WAITALL))
        left -= len(parts[-1])
    return b"".join(parts)


# --- this side ----------------------------------------------------------------------------------------------------


class ReaderProcess:
    """A second process that reads one source. It is started at once, and told what to read by `begin`."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._wire, theirs = socket.socketpair()
        with theirs:
            for side in (self._wire, theirs):
                with suppress(OSError):  # a system that allows less: smaller ones do too
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", "from vcledger.sources.beside import serve; serve()"],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=self._errors,
                    env={
                        **KEEP_MEMORY,
                        **os.environ,
                        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
                    },
                    start_new_session=True,
                )
            except BaseException:
                self._wire.close()
                self._errors.close()
                raise

    def items(
        self, reading: Reading, tally: Tally, count: Progress | None, today: int, pack: bool
    ) -> Generator[Item | Run, None, list[Format]]:
        """What `items_of` gives; with `pack`, runs in place of most observations. ReaderDied when the process cannot go
        on."""
        unpacker = Unpacker()
        try:
            send(self._wire, Asked(self.source, reading, today, pack, tally.keep_aside is not None))
            while True:
                told: Told = receive(self._wire)
                if told.problem:
                    raise ReaderDied(f"{self.source.name}: the process that read it failed: {told.problem}")
                if count is not None and told.size:
                    count(told.size)
                _tell(tally, told)
                for part in told.parts:
                    if isinstance(part, list):
                        yield from part
                    else:
                        yield unpacker.run(part)
                if told.forms is not None:
                    return told.forms
        except (EOFError, OSError) as error:
            raise ReaderDied(
                f"{self.source.name}: the process that read it {self._last_words()}; what was read before is in the "
                "ledger up to the last whole batch: run the import again to go on"
            ) from error

    def _last_words(self) -> str:
        try:
            code = self._process.wait(timeout=CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            return "broke off the connection"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        how = f"was ended by signal {-code}" if code < 0 else f"ended too early, with exit code {code}"
        return f"{how} ({lines[-1].strip()})" if lines else how

    def close(self) -> None:
        """Ends it wherever it is."""
        self._wire.close()
        self._process.kill()
        self._process.wait()
        self._errors.close()


def _tell(tally: Tally, told: Told) -> None:
    """Counts what a message says."""
    tally.read(told.read)
    for line, reason, data in told.broken:
        tally.broken(line, reason, data)
    for reason, number in told.ignored:
        tally.ignored(reason, number)
    if told.forms is not None:
        tally.file.format = told.format
        for note in told.notes:
            tally.report.note(note)


# --- the other side -----------------------------------------------------------------------------------------------


class _Heard(Tally):
    """Counts as any tally does, and keeps what came since the last message."""

    def __init__(self, name: str, format_: str, aside: bool) -> None:
        super().__init__(ImportReport(), FileReport(name, format_))
        self._aside = aside
        self.begin()

    def begin(self) -> None:
        """A new message."""
        self.bytes = self.lines = 0
        self.pieces: list[tuple[int, str, bytes]] = []
        self.reasons: Counter[str] = Counter()

    def count(self, size: int) -> None:
        self.bytes += size

    def read(self, count: int = 1) -> None:
        super().read(count)
        self.lines += count

    def broken(self, line: int, reason: str, data: bytes = b"") -> None:
        super().broken(line, reason, data)
        self.pieces.append((line, reason, data if self._aside else b""))

    def ignored(self, reason: str, count: int = 1) -> None:
        super().ignored(reason, count)
        self.reasons[reason] += count

    def told(self, parts: Parts) -> Told:
        found = Told(parts, self.bytes, self.lines, self.pieces, tuple(self.reasons.items()))
        self.begin()
        return found


def serve() -> None:
    """The second process's whole life: hear what to read, read it, tell what is in it."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    with socket.socket(fileno=0) as wire:
        with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the caller is gone
            asked: Asked = receive(wire)
            try:
                read(asked, lambda told: send(wire, told))
            except (MemoryError, RecursionError) as error:
                send(wire, Told([], problem=f"{type(error).__name__} {error}".strip()))
        os._exit(0)


def read(asked: Asked, tell: Callable[[Told], None]) -> None:
    """Reads what was asked for, and tells of it in messages."""
    source = asked.source
    tally = _Heard(source.name, str(source.format), asked.aside)
    packing = Packing(asked.reading.cluster, asked.pack, lambda parts: tell(tally.told(parts)))
    items = items_of(source, asked.reading, tally, tally.count, lambda: asked.today, packing)
    while True:
        try:
            item = next(items)
        except StopIteration as end:
            packing.flush()
            tell(tally.told([])._replace(forms=end.value, format=tally.file.format, notes=tally.report.notes))
            return
        packing.add(item)
