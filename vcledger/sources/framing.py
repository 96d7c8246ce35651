"""Cutting a stream of bytes into lines, or into JSON values that may be pretty-printed and concatenated.

Owns where a piece begins and ends, and the limit on its size. Must not know what is in it. Called by
`vcledger.sources.reader`.

Both ways hold one piece at a time, so memory is bounded by the limit, not by the input: a List of a million objects is
given out item by item.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

DEFAULT_LIMIT = 16 << 20
"""Bytes of the largest line, object or list item: ten times what an API server takes (1.5 MiB)."""

Complain = Callable[[int, str, bytes], None]
"""Told of a piece that cannot be used: line, reason, and its bytes as far as they were kept."""


def too_long(size: int, limit: int) -> str:
    """What is said of a piece over the limit."""
    return f"{size:,} bytes in one piece, more than --max-line-size ({limit:,}): left out"


def line_batches(chunks: Iterator[bytes], limit: int, complain: Complain) -> Iterator[tuple[int, list[bytes]]]:
    """(number of the first line, lines without their ends), as many as a chunk completes. A line longer than `limit` is
    left out and complained of; it still counts in the numbers."""
    number, parts, size = 1, list[bytes](), 0
    for chunk in chunks:
        lines = chunk.split(b"\n")
        last = lines.pop()
        if not lines:
            size += len(last)
            if size <= limit:
                parts.append(last)
            else:
                parts.clear()
            continue
        if size:
            size += len(lines[0])
            if size > limit:
                complain(number, too_long(size, limit), b"")
                number += 1
                del lines[0]
            else:
                lines[0] = b"".join(parts) + lines[0]
        if lines:
            yield number, lines
        number += len(lines)
        parts, size = [last], len(last)
    if size > limit:
        complain(number, too_long(size, limit), b"")
    elif size:
        yield number, [b"".join(parts)]


class Piece(NamedTuple):
    """A JSON value of a stream. `line` is where it begins. An item of a list comes with `item` true and the list's text
    before its items as `head`; the list itself comes after its items, without them."""

    line: int
    data: bytes
    item: bool = False
    head: bytes = b""


_BRACE = re.compile(
    rb"""[^"{}\[\]]*+ (?:"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+" [^"{}\[\]]*+)*+ ([{}\[\]])""", re.VERBOSE | re.DOTALL
)
_NO_BRACE = re.compile(rb"""[^"{}\[\]]*+ (?:"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+" [^"{}\[\]]*+)*+""", re.VERBOSE | re.DOTALL)
_ITEMS = re.compile(rb'"items"\s*:\s*\Z')
_NEXT_VALUE = re.compile(rb"\n[{\[]")
_STRAY = re.compile(rb"\s*([^{\[\s][^\n{\[]*)")
_BLANK = re.compile(rb"\s*")


class ValueScanner:
    """Finds JSON values in bytes fed to it. One that is broken is complained of, and the search goes on at the next
    line that begins with a bracket."""

    def __init__(self, limit: int, complain: Complain) -> None:
        self.limit = limit
        self.complain = complain
        self.buffer = bytearray()
        self.line = 1
        self._lost = False
        self._reset()

    def _reset(self) -> None:
        """Between two values. `_mark` is how far the buffer, which begins with the current piece, was scanned."""
        self._mark = self._depth = self._items_depth = self._dropped = self._head_line = 0
        self._open = bytearray()
        self._head = b""

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """More bytes; gives out what they complete."""
        self.buffer += chunk
        yield from self._scan(False)

    def finish(self) -> Iterator[Piece]:
        """The end of the stream; a value that has not ended is broken."""
        yield from self._scan(True)

    def _scan(self, final: bool) -> Iterator[Piece]:
        while True:
            if not self._depth:
                self._skip_to_value(final)
                if self._lost or not self.buffer.startswith((b"{", b"[")):
                    return
            found = _BRACE.match(self.buffer, self._mark)
            if found is None:
                if not self._stuck(final):
                    return
                continue
            self._mark = found.end()
            yield from self._bracket(self.buffer[self._mark - 1])

    def _skip_to_value(self, final: bool) -> None:
        """Leaves out blanks between values, and complains of anything else, a line at a time."""
        if self._lost:
            following = _NEXT_VALUE.search(self.buffer)
            self._drop(following.start() if following else max(0, len(self.buffer) - 1))
            if following is None:
                return
            self._lost = False
        while True:
            stray = _STRAY.match(self.buffer)
            if stray is None:
                self._drop(_BLANK.match(self.buffer).end())  # type: ignore[union-attr]
                return
            if stray.end() == len(self.buffer) < self.limit and not final:
                return
            text = bytes(stray[1])  # now: the match looks into the buffer, which is about to move
            self._drop(stray.start(1))
            if text.strip() not in (b",", b"\xef\xbb\xbf", b"\x1e"):
                self.complain(self.line, "not JSON", text)
            self._drop(len(text))

    def _drop(self, count: int) -> None:
        """Gives up the first bytes of the buffer, counting their lines."""
        self.line += self.buffer.count(b"\n", 0, count)
        del self.buffer[:count]
        self._mark = max(0, self._mark - count)

    def _bracket(self, byte: int) -> Iterator[Piece]:
        if byte in b"{[":
            self._open.append(byte)
            self._depth += 1
            opens_items = byte == 0x5B and not self._items_depth and self._opens_items()
            if not opens_items and self._items_depth and self._depth == self._items_depth + 1:
                self._drop(self._mark - 1)
                self._mark = 1
            return
        if not self._open or self._open[-1] != byte - 2:
            self._give_up("the brackets do not match")
            return
        self._open.pop()
        self._depth -= 1
        if self._items_depth and self._depth == self._items_depth:
            yield from self._emit(True)
        elif self._items_depth and self._depth < self._items_depth:
            self._end_items()
        if not self._depth:
            yield from self._emit(False)

    def _opens_items(self) -> bool:
        """Whether the [ just read opens the items of a List, or a top-level array, which is read like one."""
        if self._depth == 1:
            self._head = b""
        elif self._depth == 2 and self._open[0] == 0x7B and _ITEMS.search(self.buffer, 0, self._mark - 1):
            self._head = bytes(self.buffer[: self._mark])
        else:
            return False
        self._items_depth, self._head_line = self._depth, self.line
        self._drop(self._mark)
        return True

    def _end_items(self) -> None:
        """The ] of a list: what follows belongs to the list's own text again."""
        self._drop(self._mark - 1)
        if self._head:
            self.buffer[:0] = self._head
            self._mark = len(self._head) + 1
        self._items_depth = 0

    def _emit(self, item: bool) -> Iterator[Piece]:
        data, line = bytes(self.buffer[: self._mark]), self.line
        if self._head and not item:
            line = self._head_line
            self.line -= self._head.count(b"\n")
        self._drop(self._mark)
        if item:
            head = self._head
            if self._dropped or len(data) > self.limit:
                self.complain(line, too_long(self._dropped + len(data), self.limit), b"")
            else:
                yield Piece(line, data, True, head)
            self._mark = self._dropped = 0
            return
        array_closed = data == b"]"
        dropped = self._dropped
        self._reset()
        if array_closed:
            return
        if dropped or len(data) > self.limit:
            self.complain(line, too_long(dropped + len(data), self.limit), b"")
        else:
            yield Piece(line, data)

    def _stuck(self, final: bool) -> bool:
        """No bracket ahead. True: something was given up, go on; False: more bytes are needed, or it is the end."""
        end = _NO_BRACE.match(self.buffer, self._mark).end()  # type: ignore[union-attr]
        broken_string = end < len(self.buffer) and b"\n" in self.buffer[end:]
        if broken_string:
            return self._give_up("a string does not end on its line")
        if final:
            return self._give_up("the data end inside a JSON value")
        if len(self.buffer) > self.limit:
            if len(self.buffer) - end > self.limit:
                return self._give_up(too_long(len(self.buffer), self.limit))
            self._dropped += end
            self._drop(end)
            end = 0
        self._mark = end  # up to here there is no bracket: not to be looked through again
        return False

    def _give_up(self, reason: str) -> bool:
        """The current piece is broken: go on at the next line that begins with a bracket, if there is one."""
        self.complain(self.line, reason, bytes(self.buffer[: self.limit]))
        following = _NEXT_VALUE.search(self.buffer, 1)
        cut = following.start() if following else max(1, len(self.buffer) - 1)
        self._lost = following is None
        self._reset()
        self._drop(cut)
        self._mark = 0
        return True


def values(chunks: Iterator[bytes], limit: int, complain: Complain) -> Iterator[Piece]:
    """The JSON values of a stream, lists item by item."""
    scanner = ValueScanner(limit, complain)
    for chunk in chunks:
        yield from scanner.feed(chunk)
    yield from scanner.finish()
