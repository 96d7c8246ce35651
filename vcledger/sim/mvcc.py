"""What etcd is to the API server: objects under one rising version, their history, and its compaction.

Owns the versions. Must not know what a request may do. Called by `vcledger.sim.server` and its watches.

An object given in is never changed afterwards by anyone: each write brings a new dictionary.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from volcano.objects.kinds import BY_NAME

Object = dict[str, Any]


class Stored(NamedTuple):
    """An object as it is now: its version, itself, and its JSON."""

    version: int
    object: Object
    body: bytes


class Revision(NamedTuple):
    """One write. `change` is ADDED, MODIFIED or DELETED; `stored` the object after it (when deleted, its last state at
    the deletion's version), `before` what it was, None when it was not there."""

    version: int
    kind: str
    key: str
    change: str
    stored: Stored
    before: Stored | None


class Compacted(Exception):
    """The history no longer reaches back to that version. `oldest` is the oldest one it does."""

    def __init__(self, version: int, oldest: int) -> None:
        super().__init__(f"version {version} was compacted, the oldest is {oldest}")
        self.version = version
        self.oldest = oldest


_version_of = itemgetter(0)


class VersionedStore:
    """Objects by kind (our name) and key (`namespace/name`, or the name), with the history of each kind.

    `version` is that of the last write. `compacted` is the oldest version from which the history is whole. Each of
    `listeners` is called after every write."""

    def __init__(self, version: int = 0) -> None:
        self.version = version
        self.compacted = version
        self.listeners: list[Callable[[Revision], None]] = []
        self._objects: dict[str, dict[str, Stored]] = {kind: {} for kind in BY_NAME}
        self._history: dict[str, list[Revision]] = {kind: [] for kind in BY_NAME}

    def get(self, kind: str, key: str) -> Stored | None:
        return self._objects[kind].get(key)

    def keys(self, kind: str) -> list[str]:
        """The keys there are now, sorted."""
        return sorted(self._objects[kind])

    def items(self, kind: str) -> list[tuple[str, Stored]]:
        """What there is now, sorted by key, as etcd's ranges are."""
        return sorted(self._objects[kind].items(), key=itemgetter(0))

    def put(self, kind: str, key: str, item: Object) -> Stored:
        """Writes an object; its metadata.resourceVersion becomes the write's version."""
        before = self._objects[kind].get(key)
        stored = self._versioned(item)
        self._objects[kind][key] = stored
        self._record(Revision(stored.version, kind, key, "MODIFIED" if before else "ADDED", stored, before))
        return stored

    def remove(self, kind: str, key: str) -> Stored:
        """Deletes an object; what is left of it is its last state at the version of the deletion."""
        before = self._objects[kind].pop(key)
        stored = self._versioned(before.object)
        self._record(Revision(stored.version, kind, key, "DELETED", stored, before))
        return stored

    def since(self, kind: str, version: int) -> list[Revision]:
        """The writes of a kind after a version, in order. Compacted when the history does not reach back to it."""
        if version < self.compacted:
            raise Compacted(version, self.compacted)
        history = self._history[kind]
        return history[bisect_right(history, version, key=_version_of) :]

    def at(self, kind: str, version: int) -> list[tuple[str, Stored]]:
        """What there was of a kind at a version, sorted by key. Compacted when that can't be known any more."""
        if version >= self.version:
            return self.items(kind)
        objects = dict(self._objects[kind])
        for revision in reversed(self.since(kind, version)):
            if revision.before is None:
                objects.pop(revision.key, None)
            else:
                objects[revision.key] = revision.before
        return sorted(objects.items(), key=itemgetter(0))

    def compact(self, version: int) -> None:
        """Forgets the history up to a version, which can then still be read and watched from."""
        self.compacted = max(self.compacted, min(version, self.version))
        for history in self._history.values():
            del history[: bisect_right(history, self.compacted, key=_version_of)]

    def _versioned(self, item: Object) -> Stored:
        self.version += 1
        copy = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
        return Stored(self.version, copy, msgspec.json.encode(copy))

    def _record(self, revision: Revision) -> None:
        self._history[revision.kind].append(revision)
        for listener in self.listeners:
            listener(revision)
