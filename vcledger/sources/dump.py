"""The API objects that are embedded in one of Volcano's cache dumps.

Owns what of a dump the API server can have said, and when. Must not know our cache nor the log. Called by
`vcledger.sources.reader`, which has the dump itself read by `volcano_dump`.

A dump is the scheduler's memory: a pod that it was about to bind carries the node in its spec although the API server
knew of none, so for such tasks nodeName is taken out again. Pods stand under nodes and under jobs; each is taken once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from eventstore.types import INFERRED, NewEvent, StreamId
from vcledger.at import bare_name
from vcledger.sources.observe import Observer, Unusable, Unwanted, decoded, hash_key, newest_time
from vcledger.sources.report import Tally
from vcledger.sources.shape import keyed
from vcledger.sources.times import unix_micros
from vcledger.sources.volcano_dump import Dump, DumpTask
from volcano.events.base import MARKERS
from volcano.events.observation import Marker
from volcano.objects.kinds import BY_NAME

ASSUMED = frozenset({2, 8})
"""Statuses Allocated and Binding: the node is the scheduler's plan, not the API server's word."""

FILE_TIME = re.compile(r"snapshot-(\d{9,11})(?:\D|\Z)")

_NODE_NAME = re.compile(rb',"nodeName":"[^"\\]*"|"nodeName":"[^"\\]*",')
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def time_in_name(name: str) -> int | None:
    """Volcano names its dumps snapshot-<unix seconds>.json: that moment in microseconds, or None."""
    found = FILE_TIME.search(name)
    return unix_micros(int(found[1])) if found else None


def observations(dump: Dump, observer: Observer, tally: Tally, at: int | None) -> list[NewEvent]:
    """The dump's nodes, pod groups and pods, all at the moment `at`, or at the newest moment named in any of them."""
    found: list[tuple[int | None, NewEvent]] = []
    for kind, label, body in _embedded(dump):
        tally.read()
        try:
            part = observer.read(BY_NAME[kind], body)
            found.append((newest_time(part), observer.event(BY_NAME[kind], "MODIFIED", part, body, 0, INFERRED)))
        except Unwanted as error:
            tally.ignored(str(error))
        except Unusable as error:
            tally.broken(0, f"{label}: {error}", body)
    moment = at if at is not None else max((time for time, _ in found if time is not None), default=0)
    return [event._replace(observed_at=moment) for _, event in found]


def marker(cluster: str, name: str, moment: int, data: bytes) -> NewEvent:
    """The moment of the dump, so that `--at marker:FILE` finds it. Stored once for the same content."""
    event = Marker(name="volcano-cache-dump", file=bare_name(name))
    stream = StreamId(cluster, MARKERS.kind, MARKERS.namespace, MARKERS.name, MARKERS.uid)
    return keyed(stream, event, moment, hash_key(data), INFERRED)


def _embedded(dump: Dump) -> Iterator[tuple[str, str, bytes]]:
    """(kind, what to call it, JSON) of every object in the dump, in a fixed order."""
    for name, node in sorted(dump.nodes.items()):
        if (body := bytes(node.node)) != b"null":
            yield "Node", f"node {name}", body
    for key, job in sorted((dump.jobs or {}).items()):
        if (body := bytes(job.pod_group)) != b"null":
            yield "PodGroup", f"job {key}", _pod_group(body)
    for uid, task in sorted(dump.tasks().items()):
        if (body := bytes(task.pod)) != b"null":
            yield "Pod", f"task {uid}", _pod(task, body)


def _pod_group(body: bytes) -> bytes:
    """Without `Version`, which is the scheduler's own field beside the API object's."""
    fields: dict[str, Any] = decoded(_fields, body)
    if fields.pop("Version", None) is None:
        return body
    return msgspec.json.encode(fields)


def _pod(task: DumpTask, body: bytes) -> bytes:
    """Without the node of a plan."""
    if task.status_bit not in ASSUMED:
        return body
    spec = decoded(_fields, body).get("spec")
    if spec is None:
        return body
    text = bytes(spec)
    return body.replace(text, _NODE_NAME.sub(b"", text, count=1), 1)
