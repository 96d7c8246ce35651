"""When to train a dictionary, and on what.

Owns the samples that a writer sets aside, and the choice of the moment. Must not know tables, nor how compression
works. Called by `eventstore.append`.

A dictionary is trained when the ledger holds enough for a first one, again each time that the ledger has grown by
GROWTH (objects late in a record hold words that early ones do not), and when payloads take clearly more room than just
after the last training. That is a dozen trainings or so however long the record gets.
"""

from __future__ import annotations

from collections.abc import Iterable

from eventstore.codec import SAMPLE_BYTES_MAX

FIRST = 1_000
"""Events of a ledger from which on it may have a dictionary."""
GROWTH = 1.5
SAMPLES = 600
FALLEN_OFF = 1.4
"""Train again when payloads take this many times the room that they took just after the training."""
RATIO_WINDOW = 2_000
"""Payloads over which the ratio is measured, and the fewest between two trainings."""


class Sampler:
    """Some of the payloads that went by, evenly spread over all of them: at least SAMPLES once there were so many, at
    most twice as many."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.samples: list[bytes] = []
        self._stride, self._skip = 1, 0

    def chosen(self) -> list[bytes]:
        """At most SAMPLES of them, evenly spread: the time that a training takes goes with their number."""
        there = len(self.samples)
        wanted = min(there, SAMPLES)
        return [self.samples[place * there // wanted] for place in range(wanted)]

    def see(self, payloads: Iterable[bytes | None]) -> None:
        """Payloads in their short form; None for those without one."""
        stride, at = self._stride, self._skip
        for payload in payloads:
            if at:
                at -= 1
                continue
            at = stride - 1
            if payload:
                self.samples.append(payload[:SAMPLE_BYTES_MAX])
                if len(self.samples) >= 2 * SAMPLES:
                    del self.samples[1::2]
                    stride *= 2
        self._stride, self._skip = stride, at


class RatioWatch:
    """Notices when the newest dictionary no longer fits what is appended: compares the ratio over the last
    RATIO_WINDOW payloads with the ratio over the first ones after the training."""

    def __init__(self) -> None:
        self._baseline: float | None = None
        self._count = self._size = self._stored = 0
        self._patience = 1

    def trained(self) -> None:
        """Starts anew after a training whose dictionary was taken."""
        self._baseline, self._patience = None, 1
        self._count = self._size = self._stored = 0

    def refused(self) -> None:
        """After a training that brought nothing: waits twice as long before the next."""
        self._patience = min(self._patience * 2, 64)

    def fallen_off(self, count: int, size: int, stored: int) -> bool:
        """Counts a batch in; True when it is time to train again."""
        self._count, self._size, self._stored = self._count + count, self._size + size, self._stored + stored
        if self._count < RATIO_WINDOW * self._patience or not self._size:
            return False
        ratio = self._stored / self._size
        self._count = self._size = self._stored = 0
        if self._baseline is None:
            self._baseline = ratio
            return False
        return ratio > self._baseline * FALLEN_OFF


class Schedule:
    """The position at which the next training is due. One that comes to a ledger that is long overdue waits for
    RATIO_WINDOW events of its own, so that opening a ledger for a handful of events costs no training."""

    def __init__(self) -> None:
        self.due = FIRST
        self._watch = RatioWatch()

    def opened(self, position: int, trained_at: int | None) -> None:
        """The ledger as a writer finds it: its last position, and the first that uses its newest dictionary."""
        self._watch = RatioWatch()
        self.due = (
            FIRST if trained_at is None else max(int(trained_at * GROWTH), min(position, trained_at) + RATIO_WINDOW)
        )
        if trained_at is not None and position >= self.due:
            self.due = position + RATIO_WINDOW

    def done(self, position: int, taken: bool) -> None:
        """After a training at a position."""
        if taken:
            self._watch.trained()
        else:
            self._watch.refused()
        self.due = max(int(position * GROWTH), position + RATIO_WINDOW)

    def appended(self, position: int, count: int, size: int, stored: int) -> None:
        """After a batch that a dictionary was used for."""
        if self._watch.fallen_off(count, size, stored):
            self.due = min(self.due, position)
