"""The history of a pod or group up to a moment: each state it was in, each try, and what changed between tries.

Owns reading that from the log, within bounds. Must not know how a state is told (`projections.diagnosis.history`).
Called by `cli.why` and users' code:

    history(ledger, answer)        # after answer = why(ledger, ...)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from projections.diagnosis.history import (
    History,
    Passage,
    Seen,
    Span,
    Try,
    group_message,
    lasting,
    passages,
    reworded,
    scheduled_message,
    time_in_states,
)
from projections.diagnosis.model import Explanation
from projections.diagnosis.views import claim_names, group_name
from projections.diagnosis.words import counted, some
from vcledger import codec
from vcledger.at import format_time, parse_time
from volcano.events.base import Recorded
from volcano.events.binding import BindFailed, BindSucceeded
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified
from volcano.events.volume import VolumeBindingFailed
from volcano.objects.core import PersistentVolumeClaim, Pod
from volcano.objects.scheduling import PodGroup

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

READ_MAX = 2_000
"""How many of the last observations of an object are read."""

TRIES_MAX, EVALUATED_MAX = 20, 6
"""How many tries are told (the first and the last ones), and how many of them are evaluated again."""

BETWEEN_MAX = 20_000
"""Over how many log positions what else changed is looked for; beyond, only nodes are."""


class _Said(NamedTuple):
    """Something that was written about a try."""

    time: int
    position: int
    message: str


def history(
    ledger: Ledger, answer: Explanation, *, cluster: str | None = None, evaluate: bool = False, **ways: Any
) -> History:
    """The history of an answer's subject up to its position. `evaluate`: our own verdict at some of the tries too, the
    last ones; `ways` are then those of `vcledger.why.why` (model, config, rules)."""
    chosen = ledger.cluster(cluster)
    of_group = not answer.subject.startswith("Pod ")
    seen, said = _observed(ledger, answer, chosen, of_group)
    moment = answer.asked or answer.time
    until = parse_time(moment) if moment else (seen[-1].time if seen else 0)
    found = passages(seen, of_group=of_group)
    spans = lasting(found, until)
    tries, left_out = _tries(ledger, answer, chosen, said, found)
    if evaluate:
        tries = _evaluated(ledger, answer, chosen, tries, ways)
    return History(
        spans=[
            Span(
                state=one.state,
                since=format_time(one.time),
                to=format_time(end) if end is not None else None,
                seconds=round(seconds, 3),
                position=one.position,
            )
            for one, end, seconds in spans
        ],
        tries=tries,
        time_in_state_seconds=time_in_states(spans),
        left_out=left_out,
    )


# --- what was observed --------------------------------------------------------------------------------------------


def _observed(ledger: Ledger, answer: Explanation, cluster: str, of_group: bool) -> tuple[list[Seen], list[_Said]]:
    """The observations of the subject, its group and its claims in the order of time, and what was written of tries."""
    seen: list[Seen] = []
    said: list[_Said] = []
    names = [answer.group] if answer.group else []
    if not of_group:
        events = _stream(ledger, cluster, "Pod", answer.namespace, answer.name, answer.at)
        own = [one for one in events if one.uid == answer.uid]
        seen += [_pod(one) for one in own if isinstance(one.event, ObjectAdded | ObjectModified | ObjectDeleted)]
        said += _spoken(own, scheduled_message) + _failures(own)
        last = next((one.object for one in reversed(seen) if isinstance(one.object, Pod)), None)
        if last is not None:
            names = [f"{answer.namespace}/{group_name(last)}"] if group_name(last) else []
            seen += _claims(ledger, cluster, last, answer.at)
    for key in names:
        namespace, _, name = key.partition("/")
        events = _stream(ledger, cluster, "PodGroup", namespace, name, answer.at)
        seen += [Seen(one.observed_at, one.position, "group", _group(one)) for one in events if _watched(one)]
        if of_group:
            said += _spoken(events, group_message)
    return sorted(seen, key=lambda one: (one.time, one.position)), sorted(said)


def _stream(ledger: Ledger, cluster: str, kind: str, namespace: str, name: str, to: int) -> list[Recorded]:
    """The last events of the streams of a name, oldest first."""
    found = ledger.recorded(
        cluster=cluster, kinds=kind, namespace=namespace, name=name, to=to, late=False, reverse=True, limit=READ_MAX
    )
    return list(found)[::-1]


def _watched(one: Recorded) -> bool:
    return isinstance(one.event, ObjectAdded | ObjectModified | ObjectDeleted)


def _object(one: Recorded) -> Any:
    """The object of an observation; None once it is gone."""
    return one.event.object if isinstance(one.event, ObjectAdded | ObjectModified) else None


def _pod(one: Recorded) -> Seen:
    found = _object(one)
    return Seen(one.observed_at, one.position, "pod", found if isinstance(found, Pod) else None)


def _group(one: Recorded) -> PodGroup | None:
    found = _object(one)
    return found if isinstance(found, PodGroup) else None


def _claims(ledger: Ledger, cluster: str, pod: Pod, to: int) -> list[Seen]:
    """The observations of the pod's claims."""
    seen: list[Seen] = []
    for name, _ in claim_names(pod):
        for one in _stream(ledger, cluster, "PersistentVolumeClaim", pod.metadata.namespace, name, to):
            if _watched(one):
                found = _object(one)
                claim = found if isinstance(found, PersistentVolumeClaim) else None
                seen.append(Seen(one.observed_at, one.position, "claim", claim, name))
    return seen


def _spoken(events: Sequence[Recorded], message_of: Any) -> list[_Said]:
    """Each change of what the condition says."""
    found: list[_Said] = []
    before = ""
    for one in events:
        thing = _object(one)
        message = message_of(thing) if thing is not None else ""
        if message and message != before:
            found.append(_Said(one.observed_at, one.position, message))
        before = message
    return found


def _failures(events: Sequence[Recorded]) -> list[_Said]:
    """Binds, and tries to bind volumes, that have events of their own."""
    found = []
    for one in events:
        event = one.event
        if isinstance(event, BindFailed):
            text = f"bind to {event.node} failed: {event.code or 'no answer'} {event.message or event.reason}".rstrip()
            found.append(_Said(one.observed_at, one.position, text))
        elif isinstance(event, VolumeBindingFailed):
            found.append(_Said(one.observed_at, one.position, f"binding its volumes failed: {event.message}"))
        elif isinstance(event, BindSucceeded):
            found.append(_Said(one.observed_at, one.position, f"bound to {event.node}"))
    return found


# --- tries --------------------------------------------------------------------------------------------------------


def _tries(
    ledger: Ledger, answer: Explanation, cluster: str, said: Sequence[_Said], found: Sequence[Passage]
) -> tuple[list[Try], int]:
    """The tries, the first and the last ones where there are many, each with what changed since the one before."""
    chosen = list(said) if len(said) <= TRIES_MAX else [*said[: TRIES_MAX // 4], *said[-(TRIES_MAX - TRIES_MAX // 4) :]]
    tries: list[Try] = []
    before: _Said | None = None
    for one in chosen:
        changed = [reworded(before.message, one.message), *_between(ledger, cluster, before, one)] if before else []
        tries.append(
            Try(
                time=format_time(one.time),
                position=one.position,
                state=_state_at(found, one),
                message=one.message,
                changed=changed,
            )
        )
        before = one
    return tries, len(said) - len(chosen)


def _state_at(found: Sequence[Passage], one: _Said) -> str:
    """The state in which a try left the subject."""
    return next((each.state for each in reversed(found) if (each.time, each.position) <= (one.time, one.position)), "")


def _between(ledger: Ledger, cluster: str, before: _Said, after: _Said) -> list[str]:
    """What else changed between two tries: nodes that came and went, pods that left nodes or came there, queues."""
    low, high = sorted((before.position, after.position))
    if high - low < 2:
        return []
    told = _nodes_between(ledger, cluster, low, high)
    if high - low <= BETWEEN_MAX:
        told += _pods_between(ledger, cluster, low, high)
    return told


def _nodes_between(ledger: Ledger, cluster: str, low: int, high: int) -> list[str]:
    came: dict[str, None] = {}
    went: dict[str, None] = {}
    types = ("ObjectAdded", "ObjectDeleted")
    for one in ledger.store.read(cluster=cluster, kinds="Node", types=types, after=low, to=high - 1, late=False):
        (went if one.gone else came)[one.name] = None
    return [f"nodes {word}: {some(list(names))}" for word, names in (("added", came), ("removed", went)) if names]


def _pods_between(ledger: Ledger, cluster: str, low: int, high: int) -> list[str]:
    """Pods that ended or left, pods that came onto nodes, and queues that were changed."""
    ended: dict[str, None] = {}
    bound: dict[str, None] = {}
    queues: dict[str, None] = {}
    kinds = ("Pod", "Queue")
    for one in ledger.recorded(
        cluster=cluster, kinds=kinds, types=codec.OBJECT_TYPES, after=low, to=high - 1, late=False
    ):
        if one.kind == "Queue":
            queues[one.name] = None
            continue
        pod = _object(one)
        if pod is None or (isinstance(pod, Pod) and pod.status.phase in {"Succeeded", "Failed"}):
            ended[one.uid] = None
        elif isinstance(pod, Pod) and pod.spec.node_name and pod.status.phase in {"", "Pending"}:
            bound[one.uid] = None
    told = [f"{counted(len(ended), 'pod')} ended or gone"] if ended else []
    told += [f"{counted(len(bound), 'pod')} bound"] if bound else []
    return told + ([f"{counted(len(queues), 'queue')} updated: {some(list(queues))}"] if queues else [])


def _evaluated(ledger: Ledger, answer: Explanation, cluster: str, tries: list[Try], ways: dict[str, Any]) -> list[Try]:
    """The last tries with our own verdict at their position."""
    from vcledger.why import NoSuchPod, why, why_job

    ask = why if answer.subject.startswith("Pod ") else why_job
    found = list(tries)
    for index in range(max(0, len(tries) - EVALUATED_MAX), len(tries)):
        one = tries[index]
        try:
            then = ask(
                ledger, answer.namespace, answer.name, position=one.position, cluster=cluster, changes=False, **ways
            )
        except NoSuchPod:
            continue
        found[index] = Try(
            time=one.time,
            position=one.position,
            state=one.state,
            message=one.message,
            changed=one.changed,
            verdict=then.verdict,
        )
    return found


__all__ = ["history"]
