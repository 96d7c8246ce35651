"""Where a run goes on from: the version that the run before had got to, as the log has it.

Owns that decision. Must not know threads nor requests. Called by `vcledger.record.recorder`.

A run may go on from the newest version of a list, a bookmark or a watch's beginning that an earlier one stored for the
very same scope, as everything before it is in the log by then. It has to list when a list was cut off since, or a
version has expired, when the scope is new or its labels were others, and when there was no run before. Since when
nobody looked is then said by the last such version too: what stands after it may be a part of a list, or an import's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from eventstore import EventStore
from eventstore.types import RECORDED, RETURNED, StoredEvent
from vcledger.codec import resource_version_key
from vcledger.record.scope import Scope
from vcledger.sources.lists import Known, LastSeen
from vcledger.sources.listwatch import NO_VERSIONS
from vcledger.sources.stored import NO_LIFE, last_seen
from volcano.events.base import RECORDING, Subject
from volcano.events.observation import Marker

STARTED, STOPPED = "recorder-started", "recorder-stopped"
"""The markers of a run. Each has a stream of its own, of which retention always leaves the newest event."""

RUNS = Subject(RECORDING, "", STARTED)
ENDS = Subject(RECORDING, "", STOPPED)

LOOK_BACK, RUNS_LOOKED_AT = 200, 50
POINTS = ("ListStarted", "ListCompleted", "WatchStarted", "WatchExpired", "Bookmark")


class Scoped(msgspec.Struct, frozen=True):
    """A scope as a run's marker names it."""

    kind: str
    namespace: str = ""
    selector: str = ""


class Run(msgspec.Struct, frozen=True):
    """What the marker of a run's start says of it."""

    run: str
    seed: int
    server: str = ""
    version: str = ""
    scopes: list[Scoped] = []


class Begin(NamedTuple):
    """How a scope's feed begins: with these objects known, after that last sign of life; `resume` from its version, or
    with a list."""

    known: list[Known]
    since: LastSeen | None
    resume: bool


class _Versioned(msgspec.Struct):
    resource_version: str = ""


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None


class _Whole(msgspec.Struct):
    metadata: _Meta | None = None


_versioned = msgspec.json.Decoder(_Versioned)
_whole = msgspec.json.Decoder(_Whole)
_runs = msgspec.json.Decoder(Run)
_markers = msgspec.json.Decoder(Marker)


class Reached(NamedTuple):
    """How far runs had got with a kind: the newest version before which nothing is missing, when it was said, by which
    run (its position), and whether a watch may go on from there."""

    since: LastSeen
    run: int
    resume: bool


def reached(newest_first: Iterable[StoredEvent], runs: Mapping[int, Run]) -> Reached | None:
    """By the events about a kind as a whole, of the runs that began at these positions. None when they had not got to
    any version."""
    resume = True
    for event in newest_first:
        if event.causation is None or event.causation not in runs or event.type not in POINTS:
            continue
        if event.type in ("ListStarted", "WatchExpired"):
            resume = False
            continue
        version = _versioned.decode(event.payload).resource_version
        if version not in NO_VERSIONS:
            return Reached(LastSeen(event.observed_at, version), event.causation, resume)
    return None


def last_runs(store: EventStore, cluster: str) -> dict[int, Run]:
    """The newest runs on the cluster: the position of each one's start, and what it was about."""
    newest = store.read(
        cluster=cluster, kinds=RUNS.kind, name=RUNS.name, types="Marker", reverse=True, limit=RUNS_LOOKED_AT
    )
    found: dict[int, Run] = {}
    for event in newest:
        with contextlib.suppress(msgspec.DecodeError):
            found[event.position] = _runs.decode(_markers.decode(event.payload).detail)
    return found


def begins(store: EventStore, cluster: str, wanted: Sequence[Scope]) -> dict[Scope, Begin]:
    """How each scope begins. To be called before the new run's own marker is stored."""
    if cluster not in store.clusters():
        return {scope: Begin([], None, False) for scope in wanted}
    runs = last_runs(store, cluster)
    return {scope: begin(store, cluster, scope, runs) for scope in wanted}


def begin(store: EventStore, cluster: str, scope: Scope, runs: Mapping[int, Run] | None) -> Begin:
    """How one scope begins. `runs` None: as if nobody had recorded before."""
    known = known_objects(store, cluster, scope)
    if runs:
        newest = store.read(
            after=min(runs),
            cluster=cluster,
            kinds=scope.kind,
            namespace=scope.namespace,
            name="",
            types=POINTS,
            late=False,
            reverse=True,
        )
        found = reached(newest, runs)
        if found is not None:
            same = Scoped(*scope) in runs[found.run].scopes
            return Begin(known, found.since, found.resume and same)
    return Begin(known, _last_sign(store, cluster, scope, known), False)


def known_objects(store: EventStore, cluster: str, scope: Scope) -> list[Known]:
    """The objects of a scope that are there, as the log has them, each at its own version."""
    heads = [
        head
        for head in store.live(cluster, scope.kind)
        if head.stream.name and scope.namespace in ("", head.stream.namespace)
    ]
    returned = [head.position for head in heads if head.resource_version is None or head.resource_version >= RETURNED]
    own = {event.position: _own_version(event) for event in store.get(returned)}
    return [
        Known(
            head.stream.namespace,
            head.stream.name,
            head.stream.uid,
            own.get(head.position, head.resource_version),
            head.position,
        )
        for head in heads
    ]


def _own_version(event: StoredEvent) -> int | None:
    """The version of an observed object, whatever it is stored under."""
    try:
        meta = _whole.decode(event.payload).metadata
    except msgspec.DecodeError:
        return event.resource_version
    return resource_version_key(meta.resource_version if meta is not None else None)


def _last_sign(store: EventStore, cluster: str, scope: Scope, known: Sequence[Known]) -> LastSeen | None:
    """By what was said of the kind as a whole, and by the objects that are there: the newest of these that was seen.
    Both are found without looking through the log."""
    said = store.read(
        cluster=cluster,
        kinds=scope.kind,
        namespace=scope.namespace or None,
        name="",
        late=False,
        reverse=True,
        limit=LOOK_BACK,
    )
    found = [event for event in said if event.known == RECORDED and event.type not in NO_LIFE][:1]
    newest = sorted((one.position for one in known), reverse=True)[:LOOK_BACK]
    found += [event for event in store.get(newest) if event.known == RECORDED][:1]
    return last_seen(max(found, key=lambda event: event.position)) if found else None
