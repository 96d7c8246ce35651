"""When something was observed, in formats that do not say: watch lines, lists and objects.

Owns that rule (docs/adr/0009-observation-times.md). Must not know formats nor the log, and reads no clock of its own:
it is given one. Called by `vcledger.sources.reader` and `vcledger.sources.watchlines`; made by the pipeline.

The moment lies between the newest time inside the object and the time at which the file was written last. A list is the
state at the latter. A watch's lines take the former, never going back; what stands at its end without showing a newer
time was written last, so it takes the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from eventstore.types import NewEvent
from vcledger.at import format_time
from vcledger.sources.items import Item, ListItem, Sighting
from vcledger.sources.observe import newest_time, written_time
from vcledger.sources.shape import Clock

MINUTE = 60 * 1_000_000
"""Clocks that differ by less are not worth a word."""

HELD_MAX = 1_000
HELD_BYTES = 16 << 20
"""Items, and bytes of payload, that wait to see whether something with a newer time follows."""


class Unsure(NamedTuple):
    """An item that shows no newer time than what stands before it. `settled` decides on its moment."""

    observed_at: int
    item: Item


class Moments:
    """The rule for one source. `clock` is the file's time, which never goes back; `now` gives microseconds.

    fixed: the moment that somebody has named; it holds for everything. modified: when the file was written last; None
    when the source is a pipe, whose pieces are observed when they are read."""

    def __init__(
        self, clock: Clock, now: Callable[[], int], modified: int | None = None, fixed: int | None = None
    ) -> None:
        self.clock, self.now, self.modified, self.fixed = clock, now, modified, fixed
        self._today = now()
        self._written = 0
        self.clamped = 0

    @property
    def between(self) -> bool:
        """Whether moments are only known to lie between two bounds."""
        return self.fixed is None and self.modified is not None

    def state(self, part: Any) -> int:
        """The moment of an object in a list: that of the whole list."""
        if self.between:
            self._bounded(newest_time(part), written_time(part))
        return self.clock.at(self._latest())

    def change(self, part: Any, data: bytes = b"") -> tuple[int, bool]:
        """The moment of an object in a watch, and whether its own times show that it is a new one."""
        if not self.between:
            return self.clock.at(self._latest()), True
        before = self.clock.now
        time = self.clock.at(self._bounded(newest_time(part, data), written_time(part)))
        return time, time > before

    def together(self, parts: list[Any]) -> int:
        """The moment of a list that stands between the lines of a watch."""
        if not self.between:
            return self.clock.at(self._latest())
        for part in parts:
            self.clock.at(self._bounded(newest_time(part), written_time(part)))
        return self.clock.now

    def bare(self) -> int:
        """The moment of a line that carries no object."""
        return self.clock.at(None if self.between else self._latest())

    def dump(self, time: int) -> int:
        """The moment of a cache dump of which only the newest time in it is known."""
        latest = self._today if self.modified is None else min(self._today, self.modified)
        self.clamped += time > latest + MINUTE
        return min(time, latest)

    def end(self) -> int:
        """The moment of what was written last."""
        return self.clock.at(self._latest())

    def _latest(self) -> int:
        """The upper bound: never after now. A file is at least as new as what the API server wrote into its objects,
        whatever a copy or an archive has done to its date."""
        if self.fixed is not None:
            return self.fixed
        if self.modified is None:
            return self.now()
        return min(self._today, max(self.modified, self._written))

    def _bounded(self, newest: int | None, written: int | None) -> int | None:
        if newest is None:
            return None
        if written is not None and written > self._written:
            self._written = written
        latest = self._latest()
        if newest <= latest:
            return newest
        self.clamped += newest > latest + MINUTE
        return latest

    def note(self, name: str) -> str | None:
        """What is to be said of times in the future; None when there were none."""
        if not self.clamped:
            return None
        return (
            f"{name}: {self.clamped:,} objects carry times after {format_time(self._latest())}, when the file was "
            "written or read: that moment stands for them"
        )


def settled(items: Iterator[Item | Unsure], moments: Moments) -> Iterator[Item]:
    """The items, with those at the end that show no newer time moved to the moment when the file was written last."""
    held: list[Item] = []
    size = 0
    for one in items:
        unsure = type(one) is Unsure
        item: Item = one.item if type(one) is Unsure else one  # type: ignore[assignment]
        if held and (item.observed_at > held[0].observed_at or len(held) >= HELD_MAX or size >= HELD_BYTES):
            yield from held
            held.clear()
            size = 0
        if unsure or held:
            held.append(item)
            size += payload_size(item)
        else:
            yield item
    if held:
        end = moments.end()
        for item in held:
            yield at(item, max(end, item.observed_at))


def at(item: Item, time: int) -> Item:
    """The item at another moment."""
    if isinstance(item, ListItem | Sighting):
        return item._replace(observed_at=time, event=item.event._replace(observed_at=time))
    return item._replace(observed_at=time)


def payload_size(item: Item) -> int:
    """Bytes of the object that an item carries."""
    event = item.event if isinstance(item, ListItem | Sighting) else item
    return len(event.payload) if type(event) is NewEvent else 0
