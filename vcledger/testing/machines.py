"""State machines for hypothesis: a model beside the system, and the model never reads the system.

Owns the machine of the cache, and the plain model of a cluster behind it. Needs hypothesis. Called by our tests and by
those of anyone who keeps a cache of a cluster:

    class MyCache(CacheMachine):
        def system(self): return MyOwnCache()      # with `observe` and `books`
    TestMyCache = MyCache.TestCase
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from projections.cache import Cache, CacheProjection
from vcledger.testing import strategies as draw
from vcledger.testing.strategies import GROUP_ANNOTATION, Object
from volcano.events.base import Recorded
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified
from volcano.objects import kinds, quantity
from volcano.objects.resource import PODS, Resource

Amounts: TypeAlias = dict[str, Fraction]
Books: TypeAlias = dict[str, dict[str, Any]]
"""Node name to `idle`, `used`, `releasing` (amounts in units, zeros left out) and `tasks` (sorted ns/name)."""

SCHEDULER = "volcano"
ENDED = ("Succeeded", "Failed")


class System(Protocol):
    """What a machine drives."""

    def observe(self, change: str, kind: str, obj: Object) -> None:
        """A watch line: ADDED, MODIFIED or DELETED."""
        ...

    def books(self) -> Books:
        """Every node that exists, with its books."""
        ...

    def jobs(self) -> dict[str, list[str]]:
        """Job (namespace/group) to its tasks, sorted ns/name; those that have a PodGroup or a task."""
        ...


class ExactCache:
    """Our own cache, as a system: the fold under the model `exact`."""

    def __init__(self) -> None:
        self.projection = CacheProjection("exact")
        self.cache: Cache = self.projection.initial()
        self.events: list[Recorded] = []

    def observe(self, change: str, kind: str, obj: Object) -> None:
        structs = {"ADDED": ObjectAdded, "MODIFIED": ObjectModified, "DELETED": ObjectDeleted}
        meta, position = obj["metadata"], len(self.events) + 1
        part = kinds.decode(kind, msgspec.json.encode(obj))
        where = (position, "machine", kind, meta.get("namespace", ""), meta["name"], meta["uid"])
        version = int(meta["resourceVersion"])
        event = structs[change](object=part)
        recorded = Recorded(*where, position, 0, False, version, None, None, event)
        self.events.append(recorded)
        self.cache = self.projection.evolve(self.cache, recorded)

    def books(self) -> Books:
        return {
            name: {
                "idle": _amounts(node.idle),
                "used": _amounts(node.used),
                "releasing": _amounts(node.releasing),
                "tasks": sorted(node.tasks),
            }
            for name, node in self.cache.nodes.items()
            if node.node is not None
        }

    def jobs(self) -> dict[str, list[str]]:
        return {key: sorted(task.key for task in job.tasks.values()) for key, job in self.cache.jobs.items()}


def _amounts(resource: Resource) -> Amounts:
    found = {
        name: Fraction(amount) / (1 if name in ("memory", PODS) else 1000)
        for name, amount in resource.amounts().items()
        if amount
    }
    return dict(sorted(found.items()))


# --- the model ----------------------------------------------------------------------------------------------------


def amount(text: Any) -> Fraction:
    """A quantity as a number."""
    parsed = quantity.parse(text)
    return Fraction(parsed.mantissa) * Fraction(10) ** parsed.scale


def added(one: Amounts, other: Amounts, sign: int = 1) -> Amounts:
    """The sum of two, zeros left out."""
    total = {name: one.get(name, Fraction(0)) + sign * other.get(name, Fraction(0)) for name in {**one, **other}}
    return {name: total[name] for name in sorted(total) if total[name]}


def asked(pod: Object) -> Amounts:
    """What a pod of plain containers asks for: their sum, cpu up to the next milli and memory to the next byte, and the
    pod itself."""
    total: Amounts = {PODS: Fraction(1)}
    for container in pod["spec"]["containers"]:
        for name, text in container.get("resources", {}).get("requests", {}).items():
            value = amount(text)
            step = Fraction(1, 1000) if name != "memory" else Fraction(1)
            total = added(total, {name: -(-value // step) * step})
    return total


class ClusterModel:
    """What is right by the API's objects alone. `live` has them by (kind, namespace/name)."""

    def __init__(self) -> None:
        self.live: dict[tuple[str, str], Object] = {}

    def set(self, kind: str, obj: Object) -> None:
        self.live[kind, key_of(obj)] = obj

    def remove(self, kind: str, obj: Object) -> None:
        del self.live[kind, key_of(obj)]

    def of(self, kind: str) -> list[Object]:
        return [obj for (found, _), obj in self.live.items() if found == kind]

    def books(self) -> Books:
        """The books of every node."""
        return {node["metadata"]["name"]: self._node(node) for node in self.of("Node")}

    def _node(self, node: Object) -> dict[str, Any]:
        total = {name: amount(text) for name, text in node["status"]["allocatable"].items()}
        here = [
            pod
            for pod in self.of("Pod")
            if pod["spec"].get("nodeName") == node["metadata"]["name"] and pod["status"]["phase"] not in ENDED
        ]
        used: Amounts = {}
        releasing: Amounts = {}
        for pod in here:
            used = added(used, asked(pod))
            if "deletionTimestamp" in pod["metadata"]:
                releasing = added(releasing, asked(pod))
        return {
            "idle": added(total, used, -1),
            "used": used,
            "releasing": releasing,
            "tasks": sorted(map(key_of, here)),
        }

    def jobs(self) -> dict[str, list[str]]:
        """The jobs: those with a PodGroup, and those with tasks of our scheduler."""
        found: dict[str, list[str]] = {key_of(group): [] for group in self.of("PodGroup")}
        for pod in self.of("Pod"):
            group = pod["metadata"].get("annotations", {}).get(GROUP_ANNOTATION)
            if group:
                found.setdefault(f"{pod['metadata']['namespace']}/{group}", []).append(key_of(pod))
        return {key: sorted(tasks) for key, tasks in found.items()}


def key_of(obj: Object) -> str:
    """namespace/name, or the name of what has no namespace."""
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])


# --- the machine --------------------------------------------------------------------------------------------------


class CacheMachine(RuleBasedStateMachine):
    """Nodes, pods and PodGroups come, change and go, in any order and under the same few names. After each step the
    system's books are the model's."""

    def system(self) -> System:
        """What is tested; to be overridden."""
        return ExactCache()

    @initialize()
    def begin(self) -> None:
        self.model, self.tested = ClusterModel(), self.system()
        self.version = 0
        self.made = 0

    def _send(self, change: str, kind: str, obj: Object) -> None:
        """One watch line, to both. The model's copy is its own."""
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        copy: Object = msgspec.json.decode(msgspec.json.encode(obj))
        if change == "DELETED":
            self.model.remove(kind, copy)
        else:
            self.model.set(kind, copy)
        self.tested.observe(change, kind, obj)

    def _new(self, kind: str, obj: Object) -> None:
        """Added, unless the name is taken: then it is an update of what has it, where that may be."""
        before = self.model.live.get((kind, key_of(obj)))
        if before is None:
            self.made += 1
            obj["metadata"]["uid"] = f"uid-{self.made}"
            self._send("ADDED", kind, obj)
        elif kind != "Pod":
            obj["metadata"]["uid"] = before["metadata"]["uid"]
            self._send("MODIFIED", kind, obj)

    def _changed(self, data: st.DataObject, kind: str, *, unbound: bool = False) -> Object | None:
        """A copy of one that is there."""
        there = [one for one in self.model.of(kind) if not unbound or not one["spec"].get("nodeName")]
        if not there:
            return None
        copy: Object = msgspec.json.decode(msgspec.json.encode(data.draw(st.sampled_from(there))))
        return copy

    @rule(node=draw.nodes())
    def node_seen(self, node: Object) -> None:
        self._new("Node", node)

    @rule(pod=draw.pods(groups=("group-0", "group-1")))
    def pod_seen(self, pod: Object) -> None:
        self._new("Pod", pod)

    @rule(pod=draw.pods(groups=("group-0",)), node=draw.NODE_NAMES)
    def running_pod_seen(self, pod: Object, node: str) -> None:
        """Also on a node that nobody has seen yet."""
        pod["spec"]["nodeName"], pod["status"]["phase"] = node, "Running"
        self._new("Pod", pod)

    @rule(group=draw.pod_groups())
    def group_seen(self, group: Object) -> None:
        self._new("PodGroup", group)

    @rule(data=st.data(), node=draw.NODE_NAMES)
    def pod_bound(self, data: st.DataObject, node: str) -> None:
        pod = self._changed(data, "Pod", unbound=True)
        if pod is not None and pod["status"]["phase"] == "Pending":
            pod["spec"]["nodeName"] = node
            self._send("MODIFIED", "Pod", pod)

    @rule(data=st.data(), phase=st.sampled_from(("Running", *ENDED)))
    def pod_moves_on(self, data: st.DataObject, phase: str) -> None:
        pod = self._changed(data, "Pod")
        if pod is not None and pod["spec"].get("nodeName") and pod["status"]["phase"] not in ENDED:
            pod["status"]["phase"] = phase
            self._send("MODIFIED", "Pod", pod)

    @rule(data=st.data())
    def pod_is_to_go(self, data: st.DataObject) -> None:
        pod = self._changed(data, "Pod")
        if pod is not None and pod["status"]["phase"] in ("Pending", "Running"):
            pod["metadata"]["deletionTimestamp"] = draw.CREATED
            self._send("MODIFIED", "Pod", pod)

    @precondition(lambda self: self.model.live)
    @rule(data=st.data())
    def something_is_deleted(self, data: st.DataObject) -> None:
        kind, _ = data.draw(st.sampled_from(sorted(self.model.live)))
        gone = self._changed(data, kind)
        if gone is not None:
            self._send("DELETED", kind, gone)

    @invariant()
    def the_books_are_right(self) -> None:
        if hasattr(self, "model"):
            assert self.tested.books() == self.model.books()
            assert self.tested.jobs() == self.model.jobs()


__all__ = ["CacheMachine", "ClusterModel", "ExactCache", "System"]
