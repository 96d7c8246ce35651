"""What a prune leaves, and what a verification notices."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from projections.cache import MODELS
from tests.unit.vcledger import build
from vcledger import errors
from vcledger.ledger import Ledger, cache_projection
from vcledger.snapshotter import Policy, Snapshotter, catch_up
from vcledger.verify import verify

SMALL = Policy(whole_every=100, changes_every=20)


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "ledger.db"
    with Ledger.open(str(path), create=True) as opened:
        build.append(opened.store, build.churn(330), batch=10)
        catch_up(opened, policy=SMALL)
    return path


@pytest.fixture
def ledger(db: str, made: Path) -> Iterator[Ledger]:
    """330 events in batches of 10, with snapshots of the default model each 20: a copy of the test's own."""
    shutil.copy(made, db)
    with Ledger.open(db) as opened:
        yield opened


def digests(ledger: Ledger, positions: list[int], cluster: str = "c") -> list[str]:
    return [
        cache_projection(model).digest(ledger.folder.at(cache_projection(model), cluster, position))
        for position in positions
        for model in MODELS
    ]


@pytest.mark.parametrize(
    ("before", "cut"),
    [(208, 200), ("211", 210), ("212", 210), ("-100ms", 220), ("2026-03-01T03:00:00.2005Z", 200), (331, 0), (5, 0)],
)
def test_every_state_after_the_cut_is_still_there(ledger: Ledger, before: str | int, cut: int) -> None:
    if before == 331:
        with pytest.raises(errors.BadTime, match="ends at position 330"):
            ledger.prune(before)
        return
    positions = [cut, cut + 1, cut + 7, 330]
    expected = digests(ledger, positions)
    events = [event._replace(appended_at=0) for event in ledger.store.read(after=cut)]
    report = ledger.prune(before)
    assert (report.cut, ledger.store.first()) == (cut, cut + 1)
    assert digests(ledger, positions) == expected
    assert [event._replace(appended_at=0) for event in ledger.store.read(after=cut)] == events
    assert verify(ledger, every_snapshot=True).ok
    if cut:
        assert report.dropped > 100
        with pytest.raises(errors.BadTime, match="pruned"):
            ledger.cache(cut - 1)


def test_objects_that_are_not_gone_stay_readable(ledger: Ledger) -> None:
    cache = ledger.cache(200)
    wanted = [ref.position for ref in cache.pods.values()] + [node.position for node in cache.nodes.values()]
    before = ledger.objects(wanted)
    ledger.prune(201)
    assert ledger.objects(wanted) == before
    assert len(before) == len(wanted) > 10
    assert ledger.object_as_of("Node", "", "n0", 330) is not None


def test_each_cluster_can_begin_at_the_cut_and_new_ones_at_their_own_start(ledger: Ledger) -> None:
    build.append(ledger.store, build.churn(60, "d"), batch=10)
    positions = [360, 390]
    expected = digests(ledger, positions, "c") + digests(ledger, positions, "d")
    assert ledger.prune(361).cut == 360
    assert digests(ledger, positions, "c") + digests(ledger, positions, "d") == expected
    build.append(ledger.store, build.churn(40, "new"), batch=10)
    assert len(ledger.cache(cluster="new").nodes) == 5
    assert verify(ledger).ok


def test_it_can_be_pruned_again_and_snapshots_go_on(ledger: Ledger) -> None:
    ledger.prune(101)
    expected = digests(ledger, [250, 330])
    assert ledger.prune(241).cut == 240
    assert ledger.prune(241).dropped == 0
    assert digests(ledger, [250, 330]) == expected
    build.append(ledger.store, build.churn(400)[330:], batch=10)
    catch_up(ledger, policy=SMALL)
    projection = cache_projection()
    assert projection.digest(ledger.cache()) == projection.digest(ledger.rebuild())
    assert verify(ledger, every_snapshot=True).ok


def test_a_fold_without_a_snapshot_at_the_cut_says_so(ledger: Ledger) -> None:
    ledger.prune(201, projections=[cache_projection()])
    assert ledger.cache(250).pods
    with pytest.raises(errors.HistoryPruned, match=r"cache/exact .* before 201 were pruned"):
        ledger.cache(250, model="exact")
    with pytest.raises(errors.HistoryPruned):
        catch_up(ledger, projection=cache_projection("exact"))


def test_a_store_pruned_without_the_glue_gives_the_right_state_or_none(ledger: Ledger) -> None:
    projection = cache_projection()
    expected = {position: projection.digest(ledger.rebuild(position)) for position in range(190, 331, 10)}
    cut = ledger.store.prune(before_position=217, reclaim=False).cut
    assert cut == 200
    for position, digest in expected.items():
        if position < cut:
            with pytest.raises(errors.BadTime, match="pruned"):
                ledger.cache(position)
            with pytest.raises(errors.HistoryPruned):
                ledger.folder.at(projection, "c", position)
        else:
            assert projection.digest(ledger.cache(position)) == digest
    assert verify(ledger, every_snapshot=True).ok


def test_of_several_clusters_one_says_whose_marker_is_meant(tmp_path: Path) -> None:
    with Ledger.open(str(tmp_path / "two.db"), create=True) as two:
        for cluster in ("a", "b"):
            build.append(two.store, build.life(cluster), batch=1)
        with pytest.raises(errors.ClusterNotNamed):
            two.prune("marker:busy")
        with pytest.raises(errors.UnknownCluster):
            two.prune("2026-03-01T03:00:03Z", cluster="c")
        assert two.prune("marker:busy", cluster="a").cut == 5
        assert two.prune("marker:busy", cluster="b").cut == 14
        assert verify(two, every_snapshot=True).ok


def test_an_offset_counts_from_the_end_of_the_cluster_named(tmp_path: Path) -> None:
    with Ledger.open(str(tmp_path / "two.db"), create=True) as two:
        build.append(two.store, build.life("a"), batch=1)
        build.append(two.store, [build.seen("ADDED", build.node("n", 1), 60, "b")])
        assert two.prune("-4s", cluster="a").cut == 4
        assert two.prune("-4s").cut == 9


def test_a_moment_of_nothing(tmp_path: Path) -> None:
    with Ledger.open(str(tmp_path / "empty.db"), create=True) as empty, pytest.raises(errors.BadTime, match="nothing"):
        empty.prune("-1h")


# --- verify -------------------------------------------------------------------------------------------------------


def test_a_good_ledger(ledger: Ledger) -> None:
    told: list[tuple[str, int, int]] = []
    result = verify(ledger, progress=lambda *step: told.append(step))
    assert result.ok
    assert [(check.position, check.whole) for check in result.checks] == [
        (20, True),
        (100, False),
        (120, True),
        (200, False),
        (220, True),
        (300, False),
        (320, True),
    ]
    assert (result.passed_over, result.void) == (9, 0)
    assert told[-1] == ("cache/volcano-1.11 of c", 7, 7)
    assert all(check.digest == check.rebuilt for check in result.checks)
    assert len(verify(ledger, every_snapshot=True).checks) == 16


def test_a_snapshot_of_another_state_is_found(ledger: Ledger) -> None:
    projection = cache_projection()
    wrong = projection.dump(ledger.rebuild(311))
    snapshot = ledger.folder.chain(projection, "c", 330)[-1]
    ledger.store.save_snapshot(snapshot._replace(position=330, base=None, payload=wrong))
    result = verify(ledger)
    assert result.log.ok
    assert not result.ok
    assert [check.position for check in result.checks if not check.ok] == [330]
    assert "not what the events give" in result.checks[-1].problem


def test_a_snapshot_that_cannot_be_read_is_found(ledger: Ledger) -> None:
    snapshot = ledger.folder.chain(cache_projection(), "c", 330)[-1]
    ledger.store.save_snapshot(snapshot._replace(position=330, base=None, payload=b"\xc1nonsense"))
    result = verify(ledger)
    assert [check.position for check in result.checks if not check.ok] == [330]


def test_a_snapshot_that_cannot_be_read_is_as_good_as_not_there(ledger: Ledger, db: str) -> None:
    projection = cache_projection()
    chain = ledger.folder.chain(projection, "c", 329)
    rebuilt = projection.digest(ledger.rebuild(329))
    ledger.store.save_snapshot(chain[-1]._replace(position=329, base=None, payload=b"\xc1nonsense"))
    ledger.store.save_snapshot(chain[-1]._replace(position=330, base=329, payload=b"upon nonsense"))
    with Ledger.open(db) as again:
        reached, _ = again.folder.nearest(projection, "c", 330)
        assert reached == chain[-1].position
        assert projection.digest(again.cache(329, cluster="c")) == rebuilt
        assert [check.position for check in verify(again, every_snapshot=True).checks if not check.ok] == [329, 330]
        snapshotter = Snapshotter(again.store, "c", projection)
        snapshotter.run(to=329)
        assert snapshotter.save(whole=True).position == 329
        snapshotter.run(to=330)
        snapshotter.save()
        assert [link.position for link in again.folder.chain(projection, "c", 330)] == [329, 330]
        assert verify(again, every_snapshot=True).ok


def test_snapshots_of_another_version_are_void(ledger: Ledger) -> None:
    snapshot = ledger.folder.chain(cache_projection(), "c", 330)[-1]
    ledger.store.save_snapshot(snapshot._replace(version=999, base=None))
    assert verify(ledger).void == 1


def test_a_changed_event_is_found(ledger: Ledger, db: str) -> None:
    ledger.close()
    with sqlite3.connect(db) as raw:
        raw.execute("UPDATE events SET observed_at = observed_at + 1 WHERE position = 105")
    raw.close()
    with Ledger.open(db) as again:
        result = verify(again)
    assert not result.ok
    assert result.log.findings
