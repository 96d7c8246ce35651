"""States of the past from snapshots, whose objects and tasks are made only when somebody looks, are those of a whole
rebuild: at any position, whoever looked at what before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from projections.cache import MODELS, Cache, state_json
from projections.cache.json import job_json, node_json
from projections.cache.snapshot_image import pack_uid, unpack_uid, unpack_uids
from tests.data import recording
from vcledger.ledger import Ledger, cache_projection
from vcledger.snapshotter import Policy, catch_up
from vcledger.sources import ImportOptions, import_paths

RECORDINGS = ("03", "05")
POSITIONS = 12
POLICY = Policy(whole_every=60, changes_every=12)


@pytest.fixture(scope="module", params=RECORDINGS)
def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """A recording with many small snapshots under each model."""
    db = tmp_path_factory.mktemp("past") / "ledger.db"
    with Ledger.open(str(db), create=True) as opened:
        import_paths(opened, [Path(recording(request.param))], options=ImportOptions(snapshots=False))
        for model in MODELS:
            catch_up(opened, projection=cache_projection(model), policy=POLICY)
        yield opened


def look_around(cache: Cache, rng: random.Random) -> None:
    """Looks at some of the cache and leaves the rest unmade."""
    for key in rng.sample(sorted(cache.jobs), len(cache.jobs) // 3):
        job_json(cache.jobs[key])
    for name in rng.sample(sorted(cache.nodes), len(cache.nodes) // 3):
        node = cache.nodes[name]
        assert node.task_count == len(node_json(node)["tasks"])


@pytest.mark.slow
@pytest.mark.parametrize("model", sorted(MODELS))
def test_any_past_state_is_that_of_a_rebuild(ledger: Ledger, model: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    projection, cluster, head = cache_projection(model), ledger.cluster(), ledger.store.head()
    positions = sorted(rng.sample(range(head // 10, head + 1), POSITIONS))
    for position, whole in ledger.caches(positions, model=model):
        folded = ledger.rebuild(position, model=model)
        loaded = ledger.folder.at(projection, cluster, position)
        look_around(loaded, rng)
        expected = projection.digest(folded)
        assert projection.digest(loaded) == expected, position
        assert projection.digest(whole) == expected, position
        assert state_json(loaded) == state_json(folded), position


@pytest.mark.parametrize("model", sorted(MODELS))
def test_a_state_that_was_looked_at_here_and_there_folds_on(ledger: Ledger, model: str) -> None:
    """And is written anew as it is, without having been looked at."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    projection, cluster, head = cache_projection(model), ledger.cluster(), ledger.store.head()
    for position in rng.sample(range(head // 10, head - 50), POSITIONS // 2):
        start, cache = ledger.folder.nearest(projection, cluster, position)
        look_around(cache, rng)
        cache = ledger.folder.advance(projection, cache, cluster, start, position + 50)
        expected = projection.digest(ledger.rebuild(position + 50, model=model))
        again = projection.load([projection.dump(projection.load([projection.dump(cache)]))])
        assert projection.digest(cache) == projection.digest(again) == expected, position


def test_uids_are_unpacked_together_as_one_by_one() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    text = [f"{rng.getrandbits(128):032x}" for _ in range(20)]
    uids = [f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}" for t in text]
    for some in ([], uids[:1], uids, ["", "p1-uid", *uids[:3], "UPPER-CASE", *uids[3:]]):
        packed = [pack_uid(uid) for uid in some]
        assert unpack_uids(packed) == [unpack_uid(uid) for uid in packed] == some
