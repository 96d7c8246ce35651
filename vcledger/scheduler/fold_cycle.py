"""What the events of a cycle do to the flow: placed, taken back, promised, let in, looked at, refused.

Owns these changes. Must not know how a cycle decides. Called by `vcledger.scheduler.fold_events`, by way of the table.
"""

from __future__ import annotations

from projections.diagnosis.views import PlacedPod
from vcledger.scheduler import charges
from vcledger.scheduler.fold_binding import condition_is_news
from vcledger.scheduler.fold_tasks import Apply, drop
from vcledger.scheduler.state import Condition, Flow, FlowTask, Intent
from vcledger.scheduler.transitions import Phase, Step, after
from volcano.events import scheduling
from volcano.events.base import DomainEvent, Recorded


def _allocated(flow: Flow, at: Recorded, event: scheduling.TaskAllocated) -> None:
    phase = after(flow.tasks[at.uid].phase if at.uid in flow.tasks else Phase.OUT, Step.ALLOCATED)
    task = FlowTask(at.uid, at.namespace, at.name, event.job, event.node, phase, cause=at.position)
    flow.tasks[at.uid] = task
    flow.said.pop(at.uid, None)
    flow.said.pop(event.job, None)
    flow.promised.pop(at.uid, None)
    flow.nominated.pop(at.uid, None)
    pod = flow.pods.get(task.key)
    if pod is not None:
        flow.coming[task.key] = PlacedPod.of(pod, event.node)
    charges.hold(flow, task)


def _discarded(flow: Flow, at: Recorded, event: scheduling.AllocationDiscarded) -> None:
    flow.said[event.job] = event.message or event.reason
    for ref in event.tasks:
        task = flow.tasks.get(ref.uid)
        if task is not None:
            task.phase = after(task.phase, Step.DISCARDED)
            charges.release(flow, task)
            drop(flow, task)


def _unschedulable(flow: Flow, at: Recorded, event: scheduling.TaskUnschedulable) -> None:
    flow.said[at.uid] = event.message
    key = f"{at.namespace}/{at.name}"
    if condition_is_news(flow, at.uid, key, event.reason, event.message, flow.now, event.nominated_node):
        flow.intents[at.position] = Intent("condition", at.uid, key)
        earlier = flow.conditions.get(at.uid)
        failures = earlier.failures if earlier is not None else 0
        flow.conditions[at.uid] = Condition(event.reason, event.message, node=event.nominated_node, failures=failures)


def _cycle_started(flow: Flow, at: Recorded, event: scheduling.CycleStarted) -> None:
    flow.cycle = event.cycle


def _enqueued(flow: Flow, at: Recorded, event: scheduling.JobEnqueued) -> None:
    flow.admitted[event.job] = event.podgroup_uid


def _pipelined(flow: Flow, at: Recorded, event: scheduling.TaskPipelined) -> None:
    flow.promised[at.uid] = event.node
    if event.waits_for:
        flow.nominated[at.uid] = event.node


def _considered(flow: Flow, at: Recorded, event: scheduling.JobConsidered) -> None:
    flow.considered[event.job] = considered_words(event)


def considered_words(event: scheduling.JobConsidered) -> str:
    """What is said of a job, to tell news from what was said before."""
    return f"{event.outcome} {event.placed} {event.pipelined} {event.message}"


APPLY: dict[type[DomainEvent], Apply] = {
    scheduling.TaskAllocated: _allocated,
    scheduling.AllocationDiscarded: _discarded,
    scheduling.TaskUnschedulable: _unschedulable,
    scheduling.CycleStarted: _cycle_started,
    scheduling.JobEnqueued: _enqueued,
    scheduling.TaskPipelined: _pipelined,
    scheduling.JobConsidered: _considered,
}
"""Event to what it does."""
