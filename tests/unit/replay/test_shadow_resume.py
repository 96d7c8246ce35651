"""A shadow replay that was told to stop goes on to the same end, with and without a result ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.unit.replay.fake import FirstFit
from tests.unit.replay.traces import Gang, Stage, ledger_of
from vcledger.ledger import Ledger
from vcledger.replay import shadow_pieces, shadow_state, shadowing
from vcledger.replay.digest import result_digest
from vcledger.replay.engine import Job, ReplayPlan, ReplayResult
from vcledger.replay.result import AnotherPlan
from vcledger.replay.shadow_state import StateMissing

pytestmark = pytest.mark.slow

STAGE = Stage((4, 8, 4), tuple(Gang(2, 2, 1 + n % 4, n * 2, 9 + n % 3 * 8) for n in range(14)))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(ledger_of(STAGE, tmp_path_factory.mktemp("shadowed") / "source.db"))


@pytest.fixture(autouse=True)
def looks_up_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_pieces, "TOLD_EACH", 1)


def shadow(
    source: Path,
    out: Path | None = None,
    *,
    keep: Path | None = None,
    resume: bool = False,
    stop_after: int = 0,
    seed: int = 0,
) -> ReplayResult:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked == stop_after

    with Ledger.open(str(source), read_only=True) as opened:
        job = Job(opened, ReplayPlan(seed=seed), "c", 0, opened.store.head(), FirstFit, None, stop)
        return shadowing.run_shadow(
            job, str(out) if out else None, resume=resume, keep=str(keep) if keep is not None else None
        )


def told(result: ReplayResult) -> ReplayResult:
    assert result.finished
    return replace(result, ledger="")


def stopped_thrice(first: Callable[[], ReplayResult], again: Callable[[int], ReplayResult]) -> ReplayResult:
    """Stopped after some steps, again at once, again later, and then to its end."""
    result = first()
    for steps in (1, 25, 0):
        assert not result.finished
        assert result.stopped_at > 0
        result = again(steps)
    return result


def test_without_a_result_what_it_needs_is_left_and_no_more(source: Path, tmp_path: Path) -> None:
    calm, kept = shadow(source), tmp_path / "kept.db"
    assert calm.divergences > 0
    result = stopped_thrice(
        lambda: shadow(source, keep=kept, stop_after=30),
        lambda steps: shadow(source, kept, resume=True, stop_after=steps),
    )
    assert told(result) == told(calm)
    assert result.ledger == ""
    with Ledger.open(str(kept), read_only=True) as ledger:
        assert ledger.store.head() == 1
    assert shadow(source, kept, resume=True) == result


def test_a_result_ledger_is_the_same(source: Path, tmp_path: Path) -> None:
    calm = shadow(source, tmp_path / "calm.db")
    out = tmp_path / "stopped.db"
    result = stopped_thrice(
        lambda: shadow(source, out, stop_after=40), lambda steps: shadow(source, out, resume=True, stop_after=steps)
    )
    assert told(result) == told(calm)
    digests = []
    for name in ("calm.db", "stopped.db"):
        with Ledger.open(str(tmp_path / name), read_only=True) as ledger:
            digests.append(result_digest(ledger))
    assert digests[0] == digests[1]


def test_what_cannot_be_gone_on_with(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.db"
    shadow(source, out, stop_after=20)
    with pytest.raises(AnotherPlan):
        shadow(source, out, resume=True, seed=1)
    with Ledger.open(str(out)) as ledger:
        newest = ledger.store.snapshots("shadow-replay")[-1]
        assert newest.position == ledger.store.head()
    with Ledger.open(str(source), read_only=True) as opened:
        stored = next(iter(opened.store.read(limit=1)))
    with Ledger.open(str(out)) as ledger:
        ledger.store.append([shadowing._copy(stored)._replace(resource_version=999)])
    with pytest.raises(StateMissing, match="was not stopped cleanly"):
        shadow(source, out, resume=True)
    assert told(shadow(source, tmp_path / "none.db", resume=True)) == told(shadow(source))


def test_what_a_build_of_before_left_is_refused(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(shadow_state, "VERSION", shadow_state.VERSION - 1)
        assert not shadow(source, keep=tmp_path / "kept.db", stop_after=30).finished
    with pytest.raises(StateMissing, match="left by another version: a shadow replay begins anew, with another --out"):
        shadow(source, tmp_path / "kept.db", resume=True)
