"""What we have written into the status of PodGroups and queues, and may not have seen yet; how long nothing is sent
after a refusal; and whose a PodGroup is.

Owns that memory's shape and the rules read off it. Must not know what a status should be. Called by the fold, which
keeps it (`vcledger.scheduler.fold_status`), by the deciders `vcledger.scheduler.statuses` and `binder`, and by the
session's mirror.

Volcano has no back-off here: its jobUpdater logs the error, and the next session sends again. Ours waits, the longer
the more often it was refused, and never for good: a proxy may have answered that knows nothing of the object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vcledger.scheduler.queues import backoff_microseconds
from volcano.objects.scheduling import PodGroup

if TYPE_CHECKING:
    from vcledger.scheduler.session.model import SessionJob
    from vcledger.scheduler.state import Flow

OUT, TAKEN, REFUSED = "out", "taken", "refused"

ROOT = "root"
"""The queue that all others are part of, where there is one."""

REFUSED_FIRST, REFUSED_MOST = 1_000_000, 60_000_000
"""Microseconds that nothing is sent after a refusal: doubled with each one in a row, up to a minute, so that what could
not be said while the API server was in trouble is said soon after."""

CONFLICT = 409
_CONTENT = (400, 422)
"""Codes by which the server judges what was sent, and nothing else."""


class Making(NamedTuple):
    """A queue that the scheduler makes when it starts; the fields as in Written. One that is taken is left alone while
    this process runs."""

    state: str = OUT
    failures: int = 0
    until: int = 0


class Written(NamedTuple):
    """A status that was sent. `words` is what it says, `phase` a PodGroup's. `state`: out (no answer yet), taken,
    refused. `version`: the one it was made for, once taken the one that the object then had. `failures`: refusals in a
    row, the last with `code` (0: no answer came); nothing is sent before `until` (microseconds)."""

    uid: str
    words: str
    phase: str
    state: str = OUT
    version: str = ""
    failures: int = 0
    until: int = 0
    code: int = 0


def wait_seconds(failures: int, wish: float | None) -> float:
    """How long nothing is sent after so many refusals in a row. `wish`: the server's Retry-After."""
    return max(backoff_microseconds(failures, REFUSED_FIRST, REFUSED_MOST) / 1_000_000, wish or 0.0)


def held_back(code: int, until: int, now: int, *, newer: bool = False, other: bool = False) -> bool:
    """Whether after a refusal it is too early to send again. A conflict is over once a `newer` version of the object
    was seen than the one it was sent for; other contents may do where these would not (`other`)."""
    return now < until and not (newer and code == CONFLICT) and not (other and code in _CONTENT)


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


def may_write(held: Written | None, uid: str, seen: str, words: str, now: int) -> bool:
    """Whether a status that differs from the one seen, in an object of this uid and version, is to be sent."""
    if held is None or held.uid != uid:
        return True
    if held.state == REFUSED:
        newer, other = before(held.version, seen), held.words != words
        return not held_back(held.code, held.until, now, newer=newer, other=other)
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


__all__ = [
    "OUT",
    "REFUSED",
    "ROOT",
    "TAKEN",
    "Making",
    "Written",
    "before",
    "held_back",
    "is_ours",
    "key_of",
    "may_write",
    "phase_of",
    "unseen",
    "wait_seconds",
]
