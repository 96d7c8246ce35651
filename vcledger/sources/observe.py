"""From an object's bytes to the observation that the log stores, or the reason why it cannot be one.

Owns the check that nothing gets in which the folds cannot read: every object is decoded with the partial struct of its
kind and its quantities are parsed. Must not know the format it came in nor the log's database. Called by the readers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from eventstore.types import KEYED, RECORDED, NewEvent, StreamId
from vcledger.codec import resource_version_key
from vcledger.sources.redact import DECODERS, Cleaner, StorageOptions
from vcledger.sources.times import micros_or_none
from volcano.objects import kinds, quantity
from volcano.objects.kinds import Kind
from volcano.objects.meta import Quantity, ResourceMap

NAME_MAX = 253
"""Characters of a name that the API allows (DNS subdomain)."""

STREAMS_KEPT = 100_000
"""Streams that are not made anew for each event of theirs."""

TYPES = {"ADDED": "ObjectAdded", "MODIFIED": "ObjectModified", "DELETED": "ObjectDeleted"}


class Unusable(ValueError):
    """The input is broken: it is kept aside with this reason."""


class Unwanted(ValueError):
    """The input is whole, but nothing for the ledger: counted under this reason."""


def hash_key(*parts: bytes | str) -> int:
    """A number in [KEYED, 2 KEYED) by which the log recognises an event again that has no resourceVersion."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part)
        digest.update(b"\0")
    return KEYED | (int.from_bytes(digest.digest()[:8], "big") >> 3)


# --- quantities ---------------------------------------------------------------------------------------------------

_good: set[Quantity] = set()
_GOOD_MAX = 100_000


def _check(value: Quantity) -> None:
    """Parses a quantity that was not seen before. Unusable when it is none."""
    try:
        quantity.parse(value)
        quantity.milli_value(value)
    except (ValueError, OverflowError) as error:
        raise Unusable(str(error)) from error
    if len(_good) >= _GOOD_MAX:
        _good.clear()
    _good.add(value)


def _check_maps(maps: Iterable[ResourceMap | None]) -> None:
    for resources in maps:
        if resources:
            for value in resources.values():
                if value not in _good:
                    _check(value)


def _check_pod(part: Any) -> None:
    """`_check_maps(_container_maps(part.spec))` without its generators: pods are nearly all there is."""
    spec, good = part.spec, _good
    for container in spec.containers or ():
        resources = container.resources
        if resources is not None:
            amounts = resources.requests
            if amounts and not good.issuperset(amounts.values()):
                _check_maps((amounts,))
            amounts = resources.limits
            if amounts and not good.issuperset(amounts.values()):
                _check_maps((amounts,))
    if spec.init_containers or spec.overhead:
        _check_maps(_container_maps(spec))


def _container_maps(spec: Any) -> Iterator[ResourceMap | None]:
    for group in (spec.containers, spec.init_containers):
        for container in group or ():
            if container.resources is not None:
                yield container.resources.requests
                yield container.resources.limits
    yield spec.overhead


def _job_maps(part: Any) -> Iterator[ResourceMap | None]:
    for task in part.spec.tasks or ():
        if task.template is not None and task.template.spec is not None:
            yield from _container_maps(task.template.spec)


def _capacity_maps(part: Any) -> Iterator[ResourceMap | None]:
    for value in (part.capacity, part.maximum_volume_size):
        if value is not None:
            yield {"storage": value}


def _claim_maps(part: Any) -> Iterator[ResourceMap | None]:
    resources = part.spec.resources
    if resources is not None:
        yield resources.requests
        yield resources.limits
    yield part.status.capacity


def _queue_maps(part: Any) -> Iterator[ResourceMap | None]:
    guarantee = part.spec.guarantee
    yield from (part.spec.capability, part.spec.deserved, guarantee.resource if guarantee else None)
    yield part.status.allocated


_MAPS: dict[str, Any] = {
    "Node": lambda part: (part.status.allocatable, part.status.capacity),
    "PodGroup": lambda part: (part.spec.min_resources,),
    "Queue": _queue_maps,
    "VolcanoJob": _job_maps,
    "PersistentVolume": lambda part: (part.spec.capacity,),
    "PersistentVolumeClaim": _claim_maps,
    "CSIStorageCapacity": _capacity_maps,
    "ResourceQuota": lambda part: (part.spec.hard, part.status.hard, part.status.used),
    "Numatopology": lambda part: (part.spec.res_reserved,),
}
"""Kind to the resource maps in its struct. Kinds without quantities are missing, and pods, which `_check_pod` does."""


# --- what kind an object is ---------------------------------------------------------------------------------------


class _Typed(msgspec.Struct, rename="camel"):
    kind: str | None = None
    api_version: str | None = None


_typed = msgspec.json.Decoder(_Typed)
_by_prefix: dict[bytes, Kind] = {}


def kind_of_object(data: bytes) -> Kind:
    """The Kind of an object by its own kind and apiVersion. Unwanted when the ledger does not keep that kind, Unusable
    when it doesn't say."""
    end = data.find(b'"metadata"', 0, 160)
    prefix = data[:end] if end > 0 else b""
    found = _by_prefix.get(prefix)
    if found is not None:
        return found
    typed = decoded(_typed, data)
    if not typed.kind or not typed.api_version:
        raise Unusable(f"an object without {'kind' if not typed.kind else 'apiVersion'}")
    found = kinds.kind_of(typed.api_version, typed.kind)
    if found is None:
        raise Unwanted(f"kind {shown(typed.kind)} of {shown(typed.api_version)}")
    if b'"kind"' in prefix and b'"apiVersion"' in prefix and len(_by_prefix) < 1_000:
        _by_prefix[prefix] = found
    return found


def shown(text: str) -> str:
    """A word from the input, fit for a message."""
    return text if len(text) <= 80 and text.isprintable() else repr(text[:80])


def decoded(decoder: msgspec.json.Decoder[Any], data: bytes | msgspec.Raw) -> Any:
    """What the decoder makes of it. Unusable, with its reason, when it cannot."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unusable(str(error) or "nested too deeply") from error


# --- observations -------------------------------------------------------------------------------------------------


class Observer:
    """Makes observations for one cluster."""

    def __init__(self, cluster: str, options: StorageOptions) -> None:
        self.cluster = cluster
        self.clean = Cleaner(options)
        self._streams: dict[str, StreamId] = {}

    def read(self, kind: Kind, data: bytes) -> Any:
        """The checked struct of an object. Unusable when the folds could not read it."""
        try:
            part = DECODERS[kind.name].decode(data)
            if not data.isascii():
                data.decode()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unusable(f"{kind.api_kind}: {error}") from error
        try:
            if kind.name == "Pod":
                _check_pod(part)
            elif (maps := _MAPS.get(kind.name)) is not None:
                _check_maps(maps(part))
        except Unusable as error:
            raise Unusable(f"{kind.api_kind} {shown(part.metadata.name)}: {error}") from error
        return part

    def event(
        self, kind: Kind, change: str, part: Any, data: bytes, observed_at: int, known: int = RECORDED
    ) -> NewEvent:
        """The observation of an object that `read` gave; `change` is ADDED, MODIFIED or DELETED. Unwanted for one that
        no API server can have sent: without name, uid or resourceVersion."""
        meta = part.metadata
        version = meta.resource_version
        stream = self._streams.get(meta.uid)
        if stream is None or stream[3] != meta.name or stream[2] != meta.namespace or stream[1] != kind.name:
            stream = self.stream(kind, meta)
        if not version:
            raise Unwanted(f"{kind.api_kind} without metadata.resourceVersion, so not from an API server")
        return NewEvent(
            stream,
            TYPES[change],
            "observation",
            observed_at,
            self.clean(kind, part, data),
            1,
            known,
            resource_version_key(version),
            change == "DELETED",
            False,
            about_of(part) if kind.name == "Event" else "",
        )

    def stream(self, kind: Kind, meta: Any) -> StreamId:
        """The stream of an object that is seen for the first time. Unusable or Unwanted when it can be none."""
        name, namespace, uid = meta.name, meta.namespace, meta.uid
        if not uid or not name:
            missing = "name" if not name else "uid"
            raise Unwanted(f"{kind.api_kind} without metadata.{missing}, so not from an API server")
        if max(len(name), len(namespace), len(uid)) > NAME_MAX:
            raise Unusable(f"{kind.api_kind}: name, namespace or uid is longer than the API allows ({NAME_MAX})")
        if not (name + namespace + uid).isprintable():
            raise Unusable(f"{kind.api_kind}: name, namespace or uid holds characters that the API does not allow")
        if len(self._streams) >= STREAMS_KEPT:
            self._streams.clear()
        stream = self._streams[uid] = StreamId(self.cluster, kind.name, namespace, name, uid)
        return stream


def about_of(part: Any) -> str:
    """The uid of the object that an Event speaks of, under either of its names."""
    for reference in (part.involved_object, part.regarding):
        if reference is not None and reference.uid and len(reference.uid) <= NAME_MAX and reference.uid.isprintable():
            return str(reference.uid)
    return ""


def written_time(part: Any) -> int | None:
    """The newest moment at which the API server itself says that it wrote the object: its creation and the writes in
    managedFields. None when it says none. Nobody else can set these."""
    meta = part.metadata
    found = [micros_or_none(meta.creation_timestamp)]
    managed = bytes(meta.managed_fields)
    if managed:
        found += [micros_or_none(text) for text in _managed_times(managed)]
    return max((time for time in found if time is not None), default=None)


_PAST = re.compile(
    rb'"(?:lastHeartbeatTime|lastProbeTime|lastUpdateTime|startedAt|finishedAt|startTime|timeAdded)"'
    rb'\s*:\s*"(\d[^"\\]{18,34})"'
)
"""Times that say when something has happened, in parts of an object that the structs leave out: kubelets send one of
them with each heartbeat, so that a node shows one of the last five minutes."""


def newest_time(part: Any, data: bytes = b"") -> int | None:
    """The newest moment, in microseconds, at which the object says that something happened to it: creation, the writes
    in managedFields, the request to delete it, conditions, and what an Event counts; with `data`, the object's JSON,
    also heartbeats, and when containers began and ended. None when it says none.

    Unless a clock is wrong, it is not later than the moment of observation. Times that may lie in the future (expiry
    dates in annotations, the end of a grace period) are not looked at."""
    meta = part.metadata
    found = [written_time(part)]
    if (deleted := micros_or_none(meta.deletion_timestamp)) is not None:
        found.append(deleted - (meta.deletion_grace_period_seconds or 0) * 1_000_000)
    status = getattr(part, "status", None)
    for condition in getattr(status, "conditions", None) or ():
        found.append(micros_or_none(condition.last_transition_time))
    if hasattr(part, "regarding"):
        series = part.series.last_observed_time if part.series is not None else None
        times = (part.first_timestamp, part.last_timestamp, part.deprecated_last_timestamp, part.event_time, series)
        found += [micros_or_none(text) for text in times]
    found += [micros_or_none(text.decode("ascii", "replace")) for text in set(_PAST.findall(data))]
    return max((time for time in found if time is not None), default=None)


class _ManagedEntry(msgspec.Struct):
    time: str | None = None


_managed_entries = msgspec.json.Decoder(list[_ManagedEntry] | None)


def _managed_times(managed: bytes) -> list[str]:
    try:
        return [entry.time for entry in _managed_entries.decode(managed) or () if entry.time]
    except msgspec.DecodeError:
        return []
