"""What the ledger knows when an import asks: the objects that are there, the last of one, the last sign of a watch.

Owns these questions. Must not know what follows from the answers, nor what waits to be appended. Called by
`vcledger.sources.sink`.
"""

from __future__ import annotations

import msgspec

from eventstore import EventStore
from eventstore.types import RECORDED, NewEvent, StoredEvent, StreamId
from vcledger.codec import OBJECT_TYPES, OPAQUE
from vcledger.sources.lists import Known, LastSeen

LOOK_BACK = 200
"""How many of a kind's newest events are looked at for the last sign of life of its watch."""

NO_LIFE = frozenset({"WatchFailed", "WatchExpired", "GapRecorded"})


class _Versioned(msgspec.Struct):
    resource_version: str = ""


_versioned = msgspec.json.Decoder(_Versioned)


def last_seen(event: NewEvent | StoredEvent) -> LastSeen:
    """An event of a watch as a sign of life."""
    key = event.resource_version
    if key is not None and key < OPAQUE and event.type in OBJECT_TYPES:
        return LastSeen(event.observed_at, str(key))
    try:
        return LastSeen(event.observed_at, _versioned.decode(event.payload).resource_version)
    except msgspec.DecodeError:
        return LastSeen(event.observed_at, "")


class Stored:
    """A cluster of a ledger, as an import asks it."""

    def __init__(self, store: EventStore, cluster: str) -> None:
        self._store, self._cluster = store, cluster

    def objects(self, kind: str) -> list[Known]:
        """The objects of the kind that are there."""
        return [
            Known(head.stream.namespace, head.stream.name, head.stream.uid, head.resource_version, head.position)
            for head in self._store.live(self._cluster, kind)
            if head.stream.name
        ]

    def last_object(self, stream: StreamId) -> StoredEvent | None:
        """The last observation of a stream's object, which may stand before the stream's last event."""
        return self._last(stream.kind, stream.namespace, stream.name, stream.uid)

    def uid_of(self, kind: str, namespace: str, name: str) -> str:
        """The uid of the object that had a name last; '' when there was none."""
        found = self._last(kind, namespace, name)
        return "" if found is None else found.stream.uid

    def _last(self, kind: str, namespace: str, name: str, uid: str | None = None) -> StoredEvent | None:
        found = self._store.read(
            cluster=self._cluster,
            kinds=kind,
            namespace=namespace,
            name=name,
            uid=uid,
            types=OBJECT_TYPES,
            late=False,
            reverse=True,
            limit=1,
        )
        return next(iter(found), None)

    def last_sign(self, kind: str, before: int) -> StoredEvent | None:
        """The last event before a time (microseconds) that a watch of the kind gave as a sign of life, if it is among
        the newest `LOOK_BACK`."""
        newest = self._store.read(
            cluster=self._cluster, kinds=kind, late=False, observed_to=before, reverse=True, limit=LOOK_BACK
        )
        return next((one for one in newest if one.known == RECORDED and one.type not in NO_LIFE), None)
