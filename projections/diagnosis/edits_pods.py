"""Edits of pods, as `projections.diagnosis.edits` has those of nodes.

Owns these edits. Must not know which of them is needed where, nor whether it helps. Called by
`projections.diagnosis.remedies` and `projections.diagnosis.changes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec.structs import replace as changed

from projections.diagnosis.amounts import show
from projections.diagnosis.edits import One, amounts_text
from projections.diagnosis.model import Step
from projections.diagnosis.views import Amounts, TaskView
from projections.diagnosis.world import World
from volcano.objects.core import Affinity, Pod, PodSpec, Taint, Toleration
from volcano.objects.selectors import describe_taint


@dataclass(frozen=True)
class OfPod(One):
    """Base of the edits of a pod and its likes: `task` is the one that is short of it."""

    of_all_alike = True
    task: TaskView

    def apply(self, world: World) -> World:
        return world.with_pods(lambda pod: changed(pod, spec=self.edited(pod.spec)), self.task)

    def edited(self, spec: PodSpec) -> PodSpec:
        raise NotImplementedError

    @property
    def subject(self) -> str:
        return f"Pod {self.task.key}"

    @property
    def whose(self) -> str:
        return self.task.name


@dataclass(frozen=True)
class Tolerate(OfPod):
    """The pod tolerates a taint."""

    taint: Taint

    def edited(self, spec: PodSpec) -> PodSpec:
        operator = "Equal" if self.taint.value else "Exists"
        more = Toleration(
            key=self.taint.key, operator=operator, value=self.taint.value or "", effect=self.taint.effect or ""
        )
        return changed(spec, tolerations=[*(spec.tolerations or ()), more])

    def step(self) -> Step:
        return Step(action="tolerate-taint", object=self.subject, value=describe_taint(self.taint))

    def text(self) -> str:
        return f"{self.whose}: tolerate taint {describe_taint(self.taint)}"


@dataclass(frozen=True)
class DropSelector(OfPod):
    """Labels that the pod asks of its node are asked no more."""

    keys: tuple[str, ...]

    def edited(self, spec: PodSpec) -> PodSpec:
        kept = {key: value for key, value in (spec.node_selector or {}).items() if key not in self.keys}
        return changed(spec, node_selector=kept)

    def step(self) -> Step:
        return Step(action="drop-selector", object=self.subject, value=self._shown())

    def text(self) -> str:
        return f"{self.whose}: drop nodeSelector {self._shown()}"

    def _shown(self) -> str:
        asked = (self.task.pod.spec.node_selector if self.task.pod is not None else None) or {}
        return ", ".join(f"{key}={asked.get(key, '')}" for key in self.keys)


@dataclass(frozen=True)
class DropAffinity(OfPod):
    """A kind of affinity that the pod requires is required no more: node, pod or pod-anti."""

    rank = 5

    kind: str

    def edited(self, spec: PodSpec) -> PodSpec:
        affinity = spec.affinity or Affinity()
        part = {"node": "node_affinity", "pod": "pod_affinity", "pod-anti": "pod_anti_affinity"}[self.kind]
        found = getattr(affinity, part)
        if found is None:
            return spec
        eased = changed(found, required_during_scheduling_ignored_during_execution=None)
        return changed(spec, affinity=changed(affinity, **{part: eased}))

    def step(self) -> Step:
        return Step(action="drop-affinity", object=self.subject, value=self._shown())

    def text(self) -> str:
        return f"{self.whose}: drop its required {self._shown()}"

    def _shown(self) -> str:
        return {"node": "node affinity", "pod": "pod affinity", "pod-anti": "pod anti-affinity"}[self.kind]


@dataclass(frozen=True)
class DropSpread(OfPod):
    """Its topology spread is preferred, no longer required."""

    rank = 5

    def edited(self, spec: PodSpec) -> PodSpec:
        kept = [one for one in spec.topology_spread_constraints or () if one.when_unsatisfiable == "ScheduleAnyway"]
        return changed(spec, topology_spread_constraints=kept)

    def step(self) -> Step:
        return Step(action="drop-spread", object=self.subject, value="topologySpreadConstraints")

    def text(self) -> str:
        return f"{self.whose}: topology spread with ScheduleAnyway"


@dataclass(frozen=True)
class Ungate(OfPod):
    """Its scheduling gates are taken off."""

    def edited(self, spec: PodSpec) -> PodSpec:
        return changed(spec, scheduling_gates=None)

    def apply(self, world: World) -> World:
        def edit(task: TaskView) -> TaskView:
            pod: Pod | None = task.pod
            open_pod = changed(pod, spec=self.edited(pod.spec)) if pod is not None else None
            return replace(task, pod=open_pod, gated=False)

        return world.with_tasks(edit, self.task)

    def step(self) -> Step:
        return Step(action="remove-gates", object=self.subject, value=self._shown())

    def text(self) -> str:
        return f"{self.whose}: take off scheduling gate {self._shown()}"

    def _shown(self) -> str:
        gates = (self.task.pod.spec.scheduling_gates if self.task.pod is not None else None) or ()
        return ", ".join(gate.name for gate in gates)


@dataclass(frozen=True)
class UseScheduler(OfPod):
    """The pod is given to Volcano."""

    name: str

    def edited(self, spec: PodSpec) -> PodSpec:
        return changed(spec, scheduler_name=self.name)

    def step(self) -> Step:
        return Step(action="set-scheduler", object=self.subject, value=self.name)

    def text(self) -> str:
        return f"{self.whose}: schedulerName {self.name}"


@dataclass(frozen=True)
class AskLess(OfPod):
    """The pod asks for less: `amounts` is what it would ask for."""

    rank = 6

    amounts: Amounts

    def apply(self, world: World) -> World:
        less = world.with_tasks(lambda task: replace(task, request={**task.request, **self.amounts}), self.task)
        return less.told_elsewhere()

    def step(self) -> Step:
        return Step(action="ask-less", object=self.subject, amounts=amounts_text(self.amounts))

    def text(self) -> str:
        asked = ", ".join(
            f"{amount} {name} instead of {show(name, self.task.request.get(name, 0.0))}"
            for name, amount in amounts_text(self.amounts).items()
        )
        return f"{self.whose}: ask for {asked}"

    @property
    def share(self) -> float:
        request = self.task.request
        return sum(1 - amount / request[name] for name, amount in sorted(self.amounts.items()) if request.get(name))
