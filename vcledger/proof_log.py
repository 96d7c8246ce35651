"""What the real scheduler did, read from the log: the nodes it gave to pods, and the sentences it wrote, by cycle.

Owns finding them. Must not know predicates nor how a sentence is made. Called by `vcledger.proof`.

A scheduler with a period waits that long from the end of a cycle to the next one's begin, and within a cycle its writes
come close together. So what it wrote is parted where nothing of it was observed for half a period, and a cycle began a
whole number of periods after the last one that wrote had ended: those in between wrote nothing, and took no time.
"""

from __future__ import annotations

import re
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

ASSIGNED = re.compile(r"(?<=can possibly be assigned to )\S+(?=, once)")
"""The node in the sentence of a pod that waits for the rest of its gang, or for what is being released."""

FAILED_ON = re.compile(r"failed to bind to node (\S+): ")
"""The node in the sentence about a bind that failed."""

FAILED = "SchedulerError"
"""The reason of such a sentence."""

TRIED = ("Unschedulable", "Schedulable", FAILED)
"""Reasons of PodScheduled=False that a scheduler gives. SchedulingGated is the API server's own."""


class Placement(NamedTuple):
    """A pod that was first observed with a node. `seen`: it was observed without one before. `since`: the position at
    which it was first observed at all."""

    position: int
    observed_at: int
    uid: str
    namespace: str
    name: str
    node: str
    seen: bool
    since: int

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Written(NamedTuple):
    """A condition as it was first observed: PodScheduled=False of a pod, Unschedulable of a PodGroup (`kind`). One that
    an object has when it is first observed was written before, nobody knows when, and is none of these. `since`: the
    position at which the object was first observed."""

    position: int
    observed_at: int
    uid: str
    namespace: str
    name: str
    kind: str
    reason: str
    message: str
    since: int

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class Cycle:
    """What one cycle wrote, in the order of the log. `start` is the position before its first write, `end` that of its
    last; `first_at` and `last_at` are when those were observed (microseconds). `began` is the position at which it took
    its snapshot, as far as that can be told; else `start`. `thrown` are the nodes on which it decided, by the pod's
    uid, as far as its end tells: those that it bound pods to, and those that pods' conditions name."""

    start: int
    end: int
    first_at: int
    last_at: int
    began: int = 0
    placements: list[Placement] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    thrown: dict[str, str] = field(default_factory=dict)


class _Seen(NamedTuple):
    """What of an object its next observation is compared with, and the position of its first."""

    first: int
    node: str
    words: tuple[str, str] | None

    @property
    def names(self) -> str:
        """The node that its condition names; '' for none."""
        found = ASSIGNED.search(self.words[1]) if self.words is not None and not self.node else None
        return found.group() if found is not None else ""


def cycles(ledger: Ledger, cluster: str, config: CacheConfig, period_micros: int = PERIOD_MICROS) -> list[Cycle]:
    """Reads the whole log once. `config` says which schedulers' pods count."""
    last: dict[str, _Seen] = {}
    found: list[Placement | Written] = []
    named: list[tuple[int, str, str]] = []
    for recorded in ledger.recorded(cluster=cluster, kinds=("Pod", "PodGroup"), types=codec.OBJECT_TYPES, late=False):
        event = recorded.event
        if isinstance(event, ObjectDeleted):
            last.pop(recorded.uid, None)
        elif isinstance(event, ObjectAdded | ObjectModified):
            before = last.get(recorded.uid)
            found += _news(recorded, event.object, last, config)
            names = last[recorded.uid].names if recorded.uid in last else ""
            if names or (before is not None and before.names):
                named.append((recorded.position, recorded.uid, names))
    parts = _parted(found, period_micros)
    _throw(parts, named)
    for before_it, part in zip([None, *parts], parts, strict=False):
        at = _began_at(before_it, part, period_micros) if before_it is not None else part.first_at
        least = [before_it.end if before_it is not None else 0, *_since(part)]
        part.began = min(part.start, max(ledger.store.position_at(at, cluster), *least))
    return parts


def _since(part: Cycle) -> Iterator[int]:
    """When the pods that the cycle decided on, or wrote about, were first observed: it cannot have begun before. (What
    a list has was there before it.)"""
    yield from (one.since for one in part.placements if one.seen)
    yield from (one.since for one in part.written if one.kind == "Pod")


def _began_at(before: Cycle, part: Cycle, period_micros: int) -> int:
    """When the cycle began: the last whole period after the end of the one before."""
    return before.last_at + (part.first_at - before.last_at) // period_micros * period_micros


def _throw(parts: Sequence[Cycle], named: Sequence[tuple[int, str, str]]) -> None:
    """Fills in what each cycle decided on: a condition that says the same as before stands for it too."""
    standing: dict[str, str] = {}
    left = iter(named)
    following = next(left, None)
    for part in parts:
        while following is not None and following[0] <= part.end:
            standing.pop(following[1], None)
            if following[2]:
                standing[following[1]] = following[2]
            following = next(left, None)
        part.thrown = {**standing, **{one.uid: one.node for one in part.placements}}


def _news(
    recorded: Recorded, thing: object, last: dict[str, _Seen], config: CacheConfig
) -> Iterator[Placement | Written]:
    """What an observation tells that the one before it did not."""
    if isinstance(thing, Pod) and thing.spec.scheduler_name in config.scheduler_names:
        node, words = thing.spec.node_name, _words_of_pod(thing)
    elif isinstance(thing, PodGroup):
        node, words = "", _words_of_group(thing)
    else:
        return
    before = last.get(recorded.uid)
    now = last[recorded.uid] = _Seen(before.first if before is not None else recorded.position, node, words)
    about = (recorded.position, recorded.observed_at, recorded.uid, recorded.namespace, recorded.name)
    if now.node and (before is None or not before.node):
        yield Placement(*about, now.node, before is not None, now.first)
    if now.words is not None and not now.node and before is not None and before.words != now.words:
        yield Written(*about, recorded.kind, *now.words, now.first)


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


def in_flight(failures: Sequence[Written], after: int) -> dict[str, str]:
    """Node by uid of the pods whose next failure after a position names the node."""
    found: dict[str, str] = {}
    for one in failures:
        named = FAILED_ON.match(one.message) if one.position > after else None
        if named is not None:
            found.setdefault(one.uid, named.group(1))
    return found


__all__ = ["ASSIGNED", "FAILED", "PERIOD_MICROS", "TRIED", "Cycle", "Placement", "Written", "cycles", "in_flight"]
