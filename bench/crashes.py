"""Recorder and scheduler killed hundreds of times on a real API server, and how long a restart takes.

Owns the runs and the tables of docs/crashes.md. Must not know what has to hold after a kill: `tests.kube.crashes` does.
Called by `make bench-crashes`.

    python -m bench.crashes --runs 500 --seed 1 --write
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from bench.__main__ import machine
from bench.trace import Trace, lines
from tests.kube import crashes
from tests.kube.control_plane import running_control_plane
from tests.postgres import running_server
from vcledger.ledger import Ledger
from vcledger.sources import ImportOptions, import_paths

PAGE = Path(__file__).parent.parent / "docs" / "crashes.md"
EVENTS = 100_000
RESTARTS = 5

HEAD = """| what | database | kills | events | writes or binds | restart, median | restart, slowest | broken |
|---|---|---|---|---|---|---|---|"""

RESTART = """
import sys
from eventstore import open_store
from vcledger.ledger import Ledger
from vcledger.record import resume
from vcledger.record.scope import scopes
from vcledger.runtime.loop import Loop
from vcledger.schedule.scheduler import NEEDED, Options, informers_of

what, db = sys.argv[1:]
with Ledger.open(db) as ledger:
    if what == "record":
        resume.begins(ledger.store, "bench", scopes([], [], []))
    else:
        loop = Loop(ledger.store, "bench", carry_out=lambda effect: None, config=Options().flow())
        assert loop.recover(0)
        informers_of(ledger.store, "bench", NEEDED)
        if what == "save":
            assert loop.save()
"""
"""What a process does before it asks the API server for the first time."""


def kills(runs: int, seed: int) -> list[str]:
    """So many kills, spread over both programs and both databases; a row for each. Raises when anything is broken."""
    each = max(1, runs // 4)
    rows = []
    with ExitStack() as stack:
        plane = stack.enter_context(running_control_plane())
        postgres = stack.enter_context(running_server())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(plane.controllers())
        for at, harness in enumerate((crashes.recorder, crashes.scheduler)):
            for database in ("SQLite", "PostgreSQL"):
                db = str(folder / f"{at}.db")
                if database == "PostgreSQL":
                    db = crashes.new_database(postgres, f"crashes_{at}")
                plane.wipe()
                rows.append(harness(plane, db, database, runs=each, seed=seed + at).line())
                print(rows[-1], flush=True)
    return rows


def restarts() -> list[str]:
    """How long each program takes from its start until it could ask the API server, on a ledger of 100,000 events."""
    rows = []
    with tempfile.TemporaryDirectory() as name, running_server() as postgres:
        file = Path(name) / "trace.jsonl"
        with file.open("wb") as out:
            out.writelines(lines(Trace(events=EVENTS)))
        for database in ("SQLite", "PostgreSQL"):
            db = str(Path(name) / "ledger.db")
            if database == "PostgreSQL":
                db = crashes.new_database(postgres, "restarts")
            with Ledger.open(db, create=True) as ledger:
                import_paths(ledger, [file], cluster="bench", options=ImportOptions(snapshots=False))
            child("save", db)
            for what in ("record", "schedule"):
                times = sorted(child(what, db) for _ in range(RESTARTS))
                rows.append(f"| {what} | {database} | {times[len(times) // 2]:.2f} s | {times[-1]:.2f} s | < 3 s |")
                print(rows[-1], flush=True)
    return rows


def child(what: str, db: str) -> float:
    """Seconds that the process took."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", RESTART, what, db], check=True)
    return time.perf_counter() - began


def page(rows: list[str], times: list[str], seed: int, seconds: float) -> str:
    """What comes between the marks of the page."""
    when = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}. Seed {seed}. It took {seconds:.0f} s."
    again = "| what | database | restart, median | slowest | target |\n|---|---|---|---|---|"
    return "\n".join([when, "", HEAD, *rows, "", f"With {EVENTS:,} events in the ledger:", "", again, *times])


def write(text: str) -> None:
    """Puts the tables into the page."""
    old = PAGE.read_text(encoding="utf-8")
    new = re.sub(r"(<!-- begin -->\n).*(<!-- end -->)", lambda found: f"{found[1]}{text}\n{found[2]}", old, flags=re.S)
    PAGE.write_text(new, encoding="utf-8")


def main() -> None:
    """Runs, prints, and writes the page when asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    began = time.monotonic()
    times, rows = restarts(), kills(asked.runs, asked.seed)
    text = page(rows, times, asked.seed, time.monotonic() - began)
    print(text)
    if asked.write:
        write(text)


__all__ = ["kills", "restarts"]

if __name__ == "__main__":
    main()
