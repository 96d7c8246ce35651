"""Every state that the vectors reach, odd ones included, comes back from a chain of snapshots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from projections.cache import Cache, CacheProjection
from tests.data import vectors
from vcledger.conformance import VectorRunner, config_of_vector, model_of


@pytest.mark.parametrize("path", vectors(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_state_survives_a_snapshot(path: Path) -> None:
    vector = json.loads(path.read_text())
    projection = CacheProjection(model_of(vector["volcano_version"]), config_of_vector(vector))
    cache: Cache = projection.initial()
    runner = VectorRunner(cache)
    chain: list[bytes] = []
    for number, step in enumerate(vector["steps"]):
        runner.run(step)
        if number % 3 == 0 or number == len(vector["steps"]) - 1:
            cache.bind_flow.clear()
            chain.append(projection.dump_changes(cache) if chain else projection.dump(cache))
            assert projection.digest(projection.load(chain)) == projection.digest(cache), f"after step {number}"
        if len(chain) > 20:
            chain = []
