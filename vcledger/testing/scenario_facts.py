"""The facts of a scenario: what is so, beside what is expected.

Owns how each kind of fact is found in the ledger, the flow's state and the calls that were made, and how it is
compared. Must not know how the script was run. Called by `vcledger.testing.scenario`.

Quantities are compared as numbers, lists of names without their order, times as moments. `pod`, `pvc` and `pv` say what
the API server has told, `assumed` whether the flow holds something for them beside that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec

from projections.cache.state import NodeInfo
from projections.diagnosis.model import Explanation
from projections.diagnosis.text import lines, plain
from vcledger.at import format_time
from vcledger.codec import OBJECT_TYPES
from vcledger.ledger import Ledger
from vcledger.scheduler.state import Flow
from vcledger.scheduler.transitions import Phase
from vcledger.sources.times import micros_or_none
from vcledger.testing.invariants import check_ledger
from vcledger.testing.scenario_api import Call, count_of
from vcledger.testing.scenario_format import Fact
from vcledger.why import NoSuchPod, why
from vcledger.why_said import event_count, event_times
from volcano.events import binding, observation, resync, volume
from volcano.events.base import Recorded
from volcano.objects import quantity
from volcano.objects.core import Event
from volcano.objects.meta import Quantity, ResourceMap
from volcano.objects.resource import ATTACH_PREFIX, PODS, Resource

SELECTED_NODE = "volume.kubernetes.io/selected-node"
INFERRED = 1

HOLDS = frozenset(Phase) - {Phase.OUT, Phase.BOUND, Phase.SEEN, Phase.ENDED}
"""Phases in which the flow holds a node for the task that the API server has not confirmed."""

ABSENT = "absent"
"""What a fact finds where the object that it is about does not exist."""


class World(NamedTuple):
    """Where facts are found. `calls`: the requests made so far; `watched`: the versions of the watches asked for, by
    resource; `next_watch`: what the next one would carry; `kinds`: the kind of a resource; `broken`: what did not hold
    in a simulated world."""

    ledger: Ledger
    cluster: str
    flow: Flow
    calls: Sequence[Call]
    watched: dict[str, list[str]]
    next_watch: Callable[[str], str | None]
    kinds: Callable[[str], str]
    broken: Sequence[str] = ()


def differences(world: World, fact: Fact) -> list[str]:
    """What of a fact is not so, each as `about name: key is X, expected Y`."""
    found = _FINDERS[fact.about](world, fact)
    if fact.about in ("nodes", "pods"):
        return _differ(fact.about, "names", found["names"], fact.name)
    name = f"{fact.about} {fact.name}"
    if found.get("exists") is False and fact.keys.get("exists", True) is not False:
        given = [key for key in fact.keys if key not in found]
        if given or fact.keys.get("exists"):
            return [f"{name}: does not exist"]
    return [text for key, wanted in fact.keys.items() for text in _differ(name, key, found.get(key, ABSENT), wanted)]


def _differ(name: str, key: str, found: Any, wanted: Any) -> list[str]:
    check = _CHECKS.get(key, _equal)
    return [f"{name}: {text}" for text in check(key, found, wanted)]


# --- comparing ----------------------------------------------------------------------------------------------------


def _equal(key: str, found: Any, wanted: Any) -> list[str]:
    if isinstance(found, list) and isinstance(wanted, list):
        found, wanted = sorted(map(str, found)), sorted(map(str, wanted))
    same = found == wanted and isinstance(found, bool) == isinstance(wanted, bool)
    return [] if same else [f"{key} is {found!r}, expected {wanted!r}"]


def _amounts(key: str, found: Any, wanted: Any) -> list[str]:
    """Only the resources named."""
    if not isinstance(found, dict) or not isinstance(wanted, dict):
        return _equal(key, found, wanted)
    wrong = []
    for name, amount in wanted.items():
        has = found.get(name, Fraction(0))
        if has != exactly(amount):
            wrong.append(f"{key} of {name} is {_number(has)}, expected {amount}")
    return wrong


def exactly(amount: Quantity) -> Fraction:
    """A quantity without any rounding."""
    parsed = quantity.parse(amount)
    return Fraction(parsed.mantissa) * Fraction(10) ** parsed.scale


def _number(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else str(float(value))


def _at_most(key: str, found: Any, wanted: Any) -> list[str]:
    return [] if found <= wanted else [f"{key}: there were {found}, at most {wanted} are expected"]


def _all_in(key: str, found: Any, wanted: Any) -> list[str]:
    return [f"{key}: {text!r} is not in {found!r}" for text in wanted if text not in found]


def _none_in(key: str, found: Any, wanted: Any) -> list[str]:
    return [f"{key}: {text!r} is in {found!r}" for text in wanted if text in found]


def _each_in(key: str, found: Any, wanted: Any) -> list[str]:
    wrong = []
    for node, text in wanted.items():
        reasons = found.get(node, [])
        if not any(text in reason for reason in reasons):
            wrong.append(f"{key}: nothing of {node} says {text!r}: {reasons!r}")
    return wrong


def _within(key: str, found: Any, wanted: Any) -> list[str]:
    return [f"{key}: one took {seconds} s, at most {wanted} are expected" for seconds in found if not seconds <= wanted]


def _each(key: str, found: Any, wanted: Any) -> list[str]:
    """Of each name that is expected, and no other must be there."""
    if not isinstance(wanted, dict):
        return _equal(key, found, wanted)
    names, uids = found
    use = names if set(wanted) <= set(names) else uids
    extra = [name for name in use if name not in wanted]
    wrong = [f"{key} of {name} is {use.get(name, ABSENT)!r}, expected {count!r}" for name, count in wanted.items()
             if use.get(name) != count]  # fmt: skip
    return wrong + [f"{key}: {name} is not expected" for name in extra]


def _moment(key: str, found: Any, wanted: Any) -> list[str]:
    same = micros_or_none(found) == micros_or_none(wanted)
    return [] if same else [f"{key} is {found!r}, expected {wanted!r}"]


def _count_or_list(key: str, found: list[str], wanted: Any) -> list[str]:
    return _equal(key, found if isinstance(wanted, list) else len(found), wanted)


def _broken(key: str, found: Any, wanted: Any) -> list[str]:
    """Each thing that is broken, where none is expected to be."""
    if not wanted:
        return [f"broken: {text}" for text in found]
    if wanted is True:
        return [] if found else ["broken is nothing, expected something"]
    return _equal(key, found, wanted)


def _truth_or_count(key: str, found: Any, wanted: Any) -> list[str]:
    return _equal(key, found[0] if isinstance(wanted, bool) else found[1], wanted)


_CHECKS: dict[str, Callable[[str, Any, Any], list[str]]] = {
    "idle": _amounts,
    "used": _amounts,
    "requests": _amounts,
    "min_resources": _amounts,
    "max_calls": _at_most,
    "must_mention": _all_in,
    "must_not_mention": _none_in,
    "never": _none_in,
    "annotations_kept": _all_in,
    "first_cause": lambda key, found, wanted: _all_in(key, found, [wanted]),
    "per_node": _each_in,
    "each_ended_within_seconds": _within,
    "counts": _each,
    "first": _moment,
    "last": _moment,
    "incarnations": _count_or_list,
    "deleted": _count_or_list,
    "changes": _count_or_list,
    "ready": _truth_or_count,
    "broken": _broken,
}


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
    told = _stream(world, fact.name)
    rest = {"deletion": _deletion(told), "bind": _bind(told)}
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


def _stream(world: World, key: str, kinds: str | None = "Pod") -> list[Recorded]:
    """Everything that the ledger has of the objects of a name."""
    namespace, _, name = key.rpartition("/")
    return list(world.ledger.recorded(cluster=world.cluster, kinds=kinds, namespace=namespace, name=name))


def _deletion(told: Sequence[Recorded]) -> str | None:
    last = next((one for one in reversed(told) if isinstance(one.event, _OBSERVED)), None)
    if last is None or not isinstance(last.event, observation.ObjectDeleted):
        return None
    return "inferred" if last.known == INFERRED else "observed"


_OBSERVED = (observation.ObjectAdded, observation.ObjectModified, observation.ObjectDeleted)


def _bind(told: Sequence[Recorded]) -> str:
    """What is known of the last bind that went out."""
    state = "none"
    for one in told:
        event = one.event
        if isinstance(event, binding.BindRequested):
            state = "unknown"
        elif isinstance(event, binding.BindSucceeded):
            state = "succeeded"
        elif isinstance(event, binding.BindFailed):
            state = "unknown" if event.answer_lost else "failed"
        elif isinstance(event, volume.VolumeBindingFailed):
            state = "failed"
    return state


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


def _outcome(world: World, fact: Fact) -> dict[str, Any]:
    told = _stream(world, fact.name)
    found: str | None = None
    for one in told:
        event = one.event
        if isinstance(event, binding.BindSucceeded):
            found = "succeeded-answer-lost" if event.answer_lost else "succeeded"
        elif isinstance(event, binding.BindFailed) and not event.answer_lost:
            found = "lost-to-another" if event.bound_to and event.bound_to != event.node else "failed"
        elif isinstance(event, volume.VolumeBindingFailed):
            found = "failed"
        elif isinstance(event, resync.ResyncSucceeded) and not event.found and found == "failed":
            found = "pod-gone"
        elif isinstance(event, resync.ResyncSucceeded) and event.node and found == "failed":
            found = "lost-to-another"
    return {"bind": found, "events": _reasons(world, fact.name)}


def _reasons(world: World, key: str) -> list[str]:
    """The reasons of the Events that were written about the pod, each once."""
    reasons: dict[str, None] = {}
    for call in world.calls:
        written = world_event(call.request)
        if written is not None and written[0] == key:
            reasons.setdefault(written[1])
    return list(reasons)


_event_decoder = msgspec.json.Decoder(Event)


def world_event(request: Any) -> tuple[str, str] | None:
    """(namespace/name, reason) of the Event that a request writes; None when it writes none."""
    if getattr(request, "kind", "") != "Event" or not getattr(request, "body", b""):
        return None
    event = _event_decoder.decode(request.body)
    about = event.involved_object or event.regarding
    return (f"{about.namespace}/{about.name}", event.reason) if about is not None else None


class Attempt(NamedTuple):
    """One way of a task through the bind flow. Times in microseconds; `ended` None: not yet."""

    began: int
    ended: int | None


def attempts_of(told: Sequence[Recorded]) -> list[Attempt]:
    """The attempts to bind a pod, from when it was handed over until what came of it was known."""
    found: list[Attempt] = []
    for one in told:
        event = one.event
        if isinstance(event, binding.BindQueued):
            found.append(Attempt(one.observed_at, None))
        elif isinstance(event, binding.BindRequested) and (not found or found[-1].ended is not None):
            if event.attempt > len(found):
                found.append(Attempt(one.observed_at, None))
        elif isinstance(event, binding.BindSucceeded | binding.BindFailed | volume.VolumeBindingFailed):
            lost = isinstance(event, binding.BindFailed) and event.answer_lost
            if found and found[-1].ended is None and not lost:
                found[-1] = Attempt(found[-1].began, one.observed_at)
    return found


def _attempts(world: World, fact: Fact) -> dict[str, Any]:
    found = attempts_of(_stream(world, fact.name))
    took = [(one.ended - one.began) / 1e6 if one.ended is not None else float("inf") for one in found]
    return {"count": len(found), "each_ended_within_seconds": took}


# --- the record ---------------------------------------------------------------------------------------------------


def _why(world: World, fact: Fact) -> dict[str, Any]:
    namespace, _, name = str(fact.name).partition("/")
    try:
        answer: Explanation = why(world.ledger, namespace, name, cluster=world.cluster, model="exact")
    except NoSuchPod as error:
        return {"must_mention": str(error), "must_not_mention": str(error), "first_cause": "", "per_node": {}}
    text = plain(lines(answer, full=True))
    return {
        "must_mention": text,
        "must_not_mention": text,
        "fits_on": answer.fits_on,
        "per_node": {row.node: row.reasons for row in answer.nodes},
        "first_cause": answer.causes[0] if answer.causes else "",
    }


def _events_of(world: World, fact: Fact) -> dict[str, Any]:
    """The Events about any object of that name, each as last seen."""
    latest: dict[str, Event] = {}
    for one in world.ledger.recorded(cluster=world.cluster, kinds="Event", types=OBJECT_TYPES):
        if not isinstance(one.event, observation.ObjectAdded | observation.ObjectModified):
            continue
        event: Any = one.event.object
        about = event.involved_object or event.regarding
        if about is not None and f"{about.namespace}/{about.name}" == fact.name:
            latest[one.uid] = event
    times = [event_times(event) for event in latest.values()]
    return {
        "distinct": len(latest),
        "counts": (
            {event.metadata.name: event_count(event) for event in latest.values()},
            {uid: event_count(event) for uid, event in latest.items()},
        ),
        "first": _extreme(min, [first for first, _ in times]),
        "last": _extreme(max, [last for _, last in times]),
    }


def _extreme(choose: Callable[[Sequence[int]], int], texts: Sequence[str | None]) -> str | None:
    moments = [moment for moment in map(micros_or_none, texts) if moment is not None]
    return format_time(choose(moments)) if moments else None


def _gap(world: World, fact: Fact) -> dict[str, Any]:
    kind = world.kinds(fact.name)
    gaps = list(world.ledger.recorded(cluster=world.cluster, kinds=kind, types="GapRecorded", reverse=True, limit=1))
    if not gaps or not isinstance(gaps[0].event, observation.GapRecorded):
        return {}
    event = gaps[0].event
    return {
        "from_resource_version": event.from_resource_version,
        "to_resource_version": event.to_resource_version,
    }


def _resume(world: World, fact: Fact) -> dict[str, Any]:
    asked = world.watched.get(fact.name, [])
    following = world.next_watch(fact.name)
    return {"watch_resource_version": following, "never": [*asked, following]}


def _history(world: World, fact: Fact) -> dict[str, Any]:
    """What the ledger has of all objects that had the name."""
    told = [one for one in _stream(world, fact.name) if isinstance(one.event, _OBSERVED)]
    if not told:
        told = [one for one in _stream(world, fact.name, None) if isinstance(one.event, _OBSERVED)]
    last: Any = told[-1].event if told else None
    return {
        "incarnations": list(dict.fromkeys(one.uid for one in told)),
        "deleted": list(dict.fromkeys(one.uid for one in told if isinstance(one.event, observation.ObjectDeleted))),
        "changes": [str(one.position) for one in told if isinstance(one.event, observation.ObjectModified)],
        "last_seen_resource_version": last.object.metadata.resource_version if last is not None else None,
    }


def _invariant(world: World, fact: Fact) -> dict[str, Any]:
    """Whether the ledger has broken it so far."""
    verdicts = check_ledger(world.ledger, cluster=world.cluster)
    return {
        "broken": [
            f"at {one.position}: {one.text}" for one in verdicts if one.broken and fact.name == one.invariant.name
        ]
    }


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
    "outcome": _outcome,
    "bind_attempts": _attempts,
    "why": _why,
    "events_of": _events_of,
    "gap": _gap,
    "resume": _resume,
    "history": _history,
    "invariant": _invariant,
    "world": _world,
}


__all__ = ["Attempt", "World", "attempts_of", "differences"]
