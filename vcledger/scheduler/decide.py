"""decide(flow, input, now): what follows from an input, as events and effects. Pure: it changes nothing.

Owns the dispatch. Must not know the log. Called by `vcledger.runtime.loop`, which appends the events, folds them, takes
the inputs in `then` next, and hands out the effects after the commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from vcledger.scheduler import (
    allocate,
    binder,
    cycle,
    evictor,
    first_queues,
    housekeeping,
    resyncer,
    statuses,
    volume_binder,
)
from vcledger.scheduler.decision import INFERRED, NOTHING, RECORDED, Decision, Draft, Hand
from vcledger.scheduler.inputs import (
    Allocate,
    Answered,
    AssumeTask,
    BindTask,
    CleanupFire,
    DiscardJob,
    FlushTasks,
    Input,
    Listed,
    Noted,
    Noticed,
    Observed,
    Restarted,
    ScheduleTask,
    SetBindErrorHandler,
    Ticked,
)
from vcledger.scheduler.requests import Bind, CallHandler, Patch
from vcledger.scheduler.state import Flow
from vcledger.scheduler.transitions import Phase
from volcano.events.base import DomainEvent, Subject
from volcano.events.observation import ListCompleted, ObjectAdded, ObjectDeleted, ObjectModified
from volcano.objects import kinds

_EVENTS: dict[str, Callable[[Any], DomainEvent]] = {
    "ADDED": lambda part: ObjectAdded(object=part),
    "MODIFIED": lambda part: ObjectModified(object=part),
    "DELETED": lambda part: ObjectDeleted(object=part),
}


class UnreadableObject(ValueError):
    """An observation that is no object of its kind, or has no name or UID. Nothing is decided on it."""


def decide(flow: Flow, given: Input, now: int) -> Decision:
    """Events, effects and further inputs. `now` in microseconds, never before `flow.now`. UnreadableObject for an
    observation that can't be one."""
    if isinstance(given, Observed):
        return Decision([_observed(given)], [], [])
    decider = _DECIDERS.get(type(given))
    if decider is None:
        return NOTHING
    hand = Hand(flow, now)
    decider(hand, given)
    return hand.decision()


def _observed(given: Observed) -> Draft:
    make, decoder = _EVENTS.get(given.type), kinds.DECODERS.get(given.kind)
    if make is None or decoder is None:
        raise UnreadableObject(f"{given.type} of {given.kind} is no observation")
    try:
        part = decoder.decode(given.object_json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableObject(f"{given.kind}: {error}") from error
    meta = part.metadata
    if not meta.name or not meta.uid:
        raise UnreadableObject(f"{given.kind} {meta.name}: no name or no uid")
    reference = getattr(part, "involved_object", None) or getattr(part, "regarding", None)
    return Draft(
        Subject(given.kind, meta.namespace, meta.name, meta.uid),
        make(part),
        INFERRED if given.inferred else RECORDED,
        None,
        None,
        given.object_json,
        given.type,
        meta.resource_version,
        reference.uid if reference is not None else "",
    )


def _listed(hand: Hand, given: Listed) -> None:
    event = ListCompleted(
        resource=kinds.BY_NAME[given.kind].full_resource,
        resource_version=given.resource_version,
        items=given.items_count,
        relist=given.relist,
    )
    hand.add(Subject(given.kind), event, cause=None, known=RECORDED)


def _noted(hand: Hand, given: Noted) -> None:
    hand.add(Subject(given.kind), given.event, cause=None, known=RECORDED)


# --- time ---------------------------------------------------------------------------------------------------------


def _ticked(hand: Hand, given: Ticked) -> None:
    """Everything that is due: clean-ups, nodes, the bind queue, checks of volumes, reads."""
    flow, now = hand.flow, hand.now
    for key in flow.cleanup.due(now):
        housekeeping.clean_up(hand, key)
    for name in flow.node_sync.due(now):
        if name in flow.unreadable:
            housekeeping.refuse_node(hand, Noticed("refused", name, 0, flow.unreadable[name]))
        else:
            housekeeping.sync_node(hand, name, "known", None)
    if not flow.synced:
        return
    if flow.bind_queue and flow.flush_due() <= now:
        binder.flush(hand, whole=True)
    period = flow.config.check_microseconds
    for uid, since in flow.waiting.items():
        if (now - since) // period > (max(given.since, since) - since) // period:
            volume_binder.check(hand, flow.tasks[uid], timed=True)
    for key in flow.doubt_queue.due(now):
        volume_binder.ask(hand, key)
    for key in flow.resync.due(now):
        resyncer.ask(hand, key)


def _noticed(hand: Hand, given: Noticed) -> None:
    flow = hand.flow
    task = flow.tasks.get(given.key)
    if given.what == "node":
        housekeeping.sync_node(hand, given.key, given.detail, given.position)
    elif given.what == "refused":
        housekeeping.refuse_node(hand, given)
    elif given.what == "job":
        housekeeping.queue_cleanup(hand, given)
    elif given.what == "recovered":
        housekeeping.recovered(hand)
    elif given.what == "lost":
        housekeeping.lost_with_pod(hand, given)
    elif given.what == "going":
        evictor.going(hand, given)
    elif given.what == "left":
        evictor.left(hand, given)
    elif given.what == "flush":
        if flow.synced:
            binder.flush(hand, whole=given.key == "whole")
    elif task is None:
        return
    elif given.what == "ended" and task.phase is Phase.ENDED:
        binder.revert(hand, task, "PodOver", "the pod is gone, over, or bound elsewhere", given.position)
    elif given.what == "changed" and task.phase is Phase.WAITING:
        volume_binder.check(hand, task, timed=False)
    elif given.what == "seen" and task.phase is Phase.SEEN:
        binder.settle_seen(hand, task, given.position)


# --- answers ------------------------------------------------------------------------------------------------------


def _answered(hand: Hand, given: Answered) -> None:
    """What came of an effect. Of an intent that is closed already (the answer came twice, or after a restart) nothing
    follows, nor of Events written for people."""
    flow, position, request = hand.flow, given.effect.intent, given.effect.request
    intent = flow.intents.get(position)
    if intent is None:
        return
    if intent.kind == "bind" and isinstance(request, Bind):
        binder.answered(hand, position, intent, given.answer, request.node)
    elif intent.kind == "condition":
        if isinstance(request, Patch):
            binder.condition_answered(hand, position, intent, request, given.answer)
    elif intent.kind == "mark":
        if isinstance(request, Patch):
            evictor.mark_answered(hand, position, intent, request, given.answer)
    elif intent.kind == "evict":
        evictor.answered(hand, position, intent, given.answer)
    elif intent.kind == "resync":
        resyncer.answered(hand, position, intent, given.answer)
    elif intent.kind == "handler":
        if isinstance(request, CallHandler):
            resyncer.handler_answered(hand, position, intent, request, given.answer)
    elif intent.kind in ("group", "queue"):
        statuses.answered(hand, position, intent, given.answer)
    elif intent.kind == "make":
        first_queues.answered(hand, position, intent, given.answer)
    elif intent.kind == "ask":
        volume_binder.doubt_answered(hand, position, intent, given.answer)
    else:
        volume_binder.answered(hand, position, intent, given.answer)


# --- commands -----------------------------------------------------------------------------------------------------


def _flush(hand: Hand, given: FlushTasks) -> None:
    if allocate.bind(hand, given.pods, given.node):
        hand.then.append(Noticed("flush", "whole", hand.flow.position))


def _bind(hand: Hand, given: BindTask) -> None:
    allocate.bind(hand, (given.pod,), given.node)


_DECIDERS: dict[type[Input], Callable[[Hand, Any], None]] = {
    Listed: _listed,
    Noted: _noted,
    Ticked: _ticked,
    Noticed: _noticed,
    Answered: _answered,
    AssumeTask: lambda hand, given: allocate.assume(hand, given.pod, given.node),
    BindTask: _bind,
    FlushTasks: _flush,
    DiscardJob: lambda hand, given: allocate.discard(hand, given.job, given.reason),
    ScheduleTask: lambda hand, given: allocate.schedule(hand, given.pod),
    Allocate: lambda hand, given: cycle.run_session(hand),
    CleanupFire: lambda hand, given: housekeeping.clean_up(hand, given.key),
    SetBindErrorHandler: lambda hand, given: resyncer.set_handler(hand, given.pod, given.handler),
    Restarted: lambda hand, given: housekeeping.restart(hand, given.snapshot),
}


__all__ = ["UnreadableObject", "decide"]
