"""The rule about evictions: whom they may concern, and when a pod is deleted for one.

Owns this rule. Pure, see `vcledger.testing.invariant_rules`; must not know who chooses victims. Called by
`vcledger.testing.invariant_binding`, as a part of the fourth invariant.
"""

from __future__ import annotations

from typing import NamedTuple

from projections.cache.state import Cache
from vcledger.testing.invariant_rules import CHANGED, Rule, own, pod_key
from volcano.events import binding, eviction, observation, scheduling
from volcano.events.base import Recorded
from volcano.objects.core import Pod

POSTS_MAX = 2
"""So often a request whose answer was lost is sent at most."""

SPARED_FIRST, SPARED_MOST = 1_000_000, 1_000_000_000
"""Microseconds that a pod is left alone after its eviction has failed, doubled with each failure in a row."""

DISRUPTED = "DisruptionTarget"
"""The type of the condition of a pod that is to go."""


class _Told(NamedTuple):
    """A decision that a pod is to go, by the event at `position`."""

    position: int
    reason: str


class _Binding(NamedTuple):
    """A binding that was asked for: whether it was answered, and whether the pod was seen with a node."""

    node: str
    answered: bool = False
    seen: bool = False


class Evictions(Rule):
    """A pod is told to go when its binding is over, and not soon after an eviction of it has failed. It is deleted for
    a decision that stands, once its conditions say so, by two requests at most, and by none once one has succeeded."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, _Told] = {}
        self._asked: dict[str, dict[int, None]] = {}
        self._marked: dict[str, str] = {}
        self._binding: dict[str, _Binding] = {}
        self._failures: dict[str, int] = {}
        self._spared: dict[str, int] = {}
        self._pruned = False

    def after(self, recorded: Recorded, cache: Cache) -> None:
        event, uid = recorded.event, recorded.uid
        if isinstance(event, scheduling.TaskEvicted):
            self._decided(recorded, event)
        elif isinstance(event, eviction.EvictRequested):
            self._deleted(recorded, event)
        elif isinstance(event, eviction.EvictFailed):
            self._failed(recorded, event)
        elif isinstance(event, eviction.EvictSucceeded):
            self._told.pop(uid, None)
            self._failures.pop(uid, None)
        elif isinstance(event, binding.PodConditionPatched) and event.type == DISRUPTED:
            self._marked[uid] = event.message
        elif isinstance(event, binding.BindRequested) and own(recorded):
            self._binding[uid] = _Binding(event.node)
        elif isinstance(event, binding.BindFailed) and not event.answer_lost:
            self._binding.pop(uid, None)
        elif isinstance(event, binding.BindSucceeded):
            self._got_on(uid, answered=True)
        elif recorded.kind == "Pod" and isinstance(event, CHANGED):
            if isinstance(event.object, Pod) and event.object.spec.node_name:
                self._got_on(uid, seen_on=event.object.spec.node_name)
        elif recorded.kind == "Pod" and isinstance(event, observation.ObjectDeleted):
            for held in (self._marked, self._binding, self._failures, self._spared):
                held.pop(uid, None)

    def _got_on(self, uid: str, *, answered: bool = False, seen_on: str = "") -> None:
        """A binding is over once its outcome is known and the pod was seen with its node, or on another one."""
        held = self._binding.get(uid)
        if held is None:
            return
        held = held._replace(answered=held.answered or answered, seen=held.seen or bool(seen_on))
        if (held.answered and held.seen) or seen_on not in ("", held.node):
            del self._binding[uid]
        else:
            self._binding[uid] = held

    def _decided(self, recorded: Recorded, event: scheduling.TaskEvicted) -> None:
        uid = recorded.uid
        if uid in self._binding:
            self.breach(recorded.position, f"{pod_key(recorded)} is told to go before its binding is over")
        if recorded.observed_at < self._spared.get(uid, 0):
            self.breach(recorded.position, f"{pod_key(recorded)} is told to go again soon after that has failed")
        self._told[uid], self._asked[uid] = _Told(recorded.position, event.reason), {}

    def _deleted(self, recorded: Recorded, event: eviction.EvictRequested) -> None:
        self.seen += 1
        uid = recorded.uid
        told = self._told.get(uid)
        if told is None and self._pruned and uid not in self._asked:
            return
        if told is None or told.position != event.decided:
            self.breach(recorded.position, f"{pod_key(recorded)} is deleted, and no eviction of it stands")
        elif not self._pruned and not self._marked.get(uid, "").endswith(told.reason):
            self.breach(recorded.position, f"{pod_key(recorded)} is deleted, and its conditions do not say why")
        asked = self._asked.setdefault(uid, {})
        asked[recorded.position] = None
        if len(asked) > POSTS_MAX:
            self.breach(recorded.position, f"{pod_key(recorded)} is deleted a third time for one decision")

    def _failed(self, recorded: Recorded, event: eviction.EvictFailed) -> None:
        """The pod stays, and is left alone; an answer to an earlier decision says nothing of the one that stands."""
        uid = recorded.uid
        stands = uid in self._told and (event.intent is None or event.intent in self._asked.get(uid, {}))
        if event.answer_lost or not stands:
            return
        times = self._failures[uid] = self._failures.get(uid, 0) + 1
        wait = min(SPARED_FIRST << min(times - 1, 30), SPARED_MOST)
        self._spared[uid] = recorded.observed_at + max(wait, round((event.retry_after_seconds or 0) * 1_000_000))


__all__ = ["DISRUPTED", "POSTS_MAX", "Evictions"]
