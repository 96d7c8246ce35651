"""A simulated cluster with our scheduler in it, for tests that want one in a line.

Owns nothing but the handle: the world is `vcledger.sim`'s. Must not decide anything. Called by the pytest plugin, and
by whoever has a ledger:

    cluster = SimCluster(ledger)
    cluster.create("Node", {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}})
    cluster.run(seconds=10)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vcledger.errors import VcledgerError
from vcledger.ledger import Ledger
from vcledger.scheduler.inputs import Input
from vcledger.scheduler.state import Flow, FlowConfig
from vcledger.sim.clock import SECOND
from vcledger.sim.faults import FAULTS, Fault, UnknownFault
from vcledger.sim.plan import Plan
from vcledger.sim.simulate import come_to_rest
from vcledger.sim.world import CLUSTER, Session, Simulation
from volcano.objects.kinds import kind_of


class SchedulerDown(VcledgerError):
    """The simulated scheduler has died and was not started again yet."""


class SimCluster:
    """A simulated API server with its controllers, and the scheduler, on `ledger`. It begins empty, with nothing but
    the queue `default`. Time passes only in `run`. `config`: the scheduler's options; `session`: what decides each
    second instead of our allocate pass, given the scheduler's state, and returning commands.

    name        the cluster's name in the ledger
    simulation  the whole world, for what this handle does not give
    """

    name = CLUSTER

    def __init__(
        self, ledger: Ledger, *, seed: int = 0, config: FlowConfig | None = None, session: Session | None = None
    ) -> None:
        self.ledger = ledger
        plan = Plan(seed, 0, False, 0, (), ())
        self.simulation = Simulation(plan, ledger.store, config=config, session=session)
        self.create("Queue", {"metadata": {"name": "default"}, "spec": {"weight": 1}})
        self.simulation.run()

    def create(self, kind: str, item: dict[str, Any]) -> dict[str, Any]:
        """Creates an object of a kind (our name); the API server adds uid and version. ValueError when it refuses."""
        return self.simulation.api.create(kind, item)

    def fill(self, objects: Iterable[dict[str, Any]]) -> None:
        """Creates objects that say their kind, a drawn cluster's (`strategies.clusters().all`) or recorded ones,
        in their order. The API server gives them uids and versions of its own; what is there already is left alone.
        ValueError when it refuses, or of a kind that is not known."""
        for item in objects:
            meta = {key: value for key, value in item["metadata"].items() if key not in ("uid", "resourceVersion")}
            kind = kind_of(item["apiVersion"], item["kind"])
            if kind is None:
                raise ValueError(f"{meta.get('name')}: no {item['kind']} of {item['apiVersion']} is known here")
            namespace = meta.get("namespace", "default") if kind.namespaced else ""
            if self.simulation.api.object(kind.name, namespace, meta["name"]) is None:
                self.create(kind.name, {**item, "metadata": meta})

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Deletes an object as a user does, with its grace period. One that is not there is left alone."""
        found = self.simulation.api.object(kind, namespace, name)
        if found is not None:
            self.simulation.world.delete(kind, found)

    def objects(self, kind: str) -> Sequence[dict[str, Any]]:
        """All objects of a kind as the API server has them."""
        return self.simulation.api.objects(kind)

    def node_of(self, pod: str) -> str:
        """The node of the pod namespace/name by the API server; '' when it has none, or is not there."""
        namespace, _, name = pod.partition("/")
        found = self.simulation.api.object("Pod", namespace, name)
        return str(found["spec"].get("nodeName") or "") if found is not None else ""

    def put(self, command: Input) -> None:
        """Gives the scheduler a command (`vcledger.scheduler.inputs`), such as AssumeTask and BindTask; it is acted on
        once time passes. One that is down does not hear it."""
        self.simulation.put(command)

    def run(self, seconds: float) -> None:
        """Lets time pass. AssertionError when something that must always hold did not."""
        self.simulation.run_for(int(seconds * SECOND))
        assert not self.simulation.broken, self.simulation.broken

    def fault(
        self, name: str, *, verb: str = "", kind: str = "", seconds: int = 5, count: int = 1, pick: int = 0
    ) -> None:
        """From now on: one of `vcledger.sim.faults.FAULTS`, such as crash, watch-dropped, or conflict for `verb` PUT of
        `kind` PersistentVolumeClaim. UnknownFault."""
        if name not in FAULTS:
            raise UnknownFault(f"there is no fault {name!r}; there are {', '.join(FAULTS)}")
        self.simulation.strike(Fault(0, name, verb, kind, seconds, count, pick))

    def rest(self) -> None:
        """No fault any more, until all is at rest; then the scheduler's cache equals what the server holds, and the
        state rebuilt from the log equals the live one. AssertionError when not."""
        come_to_rest(self.simulation)
        assert not self.simulation.broken, self.simulation.broken

    @property
    def hits(self) -> dict[str, int]:
        """The faults that struck so far, and how often. One that was asked for and that no request met is not here."""
        return {**self.simulation.hits, **self.simulation.port.hits}

    @property
    def flow(self) -> Flow:
        """The scheduler's state. SchedulerDown."""
        if self.simulation.loop is None:
            raise SchedulerDown("the scheduler has died and starts again in a moment: let time pass")
        return self.simulation.loop.flow


__all__ = ["SchedulerDown", "SimCluster"]
