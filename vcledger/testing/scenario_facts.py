"""The facts of a scenario: what is so, beside what is expected.

Owns the table of facts, and how those about the flow's state are found: nodes, pods, jobs, volumes, queues. Must not
know how the script was run; what the ledger tells is found by `vcledger.testing.scenario_told`, what is compared by
`vcledger.testing.scenario_compare`. Called by `vcledger.testing.scenario` and `vcledger.testing.scenario_sim`.

`pod`, `pvc` and `pv` say what the API server has told, `assumed` whether the flow holds something for them beside that.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from projections.cache.state import NodeInfo
from vcledger.scheduler.transitions import Phase
from vcledger.testing.scenario_api import count_of
from vcledger.testing.scenario_compare import ABSENT, differ, exactly
from vcledger.testing.scenario_format import Fact
from vcledger.testing.scenario_told import (
    World,
    attempts,
    events_of,
    gap,
    history,
    invariant,
    last_bind,
    last_deletion,
    outcome,
    stream,
    why_fact,
)
from volcano.objects.meta import ResourceMap
from volcano.objects.resource import ATTACH_PREFIX, PODS, Resource

SELECTED_NODE = "volume.kubernetes.io/selected-node"

HOLDS = frozenset(Phase) - {Phase.OUT, Phase.BOUND, Phase.SEEN, Phase.ENDED}
"""Phases in which the flow holds a node for the task that the API server has not confirmed."""


def differences(world: World, fact: Fact) -> list[str]:
    """What of a fact is not so, each as `about name: key is X, expected Y`."""
    found = _FINDERS[fact.about](world, fact)
    if fact.about in ("nodes", "pods"):
        return differ(fact.about, "names", found["names"], fact.name)
    name = f"{fact.about} {fact.name}"
    if found.get("exists") is False and fact.keys.get("exists", True) is not False:
        given = [key for key in fact.keys if key not in found]
        if given or fact.keys.get("exists"):
            return [f"{name}: does not exist"]
    return [text for key, wanted in fact.keys.items() for text in differ(name, key, found.get(key, ABSENT), wanted)]


# --- nodes, pods, jobs --------------------------------------------------------------------------------------------


def _in_units(resource: Resource) -> dict[str, Fraction]:
    """Cores, bytes and units, exactly."""
    found = {}
    for name, amount in resource.amounts().items():
        unit = 1 if name in ("memory", PODS) or name.startswith(ATTACH_PREFIX) else 1000
        found[name] = Fraction(amount) / unit
    return found


def _quantities(amounts: ResourceMap | None) -> dict[str, Fraction]:
    return {name: exactly(amount) for name, amount in (amounts or {}).items()}


def _node(world: World, fact: Fact) -> dict[str, Any]:
    info: NodeInfo | None = world.flow.cache.nodes.get(fact.name)
    if info is None or info.node is None:
        return {"exists": False, "schedulable": False, "tasks": sorted(info.tasks) if info is not None else []}
    return {
        "exists": True,
        "schedulable": info.ready and not info.node.spec.unschedulable,
        "uid": info.node.metadata.uid,
        "idle": _in_units(info.idle),
        "used": _in_units(info.used),
        "tasks": list(info.tasks),
    }


def _nodes(world: World, fact: Fact) -> dict[str, Any]:
    return {"names": [name for name, info in world.flow.cache.nodes.items() if info.node is not None]}


def _pods(world: World, fact: Fact) -> dict[str, Any]:
    return {"names": list(world.flow.cache.pods)}


def _pod(world: World, fact: Fact) -> dict[str, Any]:
    ref = world.flow.cache.pods.get(fact.name)
    told = stream(world, fact.name)
    rest = {"deletion": last_deletion(told), "bind": last_bind(told)}
    if ref is None:
        return {"exists": False, "assumed": False, "node": None, **rest}
    task = world.flow.tasks.get(ref.uid)
    held = task is not None and task.phase in HOLDS
    return {
        "exists": True,
        "uid": ref.uid,
        "node": ref.node_name or (None if held else _placed(world, fact.name)),
        "phase": ref.phase,
        "assumed": held,
        "requests": _in_units(ref.request),
        **rest,
    }


def _placed(world: World, key: str) -> str | None:
    """The node that the flow knows the pod to be on where no watch has shown it yet."""
    return next((name for name, info in world.flow.cache.nodes.items() if key in info.tasks), None)


def _job(world: World, fact: Fact) -> dict[str, Any]:
    job = world.flow.cache.jobs.get(fact.name)
    if job is None:
        return {"exists": False, "tasks": []}
    group = job.pod_group
    ready = job.ready_task_num
    return {
        "exists": True,
        "podgroup_uid": group.metadata.uid if group is not None else None,
        "min_member": job.min_available,
        "ready": (ready >= job.min_available, ready),
        "tasks": [task.key for task in job.tasks.values()],
        "min_resources": _quantities(group.spec.min_resources if group is not None else None),
    }


# --- volumes ------------------------------------------------------------------------------------------------------


def _pvc(world: World, fact: Fact) -> dict[str, Any]:
    claim, assumed = world.flow.cache.claims.get(fact.name), fact.name in world.flow.claims.assumed
    if claim is None:
        return {"exists": False, "assumed": assumed}
    annotations = claim.metadata.annotations or {}
    return {
        "exists": True,
        "phase": claim.status.phase,
        "volume": claim.spec.volume_name or None,
        "selected_node": annotations.get(SELECTED_NODE),
        "assumed": assumed,
        "annotations_kept": list(annotations),
    }


def _pv(world: World, fact: Fact) -> dict[str, Any]:
    found, assumed = world.flow.cache.volumes.get(fact.name), fact.name in world.flow.volumes.assumed
    if found is None:
        return {"exists": False, "assumed": assumed}
    return {
        "exists": True,
        "phase": found.status.phase,
        "volume": found.metadata.name,
        "selected_node": (found.metadata.annotations or {}).get(SELECTED_NODE),
        "assumed": assumed,
        "annotations_kept": list(found.metadata.annotations or {}),
    }


# --- the flow -----------------------------------------------------------------------------------------------------


def _queue(world: World, fact: Fact) -> dict[str, Any]:
    keys = world.flow.queue(fact.name)
    return {"length": len(keys), "keys": keys}


def _api(world: World, fact: Fact) -> dict[str, Any]:
    count = count_of(world.calls, *str(fact.name).split())
    return {"calls": count, "max_calls": count}


# --- the record ---------------------------------------------------------------------------------------------------


def _resume(world: World, fact: Fact) -> dict[str, Any]:
    asked = world.watched.get(fact.name, [])
    following = world.next_watch(fact.name)
    return {"watch_resource_version": following, "never": [*asked, following]}


def _world(world: World, fact: Fact) -> dict[str, Any]:
    return {"broken": list(world.broken)}


_FINDERS: dict[str, Callable[[World, Fact], dict[str, Any]]] = {
    "node": _node,
    "nodes": _nodes,
    "pods": _pods,
    "pod": _pod,
    "pvc": _pvc,
    "pv": _pv,
    "job": _job,
    "queue": _queue,
    "api": _api,
    "outcome": outcome,
    "bind_attempts": attempts,
    "why": why_fact,
    "events_of": events_of,
    "gap": gap,
    "resume": _resume,
    "history": history,
    "invariant": invariant,
    "world": _world,
}


__all__ = ["World", "differences"]
