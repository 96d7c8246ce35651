"""What a session's close writes: the status of PodGroups, and what queues' statuses say to be allocated.

Owns when such a status is news, its patch, and what follows from the answer. Must not know how a session decides what a
status should say (`vcledger.scheduler.session.closing`). Called by `vcledger.scheduler.cycle`, and with answers by
`vcledger.scheduler.decide`.

Source: Volcano's jobUpdater (isPodGroupStatusUpdated: times and the session's id are no difference),
Session.UpdatePodGroupCondition, updateQueueStatus, ConvertRes2ResList. Volcano sends the whole object; here a patch
names what it changes, for the version that was seen, so that nothing of others is written back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from vcledger.scheduler.bodies import rfc3339
from vcledger.scheduler.decision import RECORDED, UNANSWERED, Hand, failure_of, subject_at, wish_of
from vcledger.scheduler.fold_status import group_words, queue_words
from vcledger.scheduler.requests import Answer, Patch
from vcledger.scheduler.session.closing import UNSCHEDULABLE, Closing
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.session.model import SessionJob, SessionQueue, SessionTask, Vector
from vcledger.scheduler.state import Flow, Intent
from vcledger.scheduler.volume_binder import version_in
from vcledger.scheduler.written import REFUSED, ROOT, is_ours, key_of, may_write, unseen, wait_seconds
from volcano.events.base import Subject
from volcano.events.status import (
    PodGroupUpdateFailed,
    PodGroupUpdateRequested,
    PodGroupUpdateSucceeded,
    QueueUpdateFailed,
    QueueUpdateRequested,
    QueueUpdateSucceeded,
)
from volcano.objects.meta import ObjectMeta
from volcano.objects.quantity import QuantityInvalid, canonical, exact_value
from volcano.objects.resource import ATTACH_PREFIX, PODS
from volcano.objects.scheduling import PodGroupCondition, PodGroupStatus

_GROUPS = key_of("PodGroup", "")


# --- PodGroups ----------------------------------------------------------------------------------------------------


def write_groups(hand: Hand, mirror: Mirror, closings: Iterable[Closing], session: str) -> None:
    """The status of each PodGroup that says something else. `session`: the id that its conditions name."""
    for closing in closings:
        job = mirror.groups.get(closing.job)
        if job is not None and _differs(job.pod_group.status, closing) and is_ours(hand.flow, job):
            _write_group(hand, mirror, job, closing, session)


def _may_write(hand: Hand, mirror: Mirror, kind: str, key: str, meta: ObjectMeta, words: str) -> bool:
    """Whether a status is to be sent. One that was refused a while ago is looked at again when its time is over."""
    key = key_of(kind, key)
    held = hand.flow.written.get(key)
    if may_write(held, meta.uid, meta.resource_version, words, hand.now):
        return True
    if held is not None and held.state == REFUSED:
        mirror.postponed[key] = held.until
    return False


def _differs(seen: PodGroupStatus, closing: Closing) -> bool:
    if (seen.phase, seen.running, seen.succeeded, seen.failed) != closing[1:5]:
        return True
    held = next((one for one in seen.conditions or () if one.type == closing.condition), None)
    if not closing.condition:
        return False
    return held is None or (held.status, held.reason, held.message) != ("True", closing.reason, closing.message)


def _write_group(hand: Hand, mirror: Mirror, job: SessionJob, closing: Closing, session: str) -> None:
    meta = job.pod_group.metadata
    event = PodGroupUpdateRequested(
        job=job.uid,
        phase=closing.phase,
        running=closing.running,
        succeeded=closing.succeeded,
        failed=closing.failed,
        condition=closing.condition,
        reason=closing.reason,
        message=closing.message,
        transition_id=session if closing.condition else "",
        sent_resource_version=meta.resource_version,
    )
    if not _may_write(hand, mirror, "PodGroup", job.uid, meta, group_words(event)):
        return
    subject = Subject("PodGroup", job.namespace, job.name, meta.uid)
    position = hand.add(subject, event, cause=job.position or None)
    body = _group_patch(job, event, rfc3339(hand.now))
    hand.effect(position, Patch("PodGroup", job.namespace, job.name, body, plain=True))
    if event.condition == UNSCHEDULABLE:
        hand.tell(subject, position, UNSCHEDULABLE, event.message, warning=True)


def _group_patch(job: SessionJob, event: PodGroupUpdateRequested, now: str) -> bytes:
    """A merge patch; a count of none is left out of the status, as Volcano leaves it out."""
    counts = {"running": event.running, "succeeded": event.succeeded, "failed": event.failed}
    status: dict[str, Any] = {"phase": event.phase, **{name: count or None for name, count in counts.items()}}
    if event.condition:
        status["conditions"] = _conditions(job.pod_group.status.conditions or [], event, now)
    meta = job.pod_group.metadata
    return msgspec.json.encode(
        {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": status}
    )


def _conditions(seen: list[PodGroupCondition], event: PodGroupUpdateRequested, now: str) -> list[dict[str, str]]:
    """The conditions there are, the one of the event's type in its old place or behind all others
    (UpdatePodGroupCondition)."""
    made = PodGroupCondition(event.condition, "True", event.reason, event.message, event.transition_id, now)
    kept = [made if one.type == event.condition else one for one in seen]
    if made not in kept:
        kept.append(made)
    return [_condition(one) for one in kept]


def _condition(one: PodGroupCondition) -> dict[str, str]:
    fields = {
        "type": one.type,
        "status": one.status,
        "transitionID": one.transition_id,
        "lastTransitionTime": one.last_transition_time or "",
        "reason": one.reason,
        "message": one.message,
    }
    return {name: value for name, value in fields.items() if value}


def session_id(seed: int, started: int, now: int) -> str:
    """What conditions name a session by, in the form of a UUID; the same for the same session."""
    text = hashlib.sha256(f"{seed}/{started}/{now}".encode()).hexdigest()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:32]))


# --- queues -------------------------------------------------------------------------------------------------------


def write_queues(hand: Hand, mirror: Mirror, taken: Iterable[SessionTask], evicted: Iterable[SessionTask]) -> None:
    """What is allocated in each queue, where its status says something else: at the session's beginning, with the tasks
    that it has given nodes and without those that it has told to go. Each queue's is part of its parent's."""
    if not hand.flow.config.alone:
        return
    held: dict[str, Vector] = {name: queue.allocated for name, queue in mirror.queues.items()}
    for tasks, sign in ((taken, 1.0), (evicted, -1.0)):
        for task in tasks:
            name = mirror.groups[task.job].queue
            held[name] = held[name] + sign * task.request
    for name, allocated in sorted(_with_parts(mirror, held).items(), key=lambda item: item[0]):
        _write_queue(hand, mirror, mirror.queues[name], mirror.resources.amounts(allocated))


def _with_parts(mirror: Mirror, own: Mapping[str, Vector]) -> dict[str, Vector]:
    """What queues hold with all that is part of them. Where there is no queue root, none is part of another."""
    whole = dict(own)
    for name, allocated in own.items() if ROOT in mirror.queues else ():
        above = name
        for _ in mirror.queues:  # no longer than there are queues, should one be part of itself
            if above == ROOT:
                break
            above = mirror.queues[above].parent or ROOT
            if above not in whole:
                break
            whole[above] = whole[above] + allocated
    return whole


def _write_queue(hand: Hand, mirror: Mirror, queue: SessionQueue, amounts: Mapping[str, float]) -> None:
    meta, seen = queue.queue.metadata, queue.queue.status.allocated
    held = hand.flow.written.get(key_of("Queue", queue.name))
    if not meta.uid or unseen(held, meta.uid, meta.resource_version):
        return  # it is yet to be made, or to be seen
    wanted = {"cpu": _quantity("cpu", 0.0), "memory": _quantity("memory", 0.0)}
    wanted.update((name, _quantity(name, amount)) for name, amount in amounts.items())
    if _same(seen, wanted):
        return
    event = QueueUpdateRequested(allocated=dict(amounts), sent_resource_version=meta.resource_version)
    if not _may_write(hand, mirror, "Queue", queue.name, meta, queue_words(event)):
        return
    position = hand.add(Subject("Queue", "", queue.name, meta.uid), event, cause=queue.position or None)
    gone = dict.fromkeys(name for name in seen or () if name not in wanted)
    patch = {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": {"allocated": {**gone, **wanted}},
    }
    hand.effect(position, Patch("Queue", "", queue.name, msgspec.json.encode(patch), "status", plain=True))


def _quantity(name: str, amount: float) -> str:
    """An amount as the API writes it: bytes in powers of 1,024, what is counted in wholes, else in thousandths."""
    whole = round(amount)
    if name == PODS or name.startswith(ATTACH_PREFIX):
        return canonical(whole)
    if name != "memory":
        return canonical(f"{whole}m")
    power = 0
    while whole and whole % 1024 == 0 and power < len(_BINARY) - 1:
        whole, power = whole // 1024, power + 1
    return f"{whole}{_BINARY[power]}"


_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def _same(seen: Mapping[str, str | int | float] | None, wanted: Mapping[str, str]) -> bool:
    """Whether two lists of resources are the same amounts, however written."""
    if seen is None or seen.keys() != wanted.keys():
        return False
    try:
        return all(
            seen[name] == amount or exact_value(seen[name], -3) == exact_value(amount, -3)
            for name, amount in wanted.items()
        )
    except QuantityInvalid:
        return False


# --- answers ------------------------------------------------------------------------------------------------------


def answered(hand: Hand, position: int, intent: Intent, answer: Answer) -> None:
    """The outcome of a status's patch. What failed is decided anew by a later session, after a while: the patch was
    made for one version of the object, so that one whose answer was lost can do no harm."""
    subject, version = _subject(intent), version_in(answer.body)
    failure = failure_of(answer.code, answer.body) if not answer.ok else None
    if failure is None and intent.kind == "group":
        event: Any = PodGroupUpdateSucceeded(new_resource_version=version, intent=position)
    elif failure is None:
        event = QueueUpdateSucceeded(new_resource_version=version, intent=position)
    else:
        made = PodGroupUpdateFailed if intent.kind == "group" else QueueUpdateFailed
        times, wish = _failures(hand.flow, intent) + 1, wish_of(answer)
        event = made(
            code=failure.code,
            reason=failure.reason,
            message=failure.message,
            answer_lost=answer.code is None,
            intent=position,
            attempt=times,
            delay_seconds=wait_seconds(times, wish),
            retry_after_seconds=wish,
        )
    hand.add(subject, event, cause=position, known=RECORDED)


def orphan(hand: Hand, position: int, intent: Intent) -> None:
    """After a restart: the answer will not come any more, which is no fault of the server's."""
    made = PodGroupUpdateFailed if intent.kind == "group" else QueueUpdateFailed
    event = made(code=0, message=UNANSWERED, answer_lost=True, intent=position, attempt=_failures(hand.flow, intent))
    hand.add(_subject(intent), event, cause=position)


def _failures(flow: Flow, intent: Intent) -> int:
    """How often in a row the status of an intent's object was refused before."""
    held = flow.written.get(key_of("PodGroup" if intent.kind == "group" else "Queue", intent.key))
    return held.failures if held is not None and held.uid == intent.uid else 0


def _subject(intent: Intent) -> Subject:
    if intent.kind == "queue":
        return Subject("Queue", "", intent.key, intent.uid)
    return subject_at("PodGroup", intent.key, intent.uid)


def is_due(mirror: Mirror, now: int) -> bool:
    """Whether a session is to be held for the sake of statuses: for a job that is not in its queue yet, for what has
    changed since the last one, or for what was refused and may be sent again."""
    return bool(mirror.unadmitted or mirror.has_changed or any(until <= now for until in mirror.postponed.values()))


def to_close(mirror: Mirror, now: int) -> dict[str, None]:
    """The jobs whose PodGroups a session has to look at when it closes: those that a session can change, those that
    something has happened to since the last one, and those of which something may be sent again that was refused."""
    due = [key for key, until in mirror.postponed.items() if until <= now]
    for key in due:
        del mirror.postponed[key]
    again = (key.removeprefix(_GROUPS) for key in due if key.startswith(_GROUPS))
    return {**dict.fromkeys([*mirror.waiting, *mirror.unadmitted]), **mirror.take_changed(), **dict.fromkeys(again)}


__all__ = ["answered", "is_due", "orphan", "session_id", "to_close", "write_groups", "write_queues"]
