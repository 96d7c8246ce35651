"""Nodes: their store, the sync that sets a node's books from its object and CSINode, and image states.

Owns NodeInfo's fields but for what single tasks do to them. Must not know jobs. Called by `projections.cache.fold` and
`projections.cache.actions`.

Source: Volcano's SyncNode, AddOrUpdateNode, RemoveNode, SetNode, setNode, setOversubscription, setCSIResourceOnNode,
addNodeImageStates (vectors 033 to 050).
"""

from __future__ import annotations

from projections.cache.accounting import count_on_node
from projections.cache.parsing import parse_bool, parse_float
from projections.cache.retries import put_off
from projections.cache.state import NOT_READY, READY, Cache, ImageState, NodeInfo
from projections.cache.tasks import REVOCABLE_ZONE_KEY
from projections.cache.volumes import attach_limit_name
from volcano.objects.core import Node
from volcano.objects.meta import ResourceMap
from volcano.objects.resource import Resource, new_resource
from volcano.objects.scheduling import CSINode, Numatopology
from volcano.objects.status import TaskStatus

OVERSUBSCRIPTION_KEY = "volcano.sh/oversubscription"
OFFLINE_EVICTING_KEY = "volcano.sh/offline-job-evicting"
OVERSUBSCRIPTION_CPU_KEY = "volcano.sh/oversubscription-cpu"
OVERSUBSCRIPTION_MEMORY_KEY = "volcano.sh/oversubscription-memory"
UNLIMITED_VOLUMES = 2**31 - 1
"""The limit of a driver whose CSINode gives no count (050)."""


class NodeUnknown(Exception):
    """A sync found no node in the store and none in the cache: Volcano's SyncNode fails and is tried again (046)."""


# --- the informers ------------------------------------------------------------------------------------------------


def observe_node(cache: Cache, node: Node, position: int) -> None:
    """A node seen: stored, then synced."""
    name = node.metadata.name
    cache.node_objects[name] = node
    cache.touched.objects["Node", name] = None
    sync(cache, name)
    info = cache.nodes.get(name)
    if info is not None:
        info.position = position
        cache.touched.nodes[name] = True


def forget_node(cache: Cache, node: Node) -> bool:
    """A node seen gone. False: it was not known."""
    name = node.metadata.name
    if cache.node_objects.pop(name, None) is None:
        return False
    cache.touched.objects["Node", name] = None
    sync(cache, name)
    return True


def observe_csi_node(cache: Cache, csi_node: CSINode) -> bool:
    """A CSINode seen; one with the same spec changes nothing. False: nothing changed."""
    name = csi_node.metadata.name
    known = cache.csi_nodes.get(name)
    cache.csi_nodes[name] = csi_node
    cache.touched.objects["CSINode", name] = None
    if known is not None and known.spec == csi_node.spec:
        return False
    sync(cache, name)
    return True


def forget_csi_node(cache: Cache, csi_node: CSINode) -> bool:
    """A CSINode seen gone. False: it was not known."""
    name = csi_node.metadata.name
    if cache.csi_nodes.pop(name, None) is None:
        return False
    cache.touched.objects["CSINode", name] = None
    sync(cache, name)
    return True


def observe_numatopology(cache: Cache, topology: Numatopology) -> None:
    """A Numatopology seen: the real cache makes a placeholder for a node that it doesn't know."""
    name = topology.metadata.name
    if name not in cache.nodes and cache.policy.keeps_placeholders:
        cache.nodes[name] = NodeInfo(name)
        cache.touched.nodes[name] = True


def sync(cache: Cache, name: str) -> bool:
    """SyncNode from a work queue: a failed one is kept for the next try. False: it failed."""
    cache.synced = True
    try:
        sync_node(cache, name)
    except NodeUnknown:
        cache.synced = False
        if cache.policy.retries_unknown_node:
            put_off(cache, cache.pending_node_sync, name)
        return False
    return True


def sync_node(cache: Cache, name: str) -> None:
    """Volcano's SyncNode. Raises NodeUnknown."""
    node = cache.node_objects.get(name)
    if node is None:
        remove_node(cache, name)
        return
    if not _wanted(cache, node):
        return
    csi = _attach_limits(cache.csi_nodes.get(name))
    info = cache.nodes.get(name)
    cache.touched.nodes[name] = True
    if info is None:
        info = cache.nodes[name] = NodeInfo(name)
        set_books(cache, info, node, csi)
        info.phase, info.reason = _phase(cache, node)
    else:
        _set_node(cache, info, node, csi)
        _drop_images(cache, info)
    _take_images(cache, info, node)
    if name not in cache.node_list:
        cache.node_list.append(name)
        cache.touched.rest = True


def remove_node(cache: Cache, name: str) -> None:
    """Volcano's RemoveNode. Under `exact` a node with tasks becomes a placeholder, so that they count again when it
    comes back. Raises NodeUnknown."""
    if name in cache.node_list:
        cache.node_list.remove(name)
        cache.touched.rest = True
    info = cache.nodes.get(name)
    if info is None:
        raise NodeUnknown(f"node <{name}> does not exist")
    _drop_images(cache, info)
    cache.touched.nodes[name] = True
    if cache.policy.forgets_tasks or not info.tasks:
        for key in info.tasks:
            cache.touched.node_tasks[name, key] = None
        del cache.nodes[name]
        return
    cache.nodes[name] = NodeInfo(name, made=info.tasks)


def _wanted(cache: Cache, node: Node) -> bool:
    """The scheduler's --node-selector (046)."""
    selectors = cache.config.node_selectors
    labels = node.metadata.labels or {}
    return not selectors or any(f"{name}:{label}" in selectors for name, label in labels.items())


# --- the books ----------------------------------------------------------------------------------------------------


def _phase(cache: Cache, node: Node) -> tuple[str, str]:
    """1.10 looks at the Ready condition, later versions don't (fact 13)."""
    if cache.policy.freezes_not_ready:
        for condition in node.status.conditions or ():
            if condition.type == "Ready" and condition.status != "True":
                return NOT_READY, "NotReady"
    return READY, ""


def _attach_limits(csi_node: CSINode | None) -> dict[str, int]:
    limits: dict[str, int] = {}
    for driver in (csi_node.spec.drivers or ()) if csi_node is not None else ():
        count = driver.allocatable.count if driver.allocatable is not None else None
        limits[attach_limit_name(driver.name)] = UNLIMITED_VOLUMES if count is None else count
    return limits


def node_resource(cache: Cache, amounts: ResourceMap | None, info: NodeInfo) -> Resource:
    """An allocatable or capacity map with the node's attach limits and oversubscription."""
    csi = info.csi
    exact = not cache.policy.float64
    if csi:
        amounts = {name: amount for name, amount in (amounts or {}).items() if name not in csi}
    resource = new_resource(amounts, exact=exact)
    for name, count in csi.items():
        resource.add_scalar(name, count if exact else float(count))
    resource.milli_cpu += info.oversubscription_cpu
    resource.memory += info.oversubscription_memory
    if not cache.policy.nil_scalars and resource.scalars is None:
        resource.scalars = {}
    return resource


def _set_node(cache: Cache, info: NodeInfo, node: Node, csi: dict[str, int]) -> None:
    """Volcano's SetNode: a node that isn't Ready keeps its books as they were (037)."""
    info.phase, info.reason = _phase(cache, node)
    if not info.ready:
        return
    if cache.policy.blanks_node_name:
        write_back_names(cache, info)
    set_books(cache, info, node, csi)


def write_back_names(cache: Cache, info: NodeInfo) -> list[str]:
    """What cloning a node does to its own tasks: node_name becomes the object's name, '' for a placeholder's (033).
    Binding tasks that the clone has no room for are left out and keep theirs; their keys are returned (097)."""
    name = info.name if info.node is not None else ""
    dropped = _unfitting(cache, info)
    for key, task in info.tasks.items():
        if task.node_name != name and key not in dropped:
            task.node_name = name
            cache.touched.node_tasks[info.name, key] = None
    return dropped


def _unfitting(cache: Cache, info: NodeInfo) -> list[str]:
    binding = int(TaskStatus.BINDING)
    if info.node is None or not any(task.status == binding for task in info.tasks.values()):
        return []
    clone = NodeInfo(info.name, info.held, csi=info.csi)
    _set_oversubscription(clone, info.node, keep=False)
    clone.idle = node_resource(cache, info.node.status.allocatable, clone)
    dropped = []
    for key, task in info.tasks.items():
        if task.status == binding and not task.resreq.less_equal(clone.idle):
            dropped.append(key)
        else:
            count_on_node(clone, task)
    return dropped


def set_books(cache: Cache, info: NodeInfo, node: Node, csi: dict[str, int]) -> None:
    """Volcano's setNode: everything anew from the object and the tasks."""
    _set_oversubscription(info, node, keep=cache.policy.keeps_oversubscription)
    info.revocable_zone = (node.metadata.labels or {}).get(REVOCABLE_ZONE_KEY, "")
    info.node, info.csi = node, csi
    info.allocatable = node_resource(cache, node.status.allocatable, info)
    info.capacity = node_resource(cache, node.status.capacity, info)
    info.idle = info.allocatable.clone()
    info.used, info.releasing, info.pipelined = (new_resource(None, exact=not cache.policy.float64) for _ in range(3))
    for task in info.tasks.values():
        count_on_node(info, task)


def _set_oversubscription(info: NodeInfo, node: Node, *, keep: bool) -> None:
    labels, annotations = node.metadata.labels or {}, node.metadata.annotations or {}
    info.oversubscription = bool(parse_bool(labels.get(OVERSUBSCRIPTION_KEY, "")))
    info.offline_job_evicting = bool(parse_bool(annotations.get(OFFLINE_EVICTING_KEY, "")))
    if not keep:
        info.oversubscription_cpu = info.oversubscription_memory = 0
    if OVERSUBSCRIPTION_CPU_KEY in annotations:
        info.oversubscription_cpu = parse_float(annotations[OVERSUBSCRIPTION_CPU_KEY])
    if OVERSUBSCRIPTION_MEMORY_KEY in annotations:
        info.oversubscription_memory = parse_float(annotations[OVERSUBSCRIPTION_MEMORY_KEY])


# --- images -------------------------------------------------------------------------------------------------------


def _drop_images(cache: Cache, info: NodeInfo) -> None:
    for name in info.images:
        state = cache.images[name]
        state.nodes.pop(info.name, None)
        if not state.nodes:
            del cache.images[name]
    info.images = {}


def _take_images(cache: Cache, info: NodeInfo, node: Node) -> None:
    """The node's images, each with the number of nodes that have it now; others' numbers stay as they were (048)."""
    images: dict[str, tuple[int, int]] = {}
    for image in node.status.images or ():
        for name in image.names or ():
            state = cache.images.setdefault(name, ImageState(image.size_bytes, {}))
            state.nodes[info.name] = None
            images.setdefault(name, (state.size, len(state.nodes)))
    info.images = images


__all__ = [
    "NodeUnknown",
    "forget_csi_node",
    "forget_node",
    "node_resource",
    "observe_csi_node",
    "observe_node",
    "observe_numatopology",
    "remove_node",
    "set_books",
    "sync",
    "sync_node",
    "write_back_names",
]
