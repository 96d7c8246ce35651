"""The flow as a projection: its state to bytes and back, its name and version, its fold over a log.

Owns what goes into a snapshot. Must not know what the fold does nor where a snapshot is kept. Called by the loop, which
recovers from one, and by `vcledger.verify` and `vcledger.retention`, as the registered projections are.

A snapshot is always whole. Orders are kept where a decision may follow them, so that a loop that goes on from a
snapshot writes what one would that has folded the whole log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from projections.cache import CacheConfig
from projections.cache import snapshot as cache_snapshot
from projections.cache.fold import CACHE_KINDS
from projections.cache.projection import VERSION as CACHE_VERSION
from projections.diagnosis.views import PlacedPod
from vcledger.scheduler.assumed import AssumeCache, Assumption
from vcledger.scheduler.fold import SENT_BACK, Change, evolve
from vcledger.scheduler.queues import Item, WorkQueue
from vcledger.scheduler.state import (
    Condition,
    Doubt,
    Eviction,
    Flow,
    FlowConfig,
    FlowTask,
    Handler,
    Intent,
    Recovery,
    Refusal,
)
from vcledger.scheduler.written import Making, Written
from volcano.events.base import Recorded
from volcano.objects import kinds
from volcano.objects.core import Pod

VERSION = CACHE_VERSION * 1_000 + 10
"""To be raised with every change of the flow's fold or of these bytes; the cache's is part of it."""


class SnapshotInvalid(ValueError):
    """Bytes that are no snapshot of a flow."""


class AssumedRow(NamedTuple):
    """An Assumption; its object is read again from the body."""

    key: str
    uid: str
    node: str
    body: bytes
    based_on: str
    written: str


class Image(msgspec.Struct, array_like=True):
    """A snapshot: the fields of `Flow`, `cache` in the cache's own bytes; of an assume cache the raw objects and the
    assumptions. `config`: the options of the cache under which all was folded."""

    config: CacheConfig
    cache: bytes
    position: int
    now: int
    listed: list[str]
    versions: dict[str, int]
    pods: dict[str, Pod]
    placed: dict[str, PlacedPod]
    guarded: list[str]
    coming: dict[str, PlacedPod]
    tasks: dict[str, FlowTask]
    attempts: dict[str, int]
    handlers: dict[str, Handler]
    said: dict[str, str]
    conditions: dict[str, Condition]
    volumes_raw: dict[str, bytes]
    volumes: list[AssumedRow]
    claims_raw: dict[str, bytes]
    claims: list[AssumedRow]
    watchers: dict[str, list[str]]
    bind_queue: dict[str, int]
    batches: int
    waiting: dict[str, int]
    queues: list[dict[str, Item]]
    doubts: dict[str, Doubt]
    podgroups: dict[str, str]
    unreadable: dict[str, str]
    intents: dict[int, Intent]
    recovery: Recovery | None
    cycle: int
    considered: dict[str, str]
    promised: dict[str, str]
    admitted: dict[str, str]
    evictions: dict[str, Eviction]
    refused: dict[str, Refusal]
    nominated: dict[str, str]
    noted: dict[str, Pod]
    written: dict[str, Written]
    others: dict[str, list[str]]
    job_schedulers: dict[str, str]
    making: dict[str, Making]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Image)


def _queues(flow: Flow) -> list[WorkQueue]:
    return [flow.resync, flow.cleanup, flow.node_sync, flow.doubt_queue]


def _rows(cache: AssumeCache[Any]) -> list[AssumedRow]:
    return [
        AssumedRow(key, one.uid, one.node, one.body, one.based_on, one.written) for key, one in cache.assumed.items()
    ]


def dump(flow: Flow) -> bytes:
    """The whole state. It must be between two decisions: nothing that the fold saw is left to decide on."""
    if flow.notices:
        raise ValueError("a flow with open notices is in the middle of a decision")
    image = Image(
        flow.config.cache,
        cache_snapshot.dump(flow.cache),
        flow.position,
        flow.now,
        list(flow.listed),
        flow.versions,
        flow.pods,
        flow.placed,
        list(flow.guarded),
        flow.coming,
        flow.tasks,
        flow.attempts,
        flow.handlers,
        flow.said,
        flow.conditions,
        flow.volumes.raw,
        _rows(flow.volumes),
        flow.claims.raw,
        _rows(flow.claims),
        {key: list(users) for key, users in flow.watchers.items()},
        flow.bind_queue,
        flow.batches,
        flow.waiting,
        [queue.items for queue in _queues(flow)],
        flow.doubts,
        flow.podgroups,
        flow.unreadable,
        flow.intents,
        flow.recovery,
        flow.cycle,
        flow.considered,
        flow.promised,
        flow.admitted,
        flow.evictions,
        flow.refused,
        flow.nominated,
        flow.noted,
        flow.written,
        {job: list(pods) for job, pods in flow.others.items()},
        flow.job_schedulers,
        flow.making,
    )
    return _encoder.encode(image)


def load(flow: Flow, data: bytes) -> Flow:
    """Fills a new flow. Raises SnapshotInvalid."""
    try:
        image = _decoder.decode(data)
        if image.config != flow.config.cache:
            raise SnapshotInvalid("a snapshot of a flow under other options of the cache")
        cache_snapshot.load(flow.cache, [image.cache])
        _restore(flow.volumes, "PersistentVolume", image.volumes_raw, image.volumes)
        _restore(flow.claims, "PersistentVolumeClaim", image.claims_raw, image.claims)
        for queue, items in zip(_queues(flow), image.queues, strict=True):
            queue.items = items
    except SnapshotInvalid:
        raise
    except (msgspec.MsgspecError, ValueError, LookupError) as error:
        raise SnapshotInvalid(f"a snapshot of the flow is damaged: {error}") from error
    flow.position, flow.now, flow.batches = image.position, image.now, image.batches
    flow.listed, flow.guarded = dict.fromkeys(image.listed), dict.fromkeys(image.guarded)
    flow.versions, flow.pods, flow.placed, flow.coming = image.versions, image.pods, image.placed, image.coming
    flow.tasks, flow.attempts, flow.handlers = image.tasks, image.attempts, image.handlers
    flow.said, flow.conditions, flow.cycle = image.said, image.conditions, image.cycle
    flow.considered, flow.promised, flow.admitted = image.considered, image.promised, image.admitted
    flow.evictions, flow.refused = image.evictions, image.refused
    flow.nominated, flow.noted = image.nominated, image.noted
    flow.written, flow.job_schedulers, flow.making = image.written, image.job_schedulers, image.making
    flow.others = {job: dict.fromkeys(pods) for job, pods in image.others.items()}
    flow.watchers = {key: dict.fromkeys(users) for key, users in image.watchers.items()}
    flow.bind_queue, flow.waiting = image.bind_queue, image.waiting
    flow.unreadable = image.unreadable
    flow.doubts, flow.podgroups, flow.intents, flow.recovery = (
        image.doubts,
        image.podgroups,
        image.intents,
        image.recovery,
    )
    return flow


def _restore(cache: AssumeCache[Any], kind: str, raw: dict[str, bytes], rows: list[AssumedRow]) -> None:
    cache.raw = raw
    for row in rows:
        obj = kinds.decode(kind, row.body)
        cache.assume(row.key, Assumption(row.uid, row.node, obj, row.body, row.based_on, row.written))


# --- the projection -----------------------------------------------------------------------------------------------


class Carried(NamedTuple):
    """An object with its JSON, for kinds that are sent back whole."""

    object: Any
    raw: bytes


def _carrying(kind: str) -> Callable[[bytes], Any]:
    decode = kinds.DECODERS[kind].decode
    return lambda body: Carried(decode(body), body)


def projection_name(config: CacheConfig) -> str:
    """`flow`; a flow under other options of the cache than the default ones has its own name. The options of the flow
    itself change what is decided, not what a recorded event means."""
    if config == CacheConfig():
        return "flow"
    return f"flow/{hashlib.sha256(msgspec.json.encode(config)).hexdigest()[:12]}"


class FlowProjection:
    """`projections.base.Projection` of Flow. Changes are whole snapshots too."""

    version = VERSION
    decoders: ClassVar[Mapping[str, Callable[[bytes], Any]]] = {
        kind: _carrying(kind) if kind in SENT_BACK else kinds.DECODERS[kind].decode for kind in CACHE_KINDS
    }

    def __init__(self, config: FlowConfig | None = None) -> None:
        self.config = config or FlowConfig()
        self.name = projection_name(self.config.cache)

    def initial(self) -> Flow:
        return Flow(self.config)

    def evolve(self, state: Flow, recorded: Recorded) -> Flow:
        event, raw = recorded.event, None
        if isinstance(event, Change):
            carried: Any = event.object
            if isinstance(carried, Carried):
                raw, recorded = carried.raw, recorded._replace(event=type(event)(object=carried.object))
        evolve(state, recorded, raw)
        state.notices.clear()
        return state

    def dump(self, state: Flow) -> bytes:
        return dump(state)

    def dump_changes(self, state: Flow) -> bytes:
        return dump(state)

    def load(self, chain: Sequence[bytes]) -> Flow:
        if not chain:
            raise SnapshotInvalid("no snapshot to load from")
        return load(self.initial(), chain[-1])

    def digest(self, state: Flow) -> str:
        return state.digest()


def projection_of(snapshot: bytes) -> FlowProjection:
    """The projection that a snapshot is one of, by the options in it. Raises SnapshotInvalid."""
    try:
        return FlowProjection(FlowConfig(cache=_decoder.decode(snapshot).config))
    except msgspec.MsgspecError as error:
        raise SnapshotInvalid(f"a snapshot of the flow is damaged: {error}") from error


__all__ = [
    "VERSION",
    "FlowProjection",
    "SnapshotInvalid",
    "dump",
    "load",
    "projection_name",
    "projection_of",
]
