"""Files by time, and which of them saw what.

Owns the finding of files, the merge, and the rule of coverage. Must not know the log. Called by
`vcledger.sources.pipeline`.

A watch and an audit log of the same time tell of the same versions of objects twice: the audit line first, when the
write was answered, then the watch. What a cache knew, it knew from its watch; so while a watch of a kind runs, what an
audit log or a dump shows of that kind is kept as late, for timelines and `why`, and the folds see the watch alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from eventstore.runs import Run
from vcledger.sources.compress import STDIN
from vcledger.sources.items import Taken

GRACE_MICROS = 60 * 1_000_000
"""How long after the last line of a watch it still counts as running: files of one moment are never cut off at the same
one, and a watch that goes on later must not find that an audit log got ahead of it."""


def find(paths: Sequence[Path | str]) -> tuple[list[Path | str], list[Path | str]]:
    """The files of the paths, folders searched through in the order of their names, each file once by whatever paths or
    links it was given; and the paths that are not there. Hidden files and folders inside a folder are passed over."""
    files: dict[object, Path | str] = {}
    missing: list[Path | str] = []
    for path in paths:
        if str(path) == STDIN:
            files.setdefault(STDIN, STDIN)
            continue
        path = Path(path)
        if path.is_dir():
            for file in sorted(_within(path)):
                files.setdefault(_identity(file), file)
        elif path.exists():
            files.setdefault(_identity(path), path)
        else:
            missing.append(path)
    return list(files.values()), missing


def _identity(path: Path) -> object:
    """What two names of one file have in common."""
    try:
        found = path.stat()
    except OSError:
        return path  # what it is will be told when it is opened
    return found.st_dev, found.st_ino


def _within(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _within(path)
        elif path.is_file():
            yield path


def by_time(streams: Sequence[Iterable[Taken]]) -> Iterator[Taken]:
    """All items by time; of equal times, those of the earlier stream first. A run is divided where items of another
    stream belong inside it."""
    if len(streams) == 1:
        yield from streams[0]
        return
    waiting: list[tuple[int, int, Taken, Iterator[Taken]]] = []
    for place, stream in enumerate(streams):
        source = iter(stream)
        if (first := next(source, None)) is not None:
            waiting.append((first.observed_at, place, first, source))
    heapq.heapify(waiting)
    while waiting:
        _, place, item, source = waiting[0]
        following: Taken | None = None
        if type(item) is Run and len(waiting) > 1:
            time, other = min(waiting[1:3])[:2]
            end = item.before(time, place < other)
            if end < len(item):
                item, following = item.part(0, end), item.part(end, len(item))
        yield item
        if following is None:
            following = next(source, None)
        if following is None:
            heapq.heappop(waiting)
        else:
            heapq.heapreplace(waiting, (following.observed_at, place, following, source))


class Coverage:
    """When the watches of this call ran: per kind from its first sign of life to the end of the file (and GRACE)."""

    def __init__(self) -> None:
        self._spans: dict[str, list[tuple[int, int]]] = {}
        self._last: list[int] = []

    def add(self, first: dict[str, int], last: int) -> None:
        """A file's first time of each kind, and its last time of all."""
        self._last.append(last)
        for kind, since in first.items():
            self._spans.setdefault(kind, []).append((since, last + GRACE_MICROS))

    def has(self, kind: str, time: int) -> bool:
        """Whether a watch of the kind ran at that time."""
        return any(since <= time <= until for since, until in self._spans.get(kind, ()))

    def just_ended(self, time: int) -> bool:
        """Whether that time lies beyond the last line of a watch, but so near that the watch may go on."""
        return any(last < time <= last + GRACE_MICROS for last in self._last) and not any(
            time <= last for last in self._last
        )
