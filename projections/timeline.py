"""A pod's story: what happened when, told from the observations and events of its streams, one line each.

Owns the telling of a change in words. Must not know the log nor verdicts. Called by `vcledger.why` (for `why --full`)
and by whoever shows the history of a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from volcano.events.base import DomainEvent, Recorded
from volcano.events.binding import BindFailed, BindRequested, BindSucceeded
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified
from volcano.objects.core import Event, PersistentVolumeClaim, Pod
from volcano.objects.scheduling import PodGroup, VolcanoJob

KNOWN = ("recorded", "inferred", "recomputed")
SELECTED_NODE = "volume.kubernetes.io/selected-node"
TEXT_FIELDS_MAX = 6


class StoryLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line: when it was observed (microseconds), where it stands in the log, how it is known, and what happened to
    what. `count` lines of the same text in a row are one, up to `last_position`."""

    time: int
    position: int
    known: str
    about: str
    text: str
    late: bool = False
    count: int = 1
    last_time: int = 0
    last_position: int = 0


def story(events: Iterable[Recorded]) -> list[StoryLine]:
    """The lines of some streams, in the order given (by observed time, then position). An observation that changes
    nothing worth telling gives none."""
    last: dict[tuple[str, str, str, str], Any] = {}
    lines: list[StoryLine] = []
    for recorded in events:
        for text in _told(recorded, last):
            line = StoryLine(
                time=recorded.observed_at,
                position=recorded.position,
                known=KNOWN[recorded.known],
                about=_about(recorded),
                text=text,
                late=recorded.late,
                last_time=recorded.observed_at,
                last_position=recorded.position,
            )
            if lines and (lines[-1].about, lines[-1].text) == (line.about, text):
                lines[-1] = msgspec.structs.replace(
                    lines[-1], count=lines[-1].count + 1, last_time=line.time, last_position=line.position
                )
            else:
                lines.append(line)
    return lines


def _about(recorded: Recorded) -> str:
    event = recorded.event
    if isinstance(event, ObjectAdded | ObjectModified | ObjectDeleted) and isinstance(event.object, Event):
        reference = event.object.involved_object or event.object.regarding
        if reference is not None:
            return f"{reference.kind} {reference.namespace}/{reference.name}"
    name = f"{recorded.namespace}/{recorded.name}" if recorded.namespace else recorded.name
    return f"{recorded.kind} {name}"


def _told(recorded: Recorded, last: dict[tuple[str, str, str, str], Any]) -> list[str]:
    event = recorded.event
    if not isinstance(event, ObjectAdded | ObjectModified | ObjectDeleted):
        return [_domain(event)]
    key = (recorded.kind, recorded.namespace, recorded.name, recorded.uid)
    old, new = last.get(key), event.object
    last[key] = new
    if isinstance(event, ObjectDeleted):
        last.pop(key)
        return (
            []
            if isinstance(new, Event)
            else ["deleted" + (" (inferred: no watch saw it go)" if recorded.known else "")]
        )
    teller = TELLERS.get(type(new))
    if teller is not None:
        return teller(old, new)
    return ["seen"] if old is None else []


def _domain(event: DomainEvent) -> str:
    if isinstance(event, BindRequested):
        return f"bind to {event.node} asked" + (f" by {event.user}" if event.user else "")
    if isinstance(event, BindSucceeded):
        return f"bound to {event.node} ({event.code})"
    if isinstance(event, BindFailed):
        return f"bind to {event.node} failed: {event.code or 'no answer'} {event.message or event.reason}".rstrip()
    shown = [
        f"{name}={value}"
        for name, value in msgspec.structs.asdict(event).items()
        if value not in (None, "", (), [], {}, 0, False) and isinstance(value, str | int | float)
    ]
    return f"{type(event).__name__} {', '.join(shown[:TEXT_FIELDS_MAX])}".rstrip()


def tell_pod(old: Pod | None, new: Pod) -> list[str]:
    """What changed of a pod: node, phase, PodScheduled, gates, deletion."""
    lines = []
    if old is None:
        scheduler = f" for {new.spec.scheduler_name}" if new.spec.scheduler_name else ""
        lines.append(f"created{scheduler}")
    before = old or Pod()
    gates = [gate.name for gate in new.spec.scheduling_gates or ()]
    if old is None and gates:
        lines.append(f"gated by {', '.join(gates)}")
    elif old is not None and before.spec.scheduling_gates and not gates:
        lines.append("its scheduling gates were taken off")
    if new.spec.node_name and new.spec.node_name != before.spec.node_name:
        lines.append(f"on node {new.spec.node_name}")
    condition, earlier = _scheduled(new), _scheduled(before)
    if condition != earlier and condition is not None and not (condition[0] == "True" and new.spec.node_name):
        status, reason, message = condition
        lines.append(f"PodScheduled={status} {reason}: {message}".rstrip(": "))
    if new.status.phase != before.status.phase and not (old is None and new.status.phase == "Pending"):
        lines.append(f"phase {new.status.phase}")
    if new.metadata.deletion_timestamp and not before.metadata.deletion_timestamp:
        lines.append("marked for deletion")
    return lines


def _scheduled(pod: Pod) -> tuple[str, str, str] | None:
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled":
            return condition.status, condition.reason, condition.message
    return None


def tell_group(old: PodGroup | None, new: PodGroup) -> list[str]:
    """What changed of a PodGroup: phase, conditions, minimum, queue."""
    lines = [f"created for queue {new.spec.queue or '(none)'}, minMember {new.spec.min_member}"] if old is None else []
    before = old or PodGroup()
    if old is not None and (new.spec.queue, new.spec.min_member) != (before.spec.queue, before.spec.min_member):
        lines.append(f"now for queue {new.spec.queue}, minMember {new.spec.min_member}")
    if new.status.phase != before.status.phase and new.status.phase:
        lines.append(f"phase {new.status.phase}")
    known = {(one.type, one.status, one.message) for one in before.status.conditions or ()}
    for condition in new.status.conditions or ():
        if (condition.type, condition.status, condition.message) not in known:
            lines.append(f"{condition.type}={condition.status} {condition.reason}: {condition.message}")
    return lines


def tell_claim(old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> list[str]:
    """What changed of a claim: phase, volume, selected node."""
    lines = ["created"] if old is None else []
    before = old or PersistentVolumeClaim()
    chosen = (new.metadata.annotations or {}).get(SELECTED_NODE, "")
    if chosen != (before.metadata.annotations or {}).get(SELECTED_NODE, ""):
        lines.append(f"selected node {chosen}" if chosen else "its selected node was taken away")
    if new.spec.volume_name != before.spec.volume_name and new.spec.volume_name:
        lines.append(f"volume {new.spec.volume_name}")
    if new.status.phase != before.status.phase and new.status.phase:
        lines.append(f"phase {new.status.phase}")
    return lines


def tell_job(old: VolcanoJob | None, new: VolcanoJob) -> list[str]:
    """What changed of a Volcano Job: its phase."""
    lines = [f"created for queue {new.spec.queue or '(none)'}"] if old is None else []
    before = old.status.state.phase if old is not None and old.status.state is not None else ""
    state = new.status.state
    if state is not None and state.phase and state.phase != before:
        lines.append(f"phase {state.phase}" + (f" ({state.reason})" if state.reason else ""))
    return lines


def tell_event(old: Event | None, new: Event) -> list[str]:
    """An Event, once each time it is seen."""
    source = new.source or new.deprecated_source
    by = (source.component if source is not None else "") or new.reporting_component or new.reporting_controller
    return [f"{by or 'somebody'} says {new.reason}: {new.message or new.note}"]


TELLERS: dict[type, Callable[[Any, Any], list[str]]] = {
    Pod: tell_pod,
    PodGroup: tell_group,
    VolcanoJob: tell_job,
    PersistentVolumeClaim: tell_claim,
    Event: tell_event,
}
"""Which change of which kind is worth a line."""
