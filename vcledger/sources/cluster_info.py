"""`kubectl cluster-info dump`: which files of a folder are one, and the containers' logs in it.

Owns the layout of such a dump. Must not know the lists in it, which are read as any lists are. Called by
`vcledger.sources.pipeline` and `vcledger.sources.reader`.

With --output-directory it writes nodes.json, and for each namespace a folder with events.json, pods.json, the lists of
six more kinds, and for each pod a folder with logs.txt. Without, all of it goes to standard output one after the other,
logs between the lists. Source: kubectl's pkg/cmd/clusterinfo/clusterinfo_dump.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_BEGINS = b"==== START logs for container "
_START = re.compile(_BEGINS + rb"([^\n]{1,600}) ====\n")
_ON_A_LINE = re.compile(rb"(?<=\n)" + _START.pattern)
HELD_MAX = 1_024
"""Bytes of a marker's line at most."""

LAYOUT = ("events", "pods", "replication-controllers")
"""Lists that each namespace's folder has, whatever there is in the namespace."""


def is_log(head: bytes) -> bool:
    """Whether a stream is the log of a pod's containers, as such a dump writes it."""
    return head.startswith(_BEGINS)


def folders(paths: Iterable[Path | str]) -> set[Path]:
    """Those folders among the parents of some files that such a dump was written to."""
    found: set[Path] = set()
    there = {Path(path) for path in paths}
    for path in there:
        root = path.parent.parent
        if path.stem == LAYOUT[0] and path.suffix in (".json", ".yaml"):
            lists = {path.with_stem(name) for name in LAYOUT} | {root / f"nodes{path.suffix}"}
            if lists <= there:
                found.add(root)
    return found


def without_logs(chunks: Iterable[bytes], met: Callable[[], None]) -> Iterator[bytes]:
    """The stream with containers' logs left out, of which only the line ends stay, so that lines keep their numbers.
    `met` is called at the first. No JSON or YAML that holds an object has such a line: in a string it would stand
    escaped, in a block indented. A log that has no end is left out to the end of the stream."""
    held, end, fresh = b"", b"", True
    for chunk in chunks:
        held += chunk
        while True:
            if end:
                held, out, inside = _skip(held, end)
                yield out
                if inside:
                    break
                end, fresh = b"", True
            found = (_START.match(held) if fresh else None) or _ON_A_LINE.search(held)
            if found is None:
                break
            met()
            yield held[: found.start()] + b"\n"
            end = b"==== END logs for container %s ====\n" % found[1]
            held = held[found.end() :]
        if not end:
            cut = _safe(held)
            if cut:
                yield held[:cut]
                held, fresh = held[cut:], False
    if not end:
        yield held


def _skip(held: bytes, end: bytes) -> tuple[bytes, bytes, bool]:
    """What is left after a log, the line ends of what was left out, and whether the log goes on."""
    place = held.find(end)
    if place >= 0:
        place += len(end)
        return held[place:], b"\n" * held.count(b"\n", 0, place), False
    cut = max(0, len(held) - len(end) + 1)
    return held[cut:], b"\n" * held.count(b"\n", 0, cut), True


def _safe(held: bytes) -> int:
    """How much of it can be given out, so that a marker's line that goes on in the next chunk is seen whole, with the
    line end before it."""
    line = held.rfind(b"\n") + 1
    last = held[line : line + len(_BEGINS)]
    if len(held) - line < HELD_MAX and _BEGINS.startswith(last):
        return max(0, line - 1)
    return len(held)
