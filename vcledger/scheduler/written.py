"""What we have written into the status of PodGroups and queues, and may not have seen yet; and whose a PodGroup is.

Owns that memory's shape and the rules read off it. Must not know what a status should be. Called by the fold, which
keeps it (`vcledger.scheduler.fold_status`), by the decider `vcledger.scheduler.statuses`, and by the session's mirror.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from volcano.objects.scheduling import PodGroup

if TYPE_CHECKING:
    from vcledger.scheduler.session.model import SessionJob
    from vcledger.scheduler.state import Flow

OUT, TAKEN, REFUSED = "out", "taken", "refused"


class Written(NamedTuple):
    """A status that was sent. `words` is what it says, `phase` a PodGroup's. `state`: out (no answer yet), taken
    (the object then had `version`), refused (and will be again)."""

    uid: str
    words: str
    phase: str
    state: str = OUT
    version: str = ""


def key_of(kind: str, key: str) -> str:
    """The key of `Flow.written`: the kind, and namespace/name or name."""
    return f"{kind}/{key}"


def before(seen: str, written: str) -> bool:
    """Whether a version that was seen is older than one that was written."""
    return seen.isdecimal() and written.isdecimal() and int(seen) < int(written)


def unseen(held: Written | None, uid: str, seen: str) -> bool:
    """Whether what was written may be at the API server and has not been seen: what was seen is no more the truth."""
    if held is None or held.uid != uid:
        return False
    return held.state == OUT or (held.state == TAKEN and before(seen, held.version))


def may_write(held: Written | None, uid: str, seen: str, words: str) -> bool:
    """Whether a status that differs from the one seen, in an object of this uid and version, is to be sent."""
    if held is None or held.uid != uid:
        return True
    if held.state == REFUSED:
        return held.words != words
    return not unseen(held, uid, seen)


def phase_of(flow: Flow, job: str, group: PodGroup) -> str:
    """The phase of a job's PodGroup: what we have written, as long as it has not been seen."""
    held = flow.written.get(key_of("PodGroup", job))
    if held is not None and unseen(held, group.metadata.uid, group.metadata.resource_version):
        return held.phase
    return group.status.phase


def is_ours(flow: Flow, job: SessionJob) -> bool:
    """Whether a PodGroup is this scheduler's to write to: by its pods; while it has none, by the Volcano Job that will
    make them; one without either is, unless another scheduler is at work in the cluster, too."""
    names = flow.config.cache.scheduler_names
    for task in job.tasks.values():
        ref = flow.cache.pods.get(task.key)
        if ref is not None and ref.uid == task.uid and ref.scheduler_name in names:
            return True
    if job.tasks or flow.others.get(job.uid):
        return False
    for owner in job.pod_group.metadata.owner_references or ():
        if owner.kind == "Job" and owner.api_version.startswith("batch.volcano.sh/"):
            return flow.job_schedulers.get(owner.uid) in names
    return flow.config.alone


__all__ = ["OUT", "REFUSED", "TAKEN", "Written", "before", "is_ours", "key_of", "may_write", "phase_of", "unseen"]
