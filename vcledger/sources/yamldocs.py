"""YAML documents, as kubectl prints them, to the JSON of one object or watch event at a time.

Owns the cutting of a stream into documents and list items, and the reading of each. Must not know what an object means.
Called by `vcledger.sources.reader`.

A List is read item by item where its items begin at the left margin, as kubectl prints them; memory holds one object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from vcledger.sources.framing import Complain, Piece, line_batches, too_long
from vcledger.sources.observe import Unusable

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE):  # type: ignore[misc]
    """YAML without timestamps: a time stays the text that it is in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _BASE.yaml_implicit_resolvers.items()
}

_ITEMS = re.compile(rb"items:\s*(#.*)?\r?\Z")
_ITEM = re.compile(rb"-\s")
_END = re.compile(rb"(---|\.\.\.)(\s|\Z)")


class _Cutter:
    """Lines to documents and items."""

    def __init__(self, limit: int, complain: Complain) -> None:
        self.limit, self.complain = limit, complain
        self._outer: list[bytes] = []
        self._item: list[bytes] = []
        self._line = self._item_line = 1
        self._in_items = False
        self._size = 0

    def line(self, number: int, line: bytes) -> Iterator[Piece]:
        """Takes a line; gives out what it ends."""
        if _END.match(line):
            yield from self.flush()
            rest = line[3:].strip() if line.startswith(b"---") else b""
            if rest and not rest.startswith(b"#"):
                self._add(self._outer, number, rest)
            return
        if self._in_items and _ITEM.match(line):
            yield from self._end_item()
            if self._outer and _ITEMS.match(self._outer[-1]):
                self._outer[-1] = b"items: []"
            self._item_line = number
            self._add(self._item, number, b" " + line[1:])
        elif self._in_items and self._item and (line[:1] in (b" ", b"#", b"\r") or not line):
            self._add(self._item, number, line)
        elif line.strip() and not line.startswith(b"#"):
            yield from self._end_item()
            self._in_items = bool(_ITEMS.match(line))
            self._add(self._outer, number, line)

    def _add(self, where: list[bytes], number: int, line: bytes) -> None:
        if where is self._outer and not where:
            self._line = number
        self._size += len(line) + 1
        if self._size <= self.limit:
            where.append(line)

    def _end_item(self) -> Iterator[Piece]:
        if self._item:
            yield from self._take(self._item, self._item_line, True)
        self._item = []

    def flush(self) -> Iterator[Piece]:
        """The end of a document."""
        yield from self._end_item()
        if any(line.strip() for line in self._outer):
            yield from self._take(self._outer, self._line, False)
        self._outer, self._in_items, self._size = [], False, 0

    def _take(self, lines: list[bytes], line: int, item: bool) -> Iterator[Piece]:
        size = self._size
        self._size = sum(map(len, self._outer)) if item else 0
        if size > self.limit:
            self.complain(line, too_long(size, self.limit), b"")
        else:
            yield Piece(line, b"\n".join(lines), item, b"\n".join(self._outer) if item else b"")


def pieces(chunks: Iterator[bytes], limit: int, complain: Complain) -> Iterator[Piece]:
    """The documents of a stream; a List comes item by item, then itself with no items."""
    cutter = _Cutter(limit, complain)
    for number, lines in line_batches(chunks, limit, complain):
        for offset, line in enumerate(lines):
            yield from cutter.line(number + offset, line)
    yield from cutter.flush()


def to_json(text: bytes, limit: int) -> bytes:
    """The JSON of one document; b"null" for an empty one. Unusable, with the reason, when it is no YAML or would grow
    beyond `limit` by its aliases."""
    try:
        value = yaml.load(text.decode(), Loader=_Loader)
        if _size(value, {}) > limit:
            raise Unusable("its aliases expand to more than --max-line-size")
        return msgspec.json.encode(value)
    except yaml.YAMLError as error:
        raise Unusable(f"not YAML: {_reason(error)}") from error
    except (UnicodeDecodeError, RecursionError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise Unusable(f"not an object in YAML: {error}") from error


def _size(value: Any, known: dict[int, int]) -> int:
    """About how many bytes of JSON, with a shared part counted each time, but walked once."""
    if not isinstance(value, dict | list):
        return len(value) if isinstance(value, str) else 8
    if (size := known.get(id(value))) is not None:
        return size
    known[id(value)] = 0
    parts = value if isinstance(value, list) else [*value.keys(), *value.values()]
    known[id(value)] = total = 2 + sum(_size(part, known) + 1 for part in parts)
    return total


def _reason(error: yaml.YAMLError) -> str:
    """The parser's problem and line within the piece."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    where = f" (line {mark.line + 1} of the piece)" if mark is not None else ""
    return f"{problem or error}{where}"
