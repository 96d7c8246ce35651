"""The second proof of a change: a scheduling session on a copy of the cache to which the change was made.

Owns the making of the change to a cache (as observations, through the fold) and the asking of a session. Must not know
how changes are found nor told. Called by `vcledger.why` for who asks for it (`why --full`).

What only the scheduler's own flags say (an ignored provisioner), and an amount that no object of the log states, cannot
be observed: then the session is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from msgspec.structs import replace as changed

from projections.cache.fold import Delivery, observe
from projections.cache.projection import CacheProjection
from projections.cache.state import Cache, PodRef
from projections.diagnosis.edits_group import quantity
from projections.diagnosis.views import GroupView, NodeView, TaskView
from projections.diagnosis.world import World
from vcledger.ledger import Ledger
from vcledger.plugins import all_plugins
from vcledger.scheduler.session.conf import SessionConf, default_conf, read_conf
from vcledger.scheduler.session.framework import PluginFactory
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.session.outcome import Enqueued, Outcome, Placed
from vcledger.scheduler.session.plugins import BUILTIN
from vcledger.scheduler.session.run import run
from volcano.objects.core import Node, NodeCondition, NodeStatus, Pod
from volcano.objects.meta import ObjectMeta
from volcano.objects.resource import Resource
from volcano.objects.scheduling import Queue

VERSION = "9007199254740991"
"""The version of an object that was changed on trial: PodGroups and Queues of an equal one would be passed over."""


NODES_MAX = 15_000
"""On so many nodes in all sessions are run for one answer."""

SMALL = 3_000
"""Where only small states are put to sessions: on so many nodes and pods in all."""

ATTACHMENTS = "attachable-volumes-"
"""How resources begin that a CSINode states, not the node."""


class SessionProof:
    """Proofs on one state. `conf` is the scheduler's configuration as it was given, which may name plugins of one's
    own, None: Volcano's default. `small`: as many as take no time worth speaking of, none on a large state."""

    def __init__(self, ledger: Ledger, cache: Cache, conf: str | None = None, *, small: bool = False) -> None:
        self.ledger, self.cache = ledger, cache
        if small:
            self.left = SMALL // max(1, len(cache.nodes) + len(cache.pods))
        else:
            self.left = max(2, NODES_MAX // max(1, len(cache.nodes)))
        self.plugins: Mapping[str, PluginFactory] = BUILTIN if conf is None else all_plugins()
        self.conf: SessionConf = default_conf() if conf is None else read_conf(conf, self.plugins)

    @cached_property
    def projection(self) -> CacheProjection:
        return CacheProjection(self.cache.policy, self.cache.config)

    @cached_property
    def image(self) -> bytes:
        """The state, to be read again for each trial."""
        return self.projection.dump(self.cache)

    def __call__(self, world: World, before: World) -> bool | None:
        """Whether a session places what is asked about in the changed world; None where it cannot be asked."""
        group = world.group
        if world.beyond or group is None or group.pod_group is None or not self.left:
            return None
        deliveries = list(_deliveries(self.ledger, self.cache, world, before))
        if any(one is None for one in deliveries):
            return None
        self.left -= 1
        cache = self.projection.load([self.image])
        for name in world.ignored:
            _leave_out(cache, name)
        edited: dict[str, Pod] = {}
        for number, one in enumerate(deliveries):
            if one is None:
                continue
            observe(cache, one, cache.position + 1 + number)
            if isinstance(one.object, Pod) and not one.gone:
                edited[one.object.metadata.uid] = one.object

        def pod_of(ref: PodRef) -> Pod | None:
            found = edited.get(ref.uid) or self.ledger.objects([ref.position]).get(ref.position)
            return found if isinstance(found, Pod) else None

        outcome = run(Mirror(cache, pod_of), self.conf, plugins=self.plugins, only={group.key})
        if any(isinstance(one, Enqueued) and one.job == group.key for one in outcome.decisions):
            # Taken into its queue in this cycle, it is placed in the next.
            held = cache.jobs[group.key].pod_group or group.pod_group
            status = changed(held.status, phase="Inqueue")
            meta = changed(held.metadata, resource_version=f"{VERSION}0")
            observe(cache, Delivery("PodGroup", changed(held, metadata=meta, status=status)), cache.position + 1)
            outcome = run(Mirror(cache, pod_of), self.conf, cycle=1, plugins=self.plugins, only={group.key})
        return _stands(outcome, world, group)


def _leave_out(cache: Cache, name: str) -> None:
    """Takes a resource that no node has out of what tasks ask and jobs hold, as if its provisioner had been ignored
    from the start."""
    for job in cache.jobs.values():
        for task in job.tasks.values():
            task.resreq = _without(task.resreq, name)
        job.allocated, job.total_request = _without(job.allocated, name), _without(job.total_request, name)
    for node in cache.nodes.values():
        for task in node.tasks.values() if (node.used.scalars or {}).get(name) else ():
            task.resreq = _without(task.resreq, name)
        node.used, node.idle = _without(node.used, name), _without(node.idle, name)


def _without(resource: Resource, name: str) -> Resource:
    """A resource without one of its names; itself where it has none of that."""
    if name not in (resource.scalars or {}):
        return resource
    rest = resource.clone()
    rest.scalars = {one: amount for one, amount in (resource.scalars or {}).items() if one != name}
    return rest


def _stands(outcome: Outcome, world: World, group: GroupView) -> bool:
    """Whether the session placed the pod, or of a group as many as it needs."""
    placed = {one.task.uid for one in outcome.decisions if isinstance(one, Placed)}
    if world.task is not None:
        return world.task.uid in placed
    told = outcome.jobs.get(group.key)
    return told is not None and told.outcome in {"allocated", "pipelined"}


# --- the change as observations -----------------------------------------------------------------------------------


def _deliveries(ledger: Ledger, cache: Cache, world: World, before: World) -> Iterator[Delivery | None]:
    """What would have been observed of the change, in an order in which nothing refers to what is not there yet; None
    for what cannot be."""
    yield from _nodes(world, before)
    for name, view in world.cluster.queues.items() if world.cluster.queues is not before.cluster.queues else ():
        known = before.cluster.queues.get(name)
        if known is None or known.queue is not view.queue:
            meta = changed(
                view.queue.metadata, name=name, uid=view.queue.metadata.uid or name, resource_version=VERSION
            )
            body: Queue = changed(view.queue, metadata=meta)
            yield Delivery("Queue", body)
    for kind, new, old in (
        ("PersistentVolume", world.cluster.volumes, before.cluster.volumes),
        ("PersistentVolumeClaim", world.cluster.claims, before.cluster.claims),
        ("ResourceQuota", world.cluster.quotas, before.cluster.quotas),
    ):
        for key, thing in new.items() if new is not old else ():
            if old.get(key) is not thing:
                yield Delivery(kind, thing)
    yield from _gone(ledger, cache, world)
    yield from _group(cache, world, before)


def _nodes(world: World, before: World) -> Iterator[Delivery | None]:
    known = {node.name: node for node in before.cluster.nodes}
    for node in world.cluster.nodes:
        old = known.get(node.name)
        if old is not None and old.node is node.node and old.allocatable is node.allocatable:
            continue
        yield Delivery("Node", node_object(node)) if node.node is not None else None


def node_object(node: NodeView) -> Node:
    """A node's object as its view has it: what there is of each resource, and ready."""
    body = node.node or Node(metadata=ObjectMeta(name=node.name))
    counted = {name: amount for name, amount in node.allocatable.items() if not name.startswith(ATTACHMENTS)}
    amounts = {name: quantity(name, amount) for name, amount in counted.items()}
    if node.pods_max is not None:
        amounts["pods"] = node.pods_max
    ready = [NodeCondition(type="Ready", status="True")]
    status = changed(body.status or NodeStatus(), allocatable=amounts, capacity=amounts, conditions=ready)
    return changed(body, status=status)


def _gone(ledger: Ledger, cache: Cache, world: World) -> Iterator[Delivery | None]:
    """The evicted pods, as they are gone."""
    for key in world.gone:
        ref = cache.pods.get(key)
        pod = ledger.objects([ref.position]).get(ref.position) if ref is not None else None
        yield Delivery("Pod", pod, gone=True) if isinstance(pod, Pod) else None


def _group(cache: Cache, world: World, before: World) -> Iterator[Delivery | None]:
    """The PodGroup where it is another or new, and each of its pods that is."""
    group, old = world.group, before.group
    if group is None or group.pod_group is None:
        return
    held = cache.jobs.get(group.key)
    if held is None or held.pod_group is None or old is None or old.pod_group is not group.pod_group:
        meta = changed(group.pod_group.metadata, namespace=group.namespace, name=group.name, resource_version=VERSION)
        yield Delivery("PodGroup", changed(group.pod_group, metadata=meta))
    for task in (*group.tasks, *([world.task] if world.task is not None else [])):
        if _is_new(task, cache, before):
            yield Delivery("Pod", task.pod)


def _is_new(task: TaskView, cache: Cache, before: World) -> bool:
    """Whether the pod of a task is not the one that was there."""
    if task.pod is None:
        return False
    if task.key not in cache.pods:
        return True
    tasks = before.group.tasks if before.group is not None else ()
    old = next((one for one in tasks if one.uid == task.uid), None)
    return old is not None and old.pod is not task.pod


__all__ = ["SessionProof", "node_object"]
