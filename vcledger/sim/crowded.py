"""A crowded world: queues and priorities, more pods than there is room for, and a session that evicts.

Owns the drawing of such a plan, and its configuration. Must not know how a plan is run. Called as `vcledger.sim.plan`
is, by tests and by `vcledger simulate --crowded`.

Each pod ends some seconds after it has started, so that all get their turn in the end, whoever is evicted for whom; one
that was evicted is made again by its owner, and begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from vcledger.sim import faults
from vcledger.sim.clock import SECOND
from vcledger.sim.kubelet import RUNS_SECONDS
from vcledger.sim.mvcc import Object
from vcledger.sim.plan import GROUP, SAFETY_SECONDS, Drawing, Plan, node_of

TIERS = """\
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
WITHOUT_GANG = TIERS.replace("  - name: gang\n", "  - name: gang\n    enablePreemptable: false\n")

CONFIGURATIONS = (
    f'actions: "enqueue, allocate, preempt, reclaim, backfill"\n{TIERS}',
    f'actions: "enqueue, allocate, backfill, reclaim, preempt"\n{WITHOUT_GANG}',
)
"""What decides in a crowded world: who may be a victim of preempt is up to the gang plugin too, or it is not."""

WORTH: dict[str, int] = {"low": 1, "middle": 10, "high": 100}
"""Priority classes and their values."""

QUEUES: dict[str, int] = {"default": 1, "rich": 2}
"""Queues and their weights."""


def draw(seed: int, steps: int = 40, chosen: Sequence[str] = tuple(faults.FAULTS)) -> Plan:
    """The plan of a seed, as `plan.draw` gives it."""
    chance = Random(seed)
    drawing = _Crowd(chance)
    drawing.cluster()
    while len(drawing.doings) - drawing.given < steps:
        drawing.something()
    safety = SAFETY_SECONDS * SECOND
    doings = tuple(sorted(drawing.doings, key=lambda doing: doing.at))
    schedule = faults.drawn(chance, chosen, steps // 2, safety, deletions=True)
    return Plan(seed, steps, True, safety, doings, schedule, CONFIGURATIONS[seed % len(CONFIGURATIONS)])


class _Crowd(Drawing):
    """A crowded world being drawn."""

    def __init__(self, chance: Random) -> None:
        super().__init__(chance, tight=True)

    def cluster(self) -> None:
        for number in range(self.chance.randint(2, 3)):
            name = f"n{number + 1}"
            self.nodes.append(name)
            self._create(0, "Node", node_of(name, 4, "ssd" if number % 2 == 0 else "hdd"))
        for name, value in WORTH.items():
            self._create(0, "PriorityClass", {"metadata": {"name": name}, "value": value})
        for name, weight in QUEUES.items():
            self._create(0, "Queue", {"metadata": {"name": name}, "spec": {"weight": weight, "reclaimable": True}})
        self.given = len(self.doings)

    def gang(self, at: int) -> None:
        """A PodGroup of some worth in a queue. Most of its pods are more than it needs, so that some may be evicted."""
        self.count += 1
        replicas = self.chance.randint(1, 5)
        name = f"job-{self.count}"
        group: Object = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "minMember": self.chance.randint(1, max(1, replicas // 2)),
                "queue": self.chance.choice(tuple(QUEUES)),
                "priorityClassName": self.chance.choice(tuple(WORTH)),
            },
            "status": {"phase": "Inqueue"},
        }
        self._create(at + self._moment(), "PodGroup", group)
        milli = self.chance.choice((500, 1000, 2000))
        pods = [f"{name}-{number}" for number in range(replicas)]
        for pod in pods:
            self._do(at + self._moment(), "run", "Pod", pod, item=self._one(pod, group, milli))
        self.groups.append((name, pods))

    def _one(self, name: str, group: Object, milli: int) -> Object:
        made = self._pod(name, group["metadata"]["name"], milli, ())
        worth = group["spec"]["priorityClassName"]
        made["spec"] |= {"priorityClassName": worth, "priority": WORTH[worth]}
        made["spec"]["terminationGracePeriodSeconds"] = self.chance.choice((0, 2, 30))
        made["metadata"]["annotations"] = {GROUP: group["metadata"]["name"], RUNS_SECONDS: str(self._runs())}
        return made

    def _runs(self) -> int:
        return self.chance.randint(5, 60)


__all__ = ["CONFIGURATIONS", "draw"]
