"""A file that is read in a second process gives the same ledger and the same report as one that is read in this one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from eventstore import EventStore, schema
from eventstore.runs import Run
from tests.data import recording
from tests.processes import hearing_interrupts
from tests.unit.sources.given import (
    clock,
    compact,
    imported,
    ledger,
    listed,
    marker,
    pod,
    recorded,
    watch_line,
    watch_of,
    written,
)
from vcledger.ledger import Ledger
from vcledger.sources import ImportOptions, ImportReport, import_paths
from vcledger.sources.beside import ReaderDied, ReaderProcess, cores, receive, send
from vcledger.sources.items import Broke
from vcledger.sources.merge import by_time
from vcledger.sources.packing import EVENTS
from vcledger.sources.pipeline import Import

ALONE = ImportOptions(snapshots=False, beside_bytes=None)
BESIDE = ImportOptions(snapshots=False, beside_bytes=0)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine has."""
    monkeypatch.setattr("vcledger.sources.pipeline.cores", lambda: 2)


def rows(store: EventStore) -> dict[str, list[Any]]:
    """All there is in a ledger, but for the moment at which it was appended and what follows from that."""
    with store.backend.reading() as connection:
        found = {
            table.name: [tuple(row) for row in connection.execute(select(table))]
            for table in schema.metadata.sorted_tables
            if table.name != "batches"
        }
        b = schema.batches.c
        found["batches"] = [
            tuple(row)
            for row in connection.execute(
                select(b.id, b.first_position, b.events, b.payload_size, b.payload_stored, b.dictionary_id)
            )
        ]
    return {name: sorted(some, key=repr) for name, some in found.items()}


def events(opened: Ledger) -> list[Any]:
    """What was observed, in order."""
    return [event._replace(appended_at=0) for event in opened.store.read()]


def told(report: ImportReport) -> dict[str, Any]:
    return vars(report) | {"seconds_durable": 0.0}


def both(folder: Path, *paths: Path, batch: int = 4_000, before: Path | None = None) -> ImportReport:
    """Imports the paths in both ways and compares ledgers and reports; `before` is what each ledger has already."""
    reports, ledgers = [], []
    for name, options in (("alone", ALONE), ("beside", BESIDE)):
        if before is not None:
            imported(folder, before, db=f"{name}.db", options=ALONE)
        aside = folder / f"{name}.broken"
        chosen = ImportOptions(
            snapshots=False, beside_bytes=options.beside_bytes, batch=batch, broken_file=aside, observed_at=None
        )
        report = imported(folder, *paths, db=f"{name}.db", options=chosen)
        with ledger(folder, f"{name}.db") as opened:
            assert opened.store.verify().ok
            ledgers.append((rows(opened.store), aside.read_bytes()))
        reports.append(told(report))
    assert reports[0] == reports[1]
    assert ledgers[0] == ledgers[1]
    return report


def many(count: int, size: int = 10, first: int = 1) -> Iterator[bytes]:
    """Lines of a recording: a list, and then changes of its pods."""
    yield listed([pod(f"p{number}", number + 1) for number in range(20)], 0, version="30")
    for number in range(first, first + count):
        one = pod(f"p{number % 50}", 100 + number, annotations={"filling": "x" * size})
        yield recorded("DELETED" if number % 13 == 0 else "MODIFIED", one, number / 100)


@pytest.mark.parametrize("name", ["03", "05", "07"])
@pytest.mark.slow
def test_a_recording_with_its_audit_log_and_dumps(name: str, tmp_path: Path) -> None:
    both(tmp_path, recording(name), batch=500)


@pytest.mark.slow
def test_a_recording(tmp_path: Path) -> None:
    report = both(tmp_path, recording("07") / "watch.jsonl.zst", batch=300)
    assert report.gaps


@pytest.mark.slow
def test_again_and_further_on(tmp_path: Path) -> None:
    lines = watch_of("02").splitlines(keepends=True)
    half = written(tmp_path, "half.jsonl", *lines[: len(lines) // 2])
    whole = written(tmp_path, "whole.jsonl", *lines)
    report = both(tmp_path, whole, before=half)
    assert report.already > 100


@pytest.mark.slow
def test_files_of_one_time_are_merged(tmp_path: Path) -> None:
    lines = watch_of("02").splitlines(keepends=True)
    paths = [written(tmp_path, f"{number}.jsonl", *lines[number::3]) for number in range(3)]
    both(tmp_path, *paths)


@pytest.mark.slow
def test_watch_lines(tmp_path: Path) -> None:
    lines = [watch_line("MODIFIED", pod(f"p{number % 9}", number + 1)) for number in range(1_500)]
    path = written(tmp_path, "watch.jsonl", *lines)
    os.utime(path, (1_800_000_000, 1_800_000_000))
    both(tmp_path, path)


def test_a_recording_with_watch_lines_in_it(tmp_path: Path) -> None:
    """What shows no time of its own is held back: nothing gets ahead of it."""
    lines = list(many(200))
    lines[50:50] = [watch_line("MODIFIED", pod(f"p{number}", 9_000 + number)) for number in range(10)]
    path = written(tmp_path, "watch.jsonl", *lines, watch_line("MODIFIED", pod("p1", 9_999)))
    os.utime(path, (1_800_000_000, 1_800_000_000))
    both(tmp_path, path)


def test_watch_lines_into_a_ledger_that_has_got_further(tmp_path: Path) -> None:
    path = written(tmp_path, "watch.jsonl", *(watch_line("MODIFIED", pod(f"q{n % 9}", n + 1)) for n in range(99)))
    os.utime(path, (1_800_000_000, 1_800_000_000))
    report = both(tmp_path, path, before=written(tmp_path, "before.jsonl", *many(5)))
    assert report.notes


def test_a_list_ends_where_the_watch_goes_on(tmp_path: Path) -> None:
    parts = [
        *many(30),
        listed([pod("p1", 2_000)], 1, version="2000", relist=True)[:-1] + b"\n",
        *many(30, first=3_000),
        marker("recorder-stop", 99),
    ]
    both(tmp_path, written(tmp_path, "watch.jsonl", *parts), batch=25)


def test_broken_input(tmp_path: Path) -> None:
    good = list(many(2_500))
    broken = [b'{"recordedAt":\n', b"\xff\xfe{}\n", b"\n", compact({"recordedAt": "then", "marker": "list"}) + b"\n"]
    lines = [*good[:700], *broken, *good[700:2_000], b'{"recordedAt":"2026', *broken]
    report = both(tmp_path, written(tmp_path, "watch.jsonl", *lines))
    assert {piece.line for piece in report.broken} >= {721, 722, 724}
    assert b'"line":721' in (tmp_path / "beside.broken").read_bytes()


def test_a_compressed_file_that_is_cut_off(tmp_path: Path) -> None:
    whole = (recording("02") / "watch.jsonl.zst").read_bytes()
    report = both(tmp_path, written(tmp_path, "watch.jsonl.zst", whole[: len(whole) * 2 // 3]))
    assert "cut off" in str(report.broken[0])


def test_progress_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, "watch.jsonl", *many(3_000))
    steps: list[int] = []
    imported(tmp_path, path, options=BESIDE, progress=steps.append)
    assert sum(steps) == path.stat().st_size and len(steps) > 2


def test_small_files_are_read_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: object) -> None:
        raise AssertionError(source)

    monkeypatch.setattr("vcledger.sources.pipeline.ReaderProcess", refuse)
    path = written(tmp_path, "watch.jsonl", *many(100))
    assert imported(tmp_path, path, options=ImportOptions(snapshots=False)).stored > 100
    with pytest.raises(AssertionError):
        imported(tmp_path, path, options=BESIDE)


def test_on_one_core_it_is_read_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vcledger.sources.beside.os.sched_getaffinity", lambda _: {0}, raising=False)
    monkeypatch.setattr("vcledger.sources.pipeline.cores", cores)
    with Import("c", BESIDE, None, clock) as job:
        job.look([written(tmp_path, "watch.jsonl", *many(10))])
        assert not job._beside


def test_without_a_second_process_it_is_read_in_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("vcledger.sources.beside.subprocess.Popen", refuse)
    assert imported(tmp_path, written(tmp_path, "watch.jsonl", *many(100)), options=BESIDE).stored > 100


@pytest.mark.slow
def test_the_reader_dies(tmp_path: Path) -> None:
    path = written(tmp_path, "watch.jsonl", *many(6_000, size=2_000))
    steps: list[int] = []
    with ledger(tmp_path) as opened, Import("default", BESIDE, lambda size: die(), clock) as job:

        def die() -> None:
            steps.append(1)
            if len(steps) == 4:
                (process,) = job._beside.values()
                process._process.kill()

        job.look([path])
        with pytest.raises(ReaderDied, match=r"watch.jsonl: the process that read it was ended by signal 9; .*again"):
            job.run(opened)
    with ledger(tmp_path) as opened:
        assert opened.store.verify().ok
        stored = opened.store.head()
        assert stored < 6_000
    rest = imported(tmp_path, path, options=BESIDE)
    assert stored + rest.stored == imported(tmp_path, path, db="whole.db", options=ALONE).stored
    with ledger(tmp_path) as again, ledger(tmp_path, "whole.db") as whole:
        assert events(again) == events(whole)


def test_the_reader_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import vcledger.sources.source as s\n"
        "def items_of(*_):\n    yield from ()\n    raise MemoryError('so much')\n"
        "s.items_of = items_of\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    path = written(tmp_path, "watch.jsonl", *many(10))
    with ledger(tmp_path) as opened, pytest.raises(ReaderDied, match="MemoryError so much"):
        import_paths(opened, [path], options=BESIDE, clock=clock)


INTERRUPTED = """
import sys, time
from vcledger.ledger import Ledger
from vcledger.sources import ImportOptions
from vcledger.sources.packing import EVENTS
from vcledger.sources import pipeline
from vcledger.sources.pipeline import Import

pipeline.cores = lambda: 2

def wait(size):
    (process,) = job._beside.values()
    print(process._process.pid, flush=True)
    time.sleep(600)

with Import("c", ImportOptions(snapshots=False, beside_bytes=0), wait) as job:
    job.look([sys.argv[1]])
    with Ledger.open(sys.argv[2], create=True) as ledger:
        job.run(ledger)
"""


@pytest.mark.slow
def test_an_interrupt_ends_both(tmp_path: Path) -> None:
    path = written(tmp_path, "watch.jsonl", *many(6_000, size=1_000))
    words = [sys.executable, "-c", INTERRUPTED, str(path), str(tmp_path / "test.db")]
    with hearing_interrupts():
        started = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with started as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        running.send_signal(signal.SIGINT)
        assert running.wait(120) == -signal.SIGINT
        assert running.stderr is not None
        assert "KeyboardInterrupt" in running.stderr.read()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with Ledger.open(str(tmp_path / "test.db")) as opened:
        assert opened.store.verify().ok


def test_the_reader_ends_when_nobody_listens(tmp_path: Path) -> None:
    path = written(tmp_path, "watch.jsonl", *many(3_000, size=2_000))
    with Import("c", BESIDE, None, clock) as job:
        job.look([path])
        (process,) = job._beside.values()
        process._wire.shutdown(socket.SHUT_RDWR)
        assert process._process.wait(120) == 0


def test_a_message_of_many_sizes() -> None:
    here, there = socket.socketpair()
    with here, there:
        message = [b"x" * 3_000_000, ("ü", None), Broke(1, "Pod", "why")]
        sender = threading.Thread(target=send, args=(here, message))
        sender.start()
        assert receive(there) == message
        sender.join()
        here.close()
        with pytest.raises(EOFError):
            receive(there)


def test_runs_are_what_comes(tmp_path: Path) -> None:
    """Nearly all events of a recording come as runs: else the second process would gain little."""
    with Import("c", BESIDE, None, clock) as job:
        job.look([written(tmp_path, "watch.jsonl", *many(2 * EVENTS))])
        (process,) = job._beside.values()
        assert isinstance(process, ReaderProcess)
        source = process.source
        found = list(process.items(job._reading(source), job._tally("x", "x"), None, clock(), True))
    assert sum(len(one) for one in found if type(one) is Run) == 2 * EVENTS
    times = [event.observed_at for one in by_time([found]) for event in (one.events() if type(one) is Run else [one])]
    assert times == sorted(times)
