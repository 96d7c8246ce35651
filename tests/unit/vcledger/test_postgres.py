"""The facade on PostgreSQL: the same answers as on SQLite, snapshots from a second process, and retention."""

from __future__ import annotations

from pathlib import Path

import pytest

from projections.cache import MODELS
from tests.unit.vcledger import build
from vcledger.ledger import Ledger, cache_projection
from vcledger.snapshotter import Policy, SnapshotProcess, catch_up
from vcledger.verify import verify

pytestmark = pytest.mark.postgres

SMALL = Policy(whole_every=100, changes_every=20)


def digests(ledger: Ledger, positions: range) -> list[str]:
    return [
        cache_projection(model).digest(ledger.folder.at(cache_projection(model), "c", position))
        for position in positions
        for model in MODELS
    ]


@pytest.mark.slow
def test_both_databases_give_the_same_states_and_snapshots(postgres_url: str, tmp_path: Path) -> None:
    with (
        Ledger.open(postgres_url, create=True) as there,
        Ledger.open(str(tmp_path / "ledger.db"), create=True) as here,
    ):
        for ledger in (there, here):
            build.append(ledger.store, build.churn(250), batch=30)
            build.append(ledger.store, build.churn(80, "d"), batch=30)
            catch_up(ledger, "c", policy=SMALL)
        assert digests(there, range(0, 331, 11)) == digests(here, range(0, 331, 11))
        projection = cache_projection()
        chains = [[part.payload for part in one.folder.chain(projection, "c", 330)] for one in (there, here)]
        assert chains[0] == chains[1]
        assert len(chains[0]) == 2
        assert verify(there, every_snapshot=True).ok
        assert there.position("-0s", "c") == here.position("-0s", "c") == 250
        assert there.object_as_of("Node", "", "n0", cluster="d") == here.object_as_of("Node", "", "n0", cluster="d")
        assert there.prune(200)[:5] == here.prune(200)[:5]
        assert there.store.first() == 181
        assert digests(there, range(180, 331, 30)) == digests(here, range(180, 331, 30))


@pytest.mark.slow
def test_a_second_process_follows(postgres_url: str) -> None:
    with Ledger.open(postgres_url, create=True) as ledger:
        build.append(ledger.store, build.churn(100), batch=10)
        process = SnapshotProcess(postgres_url, "c", cache_projection(), SMALL)
        try:
            build.append(ledger.store, build.churn(250)[100:], batch=10)
            assert process.finish().position == 250
        finally:
            process.close()
        assert [info.position for info in ledger.store.snapshots()] == list(range(20, 241, 20))
        assert verify(ledger, every_snapshot=True).ok
