"""Keeps ledgers of the events as they are written today, and what they say: `python -m tests.golden.events.make NAME`.

Run once when new events or fields have landed, with the day as the name. A ledger that is there is never made again:
that it was written by the code of its day is the point of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from vcledger.ledger import Ledger
from vcledger.sim import crowded, plan, simulate
from vcledger.sim.plan import Plan
from vcledger.sim.world import CLUSTER
from vcledger.testing.invariants import check_ledger

FOLDER = Path(__file__).parent


def worlds() -> dict[str, Plan]:
    """Small worlds with faults that together have nearly all that a scheduler writes."""
    return {"volumes": plan.draw(12, 25), "crowded": crowded.draw(10, 25)}


def contents(path: Path) -> dict[str, Any]:
    """What such a ledger says: how many events of each type, the first of each, the invariants, the chain."""
    counts: dict[str, int] = {}
    first: dict[str, Any] = {}
    with Ledger.open(str(path), read_only=True) as ledger:
        for recorded in ledger.recorded(cluster=CLUSTER):
            name = type(recorded.event).__name__
            counts[name] = counts.get(name, 0) + 1
            if name not in first:
                first[name] = {"position": recorded.position, "says": msgspec.to_builtins(recorded.event)}
        return {
            "counts": counts,
            "first": first,
            "invariants": {one.invariant.name: one.outcome for one in check_ledger(ledger)},
            "verified": ledger.store.verify().ok,
        }


def main() -> int:
    (day,) = sys.argv[1:]
    for name, drawn in worlds().items():
        path = FOLDER / f"{day}-{name}.db"
        if path.exists():
            print(f"{path.name} is there already, and stays as it is", file=sys.stderr)
            return 1
        result = simulate.once(drawn, path)
        if not result.ok:
            print(f"{name}: {'; '.join(result.broken)}", file=sys.stderr)
            return 1
        path.with_suffix(".json").write_text(json.dumps(contents(path), indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
