"""What an observation is to the log: new, known already, older than what it has, or back again.

Owns the memory of what the log has of each object: of those that live, and of some that went last. Whatever is not in
it is asked of the log, unless its version says that it can only be new. Must not know what is decided. Called by the
loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from eventstore import EventStore
from eventstore.types import INFERRED, NewEvent, StoredEvent, StreamId
from projections.cache import Cache, stores
from vcledger import codec
from vcledger.scheduler.decision import Draft
from volcano.events.base import Subject


def came_back(version: str | None, position: int) -> str:
    """The version under which an observation at a position is stored of an object that came back as it was (AGAIN): the
    log takes each version once, and goes by the last of them for what is there."""
    return f"{version} again at {position}"


GONE_MAX = 20_000
"""So many objects that went last are kept in memory."""


class Standing(Enum):
    """NEW: as it is. KNOWN: the log has it, and nothing is new about it. AGAIN: the log has it, but an object came back
    that a relist had missed, and is stored under a version of its own (`came_back`), or is gone again: stored under no
    version. LATE: older than what the log has of the object
    (a stale list, a line that comes twice) or of its name, so kept, and passed over by the folds."""

    NEW = 0
    KNOWN = 1
    AGAIN = 2
    LATE = 3


class _Head(NamedTuple):
    """The highest version of an object that the log has, and whether it is gone, or was only missing from a list."""

    version: int
    gone: bool = False
    inferred: bool = False


_NOTHING = _Head(-1)


class Standings:
    """What the log of one cluster has. It is taken for empty until `begin`."""

    def __init__(self, store: EventStore, cluster: str) -> None:
        self.store, self.cluster = store, cluster
        self._heads: dict[Subject, _Head] = {}
        self._gone: dict[Subject, None] = {}
        self._floor: dict[str, int] | None = {}

    def begin(self, versions: dict[str, int], *, sure: bool = True) -> None:
        """Takes the log as it is. `versions`: the highest of each kind in it; an object that is not in memory, with a
        version above that, is new. Not `sure`: nothing is taken for granted."""
        self._heads, self._gone = {}, {}
        self._floor = dict(versions) if sure else None
        for kind in versions:
            for head in self.store.live(self.cluster, kind):
                subject = Subject(*head.stream[1:])
                self._heads[subject] = _Head(self._version(subject, head.resource_version))

    def of(self, draft: Draft, pending: list[NewEvent], cache: Cache) -> Standing:
        """What an observation is to the log, which stores one of each (object, version, gone or not). `pending` are the
        events that come before it in the same batch. An answer of NEW or AGAIN counts as stored from then on."""
        subject, gone = draft.subject, draft.change == "DELETED"
        number = codec.resource_version_key(draft.resource_version)
        head = self._head(subject, number)
        if not gone and number is not None and 0 <= number < head.version + (head.gone and not head.inferred):
            return Standing.KNOWN if self._stored(subject, number, gone, pending) else Standing.LATE
        if gone and _another_has_the_name(cache, subject):
            return Standing.KNOWN if self._stored(subject, number, gone, pending) else Standing.LATE
        stored = number is not None and number <= head.version and self._stored(subject, number, gone, pending)
        if stored and gone == head.gone:
            return Standing.KNOWN
        version = max(head.version, -1 if number is None else number)
        self._keep(subject, _Head(version, gone, gone and draft.known == INFERRED))
        return Standing.AGAIN if stored else Standing.NEW

    # --- memory ---------------------------------------------------------------------------------------------------

    def _keep(self, subject: Subject, head: _Head) -> None:
        self._heads[subject] = head
        self._gone.pop(subject, None)
        if not head.gone:
            return
        self._gone[subject] = None
        if len(self._gone) > GONE_MAX:
            oldest = next(iter(self._gone))
            del self._gone[oldest]
            dropped = self._heads.pop(oldest)
            if self._floor is not None:
                self._floor[oldest.kind] = max(self._floor.get(oldest.kind, -1), dropped.version)

    def _head(self, subject: Subject, number: int | None) -> _Head:
        held = self._heads.get(subject)
        if held is not None:
            return held
        if self._floor is not None and number is not None and number > self._floor.get(subject.kind, -1):
            return _NOTHING
        found = self.store.stream_head(StreamId(self.cluster, *subject))
        if found is None:
            return _NOTHING
        number = self._version(subject, found.resource_version)
        if not found.position:
            # It has late ones only: they are no news about the object, but they are stored.
            return _Head(number)
        last = self.store.get([found.position])
        head = _Head(number, found.gone, found.gone and any(one.known == INFERRED for one in last))
        self._keep(subject, head)
        return head

    # --- the log --------------------------------------------------------------------------------------------------

    def _stream(self, subject: Subject) -> Iterator[StoredEvent]:
        """The object's events, the newest first."""
        return self.store.read(
            cluster=self.cluster,
            kinds=subject.kind,
            namespace=subject.namespace,
            name=subject.name,
            uid=subject.uid,
            reverse=True,
        )

    def _version(self, subject: Subject, number: int | None) -> int:
        """The highest version of its own that is stored of an object; `number` is that of its last observation, which
        has none or another's when it came back or went again (AGAIN)."""
        if number is not None and number < codec.OPAQUE:
            return number
        found = [one.resource_version for one in self._stream(subject)]
        known = [one for one in found if one is not None]
        return max((one for one in known if one < codec.OPAQUE), default=max(known, default=-1))

    def _stored(self, subject: Subject, number: int | None, gone: bool, pending: list[NewEvent]) -> bool:
        for event in pending:
            if event.resource_version == number and event.gone == gone and event.stream[1:] == tuple(subject):
                return True
        return any(one.resource_version == number and one.gone == gone for one in self._stream(subject))


def _another_has_the_name(cache: Cache, subject: Subject) -> bool:
    """Whether the cache holds an object of that name with another UID: it came from an answer, before the watch had
    told of the old one's end."""
    key = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
    if subject.kind == "Pod":
        ref = cache.pods.get(key)
        return ref is not None and ref.uid != subject.uid
    held = stores.held(cache, subject.kind, key)
    return held is not None and held.metadata.uid != subject.uid


__all__ = ["Standing", "Standings", "came_back"]
