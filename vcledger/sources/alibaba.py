"""The openb traces of Alibaba's GPU clusters (cluster-trace-gpu-v2023): a list of nodes and lists of pods, as CSV.

Owns the rows: their columns, what is wrong with one, and the order in time of what they tell. Must not know the log,
nor how a row becomes API objects (`vcledger.sources.alibaba_objects`). Called by `vcledger.sources.reader`.

A trace counts seconds from a beginning that it does not name; `epoch` says which moment that is. Each row of pods is a
whole life: created, perhaps scheduled, deleted. So all rows are read before the first event is given out, and events
come in the order of time however the rows stand.
"""

from __future__ import annotations

import csv
import heapq
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from eventstore.types import NewEvent
from vcledger.at import MICROS
from vcledger.sources.alibaba_objects import Lives, NodeRow, PodRow, node_events
from vcledger.sources.framing import line_batches
from vcledger.sources.observe import Observer, Unusable, shown
from vcledger.sources.report import Tally

NODE_COLUMNS = frozenset({"sn", "cpu_milli", "memory_mib", "gpu", "model"})
POD_COLUMNS = frozenset({"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"})
TIME_COLUMNS = frozenset({"creation_time", "deletion_time", "scheduled_time"})
"""Columns that every list of the kind has; of the times all or none, as in the lists that were sampled from the first
one. `gpu_spec`, `qos` and `pod_phase` may be lacking."""

SIZES = frozenset({"cpu_milli", "memory_mib"})
LIKE = 3
"""A table with so many of a list's columns, a size among them, is such a list, if not a whole one."""

PHASES = frozenset({"Pending", "Running", "Succeeded", "Failed"})
SECONDS_MAX = 100 * 366 * 86_400
NUMBER_MAX = 10**9
HEADER_MAX = 1 << 12
GPU_MILLI = 1_000
"""Thousandths of a GPU in a whole one."""

_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_QUEUE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_WHOLE = re.compile(r"(\d{1,15})(?:\.0*)?", re.ASCII)
_NEGATIVE = re.compile(r"-\d{1,15}(?:\.\d*)?", re.ASCII)
_TIME = re.compile(r"(-?)(\d{1,15})(?:\.(\d*))?", re.ASCII)
_NONE = frozenset({"", "nan", "NaN", "null", "None"})


def columns_of(head: bytes) -> frozenset[str]:
    """The names in a first line, when it may be the header of a CSV file; else none."""
    line = head.partition(b"\n")[0]
    if len(line) > HEADER_MAX or b"," not in line:
        return frozenset()
    try:
        return frozenset(_cells(line.decode().removeprefix("\ufeff")))
    except (UnicodeDecodeError, csv.Error):
        return frozenset()


def are_pods(columns: frozenset[str]) -> bool:
    """Whether it is a list of pods that has these columns, and may lack others."""
    return len(columns & (POD_COLUMNS | TIME_COLUMNS)) >= LIKE and bool(columns & SIZES) and not are_nodes(columns)


def are_nodes(columns: frozenset[str]) -> bool:
    """The same of a list of nodes."""
    return len(columns & NODE_COLUMNS) >= LIKE and bool(columns & SIZES) and not columns & (POD_COLUMNS - SIZES)


def lacking(columns: Collection[str], needed: frozenset[str]) -> list[str]:
    """The columns that a list must have and this one has not. Of the times all or none."""
    if needed is POD_COLUMNS and not TIME_COLUMNS.isdisjoint(columns):
        needed = needed | TIME_COLUMNS
    return sorted(needed.difference(columns))


class Rows:
    """The rows of one file; `line` is the number of the one at hand. Broken ones are counted. A file without the
    columns that are `needed` has none."""

    def __init__(self, tally: Tally, limit: int, needed: frozenset[str]) -> None:
        self.tally, self.limit, self.needed = tally, limit, needed
        self.line = 0

    def of(self, chunks: Iterator[bytes]) -> Iterator[dict[str, str]]:
        """Column to text, blanks around it taken off."""
        header: list[str] | None = None
        for first, lines in line_batches(chunks, self.limit, self._complain):
            for self.line, data in enumerate(lines, first):
                if not data.strip():
                    continue
                try:
                    cells = _cells(data.decode())
                except (UnicodeDecodeError, csv.Error) as error:
                    self._complain(self.line, str(error), data)
                    continue
                if header is None:
                    header = [cell.removeprefix("\ufeff") for cell in cells]
                    if self._refused(header, data):
                        return
                    continue
                self.tally.read()
                if len(cells) == len(header):
                    yield dict(zip(header, cells, strict=True))
                else:
                    self.tally.broken(self.line, f"{len(cells)} columns, where the header has {len(header)}", data)

    def _refused(self, header: list[str], data: bytes) -> bool:
        """Whether columns are missing, which is told."""
        lacks = lacking(header, self.needed)
        if lacks:
            columns = f"the column{'s' * (len(lacks) > 1)} {', '.join(lacks)}"
            self._complain(0, f"an {self.tally.file.format or 'openb list'} without {columns}", data)
        return bool(lacks)

    def _complain(self, line: int, reason: str, data: bytes) -> None:
        self.tally.read()
        self.tally.broken(line, reason, data)

    def broken(self, reason: str, row: dict[str, str]) -> None:
        """Of the row at hand."""
        self.tally.broken(self.line, reason, ",".join(row.values()).encode())


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], strict=True), [])]


# --- nodes --------------------------------------------------------------------------------------------------------


def nodes(chunks: Iterator[bytes], observer: Observer, tally: Tally, limit: int, epoch: int) -> Iterator[NewEvent]:
    """The nodes of a list, there from just before `epoch` (microseconds) on."""
    rows = Rows(tally, limit, NODE_COLUMNS)
    seen: set[str] = set()
    for row in rows.of(chunks):
        try:
            node = _node(row, seen)
            yield from node_events(observer, node, epoch)
        except Unusable as error:
            rows.broken(str(error), row)


def _node(row: dict[str, str], seen: set[str]) -> NodeRow:
    model = _cell(row, "model")
    if model and not _LABEL.fullmatch(model):
        raise Unusable(f"model {shown(model)} cannot be the value of a label")
    gpus = _whole(row, "gpu", 0)
    return NodeRow(_named(row, "sn", seen), _whole(row, "cpu_milli"), _whole(row, "memory_mib"), gpus, model)


# --- pods ---------------------------------------------------------------------------------------------------------


def pods(chunks: Iterator[bytes], observer: Observer, tally: Tally, limit: int, epoch: int) -> Iterator[NewEvent]:
    """The lives of the pods of a list, in order of time, queues before them; times are `epoch` (microseconds) and what
    the trace counts from there."""
    rows = Rows(tally, limit, POD_COLUMNS)
    seen: set[str] = set()
    found: list[PodRow] = []
    back, timed = 0, True
    for row in rows.of(chunks):
        timed = "creation_time" in row
        try:
            pod = _pod(row, seen)
        except Unusable as error:
            rows.broken(str(error), row)
            continue
        back += bool(found) and pod.created < found[-1].created
        found.append(pod)
    if back:
        rows_go = "1 row goes" if back == 1 else f"{back:,} rows go"
        tally.report.note(
            f"{tally.file.file}: {rows_go} back in time (created before the pod of the row above): put in order"
        )
    if found and not timed:
        tally.report.note(f"{tally.file.file}: has no times, so all of its pods are there from the beginning and wait")
    yield from _in_time(found, Lives(observer, epoch))


def _in_time(rows: Sequence[PodRow], lives: Lives) -> Iterator[NewEvent]:
    """What the rows tell. At one moment what ends comes first, so that what it held is free, then what was scheduled,
    then what is new."""
    if rows:
        yield from lives.queues(sorted({row.queue for row in rows}))
    waiting: list[tuple[int, bool, int, PodRow]] = []
    for number, row in enumerate(sorted(rows, key=lambda one: one.created)):
        while waiting and waiting[0][0] <= row.created:
            yield from _next(waiting, lives)
        yield from lives.created(row)
        if row.scheduled is not None:
            heapq.heappush(waiting, (row.scheduled, True, number, row))
        elif row.deleted is not None:
            heapq.heappush(waiting, (row.deleted, False, number, row))
    while waiting:
        yield from _next(waiting, lives)


def _next(waiting: list[tuple[int, bool, int, PodRow]], lives: Lives) -> Iterable[NewEvent]:
    """The next step in a life that has begun."""
    _, starts, number, row = heapq.heappop(waiting)
    if not starts:
        return lives.deleted(row)
    if row.deleted is not None:
        heapq.heappush(waiting, (row.deleted, False, number, row))
    return lives.scheduled(row)


def _pod(row: dict[str, str], seen: set[str]) -> PodRow:
    """A row, checked. Unusable with what is wrong in it."""
    created, scheduled, deleted = (_time(row, f"{what}_time") for what in ("creation", "scheduled", "deletion"))
    phase, qos = _cell(row, "pod_phase"), _cell(row, "qos")
    if created is None and "creation_time" in row:
        raise Unusable("no creation_time")
    created = created or 0
    _in_order(row, created, scheduled, deleted)
    if phase and phase not in PHASES:
        raise Unusable(f"pod_phase {shown(phase)} is none of {', '.join(sorted(PHASES))}")
    if phase in ("Running", "Succeeded") and scheduled is None:
        raise Unusable(f"pod_phase {phase}, but no scheduled_time")
    if qos and not _QUEUE.fullmatch(qos.lower()):
        raise Unusable(f"qos {shown(qos)} cannot name a queue")
    gpus, share = _gpus(row)
    models = tuple(dict.fromkeys(part.strip() for part in _cell(row, "gpu_spec").split("|") if part.strip()))
    if any(not _LABEL.fullmatch(model) for model in models):
        raise Unusable(f"gpu_spec {shown('|'.join(models))} cannot be values of a label")
    cpu, memory = _whole(row, "cpu_milli"), _whole(row, "memory_mib")
    name = _named(row, "name", seen)
    return PodRow(name, cpu, memory, gpus, share, models, qos, phase, created, scheduled, deleted)


def _in_order(row: dict[str, str], created: int, scheduled: int | None, deleted: int | None) -> None:
    """Unusable for a life that goes back in time."""
    if scheduled is not None and scheduled < created:
        raise Unusable(f"scheduled_time {row['scheduled_time']} is before creation_time {row['creation_time']}")
    since, what = (created, "creation_time") if scheduled is None else (scheduled, "scheduled_time")
    if deleted is not None and deleted < since:
        raise Unusable(f"deletion_time {row['deletion_time']} is before {what} {row[what]}: a negative duration")


def _gpus(row: dict[str, str]) -> tuple[int, int]:
    """GPUs, and the thousandths of each that are asked for. An empty share is a whole one."""
    gpus = _whole(row, "num_gpu", 0)
    share = _whole(row, "gpu_milli", GPU_MILLI)
    if gpus and not 0 < share <= GPU_MILLI:
        raise Unusable(f"num_gpu {gpus} with gpu_milli {share}: of each GPU 1 to {GPU_MILLI} can be asked for")
    return gpus, share if gpus else 0


# --- cells --------------------------------------------------------------------------------------------------------


def _cell(row: dict[str, str], column: str) -> str:
    """The text of a cell; '' when there is none, as pandas writes that too."""
    text = row.get(column, "")
    return "" if text in _NONE else text


def _whole(row: dict[str, str], column: str, default: int | None = None) -> int:
    text = _cell(row, column)
    if not text and default is not None:
        return default
    if not text:
        raise Unusable(f"no {column}")
    found = _WHOLE.fullmatch(text)
    if found is None:
        negative = _NEGATIVE.fullmatch(text)
        raise Unusable(f"{column} {shown(text)} is {'negative' if negative else 'no whole number'}")
    if int(found[1]) > NUMBER_MAX:
        raise Unusable(f"{column} {text} is more than {NUMBER_MAX:,}")
    return int(found[1])


def _time(row: dict[str, str], column: str) -> int | None:
    """Microseconds since the trace's beginning; None for an empty cell."""
    text = _cell(row, column)
    if not text:
        return None
    found = _TIME.fullmatch(text)
    if found is None:
        raise Unusable(f"{column} {shown(text)} is no number of seconds")
    if found[1]:
        raise Unusable(f"{column} {text} is before the beginning of the trace")
    if int(found[2]) > SECONDS_MAX:
        raise Unusable(f"{column} {text} is more than a hundred years after the beginning of the trace")
    return int(found[2]) * MICROS + int((found[3] or "")[:6].ljust(6, "0"))


def _named(row: dict[str, str], column: str, seen: set[str]) -> str:
    """A name that the API allows and that no row before has. A row that is broken does not take its name."""
    name = _cell(row, column)
    if not _NAME.fullmatch(name):
        raise Unusable(f"{column} {shown(name)} is no name that the API allows" if name else f"no {column}")
    if name in seen:
        raise Unusable(f"{name} stands in an earlier row too")
    seen.add(name)
    return name
