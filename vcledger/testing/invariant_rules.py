"""The rules behind the invariants of the design, each a small machine that is shown every event once.

Owns the base of the rules, and those about nodes, lists, jobs and gangs; the others are in `invariant_volumes` and
`invariant_binding` beside it. Pure: must not know the log, files nor time; the fold's state comes in beside each event.
Called by `vcledger.testing.invariants`.

A rule that speaks of what must follow (a revert after a failed bind) gives it GRACE of observed time, and none of it
runs while a process that died is being recovered, nor while there is none: from the scheduler's word that it stops, or
from a recorder's that it begins, as only one of them writes, until a scheduler begins again. What a relist or an audit
line implies is about others: rules of our own conduct look at our own events only. A record whose beginning was pruned
begins with the state at the cut; what the scheduler itself had on its way there is not known, and no rule is broken by
what only that could explain.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from projections.cache import stores
from projections.cache.accounting import count_on_node
from projections.cache.state import Cache, NodeInfo
from vcledger import codec
from vcledger.record.resume import STARTED as RECORDER_STARTED
from vcledger.scheduled import STARTED, STOPPED
from volcano.events import cleanup, observation, recovery, resync, scheduling
from volcano.events.base import DomainEvent, Recorded
from volcano.objects.core import Pod
from volcano.objects.resource import Resource, new_resource
from volcano.objects.scheduling import PodGroup

GRACE = 1_000_000
"""Microseconds of observed time within which what must follow has followed."""

ANSWER_GRACE = 60_000_000
"""The same for the outcome of a request, which the API server may take its time to answer."""

INFERRED = 1
"""`Recorded.known` of what an audit line or a relist implies."""

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
        self._recovering = self._absent = False

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
        if isinstance(event, recovery.RecoveryStarted) or _is_marker(event, STARTED):
            self._recovering, self._absent = True, False
        elif _is_marker(event, STOPPED, RECORDER_STARTED):
            self._absent = True
        elif isinstance(event, recovery.RecoveryCompleted):
            self._recovering = False
        if isinstance(event, recovery.RecoveryStarted | recovery.RecoveryCompleted):
            late = recorded.observed_at + GRACE
            self._owed = {key: (max(due, late), what) for key, (due, what) in self._owed.items()}
        if self._owed and not self._recovering and not self._absent:
            for due, what in list(self._owed.values()):
                if due < recorded.observed_at:
                    self.breach(*what)


def pod_key(recorded: Recorded) -> str:
    return f"{recorded.namespace}/{recorded.name}"


def _is_marker(event: DomainEvent, *names: str) -> bool:
    """Whether a process says that it begins or ends. The recovery of a scheduler that begins follows, and until then
    nobody was there to do anything."""
    return isinstance(event, observation.Marker) and event.name in names


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


__all__ = [
    "ANSWER_GRACE",
    "CHANGED",
    "AgreesWithLists",
    "Break",
    "JobsGoLast",
    "NodeBooks",
    "Rule",
    "WholeGangs",
    "own",
    "pod_key",
    "wrong_books",
]
