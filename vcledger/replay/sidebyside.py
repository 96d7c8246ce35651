"""What came of several replays, side by side.

Owns which figures stand in the table, in which order, and how a difference from the base is written. Must not know how
a table is printed. Called by `cli.replaying`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from vcledger.replay.engine import ReplayResult, Usage, Wait
from vcledger.replay.told import seconds

QUEUES_SHOWN = 8
TRACES_SHOWN = 4
NOTHING = "-"
HIDDEN = ("pods", "ephemeral-storage")
"""Resources whose use nobody asks for."""


class Row(NamedTuple):
    """A figure: its name, what the record has of it ('-' for nothing; of several records 'A / B'), and a cell for each
    replay."""

    figure: str
    recorded: str
    cells: tuple[str, ...]


def rows(results: Sequence[ReplayResult], bases: Sequence[int]) -> list[Row]:
    """The table of these replays. `bases` has for each the number of its base run: cells of a run that is no base also
    tell the difference from it. Figures that are nothing everywhere are left out, but for the first few."""
    table = [
        _counted("pods", results, bases, lambda one: one.pods),
        _counted("placed", results, bases, lambda one: one.placed, lambda one: one.placed_recorded),
        _counted(
            "pending at the end", results, bases, _free(lambda one: one.pending), lambda one: one.pending_recorded
        ),
        _counted("never made", results, bases, lambda one: one.never_made),
        _counted("on the same node", results, bases, lambda one: one.counts.same_node),
        _counted("on another feasible node", results, bases, lambda one: one.counts.other_node),
        _counted("recorded node infeasible", results, bases, lambda one: one.counts.infeasible),
        _counted("placed, pending in the record", results, bases, lambda one: one.counts.only_here),
        _counted("pending, placed in the record", results, bases, lambda one: one.counts.only_there),
        *_waits(results, bases),
        *_usages(results, bases),
        _counted(
            "gangs broken", results, bases, _free(lambda one: one.gangs_broken), lambda one: one.gangs_broken_recorded
        ),
        _counted("evictions", results, bases, lambda one: one.evictions, lambda one: one.evictions_recorded),
        _counted("evicted in both", results, bases, lambda one: one.counts.evicted_same),
        _measured(
            "makespan",
            results,
            bases,
            _free(lambda one: one.makespan_seconds),
            seconds,
            _free(lambda one: one.makespan_recorded_seconds),
        ),
        Row("first divergence", NOTHING, tuple(_divergence(one) for one in results)),
    ]
    return [row for number, row in enumerate(table) if number < 3 or _says_something(row)]


def _free(read: Callable[[ReplayResult], float]) -> Callable[[ReplayResult], float | None]:
    """A figure that only a free replay has."""
    return lambda one: read(one) if one.mode == "free" else None


def _says_something(row: Row) -> bool:
    return any(cell not in {"0", NOTHING, "none"} for cell in (row.recorded, *row.cells))


def _counted(
    figure: str,
    results: Sequence[ReplayResult],
    bases: Sequence[int],
    read: Callable[[ReplayResult], float | None],
    recorded: Callable[[ReplayResult], float | None] | None = None,
) -> Row:
    return _measured(figure, results, bases, read, lambda value: str(int(value)), recorded)


def _measured(
    figure: str,
    results: Sequence[ReplayResult],
    bases: Sequence[int],
    read: Callable[[ReplayResult], float | None],
    write: Callable[[float], str],
    recorded: Callable[[ReplayResult], float | None] | None = None,
) -> Row:
    values = [read(one) for one in results]
    cells = []
    for number, value in enumerate(values):
        base = values[bases[number]]
        cell = NOTHING if value is None else write(value)
        if value is not None and base is not None and bases[number] != number:
            apart = write(abs(value - base))
            if apart != write(0):
                cell += f" ({'+' if value > base else '-'}{apart})"
        cells.append(cell)
    records: dict[tuple[str, int, int, int], str] = {}
    for number, one in enumerate(results):
        if recorded is not None and bases[number] == number:
            trace = one.cluster, one.first, one.last, one.started
            records.setdefault(trace, _text(recorded(one), write))
    return Row(figure, _of_records(list(records.values())), tuple(cells))


def _of_records(values: Sequence[str]) -> str:
    """The cell of the record; of several traces that differ, one after the other."""
    if len(set(values)) <= 1:
        return values[0] if values else NOTHING
    return " / ".join(values) if len(values) <= TRACES_SHOWN else NOTHING


def _text(value: float | None, write: Callable[[float], str]) -> str:
    return NOTHING if value is None else write(value)


def _waits(results: Sequence[ReplayResult], bases: Sequence[int]) -> list[Row]:
    """The wait of all pods, and where there are several queues the 95th percentile of each."""
    queues = list(dict.fromkeys(queue for one in results for queue in one.waits if queue))
    shown = ["", *(sorted(queues)[:QUEUES_SHOWN] if len(queues) > 1 else ())]
    found = []
    for queue in shown:
        place = f", queue {queue}" if queue else ""
        for name in ("p95",) if queue else ("p50", "p95", "max"):

            def read(one: ReplayResult, queue: str = queue, name: str = name) -> float | None:
                return _wait(one.waits.get(queue), name)

            def recorded(one: ReplayResult, queue: str = queue, name: str = name) -> float | None:
                return _wait(one.waits_recorded.get(queue), name)

            found.append(_measured(f"wait {name}{place}", results, bases, read, seconds, recorded))
    return found


def _wait(wait: Wait | None, name: str) -> float | None:
    if wait is None or not wait.count:
        return None
    value: float = getattr(wait, name)
    return value


def _usages(results: Sequence[ReplayResult], bases: Sequence[int]) -> list[Row]:
    """The mean and the peak of each resource's use."""
    resources = list(dict.fromkeys(name for one in results for name in one.usage if name not in HIDDEN))
    found = []
    for resource in resources:
        for name in ("mean", "peak"):

            def read(one: ReplayResult, resource: str = resource, name: str = name) -> float | None:
                return _share(one.usage.get(resource), name)

            def recorded(one: ReplayResult, resource: str = resource, name: str = name) -> float | None:
                return _share(one.usage_recorded.get(resource), name)

            found.append(_measured(f"{resource} in use, {name}", results, bases, read, _percent, recorded))
    return found


def _share(usage: Usage | None, name: str) -> float | None:
    if usage is None:
        return None
    value: float = getattr(usage, name)
    return value


def _percent(value: float) -> str:
    return f"{value * 100:.1f}%"


def _divergence(one: ReplayResult) -> str:
    return "none" if one.divergence is None else f"position {one.divergence.position}"


__all__ = ["Row", "rows"]
