"""A scheduler's log at -v=4 as decisions: which nodes a task looked at, who refused it, what each plugin scored, and
the node that was taken.

Owns the reading. Must not know sessions of ours. Called by the test of the scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import zstandard

_LINE = re.compile(r"^[IWE](\d\d)(\d\d) (\d\d:\d\d:\d\d\.\d{6}) +\d+ ([a-z_]+\.go):\d+\] (.*)$")
_OPEN = re.compile(r"Open Session \S+ with <(\d+)> Job")
_CONSIDERING = re.compile(r"Considering Task <(\S+)> on node <(\S+)>: <.*> vs\. <cpu ([\d.-]+), memory ([\d.-]+)")
_REFUSED = re.compile(r"Predicates failed: task (\S+) on node (\S+) fit failed: (.*)$")
_SCORES = re.compile(r"^(\w+) Score for task (\S+) is: map\[(.*)\]$")
_TOTAL = re.compile(r"^Batch Total Score for task (\S+) is: map\[(.*)\]$")
_BINPACK = re.compile(r"^Binpack score for Task (\S+) on node (\S+) is: ([\d.]+)$")
_TAKEN = re.compile(r"^Binding Task <(\S+)> to node <(\S+)>$")
_RESYNCED = re.compile(r"^Successfully synced task <(\S+)>$")


@dataclass(slots=True)
class Decision:
    """What the scheduler did for a task once. `idle` are cpu and memory of the nodes in the order in which they were
    looked at; `scores` by plugin and node; `total` nodeorder's sum; `taken` is '' where no node was."""

    task: str
    time: int
    idle: dict[str, tuple[float, float]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    total: dict[str, int] = field(default_factory=dict)
    binpack: dict[str, float] = field(default_factory=dict)
    taken: str = ""


@dataclass(slots=True)
class LoggedSession:
    """A session; `resynced` are tasks that were read again from the API before it, after the session before."""

    time: int
    decisions: list[Decision] = field(default_factory=list)
    resynced: list[str] = field(default_factory=list)


def read_log(path: Path, year: int) -> list[LoggedSession]:
    """The sessions of a log, times in microseconds since the epoch."""
    sessions: list[LoggedSession] = []
    resynced: list[str] = []
    current: Decision | None = None
    for time, source, text in _lines(path, year):
        if source == "session.go" and _OPEN.match(text):
            sessions.append(LoggedSession(time, resynced=resynced))
            resynced, current = [], None
        elif source == "cache.go" and (found := _RESYNCED.match(text)):
            resynced.append(found[1])
        elif source == "predicate_helper.go" and (found := _CONSIDERING.match(text)):
            if current is None or current.task != found[1]:
                current = Decision(found[1], time)
                sessions[-1].decisions.append(current)
            current.idle[found[2]] = float(found[3]), float(found[4])
        elif current is not None:
            _add(current, source, text)
            if current.taken:
                current = None
    return sessions


def _add(current: Decision, source: str, text: str) -> None:
    if source == "predicate_helper.go" and (found := _REFUSED.match(text)):
        current.refused[found[2]] = found[3]
    elif source == "score_helper.go" and (found := _SCORES.match(text)):
        current.scores[found[1]] = _numbers(found[3])
    elif source == "nodeorder.go" and (found := _TOTAL.match(text)):
        current.total = _numbers(found[2])
    elif source == "binpack.go" and (found := _BINPACK.match(text)):
        current.binpack[found[2]] = float(found[3])
    elif source == "allocate.go" and (found := _TAKEN.match(text)):
        current.taken = found[2]


def _numbers(text: str) -> dict[str, int]:
    return {name: int(number) for name, _, number in (part.rpartition(":") for part in text.split())}


def _lines(path: Path, year: int) -> Iterator[tuple[int, str, str]]:
    data = zstandard.decompress(path.read_bytes(), max_output_size=1 << 30).decode()
    for line in data.splitlines():
        found = _LINE.match(line)
        if found is not None:
            moment = datetime.fromisoformat(f"{year}-{found[1]}-{found[2]}T{found[3]}+00:00")
            yield round(moment.timestamp() * 1_000_000), found[4], found[5]


__all__ = ["Decision", "LoggedSession", "read_log"]
