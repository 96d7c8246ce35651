"""Edits of groups, queues, claims and volumes, as `projections.diagnosis.edits` has those of nodes and pods.

Owns these edits. Must not know which of them is needed where, nor whether it helps. Called by
`projections.diagnosis.remedies` and `projections.diagnosis.changes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec.structs import replace as changed

from projections.diagnosis.amounts import counted, show_bytes
from projections.diagnosis.claims import BIND_COMPLETED
from projections.diagnosis.edits import One, amounts_text
from projections.diagnosis.edits_pods import OfPod
from projections.diagnosis.model import Step
from projections.diagnosis.quotas import amount_text
from projections.diagnosis.views import Amounts, QueueView
from projections.diagnosis.world import World
from volcano.objects.core import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeNodeAffinity,
)
from volcano.objects.meta import ObjectMeta, Quantity


def quantity(name: str, amount: float) -> Quantity:
    """An amount in the scheduler's units as the API would have it."""
    if name in {"memory", "pods"} or name.startswith("attachable-volumes-"):
        return int(amount)
    return f"{int(amount)}m"


@dataclass(frozen=True)
class LowerMinMember(One):
    """The gang is content with fewer members."""

    rank = 4

    group: str
    before: int
    members: int

    def apply(self, world: World) -> World:
        group = world.group
        if group is None or group.pod_group is None:
            return world
        spec = changed(group.pod_group.spec, min_member=self.members, min_task_member=None)
        return replace(world, group=replace(group, pod_group=changed(group.pod_group, spec=spec)))

    def step(self) -> Step:
        return Step(
            action="lower-min-member", object=f"PodGroup {self.group}", value=str(self.members), count=self.members
        )

    def text(self) -> str:
        return f"PodGroup {self.group}: minMember {self.members} instead of {self.before}"

    @property
    def share(self) -> float:
        return 1 - self.members / self.before if self.before else 0.0


@dataclass(frozen=True)
class RaiseCapability(One):
    """A queue may hold more: `amounts` is the capability that would do."""

    rank = 2

    queue: str
    amounts: Amounts
    before: Amounts

    def apply(self, world: World) -> World:
        return world.with_queue(self.queue, self._raised)

    def _raised(self, view: QueueView) -> QueueView:
        stated = dict(view.queue.spec.capability or {})
        stated |= {name: quantity(name, amount) for name, amount in self.amounts.items()}
        return replace(view, queue=changed(view.queue, spec=changed(view.queue.spec, capability=stated)))

    def step(self) -> Step:
        return Step(action="raise-capability", object=f"Queue {self.queue}", amounts=amounts_text(self.amounts))

    def text(self) -> str:
        before = amounts_text(self.before)
        parts = [
            f"{name} {amount} instead of {before.get(name, '0')}" for name, amount in amounts_text(self.amounts).items()
        ]
        return f"queue {self.queue}: capability {', '.join(parts)}"

    @property
    def share(self) -> float:
        return sum(1 - self.before.get(name, 0.0) / amount for name, amount in sorted(self.amounts.items()) if amount)


@dataclass(frozen=True)
class RaiseQuota(One):
    """A ResourceQuota allows more: `amounts`, in thousandths, is what would do."""

    rank = 2

    quota: str
    amounts: tuple[tuple[str, int], ...]
    before: tuple[tuple[str, int], ...]

    def apply(self, world: World) -> World:
        found = world.cluster.quotas.get(self.quota)
        if found is None:
            return world
        more = {name: f"{amount}m" for name, amount in self.amounts}
        spec = changed(found.spec, hard={**(found.spec.hard or {}), **more})
        status = changed(found.status, hard={**(found.status.hard or {}), **more})
        return world.with_quota(self.quota, changed(found, spec=spec, status=status))

    def step(self) -> Step:
        amounts = {name: amount_text(name, amount) for name, amount in self.amounts}
        return Step(action="raise-quota", object=f"ResourceQuota {self.quota}", amounts=amounts)

    def text(self) -> str:
        before = dict(self.before)
        parts = [
            f"{name} {amount_text(name, amount)} instead of {amount_text(name, before.get(name, 0))}"
            for name, amount in self.amounts
        ]
        return f"ResourceQuota {self.quota}: {', '.join(parts)}"

    @property
    def share(self) -> float:
        before = dict(self.before)
        return sum(1 - before.get(name, 0) / amount for name, amount in self.amounts if amount)


@dataclass(frozen=True)
class RaiseWeight(One):
    """A queue has a larger share."""

    rank = 2

    queue: str
    before: int
    weight: int

    def apply(self, world: World) -> World:
        return world.with_queue(
            self.queue,
            lambda view: replace(view, queue=changed(view.queue, spec=changed(view.queue.spec, weight=self.weight))),
        )

    def step(self) -> Step:
        return Step(action="raise-weight", object=f"Queue {self.queue}", value=str(self.weight))

    def text(self) -> str:
        return f"queue {self.queue}: weight {self.weight} instead of {self.before}"


@dataclass(frozen=True)
class OpenQueue(One):
    """A queue takes jobs again, or is made."""

    queue: str
    new: bool

    def apply(self, world: World) -> World:
        if self.new:
            return world.with_new_queue(self.queue)
        return world.with_queue(self.queue, self._opened)

    def _opened(self, view: QueueView) -> QueueView:
        return replace(view, queue=changed(view.queue, status=changed(view.queue.status, state="Open")))

    def step(self) -> Step:
        return Step(action="create-queue" if self.new else "open-queue", object=f"Queue {self.queue}")

    def text(self) -> str:
        return f"queue {self.queue}: {'create it' if self.new else 'open it'}"


@dataclass(frozen=True)
class IgnoreProvisioner(One):
    """The scheduler counts a driver's attachments no more: no node reports them. `resource` is how they are counted."""

    resource: str
    driver: str

    def apply(self, world: World) -> World:
        for name in sorted(world.cluster.queues):
            world = world.with_queue(name, self._without)
        world = replace(world, ignored=(*world.ignored, self.resource))
        if world.task is None:
            return world
        return world.with_tasks(
            lambda task: replace(
                task,
                request={name: amount for name, amount in task.request.items() if name != self.resource},
                unreported={name: amount for name, amount in task.unreported.items() if name != self.resource},
            ),
            world.task,
        )

    def _without(self, view: QueueView) -> QueueView:
        return replace(view, requested={name: view.requested[name] for name in view.requested if name != self.resource})

    def step(self) -> Step:
        return Step(action="ignore-provisioner", object="Scheduler", value=self.driver)

    def text(self) -> str:
        return f"start the scheduler with --ignored-provisioners={self.driver}, or have a CSINode report that driver"


@dataclass(frozen=True)
class AddVolume(OfPod):
    """A volume for a claim of the pod, on `node` or ('') anywhere. `bound`: the claim is bound to it already, as it has
    to be where the scheduler may not bind it; a claim that is not there is made with it."""

    of_all_alike = False

    claim: str
    found: PersistentVolumeClaim | None
    node: str
    class_name: str
    size_bytes: float
    bound: bool

    def apply(self, world: World) -> World:
        key, name = f"{self.task.namespace}/{self.claim}", f"new-volume-for-{self.claim}"
        volume = self._volume(name)
        if not self.bound:
            return world.with_claims(volumes={name: volume})
        claim = self.found or PersistentVolumeClaim(
            metadata=ObjectMeta(name=self.claim, namespace=self.task.namespace),
            spec=PersistentVolumeClaimSpec(),
        )
        annotations = {**(claim.metadata.annotations or {}), BIND_COMPLETED: "yes"}
        claim = changed(
            claim,
            metadata=changed(claim.metadata, annotations=annotations, deletion_timestamp=None),
            spec=changed(claim.spec, volume_name=name),
            status=PersistentVolumeClaimStatus(phase="Bound"),
        )
        return world.with_claims(volumes={name: volume}, claims={key: claim})

    def _volume(self, name: str) -> PersistentVolume:
        spec = self.found.spec if self.found is not None else PersistentVolumeClaimSpec()
        required = NodeSelector(
            node_selector_terms=[
                NodeSelectorTerm(
                    match_fields=[NodeSelectorRequirement(key="metadata.name", operator="In", values=[self.node])]
                )
            ]
        )
        labels = dict((spec.selector.match_labels if spec.selector is not None else None) or {})
        return PersistentVolume(
            metadata=ObjectMeta(name=name, labels=labels),
            spec=PersistentVolumeSpec(
                capacity={"storage": int(self.size_bytes)},
                access_modes=list(spec.access_modes or ("ReadWriteOnce",)),
                storage_class_name=self.class_name,
                volume_mode=spec.volume_mode,
                node_affinity=VolumeNodeAffinity(required=required) if self.node else None,
            ),
            status=PersistentVolumeStatus(phase="Bound" if self.bound else "Available"),
        )

    def step(self) -> Step:
        action = "add-volume" if self.found is not None else "create-claim"
        return Step(
            action=action,
            object=f"PersistentVolumeClaim {self.task.namespace}/{self.claim}",
            amounts={"storage": show_bytes(self.size_bytes)} if self.size_bytes else {},
            value=self.node,
        )

    def text(self) -> str:
        if self.found is None:
            return f"create claim {self.claim} with a volume bound to it"
        kind = f" of class {self.class_name}" if self.class_name else ""
        where = f", usable on {self.node}" if self.node else ""
        size = f"{show_bytes(self.size_bytes)} " if self.size_bytes else ""
        bound = " bound to it" if self.bound else ""
        return f"claim {self.claim}: a volume of {size.strip()}{kind}{bound}{where}"


@dataclass(frozen=True)
class MoreMembers(One):
    """The group's owner makes the pods that are missing. Nothing can be evaluated of pods that nobody has described,
    so it is proven only where some of its own kind stand for them."""

    group: str
    count: int

    def apply(self, world: World) -> World:
        group = world.group
        likes = [(task, task.pod) for task in (group.tasks if group is not None else ()) if task.pod is not None]
        if group is None or not likes:
            return world
        like, of = likes[0]
        made = []
        for number in range(1, self.count + 1):
            name, uid = f"{like.name}-new-{number}", f"new-{number}-{like.uid}"
            pod = changed(of, metadata=changed(of.metadata, name=name, uid=uid))
            made.append(replace(like, name=name, uid=uid, pod=pod))
        return replace(world, group=replace(group, tasks=[*group.tasks, *made])).asking_more(made)

    def step(self) -> Step:
        return Step(action="add-members", object=f"PodGroup {self.group}", count=self.count)

    def text(self) -> str:
        return f"PodGroup {self.group}: {counted(self.count, 'more member')}"

    @property
    def touches(self) -> int:
        return self.count
