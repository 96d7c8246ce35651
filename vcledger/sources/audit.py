"""API server audit logs (audit.k8s.io, any version): what a write's answer proves.

Owns which audit events say something, what, and which attempt a bind is. Must not know files, nor of the log more than
earlier binds. Called by `vcledger.sources.reader` and `vcledger.sources.pipeline`.

A successful create, update or patch that was logged with its response body (RequestResponse level) shows the object as
it was stored. A delete shows the object's last state or, while something still holds it, the state with its
deletionTimestamp. A create of pods/binding shows a bind and its outcome; failed ones are nowhere else. All of it is
inferred: the log tells what was answered, not what a watch then delivered. Dry runs, failed writes, reads and lines
without a body prove nothing of the state.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from eventstore.types import INFERRED, NewEvent, StreamId
from vcledger.sources.items import Item, Taken, Vanished
from vcledger.sources.moments import payload_size
from vcledger.sources.observe import Observer, Unusable, Unwanted, decoded, hash_key, kind_of_object, shown
from vcledger.sources.redact import ABSENT
from vcledger.sources.shape import keyed, shapes, time_of
from volcano.events import catalog
from volcano.events.base import DomainEvent
from volcano.events.binding import BindFailed, BindRequested, BindSucceeded
from volcano.objects.kinds import BY_GROUP_KIND, KINDS, Kind

if TYPE_CHECKING:
    from eventstore import EventStore

COMPLETE = "ResponseComplete"
CHANGES = {"create": "ADDED", "update": "MODIFIED", "patch": "MODIFIED"}
DELETES = frozenset({"delete", "deletecollection"})

WINDOW = 1_024
WINDOW_BYTES = 32 << 20
"""How many items, and bytes of payload, wait for one of an earlier time: lines are written when a request ends."""


class _User(msgspec.Struct, rename="camel", gc=False):
    username: str = ""


class _Reference(msgspec.Struct, rename="camel", gc=False):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""
    subresource: str = ""


class _Answer(msgspec.Struct, rename="camel", gc=False):
    code: int | None = None
    reason: str = ""
    message: str = ""


class _Audit(msgspec.Struct, rename="camel", gc=False):
    level: str = ""
    audit_id: str = msgspec.field(default="", name="auditID")
    stage: str = ""
    verb: str = ""
    request_uri: str = msgspec.field(default="", name="requestURI")
    user: _User | None = None
    user_agent: str = ""
    object_ref: _Reference | None = None
    response_status: _Answer | None = None
    request_object: msgspec.Raw = ABSENT
    response_object: msgspec.Raw = ABSENT
    request_received_timestamp: str = ""
    stage_timestamp: str = ""


class _Target(msgspec.Struct, rename="camel"):
    name: str = ""


class _BindingMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Binding(msgspec.Struct, rename="camel"):
    metadata: _BindingMeta = msgspec.field(default_factory=_BindingMeta)
    target: _Target = msgspec.field(default_factory=_Target)


class _Details(msgspec.Struct, rename="camel"):
    uid: str = ""


class _StatusBody(msgspec.Struct, rename="camel"):
    details: _Details | None = None


_audits = msgspec.json.Decoder(_Audit)
_bindings = msgspec.json.Decoder(_Binding)
_statuses = msgspec.json.Decoder(_StatusBody)
_raw_lists = msgspec.json.Decoder(list[msgspec.Raw])

_BY_GROUP_RESOURCE: dict[tuple[str, str], Kind] = {(kind.group, kind.resource): kind for kind in KINDS}


def body_of(raw: msgspec.Raw) -> bytes:
    """The bytes of a body; empty when there is none."""
    data = bytes(raw)
    return b"" if data == b"null" else data


class AuditLog:
    """Reads the events of one audit log. Times are the log's own, not yet in order: see `in_order`."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer

    def event(self, data: bytes) -> Iterator[Item]:
        """One audit event. Unwanted, with what is missing, when it proves nothing."""
        audit: _Audit = decoded(_audits, data)
        if audit.stage != COMPLETE:
            raise Unwanted(f"audit stage {shown(audit.stage)}: not a request's end")
        if "dryRun=" in audit.request_uri:
            raise Unwanted("audited dry run: nothing was written")
        reference = audit.object_ref or _Reference()
        of_binding = (reference.resource, reference.subresource) in (("pods", "binding"), ("bindings", ""))
        if of_binding and audit.verb == "create":
            yield from self._bind(audit, reference)
        else:
            yield from self._write(audit, reference)

    # --- objects ----------------------------------------------------------------------------------------------

    def _write(self, audit: _Audit, reference: _Reference) -> Iterator[Item]:
        change = CHANGES.get(audit.verb)
        if change is None and audit.verb not in DELETES:
            raise Unwanted(f"audited {shown(audit.verb)}: not a write")
        code = audit.response_status.code if audit.response_status else None
        if code is None or not 200 <= code < 300:
            raise Unwanted(f"audited write that failed ({code or 'no answer'})")
        body = body_of(audit.response_object)
        if not body:
            raise Unwanted(f"audit line at level {shown(audit.level)} without a response body: proves no state")
        time = time_of(audit.stage_timestamp, "stageTimestamp")
        shape = decoded(shapes, body)
        if shape.kind == "Status":
            yield from self._vanished(audit, reference, body, time)
            return
        if audit.verb == "deletecollection" and (shape.kind or "").endswith("List"):
            yield from self._collection(shape, body, time)
            return
        if audit.verb == "patch" and code == 201:
            change = "ADDED"
        yield self._object(kind_of_object(body), change, body, time)

    def _object(self, kind: Kind, change: str | None, body: bytes, time: int) -> NewEvent:
        """`change` None: the answer to a delete, whose object says itself whether it is gone or still held."""
        part = self.observer.read(kind, body)
        if change is None:
            change = "MODIFIED" if still_held(part) else "DELETED"
        return self.observer.event(kind, change, part, body, time, INFERRED)

    def _collection(self, shape: Any, body: bytes, time: int) -> Iterator[Item]:
        kind_name = shape.kind.removesuffix("List")
        kind = BY_GROUP_KIND.get((shape.api_version.rpartition("/")[0], kind_name))
        if kind is None:
            raise Unwanted(f"kind {shown(kind_name)} of {shown(shape.api_version)}")
        for raw in decoded(_raw_lists, bytes(shape.items)) if body_of(shape.items) else ():
            yield self._object(kind, None, bytes(raw), time)

    def _vanished(self, audit: _Audit, reference: _Reference, body: bytes, time: int) -> Iterator[Item]:
        """A delete answered with a Status: the object was removed at once, its last state not shown."""
        status: _StatusBody = decoded(_statuses, body)
        uid = (status.details.uid if status.details else "") or reference.uid
        kind = _BY_GROUP_RESOURCE.get((reference.api_group, reference.resource))
        if audit.verb != "delete" or kind is None or reference.subresource or not uid or not reference.name:
            raise Unwanted("audited write that answered with a Status: shows no object")
        yield Vanished(time, kind.name, reference.namespace, reference.name, uid)

    # --- binds ------------------------------------------------------------------------------------------------

    def _bind(self, audit: _Audit, reference: _Reference) -> Iterator[Item]:
        """The request at the time it came in, its outcome at the time it was answered, both on the pod's stream."""
        body = body_of(audit.request_object)
        binding: _Binding = decoded(_bindings, body) if body else _Binding()
        uid = reference.uid or binding.metadata.uid
        name = reference.name or binding.metadata.name
        namespace = reference.namespace or binding.metadata.namespace
        if not uid or not name:
            raise Unwanted("audited bind that does not name its pod's uid")
        if not (uid + name + namespace).isprintable() or max(map(len, (uid, name, namespace))) > 253:
            raise Unusable("audited bind: name, namespace or uid is not one that the API allows")
        stream = StreamId(self.observer.cluster, "Pod", namespace, name, uid)
        node = binding.target.name
        came_in = time_of(audit.request_received_timestamp or audit.stage_timestamp, "requestReceivedTimestamp")
        answered = max(came_in, time_of(audit.stage_timestamp, "stageTimestamp"))
        user = audit.user.username if audit.user else ""
        asked = BindRequested(node=node, audit_id=audit.audit_id, user=user, user_agent=audit.user_agent)
        request = self._keyed(stream, asked, came_in, audit)
        answer = self._keyed(stream, outcome(audit, node), answered, audit)
        yield request
        # By the request's key, as it stands nowhere yet: see `vcledger.sources.causes`.
        yield answer._replace(causation=-(request.resource_version or 0))

    def _keyed(self, stream: StreamId, event: DomainEvent, time: int, audit: _Audit) -> NewEvent:
        word = "asked" if isinstance(event, BindRequested) else "answered"
        identity = audit.audit_id or f"{audit.request_received_timestamp} {stream.uid} {audit.request_uri}"
        return keyed(stream, event, time, hash_key(identity, audit.stage, word), INFERRED)


def outcome(audit: _Audit, node: str) -> BindSucceeded | BindFailed:
    """How the API server answered a bind. Code 0: the log has no answer, so it may have happened."""
    answer = audit.response_status or _Answer()
    code = answer.code or 0
    if 200 <= code < 300:
        return BindSucceeded(node=node, code=code, audit_id=audit.audit_id)
    return BindFailed(
        node=node,
        code=code,
        reason=answer.reason,
        message=answer.message,
        answer_lost=code == 0,
        audit_id=audit.audit_id,
    )


def still_held(part: Any) -> bool:
    """Whether an object that a delete was answered with is still there: waiting for its grace period or a finalizer."""
    meta = part.metadata
    if meta.deletion_timestamp is None:
        return False
    return bool(meta.finalizers) or bool(meta.deletion_grace_period_seconds)


def in_order(items: Iterable[Item]) -> Iterator[Item]:
    """The items by time, as far as a window of WINDOW of them allows; what comes later still is left where it is."""
    order = count()
    heap: list[tuple[int, int, Item]] = []
    size = 0
    for item in items:
        heapq.heappush(heap, (item.observed_at, next(order), item))
        size += payload_size(item)
        while len(heap) > WINDOW or size > WINDOW_BYTES:
            first = heapq.heappop(heap)[2]
            size -= payload_size(first)
            yield first
    while heap:
        yield heapq.heappop(heap)[2]


class Attempts:
    """Numbers the binds of each pod, over the files of a call and what the ledger has of earlier imports. The ledger is
    asked once for each pod, and only when it has the pod."""

    def __init__(self, store: EventStore, cluster: str) -> None:
        self.store, self.cluster = store, cluster
        self._keys: dict[StreamId, set[int]] = {}
        self._asked: dict[str, int] = {}

    def numbered(self, items: Iterable[Taken]) -> Iterator[Taken]:
        """The items, with the attempt in each bind's request and outcome. A bind that the ledger has already is not
        counted again."""
        for item in items:
            if type(item) is NewEvent and item.known == INFERRED:
                if item.type == "BindRequested":
                    item = self._asking(item)
                elif item.type in ("BindSucceeded", "BindFailed"):
                    event: Any = _outcomes.decode(item.payload)
                    item = _with_attempt(item, self._asked.pop(event.audit_id, 1))
            yield item

    def _asking(self, event: NewEvent) -> NewEvent:
        keys = self._keys.get(event.stream)
        if keys is None:
            keys = self._keys[event.stream] = self._earlier(event.stream)
        if event.resource_version not in keys and event.resource_version is not None:
            keys.add(event.resource_version)
        number = len(keys)
        asked: Any = _outcomes.decode(event.payload)
        if asked.audit_id and number > 1:
            self._asked[asked.audit_id] = number
        return _with_attempt(event, number)

    def _earlier(self, stream: StreamId) -> set[int]:
        """The keys of the pod's binds in the ledger."""
        if self.store.stream_head(stream) is None:
            return set()
        found = self.store.read(
            cluster=stream.cluster,
            kinds=stream.kind,
            namespace=stream.namespace,
            name=stream.name,
            uid=stream.uid,
            types="BindRequested",
        )
        return {one.resource_version for one in found if one.resource_version is not None}


class _Audited(msgspec.Struct):
    audit_id: str = ""


_outcomes = msgspec.json.Decoder(_Audited)


def _with_attempt(event: NewEvent, number: int) -> NewEvent:
    """The event of a bind with its number."""
    if number == 1:
        return event
    decoded_event = catalog.decode(event.type, event.schema, event.stream.kind, event.payload)
    return event._replace(payload=catalog.encode(msgspec.structs.replace(decoded_event, attempt=number)).payload)
