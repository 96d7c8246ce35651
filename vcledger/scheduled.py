"""What our own scheduler says of itself in a ledger: whose pods it schedules, so that readers rebuild the same cache;
and that it has ended.

Owns the markers of a run's start and end and how they are read back. Must not know how anything is scheduled. Called by
`vcledger.schedule`, which writes it, and by `vcledger.ledger`, whose readers go by the newest.
"""

from __future__ import annotations

import msgspec

from eventstore import EventStore
from eventstore.types import KEYED, RECORDED, NewEvent
from projections.cache import CacheConfig
from vcledger.codec import domain, resource_version_key
from volcano.events.base import RECORDING, Subject
from volcano.events.observation import Marker

STARTED, STOPPED = "scheduler-started", "scheduler-stopped"
"""The markers of a run's start and of its end, if it was not killed. Each has a stream of its own, of which retention
always leaves the newest event."""

RUNS, ENDS = Subject(RECORDING, "", STARTED), Subject(RECORDING, "", STOPPED)


class Run(msgspec.Struct, frozen=True):
    """What the marker says: the options that the cache depends on, and who wrote."""

    scheduler_names: list[str]
    default_queue: str = "default"
    identity: str = ""
    seed: int = 0
    version: str = ""
    server: str = ""
    node_selectors: list[str] = []

    @property
    def config(self) -> CacheConfig:
        """The cache's configuration."""
        return CacheConfig(
            scheduler_names=tuple(self.scheduler_names),
            default_queue=self.default_queue,
            node_selectors=tuple(self.node_selectors),
        )


_runs = msgspec.json.Decoder(Run)
_markers = msgspec.json.Decoder(Marker)


def started(cluster: str, run: Run, now: int) -> NewEvent:
    """The event that a run begins."""
    text = msgspec.json.encode(run).decode()
    key = KEYED | (resource_version_key(f"{text} {now}") or 0)  # stored once, however often it is sent
    return domain(cluster, RUNS, Marker(name=STARTED, detail=text), now, known=RECORDED)._replace(resource_version=key)


def stopped(cluster: str, identity: str, why: str, now: int) -> NewEvent:
    """The event that a run has ended, and why ('' when nothing went wrong): nobody decides from then on."""
    text = msgspec.json.encode({"identity": identity, "why": why}).decode()
    key = KEYED | (resource_version_key(f"{text} {now}") or 0)
    return domain(cluster, ENDS, Marker(name=STOPPED, detail=text), now, known=RECORDED)._replace(resource_version=key)


def newest_run(store: EventStore, cluster: str) -> Run | None:
    """The newest run of our scheduler on the cluster, None when it never ran there."""
    newest = store.read(cluster=cluster, kinds=RUNS.kind, name=RUNS.name, types="Marker", reverse=True, limit=1)
    for event in newest:
        try:
            return _runs.decode(_markers.decode(event.payload).detail)
        except msgspec.DecodeError:
            return None
    return None


__all__ = ["ENDS", "RUNS", "STARTED", "STOPPED", "Run", "newest_run", "started", "stopped"]
