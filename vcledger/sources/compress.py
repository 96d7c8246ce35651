"""Bytes of a file or of standard input, whatever they are compressed with.

Owns opening, gzip and zstd, told by their first bytes, and byte order marks. Must not know what the bytes mean. Called
by `vcledger.sources.pipeline`.

Memory stays small whatever the size of the input: what goes into a decompressor is cut into pieces of PIECE bytes.
"""

from __future__ import annotations

import codecs
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

import zstandard

from vcledger.errors import VcledgerError

READ_BYTES = 1 << 18
PIECE = 1 << 13
STDIN = "-"

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class CutOff(VcledgerError):
    """The compressed data end too early, or are damaged (`damaged`). What came before was given out."""

    def __init__(self, message: str, damaged: bool) -> None:
        super().__init__(message)
        self.damaged = damaged


class _Codec(NamedTuple):
    """How one compression is undone: a new decompressor for each frame or member, what it raises, and by how many bytes
    it is fed. `copies`: its decompressor can be copied, so that of a damaged piece what comes before the damage is got
    by going through it again a byte at a time. The other is fed by less."""

    name: str
    magic: bytes
    make: Callable[[], Any]
    error: type[Exception]
    piece: int
    copies: bool


CODECS: tuple[_Codec, ...] = (
    _Codec("gzip", GZIP_MAGIC, lambda: zlib.decompressobj(31), zlib.error, PIECE, True),
    _Codec(
        "zstd", ZSTD_MAGIC, lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError, 1 << 9, False
    ),
)


def compressed(head: bytes) -> bool:
    """Whether a file that begins so is compressed."""
    return any(head.startswith(codec.magic) for codec in CODECS)


def open_source(path: Path | str) -> IO[bytes]:
    """The file, or standard input for "-". OSError as it comes."""
    if str(path) == STDIN:
        return sys.stdin.buffer
    return open(path, "rb")


def raw_chunks(file: IO[bytes], count: Callable[[int], None] | None = None) -> Iterator[bytes]:
    """The file's own bytes; `count` is told how many were read, for a progress bar."""
    read = getattr(file, "read1", file.read)
    while chunk := read(READ_BYTES):
        if count is not None:
            count(len(chunk))
        yield chunk


def as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The chunks without a UTF-8 byte order mark, or with UTF-16, which some shells write into files, turned into
    UTF-8. Raises CutOff where UTF-16 is damaged."""
    first = next(chunks, b"")
    while 0 < len(first) < 3 and (more := next(chunks, b"")):
        first += more
    if not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from chunks
        return
    try:
        for text in codecs.iterdecode(chain([first], chunks), "utf-16"):
            yield text.encode()
    except UnicodeError as error:
        raise CutOff(f"the UTF-16 text is damaged: {error}", True) from error


def decompressed(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The chunks as UTF-8 with gzip or zstd undone, all members or frames of them; plain bytes as they are.

    Raises CutOff when the last frame does not end, after everything before was given out."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= 4:
            break
    codec = next((codec for codec in CODECS if head.startswith(codec.magic)), None)
    if codec is not None:
        yield from as_utf8(_undone(codec, head, chunks))
    elif head:
        yield from as_utf8(chain([head], chunks))


def _undone(codec: _Codec, head: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Frame after frame. Zero bytes after a gzip member are padding, as gzip itself has it."""
    engine: Any = codec.make()
    begun = False
    at = 0
    for piece in _pieces(head, chunks, codec.piece):
        at += len(piece)
        rest = piece
        while rest:
            if not begun and codec.magic == GZIP_MAGIC and not (rest := rest.lstrip(b"\0")):
                break
            before = engine.copy() if codec.copies else None
            try:
                out = engine.decompress(rest)
            except codec.error as error:
                where = at - len(rest)
                if before is not None:
                    where += yield from _salvaged(codec, before, rest)
                reason = f"the {codec.name} data are damaged, at about byte {where:,} of the file ({error})"
                raise CutOff(reason, True) from error
            begun = True
            if out:
                yield out
            rest = b""
            if engine.eof:
                rest, engine, begun = engine.unused_data, codec.make(), False
    if begun:
        raise CutOff(f"the file is cut off: its {codec.name} data stop at byte {at:,}, before their end mark", False)


def _salvaged(codec: _Codec, engine: Any, piece: bytes) -> Generator[bytes, None, int]:
    """What a damaged piece holds before the damage; returns how many of its bytes that took."""
    for number in range(len(piece)):
        try:
            if out := engine.decompress(piece[number : number + 1]):
                yield out
        except codec.error:
            return number
    return len(piece)


def _pieces(head: bytes, chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    for chunk in chain([head], chunks):
        for start in range(0, len(chunk), size):
            yield chunk[start : start + size]
