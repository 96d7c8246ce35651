"""A task of the flow as it leaves, and what all changes of the flow have in common: keys, delays, intents.

Owns how a task is dropped from every queue and index. Must not know which event it leaves by. Called by the modules
`fold_*` beside it and by `vcledger.scheduler.fold`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vcledger.scheduler.assumed import Assumption
from vcledger.scheduler.inputs import Noticed
from vcledger.scheduler.state import SECOND, Flow, FlowTask
from volcano.events.base import Recorded

Apply = Callable[[Flow, Recorded, Any], None]
"""What an event does to the state."""

LOST = "AnswerLost"
"""`ResyncQueued.reason` of a bind whose outcome is not known."""


def watch_key(kind: str, key: str) -> str:
    """The key of `Flow.watchers`."""
    return f"{kind}/{key}"


def micros(seconds: float) -> int:
    """Seconds as microseconds."""
    return round(seconds * SECOND)


def unwatch(flow: Flow, task: FlowTask) -> None:
    """The task waits for no volume or claim any more."""
    flow.waiting.pop(task.uid, None)
    for name in watched(task):
        users = flow.watchers.get(name)
        if users is not None:
            users.pop(task.uid, None)
            if not users:
                del flow.watchers[name]


def watched(task: FlowTask) -> list[str]:
    """The keys under which a task that waits is told of its volumes and claims."""
    names = [watch_key("PersistentVolume", one.volume) for one in task.bindings]
    names += [watch_key("PersistentVolume", one.volume) for one in task.shared if one.volume]
    claims = [one.claim for some in (task.bindings, task.provisions, task.shared) for one in some]
    return names + [watch_key("PersistentVolumeClaim", claim) for claim in claims]


def drop(flow: Flow, task: FlowTask) -> None:
    """The flow has nothing more to do with the task."""
    flow.bind_queue.pop(task.uid, None)
    flow.coming.pop(task.key, None)
    unwatch(flow, task)
    flow.tasks.pop(task.uid, None)
    forget_resync(flow, resync_key(task.namespace, task.name, task.uid))


def resync_key(namespace: str, name: str, uid: str) -> str:
    """The key of a resync: the pod's, with its UID, as another pod may get the name."""
    return f"{namespace}/{name}/{uid}"


def forget_resync(flow: Flow, key: str) -> None:
    """Take a resync out that nobody works on; one that is out ends with its answer."""
    item = flow.resync.items.get(key)
    if item is not None and not item.taken:
        flow.resync.forget(key)


def assumed_of(flow: Flow, task: FlowTask) -> tuple[list[str], list[str]]:
    """(volumes, claims) that are still assumed for the task, in the order in which they are written."""
    volumes = [one.volume for one in task.bindings if _is_for(flow.volumes.assumed.get(one.volume), task.uid)]
    claims = [one.claim for one in task.provisions if _is_for(flow.claims.assumed.get(one.claim), task.uid)]
    return volumes, claims


def _is_for(assumption: Assumption[Any] | None, uid: str) -> bool:
    return assumption is not None and assumption.uid == uid


def end(flow: Flow, task: FlowTask, position: int) -> None:
    """A task that is over: out of the queues, and out of the flow unless something is assumed for it."""
    flow.bind_queue.pop(task.uid, None)
    unwatch(flow, task)
    if any(assumed_of(flow, task)):
        flow.notices.append(Noticed("ended", task.uid, position))
    else:
        drop(flow, task)


def close_intent(flow: Flow, intent: int | None) -> None:
    """The intent at that position has its answer."""
    if intent is not None:
        flow.intents.pop(intent, None)
