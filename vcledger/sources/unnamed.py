"""Items of a list that says only after them what kind they are, as its keys are in alphabetical order.

Owns the waiting. Must not know formats nor what an item means. Called by `vcledger.sources.reader`.

An API server writes a list's kind first, and kubectl prints items that say their own; a PodList that went through a
tool which sorts keys does neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from vcledger.sources.framing import Piece
from vcledger.sources.shape import is_list, shapes

LIST_KIND = re.compile(rb'"kind"\s*:\s*"([^"\\]{1,80})List"')


def named(pieces: Iterable[Piece], limit: int) -> Iterator[Piece]:
    """The pieces, JSON each; items that have no kind yet come after the list's own text, which then is their `head`.
    At most `limit` bytes of them wait: what is beyond, and what waits at the end of a stream that was cut off, comes
    as it is, without a kind."""
    waiting: list[Piece] = []
    size = 0
    for piece in pieces:
        if piece.item and size < limit and _unnamed(piece):
            waiting.append(piece)
            size += len(piece.data)
            continue
        if not piece.item and waiting:
            head = piece.data if LIST_KIND.search(piece.data) else waiting[0].head
            yield from (one._replace(head=head) for one in waiting)
            waiting, size = [], 0
        yield piece
    yield from waiting


def _unnamed(piece: Piece) -> bool:
    """Whether neither the item nor what its list has said so far names its kind. A bare array never will."""
    if not piece.head or LIST_KIND.search(piece.head):
        return False
    try:
        shape = shapes.decode(piece.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return not shape.kind and shape.type is None and shape.recorded_at is None and not is_list(shape)
