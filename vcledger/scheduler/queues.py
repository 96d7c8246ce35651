"""Work queues as values: keyed, de-duplicating, rate-limited, with time as data.

Owns when a key may be handed out, and that nobody has it twice. Must not know what the work is. Called by the fold, and
by the deciders for its delays; held by `vcledger.scheduler.state`.

Source: client-go's workqueue (Add, Get, Done, AddRateLimited, Forget) and its ItemExponentialFailureRateLimiter. Times
and delays are in microseconds.
"""

from __future__ import annotations

import msgspec

BASE_MICROSECONDS = 5_000
MAX_MICROSECONDS = 1_000_000_000


def backoff_microseconds(failures: int, base: int = BASE_MICROSECONDS, limit: int = MAX_MICROSECONDS) -> int:
    """The delay after so many failures: the base, doubled with each further one, up to the limit.

    >>> [backoff_microseconds(n) for n in (0, 1, 2, 3, 60)]
    [0, 5000, 10000, 20000, 1000000000]
    """
    if failures < 1:
        return 0
    return int(min(base << min(failures - 1, 60), limit))


class Item(msgspec.Struct):
    """A key in a queue: when it may be handed out, how often it has been queued in a row, and whether somebody has it.
    `again`: it was added while somebody had it, so it comes back once that is done."""

    due: int
    attempt: int = 1
    taken: bool = False
    again: int | None = None


class WorkQueue:
    """A queue. A key stands in it once, from `add` until `done`, also while somebody works on it."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}

    def __len__(self) -> int:
        return len(self.items)

    def __contains__(self, key: str) -> bool:
        return key in self.items

    def add(self, key: str, due: int, attempt: int = 1) -> None:
        """Queue a key. One that waits is due at the earlier of both times; one that is worked on comes back later."""
        item = self.items.get(key)
        if item is None:
            self.items[key] = Item(due, attempt)
        elif item.taken:
            item.again = due if item.again is None else min(item.again, due)
        else:
            item.due = min(item.due, due)

    def due(self, now: int) -> list[str]:
        """The keys that may be handed out, the one due first coming first."""
        ready = [(item.due, key) for key, item in self.items.items() if not item.taken and item.due <= now]
        return [key for _, key in sorted(ready)]

    def take(self, key: str) -> None:
        """Hand a key out. KeyError when it isn't queued, ValueError when somebody has it."""
        item = self.items[key]
        if item.taken:
            raise ValueError(f"{key} is being worked on")
        item.taken = True

    def retry(self, key: str, due: int, attempt: int) -> None:
        """Put a key back that somebody had, or that waits; or queue it anew."""
        self.items[key] = Item(due, attempt)

    def done(self, key: str) -> None:
        """The work is done: the key goes, or comes back if it was added meanwhile. An unknown key is left alone."""
        item = self.items.pop(key, None)
        if item is not None and item.again is not None:
            self.items[key] = Item(item.again)

    def forget(self, key: str) -> None:
        """Take a key out whatever its state."""
        self.items.pop(key, None)

    def give_back(self, now: int) -> None:
        """Nobody works on anything any more (the process died): what was taken may be handed out again, now."""
        for item in self.items.values():
            if item.taken:
                item.taken, item.due, item.again = False, now, None

    def next_due(self) -> int | None:
        """When the next key may be handed out; None when none waits."""
        return min((item.due for item in self.items.values() if not item.taken), default=None)

    def rows(self) -> list[list[object]]:
        """For the digest."""
        return [[key, *msgspec.structs.astuple(item)] for key, item in sorted(self.items.items())]


__all__ = ["BASE_MICROSECONDS", "MAX_MICROSECONDS", "Item", "WorkQueue", "backoff_microseconds"]
