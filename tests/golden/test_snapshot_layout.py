"""Snapshots of the cache's present version, frozen when it landed: what lies in people's ledgers must stay readable.

A test that fails here after a change of the fold or of the snapshots' layout says: raise
`projections.cache.projection.VERSION`, then run `python -m tests.golden.snapshots.make`.
"""

from __future__ import annotations

import base64
import json

import pytest
import zstandard

from projections.cache import MODELS, CacheProjection
from projections.cache.projection import VERSION
from tests.data import recording
from tests.golden.recorded import observations
from tests.golden.snapshots.make import CUTS, path_of


@pytest.mark.parametrize("model", sorted(MODELS))
def test_the_frozen_chain_gives_the_state_that_it_was_made_of(model: str) -> None:
    frozen = json.loads(path_of(model).read_text())
    assert frozen["version"] == VERSION, "run python -m tests.golden.snapshots.make for the new version"
    projection = CacheProjection(model)
    chain = [zstandard.decompress(base64.b64decode(part)) for part in frozen["chain"]]
    assert len(chain) == len(CUTS)
    cache = projection.load(chain)
    assert projection.digest(cache) == frozen["digest"]
    folded = projection.initial()
    for event in observations(recording("03"))[: CUTS[-1]]:
        folded = projection.evolve(folded, event)
    assert projection.digest(folded) == frozen["digest"], "the fold gives another state than the version did"
