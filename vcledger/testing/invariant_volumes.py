"""The rules about volumes: what is assumed is confirmed or reverted; a volume and a claim belong to each other alone.

Owns these rules. Pure, see `vcledger.testing.invariant_rules`. Called by `vcledger.testing.invariants`.
"""

from __future__ import annotations

from typing import Any

from projections.cache.state import Cache
from vcledger.testing.invariant_rules import CHANGED, Rule, own, pod_key
from volcano.events import binding, observation, volume
from volcano.events.base import Recorded
from volcano.objects.core import PersistentVolume, PersistentVolumeClaim, Pod

# --- 2: what is assumed is confirmed or reverted ------------------------------------------------------------------


class Assumptions(Rule):
    """Each assumed volume and claim is confirmed or reverted, never both, and none outlives its pod."""

    absent = "no volume was assumed"

    def __init__(self) -> None:
        super().__init__()
        self._assumed: dict[str, dict[str, None]] = {}
        self._pruned = False
        self._since: dict[str, None] = {}

    def begin(self, cache: Cache, position: int, *, whole: bool) -> None:
        self._pruned = True

    def after(self, recorded: Recorded, cache: Cache) -> None:
        event, uid = recorded.event, recorded.uid
        if isinstance(event, volume.VolumesAssumed):
            self._assume(recorded, event)
        elif isinstance(event, volume.VolumesBound):
            self._drop(recorded, names_of(event), "confirmed", whole=True)
        elif isinstance(event, volume.VolumesReverted):
            names = [*(f"PV {name}" for name in event.volumes), *(f"PVC {name}" for name in event.claims)]
            self._drop(recorded, names, "reverted", whole=False)
        elif isinstance(event, binding.BindSucceeded) and own(recorded) and self._assumed.get(uid):
            self._outlives(recorded, "the pod is bound")
        elif recorded.kind == "Pod" and isinstance(event, observation.ObjectDeleted) and self._assumed.get(uid):
            self._outlives(recorded, "the pod is gone")
        elif recorded.kind == "Pod" and isinstance(event, CHANGED) and self._assumed.get(uid):
            pod = event.object
            if isinstance(pod, Pod) and pod.status.phase == "Failed":
                self._outlives(recorded, "the pod has failed")

    def _assume(self, recorded: Recorded, event: volume.VolumesAssumed) -> None:
        self.seen += 1
        self._since[recorded.uid] = None
        held = self._assumed.setdefault(recorded.uid, {})
        for name in names_of(event):
            if name in held:
                self.breach(recorded.position, f"{name} was assumed for {pod_key(recorded)} already")
            held[name] = None

    def _drop(self, recorded: Recorded, names: list[str], how: str, *, whole: bool) -> None:
        if self._pruned and recorded.uid not in self._since:
            return
        held = self._assumed.get(recorded.uid, {})
        for name in names:
            if name not in held:
                self.breach(recorded.position, f"{name} is {how} for {pod_key(recorded)}, but it is not assumed")
            held.pop(name, None)
        if whole and held:
            self.breach(recorded.position, f"{', '.join(held)} of {pod_key(recorded)} neither confirmed nor reverted")
            held.clear()
        if not held:
            self._assumed.pop(recorded.uid, None)
            self.settle(recorded.uid)

    def _outlives(self, recorded: Recorded, why: str) -> None:
        names = ", ".join(self._assumed[recorded.uid])
        self.owe(recorded.uid, recorded, f"{names} is still assumed for {pod_key(recorded)}: {why}")


def names_of(event: volume.VolumesAssumed | volume.VolumesBound) -> list[str]:
    """The volumes and claims that it speaks of, each once."""
    names = [*(f"PV {one.volume}" for one in event.bindings), *(f"PVC {one.claim}" for one in event.bindings)]
    return list(dict.fromkeys([*names, *(f"PVC {one.claim}" for one in event.provisions)]))


# --- 3: one volume, one claim -------------------------------------------------------------------------------------


class OneClaim(Rule):
    """No PV is claimed by two claims, and no claim has two PVs; neither as the API server has it nor as assumed."""

    absent = "no claim or volume was bound or assumed"

    def __init__(self) -> None:
        super().__init__()
        self._volume_of: dict[str, str] = {}
        self._claim_of: dict[str, str] = {}
        self._claims: dict[str, dict[str, None]] = {}
        self._volumes: dict[str, dict[str, None]] = {}
        self._assumed: dict[str, tuple[str, str]] = {}

    def begin(self, cache: Cache, position: int, *, whole: bool) -> None:
        for claim in cache.claims.values():
            if claim.status.phase == "Bound" and claim.spec.volume_name:
                self._volume_of[claim.metadata.uid] = claim.spec.volume_name
                self._claims.setdefault(claim.spec.volume_name, {})[claim.metadata.uid] = None
        for found in cache.volumes.values():
            if found.status.phase == "Bound" and found.spec.claim_ref:
                self._claim_of[found.metadata.uid] = found.spec.claim_ref.uid
                self._volumes.setdefault(found.spec.claim_ref.uid, {})[found.metadata.uid] = None

    def after(self, recorded: Recorded, cache: Cache) -> None:
        event, uid = recorded.event, recorded.uid
        gone = isinstance(event, observation.ObjectDeleted)
        obj: Any = getattr(event, "object", None)
        if isinstance(obj, PersistentVolumeClaim):
            bound = "" if gone or obj.status.phase != "Bound" else obj.spec.volume_name
            self._move(recorded, self._volume_of, self._claims, uid, bound, "the volume {} is bound to two claims")
        elif isinstance(obj, PersistentVolume):
            claim = "" if gone or obj.status.phase != "Bound" or not obj.spec.claim_ref else obj.spec.claim_ref.uid
            self._move(recorded, self._claim_of, self._volumes, uid, claim, "the claim of uid {} has two volumes")
        elif isinstance(event, volume.VolumesAssumed):
            self._assume(recorded, event)
        elif isinstance(event, volume.VolumesBound):
            self._forget(recorded.uid, None)
        elif isinstance(event, volume.VolumesReverted):
            self._forget(recorded.uid, event.volumes)

    def _move(
        self,
        recorded: Recorded,
        of: dict[str, str],
        users: dict[str, dict[str, None]],
        uid: str,
        target: str,
        text: str,
    ) -> None:
        before = of.get(uid, "")
        if before != target:
            self.seen += 1
            users.get(before, {}).pop(uid, None)
            if target:
                of[uid] = target
                users.setdefault(target, {})[uid] = None
            else:
                of.pop(uid, None)
        for name in dict.fromkeys((before, target)):
            if len(users.get(name, ())) > 1 and name:
                self.owe((text, name), recorded, text.format(name))
            else:
                self.settle((text, name))

    def _assume(self, recorded: Recorded, event: volume.VolumesAssumed) -> None:
        for one in event.bindings:
            self.seen += 1
            other = self._assumed.get(one.volume)
            if other is not None and other != (recorded.uid, one.claim):
                self.breach(recorded.position, f"{one.volume} is assumed for {one.claim}, and still for {other[1]}")
            twice = [name for name, (_, claim) in self._assumed.items() if claim == one.claim and name != one.volume]
            if twice:
                self.breach(recorded.position, f"{one.claim} is assumed on {one.volume}, and still on {twice[0]}")
            self._assumed[one.volume] = (recorded.uid, one.claim)

    def _forget(self, uid: str, names: tuple[str, ...] | None) -> None:
        for name, (pod, _) in list(self._assumed.items()):
            if pod == uid and (names is None or name in names):
                del self._assumed[name]


__all__ = ["Assumptions", "OneClaim", "names_of"]
