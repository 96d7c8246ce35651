"""What the record says, for a free replay: what came from outside, and how each pod of the scheduler lived.

Owns telling the scheduler's decisions (nodes, phases, evictions, what followed from them) from what came from outside:
arrivals, changes and deletions by others, and how long each pod ran. Must not know the simulation. Called by
`vcledger.replay.free`.

A pod of the scheduler is kept as its first observation without node and status, later versions in which something else
changed, and its times. Of a PodGroup, a Queue and a Volcano Job the status is left out (but for a queue's state).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from vcledger.replay.inputs import Input

ENDED = ("Succeeded", "Failed")
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_FAILED = "SchedulerError"
"""What PodScheduled's reason is after a bind, or what comes before it, has failed (Volcano's taskUnschedulable)."""

LEFT_OUT = ("Event",)
"""Kinds of which nothing is replayed: core Events are what schedulers and controllers said."""

encode = msgspec.json.Encoder(order="deterministic").encode
decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(slots=True)
class Life:
    """A pod of the scheduler in the record. Times in microseconds of observation, None: never seen.

    listed     its beginning lies before the record
    body       the pod without node and status; `later` its versions (time, body)
    kept       the whole first object of a listed pod
    started    its first sight with a node, running, or said to be scheduled, at `decided_at` in the log
    with_node  the labels that came with the node (its topology)
    ran        its first sight running
    evicted    the scheduler told it to go
    lost       it was deleted while it had its place, and its node was gone already
    said       what its PodScheduled condition last said, while it was pending
    failing    from its first to its last sight with a bind that had failed, None: none did; `fails` while it is so
    """

    uid: str
    namespace: str
    name: str
    group: str
    owner: str
    position: int
    created: int
    body: bytes
    listed: bool = False
    kept: bytes = b""
    later: list[tuple[int, bytes]] = field(default_factory=list)
    node: str = ""
    decided_at: int = 0
    started: int | None = None
    ran: int | None = None
    ended: int | None = None
    phase: str = ""
    asked_to_go: int | None = None
    deleted: int | None = None
    evicted: bool = False
    lost: bool = False
    last_position: int = 0
    said: str = ""
    failing: tuple[int, int] | None = None
    fails: bool = False
    with_node: tuple[str, ...] = ()

    @property
    def newest(self) -> bytes:
        """The pod as it was last asked for."""
        return self.later[-1][1] if self.later else self.body

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def taken(self) -> bool:
        """Whether it lost its place to others: by an eviction, or with its node."""
        return self.evicted or self.lost

    @property
    def gone(self) -> int | None:
        """When it stopped holding anything: its end, or the moment it was deleted."""
        return self.ended if self.ended is not None else self.deleted


@dataclass(slots=True)
class Claim:
    """A claim in the record for whose volume a node was named (at `chosen`, its selected-node annotation): when it was
    bound, None: it never was."""

    chosen: int
    bound: int | None = None


@dataclass(slots=True)
class Group:
    """A PodGroup in the record: when it was seen, let in, deleted; the uid of the Volcano Job that owns it, or ''; from
    when on how many members it asked for."""

    key: str
    uid: str
    owner: str
    seen: int
    let_in: int | None = None
    deleted: int | None = None
    lives: list[Life] = field(default_factory=list)
    least: list[tuple[int, int]] = field(default_factory=list)

    def least_at(self, now: int) -> int:
        """How many members it asked for at a time."""
        return next((number for time, number in reversed(self.least) if time <= now), 0)


@dataclass(frozen=True, slots=True)
class Outside:
    """Something that came from outside at `time`: an object added, changed or gone; or a marker (kind Recording)."""

    time: int
    position: int
    kind: str
    change: str
    namespace: str
    name: str
    uid: str
    body: bytes
    listed: bool = False


class Record:
    """The record, read once: `outside` in its order, `lives` by uid in the order of arrival, `groups` by uid,
    `job_state` the last state of each Volcano Job by uid, `claims` by 'namespace/name'."""

    def __init__(self, scheduler_names: Collection[str]) -> None:
        self.names = frozenset(scheduler_names)
        self.outside: list[Outside] = []
        self.lives: dict[str, Life] = {}
        self.groups: dict[str, Group] = {}
        self.seats: dict[tuple[str, str], list[Life]] = {}
        self.job_state: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, Claim] = {}
        self.first_time: int | None = None
        self.last_time = 0
        self._current: dict[str, Group] = {}
        self._unclaimed: dict[str, list[Life]] = {}
        self._gone_nodes: dict[str, None] = {}
        self._bodies: dict[tuple[str, str, str], bytes] = {}

    def see(self, given: Input) -> None:
        """One more input."""
        if self.first_time is None:
            self.first_time = given.time
        self.last_time = given.time
        meta = given.object.get("metadata") or {}
        if given.kind == "Pod":
            known = self.lives.get(meta.get("uid", ""))
            if known is not None or (given.object.get("spec") or {}).get("schedulerName") in self.names:
                self._see_pod(given, meta, known)
                return
        elif given.kind == "PodGroup":
            self._see_group(given, meta)
        elif given.kind == "Node":
            self._gone_nodes.pop(meta.get("name") or "", None)
            if given.change == "DELETED":
                self._gone_nodes[meta.get("name") or ""] = None
        elif given.kind == "PersistentVolumeClaim":
            self._see_claim(given, meta)
        elif given.kind == "VolcanoJob":
            self.job_state[meta.get("uid") or ""] = (given.raw.get("status") or {}).get("state") or {}
        if given.kind not in LEFT_OUT:
            self._see_other(given, meta)

    # --- everything else ------------------------------------------------------------------------------------------

    def _see_other(self, given: Input, meta: dict[str, Any]) -> None:
        obj = given.object
        if given.kind != "Recording":
            obj = stripped(given.kind, obj, keep_status=given.listed)
        body = encode(obj)
        key = (given.kind, meta.get("namespace") or "", meta.get("name") or "")
        if given.change != "DELETED" and self._bodies.get(key) == body:
            return  # only a status or a version changed
        self._bodies[key] = body if given.change != "DELETED" else b""
        self.outside.append(
            Outside(given.time, given.position, given.kind, given.change, key[1], key[2], meta.get("uid") or "", body,
                    given.listed)
        )  # fmt: skip

    def _see_group(self, given: Input, meta: dict[str, Any]) -> None:
        uid, key = meta.get("uid") or "", f"{meta.get('namespace')}/{meta.get('name')}"
        group = self.groups.get(uid)
        if group is None:
            group = self.groups[uid] = Group(key, uid, job_owner(meta), given.time)
            group.lives += [life for life in self._unclaimed.pop(key, ()) if life.deleted is None]
            self._current[key] = group
        if given.change == "DELETED":
            group.deleted = given.time
            return
        least = (given.raw.get("spec") or {}).get("minMember") or 0
        if not group.least or group.least[-1][1] != least:
            group.least.append((given.time, least))
        phase = (given.object.get("status") or {}).get("phase") or "Pending"
        if group.let_in is None and phase != "Pending":
            group.let_in = given.time

    def _see_claim(self, given: Input, meta: dict[str, Any]) -> None:
        key, bound = (
            f"{meta.get('namespace')}/{meta.get('name')}",
            (given.raw.get("status") or {}).get("phase") == "Bound",
        )
        claim = self.claims.get(key)
        if claim is None and not bound and SELECTED_NODE in (meta.get("annotations") or {}):
            self.claims[key] = Claim(given.time)
        elif claim is not None and claim.bound is None and bound:
            claim.bound = given.time

    # --- pods -----------------------------------------------------------------------------------------------------

    def _see_pod(self, given: Input, meta: dict[str, Any], life: Life | None) -> None:
        if life is None:
            life = self._begin(given, meta)
        spec, status = given.raw.get("spec") or {}, given.raw.get("status") or {}
        life.last_position = given.position
        if given.change == "DELETED":
            life.deleted = given.time
            life.lost = life.node in self._gone_nodes and life.ended is None and life.asked_to_go is None
            return
        phase, node = status.get("phase") or "", spec.get("nodeName") or ""
        conditions = status.get("conditions") or []
        if life.started is None and (node or phase in ("Running", *ENDED) or _says(conditions, "PodScheduled")):
            life.started, life.decided_at = given.time, given.position
            life.with_node = tuple(sorted(set(_labels(given.object)) - set(_labels(decode(life.newest)))))
        life.node = life.node or node
        if life.ran is None and phase == "Running":
            life.ran = given.time
        if life.ended is None and phase in ENDED:
            life.ended, life.phase = given.time, phase
        if life.asked_to_go is None and meta.get("deletionTimestamp"):
            life.asked_to_go = given.time
        life.evicted = life.evicted or (life.ended is None and told_to_go(conditions))
        if life.started is None:
            told: dict[str, Any] = next((one for one in conditions if one.get("type") == "PodScheduled"), {})
            life.said, life.fails = told.get("message") or "", told.get("reason") == BIND_FAILED
        if life.fails:
            life.failing = (life.failing[0] if life.failing is not None else given.time), given.time
        if not life.group:
            self._join(life, meta)
        body = encode(pod_body(given.object, life.with_node))
        if body != life.newest and not meta.get("deletionTimestamp"):
            life.later.append((given.time, body))

    def _begin(self, given: Input, meta: dict[str, Any]) -> Life:
        namespace, name = meta.get("namespace") or "", meta.get("name") or ""
        life = Life(
            meta.get("uid") or "",
            namespace,
            name,
            "",
            job_owner(meta),
            given.position,
            given.time,
            encode(pod_body(given.object)),
            given.listed,
            encode(given.object) if given.listed else b"",
        )
        self.lives[life.uid] = life
        self.seats.setdefault((life.key, life.owner), []).append(life)
        self._join(life, meta)
        return life

    def _join(self, life: Life, meta: dict[str, Any]) -> None:
        group = (meta.get("annotations") or {}).get(GROUP_ANNOTATION) or ""
        life.group = f"{life.namespace}/{group}" if group else ""
        of = self._current.get(life.group)
        if of is not None:
            of.lives.append(life)
        elif life.group:  # its group comes later, as at the beginning, where the latest seen stands last
            self._unclaimed.setdefault(life.group, []).append(life)


def stripped(kind: str, obj: dict[str, Any], *, keep_status: bool) -> dict[str, Any]:
    """An object without its version and managed fields, and without what the scheduler and its controllers wrote,
    unless the replay begins with it."""
    meta = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _VERSIONED}
    made = {**obj, "metadata": meta}
    if keep_status or kind not in ("PodGroup", "Queue", "VolcanoJob"):
        return made
    status = obj.get("status") or {}
    made["status"] = {"state": status.get("state") or "Open"} if kind == "Queue" else {}
    return made


_VERSIONED = ("resourceVersion", "managedFields", "generation", "selfLink")


def _labels(obj: dict[str, Any]) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def pod_body(obj: dict[str, Any], without: Sequence[str] = ()) -> dict[str, Any]:
    """A pod without node, status, version, deletion and some labels: what somebody asked for."""
    meta = {
        name: value
        for name, value in (obj.get("metadata") or {}).items()
        if name not in (*_VERSIONED, "deletionTimestamp", "deletionGracePeriodSeconds")
    }
    spec = {name: value for name, value in (obj.get("spec") or {}).items() if name != "nodeName"}
    if without:
        meta["labels"] = {name: value for name, value in _labels(obj).items() if name not in without}
        if not meta["labels"]:
            del meta["labels"]
    return {**obj, "metadata": meta, "spec": spec, "status": {}}


def job_owner(meta: dict[str, Any]) -> str:
    """The uid of the Volcano Job that owns an object, or ''."""
    for owner in meta.get("ownerReferences") or ():
        if owner.get("kind") == "Job" and str(owner.get("apiVersion", "")).startswith("batch.volcano.sh"):
            return str(owner.get("uid") or "")
    return ""


def _says(conditions: list[dict[str, Any]], kind: str) -> bool:
    return any(one.get("type") == kind and one.get("status") == "True" for one in conditions)


def told_to_go(conditions: list[dict[str, Any]]) -> bool:
    """Whether a scheduler has evicted the pod: Volcano sets Ready=False with reason Evict (its defaultEvictor), and as
    kube-scheduler DisruptionTarget with PreemptionByScheduler."""
    for one in conditions:
        if one.get("type") == "Ready" and one.get("reason") == "Evict":
            return True
        if one.get("type") == "DisruptionTarget" and one.get("reason") == "PreemptionByScheduler":
            return True
    return False


__all__ = ["ENDED", "Group", "Life", "Outside", "Record", "decode", "encode", "job_owner", "pod_body", "told_to_go"]
