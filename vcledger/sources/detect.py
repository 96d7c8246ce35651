"""What format a stream of bytes is in, by its content.

Owns the decision. Must not know how a format is read. Called by `vcledger.sources.reader`.
"""

from __future__ import annotations

import codecs
import re
from enum import StrEnum

import msgspec

from vcledger.sources import cluster_info, simkube, volcano_dump
from vcledger.sources.alibaba import are_nodes, are_pods, columns_of
from vcledger.sources.layouts import of_own_layout, whole_event
from vcledger.sources.shape import AUDIT_GROUP, Shape, is_audit, is_list, shapes

HEAD_BYTES = 1 << 18
"""How much of a stream is looked at."""


class Format(StrEnum):
    """What the import knows. The text is what the report says."""

    recording = "recording"
    watch = "watch lines"
    audit = "audit log"
    objects = "JSON objects"
    yaml = "YAML objects"
    dump = "Volcano cache dump"
    openb_nodes = "openb node list"
    openb_pods = "openb pod list"
    simkube = "SimKube trace"
    simulator = "simulator record"
    snapshot = "simulator snapshot"
    exported = "exported events"
    cluster_info = "cluster-info dump"
    log = "containers' logs"
    empty = "empty"
    unknown = "unknown"


_YAML_KEY = re.compile(
    rb"""^(?: (?:apiVersion|kind|items):(?:\s|$)      # an object, or a List
           | pvcs:\s                                   # a snapshot of the simulator
           | object:\s*\n\s+(?:apiVersion|kind):\s )    # a watch event, as kubectl prints it
    """,
    re.MULTILINE | re.VERBOSE,
)
_JSON_STARTS = (b"{", b"[")


def detect(head: bytes) -> Format:
    """The format of a stream from its first bytes (HEAD_BYTES of them, or all there are)."""
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if not text:
        return Format.empty
    if text[:1] in _JSON_STARTS:
        return _of_json(text)
    if simkube.sniff(head):
        return Format.simkube
    if cluster_info.is_log(text):
        return Format.log
    if b"\0" in text or not _YAML_KEY.search(text):
        return _of_table(text)
    return Format.yaml


def _of_table(text: bytes) -> Format:
    """By the names of the columns in the first line. A list that lacks some is told by the others: its reader refuses
    it by name."""
    columns = columns_of(text)
    if are_pods(columns):
        return Format.openb_pods
    return Format.openb_nodes if are_nodes(columns) else Format.unknown


def form_of(shape: Shape) -> Format | None:
    """The form of one JSON value by its keys; None when it is of none, or lacks what makes it an object by itself."""
    if shape.recorded_at is not None:
        return Format.recording
    if shape.type is not None and shape.kind is None and bytes(shape.object):
        return Format.watch
    if is_audit(shape):
        return Format.audit
    if shape.kind and shape.api_version:
        return Format.objects
    if bytes(shape.event) in _RECORDED and not isinstance(shape.resource, str):
        return Format.simulator
    if bytes(shape.involved_object) and bytes(shape.metadata):
        return Format.exported
    return Format.snapshot if bytes(shape.pvs) and bytes(shape.pvcs) else None


_RECORDED = frozenset({b'"Add"', b'"Update"', b'"Delete"'})


def first_line_is_whole(head: bytes) -> bool:
    """Whether the first line of a stream is a JSON value other than a list, so that its lines are its values."""
    shape = _shape(head.removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")[0])
    return shape is not None and not is_list(shape)


def _of_json(text: bytes) -> Format:
    """By the first line when it is a whole value; else by what keys the beginning shows."""
    if volcano_dump.sniff(text):
        return Format.dump
    line, newline, _ = text.partition(b"\n")
    shape = _shape(line) if newline or len(text) < HEAD_BYTES else None
    if shape is None:
        return _of_beginning(text)
    if is_list(shape) and (shape.api_version or "").startswith(AUDIT_GROUP):
        return Format.audit
    form = form_of(shape)
    if form is None and not is_list(shape) and (whole_event(line) is not None or of_own_layout(line)):
        return Format.exported
    return form or _of_beginning(text)


def _shape(line: bytes) -> Shape | None:
    try:
        return shapes.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


_MARKS = tuple(
    re.compile(pattern)
    for pattern in (
        rb'"kind"\s*:\s*"',
        rb'"type"\s*:\s*"(?:ADDED|MODIFIED|DELETED|BOOKMARK|ERROR|LIST)"',
        rb'"recordedAt"\s*:\s*"',
        rb'\A\{\s*"apiVersion"\s*:\s*"[^"]*"\s*,\s*"items"\s*:\s*\[',  # a list that names its kind last
    )
)
_LINE_KEYS = re.compile(rb'(?m)^[ \t]*\{\s*"(recordedAt)"\s*:')
_WATCH_KEYS = re.compile(
    rb'\{\s*"(?:type"\s*:\s*"(?:ADDED|MODIFIED|DELETED|BOOKMARK|ERROR|LIST)"\s*,\s*"object|object)"\s*:\s*\{'
)
_AUDIT_KEYS = re.compile(rb'\{[^{}\[\]]{0,400}?"apiVersion"\s*:\s*"audit\.k8s\.io/')


_SIMULATED = re.compile(rb'(?m)^[ \t]*\{\s*"time"\s*:\s*"[^"]*"\s*,\s*"event"\s*:\s*"(?:Add|Update|Delete)"')
_EXPORTED = re.compile(
    rb'(?m)^\{"metadata":\{[^\n]*"involvedObject":\{|\A\{\s*"metadata"\s*:.*\n[ \t]*"involvedObject"\s*:', re.DOTALL
)
_SNAPSHOT = re.compile(
    rb'\A\{\s*"(?:pods|nodes|pvs|pvcs|storageClasses|priorityClasses|namespaces|schedulerConfig)"\s*:'
)


def _of_beginning(text: bytes) -> Format:
    """A first line that is broken or very long, or a value over many lines."""
    if _LINE_KEYS.search(text):
        return Format.recording
    if _SIMULATED.search(text):
        return Format.simulator
    if _WATCH_KEYS.match(text):
        return Format.watch
    if _AUDIT_KEYS.match(text):
        return Format.audit
    if _EXPORTED.search(text):
        return Format.exported
    if any(mark.search(text) for mark in _MARKS):
        return Format.snapshot if _SNAPSHOT.match(text) else Format.objects
    if _SNAPSHOT.match(text):
        return Format.snapshot
    return Format.unknown
