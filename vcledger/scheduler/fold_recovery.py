"""What a restart does to the flow: what was in flight is in doubt, until asking the API server has settled it.

Owns these changes. Must not know how a doubt is asked about. Called by `vcledger.scheduler.fold_events`, by way of the
table.
"""

from __future__ import annotations

from vcledger.scheduler.fold_tasks import Apply, close_intent, micros
from vcledger.scheduler.fold_volumes import doubt_of, one_written, updating
from vcledger.scheduler.inputs import Noticed
from vcledger.scheduler.state import Flow, Intent, Recovery
from volcano.events import recovery
from volcano.events.base import DomainEvent, Recorded


def _recovery_started(flow: Flow, at: Recorded, event: recovery.RecoveryStarted) -> None:
    """Nobody works on anything any more. Reads are simply done again; updates and bindings stay until their doubt is
    queued."""
    for queue in (flow.resync, flow.cleanup, flow.node_sync, flow.doubt_queue):
        queue.give_back(flow.now)
    for position, intent in list(flow.intents.items()):
        if intent.kind in ("resync", "ask", "handler"):
            del flow.intents[position]
    flow.recovery = Recovery(at.position, dict.fromkeys(event.in_doubt))
    if not event.in_doubt:
        flow.notices.append(Noticed("recovered", "", at.position))


def _doubt_queued(flow: Flow, at: Recorded, event: recovery.InDoubtQueued) -> None:
    close_intent(flow, at.causation)
    key = str(event.intent)
    intent = flow.intents.pop(event.intent, None)
    if intent is not None:
        flow.doubts[key] = doubt_of(event.intent, intent)
    flow.doubt_queue.retry(key, flow.now + micros(event.delay_seconds), event.attempt)


def _doubt_asked(flow: Flow, at: Recorded, event: recovery.InDoubtAsked) -> None:
    key = str(event.intent)
    flow.doubt_queue.take(key)
    flow.intents[at.position] = Intent("ask", flow.doubts[key].uid, key)


def _doubt_resolved(flow: Flow, at: Recorded, event: recovery.InDoubtResolved) -> None:
    key = str(event.intent)
    doubt = flow.doubts.pop(key, None)
    if doubt is not None:
        close_intent(flow, at.causation)
        flow.doubt_queue.forget(key)
        task = updating(flow, doubt.uid)
        if task is not None and event.verdict == "happened":
            one_written(flow, task, at.kind, doubt.key, event.resource_version)
    going = flow.recovery
    if going is not None and event.intent in going.in_doubt:
        del going.in_doubt[event.intent]
        going.verdicts[event.verdict] = going.verdicts.get(event.verdict, 0) + 1
        if not going.in_doubt:
            flow.notices.append(Noticed("recovered", "", at.position))


def _recovery_completed(flow: Flow, at: Recorded, event: recovery.RecoveryCompleted) -> None:
    flow.recovery = None


APPLY: dict[type[DomainEvent], Apply] = {
    recovery.RecoveryStarted: _recovery_started,
    recovery.InDoubtQueued: _doubt_queued,
    recovery.InDoubtAsked: _doubt_asked,
    recovery.InDoubtResolved: _doubt_resolved,
    recovery.RecoveryCompleted: _recovery_completed,
}
"""Event to what it does."""
