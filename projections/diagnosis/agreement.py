"""Whether the scheduler's own words and our evaluation agree, and the choice of wording where both may be right.

Owns the comparison. Must not know verdicts. Called by `projections.diagnosis.explain`.
The scheduler names one reason a node, and which of several depends on its order of filters, which changed between
versions; a message that fits some choice of one reason for each node is no disagreement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from projections.diagnosis.reasons import Reason

FIT_MESSAGE = re.compile(r"0/(\d+) nodes are unavailable: (.*)\.\Z", re.DOTALL)
ASSIGNABLE = re.compile(r"Pod \S+ can possibly be assigned to (\S+), once")
_COUNTED = re.compile(r"(\d+) (.*)", re.DOTALL)


def parse_fit_message(message: str) -> tuple[int, dict[str, int]] | None:
    """The number of nodes and the counted reasons of a fit message; None when it is none. An `Origin reason is TASK: `
    before it is stepped over."""
    found = FIT_MESSAGE.search(message)
    if found is None:
        return None
    counts: dict[str, int] = {}
    for part in found.group(2).split(", "):
        counted = _COUNTED.fullmatch(part)
        if counted is None:
            return None
        counts[counted.group(2)] = counts.get(counted.group(2), 0) + int(counted.group(1))
    return int(found.group(1)), counts


def explains(counts: Mapping[str, int], table: Mapping[str, Sequence[Reason]]) -> bool:
    """Whether each node can be given one of its own reasons so that the counts come out (a matching of nodes to
    reasons)."""
    if sum(counts.values()) != len(table):
        return False
    seats = [text for text, count in sorted(counts.items()) for _ in range(count)]
    options = {name: {reason.text for reason in found} for name, found in table.items()}
    taken: dict[int, str] = {}

    def seat(name: str, tried: set[int]) -> bool:
        for index, text in enumerate(seats):
            if text in options[name] and index not in tried:
                tried.add(index)
                if index not in taken or seat(taken[index], tried):
                    taken[index] = name
                    return True
        return False

    if len(seats) > 400:
        return all(any(text in options[name] for text in counts) for name in options)
    return all(seat(name, set()) for name in options)


def disagreement(ours: str, theirs: str, table: Mapping[str, Sequence[Reason]], fits: Sequence[str]) -> str:
    """How the two differ, as a sentence; '' when they agree or speak of different things."""
    if ours == theirs or not theirs:
        return ""
    assignable = ASSIGNABLE.match(theirs)
    if assignable is not None:
        node = assignable.group(1)
        return "" if node in fits else f"the scheduler names {node} as possible, our evaluation does not let it through"
    parsed = parse_fit_message(theirs)
    if parsed is None:
        return ""
    nodes, counts = parsed
    if not fits and nodes == len(table) and explains(counts, table):
        return ""
    return f"the scheduler wrote {theirs!r}, our evaluation at this position says {ours!r}"


def phrased(ours: str, theirs: str, table: Mapping[str, Sequence[Reason]], fits: Sequence[str]) -> str:
    """Our message, in the scheduler's choice of words where that choice is as right as ours."""
    if not theirs or ours == theirs:
        return ours
    ours_assignable, theirs_assignable = ASSIGNABLE.match(ours), ASSIGNABLE.match(theirs)
    if ours_assignable is not None and theirs_assignable is not None:
        return theirs if theirs_assignable.group(1) in fits else ours
    mine, other = FIT_MESSAGE.fullmatch(ours), FIT_MESSAGE.fullmatch(theirs)
    if mine is not None and other is not None:
        parsed = parse_fit_message(theirs)
        if parsed is not None and parsed[0] == len(table) and explains(parsed[1], table):
            return theirs
    return ours
