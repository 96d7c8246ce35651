"""Freezes a chain of snapshots of the cache under each model: `python -m tests.golden.snapshots.make`.

To be run once for each `projections.cache.projection.VERSION`. Chains of the version that is there are never made
again: that they were written by the code of their day is the point of them.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import zstandard

from projections.cache import MODELS, CacheProjection
from projections.cache.projection import VERSION
from tests.data import recording
from tests.golden.recorded import observations

FOLDER = Path(__file__).parent
CUTS = (150, 190, 260, 330)
"""Events after which a snapshot stands: the first a whole one."""


def path_of(model: str) -> Path:
    return FOLDER / f"{model}.json"


def frozen(model: str) -> dict[str, object]:
    """Version, digest, and the chain: recording 03, which has nodes, gangs, claims, volumes and binds in flight."""
    projection = CacheProjection(model)
    cache = projection.initial()
    chain: list[bytes] = []
    events = observations(recording("03"))
    assert len(events) > CUTS[-1]
    for number, event in enumerate(events[: CUTS[-1]], 1):
        cache = projection.evolve(cache, event)
        if number in CUTS:
            chain.append(projection.dump_changes(cache) if chain else projection.dump(cache))
    packed = [base64.b64encode(zstandard.compress(part, 19)).decode() for part in chain]
    return {"version": VERSION, "digest": projection.digest(cache), "chain": packed}


def main() -> None:
    for model in MODELS:
        path = path_of(model)
        if path.exists() and json.loads(path.read_text())["version"] == VERSION:
            sys.exit(f"{path.name} of version {VERSION} is there already: raise VERSION before you make new ones")
        path.write_text(json.dumps(frozen(model), indent=1) + "\n")


if __name__ == "__main__":
    main()
