"""SimKube traces, version 2: msgpack of what a cluster's owners of pods looked like, and how long their pods ran.

Owns the decoding, the refusal of other versions, and the order in time of what a trace tells. Must not know the log,
nor how owners become pods (`vcledger.sources.simkube_pods`) and these become objects
(`vcledger.sources.simkube_objects`). Called by `vcledger.sources.reader`.

A trace is one map: `version`, `config` (which kinds were tracked, and where in them their pod templates are), `events`
(a unix time, objects applied, objects deleted), `index` (hashes, of no use here) and `pod_lifecycles` (for each owner,
by a hash of the pod's spec, when each of its pods ran). Source: SimKube's own `sk-store` and its documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from eventstore.types import NewEvent
from vcledger.at import MICROS
from vcledger.sources.observe import Observer, Unusable, Unwanted, shown
from vcledger.sources.report import Tally
from vcledger.sources.simkube_objects import Stories
from vcledger.sources.simkube_pods import Lifecycle, Owners

VERSION = 2
YEARS_MAX = 250 * 366 * 86_400
_MAP = rb"(?:[\x80-\x8f]|\xde..)"
_FIRST_KEY = rb"(?:\xa7version|\xa6config|\xa6events|\xa5index|\xaepod_lifecycles)"
_BY_KEYS = re.compile(rb"\A" + _MAP + _FIRST_KEY, re.DOTALL)
_VERSION_1 = re.compile(rb"\A\x94" + _MAP + rb"(?:\xaetrackedObjects|\xaftracked_objects)", re.DOTALL)


def sniff(head: bytes) -> bool:
    """Whether a stream begins as a SimKube trace of any version does."""
    return bool(_BY_KEYS.match(head) or _VERSION_1.match(head))


class NotATrace(ValueError):
    """The whole file cannot be used; the reason is the text."""


class _Tracked(msgspec.Struct, rename="camel"):
    """Both spellings of the path, one and many."""

    pod_spec_template_path: str | None = None
    pod_spec_template_paths: list[str] | None = None


class _Config(msgspec.Struct, rename="camel"):
    tracked_objects: dict[str, _Tracked] = {}


class _Event(msgspec.Struct):
    ts: int
    applied_objs: list[Any] = []
    deleted_objs: list[Any] = []


class _Trace(msgspec.Struct):
    version: int
    config: _Config
    events: list[_Event]
    pod_lifecycles: dict[tuple[str, str], dict[int, list[Any]]] = {}


class _Versioned(msgspec.Struct):
    version: Any = None


_versions = msgspec.msgpack.Decoder(_Versioned)
_traces = msgspec.msgpack.Decoder(_Trace)


def parse(data: bytes) -> _Trace:
    """The trace. NotATrace when it is none, or one of another version."""
    if _VERSION_1.match(data):
        raise NotATrace(f"a SimKube trace of version 1, which says none; only version {VERSION} can be read")
    try:
        version = _versions.decode(data).version
        if version != VERSION:
            which = "that says no version" if version is None else f"of version {shown(repr(version))}"
            raise NotATrace(f"a SimKube trace {which}; only version {VERSION} can be read")
        return _traces.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise NotATrace(f"no whole SimKube trace: {error}") from error


def items(data: bytes, observer: Observer, tally: Tally) -> Iterator[NewEvent]:
    """The events that a trace tells or implies, by time. What is broken in it is named by the number of its event.
    Raises NotATrace."""
    trace = parse(data)
    paths = {kind.lstrip("/"): _paths(tracked) for kind, tracked in trace.config.tracked_objects.items()}
    owners, stories = Owners(paths, _lifecycles(trace, tally)), Stories(observer)
    back = sum(after.ts < before.ts for before, after in zip(trace.events, trace.events[1:], strict=False))
    if back:
        events_go = "1 event goes" if back == 1 else f"{back:,} events go"
        tally.report.note(f"{tally.file.file}: {events_go} back in time: put in order")
    for number, event in sorted(enumerate(trace.events, 1), key=lambda one: one[1].ts):
        for change, objects in (("applied", event.applied_objs), ("deleted", event.deleted_objs)):
            for built in objects:
                tally.read()
                try:
                    _take(owners, stories, event.ts, change, built)
                except Unwanted as error:
                    tally.ignored(str(error))
                except Unusable as error:
                    tally.broken(number, str(error), _shown(built))
    yield from stories.events(owners, tally)
    if stories.moved:
        tally.report.note(
            f"{tally.file.file}: {stories.moved:,} pods of the default scheduler stand in the ledger as Volcano's, so "
            "that they can be replayed"
        )


def _take(owners: Owners, stories: Stories, ts: int, change: str, built: Any) -> None:
    if not 0 <= ts <= YEARS_MAX:
        raise Unusable(f"time {ts} is no time of a trace")
    time = ts * MICROS
    if change == "deleted":
        owner = owners.delete(time, built)
        stories.changed(owner, "DELETED", owner.states[-1][1], time)
    else:
        owner, new = owners.apply(time, built)
        stories.changed(owner, "ADDED" if new else "MODIFIED", built, time)


def _shown(built: Any) -> bytes:
    """The object for whoever keeps broken input aside."""
    try:
        return msgspec.json.encode(built)
    except (TypeError, ValueError, RecursionError):
        return repr(built)[:1_000].encode()


def _paths(tracked: _Tracked) -> tuple[str, ...]:
    paths = tracked.pod_spec_template_paths
    if paths is not None:
        return tuple(paths)
    return (tracked.pod_spec_template_path,) if tracked.pod_spec_template_path is not None else ()


def _lifecycles(trace: _Trace, tally: Tally) -> dict[tuple[str, str], list[list[Lifecycle]]]:
    """By kind and name of the owner, in groups of one hash; broken ones are counted. The hashes cannot be made here:
    they are of SimKube's own structures."""
    found: dict[tuple[str, str], list[list[Lifecycle]]] = {}
    for (kind, name), by_hash in trace.pod_lifecycles.items():
        groups = found.setdefault((kind.lstrip("/"), name), [])
        for hash_ in sorted(by_hash):
            groups.append([])
            for value in by_hash[hash_]:
                tally.read()
                try:
                    life = _lifecycle(value)
                except Unusable as error:
                    tally.broken(0, f"pod_lifecycles of {shown(name)}: {error}", _shown(value))
                    continue
                if life is None:
                    tally.ignored("a SimKube lifecycle that is Empty: that pod never started")
                else:
                    groups[-1].append(life)
    return found


def _lifecycle(value: Any) -> Lifecycle | None:
    """`{"Finished": [start, end]}`, `{"Running": start}` or `"Empty"`."""
    if value == "Empty":
        return None
    if isinstance(value, dict) and len(value) == 1:
        (word, times), *_ = value.items()
        if word == "Running":
            times = [times]
        if word in ("Running", "Finished") and isinstance(times, list) and len(times) == 1 + (word == "Finished"):
            if not all(type(time) is int and 0 <= time <= YEARS_MAX for time in times):
                raise Unusable(f"{word} {shown(str(times))} holds no times of a trace")
            if times[-1] < times[0]:
                raise Unusable(f"Finished {times} ends before it starts: a negative duration")
            return Lifecycle(times[0] * MICROS, times[1] * MICROS if word == "Finished" else None)
    raise Unusable(f"{shown(str(value))} is none of Empty, Running and Finished")
