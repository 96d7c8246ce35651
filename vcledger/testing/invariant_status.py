"""The rule about what is written into the status of PodGroups and queues, and which queues are made: news, with an
outcome. Bindings and deletions have one as well.

Owns this rule. Pure, see `vcledger.testing.invariant_rules`; must not know how the scheduler decides that a status is
news, of which it is the check. Called by `vcledger.testing.invariant_binding`, as a part of the twelfth invariant.
"""

from __future__ import annotations

from typing import NamedTuple

from projections.cache.state import Cache
from vcledger import codec
from vcledger.testing.invariant_rules import ANSWER_GRACE, CHANGED, Rule, own, pod_key
from volcano.events import binding, eviction, observation, recovery, status
from volcano.events.base import DomainEvent, Recorded
from volcano.objects.quantity import QuantityInvalid, exact_value
from volcano.objects.resource import ATTACH_PREFIX, PODS
from volcano.objects.scheduling import PodGroup, Queue

REQUESTED = (status.PodGroupUpdateRequested, status.QueueUpdateRequested)
SUCCEEDED = (status.PodGroupUpdateSucceeded, status.QueueUpdateSucceeded)
FAILED = (status.PodGroupUpdateFailed, status.QueueUpdateFailed)
ASKED = (binding.BindRequested, eviction.EvictRequested)
TOLD = (
    *(binding.BindSucceeded, binding.BindFailed, eviction.EvictSucceeded, eviction.EvictFailed),
    recovery.InDoubtResolved,
)

DOUBT_GRACE = 600_000_000
"""Microseconds within which the outcome of a binding or deletion is known: no client waits as long for an answer."""

Says = dict[str, object]
"""What a status says, by field: of a PodGroup `phase`, the counts, and each condition by its type; of a queue what is
allocated, in thousandths by resource."""


class _Sent(NamedTuple):
    """A status that was asked for: by the event at `position`, of the object `uid`."""

    position: int
    uid: str
    says: Says


class StatusWrites(Rule):
    """No status of a PodGroup or queue is asked for that says what the object is known to say, or what one says whose
    answer is out; no queue is asked for that is there, or that is asked for already; and each has an outcome, as each
    binding and each deletion has. An object that nothing is known of yet is not judged."""

    def __init__(self) -> None:
        super().__init__()
        self._objects: dict[str, Says] = {}
        self._versions: dict[str, int] = {}
        self._out: dict[int, _Sent] = {}
        self._making: dict[str, int] = {}
        self._pods: dict[str, dict[int, None]] = {}

    def after(self, recorded: Recorded, cache: Cache) -> None:
        event, uid = recorded.event, recorded.uid
        if isinstance(event, REQUESTED) and own(recorded):
            self._requested(recorded, event)
        elif isinstance(event, (*SUCCEEDED, *FAILED)) and own(recorded):
            self.settle(("status", event.intent))
            sent = self._out.pop(event.intent or 0, None)
            if sent is not None and isinstance(event, SUCCEEDED):
                version = codec.resource_version_key(event.new_resource_version)
                self._see(uid, version, _with(self._objects.get(uid, {}), sent.says))
        elif isinstance(event, (*ASKED, *TOLD)) and own(recorded):
            self._pod(recorded, event)
        elif isinstance(event, status.QueueCreateRequested):
            self._create(recorded, event, cache)
        elif isinstance(event, status.QueueCreateSucceeded | status.QueueCreateFailed):
            self.settle(("make", event.intent))
            self._making.pop(event.queue, None)
        elif isinstance(event, CHANGED) and isinstance(event.object, PodGroup | Queue):
            self._see(uid, recorded.resource_version, _seen(event.object))
        elif recorded.kind in ("PodGroup", "Queue") and isinstance(event, observation.ObjectDeleted):
            self._objects.pop(uid, None)
            self._versions.pop(uid, None)

    def _requested(self, recorded: Recorded, event: DomainEvent) -> None:
        self.seen += 1
        uid, says, what = recorded.uid, _asked(event), f"the status of {recorded.kind} {recorded.name}"
        if any(one.uid == uid and one.says == says for one in self._out.values()):
            self.breach(recorded.position, f"{what} is written as it is being written already")
        known = self._objects.get(uid)
        if known is not None and _with(known, says) == known:
            self.breach(recorded.position, f"{what} is written as it was")
        self._out[recorded.position] = _Sent(recorded.position, uid, says)
        self.owe(("status", recorded.position), recorded, f"{what} was written, and no outcome is known", ANSWER_GRACE)

    def _pod(self, recorded: Recorded, event: DomainEvent) -> None:
        """A binding or deletion that is asked for, or what is known of one: an answer, none, or what was found out.
        What names no intent speaks of all that were asked for of the pod."""
        if isinstance(event, ASKED):
            self.seen += 1
            what = "binding" if isinstance(event, binding.BindRequested) else "deletion"
            text = f"the {what} of {pod_key(recorded)} was asked for, and no outcome is known"
            self.owe(("pod", recorded.position), recorded, text, DOUBT_GRACE)
            self._pods.setdefault(recorded.uid, {})[recorded.position] = None
        elif isinstance(event, TOLD):
            asked = self._pods.get(recorded.uid, {})
            for position in [event.intent] if event.intent is not None else list(asked):
                self.settle(("pod", position))
                asked.pop(position, None)
            if not asked:
                self._pods.pop(recorded.uid, None)

    def _create(self, recorded: Recorded, event: status.QueueCreateRequested, cache: Cache) -> None:
        self.seen += 1
        if event.queue in cache.queues:
            self.breach(recorded.position, f"the queue {event.queue} is to be made, and is there")
        if event.queue in self._making:
            self.breach(recorded.position, f"the queue {event.queue} is to be made as it is being made already")
        self._making[event.queue] = recorded.position
        text = f"the queue {event.queue} was to be made, and no outcome is known"
        self.owe(("make", recorded.position), recorded, text, ANSWER_GRACE)

    def _see(self, uid: str, version: int | None, says: Says) -> None:
        """What an object says as of a version; an earlier one than is known is passed over."""
        if version is not None and version < codec.OPAQUE:
            if version < self._versions.get(uid, 0):
                return
            self._versions[uid] = version
        self._objects[uid] = says


def _with(known: Says, says: Says) -> Says:
    """An object's status once what is asked for is written: a queue's is put in place of the old one, of a PodGroup the
    conditions of other types stay."""
    return {**known, **says} if "phase" in says else says


def _asked(event: DomainEvent) -> Says:
    if isinstance(event, status.PodGroupUpdateRequested):
        says = _counts(event.phase, event.running, event.succeeded, event.failed)
        if event.condition:
            says[f"condition {event.condition}"] = ("True", event.reason, event.message)
        return says
    allocated = event.allocated if isinstance(event, status.QueueUpdateRequested) else {}
    whole = {"cpu": 0, "memory": 0, **{name: round(amount) for name, amount in allocated.items()}}
    return {name: amount * (1000 if _in_ones(name) else 1) for name, amount in whole.items()}


def _in_ones(name: str) -> bool:
    """Whether an event gives the amount of a resource in ones; all others are in thousandths."""
    return name in ("memory", PODS) or name.startswith(ATTACH_PREFIX)


def _seen(obj: PodGroup | Queue) -> Says:
    if isinstance(obj, PodGroup):
        held = obj.status
        says = _counts(held.phase, held.running, held.succeeded, held.failed)
        says.update((f"condition {one.type}", (one.status, one.reason, one.message)) for one in held.conditions or ())
        return says
    return {name: _thousandths(amount) for name, amount in (obj.status.allocated or {}).items()}


def _thousandths(amount: str | int | float) -> int | None:
    """None for what is no quantity, which no request equals."""
    try:
        return exact_value(amount, -3)
    except QuantityInvalid:
        return None


def _counts(phase: str, running: int, succeeded: int, failed: int) -> Says:
    return {"phase": phase, "running": running, "succeeded": succeeded, "failed": failed}


__all__ = ["StatusWrites"]
