"""Where a run goes on from: the version that the run before had got to, as the log has it.

Owns that decision. Must not know threads nor requests. Called by `vcledger.record.recorder`.

A run may go on from the newest version of a list, a bookmark or a watch's beginning that the last run stored for the
very same scope, as everything before it is in the log by then. It has to list when the last run's list was cut off, or
its version had expired, when the scope is new or its labels were others, and when there was no run before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from eventstore import EventStore
from eventstore.types import RECORDED, StoredEvent
from vcledger.record.scope import Scope
from vcledger.sources.lists import Known, LastSeen
from vcledger.sources.listwatch import NO_VERSIONS
from vcledger.sources.sink import NO_LIFE, last_seen
from volcano.events.base import RECORDING, Subject
from volcano.events.observation import Marker

STARTED, STOPPED = "recorder-started", "recorder-stopped"
"""The markers of a run. Each has a stream of its own, of which retention always leaves the newest event."""

RUNS = Subject(RECORDING, "", STARTED)
ENDS = Subject(RECORDING, "", STOPPED)

LOOK_BACK = 200
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


_versioned = msgspec.json.Decoder(_Versioned)
_runs = msgspec.json.Decoder(Run)
_markers = msgspec.json.Decoder(Marker)


def version_of(newest_first: Iterable[StoredEvent], started: int) -> str:
    """The version to go on from by the events about a kind as a whole, of the run that began at the position `started`;
    '' when there is none."""
    for event in newest_first:
        if event.causation != started or event.type not in POINTS:
            continue
        if event.type in ("ListStarted", "WatchExpired"):
            return ""
        version = _versioned.decode(event.payload).resource_version
        return "" if version in NO_VERSIONS else version
    return ""


def last_run(store: EventStore, cluster: str) -> tuple[int, Run] | None:
    """The newest run on the cluster: the position of its start, and what it was about."""
    newest = store.read(cluster=cluster, kinds=RUNS.kind, name=RUNS.name, types="Marker", reverse=True, limit=1)
    event = next(iter(newest), None)
    if event is None:
        return None
    try:
        return event.position, _runs.decode(_markers.decode(event.payload).detail)
    except msgspec.DecodeError:
        return None


def begins(store: EventStore, cluster: str, wanted: Sequence[Scope]) -> dict[Scope, Begin]:
    """How each scope begins. To be called before the new run's own marker is stored."""
    if cluster not in store.clusters():
        return {scope: Begin([], None, False) for scope in wanted}
    run = last_run(store, cluster)
    return {scope: begin(store, cluster, scope, run) for scope in wanted}


def begin(store: EventStore, cluster: str, scope: Scope, run: tuple[int, Run] | None) -> Begin:
    """How one scope begins."""
    known = [
        Known(head.stream.namespace, head.stream.name, head.stream.uid, head.resource_version, head.position)
        for head in store.live(cluster, scope.kind)
        if head.stream.name and scope.namespace in ("", head.stream.namespace)
    ]
    since = _last_sign(store, cluster, scope)
    if run is not None and Scoped(*scope) in run[1].scopes:
        started = run[0]
        newest = store.read(
            after=started,
            cluster=cluster,
            kinds=scope.kind,
            namespace=scope.namespace,
            name="",
            types=POINTS,
            late=False,
            reverse=True,
        )
        version = version_of(newest, started)
        if version:
            time = since.time if since is not None else 0
            return Begin(known, LastSeen(time, version), True)
    return Begin(known, since, False)


def _last_sign(store: EventStore, cluster: str, scope: Scope) -> LastSeen | None:
    newest = store.read(
        cluster=cluster,
        kinds=scope.kind,
        namespace=scope.namespace or None,
        late=False,
        reverse=True,
        limit=LOOK_BACK,
    )
    event = next((one for one in newest if one.known == RECORDED and one.type not in NO_LIFE), None)
    return None if event is None else last_seen(event)
