"""One replay in words: the lines of its report.

Owns which figures are told and how. Must not know how lines are printed. Called by `cli.replay_report`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from vcledger.at import format_time
from vcledger.replay.report import ReplayResult, Side, Usage, Wait

Style = Literal["head", "table", "plain", "divergence", "note"]
BLOCKS = "▁▂▃▄▅▆▇█"
KINDS: Mapping[str, str] = {
    "other_node": "another feasible node",
    "infeasible": "a node that is refused here",
    "only_here": "placed here, pending there",
    "only_there": "pending here, placed there",
    "evicted_same": "evicted in both",
    "evicted_only_there": "evicted there, not here",
    "evicted_only_here": "evicted here, not there",
}
HIDDEN = ("pods", "ephemeral-storage")
"""Resources whose use is left out."""


NOTHING_COMPARED = "nothing could be compared: the record has no pod of which it says the node"


class Told(NamedTuple):
    """A line, or with style `table` the cells of one; its first row is the header."""

    style: Style
    cells: tuple[str, ...]


def told(result: ReplayResult) -> list[Told]:
    """The report, line by line."""
    return [
        _head(result),
        *_decisions(result),
        *_waits(result),
        *_usages(result),
        *_divergence(result),
        *(Told("note", (f"note: {line}",)) for line in result.notes),
    ]


def _head(result: ReplayResult) -> Told:
    span = seconds((result.ended - result.started) / 1e6)
    rounds = "cycles" if result.mode == "free" else "questions"
    end = "" if result.finished else f", stopped at position {result.stopped_at}"
    return Told(
        "head",
        (
            f"{result.mode} replay of {result.cluster}, positions {result.first + 1} to {result.last}{end}: "
            f"{span} of the trace, {result.cycles} {rounds}, seed {result.seed}",
        ),
    )


def _decisions(result: ReplayResult) -> list[Told]:
    counts, free = result.counts, result.mode == "free"
    rows = [
        Told("table", ("", "RECORDED", "HERE")),
        Told("table", ("pods placed", str(result.placed_recorded), str(result.placed))),
        Told("table", ("pending at the end", str(result.pending_recorded), str(result.pending) if free else "-")),
        Told("table", ("evictions", str(result.evictions_recorded), str(result.evictions))),
    ]
    if free and result.never_made:
        rows.append(Told("table", ("never made, PodGroup not let in", "-", str(result.never_made))))
    broken = str(result.gangs_broken) if free else "-"
    rows.append(Told("table", ("gangs broken", str(result.gangs_broken_recorded), broken)))
    if free:
        spans = seconds(result.makespan_recorded_seconds), seconds(result.makespan_seconds)
        rows.append(Told("table", ("makespan", *spans)))
    found = [(word, getattr(counts, name)) for name, word in (("same_node", "same node"), *KINDS.items())]
    if counts.unknown_node:
        found.append(("ran there on a node unknown", counts.unknown_node))
    always = ("same node", KINDS["other_node"], KINDS["only_here"], KINDS["only_there"])
    rows.append(Told("plain", ("",)))
    rows += [Told("plain", (f"{count:>8}  {word}",)) for word, count in found if count or word in always]
    return rows


def _waits(result: ReplayResult) -> list[Told]:
    queues = [queue for queue in sorted({**result.waits_recorded, **result.waits}) if queue]
    shown = ["", *queues] if len(queues) != 1 else queues
    rows = []
    for queue in shown:
        there, here = result.waits_recorded.get(queue), result.waits.get(queue)
        if there is not None or here is not None:
            rows.append(Told("table", (f"queue {queue}" if queue else "all queues", _wait(there), _wait(here))))
    header = Told("table", ("WAIT p50 / p95 / max", "RECORDED", "HERE"))
    return [Told("plain", ("",)), header, *rows] if rows else []


def _wait(wait: Wait | None) -> str:
    if wait is None or not wait.count:
        return "-"
    return f"{seconds(wait.p50)} / {seconds(wait.p95)} / {seconds(wait.max)}"


def _usages(result: ReplayResult) -> list[Told]:
    rows = []
    for title, usages in (("recorded", result.usage_recorded), ("here", result.usage)):
        for name, usage in usages.items():
            if name not in HIDDEN and usage.peak:
                rows.append(Told("table", (name, title, f"{usage.mean:.1%}", f"{usage.peak:.1%}", spark(usage))))
    rows.sort(key=lambda row: row.cells[0])
    header = Told("table", ("IN USE", "", "MEAN", "PEAK", "OVER TIME"))
    return [Told("plain", ("",)), header, *rows] if rows else []


def spark(usage: Usage) -> str:
    """The series as blocks, nothing to all."""
    return "".join(BLOCKS[min(len(BLOCKS) - 1, int(value * len(BLOCKS)))] for value in usage.series)


def _divergence(result: ReplayResult) -> list[Told]:
    found = result.divergence
    if found is None:
        same = "no divergence: every decision is the same" if result.compared else NOTHING_COMPARED
        return [Told("plain", ("",)), Told("plain", (same,))]
    head = f"first divergence, of {result.divergences}: position {found.position}, {found.pod}: {KINDS[found.kind]}"
    return [
        Told("plain", ("",)),
        Told("divergence", (head,)),
        Told("plain", (f"  recorded  {_side(found.recorded)}",)),
        Told("plain", (f"  here      {_side(found.replayed)}",)),
    ]


def _side(side: Side) -> str:
    when = f"{format_time(side.time)}: " if side.time is not None else ""
    return f"{when}{side.reason or side.node or 'left pending'}"


def seconds(value: float) -> str:
    """A span for people: 0.8s, 45s, 12m30s, 3h20m, 14d6h."""
    if value < 60:
        return f"{value:.1f}s"
    whole = round(value)
    if whole < 3600:
        return _parts(whole, 60, "m", 1, "s")
    return _parts(whole, 3600, "h", 60, "m") if whole < 86400 else _parts(whole, 86400, "d", 3600, "h")


def _parts(whole: int, size: int, unit: str, small: int, word: str) -> str:
    rest = whole % size // small
    return f"{whole // size}{unit}" + (f"{rest}{word}" if rest else "")


__all__ = ["KINDS", "Told", "seconds", "spark", "told"]
