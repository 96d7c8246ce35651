"""The rules behind the invariants of the design, each a small machine that is shown every event once.

Owns what breaks each rule. Pure: must not know the log, files nor time; the fold's state comes in beside each event.
Called by `vcledger.testing.invariants`.

A rule that speaks of what must follow (a revert after a failed bind) gives it GRACE of observed time, and none of it
runs while a process that died is being recovered. What a relist or an audit line implies is about others: rules of our
own conduct look at our own events only. A record whose beginning was pruned begins with the state at the cut; what the
scheduler itself had on its way there is not known, and no rule is broken by what only that could explain.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from projections.cache import stores
from projections.cache.accounting import count_on_node
from projections.cache.state import Cache, NodeInfo, PodRef
from vcledger import codec
from vcledger.scheduled import STARTED
from volcano.events import binding, cleanup, node_sync, observation, recovery, resync, scheduling, volume
from volcano.events.base import DomainEvent, Recorded
from volcano.objects.core import PersistentVolume, PersistentVolumeClaim, Pod
from volcano.objects.resource import Resource, new_resource
from volcano.objects.scheduling import PodGroup

GRACE = 1_000_000
"""Microseconds of observed time within which what must follow has followed."""

ANSWER_GRACE = 60_000_000
"""The same for the outcome of a request, which the API server may take its time to answer."""

INFERRED = 1
"""`Recorded.known` of what an audit line or a relist implies."""

BIND_FAILED_REASON = "SchedulerError"
"""The reason of a pod's condition that tells of a failed bind; one without a node has another."""

CHANGED = (observation.ObjectAdded, observation.ObjectModified)
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"


class Break(NamedTuple):
    """Where a rule was broken, and how."""

    position: int
    text: str


class Rule:
    """Base of the rules. `seen` counts what the rule applies to; `broken` is the first breach."""

    absent = "the ledger has nothing that it speaks of"

    def __init__(self) -> None:
        self.seen = 0
        self.broken: Break | None = None
        self._owed: dict[Hashable, tuple[int, Break]] = {}
        self._recovering = False

    def begin(self, cache: Cache, position: int, *, whole: bool) -> None:
        """The state that a pruned record begins with, and the position of its cut; not called for a whole record.
        `whole`: it is the scheduler's own, with what it had on its way; else only what had been observed."""

    def before(self, recorded: Recorded, cache: Cache) -> None:
        """An event that is about to be folded."""

    def after(self, recorded: Recorded, cache: Cache) -> None:
        """The same, once it was."""

    def breach(self, position: int, text: str) -> None:
        if self.broken is None or position < self.broken.position:
            self.broken = Break(position, text)

    # --- what must follow -----------------------------------------------------------------------------------------

    def owe(self, key: Hashable, recorded: Recorded, text: str, grace: int = GRACE) -> None:
        """From now on something is due; of several times in a row the first counts."""
        self._owed.setdefault(key, (recorded.observed_at + grace, Break(recorded.position, text)))

    def settle(self, key: Hashable) -> None:
        """It has come, or is not due any more."""
        self._owed.pop(key, None)

    def clock(self, recorded: Recorded) -> None:
        """Time has got to the event's."""
        event = recorded.event
        if isinstance(event, recovery.RecoveryStarted) or _begins(event):
            self._recovering = True
        elif isinstance(event, recovery.RecoveryCompleted):
            self._recovering = False
        if isinstance(event, recovery.RecoveryStarted | recovery.RecoveryCompleted):
            late = recorded.observed_at + GRACE
            self._owed = {key: (max(due, late), what) for key, (due, what) in self._owed.items()}
        if self._owed and not self._recovering:
            for due, what in list(self._owed.values()):
                if due < recorded.observed_at:
                    self.breach(*what)


def pod_key(recorded: Recorded) -> str:
    return f"{recorded.namespace}/{recorded.name}"


def _begins(event: DomainEvent) -> bool:
    """Whether a process says that it begins: its recovery follows, and until then nobody was there to do anything."""
    return isinstance(event, observation.Marker) and event.name == STARTED


def own(recorded: Recorded) -> bool:
    """An event of the scheduler that keeps this log, not one that an audit line implies."""
    return recorded.known != INFERRED


# --- 1: a node's books --------------------------------------------------------------------------------------------


class NodeBooks(Rule):
    """used = the sum of the tasks that count; idle + used = allocatable; releasing and pipelined likewise."""

    absent = "no node was seen"

    def begin(self, cache: Cache, position: int, *, whole: bool) -> None:
        self._look(cache, list(cache.nodes), position)

    def after(self, recorded: Recorded, cache: Cache) -> None:
        self._look(cache, list(cache.touched.nodes), recorded.position)

    def _look(self, cache: Cache, names: list[str], position: int) -> None:
        for name in names:
            node = cache.nodes.get(name)
            if node is not None and node.node is not None:
                self.seen += 1
                for text in wrong_books(node, exact=not cache.policy.float64):
                    self.breach(position, f"node {name}: {text}")


def wrong_books(node: NodeInfo, *, exact: bool = True) -> list[str]:
    """What does not add up on a node."""
    sums = NodeInfo(node.name, node.node, idle=_nothing(exact), used=_nothing(exact))
    sums.releasing, sums.pipelined = _nothing(exact), _nothing(exact)
    for task in node.tasks.values():
        count_on_node(sums, task)
    wrong = [
        f"{what} is {getattr(node, what)}, its tasks' sum is {getattr(sums, what)}"
        for what in ("used", "releasing", "pipelined")
        if not _same(getattr(node, what), getattr(sums, what))
    ]
    total = node.idle.clone()
    total.add(node.used)
    if not _same(total, node.allocatable):
        wrong.append(f"idle and used make {total}, allocatable is {node.allocatable}")
    return wrong


def _nothing(exact: bool) -> Resource:
    return new_resource(None, exact=exact)


def _same(one: Resource, other: Resource) -> bool:
    mine, theirs = one.amounts(), other.amounts()
    return all(abs(mine.get(name, 0) - theirs.get(name, 0)) < 0.1 for name in {**mine, **theirs})


# --- 2: what is assumed is confirmed or reverted ------------------------------------------------------------------


class Assumptions(Rule):
    """Each assumed volume and claim is confirmed or reverted, never both, and none outlives its pod."""

    absent = "no volume was assumed"

    def __init__(self) -> None:
        super().__init__()
        self._assumed: dict[str, dict[str, None]] = {}
        self._pruned = False
        self._since: dict[str, None] = {}

    def begin(self, cache: Cache, position: int, *, whole: bool) -> None:
        self._pruned = True

    def after(self, recorded: Recorded, cache: Cache) -> None:
        event, uid = recorded.event, recorded.uid
        if isinstance(event, volume.VolumesAssumed):
            self._assume(recorded, event)
        elif isinstance(event, volume.VolumesBound):
            self._drop(recorded, _names(event), "confirmed", whole=True)
        elif isinstance(event, volume.VolumesReverted):
            names = [*(f"PV {name}" for name in event.volumes), *(f"PVC {name}" for name in event.claims)]
            self._drop(recorded, names, "reverted", whole=False)
        elif isinstance(event, binding.BindSucceeded) and own(recorded) and self._assumed.get(uid):
            self._outlives(recorded, "the pod is bound")
        elif recorded.kind == "Pod" and isinstance(event, observation.ObjectDeleted) and self._assumed.get(uid):
            self._outlives(recorded, "the pod is gone")
        elif recorded.kind == "Pod" and isinstance(event, CHANGED) and self._assumed.get(uid):
            pod = event.object
            if isinstance(pod, Pod) and pod.status.phase == "Failed":
                self._outlives(recorded, "the pod has failed")

    def _assume(self, recorded: Recorded, event: volume.VolumesAssumed) -> None:
        self.seen += 1
        self._since[recorded.uid] = None
        held = self._assumed.setdefault(recorded.uid, {})
        for name in _names(event):
            if name in held:
                self.breach(recorded.position, f"{name} was assumed for {pod_key(recorded)} already")
            held[name] = None

    def _drop(self, recorded: Recorded, names: list[str], how: str, *, whole: bool) -> None:
        if self._pruned and recorded.uid not in self._since:
            return
        held = self._assumed.get(recorded.uid, {})
        for name in names:
            if name not in held:
                self.breach(recorded.position, f"{name} is {how} for {pod_key(recorded)}, but it is not assumed")
            held.pop(name, None)
        if whole and held:
            self.breach(recorded.position, f"{', '.join(held)} of {pod_key(recorded)} neither confirmed nor reverted")
            held.clear()
        if not held:
            self._assumed.pop(recorded.uid, None)
            self.settle(recorded.uid)

    def _outlives(self, recorded: Recorded, why: str) -> None:
        names = ", ".join(self._assumed[recorded.uid])
        self.owe(recorded.uid, recorded, f"{names} is still assumed for {pod_key(recorded)}: {why}")


def _names(event: volume.VolumesAssumed | volume.VolumesBound) -> list[str]:
    names = [*(f"PV {one.volume}" for one in event.bindings), *(f"PVC {one.claim}" for one in event.bindings)]
    return list(dict.fromkeys([*names, *(f"PVC {one.claim}" for one in event.provisions)]))


# --- 3: one volume, one claim -------------------------------------------------------------------------------------


class OneClaim(Rule):
    """No PV is claimed by two claims, and no claim has two PVs; neither as the API server has it nor as assumed."""

    absent = "no claim or volume was bound or assumed"

    def __init__(self) -> None:
        super().__init__()
        self._volume_of: dict[str, str] = {}
        self._claim_of: dict[str, str] = {}
        self._claims: dict[str, dict[str, None]] = {}
        self._volumes: dict[str, dict[str, None]] = {}
        self._assumed: dict[str, tuple[str, str]] = {}

    def begin(self, cache: Cache, position: int, *, whole: bool) -> None:
        for claim in cache.claims.values():
            if claim.status.phase == "Bound" and claim.spec.volume_name:
                self._volume_of[claim.metadata.uid] = claim.spec.volume_name
                self._claims.setdefault(claim.spec.volume_name, {})[claim.metadata.uid] = None
        for found in cache.volumes.values():
            if found.status.phase == "Bound" and found.spec.claim_ref:
                self._claim_of[found.metadata.uid] = found.spec.claim_ref.uid
                self._volumes.setdefault(found.spec.claim_ref.uid, {})[found.metadata.uid] = None

    def after(self, recorded: Recorded, cache: Cache) -> None:
        event, uid = recorded.event, recorded.uid
        gone = isinstance(event, observation.ObjectDeleted)
        obj: Any = getattr(event, "object", None)
        if isinstance(obj, PersistentVolumeClaim):
            bound = "" if gone or obj.status.phase != "Bound" else obj.spec.volume_name
            self._move(recorded, self._volume_of, self._claims, uid, bound, "the volume {} is bound to two claims")
        elif isinstance(obj, PersistentVolume):
            claim = "" if gone or obj.status.phase != "Bound" or not obj.spec.claim_ref else obj.spec.claim_ref.uid
            self._move(recorded, self._claim_of, self._volumes, uid, claim, "the claim of uid {} has two volumes")
        elif isinstance(event, volume.VolumesAssumed):
            self._assume(recorded, event)
        elif isinstance(event, volume.VolumesBound):
            self._forget(recorded.uid, None)
        elif isinstance(event, volume.VolumesReverted):
            self._forget(recorded.uid, event.volumes)

    def _move(
        self,
        recorded: Recorded,
        of: dict[str, str],
        users: dict[str, dict[str, None]],
        uid: str,
        target: str,
        text: str,
    ) -> None:
        before = of.get(uid, "")
        if before != target:
            self.seen += 1
            users.get(before, {}).pop(uid, None)
            if target:
                of[uid] = target
                users.setdefault(target, {})[uid] = None
            else:
                of.pop(uid, None)
        for name in dict.fromkeys((before, target)):
            if len(users.get(name, ())) > 1 and name:
                self.owe((text, name), recorded, text.format(name))
            else:
                self.settle((text, name))

    def _assume(self, recorded: Recorded, event: volume.VolumesAssumed) -> None:
        for one in event.bindings:
            self.seen += 1
            other = self._assumed.get(one.volume)
            if other is not None and other != (recorded.uid, one.claim):
                self.breach(recorded.position, f"{one.volume} is assumed for {one.claim}, and still for {other[1]}")
            twice = [name for name, (_, claim) in self._assumed.items() if claim == one.claim and name != one.volume]
            if twice:
                self.breach(recorded.position, f"{one.claim} is assumed on {one.volume}, and still on {twice[0]}")
            self._assumed[one.volume] = (recorded.uid, one.claim)

    def _forget(self, uid: str, names: tuple[str, ...] | None) -> None:
        for name, (pod, _) in list(self._assumed.items()):
            if pod == uid and (names is None or name in names):
                del self._assumed[name]


# --- 4: bound once, to a node that is there -----------------------------------------------------------------------


class BoundOnce(Rule):
    """A pod UID is bound at most once, and never to a node that the log had removed."""

    absent = "no pod was bound"

    def __init__(self) -> None:
        super().__init__()
        self._node_of: dict[str, str] = {}
        self._ours: dict[str, int] = {}
        self._nodes: dict[str, bool] = {}

    def begin(self, cache: Cache, position: int, *, whole: bool) -> None:
        self._node_of = {ref.uid: ref.node_name for ref in cache.pods.values() if ref.node_name}

    def after(self, recorded: Recorded, cache: Cache) -> None:
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
    never, unless the pod says it already, is gone, over or bound. After each failed volume bind: reverted, queued."""

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
            self._assumed[uid] = dict.fromkeys(_names(event))
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


# --- 6: the cache and the API server ------------------------------------------------------------------------------


class AgreesWithLists(Rule):
    """Where the API server listed a whole kind, the record has exactly those objects afterwards, and so has the cache,
    but for pods that the API server has since said to be gone when it was asked for them. A list of an earlier version
    than the record has reached by then (a stale read) says nothing about now, and only the cache is compared."""

    absent = "no list was recorded"

    def __init__(self) -> None:
        super().__init__()
        self._live: dict[str, dict[str, str]] = {}
        self._denied: dict[str, None] = {}
        self._reached: dict[str, int] = {}

    def begin(self, cache: Cache, position: int, *, whole: bool) -> None:
        self._live["Pod"] = {key: ref.uid for key, ref in cache.pods.items()}
        for kind in ("PodGroup", *stores.ATTRIBUTES):
            self._live[kind] = {key: _uid(stores.held(cache, kind, key)) for key in stores.keys(cache, kind)}

    def after(self, recorded: Recorded, cache: Cache) -> None:
        event, kind = recorded.event, recorded.kind
        if kind not in {"Pod", "PodGroup"} and kind not in stores.ATTRIBUTES:
            return
        key = pod_key(recorded) if recorded.namespace else recorded.name
        live = self._live.setdefault(kind, {})
        version = recorded.resource_version
        if version is not None and version < codec.OPAQUE:
            self._reached[kind] = max(version, self._reached.get(kind, 0))
        if isinstance(event, CHANGED):
            live[key] = recorded.uid
            self._denied.pop(recorded.uid, None)
        elif isinstance(event, observation.ObjectDeleted) and live.get(key) == recorded.uid:
            del live[key]
        elif isinstance(event, resync.ResyncSucceeded) and not event.found:
            self._denied[recorded.uid] = None
        elif isinstance(event, observation.ListCompleted):
            self._compare(recorded, event, live, cache)

    def _compare(
        self, recorded: Recorded, event: observation.ListCompleted, live: dict[str, str], cache: Cache
    ) -> None:
        self.seen += 1
        stale = 0 < (codec.resource_version_key(event.resource_version) or 0) < self._reached.get(recorded.kind, 0)
        if len(live) != event.items and not stale:
            text = f"the list of {event.resource} had {event.items} items, the record has {len(live)}"
            self.breach(recorded.position, text)
        wanted = {key for key, uid in live.items() if uid not in self._denied}
        has = set(stores.keys(cache, recorded.kind)) - {key for key, uid in live.items() if uid in self._denied}
        if wanted != has:
            few = ", ".join(sorted(wanted ^ has)[:3])
            self.breach(recorded.position, f"the list of {event.resource} and the cache differ in {few}")


def _uid(held: Any) -> str:
    return str(held.metadata.uid)


# --- 7: jobs ------------------------------------------------------------------------------------------------------


class JobsGoLast(Rule):
    """A job is deleted only without PodGroup and tasks; a PodGroup made again under the same name keeps its job."""

    absent = "no job was deleted"

    def __init__(self) -> None:
        super().__init__()
        self._groups: dict[str, str] = {}
        self._members: dict[str, dict[str, None]] = {}
        self._job_of: dict[str, str] = {}

    def begin(self, cache: Cache, position: int, *, whole: bool) -> None:
        for key, job in cache.jobs.items():
            if job.pod_group is not None:
                self._groups[key] = job.pod_group.metadata.uid
        for ref in cache.pods.values():
            if ref.job and (ref.node_name or ref.scheduler_name in cache.config.scheduler_names):
                self._job_of[ref.uid] = ref.job
                self._members.setdefault(ref.job, {})[ref.uid] = None

    def after(self, recorded: Recorded, cache: Cache) -> None:
        event = recorded.event
        gone = isinstance(event, observation.ObjectDeleted)
        obj: Any = getattr(event, "object", None)
        key = pod_key(recorded)
        if isinstance(obj, PodGroup):
            if not gone:
                self._groups[key] = recorded.uid
            elif self._groups.get(key) == recorded.uid:
                del self._groups[key]
        elif isinstance(obj, Pod):
            self._member(recorded, obj, cache, gone)
        elif isinstance(event, cleanup.JobDeleted):
            self.seen += 1
            if event.job in self._groups:
                self.breach(recorded.position, f"the job {event.job} has a PodGroup of uid {self._groups[event.job]}")
            members = self._members.get(event.job)
            if members:
                self.breach(recorded.position, f"the job {event.job} has {len(members)} tasks")

    def _member(self, recorded: Recorded, pod: Pod, cache: Cache, gone: bool) -> None:
        uid = recorded.uid
        self._members.get(self._job_of.pop(uid, ""), {}).pop(uid, None)
        group = (pod.metadata.annotations or {}).get(GROUP_ANNOTATION, "")
        ours = pod.spec.node_name or pod.spec.scheduler_name in cache.config.scheduler_names
        if group and ours and not gone:
            job = self._job_of[uid] = f"{recorded.namespace}/{group}"
            self._members.setdefault(job, {})[uid] = None


# --- 8: gangs -----------------------------------------------------------------------------------------------------


class WholeGangs(Rule):
    """An allocation pass commits at least minMember tasks of a gang, or none. What a pass places says how many the gang
    needs; a task that is placed by itself, on somebody's command, says nothing and is not looked at."""

    absent = "no gang was placed by an allocation pass"

    def __init__(self) -> None:
        super().__init__()
        self._placed: dict[str, tuple[int, int, int]] = {}
        self._blind = False

    def begin(self, cache: Cache, position: int, *, whole: bool) -> None:
        """What the scheduler had placed before the cut, and no watch had shown yet, is only in its own state there."""
        if not whole:
            self._blind = True
            self.absent = "the record was pruned: what the scheduler had placed before is not known"

    def overlook(self) -> None:
        """What a session says beside another scheduler's record is not done, so it is not judged."""
        self._blind = True

    def before(self, recorded: Recorded, cache: Cache) -> None:
        for job, (position, time, ready) in list(self._placed.items()):
            if time < recorded.observed_at:
                del self._placed[job]
                self._judge(job, position, ready, cache)

    def after(self, recorded: Recorded, cache: Cache) -> None:
        event = recorded.event
        if isinstance(event, scheduling.TaskAllocated) and event.gang_needed and not self._blind:
            job = cache.jobs.get(event.job)
            first = self._placed.get(event.job, (recorded.position,))[0]
            self._placed[event.job] = first, recorded.observed_at, job.ready_task_num if job is not None else 0
        elif isinstance(event, scheduling.AllocationDiscarded):
            self._placed.pop(event.job, None)

    def _judge(self, name: str, position: int, ready: int, cache: Cache) -> None:
        self.seen += 1
        job = cache.jobs.get(name)
        group = job.pod_group if job is not None else None
        if group is not None and ready < group.spec.min_member:
            self.breach(position, f"{ready} tasks of {name} stood ready, it needs {group.spec.min_member}")


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


class WorthWriting(Rule):
    """No status update is sent that changes nothing: what was known when it was decided on counts, as a watch may show
    the written condition before the answer to the write is in the log, and answers may come in any order."""

    absent = "no status was written"

    def __init__(self) -> None:
        super().__init__()
        self._is: dict[str, tuple[tuple[str, str, str], str]] = {}
        self._was: dict[int, tuple[tuple[str, str, str], str] | None] = {}
        self._version: dict[str, int] = {}

    def after(self, recorded: Recorded, cache: Cache) -> None:
        event, uid = recorded.event, recorded.uid
        if isinstance(event, binding.BindFailed | scheduling.TaskUnschedulable) and own(recorded):
            self._was[recorded.position] = self._is.get(uid)
        elif isinstance(event, binding.PodConditionPatchFailed):
            self._was.pop(recorded.causation or 0, None)
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

    def _learn(self, uid: str, version: int | None, now: tuple[tuple[str, str, str], str]) -> None:
        """What the condition is as of a version; an earlier one than is known says nothing."""
        if version is not None and version < codec.OPAQUE:
            if version < self._version.get(uid, 0):
                return
            self._version[uid] = version
        self._is[uid] = now


__all__ = [
    "AfterFailure",
    "AgreesWithLists",
    "Assumptions",
    "BoundOnce",
    "Break",
    "JobsGoLast",
    "NodeBooks",
    "OneClaim",
    "Recovered",
    "Rule",
    "WholeGangs",
    "WorthWriting",
    "wrong_books",
]
