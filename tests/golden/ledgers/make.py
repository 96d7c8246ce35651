"""Makes the golden ledger of the newest revision, and what it must say: `python -m tests.golden.ledgers.make`.

Run once when a revision lands. A ledger that is there is never made again: that it was made by the code of its day is
the point of it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from eventstore import open_store
from eventstore.schema import REVISION
from eventstore.store import EventStore
from eventstore.testing import SECOND, START, observation
from eventstore.types import NewEvent, Snapshot, StreamId

FOLDER = Path(__file__).parent


def batches() -> list[list[NewEvent]]:
    """A life of some pods over two clusters: late events, gaps in observation, decisions, odd payloads."""
    pods = [
        observation(
            f"worker-{i % 60}",
            i + 1,
            cluster=("east", "west")[i % 60 >= 40],
            payload=f'{{"kind":"Pod","metadata":{{"name":"worker-{i % 60}","resourceVersion":"{i + 1}"}},'
            f'"spec":{{"schedulerName":"volcano","nodeName":"node-{i % 11}"}}}}'.encode(),
            gone=i >= 1_150 and i % 3 == 0,
        )
        for i in range(1_200)
    ]
    decision = NewEvent(StreamId("east", "Pod", "default", "worker-1", "uid-of-worker-1"), "BindFailed", "binding",
                        START + 1_300 * SECOND, b'{"code":409}', schema=2, known=2, causation=7, cycle=3)  # fmt: skip
    odd = observation("odd", None, cluster="west", at=START + 1_300 * SECOND, payload=b'{"a":"\\ud800","b":"\x00"}')
    late = observation("worker-2", 4_000, cluster="east", at=START, known=1)
    event = observation("e.17", 9, cluster="east", kind="Event", at=START + 1_301 * SECOND, about="uid-of-worker-1")
    return [pods[:40], pods[40:1_150], pods[1_150:], [decision, odd], [late, event]]


def contents(store: EventStore) -> dict[str, object]:
    """All that the ledger says, short enough to keep."""
    rows = hashlib.sha256()
    for event in store.read():
        rows.update(repr(event).encode())
    return {
        "head": store.head(),
        "first": store.first(),
        "clusters": store.clusters(),
        "high_water": {name: store.high_water(name) for name in store.clusters()},
        "live": {name: len(store.live(name, "Pod")) for name in store.clusters()},
        "rows": rows.hexdigest(),
        "snapshots": [[link.position, link.payload.decode()] for link in store.load_snapshots("p", 2, "east", 1_100)],
        "verify": store.verify()._asdict(),
    }


def main() -> int:
    path = FOLDER / f"{REVISION}.db"
    if path.exists():
        print(f"{path.name} is there already, and stays as it is", file=sys.stderr)
        return 1
    with open_store(str(path), create=True, clock=lambda: START + 2_000 * SECOND) as store:
        for number, batch in enumerate(batches()):
            store.append(batch, token=f"batch-{number}")
        for cluster in ("east", "west"):
            store.save_snapshot(Snapshot("p", 2, cluster, 60, None, b"whole"))
            store.save_snapshot(Snapshot("p", 2, cluster, 90, 60, b"changes"))
        store.prune(before_position=91)
        (FOLDER / f"{REVISION}.json").write_text(json.dumps(contents(store), indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
