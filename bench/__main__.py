"""`python -m bench [--events N]`: one run, ratios, and the table in docs/benchmarks.md.

Owns the order of the measurements and the table. Must not measure anything itself. Called by `make bench`.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import psycopg

from bench import baselines, loop, ours, replay, session, whyfull
from bench.trace import Trace, lines

SEED = 20260301
AS_OF_SAMPLES, WHY_SAMPLES = 60, 40
DOCS = Path(__file__).parent.parent / "docs" / "benchmarks.md"


class Row(NamedTuple):
    """A line of the table: what, ours, the piece it is compared with, the figure, the target, and whether it is met."""

    what: str
    ours: str
    compared: str
    figure: str
    target: str
    met: bool


def write_trace(path: Path, trace: Trace) -> tuple[int, int]:
    """Writes the trace; gives the number of lines and bytes."""
    count = size = 0
    with path.open("wb") as file:
        for line in lines(trace):
            count += 1
            size += file.write(line)
    return count, size


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def remove(folder: Path, name: str) -> None:
    """Takes a database away, with its helper files: of a million events each has gigabytes."""
    for path in folder.glob(f"{name}*"):
        path.unlink()


def ratio_row(what: str, ours_rate: float, name: str, rate: float, target: float) -> Row:
    ratio = ours_rate / rate
    return Row(what, f"{ours_rate:,.0f}/s", f"{name} {rate:,.0f}/s", f"{ratio:.2f}", f">= {target:g}", ratio >= target)


def import_rows(file: Path, count: int, folder: Path) -> tuple[list[Row], ours.Imported]:
    """Import to SQLite against plain sqlite3 and the eventsourcing library; size on disk."""
    say("raw sqlite3 inserts")
    raw = count / baselines.sqlite_insert(file, folder)
    remove(folder, "raw.db")
    say("eventsourcing library")
    library = count / baselines.eventsourcing_insert(file, folder)
    remove(folder, "eventsourcing.db")
    ours.warm_up(folder)
    say("ours: import to SQLite")
    plain = ours.import_lines(file, str(folder / "plain.db"), snapshots=False)
    remove(folder, "plain.db")
    say("ours: import to SQLite with snapshots")
    full = ours.import_lines(file, str(folder / "ledger.db"), snapshots=True)
    rows = [
        ratio_row("import to SQLite, durable", count / plain.seconds, "raw sqlite3 inserts", raw, 0.5),
        ratio_row("the same", count / plain.seconds, "`eventsourcing` library", library, 3),
        ratio_row("import, durable, snapshots made beside it", count / full.seconds, "raw sqlite3 inserts", raw, 0.5),
        ratio_row(
            "import until the last snapshot stands",
            count / full.seconds_with_snapshots,
            "raw sqlite3 inserts",
            raw,
            0.5,
        ),
    ]
    return rows, full


def postgres_row(file: Path, count: int) -> Row:
    """Import to PostgreSQL against raw COPY of the JSON into the same server."""
    from tests.postgres import database_url, running_server

    with running_server() as server:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("CREATE DATABASE raw")
            connection.execute("CREATE DATABASE ours")
        say("raw COPY to PostgreSQL")
        raw = count / baselines.postgres_copy(file, database_url(server, "raw"))
        say("ours: import to PostgreSQL")
        done = ours.import_lines(file, database_url(server, "ours"), snapshots=False)
    return ratio_row("import to PostgreSQL", count / done.seconds, "raw COPY of the JSON", raw, 1)


def size_row(json_bytes: int, count: int, imported: ours.Imported) -> Row:
    ratio = json_bytes / imported.bytes
    return Row(
        "bytes on disk, indexes and snapshots and all",
        f"{imported.bytes / count:,.0f} B an event",
        f"JSON {json_bytes / count:,.0f} B",
        f"1/{ratio:.1f}",
        "<= 1/12",
        ratio >= 12,
    )


def rebuild_row(db: str) -> Row:
    """Rebuild of the whole cache against msgspec decoding alone of the same bytes into the same structs."""
    say("msgspec decoding alone")
    stored = ours.objects(db)
    alone = len(stored) / baselines.decode_alone(stored)
    del stored
    say("ours: rebuild")
    seconds, events = ours.rebuild(db)
    return ratio_row("rebuild of the cache from the ledger", events / seconds, "msgspec alone", alone, 0.15)


def latency_rows(db: str) -> list[Row]:
    say("ours: state at past positions")
    states = ours.as_of(db, AS_OF_SAMPLES, SEED)
    say("ours: why at past positions")
    whys = ours.why_at(db, WHY_SAMPLES, SEED)
    return [
        latency_row("state at any past position, p95", states, 0.25),
        latency_row("`why` at a past time, p95", whys, 0.5),
    ]


def why_full_row(folder: Path) -> Row:
    """`why` with every node in its table, and the changes that would help proven."""
    say("ours: why on a large cluster")
    done = whyfull.measure(folder)
    return latency_row(f"`why` with {done.nodes:,} nodes in its table, p95", done.seconds, 0.5)


def latency_row(what: str, seconds: list[float], target: float) -> Row:
    p50, p95 = ours.quantile(seconds, 0.5), ours.quantile(seconds, 0.95)
    return Row(
        what,
        f"p50 {p50 * 1e3:.0f} ms",
        f"{len(seconds)} positions",
        f"{p95 * 1e3:.0f} ms",
        f"< {target * 1e3:.0f} ms",
        p95 < target,
    )


def memory_row(folder: Path) -> Row:
    """The peak of a process that imports and rebuilds a trace with 100,000 live pods."""
    say("ours: memory at 100,000 live pods")
    file = folder / "live.jsonl"
    write_trace(file, Trace(events=300_000, nodes=5000, live=100_000, seed=SEED, ending=False))
    used = ours.memory(file)
    file.unlink()
    return Row(
        "memory at 100,000 live pods", f"{used / 1e9:.2f} GB", "", f"{used / 1e9:.2f} GB", "< 1.5 GB", used < 1.5e9
    )


BINDS, BINDS_WITH_VOLUMES, WAITING_CLAIMS, RESTART_EVENTS = 5_000, 2_000, 5_000, 100_000
MACHINE_STEPS, MACHINE_MINUTES = 100_000, 10


def loop_rows(folder: Path) -> list[Row]:
    """The scheduler's loop in simulation, on a durable ledger."""
    rows = []
    for name, pods, volumes, target in (
        ("binds by a session, no volumes", BINDS, 0, 1_000),
        ("binds by a session, two volumes each", BINDS_WITH_VOLUMES, 2, 300),
    ):
        say(f"the loop: {name}")
        done = loop.binds(folder / f"binds-{volumes}.db", pods, volumes)
        rate = done.pods / done.seconds
        rows.append(
            Row(
                f"the loop in simulation: {name}",
                f"{done.events / done.pods:.0f} events a bind",
                f"{pods:,} pods",
                f"{rate:,.0f}/s",
                f">= {target:,}/s",
                rate >= target,
            )
        )
    say("the loop: a look at waiting claims")
    look = loop.waiting_check(folder / "waiting.db", WAITING_CLAIMS)
    what = "a checkBindings tick"
    rows.append(
        Row(what, "median of 7", f"{WAITING_CLAIMS:,} waiting claims", f"{look * 1e3:.0f} ms", "< 50 ms", look < 0.05)
    )
    say("the loop: a restart")
    again = loop.restart(folder / "restart.db", RESTART_EVENTS)
    rows.append(
        Row(
            "the loop's restart",
            f"{again.tail:,} events after the snapshot",
            f"{again.events:,} events",
            f"{again.seconds:.2f} s",
            "< 3 s",
            again.seconds < 3,
        )
    )
    return rows


def session_rows() -> list[Row]:
    """One pass of the session over many pending pods, in a process of its own."""
    say("the session: one pass")
    done = session.apart()
    rate = done.placed / done.seconds
    shapes = f"{session.PODS:,} pending pods, {session.NODES:,} nodes"
    return [
        Row(
            "one pass of the session, default plugins",
            f"{done.placed:,} pods placed",
            shapes,
            f"{rate:,.0f} pods/s",
            ">= 2,000 pods/s",
            rate >= 2_000 and done.placed >= session.PODS,
        ),
        Row(
            "a cycle of the session in which nothing waits",
            f"after {done.mirror_seconds:.1f} s for the mirror",
            shapes,
            f"{done.idle_seconds * 1e3:.2f} ms",
            "< 2 ms",
            done.idle_seconds < 0.002,
        ),
        Row(
            "memory of that pass",
            "cache, pods, columns",
            shapes,
            f"{done.memory_bytes / 1e9:.2f} GB",
            "< 2 GB",
            done.memory_bytes < 2e9,
        ),
    ]


def machine_row() -> Row:
    """State machines with crashes, one on each core."""
    say(f"{MACHINE_STEPS:,} steps of the state machines")
    done = loop.machine_steps(MACHINE_STEPS)
    minutes = done.seconds / 60
    return Row(
        f"{MACHINE_STEPS:,} steps of the state machines, two processes",
        f"{done.steps / done.seconds:,.0f} steps/s",
        f"{done.steps:,} steps run",
        f"{minutes:.1f} min",
        f"< {MACHINE_MINUTES} min",
        minutes < MACHINE_MINUTES,
    )


def machine() -> str:
    """CPU, cores, Python: what the figures depend on."""
    model = next(
        (line.partition(":")[2].strip() for line in read_lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or "unknown processor",
    )
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"


def read_lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


def table(rows: list[Row]) -> str:
    head = "| what | ours | compared with | figure | target | met |\n|---|---|---|---|---|---|\n"
    return head + "".join(
        f"| {row.what} | {row.ours} | {row.compared} | **{row.figure}** | {row.target} "
        f"| {'yes' if row.met else 'no'} |\n"
        for row in rows
    )


def section(rows: list[Row], events: int, seconds: float, skipped: list[str]) -> str:
    command = f"make bench EVENTS={events}"
    if skipped:
        command = " ".join([f"python -m bench --events {events}", *(f"--skip {part}" for part in skipped)])
    return (
        f"## {events:,} pod events\n\n{datetime.now(UTC):%Y-%m-%d}, {machine()}. Seed {SEED}. "
        f"`{command}` took {seconds:.0f} s.\n\n{table(rows)}"
    )


def replay_rows(folder: Path) -> list[Row]:
    """A published trace's worth of pods free, and the published one where it is there; a long recording in shadow."""
    say(f"replay: {replay.PODS:,} pods on {replay.NODES:,} nodes, free")
    rows = [free_row("a generated trace", replay.apart(replay.lists_ledger(folder), "free"))]
    published = published_lists()
    if published is not None:
        say("replay: Alibaba's openb trace, free")
        openb = replay.imported([published], folder / "openb.db")
        rows.append(free_row("Alibaba's openb trace", replay.apart(openb, "free")))
    say(f"replay: {replay.EVENTS:,} events in shadow")
    done = replay.apart(replay.recording_ledger(folder), "shadow")
    rate = done.events / done.seconds
    rows.append(
        Row(
            "replay of a recording in shadow",
            f"{done.pods:,} pods, {done.memory_bytes / 1e9:.2f} GB",
            f"{done.events:,} events",
            f"{rate:,.0f} events/s",
            f">= {replay.SHADOW_RATE:,.0f} events/s, < 2 GB",
            rate >= replay.SHADOW_RATE and done.memory_bytes < replay.MEMORY,
        )
    )
    return rows


def published_lists() -> Path | None:
    """Alibaba's openb lists, where they lie beside the checkout."""
    import pytest

    from tests.data import shared

    try:
        return shared("alibaba")
    except pytest.skip.Exception:
        return None


def free_row(what: str, done: replay.Run) -> Row:
    return Row(
        f"free replay of {what}, whole",
        f"{done.placed:,} pods placed, {done.memory_bytes / 1e9:.2f} GB",
        f"{done.pods:,} pods, {done.events:,} events",
        f"{done.seconds:.1f} s",
        f"< {replay.FREE_SECONDS:.0f} s, < 2 GB",
        done.seconds < replay.FREE_SECONDS and done.memory_bytes < replay.MEMORY,
    )


def write_docs(text: str, events: int) -> None:
    """Puts the run's section into docs/benchmarks.md, in place of an earlier one for the same number of events."""
    intro = DOCS.read_text(encoding="utf-8") if DOCS.exists() else "# Benchmarks\n"
    parts = intro.split("\n## ")
    title = f"{events:,} pod events"
    kept = [part for part in parts[1:] if not part.startswith(title)]
    DOCS.write_text("\n## ".join([parts[0].rstrip("\n") + "\n", *kept, text.removeprefix("## ")]), encoding="utf-8")


def run(events: int, folder: Path, only: Callable[[str], bool]) -> list[Row]:
    file = folder / "trace.jsonl"
    say(f"seed {SEED}: writing {events:,} pod events")
    count, size = write_trace(file, Trace(events=events, seed=SEED))
    rows, imported = import_rows(file, count, folder)
    rows.append(size_row(size, count, imported))
    if only("postgres"):
        rows.append(postgres_row(file, count))
    file.unlink()
    db = str(folder / "ledger.db")
    rows.append(rebuild_row(db))
    rows += latency_rows(db)
    if only("whyfull"):
        rows.append(why_full_row(folder))
    if only("memory"):
        rows.append(memory_row(folder))
    if only("loop"):
        rows += loop_rows(folder)
    if only("session"):
        rows += session_rows()
    if only("replay"):
        rows += replay_rows(folder)
    if only("machines"):
        rows.append(machine_row())
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Speed and size as ratios of one run.")
    parser.add_argument("--events", type=int, default=100_000, help="pod events in the generated trace")
    parser.add_argument(
        "--skip",
        action="append",
        default=[],
        choices=["postgres", "memory", "loop", "session", "machines", "whyfull", "replay"],
    )
    parser.add_argument("--no-docs", action="store_true", help="print the table only")
    asked = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="vcledger-bench-") as folder:
        rows = run(asked.events, Path(folder), lambda part: part not in asked.skip)
    text = section(rows, asked.events, time.perf_counter() - start, asked.skip)
    print("\n" + text)
    if not asked.no_docs:
        write_docs(text, asked.events)
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
