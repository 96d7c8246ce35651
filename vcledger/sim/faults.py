"""Faults, as values on a schedule: a plan can be printed, kept, changed and run again.

Owns the list of faults, their shape, and how a schedule is drawn from a seed. Must not know how a fault is carried out.
Called by `vcledger.sim.plan`; carried out by `vcledger.sim.port` and `vcledger.sim.world`.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from vcledger.errors import VcledgerError
from vcledger.sim.clock import MILLISECOND, SECOND

REQUEST_FAULTS: dict[str, str] = {
    "conflict": "somebody else writes the object just before the update, which is then refused with 409",
    "lost-to-another": "another scheduler binds the pod just before the bind, which is then refused with 409",
    "gone-before": "the pod is deleted just before the request, which is then refused with 404",
    "server-error": "500, and nothing is done",
    "error-after": "500, and the request is done all the same",
    "throttled": "429, and nothing is done",
    "timeout-before": "no answer, and nothing is done",
    "timeout-after": "no answer, and the request is done",
    "read-stale": "a read is answered with an earlier state of the object, as by a server that lags behind",
}
"""What happens to the next request that matches, and what comes of it."""

WATCH_FAULTS: dict[str, str] = {
    "watch-dropped": "the server ends the kind's watch",
    "watch-expired": "the history is compacted while the kind's watch is down: 410",
    "watch-delayed": "the kind's lines arrive some seconds late, so that other kinds overtake it",
    "watch-duplicated": "the kind's next lines arrive twice",
    "list-stale": "the kind's next list is of an earlier version",
    "list-misses": "the kind is listed anew, and the list lacks an object",
    "list-fails": "the kind's next list is answered with 500",
}
"""What happens to the list and watch of a kind."""

CONTROLLER_FAULTS: dict[str, str] = {
    "volumes-slow": "the PV controller does nothing for some seconds",
    "volumes-undone": "the PV controller takes the next volume back that the scheduler gave to a claim",
    "provisioner-fails": "the next volume of a class fails, and the selected node is taken away",
    "provisioner-stuck": "no volume of a class comes for some seconds",
}
"""What happens to the controllers that the scheduler waits for."""

CLUSTER_FAULTS: dict[str, str] = {
    "pod-deleted": "a pod is deleted, and made again by its owner",
    "node-deleted": "a node is deleted, and comes back some seconds later under its name",
}
"""What happens to the objects themselves."""

PROCESS_FAULTS: dict[str, str] = {
    "crash": "the scheduler's process dies and begins anew on its log; requests on their way still arrive",
    "crash-before-effects": "it dies after its next append, before the effects of it have left",
    "log-refuses": "the log's next append fails, and so do those after it for some seconds",
}
"""What happens to the process."""

FAULTS: dict[str, str] = {
    **REQUEST_FAULTS,
    **WATCH_FAULTS,
    **CONTROLLER_FAULTS,
    **CLUSTER_FAULTS,
    **PROCESS_FAULTS,
}
"""All of them: name to what happens."""

WRITES = ("PUT", "POST", "PATCH")
TARGETS: dict[str, tuple[tuple[str, str], ...]] = {
    "conflict": (("PUT", "PersistentVolume"), ("PUT", "PersistentVolumeClaim")),
    "lost-to-another": (("POST", "Pod"),),
    "read-stale": (("GET", "Pod"), ("GET", "Pod"), ("GET", "PersistentVolume"), ("GET", "PersistentVolumeClaim")),
    "gone-before": (("POST", "Pod"), ("GET", "Pod"), ("PATCH", "Pod"), ("PUT", "PersistentVolumeClaim")),
}
"""The (verb, kind) that a fault is for; those not named here are for any."""

ANY_TARGET: tuple[tuple[str, str], ...] = (
    ("POST", "Pod"),
    ("POST", "Pod"),
    ("GET", "Pod"),
    ("PATCH", "Pod"),
    ("PUT", "PersistentVolume"),
    ("PUT", "PersistentVolumeClaim"),
)

DELETIONS: tuple[tuple[str, str], ...] = (("DELETE", "Pod"), ("DELETE", "Pod"), ("DELETE", "Pod"), ("PATCH", "Pod"))
"""What is hit as well in a world whose scheduler evicts."""

WATCHED = ("Pod", "Node", "PersistentVolume", "PersistentVolumeClaim", "PodGroup")


class UnknownFault(VcledgerError):
    """`--faults` names something that is none."""


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault. `at`: microseconds after the world's start, from when it holds. `verb`, `kind`: the requests or the
    list and watch that it hits. `seconds`: how long it lasts. `pick`: which of several objects, by their order."""

    at: int
    fault: str
    verb: str = ""
    kind: str = ""
    seconds: int = 0
    count: int = 1
    pick: int = 0


def named(text: str) -> tuple[str, ...]:
    """The faults that `all`, `none`, or a list of names (or of groups: request, watch, controllers, cluster, process)
    means, in the table's order."""
    groups = {
        "all": FAULTS,
        "none": {},
        "request": REQUEST_FAULTS,
        "watch": WATCH_FAULTS,
        "controllers": CONTROLLER_FAULTS,
        "cluster": CLUSTER_FAULTS,
        "process": PROCESS_FAULTS,
    }
    chosen: dict[str, None] = {}
    for word in (part.strip() for part in text.split(",")):
        if word in groups:
            chosen.update(dict.fromkeys(groups[word]))
        elif word in FAULTS:
            chosen[word] = None
        else:
            known = ", ".join([*groups, *FAULTS])
            raise UnknownFault(f"there is no fault {word!r}; there are: {known}")
    return tuple(fault for fault in FAULTS if fault in chosen)


def drawn(
    chance: Random, faults: Sequence[str], count: int, until: int, *, deletions: bool = False
) -> tuple[Fault, ...]:
    """`count` faults of these kinds between a second and `until` microseconds, in order of time; with `deletions` also
    such as hit the scheduler's evictions."""
    if not faults:
        return ()
    more = DELETIONS if deletions else ()
    found = [_one(chance, chance.choice(faults), chance.randrange(SECOND, until), more) for _ in range(count)]
    return tuple(sorted(found, key=lambda fault: fault.at))


def _one(chance: Random, fault: str, at: int, more: tuple[tuple[str, str], ...]) -> Fault:
    at -= at % MILLISECOND
    pick = chance.randrange(1000)
    if fault in REQUEST_FAULTS:
        anything = (*ANY_TARGET, *more)
        own = TARGETS.get(fault, anything)
        verb, kind = chance.choice((*own, *more) if more and fault == "gone-before" else own)
        return Fault(at, fault, verb, kind, count=chance.choice((1, 1, 1, 2, 3)), pick=pick)
    if fault in WATCH_FAULTS:
        return Fault(at, fault, "", chance.choice(WATCHED), seconds=chance.randint(1, 8), pick=pick)
    return Fault(at, fault, seconds=chance.randint(2, 20), pick=pick)
