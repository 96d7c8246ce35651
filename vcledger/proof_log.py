"""What the real scheduler did, read from the log: the nodes it gave to pods, and the sentences it wrote, by cycle.

Owns finding them. Must not know predicates nor how a sentence is made. Called by `vcledger.proof`.

A scheduler with a period waits that long from the end of a cycle to the next one's begin, and within a cycle its writes
come close together. So what it wrote is parted where nothing of it was observed for half a period, and a cycle began a
whole number of periods after the last one that wrote had ended: those in between wrote nothing, and took no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from projections.cache.state import CacheConfig
from vcledger import codec
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified
from volcano.objects.core import Pod
from volcano.objects.scheduling import PodGroup

if TYPE_CHECKING:
    from vcledger.ledger import Ledger
    from volcano.events.base import Recorded

PERIOD_MICROS = 1_000_000
"""Volcano's --schedule-period unless it is given."""

TRIED = ("Unschedulable", "Schedulable", "SchedulerError")
"""Reasons of PodScheduled=False that a scheduler gives. SchedulingGated is the API server's own."""


class Placement(NamedTuple):
    """A pod that was first observed with a node. `seen`: it was observed without one before."""

    position: int
    observed_at: int
    uid: str
    namespace: str
    name: str
    node: str
    seen: bool

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Written(NamedTuple):
    """A condition as it was first observed: PodScheduled=False of a pod, Unschedulable of a PodGroup (`kind`). One that
    an object has when it is first observed was written before, nobody knows when, and is none of these."""

    position: int
    observed_at: int
    uid: str
    namespace: str
    name: str
    kind: str
    reason: str
    message: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class Cycle:
    """What one cycle wrote, in the order of the log. `start` is the position before its first write, `end` that of its
    last; `first_at` and `last_at` are when those were observed (microseconds). `began` is the position at which it took
    its snapshot, as far as that can be told; else `start`."""

    start: int
    end: int
    first_at: int
    last_at: int
    began: int = 0
    placements: list[Placement] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)


class _Seen(NamedTuple):
    """What of an object its next observation is compared with."""

    node: str
    words: tuple[str, str] | None


def cycles(ledger: Ledger, cluster: str, config: CacheConfig, period_micros: int = PERIOD_MICROS) -> list[Cycle]:
    """Reads the whole log once. `config` says which schedulers' pods count."""
    last: dict[str, _Seen] = {}
    found: list[Placement | Written] = []
    for recorded in ledger.recorded(cluster=cluster, kinds=("Pod", "PodGroup"), types=codec.OBJECT_TYPES, late=False):
        event = recorded.event
        if isinstance(event, ObjectDeleted):
            last.pop(recorded.uid, None)
        elif isinstance(event, ObjectAdded | ObjectModified):
            found += _news(recorded, event.object, last, config)
    parts = _parted(found, period_micros)
    for before, part in zip([None, *parts], parts, strict=False):
        at = _began_at(before, part, period_micros) if before is not None else part.first_at
        part.began = min(
            part.start, max(ledger.store.position_at(at, cluster), before.end if before is not None else 0)
        )
    return parts


def _began_at(before: Cycle, part: Cycle, period_micros: int) -> int:
    """When the cycle began: the last whole period after the end of the one before."""
    return before.last_at + (part.first_at - before.last_at) // period_micros * period_micros


def _news(
    recorded: Recorded, thing: object, last: dict[str, _Seen], config: CacheConfig
) -> Iterator[Placement | Written]:
    """What an observation tells that the one before it did not."""
    if isinstance(thing, Pod) and thing.spec.scheduler_name in config.scheduler_names:
        now = _Seen(thing.spec.node_name, _words_of_pod(thing))
    elif isinstance(thing, PodGroup):
        now = _Seen("", _words_of_group(thing))
    else:
        return
    before, last[recorded.uid] = last.get(recorded.uid), now
    about = (recorded.position, recorded.observed_at, recorded.uid, recorded.namespace, recorded.name)
    if now.node and (before is None or not before.node):
        yield Placement(*about, now.node, before is not None)
    if now.words is not None and not now.node and before is not None and before.words != now.words:
        yield Written(*about, recorded.kind, *now.words)


def _words_of_pod(pod: Pod) -> tuple[str, str] | None:
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason in TRIED:
            return condition.reason, condition.message
    return None


def _words_of_group(group: PodGroup) -> tuple[str, str] | None:
    for condition in group.status.conditions or ():
        if condition.type == "Unschedulable" and condition.status == "True":
            return condition.reason, condition.message
    return None


def _parted(found: Sequence[Placement | Written], period_micros: int) -> list[Cycle]:
    parts: list[Cycle] = []
    before: int | None = None
    for one in found:
        if before is None or one.observed_at - before > period_micros // 2:
            parts.append(Cycle(one.position - 1, one.position, one.observed_at, one.observed_at))
        before = parts[-1].last_at = one.observed_at
        parts[-1].end = one.position
        if isinstance(one, Placement):
            parts[-1].placements.append(one)
        else:
            parts[-1].written.append(one)
    return parts


__all__ = ["PERIOD_MICROS", "TRIED", "Cycle", "Placement", "Written", "cycles"]
