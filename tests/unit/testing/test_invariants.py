"""Each invariant on histories that break it, with the position where it first was, and on near ones that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from projections.cache.state import NodeInfo
from vcledger import codec
from vcledger.ledger import Ledger
from vcledger.testing.invariant_rules import wrong_books
from vcledger.testing.invariants import INVARIANTS, RULES, Verdict, Watcher, check_ledger, first_broken
from volcano.events import binding, cleanup, eviction, observation, recovery, resync, scheduling, status, volume
from volcano.events.base import DomainEvent, Recorded, Subject
from volcano.objects import kinds
from volcano.objects.resource import new_resource

SECOND = 1_000_000
RECORDED, INFERRED, RECOMPUTED = 0, 1, 2
STATIC = (volume.StaticBinding(volume="pv", claim="ns/c"),)
PROVISION = (volume.Provision(claim="ns/d"),)


class History:
    """Events of one cluster, made one after the other; each a millisecond after the one before."""

    def __init__(self) -> None:
        self.events: list[Recorded] = []
        self.bodies: dict[int, bytes] = {}
        self.now = 0

    def wait(self, seconds: float) -> History:
        self.now += int(seconds * SECOND)
        return self

    def add(
        self,
        event: DomainEvent,
        kind: str = "Pod",
        name: str = "p",
        uid: str = "u",
        *,
        namespace: str = "ns",
        known: int = RECOMPUTED,
        cause: int | None = None,
        version: int | None = None,
    ) -> History:
        self.now += 1_000
        where = (len(self.events) + 1, "c", kind, namespace, name, uid, self.now, known)
        self.events.append(Recorded(*where, False, version, cause, None, event))
        return self

    def see(
        self,
        obj: dict[str, Any],
        kind: str = "Pod",
        change: str = "Added",
        *,
        known: int = RECORDED,
        version: int | None = None,
    ) -> History:
        meta = obj["metadata"]
        self.bodies[len(self.events) + 1] = msgspec.json.encode(obj)
        part = kinds.decode(kind, msgspec.json.encode(obj))
        event = getattr(observation, f"Object{change}")(object=part)
        where = meta.get("namespace", "")
        return self.add(event, kind, meta["name"], meta["uid"], namespace=where, known=known, version=version)

    def append_to(self, ledger: Ledger) -> None:
        """Writes the events into a ledger, one append each."""
        for one in self.events:
            body = self.bodies.get(one.position)
            where = {"namespace": one.namespace, "name": one.name, "uid": one.uid}
            if body is None:
                event = codec.domain(
                    one.cluster, one.subject, one.event, one.observed_at, known=one.known, causation=one.causation
                )
            else:
                change = {name: line for line, name in codec.OBSERVATION_TYPES.items()}[type(one.event).__name__]
                version = str(one.resource_version) if one.resource_version is not None else None
                event = codec.observation(
                    cluster=one.cluster, kind=one.kind, change=change, payload=body, observed_at=one.observed_at,
                    known=one.known, resource_version=version, **where,
                )  # fmt: skip
            ledger.store.append([event])

    def verdict(self, number: int) -> Verdict:
        watcher = Watcher()
        for recorded in self.events:
            watcher.see(recorded)
        return next(one for one in watcher.verdicts() if one.invariant.number == number)


def pod(uid: str = "u", name: str = "p", node: str = "", phase: str = "Pending", group: str = "", **status: Any) -> Any:
    meta: dict[str, Any] = {"name": name, "namespace": "ns", "uid": uid}
    if group:
        meta["annotations"] = {"scheduling.k8s.io/group-name": group}
    return {
        "metadata": meta,
        "spec": {"schedulerName": "volcano", "nodeName": node},
        "status": {"phase": phase, **status},
    }


def node(name: str = "n") -> Any:
    return {"metadata": {"name": name, "uid": name}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}


def claim(uid: str, bound_to: str) -> Any:
    status = {"phase": "Bound" if bound_to else "Pending"}
    return {
        "metadata": {"name": uid, "namespace": "ns", "uid": uid},
        "spec": {"volumeName": bound_to},
        "status": status,
    }


def pv(uid: str, claimed_by: str) -> Any:
    spec = {"claimRef": {"uid": claimed_by, "name": claimed_by, "namespace": "ns"}}
    return {"metadata": {"name": uid, "uid": uid}, "spec": spec, "status": {"phase": "Bound"}}


def group(uid: str = "g-1", minimum: int = 2) -> Any:
    return {"metadata": {"name": "g", "namespace": "ns", "uid": uid}, "spec": {"minMember": minimum}}


ASSUMED = volume.VolumesAssumed(node="n", bindings=STATIC, provisions=PROVISION)
REVERTED = volume.VolumesReverted(reason="x", volumes=("pv",), claims=("ns/c", "ns/d"))
BOUND = volume.VolumesBound(node="n", bindings=STATIC, provisions=PROVISION)
QUEUED = binding.BindQueued(job="", node="n")
BIND = binding.BindRequested(node="n")
BIND_OK = binding.BindSucceeded(node="n")
BIND_FAILED = binding.BindFailed(node="n", code=500)
NODE_GONE = binding.BindFailed(node="n", code=0, reason="NodeGone", message='node "n" not found', attempt=2)
RESYNC = resync.ResyncQueued(job="", attempt=1, delay_seconds=0, reason="BindFailed")
PATCHED = binding.PodConditionPatched(type="PodScheduled", status="False", reason="SchedulerError", message="m")
NOT_PATCHED = binding.PodConditionPatchFailed(type="PodScheduled", status="False", code=500, error="x")
TOLD = {"type": "PodScheduled", "status": "False", "reason": "x", "message": "failed to bind to node n: "}
CONDITION = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "m"}
UNPLACED = scheduling.TaskUnschedulable(job="ns/g", reason="Unschedulable", message="other")
ALLOCATED = scheduling.TaskAllocated(job="ns/g", node="n", gang_needed=2)
LISTED_ONE = observation.ListCompleted(resource="pods", resource_version="50", items=1)
BEGINS = observation.Marker(name="scheduler-started")
RECOVERY = recovery.RecoveryStarted(head=4)
RECOVERED = recovery.RecoveryCompleted(started=7)
TICK = observation.Bookmark(resource="pods", resource_version="1")

EVICTED = scheduling.TaskEvicted(job="ns/g", node="n", reason="preempt")
DELETION = eviction.EvictRequested(job="ns/g", node="n", decided=1)
DELETION_OF_7 = eviction.EvictRequested(job="ns/g", node="n", decided=7)
NOT_MARKED = eviction.EvictFailed(job="ns/g", node="n", code=500)
GOING = eviction.EvictSucceeded(job="ns/g", node="n")
STAYS = eviction.EvictFailed(job="ns/g", node="n", code=403)
LOST_DELETION = eviction.EvictFailed(job="ns/g", node="n", code=0, answer_lost=True)
MARKED = binding.PodConditionPatched(type="DisruptionTarget", status="True", message="because of preempt")
MARKED_ANEW = binding.PodConditionPatched(type="DisruptionTarget", status="True", message="because of reclaim")

LET_IN = status.PodGroupUpdateRequested(job="ns/g", phase="Inqueue", sent_resource_version="5")
RUNS = msgspec.structs.replace(
    LET_IN, phase="Running", running=2, condition="Scheduled", reason="ready", sent_resource_version="7"
)
HOLDS = status.QueueUpdateRequested(allocated={"cpu": 1500.0, "memory": 2.0**30, "pods": 2.0, "x.y/gpu": 1000.0})


def taken(intent: int, version: str = "") -> status.PodGroupUpdateSucceeded:
    return status.PodGroupUpdateSucceeded(intent=intent, new_resource_version=version)


def not_taken(intent: int, code: int) -> status.PodGroupUpdateFailed:
    return status.PodGroupUpdateFailed(intent=intent, code=code, answer_lost=not code)


def says(phase: str, *conditions: tuple[str, str], running: int = 0) -> Any:
    """A PodGroup with that status."""
    rows = [{"type": of, "status": "True", "reason": reason} for of, reason in conditions]
    return group() | {"status": {"phase": phase, "running": running, "conditions": rows}}


def queue(**allocated: str) -> Any:
    return {"metadata": {"name": "q", "uid": "q"}, "status": {"allocated": allocated}}


STOPS = observation.Marker(name="scheduler-stopped")
RECORDS = observation.Marker(name="recorder-started")
SAYS = ("Recording", "said", "")
MAKES = status.QueueCreateRequested(queue="q")
MAKER = ("Scheduler", "queues", "")

GROUP = ("PodGroup", "g", "g-1")
QUEUE = ("Queue", "q", "q")


def h() -> History:
    return History()


RUNNING = pod(node="n", phase="Running")


BROKEN: dict[str, tuple[int, int, History]] = {
    "confirmed after it was reverted": (2, 3, h().add(ASSUMED).add(REVERTED).add(BOUND)),
    "reverted twice": (2, 3, h().add(ASSUMED).add(REVERTED).add(REVERTED)),
    "assumed twice": (2, 2, h().add(ASSUMED).add(ASSUMED)),
    "confirmed in part": (2, 2, h().add(ASSUMED).add(volume.VolumesBound(node="n", bindings=STATIC))),
    "outlives its pod": (2, 3, h().see(pod()).add(ASSUMED).see(pod(), change="Deleted").wait(2).add(TICK, "Pod")),
    "outlives the bind": (2, 2, h().add(ASSUMED).add(BIND_OK).wait(2).add(TICK)),
    "outlives a failed pod": (2, 2, h().add(ASSUMED).see(pod(phase="Failed"), change="Modified").wait(2).add(TICK)),
    "a volume of two claims": (
        3,
        2,
        h()
        .see(claim("a", "pv"), "PersistentVolumeClaim")
        .see(claim("b", "pv"), "PersistentVolumeClaim")
        .wait(2)
        .add(TICK),
    ),
    "a claim of two volumes": (
        3,
        2,
        h().see(pv("a", "c"), "PersistentVolume").see(pv("b", "c"), "PersistentVolume").wait(2).add(TICK),
    ),
    "assumed for two claims": (
        3,
        2,
        h()
        .add(ASSUMED)
        .add(volume.VolumesAssumed(node="n", bindings=(volume.StaticBinding(volume="pv", claim="ns/x"),)), uid="other"),
    ),
    "bound twice": (4, 3, h().add(BIND).add(BIND_OK).add(BIND_OK)),
    "seen on another node": (4, 2, h().see(pod(node="n")).see(pod(node="m"), change="Modified")),
    "bound to a node that went": (4, 3, h().see(node(), "Node").see(node(), "Node", "Deleted").add(BIND)),
    "deleted without a decision": (4, 1, h().add(DELETION)),
    "deleted for a decision before the last": (4, 3, h().add(EVICTED).add(EVICTED).add(DELETION)),
    "deleted again once it is going": (4, 5, h().add(EVICTED).add(MARKED).add(DELETION).add(GOING).add(DELETION)),
    "deleted a third time": (4, 5, h().add(EVICTED).add(MARKED).add(DELETION).add(DELETION).add(DELETION)),
    "deleted without its conditions": (4, 2, h().add(EVICTED).add(DELETION)),
    "deleted with conditions for another reason": (4, 3, h().add(EVICTED).add(MARKED_ANEW).add(DELETION)),
    "told to go while it is being bound": (4, 3, h().see(pod()).add(BIND).add(EVICTED)),
    "told to go before its binding was answered": (
        4,
        4,
        h().see(pod()).add(BIND).see(RUNNING, change="Modified").add(EVICTED),
    ),
    "told to go before it was seen bound": (4, 4, h().see(pod()).add(BIND).add(BIND_OK).add(EVICTED)),
    "told to go again at once": (4, 5, h().add(EVICTED).add(MARKED).add(DELETION).add(STAYS).wait(0.9).add(EVICTED)),
    "told to go again too soon after the second time": (
        4,
        6,
        h().add(EVICTED).add(NOT_MARKED).wait(1).add(EVICTED).add(NOT_MARKED).wait(1.9).see(RUNNING).add(EVICTED),
    ),
    "no resync after an eviction that failed": (
        5,
        4,
        h().see(RUNNING).add(EVICTED).add(DELETION).add(STAYS).wait(2).add(TICK),
    ),
    "told twice that it is to go": (12, 3, h().see(RUNNING).add(MARKED).add(MARKED)),
    "no resync after a failed bind": (5, 2, h().see(pod()).add(BIND_FAILED).wait(2).add(TICK)),
    "no revert after a failed bind": (5, 2, h().add(ASSUMED).add(BIND_FAILED).add(RESYNC).wait(2).add(TICK)),
    "no revert after failed volumes": (
        5,
        2,
        h().add(ASSUMED).add(volume.VolumeBindingFailed(node="n", reason="x")).add(RESYNC).wait(2).add(TICK),
    ),
    "the condition never": (5, 3, h().see(pod()).add(BIND).add(BIND_FAILED).add(RESYNC).wait(61).add(TICK)),
    "the condition of the failure before": (
        5,
        5,
        h()
        .see(pod())
        .add(BIND)
        .add(BIND_FAILED)
        .add(PATCHED, cause=3)
        .add(binding.BindFailed(node="m", code=500))
        .add(RESYNC)
        .wait(61)
        .add(TICK),
    ),
    "the condition twice": (5, 5, h().add(BIND).add(BIND_FAILED).add(RESYNC).add(PATCHED).add(PATCHED)),
    "the condition twice after a bind that was not requested": (
        5,
        5,
        h().add(QUEUED).add(BIND_FAILED).add(RESYNC).add(PATCHED).add(PATCHED),
    ),
    "more pods than the list has": (
        6,
        3,
        h().see(pod()).see(pod("v", "q")).add(LISTED_ONE, "Pod", "", "", namespace=""),
    ),
    "fewer pods than the list has": (
        6,
        2,
        h().see(pod()).add(observation.ListCompleted(resource="pods", items=2), "Pod", "", "", namespace=""),
    ),
    "a job with its group": (7, 2, h().see(group(), "PodGroup").add(cleanup.JobDeleted(job="ns/g"), "PodGroup", "g")),
    "a job with a task": (7, 2, h().see(pod(group="g")).add(cleanup.JobDeleted(job="ns/g"), "PodGroup", "g")),
    "half a gang": (
        8,
        3,
        h().see(group(), "PodGroup").see(pod(group="g")).add(ALLOCATED).wait(1).add(TICK),
    ),
    "over with a doubt": (
        11,
        2,
        h()
        .add(recovery.RecoveryStarted(head=0, in_doubt=(7,)), "Scheduler")
        .add(recovery.RecoveryCompleted(started=1), "Scheduler"),
    ),
    "bound twice after a crash": (
        11,
        3,
        h().add(recovery.RecoveryStarted(head=0), "Scheduler").add(BIND_OK).add(BIND_OK),
    ),
    "a condition as it was": (
        12,
        2,
        h().see(pod(conditions=[CONDITION])).add(PATCHED),
    ),
    "written and written again": (12, 2, h().add(PATCHED).add(PATCHED)),
    "a group's status as it was seen": (12, 2, h().see(says("Inqueue"), "PodGroup").add(LET_IN, *GROUP)),
    "a group's status as it was taken": (
        12,
        4,
        h().see(says("Pending"), "PodGroup").add(LET_IN, *GROUP).add(taken(2), *GROUP).add(LET_IN, *GROUP),
    ),
    "a group's status as it was taken, and an older one seen since": (
        12,
        5,
        h()
        .see(says("Pending"), "PodGroup", version=5)
        .add(LET_IN, *GROUP)
        .add(taken(2, "7"), *GROUP)
        .see(says("Pending"), "PodGroup", "Modified", version=6)
        .add(LET_IN, *GROUP),
    ),
    "a group's status that is being written already": (12, 2, h().add(LET_IN, *GROUP).add(LET_IN, *GROUP)),
    "a group's condition as it was seen beside another": (
        12,
        2,
        h()
        .see(says("Running", ("Unschedulable", "few"), ("Scheduled", "ready"), running=2), "PodGroup")
        .add(RUNS, *GROUP),
    ),
    "a group's status without an outcome": (
        12,
        2,
        h().see(says("Pending"), "PodGroup").add(LET_IN, *GROUP).wait(61).add(TICK),
    ),
    "a queue's status as it was seen, in other words": (
        12,
        2,
        h()
        .see(queue(cpu="1.5", memory="1024Mi", pods="2", **{"x.y/gpu": "1"}), "Queue")
        .add(HOLDS, *QUEUE, namespace=""),
    ),
    "a queue's status as it was taken": (
        12,
        3,
        h()
        .add(HOLDS, *QUEUE, namespace="")
        .add(status.QueueUpdateSucceeded(intent=1), *QUEUE, namespace="")
        .add(HOLDS, *QUEUE, namespace=""),
    ),
    "a queue's status without an outcome": (12, 1, h().add(HOLDS, *QUEUE, namespace="").wait(61).add(TICK)),
    "a binding without an outcome": (12, 2, h().see(pod()).add(BIND).wait(601).add(TICK)),
    "a deletion without an outcome": (12, 3, h().see(RUNNING).add(EVICTED).add(DELETION).wait(601).add(TICK)),
    "one of two bindings without an outcome": (
        12,
        3,
        h().see(pod()).add(BIND).add(BIND).add(binding.BindFailed(node="n", code=0, intent=2)).wait(601).add(TICK),
    ),
    "a queue that is to be made without an outcome": (12, 1, h().add(MAKES, *MAKER).wait(61).add(TICK)),
    "a queue that is to be made twice at once": (12, 2, h().add(MAKES, *MAKER).add(MAKES, *MAKER)),
    "a queue that is to be made and is there": (12, 2, h().see(queue(), "Queue").add(MAKES, *MAKER)),
    "a recorder had gone on, and the next scheduler forgot": (
        12,
        6,
        h()
        .see(pod())
        .add(STOPS, *SAYS)
        .add(RECORDS, *SAYS)
        .add(RECOVERY, "Scheduler", "loop", "", namespace="")
        .add(RECOVERED, "Scheduler", "loop", "", namespace="")
        .add(BIND)
        .wait(601)
        .add(TICK),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_breach_is_found_where_it_was(name: str) -> None:
    number, position, history = BROKEN[name]
    verdict = history.verdict(number)
    assert (verdict.outcome, verdict.position) == ("broken", position), verdict
    assert verdict.text


HELD: dict[str, tuple[int, History]] = {
    "confirmed": (2, h().add(ASSUMED).add(BOUND).add(BIND).add(BIND_OK).wait(9).add(TICK)),
    "reverted, then assumed again": (2, h().add(ASSUMED).add(REVERTED).add(ASSUMED).add(BOUND)),
    "reverted in two parts": (
        2,
        h()
        .add(ASSUMED)
        .add(volume.VolumesReverted(reason="x", claims=("ns/d",)))
        .add(volume.VolumesReverted(reason="x", volumes=("pv",), claims=("ns/c",))),
    ),
    "reverted with its pod": (2, h().add(ASSUMED).see(pod(), change="Deleted").add(REVERTED).wait(9).add(TICK)),
    "a claim handed on": (
        3,
        h()
        .see(claim("a", "pv"), "PersistentVolumeClaim")
        .see(claim("b", "pv"), "PersistentVolumeClaim")
        .see(claim("a", "pv"), "PersistentVolumeClaim", "Deleted", known=INFERRED)
        .wait(2)
        .add(TICK),
    ),
    "a node that came back": (
        4,
        h().see(node(), "Node").see(node(), "Node", "Deleted").see(node(), "Node").add(BIND).add(BIND_OK),
    ),
    "bindings with an outcome that names none": (
        12,
        h().see(pod()).add(BIND).add(BIND).add(BIND_OK).wait(601).add(TICK),
    ),
    "an audit line of a bind that we know": (4, h().add(BIND).add(BIND_OK).add(BIND_OK, known=INFERRED)),
    "evicted, once more where no answer came, and another time": (
        4,
        h()
        .add(EVICTED)
        .add(MARKED)
        .add(DELETION)
        .add(LOST_DELETION)
        .add(DELETION)
        .add(GOING)
        .add(EVICTED)
        .add(DELETION_OF_7),
    ),
    "told to go once it was seen bound, again a while after that failed, the conditions being there": (
        4,
        h()
        .add(BIND)
        .see(RUNNING)
        .add(BIND_OK)
        .add(EVICTED)
        .add(MARKED)
        .add(msgspec.structs.replace(DELETION, decided=4))
        .add(STAYS)
        .wait(1)
        .add(EVICTED)
        .add(msgspec.structs.replace(DELETION, decided=8)),
    ),
    "an eviction that failed is looked at again": (
        5,
        h().see(RUNNING).add(EVICTED).add(DELETION).add(LOST_DELETION).add(STAYS).add(RESYNC).wait(2).add(TICK),
    ),
    "told for another reason that it is to go": (12, h().see(RUNNING).add(MARKED).add(MARKED_ANEW)),
    "a pod that is to go said something else before": (
        12,
        h().see(pod(conditions=[CONDITION])).add(MARKED).see(pod(conditions=[]), change="Modified").add(PATCHED),
    ),
    "an answer that was lost": (
        5,
        h().see(pod()).add(binding.BindFailed(node="n", code=0, answer_lost=True)).add(BIND_FAILED).add(RESYNC),
    ),
    "reverted and queued": (
        5,
        h().add(ASSUMED).add(BIND_FAILED).add(REVERTED).add(RESYNC).add(PATCHED).wait(9).add(TICK),
    ),
    "a process that died in between": (
        5,
        h()
        .see(pod())
        .add(BIND_FAILED)
        .wait(60)
        .add(recovery.RecoveryStarted(head=2), "Scheduler")
        .add(RESYNC)
        .add(recovery.RecoveryCompleted(started=3), "Scheduler"),
    ),
    "a failure that the condition tells already": (
        5,
        h().see(pod(conditions=[TOLD])).add(BIND).add(BIND_FAILED).add(RESYNC).wait(61).add(TICK),
    ),
    "a failure told once, and had again": (
        5,
        h()
        .see(pod())
        .add(BIND)
        .add(BIND_FAILED)
        .add(RESYNC)
        .add(PATCHED, cause=3)
        .add(BIND)
        .add(BIND_FAILED)
        .add(RESYNC)
        .wait(61)
        .add(TICK),
    ),
    "each of two failures told, the second of a bind that was not requested": (
        5,
        h()
        .see(pod())
        .add(QUEUED)
        .add(BIND)
        .add(BIND_FAILED)
        .add(RESYNC)
        .add(PATCHED, cause=4)
        .add(QUEUED)
        .add(NODE_GONE)
        .add(RESYNC)
        .add(PATCHED, cause=8),
    ),
    "two failures told, both answers after the second": (
        5,
        h()
        .see(pod())
        .add(QUEUED)
        .add(BIND)
        .add(BIND_FAILED)
        .add(RESYNC)
        .add(QUEUED)
        .add(BIND)
        .add(NODE_GONE)
        .add(RESYNC)
        .add(PATCHED, cause=4)
        .add(PATCHED, cause=8),
    ),
    "a process that ended before its patch was answered, and the next one's start long after": (
        5,
        h()
        .see(pod())
        .add(BIND)
        .add(BIND_FAILED)
        .add(RESYNC)
        .wait(3600)
        .add(BEGINS, "Recording", "scheduler-started", "", namespace="")
        .wait(2)
        .add(RECOVERY, "Scheduler", "loop", "", namespace="")
        .add(NOT_PATCHED, cause=3)
        .add(RECOVERED, "Scheduler", "loop", "", namespace="")
        .wait(61)
        .add(TICK),
    ),
    "a condition that could not be patched": (
        5,
        h().see(pod()).add(BIND).add(BIND_FAILED).add(RESYNC).add(NOT_PATCHED, cause=3).wait(61).add(TICK),
    ),
    "a process that died before it had patched": (
        5,
        h()
        .see(pod())
        .add(BIND)
        .add(BIND_FAILED)
        .add(RESYNC)
        .add(recovery.RecoveryStarted(head=4), "Scheduler")
        .add(recovery.RecoveryCompleted(started=5), "Scheduler")
        .wait(61)
        .add(TICK),
    ),
    "a pod that is gone, bound elsewhere, or on its way out": (
        5,
        h()
        .see(pod())
        .add(binding.BindFailed(node="n", code=404))
        .add(RESYNC)
        .add(binding.BindFailed(node="n", code=409, bound_to="m"))
        .add(RESYNC)
        .see(pod(node="m"), change="Modified")
        .add(BIND_FAILED)
        .add(RESYNC)
        .wait(61)
        .add(TICK),
    ),
    "a list of an earlier version than the record has": (
        6,
        h().see(pod(), version=100).see(pod("v", "q"), version=101).add(LISTED_ONE, "Pod", "", "", namespace=""),
    ),
    "as many as the list has": (
        6,
        h().see(pod()).add(observation.ListCompleted(resource="pods", items=1), "Pod", "", "", namespace=""),
    ),
    "a pod that the API server said to be gone": (
        6,
        h()
        .see(pod())
        .see(pod("v", "q"))
        .add(resync.ResyncSucceeded(job="", attempt=1, found=False))
        .add(observation.ListCompleted(resource="pods", items=2), "Pod", "", "", namespace=""),
    ),
    "a job that is over": (
        7,
        h()
        .see(group(), "PodGroup")
        .see(group(), "PodGroup", "Deleted")
        .add(cleanup.JobDeleted(job="ns/g"), "PodGroup", "g")
        .see(group("g-2"), "PodGroup"),
    ),
    "a whole gang": (
        8,
        h()
        .see(group(), "PodGroup")
        .see(pod(group="g", node="n", phase="Running"))
        .see(pod("v", "q", "n", "Running", "g"))
        .add(ALLOCATED)
        .wait(1)
        .add(TICK),
    ),
    "shown by the watch before the answer came": (
        12,
        h()
        .see(pod())
        .add(BIND)
        .add(BIND_FAILED)
        .see(pod(conditions=[CONDITION]), change="Modified")
        .add(PATCHED, cause=3),
    ),
    "two answers in the other order": (
        12,
        h()
        .see(pod(), version=5)
        .add(BIND_FAILED)
        .add(UNPLACED)
        .add(msgspec.structs.replace(PATCHED, message="other", new_resource_version="8"), cause=3)
        .add(msgspec.structs.replace(PATCHED, new_resource_version="7"), cause=2)
        .add(BIND_FAILED)
        .add(msgspec.structs.replace(PATCHED, new_resource_version="9"), cause=6),
    ),
    "a group's phases, one after the other": (
        12,
        h()
        .see(says("Pending"), "PodGroup", version=5)
        .add(LET_IN, *GROUP)
        .add(taken(2, "7"), *GROUP)
        .see(says("Pending"), "PodGroup", "Modified", version=6)
        .add(RUNS, *GROUP)
        .add(taken(5, "8"), *GROUP)
        .see(says("Pending"), "PodGroup", "Modified", version=9)
        .add(LET_IN, *GROUP)
        .add(taken(8, "10"), *GROUP)
        .wait(61)
        .add(TICK),
    ),
    "a group's status that was not taken, or of which that is not known": (
        12,
        h()
        .see(says("Pending"), "PodGroup")
        .add(LET_IN, *GROUP)
        .add(not_taken(2, 409), *GROUP)
        .add(LET_IN, *GROUP)
        .add(not_taken(4, 0), *GROUP)
        .add(LET_IN, *GROUP)
        .add(taken(6), *GROUP)
        .wait(61)
        .add(TICK),
    ),
    "the status of a group that was made anew": (
        12,
        h()
        .see(says("Inqueue"), "PodGroup")
        .see(says("Inqueue"), "PodGroup", "Deleted")
        .add(LET_IN, "PodGroup", "g", "g-2"),
    ),
    "another reason in a group's condition": (
        12,
        h().see(says("Running", ("Scheduled", "soon"), running=2), "PodGroup").add(RUNS, *GROUP),
    ),
    "a queue that holds something else, or something more": (
        12,
        h()
        .see(queue(cpu="1.5", memory="1Gi", pods="2"), "Queue")
        .add(HOLDS, *QUEUE, namespace="")
        .add(status.QueueUpdateSucceeded(intent=2), *QUEUE, namespace="")
        .see(queue(cpu="1.5", memory="1Gi", pods="2", **{"x.y/gpu": "1", "x.y/tpu": "1"}), "Queue", "Modified")
        .add(HOLDS, *QUEUE, namespace=""),
    ),
    "another message": (12, h().add(PATCHED).add(msgspec.structs.replace(PATCHED, message="other"))),
}


def test_half_a_pass_is_not_judged_yet() -> None:
    """The rest of it may follow at the same moment."""
    history = h().see(group(), "PodGroup").see(pod(group="g")).add(ALLOCATED)
    assert history.verdict(8).outcome == "not applicable"


def test_a_task_that_is_placed_by_itself_is_no_gang() -> None:
    alone = msgspec.structs.replace(ALLOCATED, gang_needed=0)
    history = h().see(group(), "PodGroup").see(pod(group="g")).add(alone).wait(1).add(TICK)
    assert history.verdict(8).outcome == "not applicable"


@pytest.mark.parametrize("name", HELD)
def test_what_only_looks_like_a_breach_is_none(name: str) -> None:
    number, history = HELD[name]
    assert history.verdict(number).outcome == "held", history.verdict(number)


OUT: dict[str, tuple[int, Callable[[], History]]] = {
    "a group's status": (12, lambda: h().see(says("Pending"), "PodGroup").add(LET_IN, *GROUP)),
    "a queue's status": (12, lambda: h().add(HOLDS, *QUEUE, namespace="")),
    "a queue that is to be made": (12, lambda: h().add(MAKES, *MAKER)),
    "a binding": (12, lambda: h().see(pod()).add(BIND)),
    "a deletion": (12, lambda: h().see(RUNNING).add(EVICTED).add(DELETION)),
    "a condition": (5, lambda: h().see(pod()).add(BIND).add(BIND_FAILED).add(RESYNC)),
    "an assumption": (2, lambda: h().see(pod()).add(ASSUMED).see(pod(), change="Deleted")),
}
"""What is out when a scheduler ends, and the rule that asks what became of it."""


@pytest.mark.parametrize("name", OUT)
def test_a_scheduler_that_lives_and_forgets_what_is_out_breaks_the_rule(name: str) -> None:
    number, made = OUT[name]
    assert made().wait(700).see(node(), "Node").verdict(number).outcome == "broken"


@pytest.mark.parametrize("word", [STOPS, RECORDS], ids=["stopped", "killed, and a recorder began"])
@pytest.mark.parametrize("name", OUT)
def test_one_that_stopped_or_was_killed_with_it_has_forgotten_nothing(name: str, word: observation.Marker) -> None:
    number, made = OUT[name]
    history = made().wait(700).add(word, *SAYS, namespace="").wait(600).see(node(), "Node").add(TICK)
    assert history.verdict(number).outcome != "broken", history.verdict(number)
    history.add(RECOVERY, "Scheduler", "loop", "", namespace="").add(RECOVERED, "Scheduler", "loop", "", namespace="")
    history.wait(700).see(node(), "Node", "Modified")
    settles = number != 5  # a condition that was out is given up
    assert (history.verdict(number).outcome == "broken") is settles, "the one that begins again has to settle it"


def test_what_a_history_does_not_speak_of_is_not_applicable() -> None:
    watcher = Watcher()
    for recorded in h().add(TICK).events:
        watcher.see(recorded)
    assert {one.outcome for one in watcher.verdicts()} == {"not applicable"}
    assert all(one.text for one in watcher.verdicts())


def test_books_that_do_not_add_up() -> None:
    books = NodeInfo("n", kinds.decode("Node", msgspec.json.encode(node())))
    books.allocatable = books.idle = new_resource({"cpu": "4"}, exact=True)
    assert wrong_books(books) == []
    books.used = new_resource({"cpu": "1"}, exact=True)
    assert len(wrong_books(books)) == 2


def test_the_twelve_are_numbered_as_in_the_design() -> None:
    assert [one.number for one in INVARIANTS] == list(range(1, 13))
    assert sorted({*RULES, 9, 10}) == list(range(1, 13))


def test_a_whole_ledger(ledger: Ledger) -> None:
    """Two binds of one pod: 4 is broken, the log itself is as it should be; nothing more before that."""
    where = Subject("Pod", "ns", "p", "u")
    for number, event in enumerate((BIND, BIND_OK, BIND_OK, PATCHED), start=1):
        ledger.store.append([codec.domain("c", where, event, number * 1_000)])
    verdicts = check_ledger(ledger)
    assert [one.invariant.number for one in verdicts] == list(range(1, 13))
    broken = first_broken(verdicts)
    assert broken is not None
    assert (broken.invariant.name, broken.position) == ("bound-once", 3)
    assert verdicts[9].outcome == "held"
    assert [one.invariant.number for one in check_ledger(ledger, position=2) if one.broken] == []


def test_an_event_that_cannot_be_here_breaks_the_state(ledger: Ledger) -> None:
    where = Subject("Pod", "ns", "p", "u")
    ledger.store.append([codec.domain("c", where, BOUND, 1_000)])
    verdict = check_ledger(ledger)[8]
    assert (verdict.outcome, verdict.position) == ("broken", 1)
    assert "VolumesBound" in verdict.text


def test_a_failed_bind_of_a_pod_whose_name_another_has_by_now_needs_no_resync() -> None:
    """The old pod's deletion comes last, and late, when a list shows the new one first."""
    history = h().see(pod("old")).see(pod("new"), change="Modified")
    history.add(BIND_FAILED, uid="old").wait(5).add(TICK)
    assert not history.verdict(5).broken
    untold = h().see(pod("old")).add(BIND_FAILED, uid="old").wait(5).add(TICK)
    assert untold.verdict(5).broken
