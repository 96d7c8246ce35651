"""The pieces of one shadow replay on several processes of this machine.

Owns the processes, the tapes that they leave, and that the notes are taken in the order of the pieces. Must not know
what a note says. Called by `vcledger.replay.shadowing`.

Each process replays one piece after the other and writes its notes to a file of a temporary folder, so that what waits
for its turn takes no memory. When a process dies, the pieces that had not ended are begun again on other ones. When it
is to stop, the pieces stop where they are: the notes count up to where the first of them stands, and the rest is left.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from vcledger.errors import VcledgerError
from vcledger.ledger import Ledger
from vcledger.replay.engine import decider_of
from vcledger.replay.processes import DEATHS_MAX, POLL_SECONDS, deaf
from vcledger.replay.shadow import Asking
from vcledger.replay.shadow_pieces import Ended, Piece, Tape, Work, notes_on, walk
from vcledger.replay.shadow_tally import AnyNote


class WorkersDied(VcledgerError):
    """The processes of a replay die again and again."""

    exit_code = 1


class Taker(Protocol):
    """Who takes the notes, and says when to stop."""

    def piece_begins(self, number: int) -> None:
        """The next notes are of a piece that counts its questions from this number on."""
        ...

    def take(self, note: AnyNote) -> None:
        """One more note."""
        ...

    def moved(self, asking: Asking) -> bool:
        """So far it has come. True: it is to stop."""
        ...


# --- in a process ---------------------------------------------------------------------------------------------------

_told: Any = None
"""How many events of each piece are done, and in the last place whether to stop."""


def _begin(told: Any) -> None:
    """A process's first act."""
    global _told  # noqa: PLW0603 - the pool hands its shared memory to a process only here
    _told = told


def play(number: int, address: str, work: Work, piece: Piece, asking: Asking | None, tape: Path) -> Ended:
    """One piece, its notes onto a tape. Ends early when it is told to stop, or when nobody waits for it any more."""
    parent, told = os.getppid(), _told

    def moved(at: Asking) -> bool:
        if told is None:
            return False
        told[number] = max(0, at.position - piece.after)
        return bool(told[-1]) or os.getppid() != parent

    with Ledger.open(address, read_only=True) as source:
        notes = Tape(tape)
        ended = walk(source, work, piece, asking, decider_of(work.plan), notes.tell, moved)
        notes.close()
    return ended


# --- in the one that waits ------------------------------------------------------------------------------------------


class Pieces:
    """The pieces of a replay, and how far each has come: `ended` by number, with what went wrong in `failed`."""

    def __init__(
        self, taker: Taker, address: str, work: Work, pieces: Sequence[Piece], asking: Asking, folder: Path
    ) -> None:
        self.taker, self.address, self.work, self.pieces, self.folder = taker, address, work, pieces, folder
        self.asking, self.number = asking, asking.number
        self.taken, self.stopped = 0, False
        self.ended: dict[int, Ended] = {}
        self.failed: dict[int, BaseException] = {}
        self.last = Ended(False, asking, 0, [])

    def begun_with(self, number: int) -> Asking | None:
        """What is in mind where a piece begins: nothing, but for what the replay itself begins with."""
        return None if number else self.asking

    def tape(self, number: int) -> Path:
        return self.folder / f"{number}.notes"

    def left(self) -> list[int]:
        """The pieces that have not ended."""
        return [number for number in range(len(self.pieces)) if number not in self.ended and number not in self.failed]

    def take(self) -> bool:
        """Takes the notes of the pieces whose turn has come. False once one of them was told to stop: what comes after
        it is left, also what had ended before. Raises what went wrong in the piece whose turn it is."""
        while self.taken < len(self.pieces) and not self.stopped:
            number = self.taken
            if number in self.failed:
                raise self.failed[number]
            if number not in self.ended:
                return True
            self.taker.piece_begins(0 if number else self.number)
            for note in notes_on(self.tape(number)):
                self.taker.take(note)
            self.tape(number).unlink()
            self.last = self.ended[number]
            self.taken += 1
            self.stopped = not self.last.finished
        return not self.stopped


def run_pieces(taker: Taker, address: str, work: Work, pieces: Sequence[Piece], asking: Asking, workers: int) -> Ended:
    """All pieces on `workers` processes: how the last one ended whose notes were taken. `asking` is what is in mind
    where the first begins. WorkersDied, and what goes wrong in a piece."""
    context = multiprocessing.get_context("spawn")
    told = context.Array("q", len(pieces) + 1, lock=False)
    with TemporaryDirectory(prefix="vcledger-shadow-") as folder:
        all_ = Pieces(taker, address, work, pieces, asking, Path(folder))
        deaths = 0
        while all_.taken < len(pieces):
            before = len(all_.ended)
            count = min(workers, len(all_.left()))
            with ProcessPoolExecutor(count, context, initializer=_begin, initargs=(told,)) as pool:
                died = _one_pool(pool, all_, told)
            if not died:
                break
            deaths = 1 if len(all_.ended) > before else deaths + 1
            if deaths >= DEATHS_MAX:
                raise WorkersDied(
                    f"its worker processes died {deaths} times, perhaps for want of memory: try fewer --workers"
                )
        return _where(all_)


def _where(all_: Pieces) -> Ended:
    """How the last piece ended that was taken; a replay that was to stop between two pieces stands at a cut."""
    last = all_.last
    if last.finished and all_.taken < len(all_.pieces):
        return Ended(False, last.asking, last.pending, last.notes)
    return last


def _one_pool(pool: ProcessPoolExecutor, all_: Pieces, told: Any) -> bool:
    """Has the pieces replayed until all have ended or it is to stop. True: a process died."""
    running: dict[Future[Ended], int] = {}
    died = False
    try:
        with deaf():
            for number in all_.left():
                piece, begun = all_.pieces[number], all_.begun_with(number)
                asked = (number, all_.address, all_.work, piece, begun, all_.tape(number))
                running[pool.submit(play, *asked)] = number
        while running:
            done, _ = wait(running, POLL_SECONDS, FIRST_COMPLETED)
            for future in sorted(done, key=running.__getitem__):
                died = _settle(all_, running.pop(future), future) or died
            if not all_.take() or _is_to_stop(all_, told):
                told[-1] = 1
                for future in running:
                    future.cancel()
    except BrokenProcessPool:  # it died while pieces were still being handed out
        died = True
    except BaseException:
        told[-1] = 1
        for future in running:
            future.cancel()
        raise
    return died and not told[-1]


def _settle(all_: Pieces, number: int, future: Future[Ended]) -> bool:
    """Notes what became of a piece. True: its process died."""
    if future.cancelled():
        return False
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        return True
    if error is not None:
        all_.failed[number] = error
    else:
        all_.ended[number] = future.result()
    return False


def _is_to_stop(all_: Pieces, told: Any) -> bool:
    """Tells how far all have come, and asks whether to go on."""
    if told[-1]:
        return False
    first = all_.pieces[0].after
    at = Asking(position=first + sum(told[:-1]), now=all_.last.asking.now)
    return all_.taker.moved(at)


__all__ = ["Pieces", "Taker", "WorkersDied", "play", "run_pieces"]
