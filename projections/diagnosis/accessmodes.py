"""Claims that only one pod at a time may use (access mode ReadWriteOncePod).

Owns this check. Must not know nodes: a second user is refused wherever it would go. Called by
`projections.diagnosis.nodes`.
Source: kube-scheduler's VolumeRestrictions (readWriteOncePodPVCsForPod, satisfyReadWriteOncePod). Volcano's predicates
plugin does not run it; a second pod then waits at its node until the first is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from projections.diagnosis import reasons as texts
from projections.diagnosis.claims import PodClaims
from projections.diagnosis.reasons import Reason
from projections.diagnosis.views import ClusterView, PlacedPod

ONCE_PER_POD = "ReadWriteOncePod"


class AccessModes:
    """The check for one pod: who uses its claims is looked up once. The claims of ephemeral volumes are their pod's
    own."""

    def __init__(self, claims: PodClaims, cluster: ClusterView, placed: Sequence[PlacedPod]) -> None:
        self.counts = not cluster.ignores_access_modes
        alone = {
            state.key: state.name for state in claims.states if ONCE_PER_POD in (state.claim.spec.access_modes or ())
        }
        self.taken = [
            f"claim {alone[key]} is used by {pod.namespace}/{pod.name} on {pod.node}"
            for pod in (placed if alone else ())
            for name in pod.claims
            if (key := f"{pod.namespace}/{name}") in alone
        ]

    def check(self) -> list[Reason]:
        """The refusal, the same on every node."""
        if not self.taken:
            return []
        detail = "; ".join(self.taken)
        return [Reason("access-modes", texts.ACCESS_MODE, detail, final=False, scheduler=self.counts)]


__all__ = ["ONCE_PER_POD", "AccessModes"]
