"""What a change is tried out on: the cluster, the group and the pod that are asked about, and the editing of each.

Owns those values and how a changed copy is made. Must not know which changes there are, nor whether one helps. Called
by `projections.diagnosis.edits*` and `projections.diagnosis.proof`.

Nothing that is given changes: every edit makes new values and shares what it leaves alone. Changed nodes come first in
the changed cluster, so that a trial finds the room that a change makes without going through all the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec.structs import replace as changed

from projections.diagnosis.amounts import add, subtract, total
from projections.diagnosis.views import Amounts, ClusterView, GroupView, NodeView, Occupant, QueueView, TaskView
from volcano.objects.core import Node, Pod, ResourceQuota
from volcano.objects.scheduling import Queue, QueueSpec, QueueStatus


@dataclass(frozen=True, slots=True)
class World:
    """What the answer rests on. `task` is the pod that is asked about (None: the group is); `asked_min` what its
    group asks at least; `schedulers` the names of the schedulers that count as Volcano; `gone` the keys of pods that
    were evicted on trial; `beyond` that something was changed which no API object says; `ignored` the attachments that
    the scheduler is told not to count."""

    cluster: ClusterView
    group: GroupView | None
    task: TaskView | None
    asked_min: Mapping[str, float]
    schedulers: Sequence[str] = ("volcano",)
    gone: tuple[str, ...] = ()
    beyond: bool = False
    ignored: tuple[str, ...] = ()

    def with_nodes(self, nodes: Mapping[str, NodeView], added: Sequence[NodeView] = ()) -> World:
        """The same with some nodes in place of those of their names, and more."""
        every = self.cluster.nodes
        old = [node for node in every if node.name in nodes] if nodes else []
        rest = [node for node in every if node.name not in nodes] if old else every
        first = [*(nodes[name] for name in sorted(nodes)), *added]
        return self._clustered(nodes=[*first, *rest], _sums=self.cluster.sums_with(first, old))

    def with_node(self, name: str, edit: Callable[[NodeView], NodeView]) -> World:
        """The same with one node edited; unchanged where there is none of that name."""
        found = next((node for node in self.cluster.nodes if node.name == name), None)
        return self if found is None else self.with_nodes({name: edit(found)})

    def with_queue(self, name: str, edit: Callable[[QueueView], QueueView]) -> World:
        """The same with one queue's view edited, its object with it."""
        views = dict(self.cluster.queues)
        if name in views:
            views[name] = edit(views[name])
        return self._clustered(queues=views, queue_objects={one: view.queue for one, view in views.items()})

    def asking_more(self, tasks: Sequence[TaskView]) -> World:
        """The same with tasks that the group's queue does not know of yet: it is asked for more."""
        group = self.group
        name = group.pod_group.spec.queue if group is not None and group.pod_group is not None else ""
        more = total(task.request for task in tasks)
        return self.with_queue(name, lambda view: replace(view, requested=add(view.requested, more), has_jobs=True))

    def with_new_queue(self, name: str) -> World:
        """The same with an open queue more, of the weight that the API gives by default."""
        views = dict(self.cluster.queues)
        made = Queue(spec=QueueSpec(weight=1), status=QueueStatus(state="Open"))
        views[name] = QueueView(name, made, {}, {}, {}, has_jobs=False)
        return self._clustered(queues=views, queue_objects={one: view.queue for one, view in views.items()})

    def with_quota(self, key: str, quota: ResourceQuota) -> World:
        """The same with one ResourceQuota another."""
        return self._clustered(quotas={**self.cluster.quotas, key: quota})

    def _clustered(self, **parts: object) -> World:
        return replace(self, cluster=replace(self.cluster, **{"memo": {}, **parts}))  # type: ignore[arg-type]

    def with_pods(self, edit: Callable[[Pod], Pod], like: TaskView) -> World:
        """The same with the pod of a task edited, and of every pending one that is made from the same template: the
        same role, and the same placing asked for."""
        return self.with_tasks(lambda task: _edited(task, edit), like)

    def with_tasks(self, edit: Callable[[TaskView], TaskView], like: TaskView) -> World:
        """The same with such tasks edited themselves; `like` counts as it now is, with what was edited before."""
        group, task = self.group, self.task
        members = group.tasks if group is not None else ()
        like = next((one for one in members if one.uid == like.uid), like)
        if group is not None:
            tasks = [edit(one) if alike(one, like) else one for one in group.tasks]
            group = replace(group, tasks=tasks)
        if task is not None and alike(task, like):
            task = edit(task)
        return replace(self, group=group, task=task)

    def with_claims(self, **stores: Mapping[str, object]) -> World:
        """The same with claims, volumes or classes beside those that there are."""
        merged = {name: {**getattr(self.cluster, name), **more} for name, more in stores.items()}
        return self._clustered(**merged)

    def without(self, gone: Sequence[Occupant]) -> World:
        """The same without some pods: their nodes have the room, their queues hold and ask for less."""
        uids, names = {one.uid for one in gone}, {one.node for one in gone}
        by_name = {node.name: node for node in self.cluster.nodes if node.name in names}
        nodes: dict[str, NodeView] = {}
        world = self
        for one in gone:
            before = nodes.get(one.node) or by_name.get(one.node)
            if before is not None:
                idle = add(before.idle, one.request)
                nodes[one.node] = changed(before, idle=idle, pods=before.pods - 1)
            if one.queue in world.cluster.queues:
                world = world.with_queue(one.queue, lambda view, less=one.request: _holding_less(view, less))  # type: ignore[misc]
        pods = [pod for pod in world.cluster.pods if pod.uid not in uids]
        keys = (*self.gone, *(one.key for one in gone))
        return replace(world.with_nodes(nodes)._clustered(pods=pods), gone=keys)

    def told_elsewhere(self) -> World:
        """The same, changed in something that no API object says."""
        return replace(self, beyond=True)


def alike(one: TaskView, other: TaskView) -> bool:
    """Whether two tasks come from the same template, as far as their placing goes."""
    if one.uid == other.uid:
        return True
    if one.status != "Pending" or one.pod is None or other.pod is None or one.role != other.role:
        return False
    left, right = one.pod.spec, other.pod.spec
    return (left.node_selector, left.affinity, left.tolerations) == (
        right.node_selector,
        right.affinity,
        right.tolerations,
    )


def _edited(task: TaskView, edit: Callable[[Pod], Pod]) -> TaskView:
    return task if task.pod is None else replace(task, pod=edit(task.pod))


def _holding_less(view: QueueView, less: Amounts) -> QueueView:
    return replace(
        view,
        allocated=subtract(view.allocated, {name: less[name] for name in less if name in view.allocated}),
        requested=subtract(view.requested, {name: less[name] for name in less if name in view.requested}),
    )


def roomier(node: NodeView, more: Amounts) -> NodeView:
    """A node with more of something, idle; `pods` raises its limit on the number of pods."""
    limit = node.pods_max + int(more["pods"]) if node.pods_max is not None and "pods" in more else node.pods_max
    return changed(node, idle=add(node.idle, more), allocatable=add(node.allocatable, more), pods_max=limit)


def with_spec(node: NodeView, **parts: object) -> NodeView:
    """A node whose object's spec is edited."""
    if node.node is None:
        return node
    return changed(node, node=changed(node.node, spec=changed(node.node.spec, **parts)))


def with_labels(node: NodeView, labels: Mapping[str, str]) -> NodeView:
    """A node with labels more, or others."""
    if node.node is None:
        return node
    meta = changed(node.node.metadata, labels={**(node.node.metadata.labels or {}), **labels})
    return changed(node, node=changed(node.node, metadata=meta))


def empty_like(node: NodeView, name: str) -> NodeView:
    """A new node of the kind of another, with everything idle."""
    made: Node | None = node.node
    if made is not None:
        labels = {**(made.metadata.labels or {}), "kubernetes.io/hostname": name}
        made = changed(made, metadata=changed(made.metadata, name=name, uid=f"new-{name}", labels=labels))
        made = changed(made, spec=changed(made.spec, unschedulable=False))
    return NodeView(
        name=name,
        node=made,
        allocatable=node.allocatable,
        idle=node.allocatable,
        pods_max=node.pods_max,
    )


__all__ = ["World", "alike", "empty_like", "roomier", "with_labels", "with_spec"]
