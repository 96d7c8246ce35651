"""What has been seen and is not stored yet: bounded, in order, between the threads that watch and the one that appends.

Owns the bound. Must not know what an item is, but its size. Called by `vcledger.record.recorder` and
`vcledger.record.writer`.

When it is full, who puts has to wait, so it stops reading its watch, and the API server has to hold what comes or end
the watch: nothing grows here.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

BYTES_MAX = 64 << 20


class Backlog(Generic[T]):
    """A queue of groups. A group is taken whole, and put whole even if it alone is larger than the bound."""

    def __init__(self, size: Callable[[T], int], bytes_max: int = BYTES_MAX) -> None:
        self._size, self.bytes_max = size, bytes_max
        self._groups: deque[tuple[list[T], int]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.items = self.bytes = 0

    def put(self, group: Sequence[T]) -> bool:
        """Waits until there is room. False, and nothing put, when it was closed."""
        if not group:
            return not self._closed
        size = sum(map(self._size, group))
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self.bytes or self.bytes + size <= self.bytes_max)
            if self._closed:
                return False
            self._groups.append((list(group), size))
            self.items += len(group)
            self.bytes += size
            self._changed.notify_all()
        return True

    def take(self, most: int, seconds: float) -> list[T] | None:
        """The groups that wait, oldest first, until they are at least `most` items; [] when none came in time, None
        when it is closed and empty. What is taken counts as waiting until `done`."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._groups) or self._closed, seconds)
            found: list[T] = []
            self._taken = 0
            while self._groups and len(found) < most:
                group, size = self._groups.popleft()
                found += group
                self._taken += size
            if not found:
                return None if self._closed else []
            return found

    def done(self, items: int) -> None:
        """What was taken last is stored: its room is free."""
        with self._changed:
            self.items -= items
            self.bytes -= self._taken
            self._taken = 0
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing more comes in; what is there can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
