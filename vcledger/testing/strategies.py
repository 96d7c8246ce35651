"""Hypothesis strategies: API objects of the kinds that scheduling is about, whole clusters, and plans of faults.

Owns what is drawn. Needs hypothesis, which the rest of the kit does not. Called by the state machines and by users'
tests:

    @given(clusters())
    def test_mine(cluster): ...

Objects are plain JSON values, as the API server sends them, with uid and resourceVersion. Amounts are drawn from few
sizes, so that pods that just fit, and just don't, come up often.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from hypothesis import strategies as st

from vcledger.sim.faults import FAULTS
from vcledger.sim.plan import Plan
from vcledger.sim.plan import draw as draw_plan
from volcano.objects.kinds import BY_NAME

Object: TypeAlias = dict[str, Any]

NAMESPACE = "default"
CREATED = "2026-01-01T00:00:00Z"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
HOSTNAME = "kubernetes.io/hostname"

CPUS = ("1m", "100m", "500m", "1", "1500m", "2", "4")
MEMORIES = ("1", "64Mi", "1Gi", "2Gi", "4G")
SIZES = ("1Gi", "5Gi", "10Gi")
GPU = "nvidia.com/gpu"


def api_object(kind: str, name: str, *, uid: str = "", version: str = "1", namespace: str = NAMESPACE) -> Object:
    """The frame of an object of `kind` (our name): apiVersion, kind and metadata."""
    found = BY_NAME[kind]
    group = f"{found.group}/" if found.group else ""
    meta: Object = {"name": name, "uid": uid or f"{name}-uid", "resourceVersion": version, "creationTimestamp": CREATED}
    if found.namespaced:
        meta["namespace"] = namespace
    return {"apiVersion": f"{group}{found.versions[0]}", "kind": found.api_kind, "metadata": meta}


def names(prefix: str, count: int = 6) -> st.SearchStrategy[str]:
    """One of a few names, so that the same one comes up again."""
    return st.sampled_from([f"{prefix}-{number}" for number in range(count)])


NODE_NAMES, POD_NAMES, GROUP_NAMES = names("node"), names("pod", 12), names("group", 3)
CLASS_NAMES, VOLUME_NAMES, CLAIM_NAMES = names("class", 2), names("volume", 4), names("claim", 4)
DEFAULT_QUEUE: st.SearchStrategy[str] = st.just("default")


def requests() -> st.SearchStrategy[Object]:
    """What a container asks for; {} is best effort."""
    amounts = {"cpu": st.sampled_from(CPUS), "memory": st.sampled_from(MEMORIES), GPU: st.sampled_from(("1", "2"))}
    return st.fixed_dictionaries({}, optional=amounts)


@st.composite
def nodes(draw: st.DrawFn, name: st.SearchStrategy[str] = NODE_NAMES) -> Object:
    """A node with a few cores; at times cordoned, tainted or not ready."""
    chosen = draw(name)
    amounts = {
        "cpu": draw(st.sampled_from(("1", "2", "4", "8"))),
        "memory": draw(st.sampled_from(("2Gi", "4Gi", "16Gi"))),
        "pods": draw(st.sampled_from(("2", "110"))),
    }
    if draw(st.booleans()):
        amounts[GPU] = draw(st.sampled_from(("1", "2", "8")))
    node = api_object("Node", chosen)
    node["metadata"]["labels"] = {HOSTNAME: chosen, "zone": draw(st.sampled_from(("a", "b")))}
    node["spec"] = {"unschedulable": True} if draw(_seldom()) else {}
    if draw(_seldom()):
        node["spec"]["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
    ready = "False" if draw(_seldom()) else "True"
    node["status"] = {
        "allocatable": amounts,
        "capacity": dict(amounts),
        "conditions": [{"type": "Ready", "status": ready}],
    }
    return node


def _seldom() -> st.SearchStrategy[bool]:
    return st.integers(0, 9).map(lambda number: number == 9)


@st.composite
def pods(
    draw: st.DrawFn,
    name: st.SearchStrategy[str] = POD_NAMES,
    *,
    groups: tuple[str, ...] = (),
    claims: tuple[str, ...] = (),
    node: str = "",
) -> Object:
    """A pending pod of this scheduler, or one that runs on `node`; in a group or none; with up to two claims."""
    chosen = draw(name)
    pod = api_object("Pod", chosen)
    containers = draw(st.lists(requests(), min_size=1, max_size=2))
    spec: Object = {
        "schedulerName": "volcano",
        "containers": [
            {"name": f"c{number}", "image": "img:1", "resources": {"requests": one}}
            for number, one in enumerate(containers)
        ],
    }
    if groups and (group := draw(st.sampled_from(("", *groups)))):
        pod["metadata"]["annotations"] = {GROUP_ANNOTATION: group}
    used = draw(st.lists(st.sampled_from(claims), max_size=2, unique=True)) if claims else []
    if used:
        spec["volumes"] = [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}} for number, claim in enumerate(used)
        ]
    if draw(_seldom()):
        spec["nodeSelector"] = {"zone": draw(st.sampled_from(("a", "b")))}
    if draw(_seldom()):
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if node:
        spec["nodeName"] = node
    pod["spec"], pod["status"] = spec, {"phase": "Running" if node else "Pending"}
    return pod


@st.composite
def pod_groups(draw: st.DrawFn, name: st.SearchStrategy[str] = GROUP_NAMES, queue: str = "default") -> Object:
    """A PodGroup that has been taken into its queue."""
    group = api_object("PodGroup", draw(name))
    group["spec"] = {"minMember": draw(st.integers(1, 3)), "queue": queue}
    group["status"] = {"phase": "Inqueue"}
    return group


@st.composite
def queues(draw: st.DrawFn, name: st.SearchStrategy[str] = DEFAULT_QUEUE) -> Object:
    """An open queue."""
    queue = api_object("Queue", draw(name))
    queue["spec"] = {"weight": draw(st.integers(1, 4)), "reclaimable": draw(st.booleans())}
    queue["status"] = {"state": "Open"}
    return queue


@st.composite
def storage_classes(draw: st.DrawFn, name: st.SearchStrategy[str] = CLASS_NAMES) -> Object:
    """A class that waits for the first consumer, with or without a provisioner."""
    found = api_object("StorageClass", draw(name))
    found["provisioner"] = draw(st.sampled_from(("csi.example.com", "kubernetes.io/no-provisioner")))
    found["volumeBindingMode"] = "WaitForFirstConsumer"
    return found


@st.composite
def persistent_volumes(
    draw: st.DrawFn,
    name: st.SearchStrategy[str] = VOLUME_NAMES,
    *,
    classes: tuple[str, ...] = ("class-0",),
    nodes: tuple[str, ...] = (),
) -> Object:
    """A free volume, usable everywhere or on one of `nodes` only."""
    volume = api_object("PersistentVolume", draw(name))
    spec: Object = {
        "capacity": {"storage": draw(st.sampled_from(SIZES))},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": draw(st.sampled_from(("Retain", "Delete"))),
        "storageClassName": draw(st.sampled_from(classes)),
        "csi": {"driver": "csi.example.com", "volumeHandle": volume["metadata"]["name"]},
    }
    local: bool = draw(st.booleans())
    if nodes and local:
        where = {"key": HOSTNAME, "operator": "In", "values": [draw(st.sampled_from(nodes))]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}}
    volume["spec"], volume["status"] = spec, {"phase": "Available"}
    return volume


@st.composite
def persistent_volume_claims(
    draw: st.DrawFn, name: st.SearchStrategy[str] = CLAIM_NAMES, *, classes: tuple[str, ...] = ("class-0",)
) -> Object:
    """A claim that is not bound."""
    claim = api_object("PersistentVolumeClaim", draw(name))
    claim["spec"] = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": draw(st.sampled_from(classes)),
        "resources": {"requests": {"storage": draw(st.sampled_from(SIZES))}},
    }
    claim["status"] = {"phase": "Pending"}
    return claim


class ClusterObjects(NamedTuple):
    """A whole cluster. `all` has every object, in an order in which an API server could have made them."""

    queues: list[Object]
    classes: list[Object]
    nodes: list[Object]
    volumes: list[Object]
    claims: list[Object]
    groups: list[Object]
    pods: list[Object]

    @property
    def all(self) -> list[Object]:
        return [one for part in self for one in part]


def _unique(strategy: st.SearchStrategy[Object], most: int, least: int = 0) -> st.SearchStrategy[list[Object]]:
    return st.lists(strategy, min_size=least, max_size=most, unique_by=lambda one: str(one["metadata"]["name"]))


def _names(objects: list[Object]) -> tuple[str, ...]:
    return tuple(one["metadata"]["name"] for one in objects)


@st.composite
def clusters(draw: st.DrawFn, *, pods_max: int = 8, nodes_max: int = 4, volumes: bool = True) -> ClusterObjects:
    """A cluster whose objects name each other: pods of the groups, with the claims, of classes that there are. Nothing
    is bound. Versions count up in the order of `all`."""
    classes = draw(_unique(storage_classes(), 2, 1)) if volumes else []
    found_nodes = draw(_unique(nodes(), nodes_max, 1))
    known = _names(classes)
    free = draw(_unique(persistent_volumes(classes=known, nodes=_names(found_nodes)), 4)) if volumes else []
    claims = draw(_unique(persistent_volume_claims(classes=known), 4)) if volumes else []
    groups = draw(_unique(pod_groups(), 2))
    found_pods = draw(_unique(pods(groups=_names(groups), claims=_names(claims)), pods_max))
    cluster = ClusterObjects([draw(queues())], classes, found_nodes, free, claims, groups, found_pods)
    for number, one in enumerate(cluster.all, start=1):
        one["metadata"]["resourceVersion"] = str(number)
    return cluster


@st.composite
def fault_plans(draw: st.DrawFn, *, steps_max: int = 40, faults: tuple[str, ...] = tuple(FAULTS)) -> Plan:
    """A plan for `vcledger.sim.simulate.run_plan`: a cluster, what its users do, and faults of these kinds."""
    chosen = draw(st.lists(st.sampled_from(faults), unique=True)) if faults else []
    return draw_plan(draw(st.integers(0, 2**32)), draw(st.integers(1, steps_max)), chosen)


__all__ = [
    "ClusterObjects",
    "api_object",
    "clusters",
    "fault_plans",
    "names",
    "nodes",
    "persistent_volume_claims",
    "persistent_volumes",
    "pod_groups",
    "pods",
    "queues",
    "requests",
    "storage_classes",
]
