"""The pods on nodes, as far as they can stand in others' way.

Owns which are kept: those with a required anti-affinity always, as it concerns everybody; the rest once somebody has
asked. Must not know sessions. Called by `vcledger.scheduler.session.mirror`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from projections.cache.state import HAS_ANTI_AFFINITY, Cache, PodRef
from projections.diagnosis.podaffinity import anti_affinity_terms
from projections.diagnosis.views import PlacedPod
from volcano.objects.core import Pod

_LOG_MAX = 200_000


class PlacedPods:
    """`guarded` are those with a required anti-affinity of their own, by key. Once all are kept, `log` has what became
    of each (before, after), for whoever reads on from where it was; it begins anew with another `epoch`. `known` are
    pods on nodes, or on their way there, that are known as such; of others the object is looked at."""

    def __init__(
        self,
        cache: Cache,
        pod_of: Callable[[PodRef], Pod | None],
        known: Callable[[str], PlacedPod | None] = lambda key: None,
    ) -> None:
        self.cache, self.pod_of, self.known = cache, pod_of, known
        self.guarded: dict[str, PlacedPod] = {}
        self._all: dict[str, PlacedPod] | None = None
        self.log: list[tuple[PlacedPod | None, PlacedPod | None]] = []
        self.epoch = 0

    def see(self, key: str, ref: PodRef | None) -> None:
        """A pod as it is now; None: it is gone."""
        self.guarded.pop(key, None)
        if self._all is None:
            self._see(key, ref)
            return
        before = self._all.pop(key, None)
        self._see(key, ref)
        after = self._all.get(key)
        if before is not None or after is not None:
            self.log.append((before, after))
        if len(self.log) > _LOG_MAX:
            self._renew()

    def _renew(self) -> None:
        self.log.clear()
        self.epoch += 1

    def _see(self, key: str, ref: PodRef | None) -> None:
        if ref is None or ref.phase in {"Succeeded", "Failed"}:
            return
        if self._all is None and not ref.flags & HAS_ANTI_AFFINITY:
            return
        one = self.known(key)
        if one is None:
            pod = self.pod_of(ref) if ref.node_name else None
            one = PlacedPod.of(pod, ref.node_name) if pod is not None else None
        if one is None or one.uid != ref.uid:
            return
        if anti_affinity_terms(one.affinity):
            self.guarded[key] = one
        if self._all is not None:
            self._all[key] = one

    def all(self) -> Mapping[str, PlacedPod]:
        """All of them, by key; read when first asked for, kept up from then on."""
        if self._all is None:
            self._all = {}
            for key, ref in self.cache.pods.items():
                if ref.node_name or self.known(key) is not None:
                    self._see(key, ref)
            self._renew()
        return self._all


__all__ = ["PlacedPods"]
