"""Numbers about a run: what was stored, asked and lost, and how it stands now.

Owns them, for any number of threads. Must not know who shows them. Called by the modules beside it and by
`vcledger.schedule.scheduler`.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager

DURATIONS_KEPT = 2_000

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Upper bounds, in seconds, of the histogram of appends."""


class Meters:
    """Counters by name and labels, and gauges. All numbers rise, but for gauges."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, ...]] = Counter()
        self._gauges: dict[str, float] = {}
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0
        self._recent: deque[tuple[int, int]] = deque(maxlen=DURATIONS_KEPT)

    def add(self, name: str, *labels: str, by: int = 1) -> None:
        """Raises a counter."""
        with self._lock:
            self._counts[name, *labels] += by

    def set(self, name: str, value: float) -> None:
        """Sets a gauge."""
        with self._lock:
            self._gauges[name] = value

    def gauge(self, name: str, default: float = 0.0) -> float:
        with self._lock:
            return self._gauges.get(name, default)

    def count(self, name: str, *labels: str) -> int:
        """A counter; the sum over all labels that begin with these."""
        with self._lock:
            wanted = (name, *labels)
            return sum(value for key, value in self._counts.items() if key[: len(wanted)] == wanted)

    def counts(self, name: str) -> dict[tuple[str, ...], int]:
        """A counter's values by their labels."""
        with self._lock:
            return {key[1:]: value for key, value in sorted(self._counts.items()) if key[0] == name}

    def appended(self, seconds: float, events: int, now: int) -> None:
        """An append that took so long, with so many new events."""
        with self._lock:
            slot = next((at for at, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))
            self._buckets[slot] += 1
            self._seconds += seconds
            self._recent.append((now, events))

    def append_seconds(self) -> tuple[list[tuple[str, float]], float]:
        """The histogram: cumulative counts by upper bound, and the sum of seconds."""
        with self._lock:
            total, rows = 0, []
            for bound, count in zip((*map(str, BUCKETS), "+Inf"), self._buckets, strict=True):
                total += count
                rows.append((bound, float(total)))
            return rows, self._seconds

    def rate(self, now: int, seconds: float = 10.0) -> float:
        """New events a second, over the last few seconds."""
        since = now - int(seconds * 1_000_000)
        with self._lock:
            return sum(events for at, events in self._recent if at >= since) / seconds

    @contextmanager
    def gauged(self, name: str) -> Iterator[None]:
        """The gauge is 1 while this lasts."""
        self.set(name, 1)
        try:
            yield
        finally:
            self.set(name, 0)
