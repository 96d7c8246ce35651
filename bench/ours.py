"""The product, measured over the same lines: import, rebuild, as-of reads, why, memory.

Owns these measurements. Must not reach below the product's public functions. Called by `bench.__main__`.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from bench.trace import Trace, lines
from vcledger.ledger import Ledger
from vcledger.sources import ImportOptions, import_paths
from vcledger.why import why

OBJECTS_MAX = 200_000
"""All the JSON of a million events would not fit into many machines' memory; a rate needs no more than this."""

OBJECT_EVENTS = ("ObjectAdded", "ObjectModified", "ObjectDeleted")


class Imported(NamedTuple):
    """An import: seconds until all was durable, seconds until the snapshots stood as well, events stored, bytes."""

    seconds: float
    seconds_with_snapshots: float
    events: int
    bytes: int


def import_lines(lines: Path, db: str, snapshots: bool) -> Imported:
    """Imports the file into a new ledger. Bytes on disk are those of a SQLite file after its log was folded in."""
    start = time.perf_counter()
    with Ledger.open(db, create=True) as ledger:
        report = import_paths(ledger, [lines], cluster="bench", options=ImportOptions(snapshots=snapshots))
        durable = report.seconds_durable
        done = time.perf_counter() - start
    with Ledger.open(db, read_only=True) as ledger:  # opened anew: closing has folded the write-ahead log in
        size = ledger.store.stats().size
    assert not report.broken, report.broken[:3]
    return Imported(durable, done, report.stored, size)


def warm_up(folder: Path) -> None:
    """Imports a handful of lines into a ledger of no interest: modules that load on first use are loaded, as those of
    the pieces compared with have been."""
    few = folder / "few.jsonl"
    few.write_bytes(b"".join(lines(Trace(events=10, nodes=3, live=10))))
    import_lines(few, str(folder / "few.db"), snapshots=False)


def rebuild(db: str) -> tuple[float, int]:
    """Seconds to fold the whole log into the cache of the default model, without snapshots, and events folded."""
    with Ledger.open(db, read_only=True) as ledger:
        start = time.perf_counter()
        ledger.rebuild()
        return time.perf_counter() - start, ledger.store.head()


def objects(db: str) -> list[tuple[str, bytes]]:
    """(kind, JSON) of the stored observations, the last OBJECTS_MAX at most: what `decode_alone` gets."""
    with Ledger.open(db, read_only=True) as ledger:
        after = max(0, ledger.store.head() - OBJECTS_MAX)
        return [(event.kind, event.payload) for event in ledger.store.read(after=after, types=list(OBJECT_EVENTS))]


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of the sorted values lie."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def as_of(db: str, samples: int, seed: int) -> list[float]:
    """Seconds for the whole cache at random past positions, each from a ledger just opened."""
    rng = random.Random(seed)
    seconds = []
    with Ledger.open(db, read_only=True) as ledger:
        head = ledger.store.head()
    for _ in range(samples):
        position = rng.randint(1, head)
        with Ledger.open(db, read_only=True) as ledger:
            start = time.perf_counter()
            ledger.cache(position)
            seconds.append(time.perf_counter() - start)
    return seconds


def why_at(db: str, samples: int, seed: int) -> list[float]:
    """Seconds for `why` of a pod that was pending at a random past position."""
    rng = random.Random(seed)
    seconds: list[float] = []
    with Ledger.open(db, read_only=True) as ledger:
        head = ledger.store.head()
        while len(seconds) < samples:
            position = rng.randint(head // 20, head)
            added = next(iter(ledger.store.read(after=position, kinds=["Pod"], types=["ObjectAdded"], limit=1)), None)
            if added is None:
                continue
            with Ledger.open(db, read_only=True) as fresh:
                start = time.perf_counter()
                why(fresh, added.namespace, added.name, position=added.position, cluster=added.cluster)
                seconds.append(time.perf_counter() - start)
    return seconds


def memory(lines: Path) -> int:
    """Bytes resident at the peak in a process of its own that folds the file's lines into a cache."""
    program = "import sys; from bench.ours import fold_file; fold_file(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", program, str(lines)], capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout)["bytes"])


def fold_file(lines: str) -> None:
    """Imports a file into a ledger in memory of this process's own temporary folder, rebuilds, prints the peak."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        db = str(Path(folder) / "memory.db")
        with Ledger.open(db, create=True) as ledger:
            import_paths(ledger, [Path(lines)], cluster="bench", options=ImportOptions(snapshots=False))
        with Ledger.open(db, read_only=True) as ledger:
            cache = ledger.rebuild()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            print(json.dumps({"bytes": peak, "pods": len(cache.pods)}))
