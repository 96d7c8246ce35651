"""One cycle: a session is opened on a mirror, the configuration's actions run, and all is as before.

Owns the order of a cycle, and the undoing: nothing of the mirror changes but by an event that was appended. Must not
know what an action does. Called by `vcledger.replay` and by the scheduler.

Source: Volcano's framework.OpenSession, Scheduler.runOnce, CloseSession and SchedulerCache.RecordJobStatusEvent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from vcledger.scheduler.session.actions import ACTIONS
from vcledger.scheduler.session.closing import closing_of
from vcledger.scheduler.session.conf import SessionConf
from vcledger.scheduler.session.framework import Chooser, Plugin, PluginFactory, Session
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.session.model import PENDING, PIPELINED, SessionJob
from vcledger.scheduler.session.outcome import JobOutcome, Outcome, Placed, Unfit
from vcledger.scheduler.session.plugins import BUILTIN
from vcledger.scheduler.session.sampling import EVERY_NODE
from vcledger.scheduler.session.statement import revert
from vcledger.scheduler.session.words import ALLOCATED, fit_error, gang_error, task_why

GANG = "gang"


def run(
    mirror: Mirror,
    conf: SessionConf,
    *,
    seed: int = 0,
    cycle: int = 0,
    now: int = 0,
    plugins: Mapping[str, PluginFactory] = BUILTIN,
    only: Collection[str] | None = None,
    chooser: Chooser | None = None,
    spared: Collection[str] = (),
    promised: Mapping[str, str] = MappingProxyType({}),
    closing: Collection[str] = (),
    anew: bool = False,
) -> Outcome:
    """What a session decides. The same mirror, configuration and seed give the same, whatever way the mirror came to
    its state. `only`: the jobs, by uid, to which the cycle is limited. `chooser`: what decides on nodes, in place of
    the seed, and sees every node. `spared`: tasks, by UID, that are not to be evicted; `promised`: those that earlier
    evictions make room for, which come first, with their nodes. `closing`: the jobs of which the outcome says what
    their PodGroups should say at the session's close. `anew`: a pod may preempt again when the node that its status
    names is gone, which in Volcano it never may. Raises KeyError for an action or plugin of the configuration that
    there is not, which `conf.read_conf` refuses."""
    mirror.refresh()
    ssn = open_session(mirror, conf, seed=seed, now=now, only=only)
    ssn.chooser, ssn.spared, ssn.promised, ssn.anew = chooser, spared, promised, anew
    if chooser is not None:
        ssn.looks.sampling = EVERY_NODE
    outcome = Outcome(
        cycle, seed, conf.actions, len(ssn.jobs), len(ssn.nodes), len(ssn.queues), conf=conf, mirror=mirror
    )
    made: list[Plugin] = [plugins[one.name](one.arguments) for one in conf.plugins()]
    try:
        for plugin in made:
            plugin.on_open(ssn)
        mirror.feasible.open(ssn)
        for action in conf.actions:
            ACTIONS[action](ssn, outcome)
        gang = any(one.name == GANG for one in conf.plugins())
        _tell(ssn, outcome, gang)
        outcome.closings = [closing_of(ssn.jobs[uid], gang=gang) for uid in sorted(set(closing)) if uid in ssn.jobs]
        for plugin in made:
            plugin.on_close(ssn)
    finally:
        close_session(ssn)
    return outcome


def open_session(
    mirror: Mirror, conf: SessionConf, *, seed: int = 0, now: int = 0, only: Collection[str] | None = None
) -> Session:
    """A session on the mirror's data, which it changes in place until it is closed."""
    ssn = Session(
        conf,
        mirror.resources,
        mirror.nodes,
        mirror.jobs,
        mirror.queues,
        mirror.total,
        seed=seed,
        now=now,
        pod_of=mirror.pod,
        kept_of=mirror.kept,
    )
    ssn.waiting, ssn.unadmitted = mirror.waiting, mirror.unadmitted
    if only is not None:
        ssn.waiting = {uid: mirror.waiting[uid] for uid in sorted(set(only)) if uid in mirror.waiting}
        ssn.unadmitted = {uid: mirror.unadmitted[uid] for uid in sorted(set(only)) if uid in mirror.unadmitted}
    ssn.read, ssn.feasible, ssn.quotas = mirror.read, mirror.feasible, mirror.cache.quotas
    mirror.nodes.begin()
    mirror.feasible.open(ssn)
    return ssn


def close_session(ssn: Session) -> None:
    """All that was done is undone: the last first, and amounts to the last bit."""
    jobs = dict(ssn.waiting)
    for operation in reversed(list(ssn.done.values())):
        revert(ssn, operation)
        job = ssn.jobs.get(operation.task.job)
        if job is not None:
            jobs[job.uid] = job
    for uid, allocated in ssn.held.items():
        ssn.jobs[uid].allocated = allocated
    ssn.nodes.restore()
    ssn.feasible.open(ssn)
    for job in jobs.values():
        job.job_error = ""
        job.fit_errors.clear()
        job.tried.clear()
    for job in (*ssn.unadmitted.values(), *jobs.values()):
        job.phase = job.phase_at_open


def _tell(ssn: Session, outcome: Outcome, gang: bool) -> None:
    """What became of each job that waits, and what the conditions of its pods say."""
    bound = {one.task.uid for one in outcome.decisions if isinstance(one, Placed) and not one.pipelined}
    for uid in sorted(ssn.waiting):
        job = ssn.waiting[uid]
        job.job_error = fit_error(job)
        said = gang_error(job, job.job_error) if gang else ""
        found = outcome.jobs.get(uid)
        if found is None:
            found = JobOutcome(uid, "untried", ready=job.ready_count, needed=job.min_available)
        if said and found.outcome != "gated":
            message = found.message if found.outcome in {"invalid", "overused"} else said
            found = replace(found, reason=found.reason or "NotEnoughResources", message=message, sentence=said)
        outcome.jobs[uid] = found
        _unfit(job, outcome, bound)


def _unfit(job: SessionJob, outcome: Outcome, bound: set[str]) -> None:
    for status in (ALLOCATED, PENDING, PIPELINED):
        for uid in sorted(job.by_status.get(status, ())):
            task = job.tasks[uid]
            if task.gated or uid in bound:
                continue
            why = task_why(job, task)
            outcome.unfit[uid] = Unfit(task, why.reason, why.message, job.fit_errors.get(uid), why.node)


__all__ = ["close_session", "open_session", "run"]
