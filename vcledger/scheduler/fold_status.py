"""What the events about written statuses and made queues do to the state, and what tells whose a PodGroup is.

Owns these changes. Must not know decisions. Called by `vcledger.scheduler.fold`, and by the table of
`vcledger.scheduler.fold_events`.
"""

from __future__ import annotations

from projections.cache.state import PodRef
from vcledger.scheduler.fold_tasks import Apply
from vcledger.scheduler.state import SECOND, Flow, Intent
from vcledger.scheduler.written import OUT, REFUSED, ROOT, TAKEN, Making, Written, key_of
from volcano.events import status
from volcano.events.base import DomainEvent, Recorded
from volcano.objects.scheduling import VolcanoJob

Succeeded = status.PodGroupUpdateSucceeded | status.QueueUpdateSucceeded
Failed = status.PodGroupUpdateFailed | status.QueueUpdateFailed


def group_words(event: status.PodGroupUpdateRequested) -> str:
    """What a PodGroup's status says, less times and the session's name."""
    counts = f"{event.phase} {event.running} {event.succeeded} {event.failed}"
    return f"{counts} {event.condition} {event.reason} {event.message}"


def queue_words(event: status.QueueUpdateRequested) -> str:
    """What a queue's status says to be allocated."""
    return " ".join(f"{name}={amount!r}" for name, amount in sorted(event.allocated.items()))


def _group_requested(flow: Flow, at: Recorded, event: status.PodGroupUpdateRequested) -> None:
    flow.intents[at.position] = Intent("group", at.uid, event.job)
    _out(flow, key_of("PodGroup", event.job), at.uid, group_words(event), event.phase, event.sent_resource_version)
    if event.phase in ("", "Pending"):
        flow.admitted.pop(event.job, None)


def _queue_requested(flow: Flow, at: Recorded, event: status.QueueUpdateRequested) -> None:
    flow.intents[at.position] = Intent("queue", at.uid, at.name)
    _out(flow, key_of("Queue", at.name), at.uid, queue_words(event), "", event.sent_resource_version)


def _out(flow: Flow, key: str, uid: str, words: str, phase: str, version: str) -> None:
    """A status is sent. How often it was refused before is known until one is taken."""
    earlier = flow.written.get(key)
    failures = earlier.failures if earlier is not None and earlier.uid == uid else 0
    flow.written[key] = Written(uid, words, phase, OUT, version, failures)


def _held(flow: Flow, at: Recorded) -> tuple[str, Written | None]:
    """The key of what was written, and that, unless the object is another by now."""
    key = key_of(at.kind, f"{at.namespace}/{at.name}" if at.namespace else at.name)
    held = flow.written.get(key)
    return key, held if held is not None and held.uid == at.uid else None


def _succeeded(flow: Flow, at: Recorded, event: Succeeded) -> None:
    if event.intent is not None:
        flow.intents.pop(event.intent, None)
    key, held = _held(flow, at)
    if held is not None:
        flow.written[key] = held._replace(state=TAKEN, version=event.new_resource_version, failures=0)


def _failed(flow: Flow, at: Recorded, event: Failed) -> None:
    """It is decided anew by a later session, when the time that the event says is over."""
    if event.intent is not None:
        flow.intents.pop(event.intent, None)
    key, held = _held(flow, at)
    if held is not None:
        until = flow.now + round(event.delay_seconds * SECOND)
        flow.written[key] = held._replace(state=REFUSED, failures=event.attempt, until=until, code=event.code)


def _create_requested(flow: Flow, at: Recorded, event: status.QueueCreateRequested) -> None:
    flow.intents[at.position] = Intent("make", "", event.queue)
    earlier = flow.making.get(event.queue)
    flow.making[event.queue] = Making(failures=earlier.failures if earlier is not None else 0)


def _created(flow: Flow, at: Recorded, event: status.QueueCreateSucceeded) -> None:
    if event.intent is not None:
        flow.intents.pop(event.intent, None)
    flow.making[event.queue] = Making(TAKEN)


def _create_failed(flow: Flow, at: Recorded, event: status.QueueCreateFailed) -> None:
    if event.intent is not None:
        flow.intents.pop(event.intent, None)
    until = flow.now + round(event.delay_seconds * SECOND)
    flow.making[event.queue] = Making(REFUSED, event.attempt, until)


def begin(flow: Flow) -> None:
    """A process begins: the queues that it needs are looked for anew."""
    for name, held in list(flow.making.items()):
        if held.state == TAKEN:
            del flow.making[name]


# --- observations -------------------------------------------------------------------------------------------------


def object_gone(flow: Flow, kind: str, key: str, uid: str, *, seen: bool) -> None:
    """A PodGroup or queue is no more. `seen`: a watch saw it go, while this process ran, so whoever deleted it meant
    it; else a list found it gone."""
    if kind == "Queue" and seen and key in (ROOT, flow.config.cache.default_queue):
        flow.making[key] = Making(TAKEN)
    held = flow.written.get(key_of(kind, key))
    if held is not None and held.uid == uid:
        del flow.written[key_of(kind, key)]


def see_stranger(flow: Flow, key: str, old: PodRef | None, new: PodRef | None) -> None:
    """A pod of another scheduler that names a PodGroup makes that no concern of ours, bound or not."""
    names = flow.config.cache.scheduler_names
    before = old.job if old is not None and old.scheduler_name not in names else ""
    after = new.job if new is not None and new.scheduler_name not in names else ""
    if before and before != after:
        members = flow.others.get(before, {})
        members.pop(key, None)
        if not members:
            flow.others.pop(before, None)
    if after:
        flow.others.setdefault(after, {})[key] = None


def see_job(flow: Flow, uid: str, job: VolcanoJob | None) -> None:
    """A Volcano Job says which scheduler its pods will be for. None: it is gone."""
    if job is None:
        flow.job_schedulers.pop(uid, None)
    else:
        flow.job_schedulers[uid] = job.spec.scheduler_name


APPLY: dict[type[DomainEvent], Apply] = {
    status.PodGroupUpdateRequested: _group_requested,
    status.PodGroupUpdateSucceeded: _succeeded,
    status.PodGroupUpdateFailed: _failed,
    status.QueueUpdateRequested: _queue_requested,
    status.QueueUpdateSucceeded: _succeeded,
    status.QueueUpdateFailed: _failed,
    status.QueueCreateRequested: _create_requested,
    status.QueueCreateSucceeded: _created,
    status.QueueCreateFailed: _create_failed,
}
"""Event to what it does."""


__all__ = ["APPLY", "begin", "group_words", "object_gone", "queue_words", "see_job", "see_stranger"]
