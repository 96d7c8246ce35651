"""What of the record an answer rests on: which kinds have to have been looked at for it to be known.

Owns that. Must not know the log. Called by `vcledger.why`, which finds out what was looked at, and by
`projections.diagnosis.explain`.
"""

from __future__ import annotations

from projections.diagnosis.case import Case
from projections.diagnosis.views import claim_names

VOLUME_KINDS = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")


def kinds_needed(case: Case) -> list[str]:
    """The kinds whose objects, or absence, the verdict about a waiting pod or job rests on."""
    if not case.pending and not (case.is_job and case.pod is None):
        return []
    kinds = ["Node", "PodGroup"]
    if case.is_job or case.group_name:
        kinds.append("Queue")
    if case.pod is not None and claim_names(case.pod):
        kinds += VOLUME_KINDS
    return kinds


def unwatched_notes(case: Case) -> list[str]:
    """That nothing was recorded of some kinds on which the answer rests."""
    if not case.unwatched:
        return []
    kinds = ", ".join(case.unwatched)
    return [f"the record has no {kinds}: no list or watch of them, so whether there are any is not known"]
