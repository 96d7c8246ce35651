"""What the scheduler and the controllers wrote about a pod: conditions and Events, each with its place in the log.

Owns reading them, with the logical count and the first and last time whatever form the Event has. Must not know
verdicts. Called by `vcledger.why`.

An Event's count may stand in `count`, `series.count` or `deprecatedCount`, its times in
`firstTimestamp`/`lastTimestamp`, `eventTime` and `series.lastObservedTime`, or the deprecated pair; any may be null or
zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from eventstore.types import KNOWN_NAMES
from projections.diagnosis.model import Said
from vcledger.at import format_time
from vcledger.codec import OBJECT_TYPES
from volcano.events.base import Recorded
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified
from volcano.objects.core import Event, Pod
from volcano.objects.scheduling import PodGroup

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

OBSERVATIONS = (ObjectAdded, ObjectModified, ObjectDeleted)


def event_count(event: Event) -> int:
    """How often the event has happened: the first number above zero of its four places, else once."""
    series = event.series.count if event.series is not None else None
    return max(event.count or 0, series or 0, event.deprecated_count or 0, 1)


def event_times(event: Event) -> tuple[str | None, str | None]:
    """First and last time of the event, None where it says neither."""
    first = event.first_timestamp or event.event_time or event.deprecated_first_timestamp
    last = (
        (event.series.last_observed_time if event.series is not None else None)
        or event.last_timestamp
        or event.deprecated_last_timestamp
        or event.event_time
    )
    first = first or event.metadata.creation_timestamp
    return first, last or first


def said_event(event: Event, position: int, known: int) -> Said:
    """An Event as something said."""
    about = event.involved_object or event.regarding
    subject = f"{about.kind} {about.namespace}/{about.name}" if about is not None else ""
    source = event.source or event.deprecated_source
    first, last = event_times(event)
    return Said(
        source="event",
        about=subject,
        by=(source.component if source is not None else "") or event.reporting_component or event.reporting_controller,
        reason=event.reason,
        message=event.message or event.note,
        status=event.type,
        count=event_count(event),
        first=first,
        last=last,
        position=position,
        known=KNOWN_NAMES[known],
    )


def events_about(
    ledger: Ledger, cluster: str, position: int, uids: Sequence[str], until: int | None = None
) -> dict[str, list[Said]]:
    """The Events that speak of these objects, by the object's uid, each once, as last observed at the position, or, of
    those that came into the log late, by the time `until` (microseconds); by first time."""
    wanted = [uid for uid in dict.fromkeys(uids) if uid]
    if not wanted:
        return {}
    latest: dict[str, tuple[str, Said]] = {}
    told = ledger.recorded(cluster=cluster, kinds="Event", about=wanted, types=OBJECT_TYPES)
    by_then = [
        one
        for one in told
        if (one.position <= position if not one.late else until is not None and one.observed_at <= until)
    ]
    for recorded in sorted(by_then, key=lambda one: (one.observed_at, one.position)):
        event = recorded.event
        if isinstance(event, ObjectAdded | ObjectModified) and isinstance(event.object, Event):
            about = event.object.involved_object or event.object.regarding
            uid = about.uid if about is not None else ""
            latest[recorded.uid] = uid, said_event(event.object, recorded.position, recorded.known)
    found: dict[str, list[Said]] = {}
    for uid, said in sorted(latest.values(), key=lambda one: (one[1].first or "", one[1].position)):
        found.setdefault(uid, []).append(said)
    return found


def pod_conditions(history: Sequence[Recorded]) -> list[Said]:
    """The conditions of a pod as last seen, each with the position where it first read so. `history`: the pod's
    observations, newest first."""
    said: list[Said] = []
    if not history:
        return said
    newest = _pod(history[0])
    for condition in (newest.status.conditions if newest is not None else None) or ():
        if condition.type != "PodScheduled":
            continue
        origin = history[0]
        for recorded in history:
            pod = _pod(recorded)
            same = pod is not None and any(
                (one.type, one.status, one.reason, one.message)
                == (condition.type, condition.status, condition.reason, condition.message)
                for one in pod.status.conditions or ()
            )
            if not same:
                break
            origin = recorded
        said.append(
            Said(
                source="condition",
                about=f"Pod {origin.namespace}/{origin.name}",
                by="PodScheduled",
                status=condition.status,
                reason=condition.reason,
                message=condition.message,
                first=condition.last_transition_time,
                last=format_time(origin.observed_at),
                position=origin.position,
                known=KNOWN_NAMES[origin.known],
            )
        )
    return said + (simulated(newest, history[0].position) if newest is not None else [])


FILTER_RESULTS = ("kube-scheduler-simulator.sigs.k8s.io/filter-result", "scheduler-simulator/filter-result")
"""Under these annotations kube-scheduler-simulator writes what each plugin said of each node."""


def simulated(pod: Pod, position: int) -> list[Said]:
    """What kube-scheduler-simulator wrote on a pod: the nodes by the first plugin that refused them, with its words."""
    annotations = pod.metadata.annotations or {}
    written = next((annotations[name] for name in FILTER_RESULTS if annotations.get(name)), "")
    try:
        nodes = msgspec.json.decode(written, type=dict[str, dict[str, str]]) if written else {}
    except msgspec.DecodeError:
        return []
    counts: dict[str, int] = {}
    for plugins in nodes.values():
        refused = [f"{plugin}: {words}" for plugin, words in plugins.items() if words != "passed"]
        word = refused[0] if refused else "passed every filter"
        counts[word] = counts.get(word, 0) + 1
    if not counts:
        return []
    told = "; ".join(f"{count} {word}" for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return [
        Said(
            source="annotation",
            about=f"Pod {pod.metadata.namespace}/{pod.metadata.name}",
            by="kube-scheduler-simulator",
            reason="filter-result",
            message=f"of {len(nodes)} nodes {told}",
            position=position,
        )
    ]


def _pod(recorded: Recorded) -> Pod | None:
    event = recorded.event
    if isinstance(event, OBSERVATIONS) and isinstance(event.object, Pod):
        return event.object
    return None


def group_conditions(group: PodGroup, position: int) -> list[Said]:
    """A PodGroup's conditions as last seen. Scheduled and Unschedulable may both be True: the later transition
    counts."""
    return [
        Said(
            source="condition",
            about=f"PodGroup {group.metadata.namespace}/{group.metadata.name}",
            by=condition.type,
            status=condition.status,
            reason=condition.reason,
            message=condition.message,
            first=condition.last_transition_time,
            last=condition.last_transition_time,
            position=position,
        )
        for condition in sorted(group.status.conditions or (), key=lambda one: one.last_transition_time or "")
    ]
