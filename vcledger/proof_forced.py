"""A free replay that leaves no node to chance: wherever the record's node is among those that would do, it is taken.

Owns where the record put each pod, and the session that is held to it. Must not know how a moment is simulated. Called
by the proof's tests and page, and by users' code.

All else is decided by the session: who is let into a queue, in which order, who gets a place at all, who is evicted for
whom and, of those on the node, which. So what still differs from the record is not a matter of dice.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projections.cache import Cache
from vcledger.plugins import all_plugins
from vcledger.replay.deciding import MakeDecider, PodOf, SessionDecider
from vcledger.replay.engine import run_replay
from vcledger.scheduler.session.conf import DEFAULT_CONF, SessionConf, read_conf
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.outcome import Outcome
from vcledger.scheduler.session.run import run

if TYPE_CHECKING:
    from vcledger.ledger import Ledger
    from vcledger.replay.engine import ReplayPlan
    from vcledger.replay.report import ReplayResult


class Places(NamedTuple):
    """Where the record has pods, by UID: the first node that their status named, and the one that they were bound
    to."""

    named: dict[str, str]
    bound: dict[str, str]

    def of(self, uid: str) -> tuple[str, ...]:
        """The nodes of a pod, the first first."""
        return tuple(found[uid] for found in self if uid in found)


def places_of(ledger: Ledger, cluster: str) -> Places:
    """What a record says of the nodes of its pods."""
    named: dict[str, str] = {}
    bound: dict[str, str] = {}
    for one in ledger.recorded(cluster=cluster, kinds=["Pod"], families=["observation"]):
        pod = getattr(one.event, "object", None)
        if pod is None:
            continue
        if pod.status.nominated_node_name:
            named.setdefault(one.uid, pod.status.nominated_node_name)
        if pod.spec.node_name:
            bound.setdefault(one.uid, pod.spec.node_name)
    return Places(named, bound)


class Forced(SessionDecider):
    """A session that takes the nodes of `places`."""

    places: Places

    def decide(self, now: int, cycle: int, only: Collection[str] | None = None) -> Outcome:
        self._touched.clear()
        return run(
            self.mirror,
            self.conf,
            seed=self.seed,
            cycle=cycle,
            now=now,
            plugins=self.plugins,
            only=only,
            chooser=self.choose,
        )

    def choose(self, task: SessionTask, rows: NDArray[np.intp], scores: NDArray[np.float64]) -> int | None:
        """See `framework.Chooser`."""
        for name in self.places.of(task.uid):
            row = self.mirror.nodes.row.get(name, -1)
            if (rows == row).any():
                return row
        return None


def forced_decider(conf: SessionConf, places: Places, seed: int = 0) -> MakeDecider:
    """A maker of such sessions."""

    def made(cache: Cache, pod_of: PodOf) -> Forced:
        found = Forced(cache, pod_of, conf, seed, all_plugins())
        found.places = places
        return found

    return made


def run_forced(source: Ledger, plan: ReplayPlan, out: str) -> ReplayResult:
    """A free replay of a plan into a new ledger, held to the nodes of its source."""
    places = places_of(source, source.cluster(plan.cluster))
    return run_replay(source, plan, out=out, decider=forced_decider(read_conf(plan.conf or DEFAULT_CONF), places))


__all__ = ["Forced", "Places", "forced_decider", "places_of", "run_forced"]
