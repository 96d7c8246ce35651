"""An allocation pass: a session where one is configured, else the minimal pass, gang by gang.

Owns which of them runs, and the minimal pass, of scenarios and simulations without a configuration (`vcledger schedule`
always has one): the order of jobs, requests against idle, every predicate of the node table, volumes, and that a gang
gets all it needs or nothing. It must not know queues' shares, preemption nor scores: those are the session's
(`vcledger.scheduler.cycle`). Called by `vcledger.scheduler.decide`.

Source: Volcano's allocate action with the gang and predicates plugins, on trial in `projections.diagnosis.gang`.
"""

from __future__ import annotations

from projections.cache.state import JobInfo
from projections.diagnosis.claims import pod_claims
from projections.diagnosis.gang import Trial, ready_count, try_gang
from projections.diagnosis.nodes import refuses
from projections.diagnosis.reasons import Reason, fit_message
from projections.diagnosis.views import ClusterView, GroupView, TaskView
from projections.diagnosis.volumes import Chosen, VolumeBinding
from projections.diagnosis.words import task_message
from vcledger.scheduler import binder, cycle, place
from vcledger.scheduler.decision import Hand, ref_of
from vcledger.scheduler.inputs import Allocate, AllocateJob, ScheduleTask
from vcledger.scheduler.session.events import ref_on
from vcledger.scheduler.state import Flow
from vcledger.scheduler.transitions import Phase
from vcledger.why_views import task_view
from volcano.events.base import Subject
from volcano.events.binding import BindQueued
from volcano.events.scheduling import AllocationDiscarded
from volcano.objects.status import TaskStatus

_PENDING = int(TaskStatus.PENDING)


def every_job(hand: Hand, command: Allocate) -> None:
    """The pass: a session where one is configured; else each job with pending tasks by itself, on the state that the
    one before has left."""
    flow = hand.flow
    if not flow.synced:
        return
    if flow.config.session is not None:
        cycle.run_session(hand, flow.config.session)
        return
    found = []
    for key, job in flow.cache.jobs.items():
        if job.pod_group is None or not job.tasks_by_status.get(_PENDING):
            continue
        if job.queue in flow.cache.queues or job.queue == flow.config.cache.default_queue:
            found.append((-job.priority, job.pod_group.metadata.creation_timestamp or "", key))
    hand.then += [AllocateJob(key) for _, _, key in sorted(found)]


def group_of(flow: Flow, job: JobInfo) -> GroupView:
    """The job as the trial looks at it. A task that waits for its resync is no candidate."""
    reported = place.reported(flow)
    tasks = []
    for task in job.tasks.values():
        ref, pod = flow.cache.pods.get(task.key), flow.pods.get(task.key)
        if task.status != _PENDING or ref is None or pod is None or ref.uid != task.uid:
            pod = None
        position = ref.position if ref is not None else 0
        tasks.append(task_view(task, pod, position, reported))
    name = job.name or job.uid.partition("/")[2]
    return GroupView(job.namespace or job.uid.partition("/")[0], name, job.pod_group, tasks, job.position)


def one_job(hand: Hand, key: str) -> None:
    """One gang: placed whole and queued for binding, or discarded."""
    flow = hand.flow
    job = flow.cache.jobs.get(key)
    if job is None or job.pod_group is None:
        return
    group = group_of(flow, job)
    pods = [task.pod for task in group.tasks if task.pod is not None]
    if not pods:
        return
    cluster = place.cluster_of(flow, pods)
    trial = try_gang(group, cluster)
    if trial.placed and not trial.short:
        plans, refused = _plans(hand, cluster, trial)
        if refused is None:
            _commit(hand, job, plans, trial)
        else:
            table = {refused.node: list(refused.refused)}
            place.unschedulable(hand, refused.task, key, fit_message(table), table)
    elif trial.short:
        _discard(hand, job, group, trial)
    if not trial.short:
        hand.then += [
            ScheduleTask(task.key)
            for task in group.tasks
            if task.best_effort and task.pod is not None and not task.gated
        ]
    for task in trial.order:
        _say(hand, key, group, trial, cluster, task)


def _say(hand: Hand, job: str, group: GroupView, trial: Trial, cluster: ClusterView, task: TaskView) -> None:
    """Why a member of the gang gets no node in this pass, in Volcano's words (JobInfo.TaskSchedulingReason). One that
    has a place gets it, unless the gang is short."""
    placed = task.uid in trial.placed
    if task.pod is not None and not (placed and not trial.short):
        reason = place.SCHEDULABLE if placed else place.UNSCHEDULABLE
        table = trial.failed.get(task.uid, {})
        place.unschedulable(hand, task, job, task_message(task, group, trial, cluster), table, reason)


def _plans(hand: Hand, cluster: ClusterView, trial: Trial) -> tuple[list[place.Plan], place.Plan | None]:
    """What each placed task takes, volumes that the ones before it take left out; and the first plan that is refused
    after all, and then the gang gets nothing."""
    flow = hand.flow
    plans: list[place.Plan] = []
    reserved: list[str] = []
    chosen: dict[str, Chosen] = {}
    nodes = {node.name: node for node in cluster.nodes}
    for task in trial.order:
        name = trial.placed.get(task.uid)
        if name is None or task.pod is None:
            continue
        claims = pod_claims(task.pod, cluster)
        binding = VolumeBinding(claims, cluster, reserved, chosen) if claims.states else None
        plan = place.claims_on(flow, task, binding, nodes[name])
        found = binding.check(nodes[name]) if binding is not None else []
        problems = [Reason("claims", one.text, one.detail) for one in claims.problems]
        if plan.refused or problems or refuses(found):
            return plans, plan._replace(refused=plan.refused or (*problems, *found))
        reserved += [one.volume for one in plan.bindings]
        if binding is not None:
            chosen.update(binding.picks(nodes[name]))
        plans.append(plan)
    return plans, None


def _commit(hand: Hand, job: JobInfo, plans: list[place.Plan], trial: Trial) -> None:
    """Each task gets its node and goes into the bind queue."""
    flow = hand.flow
    for index, plan in enumerate(plans):
        task, ready = plan.task, trial.ready + index + 1
        position = place.allocate(hand, plan, job.uid, task.position or None, ready=ready, needed=trial.needed)
        event = BindQueued(
            job=job.uid,
            node=plan.node,
            request=task.request,
            attempt=flow.attempts.get(task.uid, 0) + 1,
            queued=len(flow.bind_queue) + index + 1,
        )
        hand.add(place.subject_of(task), event, cause=position)


def _discard(hand: Hand, job: JobInfo, group: GroupView, trial: Trial) -> None:
    """The gang is short: nothing of it is kept, and that is written once."""
    breaker = trial.breaker
    words = f"gang: {trial.ready + len(trial.placed)} of {trial.needed} fit"
    if hand.flow.said.get(job.uid) == words:
        return
    placed = [task for task in trial.order if task.uid in trial.placed]
    event = AllocationDiscarded(
        job=job.uid,
        reason="NotEnoughResources" if breaker is not None else "NotEnoughTasks",
        message=words,
        gang_ready=ready_count(group),
        gang_needed=trial.needed,
        short_of=trial.short,
        tasks=tuple(ref_on(task, trial.placed[task.uid]) for task in placed),
        broken_by=ref_on(breaker, "") if breaker is not None else None,
    )
    hand.add(job_subject(job), event, cause=job.position or None)


def job_subject(job: JobInfo) -> Subject:
    """The stream of a job's PodGroup."""
    namespace, _, name = job.uid.partition("/")
    return Subject("PodGroup", namespace, name, job.pg_uid)


# --- commands about one task or job -------------------------------------------------------------------------------


def assume(hand: Hand, key: str, node: str) -> None:
    """Give one pod a node, if it may go there; else say why not."""
    flow = hand.flow
    ref = flow.cache.pods.get(key)
    if ref is None or ref.uid in flow.tasks or not flow.synced:
        return
    plan = place.plan_for(flow, key, node)
    if plan is None:
        return
    if plan.refused:
        table = {node: list(plan.refused)}
        place.unschedulable(hand, plan.task, ref.job, fit_message(table), table)
    else:
        place.allocate(hand, plan, ref.job, ref.position)


def bind(hand: Hand, keys: tuple[str, ...], node: str) -> list[str]:
    """Queue assumed tasks; the UIDs of those that were."""
    queued: list[str] = []
    for key in keys:
        task = hand.flow.task(key)
        if task is not None and task.phase is Phase.ASSUMED and task.node == node:
            binder.queue(hand, task, len(queued))
            queued.append(task.uid)
    return queued


def schedule(hand: Hand, key: str) -> None:
    """Find a node for one pod, or say why there is none."""
    flow = hand.flow
    ref, pod = flow.cache.pods.get(key), flow.pods.get(key)
    if ref is None or pod is None or ref.uid in flow.tasks or ref.gated or not flow.synced:
        return
    plan, table = place.plan_anywhere(flow, key)
    if plan is None:
        view = place.view_of(flow, ref, pod, place.reported(flow))
        place.unschedulable(hand, view, ref.job, fit_message(table), table)
        return
    cause = place.allocate(hand, plan, ref.job, ref.position)
    event = BindQueued(
        job=ref.job,
        node=plan.node,
        request=plan.task.request,
        attempt=flow.attempts.get(ref.uid, 0) + 1,
        queued=len(flow.bind_queue) + 1,
    )
    hand.add(place.subject_of(plan.task), event, cause=cause)


def discard(hand: Hand, key: str, reason: str) -> None:
    """Give back what the job's tasks hold that are not on their way yet: volumes first."""
    flow = hand.flow
    held = [task for task in flow.tasks.values() if task.job == key and task.phase is Phase.ASSUMED]
    if not held:
        return
    cause = max(task.cause for task in held)
    for task in held:
        binder.revert(hand, task, "AllocationDiscarded", reason, task.cause)
    job = flow.cache.jobs.get(key)
    ready = job.ready_task_num - len(held) if job is not None else 0
    needed = job.min_available if job is not None else 0
    event = AllocationDiscarded(
        job=key,
        reason="Discarded",
        message=reason,
        gang_ready=ready,
        gang_needed=needed,
        short_of=max(0, needed - ready),
        tasks=tuple(ref_of(task) for task in held),
    )
    hand.add(_subject(flow, key), event, cause=cause)


def _subject(flow: Flow, key: str) -> Subject:
    job = flow.cache.jobs.get(key)
    if job is not None:
        return job_subject(job)
    namespace, _, name = key.partition("/")
    return Subject("PodGroup", namespace, name, flow.podgroups.get(key, ""))


__all__ = ["assume", "bind", "discard", "every_job", "job_subject", "one_job", "schedule"]
