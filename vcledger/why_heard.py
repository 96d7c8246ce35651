"""What the log has of the pods of one name, and what was said about a subject.

Owns the reading of both. Must not know cases nor verdicts. Called by `vcledger.why_cases`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from eventstore.types import KNOWN_NAMES
from projections.diagnosis.case import Attempt, Earlier
from projections.diagnosis.claims import pod_claims, selected_node
from projections.diagnosis.model import Said
from projections.diagnosis.views import ClusterView, GroupView
from vcledger import codec
from vcledger.at import format_time
from vcledger.why_asked import EVENTS_READ_AT_ONCE, EVENTS_READ_MAX, Question
from vcledger.why_late import contradictions, later_than
from vcledger.why_said import OBSERVATIONS, events_about, group_conditions, pod_conditions
from volcano.events.base import Recorded
from volcano.events.binding import BindFailed, BindSucceeded, PodConditionPatchFailed
from volcano.events.observation import ObjectDeleted
from volcano.events.volume import VolumeBindingFailed, VolumesBound
from volcano.objects.core import PersistentVolumeClaim, Pod
from volcano.objects.scheduling import PodGroup

ATTEMPT_TYPES = ("BindSucceeded", "BindFailed", "VolumesBound", "VolumeBindingFailed", "PodConditionPatchFailed")
EARLIER_SHOWN = 3


class Stream(NamedTuple):
    """What the log has of the pods of one name up to the position: the observations of the last of them, newest first,
    the attempts on it, oldest first, the deletions of those before it, the last first, and what was observed of it by
    then and came into the log late, newest first."""

    history: list[Recorded]
    attempts: list[Attempt]
    earlier: list[Recorded]
    late: list[Recorded]

    @property
    def told(self) -> list[Recorded]:
        """All observations of the pod, what came into the log late among them, newest first."""
        return [*(one for one in self.late if one.uid == self.last.uid), *self.history]

    @property
    def last(self) -> Recorded:
        return self.history[0]

    @property
    def gone(self) -> bool:
        return isinstance(self.last.event, ObjectDeleted)


def stream_of(question: Question, kind: str = "Pod") -> Stream | None:
    """The streams of that name, read once; None when no such object was observed. Late attempts count when they were
    observed by then."""
    where: dict[str, Any] = {
        "cluster": question.cluster,
        "kinds": kind,
        "namespace": question.namespace,
        "name": question.name,
    }
    told = list(
        question.ledger.recorded(
            **where,
            to=question.position,
            types=(*codec.OBJECT_TYPES, *ATTEMPT_TYPES),
            reverse=True,
            limit=EVENTS_READ_MAX,
            batch=EVENTS_READ_AT_ONCE,
        )
    )
    observed = [one for one in told if isinstance(one.event, OBSERVATIONS) and not one.late]
    if not observed:
        return None
    uid = observed[0].uid
    late = question.ledger.recorded(**where, after=question.position, types=ATTEMPT_TYPES, late=True)
    until = question.time or 0
    tried = [one for one in (*told, *(one for one in late if one.observed_at <= until)) if one.uid in {uid, ""}]
    attempts = [attempt for attempt in map(_attempt, tried) if attempt is not None]
    return Stream(
        history=[one for one in observed if one.uid == uid],
        attempts=sorted(attempts, key=lambda one: (one.time, one.position)),
        earlier=[one for one in observed if one.uid != uid and isinstance(one.event, ObjectDeleted)][:EARLIER_SHOWN],
        late=later_than(observed[0], question.ledger, question.cluster, question.time),
    )


def _attempt(recorded: Recorded) -> Attempt | None:
    event = recorded.event
    time, position, known = format_time(recorded.observed_at), recorded.position, KNOWN_NAMES[recorded.known]
    if isinstance(event, BindSucceeded):
        return Attempt("bind", True, time, position, event.node, event.code, known=known)
    if isinstance(event, BindFailed):
        return Attempt("bind", False, time, position, event.node, event.code, event.reason, event.message, known=known)
    if isinstance(event, VolumesBound):
        return Attempt("volumes", True, time, position, event.node, known=known)
    if isinstance(event, VolumeBindingFailed):
        thing = f"{event.kind} {event.name}".strip()
        return Attempt(
            "volumes",
            False,
            time,
            position,
            event.node,
            event.code,
            event.reason,
            event.message,
            thing,
            event.timed_out,
            known,
        )
    if isinstance(event, PodConditionPatchFailed):
        return Attempt("condition", False, time, position, "", event.code, event.reason, event.error, known=known)
    return None


class Heard(NamedTuple):
    """What was said about the subject, and about the pods that had its name before."""

    said: list[Said]
    earlier: list[Earlier]


def heard_of(
    question: Question,
    stream: Stream | None,
    pod: Pod | None,
    group: GroupView | None,
    cluster: ClusterView,
    job: str = "",
) -> Heard:
    """Conditions first, then Events about the pod, its PodGroup, its claims and its Volcano Job (`job`: the uid)."""
    said = pod_conditions(stream.told) if stream is not None else []
    uids = [pod.metadata.uid] if pod is not None else []
    if group is not None and group.pod_group is not None:
        said += group_conditions(*_latest_group(question, group.pod_group, group.position))
        uids.append(group.pod_group.metadata.uid)
    if pod is not None:
        uids += [state.claim.metadata.uid for state in pod_claims(pod, cluster).states]
        uids += _problem_claims(pod, cluster)
    uids.append(job)
    before = [one.uid for one in stream.earlier] if stream is not None else []
    events = events_about(question.ledger, question.cluster, question.position, [*uids, *before], question.time)
    told = dict.fromkeys(uid for uid in uids if uid)
    said += [one for uid in told for one in events.get(uid, ())]
    earlier = [_earlier(one, events.get(one.uid, ())) for one in (stream.earlier if stream is not None else ())]
    return Heard(said, earlier)


def pod_of(recorded: Recorded) -> Pod:
    """The pod of an observation; an empty one where its payload could not be read."""
    event = recorded.event
    return event.object if isinstance(event, OBSERVATIONS) and isinstance(event.object, Pod) else Pod()


def _late_group(question: Question, position: int) -> tuple[list[Recorded], Recorded | None]:
    """What came into the log late of the PodGroup that was observed at a position, newest first, and that one."""
    key, known = (position, question.time), question.views.late_groups
    if key not in known:
        found = question.ledger.store.get([position]) if position else []
        last = codec.recorded(found[0]) if found else None
        late = later_than(last, question.ledger, question.cluster, question.time) if last is not None else []
        known[key] = late, last
    return known[key]


def _latest_group(question: Question, pod_group: PodGroup, position: int) -> tuple[PodGroup, int]:
    """The PodGroup as last observed by then, late or not, and where the log has it."""
    for late in _late_group(question, position)[0]:
        if isinstance(late.event, OBSERVATIONS) and isinstance(late.event.object, PodGroup):
            return late.event.object, late.position
    return pod_group, position


def late_facts(question: Question, stream: Stream | None, group: GroupView | None) -> list[str]:
    """Where what came into the log late says otherwise than the cache: of the pod, of its PodGroup."""
    found = contradictions(stream.late, stream.last) if stream is not None else []
    if group is not None:
        late, last = _late_group(question, group.position)
        if last is not None:
            found += contradictions(late, last)
    return found


def _earlier(gone: Recorded, said: Sequence[Said]) -> Earlier:
    """An earlier pod of the name, with the eviction that an Event tells of."""
    evictions = [one.message for one in said if one.reason in {"Evict", "Evicted", "Preempted"}]
    return Earlier(
        uid=gone.uid,
        gone_at=format_time(gone.observed_at),
        position=gone.position,
        evicted=evictions[-1] if evictions else "",
        known=KNOWN_NAMES[gone.known],
    )


def _problem_claims(pod: Pod, cluster: ClusterView) -> list[str]:
    keys = [problem.claim for problem in pod_claims(pod, cluster).problems]
    return [cluster.claims[key].metadata.uid for key in keys if key in cluster.claims]


def claim_since(question: Question, pod: Pod, cluster: ClusterView) -> dict[str, str]:
    """For each claim that is being provisioned, since when it has its selected node."""
    since: dict[str, str] = {}
    for state in pod_claims(pod, cluster).states:
        if not state.selected_node:
            continue
        for recorded in question.ledger.recorded(
            to=question.position,
            cluster=question.cluster,
            kinds="PersistentVolumeClaim",
            namespace=state.claim.metadata.namespace,
            name=state.name,
            types=codec.OBJECT_TYPES,
            late=False,
            reverse=True,
            limit=EVENTS_READ_MAX,
            batch=EVENTS_READ_AT_ONCE,
        ):
            event = recorded.event
            claim = event.object if isinstance(event, OBSERVATIONS) else None
            if not isinstance(claim, PersistentVolumeClaim) or selected_node(claim) != state.selected_node:
                break
            since[state.key] = format_time(recorded.observed_at)
    return since


__all__ = ["Heard", "Stream", "claim_since", "heard_of", "late_facts", "pod_of", "stream_of"]
