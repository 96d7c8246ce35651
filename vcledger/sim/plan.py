"""A plan: the cluster, what its users do and when, and the faults; all drawn from one seed, as values.

Owns the drawing of a world. Must not know how it is run. Called by `vcledger.sim.world`, and by whoever makes a failing
plan smaller: any plan with fewer doings or faults is a plan again.

Two kinds of worlds. A roomy one has space for everything on any node, so all pods can run for ever. In a tight one the
pods want more than there is, and each ends after some seconds, so that all of them get their turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import msgspec

from vcledger.sim import faults
from vcledger.sim.clock import MILLISECOND, SECOND
from vcledger.sim.faults import Fault
from vcledger.sim.kubelet import RUNS_SECONDS
from vcledger.sim.mvcc import Object
from vcledger.sim.volumes import HOSTNAME, NO_PROVISIONER, on_host
from volcano.objects.quantity import milli_value

SAFETY_SECONDS = 120
"""How long users and faults are at work."""

GROUP = "scheduling.k8s.io/group-name"
DRIVER = "csi.example.com"
CLASSES: dict[str, tuple[str, str]] = {
    "local": (NO_PROVISIONER, "WaitForFirstConsumer"),
    "wait": (DRIVER, "WaitForFirstConsumer"),
    "now": (DRIVER, "Immediate"),
}
"""Storage classes: provisioner and binding mode."""


class Doing(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a user does at a time (microseconds after the start): `create` an object; `run` a pod, which is made again
    when it is lost; `label` an object; `remove` it, and make it no more."""

    at: int
    do: str
    kind: str
    namespace: str = ""
    name: str = ""
    object: dict[str, Any] | None = None


class Plan(msgspec.Struct, frozen=True):
    """A world. `safety`: microseconds until faults and users stop. `session`: the configuration under which a session
    decides, '' for the usual one."""

    seed: int
    steps: int
    tight: bool
    safety: int
    doings: tuple[Doing, ...]
    faults: tuple[Fault, ...]
    session: str = ""


def encode(plan: Plan) -> bytes:
    """A plan as JSON."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=1)


def decode(data: bytes) -> Plan:
    """A plan from its JSON; msgspec's errors when it is none."""
    return msgspec.json.decode(data, type=Plan)


def draw(
    seed: int, steps: int = 40, chosen: Sequence[str] = tuple(faults.FAULTS), *, tight: bool | None = None
) -> Plan:
    """The plan of a seed: about `steps` doings of users, and half as many of the chosen faults. `tight`: not drawn, but
    given."""
    chance = Random(seed)
    drawn = chance.random() < 0.4
    drawing = Drawing(chance, tight=drawn if tight is None else tight)
    drawing.cluster()
    while len(drawing.doings) - drawing.given < steps:
        drawing.something()
    safety = SAFETY_SECONDS * SECOND
    doings = tuple(sorted(drawing.doings, key=lambda doing: doing.at))
    schedule = faults.drawn(chance, chosen, steps // 2, safety)
    return Plan(seed, steps, drawing.tight, safety, doings, schedule)


def sound(plan: Plan) -> bool:
    """Whether every pod of the plan can have a node once nothing goes wrong any more, as in each plan that is drawn:
    its claims are made, their classes are there, with local volumes enough on each node; a node has the labels that it
    selects, and there is room. A part of a plan that is not sound may be left with pods that nobody could place."""
    made = [doing for doing in plan.doings if doing.do in ("create", "run") and doing.object is not None]
    items = {(doing.kind, doing.namespace, doing.name): doing.object or {} for doing in made}
    nodes = [item for (kind, _, _), item in items.items() if kind == "Node"]
    pods = [item for (kind, _, _), item in items.items() if kind == "Pod"]
    used = [items.get(("PersistentVolumeClaim", pod["metadata"]["namespace"], name)) for pod in pods
            for name in _claims(pod)]  # fmt: skip
    if any(claim is None for claim in used) or (pods and not nodes):
        return False
    classes = [(claim or {})["spec"]["storageClassName"] for claim in used]
    if any(("StorageClass", "", name) not in items for name in classes):
        return False
    local = [name for name in classes if CLASSES.get(name, ("", ""))[0] == NO_PROVISIONER]
    if local and any(_local_on(items.values(), node["metadata"]["name"]) < len(local) for node in nodes):
        return False
    labels = [node["metadata"].get("labels") or {} for node in nodes]
    for pod in pods:
        wanted = (pod["spec"].get("nodeSelector") or {}).items()
        if not any(wanted <= there.items() for there in labels):
            return False
    return _room(plan, nodes, pods)


def _claims(pod: Object) -> list[str]:
    volumes = pod["spec"].get("volumes") or ()
    return [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]


def _local_on(items: Iterable[Object], node: str) -> int:
    """How many of the volumes are on this node only."""
    return sum("nodeAffinity" in (item.get("spec") or {}) and item["spec"]["nodeAffinity"] == on_host(node)
               for item in items)  # fmt: skip


def _room(plan: Plan, nodes: Sequence[Object], pods: Sequence[Object]) -> bool:
    """All pods on any one node, or, where they end, each gang on all nodes together."""
    cpus = [milli_value(node["status"]["allocatable"]["cpu"]) for node in nodes]
    gangs: dict[str, int] = {}
    ends = True
    for pod in pods:
        annotations = pod["metadata"].get("annotations") or {}
        ends = ends and RUNS_SECONDS in annotations
        asked = sum(milli_value(one["resources"]["requests"]["cpu"]) for one in pod["spec"]["containers"])
        gang = annotations.get(GROUP, pod["metadata"]["name"])
        gangs[gang] = gangs.get(gang, 0) + asked
    if ends:
        return max(gangs.values(), default=0) <= sum(cpus)
    return sum(gangs.values()) <= min(cpus)


class Drawing:
    """A world being drawn."""

    def __init__(self, chance: Random, *, tight: bool) -> None:
        self.chance = chance
        self.tight = tight
        self.doings: list[Doing] = []
        self.nodes: list[str] = []
        self.groups: list[tuple[str, list[str]]] = []
        self.claims: list[str] = []
        self.milli_cpu = 0
        self.given = 0
        self.locals = 0
        self.count = 0

    def cluster(self) -> None:
        """Nodes, classes, the queue and some volumes, which are there from the start."""
        cpu = 4 if self.tight else 32
        for number in range(self.chance.randint(2, 4)):
            name = f"n{number + 1}"
            self.nodes.append(name)
            self._create(0, "Node", node_of(name, cpu, "ssd" if number % 2 == 0 else "hdd"))
            self._create(0, "CSINode", {"metadata": {"name": name}, "spec": {"drivers": []}})
        for name, (provisioner, mode) in CLASSES.items():
            found = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
            self._create(0, "StorageClass", {**found, "reclaimPolicy": "Delete"})
        self._create(0, "Queue", {"metadata": {"name": "default"}, "spec": {"weight": 1}})
        for node in self.nodes:
            for number in range(6):
                self._create(0, "PersistentVolume", _local_volume(f"pv-{node}-{number}", node, number % 2 + 1))
        self.given = len(self.doings)

    def something(self) -> None:
        """One thing that a user does."""
        choice = self.chance.random()
        at = self._time()
        if choice < 0.75 or not self.groups:
            self.gang(at)
        elif choice < 0.85:
            self._label(at)
        elif choice < 0.93:
            name, pods = self.chance.choice(self.groups)
            self._do(at, "remove", "PodGroup", name)
            for pod in pods:
                self._do(at + self._moment(), "remove", "Pod", pod)
        else:
            self._do(at, "label", "Node", self.chance.choice(self.nodes), namespace="")

    def gang(self, at: int) -> None:
        """A PodGroup with its pods, and the claims of some, in any order."""
        self.count += 1
        replicas = self.chance.randint(1, 4)
        name = f"job-{self.count}"
        least = self.chance.randint(1, replicas)
        group: Object = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"minMember": least, "queue": "default"},
            "status": {"phase": "Inqueue"},
        }
        self._create(at + self._moment(), "PodGroup", group)
        pods = [f"{name}-{number}" for number in range(replicas)]
        milli = self.chance.choice((100, 250, 500, 1000))
        if not self.tight and self.milli_cpu + milli * replicas > 30_000:
            milli = 10
        self.milli_cpu += milli * replicas
        for pod in pods:
            claims = [self._claim(at, pod, number) for number in range(self.chance.choice((0, 0, 0, 1, 1, 2)))]
            self._do(at + self._moment(), "run", "Pod", pod, item=self._pod(pod, name, milli, claims))
        self.groups.append((name, pods))

    def _claim(self, at: int, pod: str, number: int) -> str:
        """A claim; local volumes only while there surely are enough on each node."""
        kinds = ["wait", "now"]
        if self.locals < 3:
            kinds.append("local")
        chosen = self.chance.choice(kinds)
        self.locals += chosen == "local"
        name = f"{pod}-data-{number}"
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": chosen,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        item = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        self._create(at + self._moment(), "PersistentVolumeClaim", item)
        self.claims.append(name)
        return name

    def _pod(self, name: str, group: str, milli: int, claims: Sequence[str]) -> Object:
        annotations = {GROUP: group}
        if self.tight:
            annotations[RUNS_SECONDS] = str(self.chance.randint(3, 20))
        requests = {"cpu": f"{milli}m", "memory": "64Mi"}
        spec: Object = {
            "schedulerName": "volcano",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "main", "image": "img:1", "resources": {"requests": requests}}],
        }
        if claims:
            spec["volumes"] = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        elif self.chance.random() < 0.2:
            spec["nodeSelector"] = {"disk": self.chance.choice(("ssd", "hdd"))}
        return {"metadata": {"name": name, "namespace": "default", "annotations": annotations}, "spec": spec}

    def _label(self, at: int) -> None:
        """A change that changes nothing for the scheduler, but the version."""
        _, pods = self.chance.choice(self.groups)
        if self.claims and self.chance.random() < 0.5:
            self._do(at, "label", "PersistentVolumeClaim", self.chance.choice(self.claims))
        else:
            self._do(at, "label", "Pod", self.chance.choice(pods))

    def _time(self) -> int:
        return self.chance.randrange(0, SAFETY_SECONDS * SECOND // 2, MILLISECOND)

    def _moment(self) -> int:
        return self.chance.choice((0, 0, self.chance.randrange(2000) * MILLISECOND))

    def _create(self, at: int, kind: str, item: Object) -> None:
        meta = item["metadata"]
        self.doings.append(Doing(at, "create", kind, meta.get("namespace", ""), meta["name"], item))

    def _do(
        self, at: int, do: str, kind: str, name: str, *, namespace: str = "default", item: Object | None = None
    ) -> None:
        self.doings.append(Doing(at, do, kind, namespace, name, item))


def node_of(name: str, cpu: int, disk: str) -> Object:
    """A node that is ready, with so many cores."""
    amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {HOSTNAME: name, "disk": disk}},
        "spec": {},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _local_volume(name: str, node: str, gigabytes: int) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": f"{gigabytes}Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": f"/mnt/{name}"},
            "nodeAffinity": on_host(node),
        },
    }
