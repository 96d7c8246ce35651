"""What a list proves: which objects are new, which have changed, which are gone, and how long nobody was looking.

Owns the two state machines of list and watch. Pure: must not know the log, files or time. Called by
`vcledger.sources.sink` and `vcledger.sources.listwatch`, so it is one for imports and for what is live.

A list of a whole kind at a version is the state at that version: what was known and is not in it has been deleted in
between, unseen. An object that stands in the list under its name with another uid was deleted and made again, so its
deletion comes before it; all others that are missing come after the items, ordered by namespace, name and uid.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Known(NamedTuple):
    """An object that was there before the list; `version` its resourceVersion's key, `position` where the log has its
    last state."""

    namespace: str
    name: str
    uid: str
    version: int | None
    position: int


class Found(NamedTuple):
    """What an item of the list is: NEW, CHANGED or SAME; `replaced` is the object that had its name before."""

    change: str
    replaced: Known | None


NEW, CHANGED, SAME = "new", "changed", "same"


class Relist:
    """One list in progress. Give it every item with `item`, then take `missing`."""

    def __init__(self, known: Iterable[Known]) -> None:
        self._by_uid: dict[str, Known] = {}
        self._by_name: dict[tuple[str, str], Known] = {}
        for one in known:
            self._by_uid[one.uid] = one
            self._by_name[one.namespace, one.name] = one
        self._left = dict(self._by_uid)
        self.added = self.changed = self.deleted = self.same = 0

    def item(self, namespace: str, name: str, uid: str, version: int | None) -> Found:
        """Takes one item of the list."""
        known = self._by_uid.get(uid)
        if known is not None:
            self._left.pop(uid, None)
            if known.version == version:
                self.same += 1
                return Found(SAME, None)
            self.changed += 1
            return Found(CHANGED, None)
        self.added += 1
        before = self._by_name.get((namespace, name))
        replaced = self._left.pop(before.uid, None) if before is not None else None
        if replaced is not None:
            self.deleted += 1
        return Found(NEW, replaced)

    def missing(self) -> list[Known]:
        """What was known and is not in the list, in a fixed order. Ends the list."""
        gone = sorted(self._left.values(), key=lambda one: (one.namespace, one.name, one.uid))
        self._left.clear()
        self.deleted += len(gone)
        return gone


class LastSeen(NamedTuple):
    """The last sign of life of a kind's watch: when (microseconds), and the resourceVersion it carried."""

    time: int
    version: str


class Outage(NamedTuple):
    """Between the last sign of life of a watch and the list that followed it nobody was looking."""

    since: LastSeen
    reason: str


class Watches:
    """Per kind, where its watch broke off and why, until a list or a resumed watch mends it."""

    def __init__(self) -> None:
        self._broken: dict[str, Outage] = {}

    def broke(self, kind: str, since: LastSeen, reason: str) -> None:
        """The watch of the kind ended; of several attempts in a row the first stays."""
        self._broken.setdefault(kind, Outage(since, reason))

    def resumed(self, kind: str) -> None:
        """The watch went on from the version that it had got to: nothing was missed."""
        self._broken.pop(kind, None)

    def listed(self, kind: str, since: LastSeen | None, relist: bool) -> Outage | None:
        """A list of the kind begins, whose watch gave its last sign of life at `since` (None: never). The outage that
        the list ends, or None when it is the kind's first."""
        broken = self._broken.pop(kind, None)
        if broken is not None or since is None:
            return broken
        return Outage(since, "the watch was begun anew" if relist else "the recorder was started again")
