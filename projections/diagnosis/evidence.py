"""Log positions as proof: of groups, queues, quotas, of what was said, of what is not there.

Owns making them. Must not know verdicts. Called by the checks.
"""

from __future__ import annotations

from collections.abc import Sequence

from projections.diagnosis.case import Case
from projections.diagnosis.model import RECOMPUTED, Evidence, Said


def group_evidence(case: Case, proves: str) -> list[Evidence]:
    """The PodGroup's last observation as proof."""
    if case.group is None or not case.group.position:
        return []
    return [Evidence(position=case.group.position, what=f"PodGroup {case.group.key} as last seen", proves=proves)]


def queue_evidence(case: Case, name: str) -> list[Evidence]:
    """The queue's last observation as proof, or that the log has none of that name up to the position."""
    view = case.cluster.positions.get(("Queue", name), 0)
    if not view and name in case.cluster.queues:
        view = case.cluster.queues[name].position
    if view:
        return [Evidence(position=view, what=f"Queue {name} as last seen", proves="its state, weight and capability")]
    if name in case.cluster.known_queues():
        return []
    return [absence(case, "Queue", name)]


def quota_evidence(case: Case, keys: Sequence[str]) -> list[Evidence]:
    """The last observations of quotas as proof."""
    found = []
    for key in keys:
        position = case.cluster.positions.get(("ResourceQuota", key), 0)
        if position:
            what = f"ResourceQuota {key} as last seen"
            found.append(Evidence(position=position, what=what, proves="what it allows, and what of it is used"))
    return found


def absence(case: Case, kind: str, name: str) -> Evidence:
    """That the log has no such object up to the position."""
    return Evidence(position=case.at, what=f"no {kind} {name} up to here", proves="it does not exist", known=RECOMPUTED)


def folded(case: Case, proves: str) -> Evidence:
    """Our own fold as proof."""
    return Evidence(position=case.at, what="the cache folded up to here", proves=proves, known=RECOMPUTED)


def said_evidence(said: Sequence[Said], proves: str) -> list[Evidence]:
    """Positions of what was said."""
    found = []
    for one in said:
        if one.position:
            what = f"{one.source} of {one.about}: {one.reason or f'{one.by}={one.status}'}"
            found.append(Evidence(position=one.position, what=what, proves=proves, known=one.known))
    return found
