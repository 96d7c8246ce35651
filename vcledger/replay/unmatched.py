"""Changes that speak of something that the trace has not got, as lines for a person.

Owns where it looks and the lines. Must not know what a change does. Called by `cli.replay_options` before the first
replay, so that a slip of the pen is told before minutes are spent on it. A record is whole before it is replayed, so
what appears late in it counts as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import NamedTuple

from vcledger.ledger import Ledger
from vcledger.replay.inputs import Change
from vcledger.replay.variants import Trace
from vcledger.replay.whatif import AddNodes, RemoveNodes, ScaleRequests, SetField
from volcano.objects.core import Pod

NAMES_SHOWN = 5
WORDS = {
    "Node": "node",
    "Queue": "queue",
    "VolcanoJob": "job",
    "PodGroup": "PodGroup",
    "PriorityClass": "PriorityClass",
}

Names = tuple[tuple[str, str], ...]


class Unmatched(NamedTuple):
    """What a change does not find, as a line. `idle`: the change as a whole finds nothing that it could change."""

    change: Change
    line: str
    idle: bool


def unmatched(ledger: Ledger, trace: Trace, changes: Iterable[Change]) -> list[Unmatched]:
    """What of the changes finds nothing in the trace, or refers to something that is not in it."""
    seen = Seen(ledger, trace)
    return [Unmatched(change, line, idle) for change in changes for line, idle in _lines(change, seen)]


def idle_everywhere(of_traces: Sequence[Sequence[Unmatched]]) -> list[Unmatched]:
    """Of what changes do not find in several traces: those that find nothing in any of them, each once."""
    found: dict[Change, Unmatched] = {}
    for one in of_traces[0] if of_traces else ():
        if one.idle and all(any(other.idle and other.change == one.change for other in rest) for rest in of_traces):
            found.setdefault(one.change, one)
    return list(found.values())


class Seen:
    """The names that the trace has of each kind, read when they are asked for."""

    def __init__(self, ledger: Ledger, trace: Trace) -> None:
        self._ledger, self._trace = ledger, trace
        self._names: dict[str, Names] = {}

    def names(self, kind: str) -> Names:
        """(namespace, name) of every object of the kind that is there in the replayed part, in the order of the log."""
        if kind not in self._names:
            events = self._ledger.store.read(
                to=self._trace.to_position,
                cluster=self._trace.cluster,
                kinds=kind,
                types=("ObjectAdded", "ObjectModified", "ObjectDeleted"),
            )
            found: dict[tuple[str, str], None] = {}
            for one in events:
                name = one.stream.namespace, one.stream.name
                if one.type != "ObjectDeleted":
                    found[name] = None
                elif one.position <= self._trace.from_position:
                    found.pop(name, None)
            self._names[kind] = tuple(found)
        return self._names[kind]

    def requested(self, wanted: Sequence[str]) -> set[str]:
        """What pods ask for; no more than that has all of `wanted`."""
        found: set[str] = set()
        pods = self._ledger.recorded(
            to=self._trace.to_position,
            cluster=self._trace.cluster,
            kinds="Pod",
            types=("ObjectAdded", "ObjectModified"),
        )
        for recorded in pods:
            pod = getattr(recorded.event, "object", None)
            if isinstance(pod, Pod):
                for container in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ())):
                    found.update((container.resources.requests if container.resources else None) or ())
            if found.issuperset(wanted):
                break
        return found


def _lines(change: Change, seen: Seen) -> Iterator[tuple[str, bool]]:
    if isinstance(change, ScaleRequests):
        yield from _asked(change, seen)
    elif isinstance(change, AddNodes):
        there = {name for _, name in seen.names("Node")}
        twice = [name for name in change.node_names() if name in there]
        if twice:
            yield (
                f"--add-nodes {change.text}: the trace has a node {twice[0]} itself; give others with name=PREFIX",
                False,
            )
        missing = [name for name in ("cpu", "memory") if name not in dict(change.resources)]
        if missing:
            yield (
                f"--add-nodes {change.text}: the nodes have no {missing[0]}, so no pod that asks for it fits there",
                False,
            )
    elif isinstance(change, SetField):
        yield from _named(change, seen)
        yield from _referred(change, seen)
    elif isinstance(change, RemoveNodes):
        yield from _named(change, seen)


def _asked(change: ScaleRequests, seen: Seen) -> Iterator[tuple[str, bool]]:
    wanted = [name for name, _ in change.factors]
    asked = seen.requested(wanted) if wanted else set()
    missing = [name for name in wanted if name not in asked]
    for name in missing:
        yield (
            f"--scale-requests {change.text} changes nothing of {name}: no pod of the trace asks for it"
            f"{_has(name, sorted(asked), 'they ask for')}",
            not change.every and len(missing) == len(wanted),
        )


def _named(change: SetField | RemoveNodes, seen: Seen) -> Iterator[tuple[str, bool]]:
    option = "--set" if isinstance(change, SetField) else "--remove-node"
    kind, namespace, pattern = change.names()[0]
    whole = f"{namespace}/{pattern}" if namespace else pattern
    found = _finds(seen, kind, namespace, pattern)
    if kind == "VolcanoJob":
        if any(_finds(seen, "PodGroup", namespace, one) for one in (pattern, f"{pattern}-*")):
            return
        if found:
            yield f"{option} {change.text} changes nothing: the trace has no PodGroup of job {whole}", True
            return
    if not found:
        has = ["/".join(part for part in one if part) for one in seen.names(kind)]
        yield f"{option} {change.text} changes nothing: the trace has no {WORDS[kind]} {whole}{_has(whole, has)}", True


def _finds(seen: Seen, kind: str, namespace: str, pattern: str) -> bool:
    return any(
        fnmatchcase(name, pattern) and (not namespace or fnmatchcase(in_namespace, namespace))
        for in_namespace, name in seen.names(kind)
    )


def _referred(change: SetField, seen: Seen) -> Iterator[tuple[str, bool]]:
    kind = {"queue": "Queue", "parent": "Queue", "priorityClassName": "PriorityClass"}.get(change.path[0])
    if kind is None or not isinstance(change.value, str):
        return
    has = [name for _, name in seen.names(kind)]
    if change.value not in has:
        yield f"--set {change.text}: the trace has no {WORDS[kind]} {change.value}{_has(change.value, has)}", False


def _has(wanted: str, names: Sequence[str], verb: str = "it has") -> str:
    """The names that come nearest, else the first few."""
    near = get_close_matches(wanted, names, NAMES_SHOWN, 0.6) or list(names[:NAMES_SHOWN])
    if not near:
        return ""
    more = f" and {len(names) - len(near)} more" if len(names) > len(near) else ""
    return f"; {verb} {', '.join(near)}{more}"


__all__ = ["Unmatched", "idle_everywhere", "unmatched"]
