"""The log as people read it: which events a name means, and what each one says in a few words.

Owns the choice of events for a target and the short text of an event. Must not know how lines are printed. Called by
`cli.log`.
"""

from __future__ import annotations

import heapq
import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from eventstore.types import KNOWN_NAMES, StoredEvent
from vcledger import codec
from vcledger.at import AtPosition, AtTime, format_time, parse
from vcledger.errors import VcledgerError
from volcano.events.catalog import OBJECT_EVENTS, TYPES
from volcano.objects import kinds
from volcano.objects.core import Event

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

WORDS: dict[str, str] = {
    "po": "Pod",
    "no": "Node",
    "pg": "PodGroup",
    "q": "Queue",
    "job": "VolcanoJob",
    "jobs": "VolcanoJob",
    "vcjob": "VolcanoJob",
    "pv": "PersistentVolume",
    "pvc": "PersistentVolumeClaim",
    "sc": "StorageClass",
    "pc": "PriorityClass",
    "quota": "ResourceQuota",
    "ev": "Event",
}
"""Short names, as kubectl has them, of the kinds in the log."""

REMEMBERED_OBJECTS = 20_000
"""How many objects' last states are kept to tell what changed."""

CHANGES_SHOWN, TEXT_LENGTH_MAX, ALIKE_LENGTH_MIN = 6, 160, 20


class UnknownKindName(VcledgerError):
    """No kind of the log has that name."""


class UnknownEventType(VcledgerError):
    """No event of the vocabulary has that name."""


class Selection(NamedTuple):
    """Which events: the filters of `EventStore.read`, and the uids of the objects whose Events belong to them."""

    filters: dict[str, Any]
    about: tuple[str, ...] = ()


def kind_named(word: str) -> str:
    """The log's name of a kind that a person writes: Pod, pods, po, podgroups.scheduling.volcano.sh ... UnknownKindName
    lists those there are."""
    lower = word.lower()
    if lower in WORDS:
        return WORDS[lower]
    for kind in kinds.KINDS:
        if lower in (kind.name.lower(), kind.api_kind.lower(), kind.resource, kind.full_resource):
            return kind.name
    for own in sorted({entry.subject for entry in TYPES if entry.subject.isalpha()}):
        if lower in (own.lower(), f"{own.lower()}s"):
            return own
    names = dict.fromkeys(kind.name for kind in kinds.KINDS)
    raise UnknownKindName(f"unknown kind {word!r}: use {', '.join(names)}")


WATCH_TYPES: dict[str, str] = codec.OBSERVATION_TYPES


def type_named(word: str) -> str:
    """An event's name from what a person writes: BindFailed, bindfailed, or ADDED for ObjectAdded."""
    if word.upper() in WATCH_TYPES:
        return WATCH_TYPES[word.upper()]
    for entry in TYPES:
        if word.lower() == entry.name.lower():
            return entry.name
    names = [entry.name for entry in TYPES]
    near = (
        [name for name in names if word.lower() in name.lower()][:5]
        or get_close_matches(word, names)
        or ["ObjectModified", "BindFailed", "Marker"]
    )
    raise UnknownEventType(f"unknown event type {word!r}: there are {', '.join(near)} and others, see docs/events.md")


def after_of(ledger: Ledger, text: str | None, cluster: str) -> int:
    """The position after which a reading `--from TEXT` begins: the event at a position, at a marker or at exactly a
    moment is in it. A moment before the record means its beginning."""
    if text is None:
        return 0
    wanted = parse(text)
    if isinstance(wanted, AtPosition):
        return max(wanted.position - 1, 0)
    if isinstance(wanted, AtTime):
        return ledger.store.position_at(wanted.micros - 1, cluster)
    return max(ledger.position(text, cluster) - 1, 0)


def select(
    ledger: Ledger,
    *,
    cluster: str,
    after: int,
    to: int | None,
    kind: str | None = None,
    namespace: str | None = None,
    name: str | None = None,
    types: tuple[str, ...] = (),
) -> Selection:
    """The events that a target means. With a name, the core Events that speak of the object are among them."""
    filters: dict[str, Any] = {"cluster": cluster, "after": after, "to": to}
    if kind is not None:
        filters["kinds"] = kind
    if namespace is not None:
        filters["namespace"] = namespace
    if types:
        filters["types"] = types
    if name is None:
        return Selection(filters)
    filters["name"] = name
    named = {key: value for key, value in filters.items() if key not in ("after", "to", "types")}
    uids = dict.fromkeys(stored.uid for stored in ledger.store.read(**named) if stored.uid)
    return Selection(filters, tuple(uids))


def known(ledger: Ledger, selection: Selection) -> bool:
    """Whether the ledger has any event of what the selection names, at whatever time and of whatever type."""
    named = {key: value for key, value in selection.filters.items() if key not in ("after", "to", "types")}
    return bool(selection.about) or next(ledger.store.read(**named, limit=1), None) is not None


def read(ledger: Ledger, selection: Selection, tail: int | None = None) -> Iterator[StoredEvent]:
    """The selected events in the order of the log; with `tail`, only the last so many."""
    filters = selection.filters
    if tail is not None:
        filters = {**filters, "reverse": True, "limit": tail}
    parts = [ledger.store.read(**filters)]
    if selection.about:
        others = {key: value for key, value in filters.items() if key not in ("kinds", "namespace", "name")}
        parts.append(ledger.store.read(**others, about=selection.about))
    sign = 1 if tail is None else -1
    merged = heapq.merge(*parts, key=lambda stored: sign * stored.position)
    if tail is None:
        return iter(merged)
    last = [stored for stored, _ in zip(merged, range(tail), strict=False)]
    return reversed(last)


# --- what an event says -------------------------------------------------------------------------------------------


class Describer:
    """Tells in a few words what each event says; of an observation, what changed since the last one that it was given
    of the same object."""

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[str, str, str], dict[str, str]] = OrderedDict()

    def text(self, stored: StoredEvent) -> str:
        """The short text, on one line."""
        event = codec.recorded(stored).event
        if stored.type not in OBJECT_EVENTS:
            return shortened(_fields(msgspec.to_builtins(event)))
        part = event.object  # type: ignore[attr-defined]
        if isinstance(part, Event):
            return shortened(_spoken(part))
        now = _paths(msgspec.to_builtins(part))
        key = (stored.cluster, stored.kind, stored.uid)
        before = self._last.pop(key, None)
        if stored.gone:
            return _summary(now)
        self._last[key] = now
        if len(self._last) > REMEMBERED_OBJECTS:
            self._last.popitem(last=False)
        return _summary(now) if before is None else shortened(_changed(before, now))


def as_json(stored: StoredEvent) -> dict[str, Any]:
    """An event with its envelope, for one line of JSON. `object` is the API object as it was stored; every other
    event's own fields stand under `event`."""
    envelope: dict[str, Any] = {
        "position": stored.position,
        "observed_at": format_time(stored.observed_at),
        "cluster": stored.cluster,
        "type": stored.type,
        "kind": stored.kind,
        "namespace": stored.namespace,
        "name": stored.name,
        "uid": stored.uid,
        "version": stored.version,
        "known": KNOWN_NAMES[stored.known],
        "late": stored.late,
    }
    optional = {"causation": stored.causation, "cycle": stored.cycle, "about": stored.about or None}
    envelope |= {name: value for name, value in optional.items() if value is not None}
    if stored.type in OBJECT_EVENTS:
        return {**envelope, "object": json.loads(stored.payload)}
    return {**envelope, "event": msgspec.to_builtins(codec.recorded(stored).event)}


NOISE = frozenset(
    ("resourceVersion", "generation", "lastTransitionTime", "lastProbeTime", "lastHeartbeatTime", "transitionID")
)
"""Fields that change with everything or with nothing."""

SUMMARY = (
    "metadata.deletionTimestamp",
    "status.phase",
    "status.state",
    "status.state.phase",
    "spec.nodeName",
    "spec.queue",
    "spec.minMember",
    "spec.minAvailable",
    "spec.weight",
    "spec.unschedulable",
    "spec.volumeName",
    "spec.storageClassName",
    "status.allocatable.cpu",
    "status.allocatable.memory",
    "provisioner",
    "value",
)
"""What is worth saying of an object that is seen for the first or the last time."""


def _paths(value: Any, prefix: str = "") -> dict[str, str]:
    """Every leaf of an object by its dotted path. Items of a list are named by their type or name where they have one,
    else by their number. Empty leaves are left out."""
    found: dict[str, str] = {}
    if isinstance(value, Mapping):
        for name, part in value.items():
            if name not in NOISE:
                found.update(_paths(part, f"{prefix}.{name}" if prefix else name))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            label = (part.get("type") or part.get("name") if isinstance(part, Mapping) else None) or number
            found.update(_paths(part, f"{prefix}[{label}]"))
    elif value not in (None, "", False):
        found[prefix] = "yes" if value is True else str(value)
    return found


def _summary(paths: Mapping[str, str]) -> str:
    return shortened(", ".join(f"{_leaf(path)} {paths[path]}" for path in SUMMARY if path in paths))


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What differs: the paths with old and new value, and a list's items that came or went, each in one piece."""
    pieces: dict[str, str] = {}
    for path in {**before, **now}:
        if before.get(path) == now.get(path):
            continue
        item = path[: path.rfind("]") + 1]
        came, went = (not any(other.startswith(item) for other in side) for side in (before, now))
        if item and (came or went):
            pieces[item] = f"{'+' if came else '-'}{_leaf(item)} {_item(now if came else before, item)}".rstrip()
        else:
            pieces[path] = f"{_leaf(path)} {_step(before.get(path, '-'), now.get(path, '-'))}"
    shown = list(pieces.values())[:CHANGES_SHOWN]
    if len(pieces) > CHANGES_SHOWN:
        shown.append(f"and {len(pieces) - CHANGES_SHOWN} more")
    return "; ".join(shown) or "nothing that the scheduler reads"


def _item(paths: Mapping[str, str], item: str) -> str:
    """The values of a list's item, without the one that it is named by."""
    label = item[item.rfind("[") + 1 : -1]
    return " ".join(value for path, value in paths.items() if path.startswith(item) and value != label)


def _step(before: str, now: str) -> str:
    """Old and new value; of two long texts that begin or end alike only the part that differs."""
    head = _alike(before, now)
    tail = _alike(before[head:][::-1], now[head:][::-1])
    if min(head + tail, len(before), len(now)) < ALIKE_LENGTH_MIN:
        return f"{before} → {now}"
    start = before.rfind(" ", 0, head) + 1
    end = before.find(" ", len(before) - tail)
    tail = len(before) - end if end >= 0 else 0
    parts = (text[start : len(text) - tail] for text in (before, now))
    return " → ".join(f"{'…' if start else ''}{part}{'…' if tail else ''}" for part in parts)


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _leaf(path: str) -> str:
    """A path without its first part, which says only spec, status or metadata."""
    first, _, rest = path.partition(".")
    return rest if first in ("spec", "status", "metadata") and rest else path


def _spoken(event: Event) -> str:
    """What a core Event says, and how often."""
    target = event.involved_object or event.regarding
    count = event.count or event.deprecated_count or (event.series.count if event.series is not None else None)
    of = f"{target.kind} {target.name}: " if target is not None else ""
    return f"{of}{event.reason}{f' (x{count})' if count and count > 1 else ''}: {event.message or event.note}"


def _fields(value: Mapping[str, Any]) -> str:
    """An event's own fields, those that say something."""
    told = {name: part for name, part in value.items() if part not in (None, "", [], {}, False)}
    return ", ".join(f"{name}={_value(name, part)}" for name, part in told.items())


def _value(name: str, value: Any) -> str:
    """A field's value for people; a `_time` is in microseconds (docs/events.md)."""
    if name.endswith("_time") and isinstance(value, int):
        return format_time(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def shortened(text: str) -> str:
    """One line of at most TEXT_LENGTH_MAX characters."""
    line = " ".join(text.split())
    return line if len(line) <= TEXT_LENGTH_MAX else f"{line[: TEXT_LENGTH_MAX - 1]}…"


def batches(events: Iterable[StoredEvent], size: int = 500) -> Iterator[list[StoredEvent]]:
    """The events in lists of at most `size`, for a reader that also follows."""
    batch: list[StoredEvent] = []
    for stored in events:
        batch.append(stored)
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch
