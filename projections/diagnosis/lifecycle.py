"""What a pod is before any scheduling: another scheduler's, gated, finished, gone, placed already.

Owns these verdicts. Must not know groups, queues or nodes. Called by `projections.diagnosis.explain`.
"""

from __future__ import annotations

from projections.diagnosis.case import Case
from projections.diagnosis.model import INFERRED, Evidence, Finding
from projections.diagnosis.words import counted
from volcano.objects.core import Pod

ATTEMPT_WORDS = ("failed to bind to node", "execute preBind for pod")
"""How the scheduler's FailedScheduling events about a bind begin."""


JOB_ENDS = ("Completed", "Completing", "Failed", "Aborted", "Aborting", "Terminated", "Terminating")
"""Phases of a Volcano Job that wants no more pods."""


def own_evidence(case: Case, proves: str) -> list[Evidence]:
    """The pod's own last observation as proof."""
    return (
        [Evidence(position=case.position, what=f"Pod {case.pod_key} as last seen", proves=proves)]
        if case.position
        else []
    )


def times_recorded(count: int, whole: bool) -> str:
    """`3 times`; where tries may have left no trace, `at least 3 times recorded` with why."""
    if whole:
        return counted(count, "time")
    return f"at least {counted(count, 'time')} recorded (tries without an event or audit line leave no trace)"


def every_try_recorded(tries: int, told: int) -> bool:
    """Whether each try has its own line, from an audit log or a bind flow: then Events tell of no more than those."""
    return tries > 0 and tries >= told


def job_evidence(case: Case, proves: str) -> list[Evidence]:
    """The Volcano Job's last observation as proof."""
    if not case.job_position:
        return []
    return [Evidence(position=case.job_position, what=f"Job {case.key} as last seen", proves=proves)]


def not_this_scheduler(case: Case) -> Finding | None:
    """The pod is left to a scheduler that isn't Volcano."""
    if case.pod is None or case.pod.spec.node_name:
        return None
    name = case.pod.spec.scheduler_name
    if name in case.scheduler_names:
        return None
    shown = name or "(none)"
    causes = [
        f"its schedulerName is {shown}: {', '.join(case.scheduler_names)} never looks at it, "
        f"and only {shown} can bind it"
    ]
    if case.scheduled_condition is None:
        causes.append(f"no scheduler has written a PodScheduled condition: {shown} may not be running")
    return Finding(
        verdict="not-this-scheduler",
        causes=causes,
        summary=f"not this scheduler's pod: its schedulerName is {shown}",
        since=case.created,
        evidence=own_evidence(case, f"schedulerName is {shown}"),
    )


def gated(case: Case) -> Finding | None:
    """Scheduling gates are still on it."""
    if case.pod is None or not case.pod.spec.scheduling_gates or not case.pending:
        return None
    gates = [gate.name for gate in case.pod.spec.scheduling_gates]
    them = "it" if len(gates) == 1 else "them"
    return Finding(
        verdict="gated",
        causes=[
            f"{counted(len(gates), 'scheduling gate')} still on it (schedulingGates): {', '.join(gates)}; "
            f"no scheduler tries it until whoever set {them} takes {them} off"
        ],
        summary=f"scheduling is gated by {', '.join(gates)}",
        since=case.created,
        message="Scheduling is blocked due to non-empty scheduling gates",
        evidence=own_evidence(case, f"schedulingGates: {', '.join(gates)}"),
    )


def finished(case: Case) -> Finding | None:
    """Succeeded or Failed; of a job, at its end."""
    if case.is_job:
        return _job_finished(case)
    if case.pod is None or case.gone_at or case.pod.status.phase not in {"Succeeded", "Failed"}:
        return None
    phase, node = case.pod.status.phase, case.pod.spec.node_name
    where = f" on {node}" if node else ""
    return Finding(
        verdict="finished",
        causes=[f"it has {phase.lower()}{where}{_said(case.pod.status.reason, case.pod.status.message)}"],
        summary=f"{phase}{where}",
        evidence=own_evidence(case, f"phase {phase}"),
    )


def _said(*words: str | None) -> str:
    """`: REASON MESSAGE`, of what a status says of itself; '' where it says neither."""
    given = " ".join(word for word in words if word)
    return f": {given}" if given else ""


def _job_finished(case: Case) -> Finding | None:
    state = case.job.status.state if case.job is not None else None
    if state is None or state.phase not in JOB_ENDS:
        return None
    return Finding(
        verdict="finished",
        causes=[f"the job is {state.phase}{_said(state.reason, state.message)}"],
        summary=state.phase,
        since=state.last_transition_time,
        evidence=job_evidence(case, f"phase {state.phase}"),
    )


def _ran(pod: Pod | None) -> str:
    """Where a pod that is gone ran. Published traces say that pods were scheduled, and not to which node."""
    if pod is not None and pod.spec.node_name:
        return f"it ran on {pod.spec.node_name}"
    conditions = (pod.status.conditions or ()) if pod is not None else ()
    if any(one.type == "PodScheduled" and one.status == "True" for one in conditions):
        return "it had been scheduled, to a node that the record does not name"
    return "it never had a node"


def deleted(case: Case) -> Finding | None:
    """Gone, or on its way out without ever having had a node."""
    if case.gone_at:
        how = " (inferred: no watch saw it go)" if case.gone_known == INFERRED else ""
        before = _ran(case.pod)
        return Finding(
            verdict="deleted",
            causes=[f"it was deleted at {case.gone_at}{how}; {before}"],
            summary=f"at {case.gone_at}",
            since=case.gone_at,
            evidence=[
                Evidence(
                    position=case.gone_position,
                    what=f"Pod {case.key} deleted",
                    proves="it is gone",
                    known=case.gone_known,
                )
            ],
        )
    if case.pod is not None and case.pod.metadata.deletion_timestamp and not case.pod.spec.node_name:
        when = case.pod.metadata.deletion_timestamp
        return Finding(
            verdict="terminating",
            causes=[
                f"it has been marked for deletion (by {when}), and no scheduler places a pod that is being deleted"
            ],
            summary="it is being deleted",
            since=when,
            evidence=own_evidence(case, "deletionTimestamp is set"),
        )
    return None


def scheduled(case: Case) -> Finding | None:
    """It has its node."""
    if case.pod is None or case.gone_at:
        return None
    node, phase = case.pod.spec.node_name, case.pod.status.phase or "Pending"
    if not node and phase == "Running":
        return _somewhere(case)
    if not node:
        return None
    condition = case.scheduled_condition
    causes = [f"it is on node {node}, phase {phase}: the scheduler has done its part"]
    if phase == "Pending":
        causes.append("it waits for the kubelet of that node to start it")
    causes += _before(case)
    return Finding(
        verdict="scheduled",
        causes=causes,
        summary=f"on node {node}, {phase}",
        since=condition.first if condition is not None and condition.status == "True" else None,
        message=f"Successfully assigned {case.key} to {node}",
        evidence=own_evidence(case, f"nodeName is {node}"),
    )


def _somewhere(case: Case) -> Finding:
    """It runs, and nothing says where: some traces leave the node out."""
    return Finding(
        verdict="scheduled",
        causes=["it runs; the record does not say on which node"],
        summary="Running, on a node that the record does not name",
        evidence=own_evidence(case, "phase Running"),
    )


def _before(case: Case) -> list[str]:
    """Attempts that failed before the one that went through."""
    failed = [attempt for attempt in case.attempts if not attempt.ok]
    said = [one for one in case.said_of("event", "FailedScheduling") if one.message.startswith(ATTEMPT_WORDS)]
    told = sum(one.count for one in said)
    count = max(len(failed), told)
    if not count:
        return []
    last = failed[-1].message if failed else said[-1].message
    times = times_recorded(count, every_try_recorded(len(failed), told))
    return [f"before that, binding it failed {times}, the last with: {last}"]
