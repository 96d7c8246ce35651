"""One question: the pod or group that is asked about, and all that the log has about it at the position.

Owns the shape of the question. Must not know where it was read. Filled in by `vcledger.why`, called by the checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from projections.diagnosis.gang import Trial, try_gang
from projections.diagnosis.gaps import Gap
from projections.diagnosis.model import INFERRED, RECORDED, Said
from projections.diagnosis.nodes import Evaluation, refuses, table_key
from projections.diagnosis.reasons import Reason
from projections.diagnosis.views import ClusterView, GroupView, TaskView
from projections.diagnosis.world import World
from volcano.objects.core import Pod
from volcano.objects.scheduling import VolcanoJob


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to bind the pod or its volumes, or to write its condition. `kind` is bind, volumes or condition; `code`
    the API server's answer, 0 for none; `object` what it was about, when not the pod."""

    kind: str
    ok: bool
    time: str
    position: int
    node: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    object: str = ""
    timed_out: bool = False
    known: str = INFERRED


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier pod of the same name: when it went, and the eviction that ended it, if an Event says so."""

    uid: str
    gone_at: str
    position: int
    evicted: str = ""
    known: str = RECORDED


@dataclass(frozen=True, slots=True)
class Ending:
    """A pod that is being deleted on a node, gone by `until` (its deletionTimestamp), and the eviction that ends it, if
    an Event or a condition says so: its text, and where the log has it."""

    key: str
    position: int
    until: str = ""
    evicted: str = ""
    evicted_position: int = 0


@dataclass(slots=True)
class Case:
    """Everything about one pod, or about a group (`pod` is then the member that stands for it, or None). `planned` are
    the pods that a job without any would make; `searches` False: the changes that would help are not looked for;
    `again`: proves a changed world (of the one before) once more, None where it can't tell."""

    namespace: str
    name: str
    uid: str
    at: int
    now: str | None
    cluster: ClusterView
    scheduler_names: Sequence[str] = ("volcano",)
    kind: str = "Pod"
    pod: Pod | None = None
    position: int = 0
    gone_at: str = ""
    gone_position: int = 0
    gone_known: str = RECORDED
    created: str | None = None
    task: TaskView | None = None
    group: GroupView | None = None
    group_name: str = ""
    job: VolcanoJob | None = None
    job_position: int = 0
    said: Sequence[Said] = ()
    attempts: Sequence[Attempt] = ()
    earlier: Sequence[Earlier] = ()
    claim_since: Mapping[str, str] = field(default_factory=dict)
    asked_min: Mapping[str, float] = field(default_factory=dict)
    asked: str | None = None
    gaps: Sequence[Gap] = ()
    notes: Sequence[str] = ()
    unwatched: Sequence[str] = ()
    late_facts: Sequence[str] = ()
    waiting_since: str | None = None
    ending: Sequence[Ending] = ()
    planned: Sequence[TaskView] = ()
    searches: bool = True
    again: Callable[[World, World], bool | None] | None = None
    _table: dict[str, list[Reason]] | None = None
    _trial: Trial | None = None
    _evaluation: Evaluation | None = None
    _fitting: list[str] | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def pod_key(self) -> str:
        """Namespace and name of the pod: of a job, of the member that stands for it."""
        meta = self.pod.metadata if self.pod is not None else None
        return f"{meta.namespace}/{meta.name}" if meta is not None and meta.name else self.key

    @property
    def since(self) -> str | None:
        """Since when the subject has waited without a break, as far as the log tells; else since it is there."""
        return self.waiting_since or self.created

    @property
    def is_job(self) -> bool:
        return self.kind != "Pod"

    @property
    def pending(self) -> bool:
        """A live pod without a node that nothing has ended."""
        if self.pod is None or self.gone_at:
            return False
        return not self.pod.spec.node_name and self.pod.status.phase in {"", "Pending"}

    @property
    def evaluation(self) -> Evaluation | None:
        """The pod alone against the cluster as it stands."""
        if self._evaluation is None and self.pod is not None and self.task is not None:
            self._evaluation = Evaluation(self.task, self.pod, self.cluster)
        return self._evaluation

    @property
    def table(self) -> dict[str, list[Reason]]:
        """Its refusals node by node; empty when there is no pod."""
        if self._table is None:
            self._table = self._evaluated()
        return self._table

    @property
    def fitting(self) -> list[str]:
        """The nodes that would take the pod alone, now or once the pods that are ending there are gone, in the order of
        their names."""
        if self._fitting is None:
            lists = {id(found): found for found in self.table.values()}
            fits = {key for key, found in lists.items() if not refuses(found)}
            self._fitting = sorted([name for name, found in self.table.items() if id(found) in fits]) if fits else []
        return self._fitting

    def _evaluated(self) -> dict[str, list[Reason]]:
        if self.evaluation is None or self.task is None or self.pod is None:
            return {}
        key, memo = table_key(self.task, self.pod, self.cluster), self.cluster.memo
        if key is None:
            return self.evaluation.table()
        if key not in memo:
            memo[key] = self.evaluation.table()
        found: dict[str, list[Reason]] = memo[key]
        return found

    @property
    def trial(self) -> Trial | None:
        """The trial of its group; None without one."""
        if self._trial is None and self.group is not None and self.group.pod_group is not None and self.group.tasks:
            key, memo = ("trial", self.group.key), self.cluster.memo
            if key not in memo:
                memo[key] = try_gang(self.group, self.cluster)
            self._trial = memo[key]
        return self._trial

    def said_of(self, source: str, *reasons: str) -> list[Said]:
        """What was said by a kind of source, of some reasons (all when none is named)."""
        return [one for one in self.said if one.source == source and (not reasons or one.reason in reasons)]

    @property
    def scheduled_condition(self) -> Said | None:
        """The pod's PodScheduled condition."""
        return next((one for one in self.said if one.source == "condition" and one.about.startswith("Pod ")), None)
