"""What the sync of nodes and the clean-up of jobs do to the flow.

Owns these changes, and the key of a clean-up. Must not know when a node is refused nor when a job is over. Called by
`vcledger.scheduler.fold_events`, by way of the table, and by `vcledger.scheduler.housekeeping`.
"""

from __future__ import annotations

from projections.cache import jobs
from vcledger.scheduler.fold_tasks import Apply, micros
from vcledger.scheduler.state import Flow
from volcano.events import cleanup, node_sync
from volcano.events.base import DomainEvent, Recorded
from volcano.events.observation import ListCompleted


def _node_done(flow: Flow, at: Recorded, event: DomainEvent) -> None:
    flow.node_sync.forget(at.name)


def _node_failed(flow: Flow, at: Recorded, event: node_sync.NodeSyncFailed) -> None:
    flow.node_sync.retry(at.name, flow.now + micros(event.delay_seconds), event.attempt)


def cleanup_key(job: str, podgroup_uid: str) -> str:
    """The key of a clean-up request."""
    return f"{job}/{podgroup_uid}"


def _cleanup_queued(flow: Flow, at: Recorded, event: cleanup.JobCleanupQueued) -> None:
    key = cleanup_key(event.job, event.podgroup_uid)
    flow.cleanup.add(key, flow.now + micros(event.delay_seconds))


def _cleanup_retried(flow: Flow, at: Recorded, event: cleanup.JobCleanupRetried) -> None:
    key = cleanup_key(event.job, event.podgroup_uid)
    flow.cleanup.retry(key, flow.now + micros(event.delay_seconds), event.attempt)


def _cleanup_dropped(flow: Flow, at: Recorded, event: cleanup.JobCleanupDropped) -> None:
    flow.cleanup.forget(cleanup_key(event.job, event.podgroup_uid))


def _job_deleted(flow: Flow, at: Recorded, event: cleanup.JobDeleted) -> None:
    flow.cleanup.forget(cleanup_key(event.job, event.podgroup_uid))
    job = flow.cache.jobs.get(event.job)
    if job is not None and job.terminated:
        jobs.drop_job(flow.cache, event.job)
    for store in (flow.podgroups, flow.said, flow.considered, flow.admitted):
        store.pop(event.job, None)


def _listed(flow: Flow, at: Recorded, event: ListCompleted) -> None:
    flow.listed[at.kind] = None


APPLY: dict[type[DomainEvent], Apply] = {
    ListCompleted: _listed,
    node_sync.NodeSynced: _node_done,
    node_sync.NodeRemoved: _node_done,
    node_sync.NodeSyncFailed: _node_failed,
    cleanup.JobCleanupQueued: _cleanup_queued,
    cleanup.JobCleanupRetried: _cleanup_retried,
    cleanup.JobCleanupDropped: _cleanup_dropped,
    cleanup.JobDeleted: _job_deleted,
}
"""Event to what it does."""
