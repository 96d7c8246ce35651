"""A trial of the gang: where the pending tasks of a group would go, in the scheduler's order, and which one breaks it.

Owns the trial. Must not know queues nor how the answer is worded. Called by the verdict.
Source: Volcano's allocate action (allocateResourcesForTasks, NeedContinueAllocating, TaskHasFitErrors), CompareTask's
order, and the backfill action, which keeps what refused a task that asks for nothing. Which node a task takes among
those that fit is the scheduler's score; the trial takes the emptiest when the pods depend on each other, and fills up
node by node when they don't, so it may differ in the node, never in a node's refusal.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from projections.diagnosis.amounts import add, covers, subtract
from projections.diagnosis.nodes import Evaluation, is_interdependent, refuses, table_key
from projections.diagnosis.reasons import Reason
from projections.diagnosis.views import INDEX_LABEL, Amounts, ClusterView, GroupView, NodeView, PlacedPod, TaskView
from projections.diagnosis.volumes import Chosen
from volcano.objects.core import Pod

READY = ("Bound", "Binding", "Running", "Allocated", "Succeeded")
"""Statuses that count for a gang (JobInfo.ReadyTaskNum)."""

VALID = (*READY, "Pipelined", "Pending")
"""Statuses that count towards minMember (JobInfo.ValidTaskNum)."""

CHECKS_MAX = 60_000
"""Node checks after which a trial of interdependent pods stops, and says so."""


@dataclass(slots=True)
class Trial:
    """What the trial found. `failed` has the node table of each task that fits nowhere, at its turn; `skipped` the
    tasks that were passed over because another of their role had failed (its name); `untried` what was left when the
    gang was given up. `whole` is False when it stopped for its size; `taken` is what the placed tasks take on each
    node. Tasks that ask for nothing are backfill's, and keep nobody else from a place: `filled` has
    a node for each, `unfilled` the table of each that fits nowhere."""

    ready: int
    needed: int
    order: list[TaskView] = field(default_factory=list)
    placed: dict[str, str] = field(default_factory=dict)
    failed: dict[str, dict[str, list[Reason]]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    untried: list[str] = field(default_factory=list)
    whole: bool = True
    taken: dict[str, Amounts] = field(default_factory=dict)
    filled: dict[str, str] = field(default_factory=dict)
    unfilled: dict[str, dict[str, list[Reason]]] = field(default_factory=dict)

    @property
    def short(self) -> int:
        """How many members are missing to minMember, with all that the trial could place."""
        return max(0, self.needed - self.ready - len(self.placed))

    @property
    def breaker(self) -> TaskView | None:
        """The first task that fits nowhere."""
        return next((task for task in self.order if task.uid in self.failed), None)

    def untried_all(self) -> Trial:
        """What there is to say where the allocate action passes the group over, as its queue has its share: nothing was
        tried but by backfill, which asks no queue."""
        return Trial(self.ready, self.needed, self.order, filled=self.filled, unfilled=self.unfilled)


def ready_count(group: GroupView) -> int:
    """Members that count, best-effort ones that wait among them (IsReady)."""
    return sum(1 for task in group.tasks if task.status in READY or (task.status == "Pending" and task.best_effort))


def scheduling_order(tasks: Sequence[TaskView]) -> list[TaskView]:
    """Priority first (the priority plugin), then the task index, the time of creation, the uid (CompareTask)."""
    return sorted(
        tasks,
        key=lambda task: (-task.priority, task.index if task.index is not None else 0, task.created, task.uid),
    )


@dataclass(slots=True)
class _Look:
    """How far tasks of one kind have gone through the nodes: what refused one of them refuses the next, as room only
    shrinks. `evaluation` is of such a task without its requests."""

    evaluation: Evaluation
    next: int = 0
    admitted: str = ""

    def admits(self, node: NodeView) -> bool:
        """Whether nothing but room could keep such a task from the node."""
        if self.admitted != node.name:
            if refuses(self.evaluation.on(node)):
                return False
            self.admitted = node.name
        return True


class _Run:
    """The state of one trial."""

    def __init__(self, group: GroupView, cluster: ClusterView, tables: bool) -> None:
        self.group, self.cluster, self.tables = group, cluster, tables
        pending = [task for task in group.tasks if task.status == "Pending" and not task.gated and not task.best_effort]
        self.trial = Trial(ready_count(group), group.min_member, scheduling_order(pending))
        self.taken = self.trial.taken
        self.extra: list[PlacedPod] = []
        self.reserved: list[str] = []
        self.chosen: dict[str, Chosen] = {}
        self.checks = 0
        self.nodes = cluster.schedulable_nodes()
        self.looks: dict[object, _Look] = {}
        self.interdependent = any(task.pod is not None and is_interdependent(task.pod) for task in pending)
        self.emptiest = sorted(map(self._emptiness, self.nodes)) if self.interdependent else []

    def run(self) -> Trial:
        self.allocate()
        if self.tables:
            self.backfill()
        return self.trial

    def allocate(self) -> None:
        """Each task in its order, as long as the gang can do without those that failed."""
        trial, tasks = self.trial, self.trial.order
        failed_roles: dict[str, str] = {}
        for index, task in enumerate(tasks):
            if task.pod is None or self.checks > CHECKS_MAX:
                trial.whole = False
                continue
            if task.role and task.role in failed_roles:
                trial.skipped[task.uid] = failed_roles[task.role]
                continue
            node = self.place(task, task.pod)
            if node is not None:
                trial.placed[task.uid] = node
                continue
            failed_roles.setdefault(task.role, task.name)
            if not self.goes_on(failed_roles):
                trial.untried = [other.uid for other in tasks[index + 1 :]]
                break

    def backfill(self) -> None:
        """The tasks that ask for nothing, each against the nodes as they are with what was placed; what a short gang
        had is given back. Tasks that are alike are looked at once."""
        if sum(task.status in VALID for task in self.group.tasks) < self.group.min_member:
            return
        short, seen = self.trial.short > 0, dict[object, str | dict[str, list[Reason]]]()
        waiting = [task for task in self.group.tasks if task.status == "Pending" and task.best_effort]
        for task in waiting:
            if task.gated or task.pod is None or self.checks > CHECKS_MAX:
                continue
            key = task.uid if is_interdependent(task.pod) else _class_key(task, task.pod)
            if key not in seen:
                seen[key] = self._filled(task, task.pod, alone=short)
            found = seen[key]
            if isinstance(found, str):
                self.trial.filled[task.uid] = found
            else:
                self.trial.unfilled[task.uid] = found

    def _filled(self, task: TaskView, pod: Pod, *, alone: bool) -> str | dict[str, list[Reason]]:
        """The first node that takes a task, else the table of all that refuse it."""
        if alone:
            evaluation = Evaluation(task, pod, self.cluster)
        else:
            evaluation = Evaluation(task, pod, self.cluster, self.extra, self.taken, self.reserved, self.chosen)
        self.checks += len(self.nodes)
        taker = next((node.name for node in self.nodes if not refuses(evaluation.on(node))), None)
        return evaluation.table() if taker is None else taker

    def place(self, task: TaskView, pod: Pod) -> str | None:
        """The node that the task takes; None when none fits, and then its table is kept."""
        if self.interdependent:
            return self._place_looking_at_all(task, pod)
        look = self.looks.get(key := _class_key(task, pod))
        if look is None:
            look = self.looks[key] = _Look(Evaluation(_asking_nothing(task), pod, self.cluster))
        while look.next < len(self.nodes):
            node = self.nodes[look.next]
            if self._has_room(task, node) and look.admits(node):
                self._take(task, node)
                return node.name
            look.next += 1
        self.trial.failed[task.uid] = self._table(task, pod) if self.tables else {}
        return None

    def _table(self, task: TaskView, pod: Pod) -> dict[str, list[Reason]]:
        """The refusals at the task's turn; as long as nothing is placed, those that the pod meets alone, shared."""
        key = table_key(task, pod, self.cluster) if not self.taken else None
        memo = self.cluster.memo
        if key is not None and key in memo:
            shared: dict[str, list[Reason]] = memo[key]
            return shared
        found = Evaluation(task, pod, self.cluster, self.extra, self.taken).table()
        if key is not None:
            memo[key] = found
        return found

    def _place_looking_at_all(self, task: TaskView, pod: Pod) -> str | None:
        evaluation = Evaluation(task, pod, self.cluster, self.extra, self.taken, self.reserved, self.chosen)
        place = next((at for at, (_, _, node) in enumerate(self.emptiest) if not refuses(evaluation.on(node))), None)
        self.checks += len(self.emptiest) if place is None else place + 1
        if place is None:
            self.trial.failed[task.uid] = evaluation.table() if self.tables else {}
            return None
        _, _, best = self.emptiest.pop(place)
        self._take(task, best)
        insort(self.emptiest, self._emptiness(best))
        self.extra.append(PlacedPod.of(pod, best.name))
        if evaluation.volumes is not None:
            self.reserved += evaluation.volumes.take(best)
            self.chosen.update(evaluation.volumes.picks(best))
        return best.name

    def _emptiness(self, node: NodeView) -> tuple[float, str, NodeView]:
        """What nodes are sorted by when all are looked at: the emptiest first, names decide between equals."""
        taken = self.taken.get(node.name, {}).get("cpu", 0.0)
        return taken - node.future_idle.get("cpu", 0.0), node.name, node

    def _left(self, node: NodeView) -> Amounts:
        return subtract(node.future_idle, self.taken.get(node.name, {}))

    def _has_room(self, task: TaskView, node: NodeView) -> bool:
        return covers(task.request, self._left(node) if node.name in self.taken else node.future_idle)

    def _take(self, task: TaskView, node: NodeView) -> None:
        self.taken[node.name] = add(self.taken.get(node.name, {}), task.request)

    def goes_on(self, failed_roles: Mapping[str, str]) -> bool:
        """Whether the scheduler tries the other tasks after a failure (JobInfo.NeedContinueAllocating; pods without a
        role are one role there)."""
        group, needed, placed = self.group, self.trial.needed, self.trial.placed
        if needed >= len(group.tasks):
            return False
        minimums = (group.pod_group.spec.min_task_member if group.pod_group is not None else None) or {}
        if needed < sum(minimums.values()):
            holding = sum(1 for task in group.tasks if task.status in READY) + len(placed)
            waiting = (task for task in group.tasks if task.status == "Pending" and task.uid not in placed)
            return holding + sum(1 for task in waiting if task.role not in failed_roles) >= needed
        return not any(self._holding(role) < minimums[role] for role in failed_roles if minimums.get(role, 0))

    def _holding(self, role: str) -> int:
        return sum(
            1
            for task in self.group.tasks
            if task.role == role
            and (
                task.status in READY or task.uid in self.trial.placed or (task.status == "Pending" and task.best_effort)
            )
        )


def try_gang(group: GroupView, cluster: ClusterView, *, tables: bool = True) -> Trial:
    """Places the group's pending tasks on trial. Nothing that is given changes. `tables` False: `failed` names the
    tasks that fit nowhere, with empty tables, for whoever asks only whether the gang would run."""
    return _Run(group, cluster, tables).run()


def _class_key(task: TaskView, pod: Pod) -> object:
    """Tasks with equal keys are refused by the same nodes, other than for room."""
    spec = pod.spec
    labels = tuple(sorted(item for item in (pod.metadata.labels or {}).items() if item[0] != INDEX_LABEL))
    return (repr(spec.node_selector), repr(spec.affinity), repr(spec.tolerations), labels, tuple(task.request.items()))


def _asking_nothing(task: TaskView) -> TaskView:
    """The task without its requests, to find the nodes that refuse it for anything else."""
    return TaskView(task.namespace, task.name, task.uid, task.status, {}, best_effort=True, pod=task.pod)
