"""A record that is shadowed in pieces gives the same, to the byte, as one that is shadowed whole: wherever it is cut,
stopped and gone on with, and whichever process dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from eventstore.types import LedgerMissing, NewEvent
from tests.data import recording
from tests.unit.replay.fake import FirstFit
from tests.unit.replay.traces import Gang, Stage, events, group, member
from tests.unit.vcledger.build import seen
from vcledger.ledger import Ledger
from vcledger.replay import engine, shadow_pieces, shadow_workers, shadowing
from vcledger.replay.digest import result_digest
from vcledger.replay.engine import ReplayPlan, ReplayResult, run_replay
from vcledger.replay.report import Progress
from vcledger.replay.shadow import Asking
from vcledger.replay.shadow_pieces import Ended, Piece, Work
from vcledger.schedulerargs import config_of
from vcledger.snapshotter import Policy, catch_up
from vcledger.sources import ImportOptions, import_paths
from vcledger.testing.profiles import share

MINUTES = Stage((4, 8, 4), tuple(Gang(2, 2, 1 + n % 4, n * 13, 20 + n % 3 * 70) for n in range(24)))
"""Five minutes, in which gangs wait, some for ever."""

PLAN = ReplayPlan(seed=3)


class Told(NamedTuple):
    """What came of a replay: the result, and the result ledger's events and the hash of its last batch."""

    result: ReplayResult
    digest: str
    head: str


def ledger_of(made: Sequence[NewEvent], path: Path, *, snapshots: bool = False) -> str:
    with Ledger.open(str(path), create=True) as ledger:
        ledger.store.append(made)
        if snapshots:
            catch_up(ledger, policy=Policy(20, 5))
    return str(path)


def shadowed(db: str, folder: Path, workers: int, plan: ReplayPlan = PLAN, **how: Any) -> Told:
    """A shadow replay with a result ledger."""
    out = folder / f"out-{workers}.db"
    with Ledger.open(db, read_only=True) as source:
        result = run_replay(source, plan, out=str(out), workers=workers, **how)
    with Ledger.open(str(out), read_only=True) as ledger:
        verified = ledger.store.verify()
        assert verified.ok
        return Told(replace(result, ledger=""), result_digest(ledger), str(verified.head_hash))


class Here:
    """In place of the processes: the pieces one after the other in this one. `stops_in`: the piece in which, after an
    event, it is to stop."""

    def __init__(self, stops_in: int | None = None) -> None:
        self.stops_in = stops_in
        self.pieces: list[Piece] = []

    def __call__(
        self,
        taker: shadow_workers.Taker,
        address: str,
        work: Work,
        pieces: Sequence[Piece],
        asking: Asking,
        workers: int,
    ) -> Ended:
        self.pieces += pieces
        with TemporaryDirectory() as folder:
            made = shadow_workers.Pieces(taker, address, work, pieces, asking, Path(folder))
            for number, piece in reversed(list(enumerate(pieces))):
                shadow_workers._begin([0] * len(pieces) + [number == self.stops_in])
                begun = made.begun_with(number)
                made.ended[number] = shadow_workers.play(number, address, work, piece, begun, made.tape(number))
            made.take()
            return made.last


@contextmanager
def in_pieces(here: Here, decider: Any = None) -> Iterator[None]:
    """Even the shortest record is cut, and its pieces are replayed in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shadowing, "SHARED_FROM", 0)
        patch.setattr(shadow_pieces, "PIECE_MIN", 1)
        patch.setattr(shadow_pieces, "TOLD_EACH", 1)
        patch.setattr(shadow_workers, "run_pieces", here)
        patch.setattr(shadow_workers, "_told", None)
        if decider is not None:
            patch.setattr(engine, "decider_of", lambda _: decider)
            patch.setattr(shadow_workers, "decider_of", lambda _: decider)
        yield


def compared(db: str, folder: Path, counts: Sequence[int], plan: ReplayPlan = PLAN) -> list[int]:
    """The replay whole, and for so many processes: into how many pieces they cut it."""
    whole = shadowed(db, folder, 1, plan)
    cut = []
    for workers in counts:
        here = Here()
        with in_pieces(here):
            assert shadowed(db, folder, workers, plan) == whole
        cut.append(len(here.pieces))
    return cut


# --- the same, however it is cut ------------------------------------------------------------------------------------

gangs = st.builds(
    lambda pods, short, cpu, arrives, runs: Gang(pods, max(1, pods - short), cpu, arrives, runs),
    st.integers(1, 4),
    st.integers(0, 2),
    st.integers(1, 5),
    st.integers(0, 400),
    st.integers(1, 200),
)
stages = st.builds(
    lambda nodes, gangs: Stage(tuple(nodes), tuple(sorted(gangs, key=lambda gang: gang.arrives))),
    st.lists(st.integers(1, 8), min_size=1, max_size=4),
    st.lists(gangs, min_size=2, max_size=12),
)


@pytest.mark.slow
@settings(max_examples=share(4))
@given(stages, st.booleans())
def test_any_pieces_are_the_whole(stage: Stage, snapshots: bool) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        db = ledger_of(events(stage), folder / "source.db", snapshots=snapshots)
        cut = compared(db, folder, (3,))
        event(f"pieces: {max(cut)}")


def test_a_record_of_minutes_is_cut_and_stays_the_same(tmp_path: Path) -> None:
    db = ledger_of(events(MINUTES), tmp_path / "source.db", snapshots=True)
    assert compared(db, tmp_path, (2,)) == [8]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["02-unschedulable", "03-volumes"])
def test_pieces_of_recordings_are_the_whole(name: str, tmp_path: Path) -> None:
    there = recording(name)
    plan = ReplayPlan(
        conf=(there / "scheduler-conf.yaml").read_text(),
        options=config_of((there / "scheduler-args.txt").read_text()),
    )
    with Ledger.open(str(tmp_path / "source.db"), create=True) as source:
        import_paths(source, [there], cluster="c", options=ImportOptions(snapshots=False))
    assert compared(str(tmp_path / "source.db"), tmp_path, (4,), plan)[0] > 1


def evictions() -> list[NewEvent]:
    """A question of the first minute would evict g0-0 and g0-1; the first is evicted much later, the other ends."""
    gang, waits = Gang(2, 2, 2, 0, 4000), Gang(1, 1, 1, 40, 5)
    begun = events(Stage((8, 8), (gang, Gang(1, 1, 1, 30, 5))))
    goes = member(0, 0, gang, 32, "n0", "Running")
    goes["metadata"]["deletionTimestamp"] = "2026-03-01T03:50:00Z"
    goes["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "Evict"}]
    return [
        *(one for one in begun if one.observed_at - begun[0].observed_at < 60_000_000),
        seen("ADDED", group(2, waits, 20), 40),
        seen("ADDED", member(2, 0, waits, 21, "", "Pending"), 40),
        seen("MODIFIED", goes, 3000),
        seen("DELETED", goes, 3001),
        seen("DELETED", member(0, 1, gang, 33, "n0", "Running"), 3500),
    ]


def test_what_is_open_goes_over_into_later_pieces(tmp_path: Path) -> None:
    """Of g2-0, which waits to the end, and of what would have been evicted the answer comes in another piece."""
    db = ledger_of(evictions(), tmp_path / "source.db")
    decider = partial(FirstFit, evicts=("default/g0-0", "default/g0-1"))
    with in_pieces(Here(), decider):
        whole, here = shadowed(db, tmp_path, 1), Here()
    with in_pieces(here, decider):
        assert shadowed(db, tmp_path, 9) == whole
    assert len(here.pieces) == 3
    counts = whole.result.counts
    assert (counts.only_here, counts.evicted_only_here, counts.evicted_only_there) == (1, 2, 1)


def test_behind_the_last_event_there_is_no_piece(tmp_path: Path) -> None:
    """Another cluster's events make half of the ledger. At the end the session is asked about a gang that stays."""
    gangs = (Gang(2, 2, 1, 5, 50), Gang(1, 1, 1, 70, 40), Gang(1, 1, 50, 80, 30), Gang(1, 1, 1, 130, 5))
    made = events(Stage((4,), gangs))
    others = [one._replace(stream=one.stream._replace(cluster="other")) for one in made]
    db = ledger_of([*made, *others], tmp_path / "source.db")
    assert compared(db, tmp_path, (9,), ReplayPlan(seed=3, cluster=made[0].stream.cluster)) == [3]


# --- stopped --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("stops_in", [0, 3])
def test_stopped_in_a_piece_it_goes_on_to_the_same_end(tmp_path: Path, stops_in: int) -> None:
    db = ledger_of(events(MINUTES), tmp_path / "source.db", snapshots=True)
    whole = shadowed(db, tmp_path, 1)
    first, again = Here(stops_in), Here()
    with in_pieces(first):
        stopped = shadowed(db, tmp_path, 3)
    assert not stopped.result.finished
    assert first.pieces[stops_in].after < stopped.result.stopped_at < first.pieces[stops_in].to
    with in_pieces(again):
        gone_on = shadowed(db, tmp_path, 3, resume=True)
    assert gone_on[:2] == whole[:2]
    assert again.pieces[0].after == stopped.result.stopped_at


def test_after_a_piece_that_was_stopped_none_is_taken(tmp_path: Path) -> None:
    """The second had ended before the first was told to stop; the third is heard of afterwards."""
    pieces = (Piece(0, 100, False), Piece(100, 200, False), Piece(200, 300, True))
    work: Any = None
    taker: Any = Begun()
    made = shadow_workers.Pieces(taker, "", work, pieces, Asking(), tmp_path)
    for number in range(3):
        shadow_pieces.Tape(made.tape(number)).close()
    made.ended[1] = Ended(True, Asking(position=200), 0, [])
    assert made.take()
    made.ended[0] = Ended(False, Asking(position=40), 0, [])
    assert not made.take()
    made.ended[2] = Ended(False, Asking(position=210), 0, [])
    assert not made.take()
    assert (taker.begun, made.taken, made.last.asking.position) == (1, 1, 40)


class Begun:
    """Takes notes: how many pieces have begun."""

    def __init__(self) -> None:
        self.begun = 0

    def piece_begins(self, number: int) -> None:
        self.begun += 1


# --- processes ------------------------------------------------------------------------------------------------------


class Acts:
    """Looks on, and does something the first time."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act, self.acted = act, False
        self.seen: list[int] = []

    def __call__(self, at: Progress) -> None:
        self.seen.append(at.position)
        if not self.acted:
            self.acted = True
            self.act()


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadowing, "SHARED_FROM", 0)
    monkeypatch.setattr(shadow_pieces, "PIECE_MIN", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("shared")
def test_a_process_that_dies_is_made_good_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = ledger_of(events(MINUTES), tmp_path / "source.db")
    whole = shadowed(db, tmp_path, 1)
    pools: list[bool] = []

    def counted(*given: Any) -> bool:
        pools.append(one_pool(*given))
        return pools[-1]

    one_pool = shadow_workers._one_pool
    monkeypatch.setattr(shadow_workers, "_one_pool", counted)
    acts = Acts(lambda: os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL))
    assert shadowed(db, tmp_path, 2, progress=acts) == whole
    assert pools == [True, False]
    assert acts.seen[-1] == whole.result.last


@pytest.mark.slow
@pytest.mark.usefixtures("shared")
def test_processes_that_are_told_to_stop_leave_what_goes_on(tmp_path: Path) -> None:
    """At the first look, when of eight pieces two have begun and one or two more are handed out."""
    db = ledger_of(events(MINUTES), tmp_path / "source.db", snapshots=True)
    whole = shadowed(db, tmp_path, 1)
    stopped = shadowed(db, tmp_path, 2, stop=lambda: True)
    assert not stopped.result.finished
    assert shadowed(db, tmp_path, 2, resume=True)[:2] == whole[:2]


@pytest.mark.slow
@pytest.mark.usefixtures("shared")
def test_what_goes_wrong_in_a_piece_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = ledger_of(events(MINUTES), tmp_path / "source.db")
    with Ledger.open(db, read_only=True) as source:
        monkeypatch.setattr(type(source.store), "address", str(tmp_path / "none.db"))
        with pytest.raises(LedgerMissing, match="there is no ledger at"):
            run_replay(source, ReplayPlan(), workers=2)
