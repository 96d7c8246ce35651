"""The answer: its shape, and the table of verdicts.

Owns what `why` gives out (keys of `-o json`) and the words of the verdicts with their order. Must not know how any of
it is found. Called by `projections.diagnosis.explain`, `vcledger.why` and `cli.why`.

Times are RFC 3339 texts. `known` is recorded (a watch or an API answer), inferred (a relist or an audit line) or
recomputed (by our own evaluation).
"""

from __future__ import annotations

import msgspec

from projections.diagnosis.gaps import Gap

RECORDED, INFERRED, RECOMPUTED = "recorded", "inferred", "recomputed"

VERDICTS: dict[str, str] = {
    "not-found": "the log has no such pod or job at that position",
    "not-this-scheduler": "the pod is another scheduler's",
    "gated": "the pod has scheduling gates",
    "finished": "the pod has succeeded or failed, or the job has ended",
    "deleted": "the pod is gone",
    "terminating": "the pod is being deleted, and was never placed",
    "scheduled": "the pod has a node",
    "podgroup-missing": "the pod names no PodGroup, or one that does not exist",
    "members-missing": "the group has fewer pods than minMember",
    "queue-missing": "the PodGroup's queue does not exist",
    "queue-closed": "the PodGroup's queue takes no new jobs",
    "queue-over-capability": "what the group asks would put its queue over its capability",
    "cluster-overused": "the cluster, overcommit counted in, has not got what the group asks at least",
    "quota-exceeded": "a ResourceQuota of the namespace has no room for what the group asks at least",
    "podgroup-pending": "the PodGroup has not been taken into its queue, and no gate is found that holds it back",
    "queue-overused": "the queue already has its share of the cluster",
    "gang-short": "too few members of the gang can be placed together",
    "no-node-fits": "no node fits",
    "pvc-missing": "a claim does not exist",
    "pvc-lost": "a claim's volume does not exist",
    "pvc-deleting": "a claim is being deleted",
    "pvc-not-owned": "an ephemeral claim was made for another pod",
    "storageclass-missing": "a claim's class does not exist",
    "pvc-unbound": "a claim that the scheduler may not bind is not bound",
    "no-matching-volume": "no volume fits a claim, and none can be made",
    "volume-node-conflict": "the volumes are usable only where the pod may not run",
    "volume-limit": "the nodes take no more volumes",
    "provisioning-failed": "the provisioner failed to make a volume",
    "volume-conflict": "an update for a claim or volume met another's change",
    "volume-bind-timeout": "the volumes were not bound in time",
    "volume-bind-failed": "binding the volumes failed",
    "provisioning": "a volume is being made; the pod is bound once it is there",
    "bind-failed": "the API server refused the bind, or gave no answer",
    "condition-failed": "the pod's condition could not be written",
    "evicted": "the pod was evicted",
    "waiting-for-release": "it fits once pods that are ending are gone",
    "schedulable": "nothing holds it back at this position",
    "running": "every pod of the job that there is has been placed",
}
"""Every verdict with its meaning, in the order in which the first that holds is the answer (design, section 9)."""


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node: whether the pod alone would fit there now, and every reason why not, the scheduler's own first.
    `predicates` has the verdict of each that was asked: whether it lets the pod through.
    `fits_after_release`: whether it would once the pods that are ending there are gone (the scheduler may promise it
    that room); True wherever it fits now."""

    node: str
    fits: bool
    reasons: list[str] = []
    fits_after_release: bool = False
    predicates: dict[str, bool] = {}


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that refuse the pod alone for the same first reason: the scheduler's words, ours with the range of the
    numbers, and the names. Nodes where it fits once pods are gone are in none."""

    count: int
    reason: str
    detail: str
    nodes: list[str]


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler (or a controller, named in `by`) wrote: a condition of the pod or its PodGroup, or an Event
    with its logical count. `position` is where the log has it."""

    source: str
    about: str
    reason: str
    message: str
    by: str = ""
    status: str = ""
    count: int = 1
    first: str | None = None
    last: str | None = None
    position: int = 0
    known: str = RECORDED


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A log position and what it proves."""

    position: int
    what: str
    proves: str
    known: str = RECORDED


class Other(msgspec.Struct, frozen=True, kw_only=True):
    """A further verdict that holds."""

    verdict: str
    text: str


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a change does. `object` is what it touches (`Node n3`, `Pod default/p`, `Queue small`); `amounts`
    how much more of what, as people write it; `value` the taint, label, number or name that it is about; `pods` those
    that are evicted; `count` how many nodes or members."""

    action: str
    object: str
    amounts: dict[str, str] = {}
    value: str = ""
    pods: list[str] = []
    count: int = 0


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change with which the pod (or the group's minimum) would run, proven by evaluating again with it. `size` is how
    many objects it touches; `share` how much of what is asked it has to find, where it is about amounts. `proof` says
    what was evaluated."""

    text: str
    steps: list[Step]
    size: int
    share: float = 0.0
    proof: str = ""


class ResourceNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """One resource at a queue, as people write amounts; '' where there is no such number. `asked` is what the group (or
    the pod) asks, `admitted` what groups that have been taken in have not got yet, `requested` all that the queue's
    jobs hold and ask."""

    resource: str
    asked: str
    allocated: str
    admitted: str
    requested: str
    deserved: str
    capability: str
    guarantee: str
    cluster: str
    cluster_used: str


class QueueNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """The way into the queue with its numbers. `enqueued`: the group has been taken in; `gates` are what holds it back,
    in words."""

    queue: str
    state: str
    weight: int
    enqueued: bool
    gates: list[str]
    resources: list[ResourceNumbers]


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the gang: the cache's status, its node, and what the trial makes of one that waits."""

    name: str
    role: str
    status: str
    node: str
    trial: str


class Spared(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that could not be evicted for the one asked about, and why not."""

    pod: str
    why: str


class NodeVictims(msgspec.Struct, frozen=True, kw_only=True):
    """Who could be evicted on a node: by preempt (the same queue) or reclaim (another), whether that would make the
    room, and who is spared."""

    node: str
    preempt: list[str]
    reclaim: list[str]
    enough: bool
    spared: list[Spared]


class Preemption(msgspec.Struct, frozen=True, kw_only=True):
    """What preempt and reclaim could do on the nearest nodes. `actions` are the configured ones, None where the
    configuration is not known; `note` says what follows."""

    actions: list[str] | None
    note: str
    nodes: list[NodeVictims]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. `message` is the scheduler's own sentence, recomputed; `causes` the chain, the root first; `fits_on`
    the nodes that would take the pod alone now, `refused` the others, grouped and counted; `disagreements` where the
    scheduler's words and our evaluation differ, or a fact that was imported later says otherwise; `gaps` those of the
    record that the moment lies in or that fall into the subject's life; `notes` what else the record does not cover.
    `time` is the newest observed time of the cluster up to the position, `asked` the time that was asked about where
    that is another."""

    subject: str
    namespace: str
    name: str
    uid: str
    at: int
    time: str | None
    verdict: str
    summary: str
    message: str
    since: str | None
    causes: list[str]
    also: list[Other]
    nodes: list[NodeRow]
    fits_on: list[str]
    said: list[Said]
    evidence: list[Evidence]
    disagreements: list[str] = []
    refused: list[Refusal] = []
    gaps: list[Gap] = []
    notes: list[str] = []
    asked: str | None = None
    group: str = ""
    queue: str = ""
    phase: str = ""
    changes: list[Change] = []
    numbers: QueueNumbers | None = None
    members: list[Member] = []
    preemption: Preemption | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict that holds, with its chain of causes (root first), since when, and what proves it."""

    verdict: str
    causes: list[str]
    summary: str = ""
    since: str | None = None
    message: str = ""
    evidence: list[Evidence] = []
    root: bool = False

    @property
    def text(self) -> str:
        return self.summary or self.causes[0]
