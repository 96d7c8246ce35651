"""The rules about binds and what is written of them: once, to a node that is there; what follows a failure; recovery.

Owns these rules. Pure, see `vcledger.testing.invariant_rules`. Called by `vcledger.testing.invariants`.
"""

from __future__ import annotations

from projections.cache.state import Cache, PodRef
from vcledger import codec
from vcledger.testing.invariant_evictions import DISRUPTED, Evictions
from vcledger.testing.invariant_rules import ANSWER_GRACE, CHANGED, Rule, own, pod_key
from vcledger.testing.invariant_status import StatusWrites
from vcledger.testing.invariant_volumes import names_of
from volcano.events import binding, eviction, node_sync, observation, recovery, resync, scheduling, volume
from volcano.events.base import Recorded
from volcano.objects.core import Pod

BIND_FAILED_REASON = "SchedulerError"
"""The reason of a pod's condition that tells of a failed bind; one without a node has another."""

# --- 4: bound once, to a node that is there -----------------------------------------------------------------------


class BoundOnce(Evictions):
    """A pod UID is bound at most once, and never to a node that the log had removed; and evictions are in order."""

    absent = "no pod was bound"

    def __init__(self) -> None:
        super().__init__()
        self._node_of: dict[str, str] = {}
        self._ours: dict[str, int] = {}
        self._nodes: dict[str, bool] = {}

    def begin(self, cache: Cache, position: int, *, whole: bool) -> None:
        self._pruned = True
        self._node_of = {ref.uid: ref.node_name for ref in cache.pods.values() if ref.node_name}

    def after(self, recorded: Recorded, cache: Cache) -> None:
        super().after(recorded, cache)
        event = recorded.event
        if recorded.kind == "Node":
            if isinstance(event, observation.ObjectDeleted | node_sync.NodeRemoved):
                self._nodes[recorded.name] = False
            elif isinstance(event, (*CHANGED, node_sync.NodeSynced)):
                self._nodes[recorded.name] = True
        elif isinstance(event, binding.BindRequested) and own(recorded):
            if self._nodes.get(event.node) is False:
                self.breach(recorded.position, f"{pod_key(recorded)} is bound to {event.node}, which was removed")
        elif isinstance(event, binding.BindSucceeded):
            self._bound(recorded, event.node)
            if own(recorded):
                self._once(recorded, event)
        elif recorded.kind == "Pod" and isinstance(event, CHANGED):
            pod = event.object
            if isinstance(pod, Pod) and pod.spec.node_name:
                self._bound(recorded, pod.spec.node_name)

    def _bound(self, recorded: Recorded, node: str) -> None:
        self.seen += 1
        before = self._node_of.setdefault(recorded.uid, node)
        if before != node:
            self.breach(
                recorded.position, f"{pod_key(recorded)} of uid {recorded.uid} is on {node} and was on {before}"
            )

    def _once(self, recorded: Recorded, event: binding.BindSucceeded) -> None:
        before = self._ours.setdefault(recorded.uid, recorded.position)
        if before != recorded.position:
            self.breach(recorded.position, f"{pod_key(recorded)} was bound already at position {before}")


# --- 5: after a failure -------------------------------------------------------------------------------------------


class AfterFailure(Rule):
    """After each failed bind: volumes reverted, task queued for resync, the condition patched once: not twice, and not
    never, unless the pod says it already, is gone, over or bound. After each failed volume bind: reverted, queued. A
    pod that could not be evicted: queued."""

    absent = "no bind failed"

    def __init__(self) -> None:
        super().__init__()
        self._assumed: dict[str, dict[str, None]] = {}
        self._begun: dict[str, int] = {}
        self._bind_of: dict[int, int] = {}
        self._patches: dict[int, int] = {}
        self._told: dict[str, str] = {}
        self._says: dict[str, str] = {}
        self._gone: dict[str, None] = {}

    def after(self, recorded: Recorded, cache: Cache) -> None:
        event, uid = recorded.event, recorded.uid
        if isinstance(event, volume.VolumesAssumed):
            self._assumed[uid] = dict.fromkeys(names_of(event))
        elif isinstance(event, volume.VolumesBound):
            self._assumed.pop(uid, None)
        elif isinstance(event, volume.VolumesReverted):
            self._reverted(uid, event)
        elif isinstance(event, binding.BindQueued | binding.BindRequested) and own(recorded):
            # A bind begins where it is queued: one to a node that is gone by its turn fails without being requested.
            self._begun[uid] = recorded.position
        elif isinstance(event, binding.BindFailed | volume.VolumeBindingFailed) and own(recorded):
            lost = isinstance(event, binding.BindFailed) and event.answer_lost
            ref = cache.pods.get(pod_key(recorded))
            self._failed(recorded, ref, lost=lost)
            if isinstance(event, binding.BindFailed) and not lost:
                self._to_tell(recorded, event, ref)
                self._bind_of[recorded.position] = self._begun.get(uid, 0)
        elif isinstance(event, eviction.EvictFailed):
            self._stays(recorded, cache.pods.get(pod_key(recorded)))
        elif isinstance(event, recovery.RecoveryStarted):
            for key in [key for key in self._owed if isinstance(key, tuple) and key[0] == "patch"]:
                self.settle(key)
        elif isinstance(event, resync.ResyncQueued | resync.ResyncRequested | resync.ResyncSucceeded):
            self.settle(("resync", uid))
        elif isinstance(event, binding.PodConditionPatched | binding.PodConditionPatchFailed):
            self._patched(recorded)
        elif recorded.kind == "Pod" and isinstance(event, CHANGED) and isinstance(event.object, Pod):
            found = next((one for one in event.object.status.conditions or () if one.type == "PodScheduled"), None)
            self._says[uid] = found.message if found is not None and found.status == "False" else ""
        elif recorded.kind == "Pod" and isinstance(event, observation.ObjectDeleted):
            self._gone[uid] = None
            self._says.pop(uid, None)
            self.settle(("resync", uid))

    def _to_tell(self, recorded: Recorded, event: binding.BindFailed, ref: PodRef | None) -> None:
        """A failure that the pod's condition has to tell, as the flow and the record know the pod."""
        uid = recorded.uid
        waits = ref is not None and ref.uid == uid and not ref.node_name and not ref.deleting and ref.phase == "Pending"
        if not waits or event.code == 404 or event.bound_to:
            return
        sentence = f"{event.node}: {event.message}"
        if self._told.get(uid) != sentence and not self._says.get(uid, "").endswith(sentence):
            text = f"{pod_key(recorded)} failed to bind, and its condition was not patched"
            self.owe(("patch", uid, recorded.position), recorded, text, ANSWER_GRACE)
        self._told[uid] = sentence

    def _failed(self, recorded: Recorded, ref: PodRef | None, *, lost: bool) -> None:
        """A pod that is gone, or whose name another has by now, has nothing left to look at."""
        if lost:
            return
        self.seen += 1
        uid = recorded.uid
        if uid not in self._gone and (ref is None or ref.uid == uid):
            self.owe(("resync", uid), recorded, f"{pod_key(recorded)} failed to bind and was not queued for resync")
        if self._assumed.get(uid):
            names = ", ".join(self._assumed[uid])
            self.owe(("revert", uid), recorded, f"{pod_key(recorded)} failed to bind and {names} was not reverted")

    def _stays(self, recorded: Recorded, ref: PodRef | None) -> None:
        """A pod that could not be evicted, or of which that is not known, is read."""
        self.seen += 1
        if recorded.uid not in self._gone and ref is not None and ref.uid == recorded.uid:
            text = f"{pod_key(recorded)} could not be evicted and was not queued for resync"
            self.owe(("resync", recorded.uid), recorded, text)

    def _reverted(self, uid: str, event: volume.VolumesReverted) -> None:
        held = self._assumed.get(uid, {})
        for name in (*(f"PV {one}" for one in event.volumes), *(f"PVC {one}" for one in event.claims)):
            held.pop(name, None)
        if not held:
            self._assumed.pop(uid, None)
            self.settle(("revert", uid))

    def _patched(self, recorded: Recorded) -> None:
        """The answer to a patch names the failure that it tells of; it may come after the next bind has begun."""
        self.settle(("patch", recorded.uid, recorded.causation))
        event = recorded.event
        bind = self._bind_of.get(recorded.causation or 0, self._begun.get(recorded.uid, 0))
        if bind and isinstance(event, binding.PodConditionPatched) and event.reason == BIND_FAILED_REASON:
            self._patches[bind] = self._patches.get(bind, 0) + 1
            if self._patches[bind] > 1:
                self.breach(recorded.position, f"the condition of {pod_key(recorded)} was patched twice after one bind")


# --- 11: recovery -------------------------------------------------------------------------------------------------


class Recovered(Rule):
    """After a crash every intent in doubt is settled before the recovery is over."""

    absent = "no process was restarted"

    def __init__(self) -> None:
        super().__init__()
        self._doubts: dict[int, int] = {}
        self.first: int | None = None

    def after(self, recorded: Recorded, cache: Cache) -> None:
        event = recorded.event
        if isinstance(event, recovery.RecoveryStarted):
            self.seen += 1
            self.first = self.first or recorded.position
            for intent in event.in_doubt:
                self._doubts.setdefault(intent, recorded.position)
        elif isinstance(event, recovery.InDoubtResolved):
            self._doubts.pop(event.intent, None)
        elif isinstance(event, recovery.RecoveryCompleted) and self._doubts:
            intents = ", ".join(map(str, self._doubts))
            self.breach(recorded.position, f"the recovery is over, but intents are in doubt: {intents}")


# --- 12: no write that changes nothing ----------------------------------------------------------------------------


class WorthWriting(StatusWrites):
    """No status update is sent that changes nothing: what was known when it was decided on counts, as a watch may show
    the written condition before the answer to the write is in the log, and answers may come in any order. Those of
    PodGroups and queues, which are intents, have outcomes."""

    absent = "no status was written"

    def __init__(self) -> None:
        super().__init__()
        self._is: dict[str, tuple[tuple[str, str, str], str]] = {}
        self._was: dict[int, tuple[tuple[str, str, str], str] | None] = {}
        self._version: dict[str, int] = {}
        self._marks: dict[str, str] = {}

    def after(self, recorded: Recorded, cache: Cache) -> None:
        super().after(recorded, cache)
        event, uid = recorded.event, recorded.uid
        if isinstance(event, binding.BindFailed | scheduling.TaskUnschedulable) and own(recorded):
            self._was[recorded.position] = self._is.get(uid)
        elif isinstance(event, binding.PodConditionPatchFailed):
            self._was.pop(recorded.causation or 0, None)
        elif isinstance(event, binding.PodConditionPatched) and event.type == DISRUPTED and own(recorded):
            self._disrupted(recorded, event)
        elif isinstance(event, binding.PodConditionPatched) and own(recorded):
            self.seen += 1
            written = (event.status, event.reason, event.message), event.nominated_node
            known = self._was.pop(recorded.causation or 0, self._is.get(uid))
            if known is not None and event.type == "PodScheduled":
                same = known[0] == written[0] and event.nominated_node in ("", known[1])
                if same:
                    self.breach(recorded.position, f"the condition of {pod_key(recorded)} was written as it was")
            now = written[0], event.nominated_node or (known[1] if known else "")
            self._learn(uid, codec.resource_version_key(event.new_resource_version), now)
        elif recorded.kind == "Pod" and isinstance(event, CHANGED) and isinstance(event.object, Pod):
            status = event.object.status
            found = next((one for one in status.conditions or () if one.type == "PodScheduled"), None)
            condition = (found.status, found.reason, found.message) if found is not None else ("", "", "")
            self._learn(uid, recorded.resource_version, (condition, status.nominated_node_name))
        elif recorded.kind == "Pod" and isinstance(event, observation.ObjectDeleted):
            self._is.pop(uid, None)
            self._version.pop(uid, None)
            self._marks.pop(uid, None)

    def _disrupted(self, recorded: Recorded, event: binding.PodConditionPatched) -> None:
        """The conditions of a pod that is to go are written once for the same reason."""
        self.seen += 1
        if self._marks.get(recorded.uid) == event.message:
            self.breach(recorded.position, f"{pod_key(recorded)} was told again that it is to go")
        self._marks[recorded.uid] = event.message

    def _learn(self, uid: str, version: int | None, now: tuple[tuple[str, str, str], str]) -> None:
        """What the condition is as of a version; an earlier one than is known says nothing."""
        if version is not None and version < codec.OPAQUE:
            if version < self._version.get(uid, 0):
                return
            self._version[uid] = version
        self._is[uid] = now


__all__ = ["AfterFailure", "BoundOnce", "Recovered", "WorthWriting"]
