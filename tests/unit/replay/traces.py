"""Small traces: nodes, and gangs that arrive, run and go, as a watch of a cluster without a scheduler would show them.

Owns the objects and their order. Must not know the replay. Called by the tests of replay.

The recorded scheduler is a simple one: it serves whole gangs in the order of their arrival, each on the first nodes
that have room, when there is room for all of it; a gang for which there never is stays pending.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from eventstore.types import NewEvent
from tests.unit.vcledger.build import node, seen
from vcledger.ledger import Ledger


class Gang(NamedTuple):
    """A PodGroup: pods, of which `least` must run together, their cpus, and seconds from the trace's beginning."""

    pods: int
    least: int
    cpu: int
    arrives: int
    runs: int
    queue: str = "default"


class Stage(NamedTuple):
    """A trace: cpus of each node, and the gangs."""

    nodes: tuple[int, ...]
    gangs: tuple[Gang, ...]


def queue(name: str, version: int, **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Queue",
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "metadata": {"name": name, "uid": f"queue-{name}", "resourceVersion": str(version)},
        "spec": {"weight": 1, "reclaimable": True, **spec},
        "status": {"state": "Open"},
    }


def group(number: int, gang: Gang, version: int) -> dict[str, Any]:
    return {
        "kind": "PodGroup",
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "metadata": {
            "name": f"g{number}",
            "namespace": "default",
            "uid": f"group-{number}",
            "resourceVersion": str(version),
            "creationTimestamp": stamp(gang.arrives),
        },
        "spec": {
            "minMember": gang.least,
            "queue": gang.queue,
            "minResources": {"cpu": str(gang.least * gang.cpu), "memory": f"{gang.least}Gi"},
        },
        "status": {"phase": "Pending"},
    }


def member(number: int, index: int, gang: Gang, version: int, node_name: str, phase: str) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"g{number}-{index}",
            "namespace": "default",
            "uid": f"pod-{number}-{index}",
            "resourceVersion": str(version),
            "creationTimestamp": stamp(gang.arrives),
            "annotations": {"scheduling.k8s.io/group-name": f"g{number}"},
        },
        "spec": {
            "schedulerName": "volcano",
            **({"nodeName": node_name} if node_name else {}),
            "containers": [{"name": "main", "resources": {"requests": {"cpu": str(gang.cpu), "memory": "1Gi"}}}],
        },
        "status": {"phase": phase},
    }


def stamp(second: int) -> str:
    return f"2026-03-01T{3 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"


def events(stage: Stage) -> list[NewEvent]:
    """The trace in the order of time."""
    steps: list[tuple[float, int, int, str, dict[str, Any]]] = []

    def tell(second: float, rank: int, change: str, thing: dict[str, Any]) -> None:
        steps.append((second, rank, len(steps), change, thing))

    queues = dict.fromkeys(["default", *(gang.queue for gang in stage.gangs)])
    for name in queues:
        tell(0, 0, "ADDED", queue(name, 1))
    for number, cpus in enumerate(stage.nodes):
        tell(0, 1, "ADDED", node(f"n{number}", 1, cpu=str(cpus)))
    held: list[tuple[int, int, int]] = []
    turn = 0
    for number, gang in enumerate(stage.gangs):
        begins, places = _first_fit(stage, gang, held, max(turn, gang.arrives + 1))
        if places:
            turn = begins
        held += [(begins + gang.runs, place, gang.cpu) for place in places]
        tell(gang.arrives, 2, "ADDED", group(number, gang, 1))
        for index in range(gang.pods):
            tell(gang.arrives, 3, "ADDED", member(number, index, gang, 1, "", "Pending"))
            if index < len(places):
                there = f"n{places[index]}"
                tell(begins, 4, "MODIFIED", member(number, index, gang, 1, there, "Running"))
                tell(begins + gang.runs, 5, "MODIFIED", member(number, index, gang, 1, there, "Succeeded"))
    told = []
    for version, (second, _, _, change, thing) in enumerate(sorted(steps, key=lambda step: step[:3]), 1):
        meta = {**thing["metadata"], "resourceVersion": str(version)}
        told.append(seen(change, {**thing, "metadata": meta}, second))
    return told


def _first_fit(stage: Stage, gang: Gang, held: list[tuple[int, int, int]], turn: int) -> tuple[int, list[int]]:
    """When all of the gang find nodes together, at its turn or when others have ended, and which; [] when never."""
    for moment in sorted({turn, *(until for until, _, _ in held if until > turn)}):
        free = list(stage.nodes)
        for until, place, cpu in held:
            if until > moment:
                free[place] -= cpu
        places = []
        for _ in range(gang.pods):
            found = next((number for number, cpus in enumerate(free) if cpus >= gang.cpu), None)
            if found is not None:
                free[found] -= gang.cpu
                places.append(found)
        if len(places) == gang.pods:
            return moment, places
    return turn, []


def ledger_of(stage: Stage, path: Path | str) -> str:
    """A new ledger with the trace; cluster c."""
    with Ledger.open(str(path), create=True) as ledger:
        ledger.store.append(events(stage))
    return str(path)
