"""The facts of a scenario that the ledger and the calls tell: outcomes and attempts of binds, `why`, Events, gaps,
histories.

Owns how each of them is found, and the `World` in which all facts are. Must not know how found and expected are
compared, nor how the script was run. Called by `vcledger.testing.scenario_facts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from projections.diagnosis.model import Explanation
from projections.diagnosis.text import lines, plain
from vcledger.at import format_time
from vcledger.codec import OBJECT_TYPES
from vcledger.ledger import Ledger
from vcledger.scheduler.state import Flow
from vcledger.sources.times import micros_or_none
from vcledger.testing.invariants import check_ledger
from vcledger.testing.scenario_api import Call
from vcledger.testing.scenario_format import Fact
from vcledger.why import NoSuchPod, why
from vcledger.why_said import event_count, event_times
from volcano.events import binding, observation, resync, volume
from volcano.events.base import Recorded
from volcano.objects.core import Event

INFERRED = 1


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


def stream(world: World, key: str, kinds: str | None = "Pod") -> list[Recorded]:
    """Everything that the ledger has of the objects of a name."""
    namespace, _, name = key.rpartition("/")
    return list(world.ledger.recorded(cluster=world.cluster, kinds=kinds, namespace=namespace, name=name))


def last_deletion(told: Sequence[Recorded]) -> str | None:
    """How the objects last told of went: `observed`, `inferred` from a list, or None where they are there."""
    last = next((one for one in reversed(told) if isinstance(one.event, _OBSERVED)), None)
    if last is None or not isinstance(last.event, observation.ObjectDeleted):
        return None
    return "inferred" if last.known == INFERRED else "observed"


_OBSERVED = (observation.ObjectAdded, observation.ObjectModified, observation.ObjectDeleted)


def last_bind(told: Sequence[Recorded]) -> str:
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


def outcome(world: World, fact: Fact) -> dict[str, Any]:
    """What came of the last bind, and the reasons of the Events about the pod."""
    told = stream(world, fact.name)
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


def attempts(world: World, fact: Fact) -> dict[str, Any]:
    """How many attempts to bind the pod there were, and how long each took: seconds, infinite for one not yet ended."""
    found = attempts_of(stream(world, fact.name))
    took = [(one.ended - one.began) / 1e6 if one.ended is not None else float("inf") for one in found]
    return {"count": len(found), "each_ended_within_seconds": took}


def why_fact(world: World, fact: Fact) -> dict[str, Any]:
    """What `why` answers, in the model `exact`: its text, the nodes that fit, what each node says, the first cause."""
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


def events_of(world: World, fact: Fact) -> dict[str, Any]:
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


def gap(world: World, fact: Fact) -> dict[str, Any]:
    """The versions between which the last gap of the resource lies; nothing where it has none."""
    kind = world.kinds(fact.name)
    gaps = list(world.ledger.recorded(cluster=world.cluster, kinds=kind, types="GapRecorded", reverse=True, limit=1))
    if not gaps or not isinstance(gaps[0].event, observation.GapRecorded):
        return {}
    event = gaps[0].event
    return {
        "from_resource_version": event.from_resource_version,
        "to_resource_version": event.to_resource_version,
    }


def history(world: World, fact: Fact) -> dict[str, Any]:
    """What the ledger has of all objects that had the name."""
    told = [one for one in stream(world, fact.name) if isinstance(one.event, _OBSERVED)]
    if not told:
        told = [one for one in stream(world, fact.name, None) if isinstance(one.event, _OBSERVED)]
    last: Any = told[-1].event if told else None
    return {
        "incarnations": list(dict.fromkeys(one.uid for one in told)),
        "deleted": list(dict.fromkeys(one.uid for one in told if isinstance(one.event, observation.ObjectDeleted))),
        "changes": [str(one.position) for one in told if isinstance(one.event, observation.ObjectModified)],
        "last_seen_resource_version": last.object.metadata.resource_version if last is not None else None,
    }


def invariant(world: World, fact: Fact) -> dict[str, Any]:
    """Whether the ledger has broken it so far."""
    verdicts = check_ledger(world.ledger, cluster=world.cluster)
    return {
        "broken": [
            f"at {one.position}: {one.text}" for one in verdicts if one.broken and fact.name == one.invariant.name
        ]
    }
