"""What the scheduler does to its own cache, beside what it observes: resyncs, clean-ups, node syncs.

Owns these operations on the cache's arithmetic. Must not know where a decision or an API answer comes from. Called by
`projections.cache.fold` and the vector runner.
"""

from __future__ import annotations

from projections.cache.jobs import clean_up
from projections.cache.nodes import NodeUnknown, sync_node
from projections.cache.pods import add_task, delete_task
from projections.cache.state import Cache, TaskInfo
from projections.cache.volumes import ClaimMissing, with_volumes
from volcano.objects.status import task_status


def find_task(cache: Cache, key: str) -> TaskInfo | None:
    """The job's task behind a resync key '<job>/<uid>'; None where the job or the task is gone, or there is no job
    (115)."""
    job_key, _, uid = key.rpartition("/")
    job = cache.jobs.get(job_key)
    return job.tasks.get(uid) if job is not None else None


def resync_from_store(cache: Cache, key: str) -> bool:
    """A resync whose API answer is what the informer's store holds. True: done with; False: to be tried again."""
    task = find_task(cache, key)
    if task is None:
        return True
    ref = cache.pods.get(task.key)
    if ref is None:
        delete_task(cache, task)
        return True
    try:
        resource = with_volumes(cache, ref)
    except ClaimMissing:
        return False
    fresh = task.clone()
    fresh.uid, fresh.job, fresh.node_name = ref.uid, ref.job, ref.node_name
    fresh.status = task_status(ref.phase, ref.deleting, ref.node_name)
    fresh.resreq, fresh.best_effort, fresh.gated = resource, resource.is_empty(), ref.gated
    replace_task(cache, task, fresh)
    return True


def replace_task(cache: Cache, old: TaskInfo, new: TaskInfo) -> None:
    """Volcano's updateTask: delete the old, add the new."""
    delete_task(cache, old)
    add_task(cache, new)


def clean_up_jobs(cache: Cache) -> None:
    """Each queued clean-up once."""
    for key in sorted(cache.pending_cleanup):
        if clean_up(cache, key):
            del cache.pending_cleanup[key]
    cache.touched.rest = True


def sync_nodes(cache: Cache) -> list[str]:
    """Each node sync that failed before, once; the names of those that fail again."""
    failed = []
    for name in sorted(cache.pending_node_sync):
        try:
            sync_node(cache, name)
        except NodeUnknown:
            failed.append(name)
        else:
            del cache.pending_node_sync[name]
    cache.touched.rest = True
    return failed


__all__ = ["clean_up_jobs", "find_task", "replace_task", "resync_from_store", "sync_nodes"]
